"""The tables of BIF: the statements of a probability block become an array with the child as its last axis."""

import math
import re
from dataclasses import dataclass

import numpy as np

from fubini.base.domains import Domain
from fubini.errors import FileFormatError, closest, listed
from fubini.io.bif_blocks import BifBlock, split_names
from fubini.io.record import SUM_TOLERANCE, RowSums, first_invalid, first_unnormalised, shape_of
from fubini.io.text import SourceText, first_misread


@dataclass(frozen=True)
class ConditionalReader:
    """Reads p(child | parents) from one block.

    >>> from fubini.base.domains import Bint
    >>> from fubini.io.bif_blocks import read_blocks
    >>> file = SourceText("probability ( side ) { table 0.25, 0.75; }")
    >>> side = Bint.labelled("heads", "tails")
    >>> ConditionalReader(file, next(read_blocks(file)), (), side, RowSums("<text>")).read()
    array([0.25, 0.75])
    """

    file: SourceText
    block: BifBlock
    parents: tuple[Domain, ...]
    child: Domain
    sums: RowSums

    def read(self) -> np.ndarray:
        """The table with axes (parents..., child), its rows normalised."""
        tables = [statement for statement in self.block.statements if _keyword(statement) == "table"]
        if tables and len(self.block.statements) > 1:
            raise self.file.error(
                tables[-1].start("keyword"),
                f"a table beside other values in the {self.block.title}",
                expected="one table, or rows",
                advice="keep one of the two",
            )
        rows, offsets, elsewhere = self._from_table(tables[0]) if tables else self._from_rows()
        row = self._first_wrong(rows)
        if row is not None:
            raise self._wrong_row(rows, row, offsets.get(row, elsewhere))
        return np.ascontiguousarray(self.sums.normalise(rows).reshape((*shape_of(self.parents), self._width)))

    @property
    def _row_count(self) -> int:
        return math.prod(shape_of(self.parents))

    @property
    def _width(self) -> int:
        return shape_of([self.child])[0]

    def _from_table(self, statement: re.Match[str]) -> tuple[np.ndarray, dict[int, int], int]:
        """table[child, parents...], the child slowest; all rows begin at the statement."""
        rows = self._row_count
        values = self._numbers(statement, self._width * rows)
        return np.array(values).reshape(self._width, rows).T, {}, statement.start("keyword")

    def _from_rows(self) -> tuple[np.ndarray, dict[int, int], int]:
        """The rows in C order of the parents, where some of them begin, and where all others do."""
        steps = self._steps()
        values: list[float] = []
        offsets: dict[int, int] = {}
        default: re.Match[str] | None = None
        for statement in self.block.statements:
            row = None if statement["keyword"] else self._row_of(statement, steps)
            if row in offsets or (row is None and default is not None):
                raise self._duplicate(statement)
            if row is None:
                default = statement
            else:
                offsets[row] = statement.start("row")
                values += self._numbers(statement, self._width)
        given = np.array(values, dtype=np.float64).reshape(-1, self._width)
        return self._filled(given, offsets, default)

    def _steps(self) -> list[dict[str, int]]:
        """List for each parent how far each of its labels moves in the C order of rows."""
        sizes = shape_of(self.parents)
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return [
            {label: index * stride for index, label in enumerate(parent.labels or ())}
            for parent, stride in zip(self.parents, strides, strict=True)
        ]

    def _row_of(self, statement: re.Match[str], steps: list[dict[str, int]]) -> int:
        labels = split_names(statement["row"])
        if len(labels) != len(steps):
            raise self.file.error(
                statement.start("row"),
                f"{len(labels)} labels in the row ({statement['row'].strip()}) of the {self.block.title}",
                expected=f"{len(steps)} labels, one for each of the parents {listed(self.block.names[1:])}",
                advice="give each row one label of each parent, in the order of the header",
            )
        row = 0
        for label, known, parent in zip(labels, steps, self.block.names[1:], strict=True):
            if label not in known:
                raise self._unknown_label(statement, label, parent, list(known))
            row += known[label]
        return row

    def _unknown_label(self, statement: re.Match[str], label: str, parent: str, known: list[str]) -> FileFormatError:
        return self.file.error(
            statement.start("row"),
            f"the unknown label {label!r} of {parent!r} in the {self.block.title}",
            expected=f"one of {listed(known[:12])}{', ...' if len(known) > 12 else ''}",
            nearest=closest(label, known),
            advice="use the labels of the variable block",
        )

    def _duplicate(self, statement: re.Match[str]) -> FileFormatError:
        row = "default" if statement["keyword"] else f"({statement['row'].strip()})"
        return self.file.error(
            statement.start("values"),
            f"a second row {row} in the {self.block.title}",
            expected="one row for each choice of labels",
            advice="remove one of the two",
        )

    def _numbers(self, statement: re.Match[str], count: int) -> list[float]:
        text = statement["values"]
        words = text.replace(",", " ").split()
        try:
            numbers = list(map(float, words))
        except ValueError:
            numbers = []
        misread = first_misread(words) if "_" in text or len(numbers) < len(words) else None
        if misread is not None:
            offset = self.file.text.index(words[misread], statement.start("values"))
            raise self._misread(offset, f"{words[misread]!r} among the values", "numbers")
        if len(numbers) != count:
            raise self._misread(statement.start("values"), f"{len(numbers)} values", f"{count} values")
        return numbers

    def _misread(self, offset: int, cause: str, expected: str) -> FileFormatError:
        return self.file.error(
            offset,
            f"{cause} in the {self.block.title}",
            expected=f"{expected}: {self._width} for each row, {self._row_count} rows in all",
            advice="check the values against the labels of the child and of its parents",
        )

    def _filled(
        self, given: np.ndarray, offsets: dict[int, int], default: re.Match[str] | None
    ) -> tuple[np.ndarray, dict[int, int], int]:
        """All rows: those listed, and the default for the others."""
        count = self._row_count
        if default is None and len(offsets) < count:
            raise self._missing(next(row for row in range(count) if row not in offsets), count - len(offsets))
        rows, places = np.empty((count, self._width)), list(offsets)
        if default is not None:
            rows[:] = self._numbers(default, self._width)
        rows[places] = given
        return rows, offsets, self.block.offset if default is None else default.start("keyword")

    def _missing(self, row: int, count: int) -> FileFormatError:
        return self.file.error(
            self.block.offset,
            f"no {self._row_title(row)} in the {self.block.title}; rows missing: {count} of {self._row_count}",
            expected="one row for each choice of labels of the parents",
            advice="add the row, or a default row",
        )

    def _row_title(self, row: int) -> str:
        places = np.unravel_index(row, shape_of(self.parents)) if self.parents else ()
        labels = [str(parent.label(int(place))) for parent, place in zip(self.parents, places, strict=True)]
        return f"row ({', '.join(labels)})" if labels else "table"

    def _first_wrong(self, rows: np.ndarray) -> int | None:
        """The first row with a value that is no probability, or else with a sum too far from 1."""
        place = first_invalid(rows)
        return first_unnormalised(rows) if place is None else place // self._width

    def _wrong_row(self, rows: np.ndarray, row: int, offset: int) -> FileFormatError:
        place = first_invalid(rows[row])
        with np.errstate(over="ignore"):
            total = float(rows[row].sum())
        fault = f"sums to {total!r}" if place is None else f"holds {float(rows[row, place])!r}"
        return self.file.error(
            offset,
            f"the {self._row_title(row)} in the {self.block.title} {fault}",
            expected=f"finite values, none negative, with a sum within {SUM_TOLERANCE:g} of 1",
            advice="correct the values; in a table with parents the child varies slowest, so rows may be easier",
        )


def _keyword(statement: re.Match[str]) -> str:
    return (statement["keyword"] or "").lower()
