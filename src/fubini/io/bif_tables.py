"""The values of BIF: the statements of a probability block, each a row of the table or all of it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fubini.errors import FileFormatError, closest, listed
from fubini.io.bif_blocks import BifBlock, split_names
from fubini.io.conditional_tables import Conditional, Conditionals
from fubini.io.record import shape_of
from fubini.io.text import SourceText


@dataclass(frozen=True)
class ValueReader:
    """Reads the values of p(child | parents) from one block.

    >>> from fubini.base.domains import Bint
    >>> from fubini.io.bif_blocks import read_blocks
    >>> file = SourceText("probability ( side ) { table 0.25, 0.75; }")
    >>> block, side = next(read_blocks(file)), Conditional(["side"], 0)
    >>> coin = Conditionals(file, None, {"side": Bint.labelled("heads", "tails")})
    >>> ValueReader(coin, side, block).read()
    >>> side.words
    ['0.25', '0.75']
    """

    conditionals: Conditionals
    conditional: Conditional
    block: BifBlock

    def read(self) -> None:
        """Gives the conditional its words, and where they stand."""
        statements = self.block.statements
        tables = [statement for statement in statements if _keyword(statement) == "table"]
        if tables and len(statements) > 1:
            raise self._file.error(
                tables[-1].start("keyword"),
                f"a table beside other values in the {self.block.title}",
                expected="one table, or rows",
                advice="keep one of the two",
            )
        if tables:
            self._read_table(tables[0])
        else:
            self._read_rows(statements)

    @property
    def _file(self) -> SourceText:
        return self.conditionals.file

    def _read_table(self, statement: re.Match[str]) -> None:
        """table[child, parents...], the child slowest; all rows begin at the statement."""
        width, *sizes = shape_of(self.conditionals.variables[name] for name in self.block.names)
        rows = math.prod(sizes)
        self._take([statement], width * rows)
        if rows > 1:
            self.conditional.arrange = lambda values: values.reshape(width, rows).T.ravel()

    def _read_rows(self, statements: Sequence[re.Match[str]]) -> None:
        """The rows, each at its place in the C order of the parents, and the default at all others."""
        domains = [self.conditionals.variables[name] for name in self.block.names]
        width, *sizes = shape_of(domains)
        count = math.prod(sizes)
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        steps = [
            {label: index * stride for index, label in enumerate(domain.labels or ())}
            for domain, stride in zip(domains[1:], strides, strict=True)
        ]
        rows: dict[int, int] = {}
        given: list[re.Match[str]] = []
        default: re.Match[str] | None = None
        for statement in statements:
            row = None if statement["keyword"] else self._row_of(statement, steps)
            if row in rows or (row is None and default is not None):
                raise self._duplicate(statement)
            if row is None:
                default = statement
            else:
                rows[row] = statement.start("row")
                given.append(statement)
        self._arrange(list(rows), count, width, default is not None)
        if default is not None:
            given.append(default)
            self.conditional.position = default.start("keyword")
        self.conditional.rows = rows
        self._take(given, width)

    def _arrange(self, places: list[int], count: int, width: int, has_default: bool) -> None:
        """How the rows of the file become the rows of the table; a default, which comes last, fills the others."""
        if has_default:
            order = np.full(count, len(places))
            order[places] = np.arange(len(places))
            self.conditional.arrange = lambda values: values.reshape(-1, width)[order].ravel()
        elif len(places) < count:
            raise self._missing(next(row for row in range(count) if row not in set(places)), count - len(places), count)
        elif any(place != row for row, place in enumerate(places)):
            order = np.argsort(places)
            self.conditional.arrange = lambda values: values.reshape(-1, width)[order].ravel()

    def _row_of(self, statement: re.Match[str], steps: list[dict[str, int]]) -> int:
        labels = split_names(statement["row"])
        if len(labels) != len(steps):
            raise self._file.error(
                statement.start("row"),
                f"{len(labels)} labels in the row ({statement['row'].strip()}) of the {self.block.title}",
                expected=f"{len(steps)} labels, one for each of the parents {listed(self.block.names[1:])}",
                advice="give each row one label of each parent, in the order of the header",
            )
        row = 0
        for place, label in enumerate(labels):
            step = steps[place].get(label)
            if step is None:
                raise self._unknown_label(statement, label, self.block.names[place + 1], list(steps[place]))
            row += step
        return row

    def _unknown_label(self, statement: re.Match[str], label: str, parent: str, known: list[str]) -> FileFormatError:
        return self._file.error(
            statement.start("row"),
            f"the unknown label {label!r} of {parent!r} in the {self.block.title}",
            expected=f"one of {listed(known[:12])}{', ...' if len(known) > 12 else ''}",
            nearest=closest(label, known),
            advice="use the labels of the variable block",
        )

    def _duplicate(self, statement: re.Match[str]) -> FileFormatError:
        row = "default" if statement["keyword"] else f"({statement['row'].strip()})"
        return self._file.error(
            statement.start("values"),
            f"a second row {row} in the {self.block.title}",
            expected="one row for each choice of labels",
            advice="remove one of the two",
        )

    def _take(self, statements: Sequence[re.Match[str]], count: int) -> None:
        """The words of statements that hold so many each."""
        words, pieces = self.conditional.words, []
        for statement in statements:
            found = statement["values"].replace(",", " ").split()
            if len(found) != count:
                raise self.conditionals.miscounted(self.conditional, statement.start("values"), len(found), count)
            words += found
            pieces.append(statement.start("values"))
        self.conditional.pieces = pieces

    def _missing(self, row: int, missing: int, count: int) -> FileFormatError:
        title = self.conditionals.row_title(self.conditional, row)
        return self._file.error(
            self.block.offset,
            f"no {title} in the {self.block.title}; rows missing: {missing} of {count}",
            expected="one row for each choice of labels of the parents",
            advice="add the row, or a default row",
        )


def _keyword(statement: re.Match[str]) -> str:
    return (statement["keyword"] or "").lower()
