"""XMLBIF, NET and XDSL: what is written reads back exactly, every fault is named with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb
from fubini.base.domains import Bint
from fubini.errors import FileFormatError
from fubini.io.bif import format_bif, parse_bif
from fubini.io.net import format_net, parse_net
from fubini.io.record import NetworkRecord
from fubini.io.xdsl import format_xdsl, parse_xdsl
from fubini.io.xmlbif import format_xmlbif, parse_xmlbif
from tests.io.networks import labels, networks, xml_labels
from tests.io.test_bif import NETWORKS

FORMATS = {
    "xmlbif": (parse_xmlbif, format_xmlbif),
    "net": (parse_net, format_net),
    "xdsl": (parse_xdsl, format_xdsl),
}
every_format = pytest.mark.parametrize("form", FORMATS)
ODD = st.one_of(labels, st.sampled_from(['"', "\\", 'a"b', "a\\n", "  ", "<&>", "a b", "a_b", "%"]))
LARGE = ("munin", "munin2", "munin3", "munin4", "mildew", "diabetes", "barley", "pathfinder", "link")


def by_child(record: NetworkRecord) -> dict:
    return {names[-1]: (names, table) for names, table in record.tables}


def assert_same(found: NetworkRecord, expected: NetworkRecord) -> None:
    """The same, save for the order of the variables, which XDSL does not keep."""
    assert (found.name, found.directed, found.variables) == (expected.name, True, expected.variables)
    tables, others = by_child(found), by_child(expected)
    assert tables.keys() == others.keys()
    for child, (names, table) in tables.items():
        assert names == others[child][0]
        np.testing.assert_array_equal(table, others[child][1], strict=True)


# -- what reads back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in LARGE])
def test_repository_network_through_all_formats(data: Path, name: str) -> None:
    through_all_formats(data, name)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", LARGE)
def test_large_repository_network_through_all_formats(data: Path, name: str) -> None:
    through_all_formats(data, name)


def through_all_formats(data: Path, name: str) -> None:
    """BIF → XMLBIF → NET → XDSL → BIF: every name, label and number of every table."""
    path = data / "bayes_nets" / "discrete" / f"{name}.bif.gz"
    first = record = parse_bif(gzip.decompress(path.read_bytes()).decode(), path.name)
    for parse, write in (*FORMATS.values(), (parse_bif, format_bif)):
        record = parse(write(record), name)
    assert_same(record, first)


@pytest.mark.parametrize("name", ["asia", "child", "sachs"])
def test_marginals_through_all_formats(data: Path, tmp_path: Path, name: str) -> None:
    net = first = fb.io.read_network(data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
    for suffix in (".xmlbif", ".net.gz", ".xdsl.xz", ".bif"):
        fb.io.write_network(net, tmp_path / f"{name}{suffix}")
        net = fb.io.read_network(tmp_path / f"{name}{suffix}")
    found, expected = net.marginals(), first.marginals()
    assert found.keys() == expected.keys()
    for variable, marginal in expected.items():
        np.testing.assert_allclose(found[variable].weights, marginal.weights, rtol=1e-13)


@given(networks(ODD))
def test_any_network_through_net(record: NetworkRecord) -> None:
    assert parse_net(format_net(record)) == record


@given(networks(xml_labels))
def test_any_network_through_xml(record: NetworkRecord) -> None:
    assert parse_xmlbif(format_xmlbif(record)) == record
    assert_same(parse_xdsl(format_xdsl(record)), record)


@every_format
@settings(max_examples=40)
@given(record=networks(xml_labels), place=st.integers(0, 10**6))
def test_cut_text_is_refused(form: str, record: NetworkRecord, place: int) -> None:
    parse, write = FORMATS[form]
    text = write(record).rstrip()
    with pytest.raises(FileFormatError, match=r"<text>, line \d+: "):
        parse(text[: place % len(text)])


@every_format
def test_names_that_are_no_identifiers(form: str) -> None:
    """Identifiers that are made for them collide with no other."""
    parse, write = FORMATS[form]
    names = ["far away", "far_away", "far-away", "2", "x2", "", " a ", "é", "a\tb"]
    variables = {name: Bint.labelled("<5 %", ">5 %", "0.05") for name in names}
    tables = [((name,), np.array([0.1, 0.2, 0.7])) for name in names]
    tables[1] = (("far away", "é", "far_away"), np.full((3, 3, 3), [0.25, 0.25, 0.5]))
    record = NetworkRecord('odd "one"', variables, tuple(tables), directed=True)
    assert_same(parse(write(record)), record)


@every_format
def test_numbers_read_back_exactly(form: str) -> None:
    parse, write = FORMATS[form]
    row = np.array([5e-324, 1e-300, 0.1 + 0.2, 1 / 3, 1 - 0.3 - 1 / 3])
    record = NetworkRecord("n", {"a": Bint[5]}, ((("a",), row),), directed=True)
    assert parse(write(record)).tables[0][1].tolist() == row.tolist()


@every_format
def test_undirected_networks_are_not_written(form: str) -> None:
    record = NetworkRecord("field", {"a": Bint[2]}, ((("a",), np.ones(2)),), directed=False)
    with pytest.raises(FileFormatError, match=r"undirected network 'field'(.|\n)*\.uai"):
        FORMATS[form][1](record)


@pytest.mark.parametrize("form", ["xmlbif", "xdsl"])
def test_characters_that_xml_does_not_have_are_not_written(form: str) -> None:
    record = NetworkRecord("n", {"a\0": Bint[2]}, ((("a\0",), np.array([0.5, 0.5])),), directed=True)
    with pytest.raises(FileFormatError, match="rename"):
        FORMATS[form][1](record)


# -- as other programs write them -------------------------------------------------------------------------------------

XMLBIF = """\
<?xml version="1.0"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST VARIABLE TYPE (nature|decision|utility) "nature">
]>
<BIF VERSION="0.3" xmlns="http://www.cs.ubc.ca/labs/lci/fopi/ve/XMLBIFv0_3">
<NETWORK>
<NAME>Garden</NAME>
<PROPERTY>author someone</PROPERTY>
<VARIABLE TYPE="nature">
  <NAME>rain</NAME>
  <OUTCOME>no</OUTCOME>
  <OUTCOME>yes</OUTCOME>
  <PROPERTY>position = (73, 165)</PROPERTY>
</VARIABLE>
<VARIABLE><NAME> grass </NAME><OUTCOME>dry</OUTCOME><OUTCOME>damp</OUTCOME><OUTCOME>wet &amp; cold</OUTCOME></VARIABLE>
<!-- tables -->
<DEFINITION>
  <FOR>grass</FOR>
  <GIVEN>rain</GIVEN>
  <TABLE>0.9 0.1 0.0 <!-- dry days -->
    0.2 0.3 0.5</TABLE>
</DEFINITION>
<DEFINITION><FOR>rain</FOR><TABLE>0.8 0.2</TABLE></DEFINITION>
</NETWORK>
</BIF>
"""
NET = """\
% a garden
net
{
    node_size = (80 40);
    HR_Desc = "a garden; with } and %";
    name = "Garden";
}
node rain
{
    label = "Did it rain?";
    position = (100 50);
    states = ("no" "yes");
}
discrete node grass
{
    states = ("dry" "damp" "wet & cold");
}
potential (grass | rain)
{
    data = (( 0.9 0.1 0.0 )    %  rain=no
            ( 0.2 0.3 0.5 ));
}
potential (rain)
{
    data = ( 0.8 0.2 );
    experience = (10);
}
"""
XDSL = """\
<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- written by GeNIe -->
<smile version="1.0" id="Garden" numsamples="10000" discsamples="10000">
  <nodes>
    <cpt id="rain" diagtype="target" ranked="true">
      <state id="no" />
      <state id="yes" fault="true" />
      <property id="literature">none</property>
      <probabilities>0.8 0.2</probabilities>
    </cpt>
    <cpt id="grass">
      <state id="dry" />
      <state id="damp" />
      <state id="wet" />
      <parents>rain</parents>
      <probabilities>0.9 0.1 0.0 0.2 0.3 0.5</probabilities>
    </cpt>
    <deterministic id="umbrella">
      <state id="open" />
      <state id="closed" />
      <parents>rain</parents>
      <resultingstates>closed open</resultingstates>
    </deterministic>
  </nodes>
  <extensions>
    <genie version="1.0" app="GeNIe 4.0" name="Garden"><node id="rain"><name>Did it rain?</name></node></genie>
  </extensions>
</smile>
"""
GIVEN_RAIN = "<parents>rain</parents>\n      <prob"
TEXTS = {"xmlbif": XMLBIF, "net": NET, "xdsl": XDSL}
LAST = {"xmlbif": "wet & cold", "net": "wet & cold", "xdsl": "wet"}


@every_format
def test_text_of_another_program(form: str) -> None:
    record = FORMATS[form][0](TEXTS[form])
    assert record.name == "Garden" and record.variables["rain"].labels == ("no", "yes")
    assert record.variables["grass"].labels == ("dry", "damp", LAST[form])
    names, table = by_child(record)["grass"]
    assert names == ("rain", "grass") and table.tolist() == [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]


def test_deterministic_nodes_become_tables() -> None:
    names, table = by_child(parse_xdsl(XDSL))["umbrella"]
    assert names == ("rain", "umbrella") and table.tolist() == [[0, 1], [1, 0]]


def test_net_data_without_brackets_of_the_parents() -> None:
    flat = NET.replace("(( 0.9", "( 0.9").replace("0.0 )", "0.0").replace("( 0.2", "0.2").replace("0.5 ));", "0.5 );")
    assert parse_net(flat) == parse_net(NET)


def test_xdsl_of_agrum_is_read_in_its_order() -> None:
    """Its tables of two parents run the first one fastest."""
    text = XDSL.replace("GeNIe 4.0", "aGrUM 3.3.1").replace(
        "<parents>rain</parents>\n      <prob", "<parents>rain umbrella</parents>\n      <prob"
    )
    text = text.replace("0.2 0.3 0.5", "0.2 0.3 0.5  0.5 0.25 0.25  0 0 1")
    with pytest.warns(fb.errors.FileFormatWarning, match="first parent fastest"):
        names, table = by_child(parse_xdsl(text))["grass"]
    assert names == ("rain", "umbrella", "grass")
    assert table.tolist() == [[[0.9, 0.1, 0.0], [0.5, 0.25, 0.25]], [[0.2, 0.3, 0.5], [0, 0, 1]]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encodings_of_xml(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "garden.xml"
    declared = "" if "sig" in encoding else f' encoding="{encoding}"'
    text = XMLBIF.replace(' version="1.0"', f' version="1.0"{declared}').replace("wet &amp; cold", "naß")
    path.write_bytes(text.encode(encoding))
    assert fb.io.read_network(path).variables["grass"].labels == ("dry", "damp", "naß")


def test_encodings_of_other_text(tmp_path: Path) -> None:
    path = tmp_path / "garden.net"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes(NET.replace("dry", "naß").encode(encoding))
        assert fb.io.read_network(path).variables["grass"].labels == ("naß", "damp", "wet & cold")
    path.write_bytes(NET.replace("dry", "naß").encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"garden\.net(.|\n)*UTF-8"):
        fb.io.read_network(path)


def test_wrong_encodings_of_xml(tmp_path: Path) -> None:
    path = tmp_path / "garden.xml"
    for encoding, content in (("utf-7", "naß"), ("utf-8", "naß"), ("no-such", "a"), ("rot13", "a")):
        text = XMLBIF.replace(' version="1.0"', f' version="1.0" encoding="{encoding}"').replace("dry", content)
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(FileFormatError, match=r"garden\.xml(.|\n)*the encoding"):
            fb.io.read_network(path)


# -- faults -----------------------------------------------------------------------------------------------------------

# format: what is replaced (nothing: put at the end), by what, the cause, a part of what is expected or advised
FAULTS = {
    "xmlbif": [
        ("0.2 0.3 0.5", "0.2 0.3", "line 21: 5 values in the DEFINITION of 'grass'", "6 values: 3 for each row"),
        ("0.2 0.3 0.5", "0.2 half 0.5", "line 21: 'half' among the values in the DEFINITION", "numbers"),
        ("0.2 0.3 0.5", "0.2 0_3 0.5", "'0_3' among the values in the DEFINITION", "numbers"),
        ("0.2 0.3 0.5", "nan 0.3 0.5", "line 21: the row (yes) in the DEFINITION of 'grass' holds nan", "finite"),
        ("0.2 0.3 0.5", "-1 1.5 0.5", "the row (yes) in the DEFINITION of 'grass' holds -1.0", "none negative"),
        ("0.2 0.3 0.5", "0.2 0.3 0.25", "of 'grass' sums to 0.75", "vary fastest"),
        ("0.8 0.2", "1e308 1e308", "the table in the DEFINITION of 'rain' sums to inf", "within 0.001"),
        ("<GIVEN>rain", "<GIVEN>rian", "line 18: the unknown parent 'rian'", "nearest:  'rain'"),
        ("<GIVEN>rain", "<GIVEN>grass", "line 18: a cycle among the parents: grass -> grass", "remove one arc"),
        ("<GIVEN>rain</GIVEN>", "<GIVEN>rain</GIVEN>" * 2, "line 18: the names 'grass', 'rain', 'rain'", "different"),
        ("<FOR>rain", "<FOR>grass", "line 24: a second DEFINITION of 'grass'", "one DEFINITION for each"),
        ("<NAME> grass ", "<NAME>rain", "line 16: a second VARIABLE of 'rain'", "rename or remove"),
        ("<NAME>rain", "<NAME>rain</NAME><NAME>b", "line 10: 2 elements 'NAME' in 'VARIABLE'", "give one NAME"),
        ("<OUTCOME>no<", "<OUTCOME>yes<", "line 10: the states 'yes', 'yes' in the VARIABLE of 'rain'", "different"),
        ("<PROPERTY>author", "<PROPRETY>author", "not XML: mismatched tag", "closed in turn"),
        ("<FOR>rain</FOR>", "<FORE>rain</FORE>", "line 24: the element 'FORE' in 'DEFINITION'", "nearest:  'FOR'"),
        (
            "<DEFINITION><FOR>rain",
            "stray<DEFINITION><FOR>rain",
            "line 18: the text 'stray' beside",
            "inside of elements",
        ),
        ("<OUTCOME>no<", "<OUTCOME>n<b/>o<", "line 12: elements in 'OUTCOME'", "text alone"),
        ('TYPE="nature">', 'TYPE="utility">', "line 10: a variable of the type 'utility'", "without decisions"),
        ("<BIF ", "<BIG ", "mismatched tag", "closed in turn"),
        ("<!-- tables -->", "&rain;", "line 17: not XML: undefined entity", "&amp;"),
        ("<!ELEMENT BIF ( NETWORK )*>", '<!ENTITY a "b">', "line 3: the entity 'a' in the document", "write what it"),
        ("<!ELEMENT BIF ( NETWORK )*>", '<!ENTITY % a SYSTEM "/etc/x">', "line 3: the entity 'a'", "other files"),
    ],
    "net": [
        ("( 0.2 0.3 0.5 )", "( 0.2 0.3 )", "line 20: 5 values in the potential of 'grass'", "6 values: 3 for each"),
        ("0.2 0.3 0.5", "0.2 half 0.5", "line 21: 'half' among the values in the potential", "numbers"),
        ("0.2 0.3 0.5", "nan 0.3 0.5", "line 20: the row (yes) in the potential of 'grass' holds nan", "finite"),
        ("0.2 0.3 0.5", "-1 1.5 0.5", "the row (yes) in the potential of 'grass' holds -1.0", "none negative"),
        ("0.2 0.3 0.5", "0.2 0.3 0.25", "of 'grass' sums to 0.75", "the first parent slowest"),
        ("0.0 )", "0.0 0.2 )", "line 20: 7 values", "6 values"),
        ("( 0.2 0.3 0.5 ));", "0.2 0.3 0.5 ));", "line 20: the brackets of the data in the potential 'grass'", "lists"),
        ("( 0.8 0.2 )", "0.8 0.2", "line 25: the brackets of the data in the potential 'rain'", "lists of 2"),
        ("( 0.8 0.2 )", "( 0.8 ) 0.2", "the brackets of the data in the potential 'rain'", "lists of 2"),
        ("grass | rain", "grass | rian", "line 18: the unknown parent 'rian'", "nearest:  'rain'"),
        ("grass | rain", "grass | grass", "line 18: a cycle among the parents: grass -> grass", "remove one arc"),
        ("grass | rain", "grass rain", "line 18: the potential (grass rain)", "one child"),
        ("(rain)", "(grass)", "line 23: a second potential of 'grass'", "one potential for each"),
        ("discrete node grass", "node rain", "line 14: a second node of 'rain'", "rename or remove"),
        ("discrete node", "continuous node", "line 14: the continuous node 'grass'", "JSON"),
        ("discrete node", "utility", "line 14: the utility node 'grass'", "discrete nodes"),
        ("discrete node", "discreet node", "line 14: 'discreet node grass' between blocks", "node name {"),
        ('("no" "yes")', '("no" "no")', "line 8: the states 'no', 'no' in the node of 'rain'", "all different"),
        ('("no" "yes")', "yes", "line 12: the states yes in the node 'rain'", 'states = ("label"'),
        ("data = ( 0.8 0.2 );", "model_data = (1);", "line 23: no data in the potential 'rain'", "is not evaluated"),
        ("experience = (10);", "experience = (10)", "line 26: 'experience = (10)' in the potential", "end in ';'"),
        ("experience", "data", "line 26: a second data in the potential", "once"),
        ("% a garden", "class Garden {", "line 1: 'class Garden {': a class", "unfold"),
        ('"Garden"', '"Gar" "den"', 'line 6: the name "Gar" "den" in the net', "one string"),
        ("", "net { }", "line 28: a second net", "one block"),
    ],
    "xdsl": [
        ("0.2 0.3 0.5", "0.2 0.3", "line 16: 5 values in the node of 'grass'", "6 values: 3 for each row"),
        ("0.2 0.3 0.5", "0.2 half 0.5", "line 16: 'half' among the values in the node", "numbers"),
        ("0.2 0.3 0.5", "nan 0.3 0.5", "the row (yes) in the node of 'grass' holds nan", "finite"),
        ("0.2 0.3 0.5", "0.2 0.3 0.25", "of 'grass' sums to 0.75", "its first parent slowest"),
        ("closed open", "closed opened", "line 22: the unknown state 'opened'", "nearest:  'open'"),
        ("closed open", "closed", "line 22: 2 values in the node of 'umbrella'", "4 values"),
        (
            "<parents>rain</parents>\n      <prob",
            "<parents>rian</parents>\n      <prob",
            "unknown parent 'rian'",
            "'rain'",
        ),
        (
            "<parents>rain</parents>\n      <prob",
            "<parents>grass</parents>\n      <prob",
            "cycle among the parents",
            "arc",
        ),
        ('id="grass"', 'id="rain"', "line 11: a second node of 'rain'", "rename or remove"),
        ('id="grass"', "", "line 11: a cpt or a state of it without an id", "<cpt id"),
        (
            '<state id="no" />',
            '<state id="yes" />',
            "line 5: the states 'yes', 'yes' in the node of 'rain'",
            "different",
        ),
        ("<probabilities>0.8 0.2</probabilities>", "", "line 5: 0 elements 'probabilities' in 'cpt'", "one"),
        ("<property id", "<propertie id", "mismatched tag", "closed in turn"),
        ("<nodes>", "<nodes><decision id='d' />", "line 4: a node of the kind 'decision', 'd'", "General"),
        ("<nodes>", "<nodes><noisymax id='d' />", "line 4: a node of the kind 'noisymax', 'd'", "table"),
    ],
}


@pytest.mark.parametrize(("form", "fault"), [(form, index) for form in FAULTS for index in range(len(FAULTS[form]))])
def test_fault_is_named(form: str, fault: int) -> None:
    old, new, cause, remedy = FAULTS[form][fault]
    text = TEXTS[form]
    assert not old or text.count(old) == 1
    with pytest.raises(FileFormatError) as caught:
        FORMATS[form][0](text.replace(old, new) if old else text + new, "garden")
    message = str(caught.value)
    assert message.startswith("garden, line ")
    assert cause in message and remedy in message and "expected: " in message


@every_format
def test_missing_table_is_named(form: str) -> None:
    text = TEXTS[form]
    cuts = {"xmlbif": ("<DEFINITION><FOR>rain", "</NETWORK>"), "net": ("potential (rain)", ""), "xdsl": ()}
    if not cuts[form]:
        return  # a node of XDSL is its own table
    start, stop = cuts[form]
    end = text.index(stop) if stop else len(text)
    with pytest.raises(FileFormatError, match=r"ends without a \w+ of 'rain'"):
        FORMATS[form][0](text[: text.index(start)] + text[end:])


# -- by the name of the file ------------------------------------------------------------------------------------------


def test_format_is_that_of_the_name(tmp_path: Path) -> None:
    net = fb.io.read_network(Path(fb.__file__).with_name("io") / "commute.bif")
    heads = {}
    for suffix in (".bif", ".BIF", ".xmlbif", ".bifxml", ".xml", ".net", ".xdsl", ".uai"):
        path = tmp_path / f"commute{suffix}"
        fb.io.write_network(net, path)
        heads[suffix] = path.read_text()[:60].split()[0]
        assert len(fb.io.read_network(path).variables) == 8
    assert heads[".bif"] == heads[".BIF"] == "network" and heads[".net"] == "net" and heads[".uai"] == "BAYES"
    fb.io.write_network(net, tmp_path / "commute.txt", format="net")
    assert fb.io.read_network(tmp_path / "commute.txt", format="net").variables == net.variables
    for wrong, nearest in (("commute.txt", ""), ("commute.xsdl", r"nearest: +'\.xdsl'")):
        with pytest.raises(FileFormatError, match=rf"\*\.bif, .*\*\.xml(.|\n)*{nearest}(.|\n)*format="):
            fb.io.read_network(tmp_path / wrong)
    with pytest.raises(FileFormatError, match=r"the format 'nett'(.|\n)*nearest: +'net'"):
        fb.io.write_network(net, tmp_path / "commute", format="nett")
    with pytest.raises(FileFormatError, match=r"as json(.|\n)*'xdsl'"):
        fb.io.write_network(net, tmp_path / "commute.json")


def test_evidence_of_any_network(tmp_path: Path) -> None:
    """Numbers of variables and of labels, in the order of the file."""
    path = tmp_path / "garden.xdsl"
    path.write_text(XDSL)
    (tmp_path / "seen.evid").write_text("2  1 2  0 1\n")
    net = fb.io.read_network(path, tmp_path / "seen.evid")
    assert net.evidence == {"grass": 2, "rain": 1}
    fb.io.write_network(net, tmp_path / "again.net", tmp_path / "again.evid")
    assert fb.io.read_network(tmp_path / "again.net", tmp_path / "again.evid").evidence == net.evidence
    with pytest.raises(fb.errors.DataError, match="soft evidence on 'umbrella'"):
        fb.io.write_network(net.condition(umbrella=[0.2, 0.8]), tmp_path / "soft.net", tmp_path / "soft.evid")
    (tmp_path / "seen.evid").write_text("1  1 3\n")
    with pytest.raises(FileFormatError, match=r"seen\.evid, line 1: the value of 'grass' is '3'"):
        fb.io.read_network(path, tmp_path / "seen.evid")


def test_evidence_counts_labels_that_are_numbers_too(tmp_path: Path) -> None:
    """Position 0 is the label 1 here."""
    path = tmp_path / "a.net"
    path.write_text('node a { states = ("1" "0"); } potential (a) { data = (0.25 0.75); }')
    (tmp_path / "a.evid").write_text("1 0 0")
    assert fb.io.read_network(path, tmp_path / "a.evid").evidence == {"a": 0}
