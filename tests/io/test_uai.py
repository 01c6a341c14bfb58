"""UAI: what is written reads back exactly, every fault is named with its line, the competition's files parse."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fubini.base.domains import Bint
from fubini.errors import DataError, FileFormatError, UnknownName
from fubini.io.record import NetworkRecord
from fubini.io.uai import (
    format_uai,
    format_uai_evidence,
    parse_uai,
    parse_uai_evidence,
    parse_uai_marginals,
    parse_uai_partition,
)

INSTANCES = (
    *("Alchemy_11", "CSP_12", "CSP_13", "DBN_11", "DBN_12", "Grids_11", "Grids_12", "ObjectDetection_61"),
    *("ObjectDetection_74", "Pedigree_11", "Pedigree_12", "Promedus_11", "Promedus_12", "Segmentation_11"),
    *("Segmentation_12", "linkage_11", "linkage_12"),
)

MODEL = """\
MARKOV
3
2 2 3
2
2 0 1
2 2 1

4
 4.0 2.5
 1.5 0.0
6
 1 2
 3 4
 5 6e-1
"""

CHAIN = """\
BAYES
2
2 3
2
1 0
2 0 1
2
 0.25 0.75
6
 0.5 0.25 0.25
 0.125 0.125 0.75
"""


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def complaint(parse, text: str, *more) -> str:
    with pytest.raises(FileFormatError) as caught:
        parse(text, "model.uai", *more)
    return str(caught.value)


def test_parse_markov() -> None:
    record = parse_uai(MODEL)
    assert not record.directed
    assert record.variables == {"x0": Bint[2], "x1": Bint[2], "x2": Bint[3]}
    (first, values), (second, others) = record.tables
    assert (first, second) == (("x0", "x1"), ("x2", "x1"))
    assert values.tolist() == [[4.0, 2.5], [1.5, 0.0]]
    assert others.tolist() == [[1, 2], [3, 4], [5, 0.6]]
    assert others.dtype == np.float64
    assert others.flags.c_contiguous


def test_parse_bayes() -> None:
    record = parse_uai(CHAIN)
    assert record.directed
    assert record.tables[1][0] == ("x0", "x1")
    assert record.tables[1][1].tolist() == [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]


def test_parse_normalises_rows() -> None:
    table = parse_uai(changed(CHAIN, "0.5 0.25 0.25", "0.3333333 0.3333333 0.3333333")).tables[1][1]
    assert np.allclose(table[0], 1 / 3, rtol=1e-15, atol=0)


def test_parse_constant_factor() -> None:
    ((names, table),) = parse_uai("MARKOV 1  2  1  0  1  2.5").tables
    assert (names, table.shape, float(table)) == ((), (), 2.5)


@st.composite
def networks(draw: st.DrawFn) -> NetworkRecord:
    """Small networks of both types, their values any finite non-negative floats."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    names = [f"x{index}" for index in range(len(sizes))]
    directed = draw(st.booleans())
    others = st.lists(st.sampled_from(names), unique=True, max_size=3)
    if directed:
        scopes = [[*(draw(others) if place else []), name] for place, name in enumerate(names)]
        scopes = [[n for n in scope[:-1] if n < scope[-1]] + scope[-1:] for scope in scopes]
    else:
        scopes = draw(st.lists(others, max_size=4))
    tables = []
    for scope in draw(st.permutations(scopes)):
        shape = [sizes[names.index(name)] for name in scope]
        count = int(np.prod(shape))
        values = draw(
            st.lists(st.floats(0, 1e3 if directed else None, allow_infinity=False), min_size=count, max_size=count)
        )
        table = np.array(values, dtype=np.float64).reshape(shape)
        if directed:
            table = table + 1e-3
            table = table / table.sum(axis=-1, keepdims=True)
        tables.append((tuple(scope), table))
    return NetworkRecord("", {n: Bint[size] for n, size in zip(names, sizes, strict=True)}, tuple(tables), directed)


@given(networks())
def test_round_trip_of_any_network(record: NetworkRecord) -> None:
    assert parse_uai(format_uai(record)) == record


@given(networks(), st.data())
def test_round_trip_of_evidence(record: NetworkRecord, drawn: st.DataObject) -> None:
    observed = drawn.draw(st.lists(st.sampled_from(list(record.variables)), unique=True))
    evidence = {name: drawn.draw(st.integers(0, record.variables[name].size - 1)) for name in observed}
    text = format_uai_evidence(evidence, record.variables)
    assert parse_uai_evidence(text) == evidence
    assert parse_uai_evidence("1\n" + text, "model.uai.evid", record.variables) == evidence


@given(networks(), st.integers(0, 10**6))
def test_cut_text_is_refused(record: NetworkRecord, place: int) -> None:
    words = format_uai(record).split()
    with pytest.raises(FileFormatError, match=r"<text>, line \d+: truncated"):
        parse_uai("\n".join(words[: place % len(words)]))


def test_format_forgets_names() -> None:
    record = NetworkRecord("coin", {"side": Bint.labelled("h", "t")}, ((("side",), np.array([0.25, 0.75])),), True)
    assert format_uai(record) == "BAYES\n1\n2\n1\n1 0\n2\n 0.25 0.75\n"


# name: what is replaced (nothing: put at the end), by what, the cause, a part of what is expected or advised
MODEL_FAULTS = {
    "wrong type": ("MARKOV", "MARKOW", "line 1: the type of model 'MARKOW'", "nearest:  'MARKOV'"),
    "no integer": ("2 2 3", "2 two 3", "line 3: the size of variable 1 is 'two'", "an integer of at least 1"),
    "empty domain": ("2 2 3", "2 0 3", "line 3: the size of variable 1 is '0'", "an integer of at least 1"),
    "endless integer": ("2 2 3", "2 2 " + "9" * 5000, "line 3: the size of variable 2", "an integer"),
    "index out of range": ("2 0 1", "2 0 3", "line 5: a variable of factor 0 is '3'", "an integer from 0 to 2"),
    "negative index": ("2 0 1", "2 0 -1", "line 5: a variable of factor 0 is '-1'", "an integer from 0 to 2"),
    "repeated index": ("2 0 1", "2 1 1", "line 5: factor 0 names the variables [1, 1]", "different variables"),
    "wrong count": ("\n6\n", "\n5\n", "line 11: 5 values announced for the table over 'x2', 'x1'", "sizes (3, 2)"),
    "too many values": ("", "7\n", "line 15: '7' after the last table", "the end of the text"),
    "trailing words": ("", "\nend", "line 16: 'end' after the last table", "the end of the text"),
    "not a number": ("3 4", "3 four", "line 13: 'four' among the values of the table over 'x2', 'x1'", "finite"),
    "underscore": ("3 4", "3 4_0", "line 13: '4_0' among the values", "finite numbers"),
    "negative": ("4.0 2.5", "4.0 -2.5", "line 9: '-2.5' among the values of the table over 'x0', 'x1'", "negative"),
    "negative, underscore": ("4.0 2.5\n 1.5", "4.0 -2.5\n 1_5", "line 10: '1_5' among the values", "finite"),
    "nan": ("4.0 2.5", "4.0 nan", "line 9: 'nan' among the values", "finite numbers"),
    "infinity": ("4.0 2.5", "4.0 inf", "line 9: 'inf' among the values", "finite numbers"),
}

CHAIN_FAULTS = {
    "second child": ("2 0 1", "2 1 0", "line 6: factor 1 is a second table of 'x0'", "one factor for each variable"),
    "no child": ("1 0\n", "0\n", "line 5: factor 0 has no child", "one factor for each variable"),
    "missing child": ("2\n1 0\n", "1\n", "line 5: no factor of a BAYES model has the child 'x0'", "or say MARKOV"),
    "wrong sum": ("0.125 0.125 0.75", "0 0 0.5", "line 11: row 1 of the table over 'x0', 'x1' sums to 0.5", "0.001"),
    "cycle": ("1 0\n", "2 1 0\n", "line 5: a cycle among the parents: x0 -> x1 -> x0", "remove one arc"),
}

# name: where the text is cut, the cause, what is expected
MODEL_CUTS = {
    "everywhere": ("MARKOV", "line 1: truncated: the text ends before the type of the model", "the type"),
    "in a scope": ("2 1\n", "line 6: truncated: the text ends before a variable of factor 1", "a variable"),
    "in a table": (" 5 6e-1", "line 13: truncated: the text ends inside the table over 'x2', 'x1', after 4 of 6", "6"),
}

EVIDENCE_FAULTS = {
    "empty": ("", "line 1: truncated", "the number of observed variables"),
    "cut": ("2\n0 1\n1", "line 3: truncated: the text ends before the value of 'x1'", "the value of 'x1'"),
    "index out of range": ("1\n3 0", "line 2: an observed variable is '3'", "an integer from 0 to 2"),
    "value out of range": ("2\n0 1\n1 2", "line 3: the value of 'x1' is '2'", "an integer from 0 to 1"),
    "second value": ("2\n0 1\n0 0", "line 3: a second value of 'x0'", "one value"),
    "trailing words": ("0\n0 1", "line 2: '0' after 0 pairs of evidence", "the end of the text"),
    "two sets": ("2\n1 0 1\n1 0 0", "line 3: '0' after 2 pairs of evidence", "the end of the text"),
}

MARGINAL_FAULTS = {
    "empty": ("", "line 1: truncated", "the number of variables"),
    "wrong header": ("MPE\n1 2 0.5 0.5", "line 1: the number of variables is 'MPE'", "an integer"),
    "cut": ("MAR\n2 1 1\n3 0.1", "line 3: truncated: the text ends inside the marginal of variable 1", "3 values"),
    "trailing words": ("MAR\n1 2 0.5 0.5\n0.5", "line 3: '0.5' after the last marginal", "the end of the text"),
    "negative": ("MAR\n1 2 -0.5 1.5", "line 2: '-0.5' among the values of the marginal of variable 0", "none negative"),
}

PARTITION_FAULTS = {
    "empty": ("PR", "line 1: truncated", "the logarithm"),
    "not a number": ("PR\nsix", "line 2: the logarithm of the partition function is 'six'", "a number"),
    "nan": ("PR\nnan", "line 2: the logarithm of the partition function is 'nan'", "a number"),
    "trailing words": ("PR\n-1.5\n2", "line 3: '2' after", "the end of the text"),
}


def check(message: str, cause: str, remedy: str) -> None:
    assert message.startswith("model.uai, line ")
    assert cause in message
    assert remedy in message
    assert "expected: " in message
    assert "to do:    " in message


@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_fault_of_a_model_is_named(fault: str) -> None:
    old, new, cause, remedy = MODEL_FAULTS[fault]
    check(complaint(parse_uai, changed(MODEL, old, new) if old else MODEL + new), cause, remedy)


@pytest.mark.parametrize("fault", CHAIN_FAULTS)
def test_fault_of_a_directed_model_is_named(fault: str) -> None:
    old, new, cause, remedy = CHAIN_FAULTS[fault]
    check(complaint(parse_uai, changed(CHAIN, old, new)), cause, remedy)


@pytest.mark.parametrize("cut", MODEL_CUTS)
def test_cut_of_a_model_is_named(cut: str) -> None:
    marker, cause, remedy = MODEL_CUTS[cut]
    check(complaint(parse_uai, MODEL[: MODEL.index(marker)]), cause, remedy)


@pytest.mark.parametrize("fault", EVIDENCE_FAULTS)
def test_fault_of_evidence_is_named(fault: str) -> None:
    text, cause, remedy = EVIDENCE_FAULTS[fault]
    check(complaint(parse_uai_evidence, text, parse_uai(MODEL).variables), cause, remedy)


@pytest.mark.parametrize("fault", MARGINAL_FAULTS)
def test_fault_of_marginals_is_named(fault: str) -> None:
    text, cause, remedy = MARGINAL_FAULTS[fault]
    check(complaint(parse_uai_marginals, text), cause, remedy)


@pytest.mark.parametrize("fault", PARTITION_FAULTS)
def test_fault_of_a_partition_is_named(fault: str) -> None:
    text, cause, remedy = PARTITION_FAULTS[fault]
    check(complaint(parse_uai_partition, text), cause, remedy)


@pytest.mark.parametrize("text", ["2 0 1 2 0", "1\n2 0 1 2 0", "1\n2\n0 1\n2 0\n"])
def test_parse_evidence(text: str) -> None:
    assert parse_uai_evidence(text) == {"x0": 1, "x2": 0}


@pytest.mark.parametrize("text", ["0", "0\n", "1\n0\n"])
def test_parse_empty_evidence(text: str) -> None:
    assert parse_uai_evidence(text) == {}


def test_parse_evidence_of_one_variable() -> None:
    assert parse_uai_evidence("1 1 0") == parse_uai_evidence("1 1 1 0") == {"x1": 0}


def test_evidence_takes_the_names_of_the_record() -> None:
    record = NetworkRecord("", {"side": Bint[2]}, ((("side",), np.ones(2)),), directed=False)
    assert parse_uai_evidence("1 0 1", variables=record.variables) == {"side": 1}
    assert format_uai_evidence({"side": 1}, record.variables) == "1 0 1\n"


def test_format_evidence_refuses_what_the_network_lacks() -> None:
    with pytest.raises(UnknownName, match="nearest:  'x2'"):
        format_uai_evidence({"x22": 0}, parse_uai(MODEL).variables)
    with pytest.raises(DataError, match="a value from 0 to 2"):
        format_uai_evidence({"x2": 3}, parse_uai(MODEL).variables)


def test_parse_results() -> None:
    marginals = parse_uai_marginals("MAR\n2 1 1 3 0.5 0.25 2.5e-1")
    assert {name: values.tolist() for name, values in marginals.items()} == {"x0": [1.0], "x1": [0.5, 0.25, 0.25]}
    assert parse_uai_marginals("1 2 0 1")["x0"].tolist() == [0, 1]
    assert parse_uai_partition("PR\n-17.2155\n") == parse_uai_partition("-17.2155") == -17.2155
    assert parse_uai_partition("PR -inf") == -np.inf


@pytest.mark.parametrize("instance", INSTANCES)
def test_competition_instance(data: Path, instance: str) -> None:
    folder = data / "uai2014"
    with (folder / "index.csv").open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["instance"] == instance)
    record = parse_uai(gzip.decompress((folder / f"{instance}.uai.gz").read_bytes()).decode(), instance)
    evidence = parse_uai_evidence((folder / f"{instance}.uai.evid").read_text(), instance, record.variables)
    marginals = parse_uai_marginals((folder / f"{instance}.uai.MAR").read_text(), instance)
    sizes = {name: domain.size for name, domain in record.variables.items()}
    found = [len(sizes), max(sizes.values()), len(record.tables), len(evidence)]
    assert found == [int(row[column]) for column in ("variables", "max_card", "factors", "evidence")]
    assert record.directed == (row["type"] == "BAYES")
    assert {name: len(values) for name, values in marginals.items()} == sizes
    assert all(marginals[name][value] == 1 for name, value in evidence.items())
    assert parse_uai_partition((folder / f"{instance}.uai.PR").read_text(), instance) == float(row["log10_PR"])
    assert parse_uai(format_uai(record)) == record
