"""The XML form of the Bayesian network interchange format (XMLBIF 0.3), read and written.

A definition's table runs through (parents..., child), the child fastest. Properties and comments are passed over.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from fubini.base.file_limits import DEFAULT, Limits
from fubini.io.conditional_tables import Conditional, Conditionals, Words
from fubini.io.record import NetworkRecord, labels_of, require_directed
from fubini.io.xml_text import XmlFile, leaf, read_xml

WORDS = Words("VARIABLE", "DEFINITION", "the states of the variable that it is FOR vary fastest")
HEAD = '<?xml version="1.0" encoding="UTF-8"?>'  # without a document type, at which the reader of aGrUM stops


def parse_xmlbif(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> NetworkRecord:
    """The network an XMLBIF text describes, with rows within 1e-3 of summing to 1 normalised.

    >>> record = parse_xmlbif('''<BIF VERSION="0.3"><NETWORK><NAME>coin</NAME>
    ... <VARIABLE TYPE="nature"><NAME>side</NAME><OUTCOME>heads</OUTCOME><OUTCOME>tails</OUTCOME></VARIABLE>
    ... <DEFINITION><FOR>side</FOR><TABLE>0.25 0.75</TABLE></DEFINITION></NETWORK></BIF>''')
    >>> record.variables, record.tables[0][1]
    ({'side': Bint.labelled('heads', 'tails')}, array([0.25, 0.75]))
    """
    file = read_xml(text, source, limits)
    root = file.root
    if root.tag != "BIF":
        raise file.wrong(root, f"the element {root.tag!r}", expected="a text of the element 'BIF'")
    file.require_known(root, ("NETWORK",))
    network = file.only(root, "NETWORK")
    file.require_known(network, ("NAME", "PROPERTY", "VARIABLE", "DEFINITION"))
    names = network.findall("NAME")
    if len(names) > 1:
        raise file.wrong(names[1], "a second NAME of the network", expected="one name")
    conditionals = Conditionals(file, WORDS)
    for variable in network.findall("VARIABLE"):
        _declare(file, conditionals, variable, limits)
    if not conditionals.variables:
        raise file.truncated("without a VARIABLE", "at least one variable")
    found = [_definition(file, element) for element in network.findall("DEFINITION")]
    conditionals.check(found, limits)
    name = file.words(names[0]) if names else ""
    return NetworkRecord(name, conditionals.variables, conditionals.tables(found), directed=True)


def _declare(file: XmlFile, conditionals: Conditionals, variable: Element, limits: Limits) -> None:
    file.require_known(variable, ("NAME", "OUTCOME", "PROPERTY"))
    kind = variable.get("TYPE", "nature")
    if kind != "nature":
        raise file.wrong(
            variable,
            f"a variable of the type {kind!r}",
            expected="'nature': a network of probabilities, without decisions and utilities",
        )
    name = file.words(file.only(variable, "NAME"))
    labels = [file.words(outcome) for outcome in variable.findall("OUTCOME")]
    conditionals.declare(name, labels, file.note(variable), limits)


def _definition(file: XmlFile, element: Element) -> Conditional:
    file.require_known(element, ("FOR", "GIVEN", "TABLE", "PROPERTY"))
    names = [file.words(name) for tag in ("FOR", "GIVEN") for name in element.findall(tag)]
    if len(element.findall("FOR")) != 1:
        file.only(element, "FOR")
    table = file.only(element, "TABLE")
    return Conditional(names, file.note(element), file.words(table).split(), [file.note(table)])


def format_xmlbif(record: NetworkRecord) -> str:
    r"""A directed network as XMLBIF text; a domain without labels gets the labels 0, 1, ...

    >>> from fubini.base.domains import Bint
    >>> coin = NetworkRecord("coin", {"side": Bint[2]}, ((("side",), np.array([0.25, 0.75])),), directed=True)
    >>> print("\n".join(format_xmlbif(coin).splitlines()[-8:]))
    <DEFINITION>
      <FOR>side</FOR>
      <TABLE>
    0.25 0.75
      </TABLE>
    </DEFINITION>
    </NETWORK>
    </BIF>
    """
    require_directed(record, "XMLBIF")
    lines = [HEAD, '<BIF VERSION="0.3">', "<NETWORK>", leaf("NAME", record.name)]
    for name, domain in record.variables.items():
        outcomes = [f"  {leaf('OUTCOME', label)}" for label in labels_of(domain)]
        lines += ['<VARIABLE TYPE="nature">', f"  {leaf('NAME', name)}", *outcomes, "</VARIABLE>"]
    for (*parents, child), table in record.tables:
        given = [f"  {leaf('GIVEN', parent)}" for parent in parents]
        rows = [" ".join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist()]
        lines += ["<DEFINITION>", f"  {leaf('FOR', child)}", *given, "  <TABLE>", *rows, "  </TABLE>", "</DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"
