"""The language NET of Hugin, read and written: discrete nodes, and a potential p(child | parents) of each.

A potential's data run through (parents..., child), the child fastest, in brackets for each parent or in one. Other
attributes and comments are passed over. Names that are no identifiers keep an attribute `fubini_name`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatError, closest, listed
from fubini.io.conditional_tables import Conditional, Conditionals, Words
from fubini.io.identifiers import to_identifiers
from fubini.io.record import NetworkRecord, labels_of, require_directed, shape_of
from fubini.io.text import SourceText

WORDS = Words("node", "potential", "the states of the child vary fastest, those of the first parent slowest")
NAME = "fubini_name"  # the attribute of a name that is no identifier
# Repetitions are possessive: nothing is tried twice, so that a text that does not match costs no more than its length.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_COMMENT = re.compile(rf"{_STRING}|%[^\n]*+", re.DOTALL)
_WORDS = re.compile(rf'{_STRING}|[^\s(),"]++', re.DOTALL)
_BLOCK = re.compile(
    r"""\s*+(?:(?P<end>\Z)
    | (?P<net>net)\s*+\{
    | (?P<node>(?:(?:discrete|continuous|decision|utility|function)\s++)?node|decision|utility|function)\s++
      (?P<name>[^\s(){}";=|%]++)\s*+\{
    | (?P<potential>potential)\s*+\((?P<header>[^(){}";=%]*+)\)\s*+\{)""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    rf"""\s*+(?:(?P<end>\}})
    | (?P<key>[A-Za-z_][A-Za-z0-9_]*+)\s*+=\s*+(?P<value>[^;{{}}"]*+(?:{_STRING}[^;{{}}"]*+)*+);)""",
    re.VERBOSE | re.DOTALL,
)
_FORMS = ("net {", "node name {", "potential (child | parents) {")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass
class NetBlock:
    """One block as it stands in the file."""

    kind: str
    names: list[str]
    offset: int
    attributes: dict[str, re.Match[str]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The block as a message names it."""
        return f"{self.kind} {self.names[0]!r}" if self.names else self.kind


def parse_net(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> NetworkRecord:
    """The network a NET text describes, with rows within 1e-3 of summing to 1 normalised.

    >>> record = parse_net('''net { } node side { states = ("heads" "tails"); }
    ... potential (side) { data = (0.25 0.75); }''')
    >>> record.variables, record.tables[0][1]
    ({'side': Bint.labelled('heads', 'tails')}, array([0.25, 0.75]))
    """
    file = _without_comments(SourceText(text, source))
    conditionals, found = Conditionals(file, WORDS), list[tuple[NetBlock, Conditional]]()
    name, names = "", dict[str, str]()
    for block in _blocks(file):
        if block.kind == "net":
            name = _string(file, block, "name") if "name" in block.attributes else ""
        elif block.kind == "node":
            (identifier,) = block.names
            if identifier in names:
                raise conditionals.repeated("node", identifier, block.offset)
            names[identifier] = _string(file, block, NAME) if NAME in block.attributes else identifier
            conditionals.declare(names[identifier], _states(file, block), block.offset, limits)
        else:
            found.append((block, Conditional(block.names, block.offset)))
    if not names:
        raise file.truncated("without a node", "at least one block: node name { states = (…); }")
    for _, one in found:
        one.names = [names.get(word, word) for word in one.names]
    conditionals.check([one for _, one in found], limits)
    for block, one in found:
        _read_data(conditionals, block, one)
    return NetworkRecord(name, conditionals.variables, conditionals.tables([one for _, one in found]), directed=True)


def _without_comments(file: SourceText) -> SourceText:
    """The text without its comments, every offset and line kept."""
    if "%" not in file.text:
        return file
    text = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " " * len(match[0]), file.text)
    return SourceText(text, file.source)


def _blocks(file: SourceText) -> Iterator[NetBlock]:
    offset, nets = 0, 0
    while True:
        match = _BLOCK.match(file.text, offset)
        if match is None:
            raise _misplaced(file, offset)
        if match["end"] is not None:
            return
        kind = match["net"] or match["potential"] or "node"
        block = NetBlock(kind, _names(file, match), match.start(kind if kind != "node" else "name"))
        if kind == "node" and match["node"].split()[0] not in ("discrete", "node"):
            raise file.error(
                block.offset,
                f"the {match['node'].split()[0]} node {block.names[0]!r}",
                expected="discrete nodes: a network of tables",
                advice="a network with Gaussian nodes can be read from JSON; one with decisions cannot be read",
            )
        nets += kind == "net"
        if nets > 1:
            raise file.error(
                block.offset, "a second net", expected="one block: net { }", advice="remove one of the two"
            )
        offset = _read_attributes(file, block, match.end())
        yield block


def _names(file: SourceText, match: re.Match[str]) -> list[str]:
    if match["potential"] is None:
        return [] if match["name"] is None else [match["name"]]
    child, _, parents = match["header"].partition("|")
    children = child.replace(",", " ").split()
    if len(children) == 1 and "|" not in parents:
        return [*children, *parents.replace(",", " ").split()]
    raise file.error(
        match.start("potential"),
        f"the potential ({match['header'].strip()})",
        expected="one child, and its parents behind a bar: potential (child | parents)",
        advice="give each node a potential of its own",
    )


def _read_attributes(file: SourceText, block: NetBlock, offset: int) -> int:
    """Fills the block with its attributes; the offset behind its closing brace."""
    while True:
        match = _ATTRIBUTE.match(file.text, offset)
        if match is None:
            remaining = file.text[offset:].lstrip()
            if "}" not in remaining:
                raise file.truncated(f"in the {block.title}", "attribute = value; or }")
            raise file.error(
                len(file.text) - len(remaining),
                f"{remaining.splitlines()[0][:40]!r} in the {block.title}",
                expected="attribute = value; or }",
                advice="check spelling and punctuation: attributes end in ';', blocks in '}'",
            )
        offset = match.end()
        if match["end"]:
            return offset
        if match["key"] in block.attributes:
            raise file.error(
                match.start("key"), f"a second {match['key']} in the {block.title}", expected="each attribute once"
            )
        block.attributes[match["key"]] = match


def _string(file: SourceText, block: NetBlock, key: str) -> str:
    """An attribute that is one string or one word."""
    match = block.attributes[key]
    words = _WORDS.findall(match["value"])
    if len(words) == 1 and words[0] == match["value"].strip():
        return _unquoted(words[0])
    raise file.error(
        match.start("value"),
        f"the {key} {match['value'].strip()[:40]} in the {block.title}",
        expected=f'one string: {key} = "…";',
        advice='write " and \\ inside of a string as \\" and \\\\',
    )


def _unquoted(word: str) -> str:
    if not word.startswith('"'):
        return word
    inside = word[1:-1]
    return _ESCAPED.sub(lambda match: _CHARACTERS.get(match[1], match[1]), inside) if "\\" in inside else inside


def _states(file: SourceText, block: NetBlock) -> list[str]:
    match = block.attributes.get("states")
    value = match["value"].strip() if match else ""
    if not value.startswith("(") or not value.endswith(")"):
        raise file.error(
            match.start("value") if match else block.offset,
            f"{'the states ' + value[:40] if match else 'no states'} in the {block.title}",
            expected='states = ("label" "label");',
            advice="list the labels of the node",
        )
    return list(map(_unquoted, _WORDS.findall(value)))


def _read_data(conditionals: Conditionals, block: NetBlock, one: Conditional) -> None:
    """The words of `data`, whose brackets must be those of the parents, or one pair around all."""
    file, match = conditionals.file, block.attributes.get("data")
    if match is None:
        raise file.error(
            block.offset,
            f"no data in the {block.title}",
            expected="data = (…); with the values of the table",
            nearest="a model, which is not evaluated" if "model_data" in block.attributes else "",
            advice="write the table of values",
        )
    one.pieces = [match.start("value")]
    value = match["value"].strip()
    rows = [part.split() for part in value.replace("(", " ").replace(",", " ").split(")")]
    for row in rows:
        one.words += row
    *sizes, width = shape_of(conditionals.variables[name] for name in (*one.names[1:], one.names[0]))
    lengths = {len(row) for row in rows if row}
    if len(one.words) != math.prod(sizes) * width:
        raise conditionals.miscounted(one, match.start("value"), len(one.words), math.prod(sizes) * width)
    brackets = re.sub(r"[^()]++", "", value)
    flat = value[:1] == "(" and value[-1:] == ")" and brackets == "()"
    if not flat and (lengths - {width} or brackets != _brackets(sizes)):
        raise file.error(
            match.start("value"),
            f"the brackets of the data in the {block.title}",
            expected=f"lists of {width} values in brackets, nested as {sizes}",
            nearest=f"{len(one.words)} values in lists of {listed(sorted(lengths))}",
            advice="put the lists of all states of a parent in brackets, or all values in one pair",
        )


def _brackets(sizes: Sequence[int]) -> str:
    """The brackets of a table over parents of these sizes."""
    made = "()"
    for size in reversed(sizes):
        made = f"({made * size})"
    return made


def _misplaced(file: SourceText, offset: int) -> FileFormatError:
    remaining = file.text[offset:].lstrip()
    line = remaining.splitlines()[0][:40]
    word = re.split(r"\W", remaining, maxsplit=1)[0]
    if "{" not in remaining and any(form.startswith(word) for form in _FORMS if word):
        return file.truncated(f"inside {line!r}", " or ".join(_FORMS))
    if word in ("class", "object_class", "instance"):
        return file.error(
            len(file.text) - len(remaining),
            f"{line!r}: a {word}",
            expected="a network without classes: " + " or ".join(_FORMS),
            advice="unfold the classes before saving",
        )
    return file.error(
        len(file.text) - len(remaining),
        f"{line!r} between blocks",
        expected=" or ".join(_FORMS),
        nearest=closest(word, [form.split()[0] for form in _FORMS]) if word else "",
        advice="check spelling and punctuation",
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def format_net(record: NetworkRecord) -> str:
    """A directed network as NET text; a domain without labels gets the labels 0, 1, ...

    >>> print(format_net(parse_net('node a { states = ("u" "v"); } potential (a) { data = (0.25 0.75); }')), end="")
    net {
      name = "";
    }
    node a {
      states = ("u" "v");
    }
    potential (a) {
      data = (0.25 0.75);
    }
    """
    require_directed(record, "NET")
    identifiers = to_identifiers(record.variables)
    blocks = [f"net {{\n  name = {_quoted(record.name)};\n}}"]
    for name, domain in record.variables.items():
        states = " ".join(map(_quoted, labels_of(domain)))
        kept = "" if identifiers[name] == name else f"  {NAME} = {_quoted(name)};\n"
        blocks.append(f"node {identifiers[name]} {{\n{kept}  states = ({states});\n}}")
    for names, table in record.tables:
        *parents, child = (identifiers[name] for name in names)
        header = f"{child} | {' '.join(parents)}" if parents else child
        blocks.append(f"potential ({header}) {{\n  data = {_nested(table.tolist())};\n}}")
    return "\n".join(blocks) + "\n"


def _nested(values: list) -> str:
    """Nested lists in round brackets, a line for each row."""
    if not isinstance(values[0], list):
        return f"({' '.join(map(repr, values))})"
    between = "\n    "
    return f"({between.join(map(_nested, values))})"


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPES.get(character, character) for character in text)}"'
