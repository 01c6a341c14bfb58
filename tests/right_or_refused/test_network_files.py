"""Network files as people write them: comments, keywords in any case, rounded rows, no network block."""

import json
import math

import numpy as np
import pytest

import fubini as fb
from fubini.errors import FileFormatError, FileFormatWarning
from fubini.io.bif import parse_bif
from fubini.io.json_network import parse_json
from fubini.io.uai import format_uai, parse_uai, parse_uai_evidence, parse_uai_marginals

pytestmark = pytest.mark.right_or_refused

PLAIN = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 0.25 0.75\n4\n 0.5 0.5\n 0.1 0.9\n"
COMMENTED = """c a file of the competition
# made by hand
BAYES // a chain
2 # variables
2 2 /* sizes
of both */
2
  c scopes
1 0
2 0 1
2   0.25 0.75 # the first
c
4   0.5 0.5
    0.1 0.9// the second
# the end"""


def test_uai_comments_are_passed_over() -> None:
    assert parse_uai(COMMENTED) == parse_uai(PLAIN)
    assert parse_uai_evidence("# one\n1 0 1 // pair") == {"x0": 1}
    assert parse_uai_marginals("MAR # of all\n1 2 0.25 0.75")["x0"].tolist() == [0.25, 0.75]


def test_a_fault_behind_comments_is_on_its_own_line() -> None:
    with pytest.raises(FileFormatError, match="line 13: 'x' among the values"):
        parse_uai(COMMENTED.replace("0.5 0.5", "0.5 x"))
    with pytest.raises(FileFormatError, match="line 2: a comment without an end"):
        parse_uai("MARKOV\n/* 2 2")


COIN = """network n { }
variable side { type discrete [ 2 ] { heads, tails }; property none ; }
variable seen { type discrete [ 2 ] { Heads, TAILS }; }
probability ( side ) { table 0.25, 0.75; }
probability ( seen | side ) { (heads) 0.9, 0.1; default 0.2, 0.8; }"""
KEYWORDS = ("network", "variable", "probability", "type discrete", "table", "default", "property")


@pytest.mark.parametrize("change", [str.upper, str.title])
def test_bif_keywords_in_any_case_and_labels_in_their_own(change) -> None:
    text = COIN
    for keyword in KEYWORDS:
        text = text.replace(keyword, change(keyword))
    assert parse_bif(text) == parse_bif(COIN)
    with pytest.raises(FileFormatError, match="unknown label 'Heads' of 'side'"):
        parse_bif(COIN.replace("(heads)", "(Heads)"))


def test_bif_without_a_network_block() -> None:
    record = parse_bif(COIN.partition("\n")[2])
    assert record.name == "" and record.tables[1][1].tolist() == [[0.9, 0.1], [0.2, 0.8]]
    with pytest.raises(FileFormatError, match="a second network block"):
        parse_bif("network a { }\n" + COIN)


def rounded(off: float) -> dict:
    """One network in each format, with a row that is off."""
    row = [0.3, 0.7 - off]
    node = {"name": "x0", "type": "discrete", "states": ["a", "b"], "parents": [], "prob": row}
    return {
        "bif": lambda: parse_bif(COIN.replace("0.25, 0.75", f"{row[0]}, {row[1]!r}")).tables[0][1],
        "uai": lambda: parse_uai(f"BAYES 1 2 1 1 0 2 {row[0]} {row[1]!r}").tables[0][1],
        "json": lambda: parse_json(json.dumps({"nodes": [node]})).factors[0].weights,
    }


@pytest.mark.parametrize("kind", rounded(0.0))
@pytest.mark.parametrize("off", [9e-4, -9e-4, 2e-6])
def test_rows_off_by_up_to_a_thousandth_are_normalised_with_one_warning(kind, off) -> None:
    with pytest.warns(FileFormatWarning, match="1 rows do not sum to 1") as caught:
        found = rounded(off)[kind]()
    assert len(caught) == 1
    np.testing.assert_allclose(found, np.array([0.3, 0.7 - off]) / (1 - off), rtol=1e-15)


@pytest.mark.parametrize("kind", rounded(0.0))
def test_rows_off_by_more_are_refused_and_by_less_need_no_warning(kind) -> None:
    with pytest.raises(FileFormatError):
        rounded(1.1e-3)[kind]()
    np.testing.assert_allclose(rounded(5e-7)[kind](), [0.3, 0.7], rtol=1e-6)


def test_many_rounded_rows_are_one_warning() -> None:
    with pytest.warns(FileFormatWarning, match="2 rows do not sum to 1, by up to 0.0005") as caught:
        parse_bif(COIN.replace("0.25, 0.75", "0.25, 0.7495").replace("0.9, 0.1", "0.9, 0.0999"))
    assert len(caught) == 1


def test_files_with_comments_answer_as_those_without(tmp_path) -> None:
    (tmp_path / "chain.uai").write_text(COMMENTED)
    (tmp_path / "chain.evid").write_text("1 1 0 # the second is 0\n")
    seen = fb.io.read_uai(tmp_path / "chain.uai", tmp_path / "chain.evid")
    assert float(seen.log_evidence()) == pytest.approx(math.log(0.25 * 0.5 + 0.75 * 0.1), rel=1e-14)
    assert parse_uai(format_uai(parse_uai(COMMENTED))) == parse_uai(PLAIN)
