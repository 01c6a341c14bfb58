"""BIF: what is written reads back exactly, every fault is named with its line, the repository's networks parse."""

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fubini.base.domains import Bint
from fubini.errors import DataError, FileFormatError
from fubini.io.bif import format_bif, parse_bif
from fubini.io.record import NetworkRecord
from tests.io.networks import networks

# name: nodes, arcs, free parameters
NETWORKS = {
    "asia": (8, 8, 18),
    "cancer": (5, 4, 10),
    "earthquake": (5, 4, 10),
    "sachs": (11, 17, 178),
    "survey": (6, 6, 21),
    "alarm": (37, 46, 509),
    "barley": (48, 84, 114005),
    "child": (20, 25, 230),
    "insurance": (27, 52, 1008),
    "mildew": (35, 46, 540150),
    "water": (32, 66, 10083),
    "hailfinder": (56, 66, 2656),
    "hepar2": (70, 123, 1453),
    "win95pts": (76, 112, 574),
    "munin1": (186, 273, 15622),
    "munin2": (1003, 1244, 69431),
    "munin3": (1041, 1306, 71059),
    "munin4": (1038, 1388, 80352),
    "munin": (1041, 1397, 80592),
    "andes": (223, 338, 1157),
    "diabetes": (413, 602, 429409),
    "link": (724, 1125, 14211),
    "pathfinder": (109, 195, 72079),
    "pigs": (441, 592, 5618),
}

RAIN = """\
network garden {
}
variable rain {
  type discrete [ 2 ] { no, yes };
}
variable sprinkler {
  type discrete [ 2 ] { off, on };
}
variable grass {
  type discrete [ 3 ] { dry, damp, wet };
}
probability ( rain ) {
  table 0.8, 0.2;
}
probability ( sprinkler | rain ) {
  (no) 0.6, 0.4;
  (yes) 0.99, 0.01;
}
probability ( grass | sprinkler, rain ) {
  (off, no) 0.9, 0.1, 0.0;
  (on, no) 0.2, 0.3, 0.5;
  (off, yes) 0.1, 0.3, 0.6;
  (on, yes) 0.0, 1e-2, 9.9E-1;
}
"""


def changed(old: str, new: str) -> str:
    assert RAIN.count(old) == 1
    return RAIN.replace(old, new)


def complaint(text: str) -> str:
    with pytest.raises(FileFormatError) as caught:
        parse_bif(text, "garden.bif")
    return str(caught.value)


def test_parse_rows() -> None:
    record = parse_bif(RAIN)
    assert (record.name, record.directed) == ("garden", True)
    assert record.variables["grass"] == Bint.labelled("dry", "damp", "wet")
    names, table = record.tables[2]
    assert names == ("sprinkler", "rain", "grass")
    assert table.dtype == np.float64
    assert table.flags.c_contiguous
    assert table.tolist() == [[[0.9, 0.1, 0.0], [0.1, 0.3, 0.6]], [[0.2, 0.3, 0.5], [0.0, 0.01, 0.99]]]


def test_parse_table_child_slowest() -> None:
    """The dog problem of Cozman's interchange format: p(dog-out | bowel-problem, family-out)."""
    record = parse_bif(
        """network "Dog-Problem" { //5 variables
            property "credal-set constant-density-bounded 1.1" ;
        }
        variable "bowel-problem" { //2 values
            type discrete[2] { "true" "false" };
            property "position = (335, 99)" ;
        }
        variable "dog-out" { type discrete[3] { "in" "out" "far away" }; property position = (1, 2) ; }
        variable "family-out" { type discrete[2] { "true" "false" }; }
        probability ( "bowel-problem" ) { table 0.01 0.99 ; }
        probability ( "dog-out" "bowel-problem" "family-out" ) { /* 3 variables
            and 12 values */
            table 0.90 0.80 0.7 0.2   0.09 0.17 0.2 0.1   0.01 0.03 0.1 0.7 ;
        }
        probability ( "family-out" ) { table 0.15 0.85 ; }"""
    )
    assert record.name == "Dog-Problem"
    assert record.variables["dog-out"].labels == ("in", "out", "far away")
    names, table = record.tables[1]
    assert names == ("bowel-problem", "family-out", "dog-out")
    assert table[0, 1].tolist() == [0.80, 0.17, 0.03]
    assert table[1, 0].tolist() == [0.7, 0.2, 0.1]
    assert table.flags.c_contiguous


def test_parse_default_row() -> None:
    text = changed("  (off, no) 0.9, 0.1, 0.0;\n", "  default 0.25, 0.25, 0.5;\n").replace(
        "  (off, yes) 0.1, 0.3, 0.6;\n", ""
    )
    table = parse_bif(text).tables[2][1]
    assert table[0].tolist() == [[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]]
    assert table[1, 0].tolist() == [0.2, 0.3, 0.5]


def test_parse_blocks_in_any_order_and_comments() -> None:
    network, *blocks = RAIN.replace("}\n", "}\f").split("\f")[:-1]
    shuffled = "".join(["// first\n", *reversed(blocks), "/* {\n */", network])
    assert dict(parse_bif(shuffled).variables) == dict(parse_bif(RAIN).variables)
    assert [names for names, _ in parse_bif(shuffled).tables][::-1] == [names for names, _ in parse_bif(RAIN).tables]


def test_parse_normalises_rows() -> None:
    table = parse_bif(changed("0.1, 0.3, 0.6;", "0.3333333, 0.3333333, 0.3333333;")).tables[2][1]
    assert np.allclose(table[0, 1], 1 / 3, rtol=1e-15, atol=0)


def test_parse_keeps_rows_off_by_rounding() -> None:
    row = [0.1] * 9 + [0.1 - 1e-15]
    record = NetworkRecord("n", {"a": Bint[10]}, ((("a",), np.array(row)),), directed=True)
    assert parse_bif(format_bif(record)).tables[0][1].tolist() == row


def test_round_trip() -> None:
    assert parse_bif(format_bif(parse_bif(RAIN))) == parse_bif(RAIN)


@given(networks())
def test_round_trip_of_any_network(record: NetworkRecord) -> None:
    assert parse_bif(format_bif(record)) == record


@given(networks(), st.integers(0, 10**6))
def test_cut_text_is_refused(record: NetworkRecord, place: int) -> None:
    text = format_bif(record).rstrip()
    with pytest.raises(FileFormatError, match=r"<text>, line \d+: "):
        parse_bif(text[: place % len(text)])


# name: where the text is cut, the cause, a part of what is expected or advised
CUTS = {
    "everywhere": ("network", "line 1: truncated: the text ends without a variable block", "variable name"),
    "after the name": ("variable rain", "line 2: truncated: the text ends without a variable block", "variable name"),
    "in a variable": ("damp", "line 10: truncated: the text ends in the variable block of 'grass'", "type discrete"),
    "in a keyword": ("ability ( rain", "line 12: truncated", "probability ( child | parents )"),
    "in a header": (", rain )", "line 19: truncated: the text ends inside 'probability ( grass", "probability ("),
    "in a row": ("0.3, 0.5", "line 21: truncated: the text ends in the probability block of 'grass'", "(labels)"),
    "between blocks": ("probability ( grass", "line 18: the text ends without a probability block of 'grass'", "fetch"),
}

# name: what is replaced (nothing: put at the end), by what, the cause, a part of what is expected or advised
FAULTS = {
    "open comment": ("", "/* and so on", "line 25: a comment without an end", "*/"),
    "two networks": ("", "network other { }", "line 25: a second network block", "one block"),
    "misspelt block": ("variable rain", "varable rain", "line 3: 'varable rain {' between blocks", "'variable'"),
    "trailing words": ("", "the end", "line 25: 'the end' between blocks", "network name {"),
    "misspelt statement": ("table", "tabel", "line 13: 'tabel 0.8, 0.2;' in the probability block", "'table'"),
    "missing semicolon": ("(no) 0.6, 0.4;", "(no) 0.6, 0.4", "line 16: '(no) 0.6, 0.4' in the", "end in ';'"),
    "missing brace": ("0.2;\n}", "0.2;", "line 14: 'probability ( sprinkler | rain ) {' in the", "or }"),
    "too few states": ("[ 3 ]", "[ 4 ]", "line 10: 4 states announced, 3 listed in the variable", "as many labels"),
    "repeated state": ("{ no, yes }", "{ no, no }", "line 4: 2 states announced, 2 listed", "all different"),
    "no type": ("type discrete [ 2 ] { no, yes };", "", "line 3: 0 types in the variable block of 'rain'", "type"),
    "too few values": ("0.2, 0.3, 0.5", "0.2, 0.8", "line 21: 2 values in the probability block", "3 values"),
    "too many values": ("0.8, 0.2", "0.8, 0.1, 0.1", "line 13: 3 values in the probability block", "2 values"),
    "not a number": ("0.3, 0.5", "0.3, half", "line 21: 'half' among the values", "numbers"),
    "underscore": ("0.3, 0.5", "0.3, 0_5", "line 21: '0_5' among the values", "numbers"),
    "unknown parent": ("| sprinkler", "| sprinkle", "line 19: the unknown parent 'sprinkle'", "'sprinkler'"),
    "unknown variable": ("( grass |", "( gras |", "line 19: the unknown variable 'gras'", "nearest:  'grass'"),
    "unknown label": ("(on, no)", "(onn, no)", "line 21: the unknown label 'onn' of 'sprinkler'", "nearest:  'on'"),
    "too few labels": ("(on, no)", "(on)", "line 21: 1 labels in the row (on)", "'sprinkler', 'rain'"),
    "repeated variable": ("variable grass", "variable rain", "line 9: a second variable block of 'rain'", "rename"),
    "repeated table": ("", "probability ( rain ) { }", "line 25: a second probability block of 'rain'", "remove"),
    "repeated parent": ("| sprinkler,", "| rain,", "line 19: the names 'grass', 'rain', 'rain'", "different parents"),
    "empty header": ("( grass | sprinkler, rain )", "( )", "line 19: the names none", "child | parents"),
    "missing row": ("(on, no) 0.2, 0.3, 0.5;", "", "line 19: no row (on, no) in the probability", "a default row"),
    "missing table": ("table 0.8, 0.2;", "", "line 12: no table in the probability block of 'rain'", "one row"),
    "repeated row": ("(on, no)", "(off, no)", "line 21: a second row (off, no) in the probability", "one row"),
    "repeated default": ("(on, no)", "default 1, 0, 0; default", "line 21: a second row default", "one row"),
    "table and rows": ("(no) 0.6", "table 0.6", "line 16: a table beside other values", "one table, or rows"),
    "negative value": ("0.2, 0.3, 0.5", "-1, 1, 1", "line 21: the row (on, no) in the probability", "none negative"),
    "value of a fault": ("0.2, 0.3, 0.5", "-1, 1, 1", "block of 'grass' holds -1.0", "none negative"),
    "nan": ("0.2, 0.3, 0.5", "nan, 0.3, 0.5", "block of 'grass' holds nan", "finite"),
    "infinity": ("0.2, 0.3, 0.5", "inf, 0.3, 0.5", "block of 'grass' holds inf", "finite"),
    "row with a wrong sum": ("0.2, 0.3", "0.25, 0.0", "block of 'grass' sums to 0.75", "within 0.001"),
    "line of a wrong sum": ("0.2, 0.3", "0.25, 0.0", "line 21: the row (on, no) in", "within 0.001"),
    "table with a wrong sum": ("0.8, 0.2", "0.8, 0.198", "line 13: the table in the", "within 0.001"),
    "default with a wrong sum": ("(on, no) 0.2", "default 0.9", "line 21: the row (on, no) in the", "within 0.001"),
    "cycle of one": ("( rain )", "( rain | rain )", "line 12: a cycle among the parents: rain -> rain", "remove"),
}


def check(message: str, cause: str, remedy: str) -> None:
    assert message.startswith("garden.bif, line ")
    assert cause in message
    assert remedy in message
    assert "expected: " in message
    assert "to do:    " in message


@pytest.mark.parametrize("cut", CUTS)
def test_cut_is_named(cut: str) -> None:
    marker, cause, remedy = CUTS[cut]
    check(complaint(RAIN[: RAIN.index(marker)]), cause, remedy)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named(fault: str) -> None:
    old, new, cause, remedy = FAULTS[fault]
    check(complaint(changed(old, new) if old else RAIN + new), cause, remedy)


def test_table_with_the_child_fastest_is_refused() -> None:
    message = complaint(changed("(no) 0.6, 0.4;\n  (yes) 0.99, 0.01;", "table 0.6, 0.4, 0.99, 0.01;"))
    assert "line 16: the row (no) in the probability block of 'sprinkler' sums to 1.5" in message
    assert "the child varies slowest" in message


def test_cycle_is_named() -> None:
    rows = "(off) 0.6, 0.4; (on) 0.99, 0.01;"
    message = complaint(changed("( rain ) {\n  table 0.8, 0.2;", f"( rain | sprinkler ) {{\n {rows}"))
    assert "line 12: a cycle among the parents: rain -> sprinkler -> rain" in message


def test_format_refuses_undirected_networks() -> None:
    record = NetworkRecord("field", {"a": Bint[2]}, ((("a",), np.ones(2)),), directed=False)
    with pytest.raises(FileFormatError, match="undirected network 'field'"):
        format_bif(record)


def test_format_refuses_quotes_in_names() -> None:
    record = NetworkRecord("n", {'a"b': Bint[1]}, ((('a"b',), np.ones(1)),), directed=True)
    with pytest.raises(FileFormatError, match="rename"):
        format_bif(record)


def test_record_refuses_tables_that_do_not_fit() -> None:
    variables = {"a": Bint[2], "b": Bint[3]}
    for names, table in [(("a",), np.ones(3)), (("c",), np.ones(2)), (("a", "b"), np.ones((3, 2)).T)]:
        with pytest.raises(DataError, match="C order"):
            NetworkRecord("n", variables, ((names, table),), directed=False)
    with pytest.raises(DataError, match="one table for each of 'a', 'b'"):
        NetworkRecord("n", variables, ((("a",), np.ones(2)),), directed=True)


def test_record_equality_is_exact() -> None:
    record = parse_bif(RAIN)
    tables = tuple(itertools.chain(record.tables[:-1], [(record.tables[-1][0], record.tables[-1][1] + 1e-16)]))
    assert record == parse_bif(RAIN)
    assert record != NetworkRecord(record.name, record.variables, tables, directed=True)
    assert record != "garden"


@pytest.mark.parametrize("name", NETWORKS)
def test_repository_network(data: Path, name: str) -> None:
    path = data / "bayes_nets" / "discrete" / f"{name}.bif.gz"
    record = parse_bif(gzip.decompress(path.read_bytes()).decode(), path.name)
    arcs = sum(len(names) - 1 for names, _ in record.tables)
    parameters = sum(table.size - table.size // table.shape[-1] for _, table in record.tables)
    assert (len(record.variables), arcs, parameters) == NETWORKS[name]
    assert all(np.allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-12) for _, table in record.tables)
    assert parse_bif(format_bif(record)) == record
