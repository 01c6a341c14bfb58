"""Network files made to harm: each is refused by an error of ours that names the limit, and soon."""

import gzip
import json
import lzma
import math
import os
import time

import pytest

import fubini as fb
from fubini.base.file_limits import Limits
from fubini.cli import main
from fubini.errors import FileFormatError
from fubini.io.bif import parse_bif
from fubini.io.files import to_network
from fubini.io.json_network import parse_json
from fubini.io.uai import parse_uai, parse_uai_evidence

pytestmark = pytest.mark.right_or_refused


def network(*nodes: dict) -> str:
    return json.dumps({"name": "n", "nodes": nodes})


def coin(**changes) -> dict:
    return {"name": "a", "type": "discrete", "states": ["u", "v"], "parents": [], "prob": [0.5, 0.5], **changes}


NORMAL = {"name": "h", "type": "gaussian", "parents": [], "intercept": 2.0, "coef": {}, "sd": 0.5}
BAD_JSON = {
    "a list as a parent": network(coin(parents=[[]])),
    "a number as a parent": network(coin(parents=[1])),
    "null as a parent": network(coin(parents=[None])),
    "400 digits": network({**NORMAL, "intercept": 10**400}),
    "5000 digits": network({**NORMAL, "intercept": 1}).replace("1,", "1" * 5000 + ","),
    "400 digits in a table": network(coin(prob=[10**400, 0.5])),
    "brackets": "[" * 200_000,
    "closed brackets": "[" * 100_000 + "]" * 100_000,
    "braces": '{"a":' * 200_000,
    "words as numbers": network(coin(prob=["0.5", "0.5"])),
    "truths as numbers": network(coin(prob=[True, False])),
    "lists as states": network(coin(states=[[1], [2]])),
    "a key twice": '{"nodes": [], "nodes": []}',
    "ragged numbers": network(coin(prob=[[0.5], 0.5])),
    "deep numbers": network(coin(prob=[[[0.5]], 0.5])),
    "a surrogate": '{"nodes": [{"name": "\\ud800"}]}',
    "NaN": network(coin(prob=[math.nan, 0.5])),
    "unclosed strings": '"\\' * 100_000,
}


@pytest.mark.parametrize("what", BAD_JSON)
def test_bad_json_is_refused(what) -> None:
    with pytest.raises(FileFormatError, match=r"evil\.json"):
        parse_json(BAD_JSON[what], "evil.json")


def test_depth_within_a_higher_limit_is_read() -> None:
    text = network(coin(note=[[[[[[]]]]]]))
    with pytest.raises(FileFormatError, match=r"the limit on depth(.|\n)*limits=fb.io.Limits\(depth=…\)"):
        parse_json(text, limits=Limits(depth=5))
    assert parse_json(text, limits=Limits(depth=20)).variables["a"].size == 2


def ones(count: int) -> str:
    """A factor over so many variables of one value."""
    return f"MARKOV {count} {'1 ' * count} 1 {count} {' '.join(map(str, range(count)))} 1 3.0"


def test_a_factor_over_more_variables_than_an_array_has_axes_is_refused() -> None:
    assert float(to_network(parse_uai(ones(64))).log_evidence()) == pytest.approx(math.log(3.0))
    with pytest.raises(FileFormatError, match="the limit on scope"):
        parse_uai(ones(65))
    names = [f"v{i}" for i in range(66)]
    blocks = "".join(f"variable {name} {{ type discrete [1] {{ x }}; }} " for name in names)
    with pytest.raises(FileFormatError, match="the limit on scope"):
        parse_bif(
            blocks
            + "".join(f"probability ( {name} ) {{ table 1; }}" for name in names[1:])
            + f"probability ( {' '.join(names)} ) {{ default 1; }}"
        )
    single = [coin(name=name, states=["x"], prob=[1.0]) for name in names]
    with pytest.raises(FileFormatError, match="the limit on scope"):
        parse_json(network(*single, coin(parents=names)))
    with pytest.raises(FileFormatError, match="at most 64, the axes of an array"):
        Limits(scope=100)


BLANKS = " " * 200_000
SLOW_BIF = [
    "network" + BLANKS,
    "variable" + BLANKS,
    "variable a" + BLANKS,
    "variable a {" + BLANKS,
    "probability (" + BLANKS,
]
SLOW_BIF += ["variable a { type" + BLANKS, "variable a { type discrete [" + BLANKS, "network n { property" + BLANKS]
SLOW_BIF += [
    "probability (" + '"a"' * 60_000,
    '"' * 200_001,
    "/*" * 100_001,
    "*/" * 100_001,
    "network n {} " + "{" * 200_000,
]


@pytest.mark.parametrize("text", SLOW_BIF, ids=range(len(SLOW_BIF)))
def test_bif_that_does_not_match_costs_no_more_than_its_length(text) -> None:
    """Blanks in a header took minutes: one try for each pair of them."""
    start = time.process_time()
    with pytest.raises(FileFormatError):
        parse_bif(text)
    assert time.process_time() - start < 5.0


def chain(count: int) -> str:
    scopes = "\n".join(f"2 {i} {i + 1}" for i in range(count))
    return f"MARKOV {count + 1} {'2 ' * (count + 1)} {count} {scopes} {'4 1 2 3 4 ' * count}"


def test_reading_many_factors_is_linear() -> None:
    """The text and all variables were gone through for each factor."""

    def cost(count: int) -> float:
        text = chain(count)
        start = time.process_time()
        to_network(parse_uai(text))
        return time.process_time() - start

    cost(200)
    assert cost(8000) < 12 * max(cost(2000), 0.05)


def test_evidence_on_many_variables_is_linear() -> None:
    record = parse_uai(f"MARKOV 20000 {'2 ' * 20000} 0")
    text = "20000 " + " ".join(f"{i} 1" for i in range(20000))
    start = time.process_time()
    assert len(parse_uai_evidence(text, variables=record.variables)) == 20000
    assert time.process_time() - start < 5.0


def test_a_default_row_over_many_parents_is_refused_before_it_is_made() -> None:
    names = [f"v{i}" for i in range(27)]
    text = "".join(f"variable {name} {{ type discrete [2] {{ x, y }}; }} " for name in names)
    text += "".join(f"probability ( {name} ) {{ table 0.5 0.5; }} " for name in names[1:])
    text += f"probability ( {' '.join(names)} ) {{ default 0.5 0.5; }}"
    with pytest.raises(FileFormatError, match=r"cells would be 134217\d+(.|\n)*Limits\(cells=…\)"):
        parse_bif(text)
    small = text.replace(" ".join(names), " ".join(names[:4]))
    with pytest.raises(FileFormatError, match="the limit on cells"):
        parse_bif(small, limits=Limits(cells=60))
    assert parse_bif(small, limits=Limits(cells=100)).tables[-1][1].shape == (2, 2, 2, 2)


COUNTS = {
    "states": ("MARKOV 1 1000000000000 0", "MARKOV 1 3 0", Limits(states=2)),
    "variables": ("MARKOV 1000000000000 2", "MARKOV 3 2 2 2 0", Limits(variables=2)),
    "factors": ("MARKOV 1 2 1000000000000", "MARKOV 1 2 2 1 0 1 0 2 1 1 2 1 1", Limits(factors=1)),
    "cells": (
        "MARKOV 30 " + "9 " * 30 + "1 30 " + " ".join(map(str, range(30))),
        "MARKOV 1 3 1 1 0 3 1 1 1",
        Limits(cells=2),
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_beyond_a_limit_are_refused_and_the_limit_is_named(name) -> None:
    large, small, limits = COUNTS[name]
    parse_uai(small)
    for text, some in ((large, Limits()), (small, limits)):
        with pytest.raises(FileFormatError, match=rf"the limit on {name}(.|\n)*limits=fb.io.Limits\({name}=…\)"):
            parse_uai(text, limits=some)


def test_a_regression_on_many_variables_counts_its_square() -> None:
    names = [f"v{i}" for i in range(50)]
    nodes = [{**NORMAL, "name": name} for name in names]
    last = {**NORMAL, "parents": names, "coef": dict.fromkeys(names, 1.0)}
    with pytest.raises(FileFormatError, match="the limit on cells"):
        parse_json(network(*nodes, last), limits=Limits(cells=2000))


@pytest.mark.parametrize("pack", [gzip, lzma])
def test_a_compressed_bomb_is_refused_when_it_is_too_long(pack, tmp_path) -> None:
    path = tmp_path / f"net.bif.{'gz' if pack is gzip else 'xz'}"
    path.write_bytes(pack.compress(b" " * 40_000_000))
    with pytest.raises(FileFormatError, match="the limit on bytes"):
        fb.io.read_bif(path)
    path.write_bytes(pack.compress(chain(2).encode()))
    assert len(fb.io.read_uai(path).factors) == 2
    with pytest.raises(FileFormatError, match="the limit on bytes"):
        fb.io.read_uai(path, limits=Limits(bytes=20))


def test_pipes_devices_and_folders_are_refused(tmp_path) -> None:
    os.mkfifo(tmp_path / "net.bif")
    for path in (tmp_path / "net.bif", "/dev/zero", tmp_path):
        for read in (fb.io.read_bif, fb.io.read_uai, fb.io.read_json):
            with pytest.raises(FileFormatError, match="a regular file"):
                read(path)
    with pytest.raises(FileFormatError):
        fb.io.read_bif("a\0b")


def test_a_stray_semicolon_is_no_label() -> None:
    """Found by mutations: it was read as a third label."""
    with pytest.raises(FileFormatError):
        parse_bif("variable a { type discrete [3] { x, y ; }; } probability ( a ) { table 0.2 0.3 0.5; }")


def test_a_long_message_is_cut() -> None:
    with pytest.raises(FileFormatError) as caught:
        parse_uai("x" * 10**6)
    assert len(str(caught.value)) < 10_000


EVIL = 'na\x1b]0;me\n\u202e"'


def test_the_command_line_escapes_control_characters(tmp_path, capsys) -> None:
    path = tmp_path / "evil.json"
    path.write_text(network(coin(name=EVIL, states=["x\x1b[31m", "\ud800"])))
    assert main(["query", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == 'na\\x1b]0;me\\n\\u202e"'
    assert "x\\x1b[31m" in out and "\\ud800" in out and "\x1b" not in out
    assert main(["query", str(path), "--plan", "--target", "b\x1b[31m"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_names_that_utf8_does_not_have_are_not_written(tmp_path) -> None:
    net = parse_json(network(coin(name="\ud800")))
    with pytest.raises(FileFormatError, match="UTF-8"):
        fb.io.write_bif(net, tmp_path / "net.bif")
    assert not list(tmp_path.iterdir())


def test_dot_escapes_quotes_and_backslashes() -> None:
    joint = fb.JointNamed(
        {'a"b': fb.dist.Normal(0.0, 1.0), "c\\": fb.dist.Normal(0.0, 1.0), "d\x1b": fb.dist.Normal(0.0, 1.0)}
    )
    lines = joint.graph().to_dot().splitlines()
    assert lines[1:4] == ['  "a\\"b";', '  "c\\\\";', '  "d\\\\x1b";']
    assert "\x1b" not in joint.graph().to_svg()


def test_mutated_files_are_read_right_or_refused(tmp_path) -> None:
    """A few of the cases of `python -m tests.thorough.mutations`, in this process."""
    from tests.thorough import mutated, mutations

    for name in ("bif", "xmlbif", "xdsl", "net", "uai", "evidence", "json", "cache"):
        subject = mutated.SUBJECTS[name](tmp_path)
        verdicts = {mutations.judge(subject, mutations.case(subject, 7, number))[0] for number in range(100)}
        assert verdicts <= {mutations.RIGHT, mutations.REFUSED}
