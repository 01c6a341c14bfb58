"""The Bayesian network interchange format (BIF), read and written.

Blocks `network` (which may be absent), `variable` and `probability` may come in any order, keywords in any case;
properties and comments are passed over, commas and bars count as spaces, as in Cozman's interchange format 0.15. A row
`(labels) values` is one distribution of the child. A `table` with parents runs through (child, parents...) as its
header names them, the last parent fastest, so that the child varies slowest.
"""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from fubini.base.domains import Bint, Domain
from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatError, closest, listed
from fubini.io.bif_blocks import BARE_NAME, BifBlock, blank_comments, read_blocks, split_names
from fubini.io.bif_tables import ConditionalReader
from fubini.io.record import NetworkRecord, RowSums, find_cycle
from fubini.io.text import SourceText


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
    variables = _read_variables(file, blocks["variable"], limits)
    _check_headers(file, variables, blocks["probability"])
    _check_sizes(file, variables, blocks["probability"], limits)
    sums = RowSums(source)
    tables = tuple(_read_table(file, variables, block, sums) for block in blocks["probability"])
    sums.warn()
    return NetworkRecord(name, variables, tables, directed=True)


def _read_name(file: SourceText, blocks: list[BifBlock]) -> str:
    if len(blocks) < 2:
        return "".join(name for block in blocks for name in block.names)
    raise file.error(
        blocks[1].offset,
        "a second network block",
        expected="one block: network name { }",
        advice="put one network, with its name, into one file",
    )


def _read_variables(file: SourceText, blocks: list[BifBlock], limits: Limits) -> dict[str, Domain]:
    if not blocks:
        raise file.truncated("without a variable block", "at least one block: variable name { }")
    variables: dict[str, Domain] = {}
    for block in blocks:
        if block.names[0] in variables:
            raise _repeated(file, block)
        variables[block.names[0]] = domain = _read_domain(file, block)
        limits.require("states", domain.extent, f"{file.source}: the {block.title}")
    return variables


def _repeated(file: SourceText, block: BifBlock) -> FileFormatError:
    return file.error(
        block.offset,
        f"a second {block.title}",
        expected=f"one {block.kind} block for each variable",
        advice="rename or remove one of the two",
    )


def _read_domain(file: SourceText, block: BifBlock) -> Domain:
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
        return Bint.labelled(*labels)
    raise file.error(
        statement.start("size"),
        f"{statement['size']} states announced, {len(labels)} listed in the {block.title}: {listed(labels)}",
        expected="as many labels as announced, at least one, all different",
        advice="correct the number or the labels",
    )


def _check_headers(file: SourceText, variables: dict[str, Domain], blocks: list[BifBlock]) -> None:
    """Every name is known, every variable has one block, no variable is its own ancestor."""
    offsets: dict[str, int] = {}
    for block in blocks:
        _check_names(file, variables, block)
        if block.names[0] in offsets:
            raise _repeated(file, block)
        offsets[block.names[0]] = block.offset
    missing = [name for name in variables if name not in offsets]
    if missing:
        raise file.error(
            len(file.text.rstrip()),
            f"the text ends without a probability block of {listed(missing[:5])}",
            expected="one probability block for each variable",
            advice="add the block, or fetch the file again if its end is missing",
        )
    _check_cycle(file, offsets, {block.names[0]: block.names[1:] for block in blocks})


def _check_names(file: SourceText, variables: dict[str, Domain], block: BifBlock) -> None:
    parents = block.names[1:]
    if not block.names or len(set(parents)) != len(parents):
        raise file.error(
            block.offset,
            f"the names {listed(block.names)} in the header of a probability block",
            expected="probability ( child | parents ) with different parents",
            advice="name one child, and each of its parents once",
        )
    unknown = [name for name in block.names if name not in variables]
    if unknown:
        role = "parent" if unknown[0] in parents else "variable"
        raise file.error(
            block.offset,
            f"the unknown {role} {unknown[0]!r} in the {block.title}",
            expected="a name that has a variable block",
            nearest=closest(unknown[0], variables),
            advice="correct the name, or add its variable block",
        )


def _check_cycle(file: SourceText, offsets: dict[str, int], parents: dict[str, list[str]]) -> None:
    cycle = find_cycle(parents)
    if cycle:
        raise file.error(
            offsets[cycle[0]],
            f"a cycle among the parents: {' -> '.join(cycle)}",
            expected="variables that can be ordered with parents before children",
            advice="remove one arc of the cycle",
        )


def _check_sizes(file: SourceText, variables: dict[str, Domain], blocks: list[BifBlock], limits: Limits) -> None:
    """Tables are counted before any is made: a default row is short, whatever it stands for."""
    cells = 0
    for block in blocks:
        what = f"{file.source}: the {block.title}"
        limits.require("scope", len(block.names), what)
        cells += math.prod(variables[name].extent for name in block.names)
        limits.require("cells", cells, f"{what} and those before it")


def _read_table(
    file: SourceText, variables: dict[str, Domain], block: BifBlock, sums: RowSums
) -> tuple[tuple[str, ...], np.ndarray]:
    child, *parents = block.names
    domains = tuple(variables[name] for name in parents)
    return (*parents, child), ConditionalReader(file, block, domains, variables[child], sums).read()


def format_bif(record: NetworkRecord) -> str:
    """A directed network as BIF text; a domain without labels gets the labels 0, 1, ...

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
    if not record.directed:
        raise FileFormatError(
            f"the undirected network {record.name!r} as BIF",
            expected="a directed network: BIF holds conditional tables",
            advice="write it with format_uai",
        )
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
    return [_quoted(str(domain.label(index))) for index in range(domain.extent)]


def _quoted(name: str) -> str:
    if '"' in name:
        raise FileFormatError(
            f"the name {name!r} as BIF", expected='a name without the character "', advice="rename it before writing"
        )
    return name if BARE_NAME.fullmatch(name) else f'"{name}"'
