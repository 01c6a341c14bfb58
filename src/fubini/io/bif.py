"""The Bayesian network interchange format (BIF), read and written.

Blocks `network` (which may be absent), `variable` and `probability` may come in any order, keywords in any case;
properties and comments are passed over, commas and bars count as spaces, as in Cozman's interchange format 0.15. A row
`(labels) values` is one distribution of the child. A `table` with parents runs through (child, parents...) as its
header names them, the last parent fastest, so that the child varies slowest.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from fubini.base.domains import Domain
from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatError, listed
from fubini.io.bif_blocks import BARE_NAME, BifBlock, blank_comments, read_blocks, split_names
from fubini.io.bif_tables import ValueReader
from fubini.io.conditional_tables import Conditional, Conditionals, Words
from fubini.io.record import NetworkRecord, labels_of, require_directed
from fubini.io.text import SourceText

WORDS = Words(
    "variable block",
    "probability block",
    "in a table with parents the child varies slowest, so rows may be easier",
)


def parse_bif(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> NetworkRecord:
    """The network a BIF text describes, with rows within 1e-3 of summing to 1 normalised.

    >>> record = parse_bif('''network coin { }
    ... variable side { type discrete [ 2 ] { heads, tails }; }
    ... probability ( side ) { table 0.25, 0.75; }''')
    >>> record.variables, record.tables[0][1]
    ({'side': Bint.labelled('heads', 'tails')}, array([0.25, 0.75]))
    """
    file = blank_comments(SourceText(text, source))
    blocks: dict[str, list[BifBlock]] = {"network": [], "variable": [], "probability": []}
    for block in read_blocks(file):
        blocks[block.kind].append(block)
        limits.require("variables", len(blocks["variable"]), source)
        limits.require("factors", len(blocks["probability"]), source)
    name = _read_name(file, blocks["network"])
    if not blocks["variable"]:
        raise file.truncated("without a variable block", "at least one block: variable name { }")
    conditionals = Conditionals(file, WORDS)
    for block in blocks["variable"]:
        conditionals.declare(block.names[0], _read_labels(file, block), block.offset, limits)
    found = [Conditional(block.names, block.offset) for block in blocks["probability"]]
    conditionals.check(found, limits)
    for one, block in zip(found, blocks["probability"], strict=True):
        ValueReader(conditionals, one, block).read()
    return NetworkRecord(name, conditionals.variables, conditionals.tables(found), directed=True)


def _read_name(file: SourceText, blocks: list[BifBlock]) -> str:
    if len(blocks) < 2:
        return "".join(name for block in blocks for name in block.names)
    raise file.error(
        blocks[1].offset,
        "a second network block",
        expected="one block: network name { }",
        advice="put one network, with its name, into one file",
    )


def _read_labels(file: SourceText, block: BifBlock) -> list[str]:
    if len(block.statements) != 1:
        raise file.error(
            block.offset,
            f"{len(block.statements)} types in the {block.title}",
            expected="one statement: type discrete [ size ] { labels };",
            advice="say the labels of the variable once",
        )
    (statement,) = block.statements
    labels = split_names(statement["labels"])
    if labels and len(set(labels)) == len(labels) == int(statement["size"]):
        return labels
    raise file.error(
        statement.start("size"),
        f"{statement['size']} states announced, {len(labels)} listed in the {block.title}: {listed(labels)}",
        expected="as many labels as announced, at least one, all different",
        advice="correct the number or the labels",
    )


def format_bif(record: NetworkRecord) -> str:
    """A directed network as BIF text; a domain without labels gets the labels 0, 1, ...

    >>> from fubini.base.domains import Bint
    >>> coin = NetworkRecord("coin", {"side": Bint[2]}, ((("side",), np.array([0.25, 0.75])),), directed=True)
    >>> print(format_bif(coin), end="")
    network coin {
    }
    variable side {
      type discrete [ 2 ] { 0, 1 };
    }
    probability ( side ) {
      table 0.25, 0.75;
    }
    """
    require_directed(record, "BIF")
    blocks = [f"network {_quoted(record.name)} {{\n}}"]
    blocks += [_format_variable(name, domain) for name, domain in record.variables.items()]
    blocks += [_format_table(record, names, table) for names, table in record.tables]
    return "\n".join(blocks) + "\n"


def _format_variable(name: str, domain: Domain) -> str:
    labels = ", ".join(_labels(domain))
    return f"variable {_quoted(name)} {{\n  type discrete [ {domain.size} ] {{ {labels} }};\n}}"


def _format_table(record: NetworkRecord, names: tuple[str, ...], table: np.ndarray) -> str:
    *parents, child = map(_quoted, names)
    header = f"{child} | {', '.join(parents)}" if parents else child
    prefixes = _prefixes([record.variables[name] for name in names[:-1]])
    rows = table.reshape(-1, table.shape[-1]).tolist()
    lines = [f"  {prefix} {', '.join(map(repr, row))};" for prefix, row in zip(prefixes, rows, strict=True)]
    return "\n".join([f"probability ( {header} ) {{", *lines, "}"])


def _prefixes(parents: list[Domain]) -> Iterator[str]:
    if not parents:
        return iter(["table"])
    return (f"({', '.join(labels)})" for labels in product(*map(_labels, parents)))


def _labels(domain: Domain) -> list[str]:
    return list(map(_quoted, labels_of(domain)))


def _quoted(name: str) -> str:
    if '"' in name:
        raise FileFormatError(
            f"the name {name!r} as BIF", expected='a name without the character "', advice="rename it before writing"
        )
    return name if BARE_NAME.fullmatch(name) else f'"{name}"'
