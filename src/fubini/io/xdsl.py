"""The format XDSL of GeNIe and SMILE, read and written: chance nodes with tables, and deterministic ones.

Probabilities run through (parents..., node), the node fastest. Identifiers have letters, digits and underscores; names
and labels with other characters are kept beside them, in an extension that other programs pass over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from xml.etree.ElementTree import Element

import numpy as np

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatWarning, closest, listed, warn
from fubini.io.conditional_tables import Conditional, Conditionals, Words
from fubini.io.identifiers import to_identifiers
from fubini.io.record import NetworkRecord, labels_of, require_directed, shape_of
from fubini.io.xml_text import XmlFile, escape_xml, read_xml

WORDS = Words("node", "node", "the states of the node vary fastest, those of its first parent slowest")
KINDS = ("cpt", "deterministic")
CONTENTS = ("state", "parents", "probabilities", "resultingstates", "property")


def parse_xdsl(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> NetworkRecord:
    """The network an XDSL text describes, with rows within 1e-3 of summing to 1 normalised.

    >>> record = parse_xdsl('''<smile version="1.0" id="coin"><nodes><cpt id="side"><state id="heads" />
    ... <state id="tails" /><probabilities>0.25 0.75</probabilities></cpt></nodes></smile>''')
    >>> record.variables, record.tables[0][1]
    ({'side': Bint.labelled('heads', 'tails')}, array([0.25, 0.75]))
    """
    file = read_xml(text, source, limits)
    root = file.root
    if root.tag != "smile":
        raise file.wrong(root, f"the element {root.tag!r}", expected="a text of the element 'smile'")
    file.require_known(root, ("nodes", "extensions", "property", "properties"))
    nodes = file.only(root, "nodes")
    _require_kinds(file, nodes)
    names = _Names(file)
    conditionals = Conditionals(file, WORDS)
    for node in nodes:
        file.require_known(node, CONTENTS)
        name, labels = names.of(node)
        conditionals.declare(name, labels, file.note(node), limits)
    if not conditionals.variables:
        raise file.truncated("without a node", "at least one node")
    known = {str(node.get("id")): name for node, name in zip(nodes, conditionals.variables, strict=True)}
    found = [_conditional(file, node, known) for node in nodes]
    conditionals.check(found, limits)
    if _is_of_agrum(root):
        _read_first_parent_fastest(conditionals, found)
    return NetworkRecord(names.network, conditionals.variables, conditionals.tables(found), directed=True)


def _require_kinds(file: XmlFile, nodes: Element) -> None:
    for node in nodes:
        if node.tag not in KINDS:
            raise file.wrong(
                node,
                f"a node of the kind {node.tag!r}, {node.get('id')!r}",
                expected=f"one of {listed(KINDS)}: nodes with a table of probabilities or of states",
                nearest=closest(node.tag, KINDS),
                advice="change its definition to a table (General) in GeNIe; decisions and utilities cannot be read",
            )
    file.require_known(nodes, KINDS)


class _Names:
    """The names that identifiers stand for: themselves, save where the extension says another one."""

    def __init__(self, file: XmlFile) -> None:
        self.file = file
        self.network = file.root.get("id", "")
        self.nodes: dict[str, Element] = {}
        for extension in file.root.findall("extensions/fubini"):
            self.network = extension.get("name", self.network)
            self.nodes |= {str(node.get("id")): node for node in extension.findall("node")}

    def of(self, node: Element) -> tuple[str, list[str]]:
        """The name of a node, and its labels."""
        identifier = node.get("id")
        states = [state.get("id") for state in node.findall("state")]
        if identifier is None or None in states:
            raise self.file.wrong(
                node, f"a {node.tag} or a state of it without an id", expected='<cpt id="…"> and <state id="…" />'
            )
        kept = self.nodes.get(identifier)
        labels = [] if kept is None else [str(state.get("name")) for state in kept.findall("state")]
        return (
            identifier if kept is None else kept.get("name", identifier),
            labels if len(labels) == len(states) else [str(state) for state in states],
        )


def _conditional(file: XmlFile, node: Element, known: dict[str, str]) -> Conditional:
    """The table of a node; a deterministic one has a state for each row."""
    above = node.findall("parents")
    parents = file.words(file.only(node, "parents")).split() if above else []
    tag = "probabilities" if node.tag == "cpt" else "resultingstates"
    values = file.only(node, tag)
    words = file.words(values).split()
    if tag == "resultingstates":
        words = [digit for word in words for digit in _row(file, node, values, word)]
    names = [known[str(node.get("id"))], *(known.get(parent, parent) for parent in parents)]
    return Conditional(names, file.note(node), words, [file.note(values)])


def _is_of_agrum(root: Element) -> bool:
    """Whether aGrUM wrote the file, whose order of values is not that of GeNIe (seen in 3.3.1)."""
    return any(genie.get("app", "").startswith("aGrUM") for genie in root.findall("extensions/genie"))


def _read_first_parent_fastest(conditionals: Conditionals, found: Sequence[Conditional]) -> None:
    """Values through (parents in reverse..., node), where that differs."""
    several = [one for one in found if len(one.names) > 2]
    for one in several:
        *sizes, width = shape_of(conditionals.variables[name] for name in (*one.names[:0:-1], one.names[0]))
        if len(one.words) != math.prod(sizes) * width:
            raise conditionals.miscounted(one, one.pieces[0], len(one.words), math.prod(sizes) * width)
        axes = (*range(len(sizes) - 1, -1, -1), len(sizes))
        one.arrange = partial(_transposed, shape=(*sizes, width), axes=axes)
    if several:
        warn(
            FileFormatWarning(
                f"{conditionals.file.source}: XDSL written by aGrUM, with {len(several)} tables of several parents",
                expected="the order of GeNIe, the first parent slowest",
                nearest="the tables are read in the order of aGrUM, the first parent fastest",
                advice="save the network in another format if a later version of aGrUM has the order of GeNIe",
            )
        )


def _transposed(values: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    return values.reshape(shape).transpose(axes).ravel()


def _row(file: XmlFile, node: Element, values: Element, word: str) -> list[str]:
    """Probability 1 at one state."""
    states = [str(state.get("id")) for state in node.findall("state")]
    if word in states:
        return ["1" if state == word else "0" for state in states]
    raise file.wrong(
        values,
        f"the unknown state {word!r} among the resulting states of {node.get('id')!r}",
        expected=f"one of {listed(states[:12])}",
        nearest=closest(word, states),
        advice="use the states of the node",
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def format_xdsl(record: NetworkRecord) -> str:
    """A directed network as XDSL text, parents before children; a domain without labels gets the labels 0, 1, ...

    >>> print(format_xdsl(parse_xdsl('''<smile id="coin"><nodes><cpt id="a"><state id="u" /><state id="v" />
    ... <probabilities>0.25 0.75</probabilities></cpt></nodes></smile>''')), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <smile version="1.0" id="coin" numsamples="10000">
      <nodes>
        <cpt id="a">
          <state id="u" />
          <state id="v" />
          <probabilities>0.25 0.75</probabilities>
        </cpt>
      </nodes>
    </smile>
    """
    require_directed(record, "XDSL")
    identifiers = to_identifiers(record.variables)
    lines: list[str] = []
    kept: list[str] = []
    tables = {names[-1]: (names[:-1], table) for names, table in record.tables}
    for name in _parents_first({child: parents for child, (parents, _) in tables.items()}):
        parents, table = tables[name]
        states = to_identifiers(labels_of(record.variables[name]))
        lines.append(f'    <cpt id="{identifiers[name]}">')
        lines += [f'      <state id="{state}" />' for state in states.values()]
        if parents:
            lines.append(f"      <parents>{' '.join(identifiers[parent] for parent in parents)}</parents>")
        values = " ".join(map(repr, table.ravel().tolist()))
        lines += [f"      <probabilities>{values}</probabilities>", "    </cpt>"]
        kept += _kept(name, identifiers[name], states)
    network = next(iter(to_identifiers([record.name]).values()))
    if kept or network != record.name:
        kept = [f'    <fubini name="{escape_xml(record.name)}">', *kept, "    </fubini>"]
        kept = ["  <extensions>", *kept, "  </extensions>"]
    head = ['<?xml version="1.0" encoding="UTF-8"?>', f'<smile version="1.0" id="{network}" numsamples="10000">']
    return "\n".join([*head, "  <nodes>", *lines, "  </nodes>", *kept, "</smile>"]) + "\n"


def _kept(name: str, identifier: str, states: dict[str, str]) -> Iterator[str]:
    """The name and the labels of a node, where identifiers stand for other words."""
    if name == identifier and all(label == state for label, state in states.items()):
        return
    yield f'      <node id="{identifier}" name="{escape_xml(name)}">'
    if any(label != state for label, state in states.items()):
        yield from (f'        <state name="{escape_xml(label)}" />' for label in states)
    yield "      </node>"


def _parents_first(parents: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Each name once, behind its parents, else in the order of the names."""
    done: set[str] = set()
    for last in parents:
        waiting = [last]
        while waiting:
            name = waiting[-1]
            above = [parent for parent in parents[name] if parent not in done]
            waiting += reversed(above)
            if not above:
                waiting.pop()
                if name not in done:
                    done.add(name)
                    yield name
