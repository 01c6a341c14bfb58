"""Conditional tables as a file says them: checked against each other, then made into arrays, all at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise

import numpy as np

from fubini.base.domains import Bint, Domain
from fubini.base.file_limits import Limits
from fubini.errors import FileFormatError, closest, listed
from fubini.io.record import SUM_TOLERANCE, RowSums, find_cycle, first_invalid, shape_of
from fubini.io.text import SourceText, first_misread


@dataclass(frozen=True)
class Words:
    """What a format calls a variable and a table, and the order of the values of a table."""

    variable: str
    table: str
    order: str


@dataclass
class Conditional:
    """p(child | parents): its header, and its values as the words of the file, the child fastest.

    Words in another order are put right by `arrange`, once they are numbers. Positions are where a message points:
    the header, the words in as many pieces of one length, and rows of the table that stand at a place of their own.
    """

    names: list[str]  # the child, then its parents
    position: int
    words: list[str] = field(default_factory=list)
    pieces: Sequence[int] = ()
    rows: Mapping[int, int] = field(default_factory=dict)
    arrange: Callable[[np.ndarray], np.ndarray] | None = None

    def position_of_row(self, row: int) -> int:
        """Where a row of the table stands."""
        return self.rows.get(row, self.pieces[0] if self.pieces and not self.rows else self.position)

    def position_of_word(self, index: int) -> int:
        """Where the piece begins that holds a word."""
        return self.pieces[index * len(self.pieces) // len(self.words)] if self.pieces else self.position


@dataclass(frozen=True)
class Conditionals:
    """The variables of a file and the tables of all of them.

    >>> file, coin = SourceText("coin 0.25 0.75"), Conditional(["coin"], 0, ["0.25", "0.75"])
    >>> conditionals = Conditionals(file, Words("variable", "table", ""), {"coin": Bint.labelled("heads", "tails")})
    >>> conditionals.check([coin], Limits())
    >>> conditionals.tables([coin])
    ((('coin',), array([0.25, 0.75])),)
    """

    file: SourceText
    words: Words
    variables: dict[str, Domain] = field(default_factory=dict)

    def declare(self, name: str, labels: Sequence[str], position: int, limits: Limits) -> None:
        """Add a variable with its labels."""
        if name in self.variables:
            raise self.repeated(self.words.variable, name, position)
        limits.require("variables", len(self.variables) + 1, self.file.source)
        limits.require("states", len(labels), f"{self.file.source}: the {self.words.variable} of {name!r}")
        if not labels or len(set(labels)) != len(labels):
            raise self.file.error(
                position,
                f"the states {listed(labels)} in the {self.words.variable} of {name!r}",
                expected="at least one state, all different",
                advice="correct the states",
            )
        self.variables[name] = Bint.labelled(*labels)

    def repeated(self, what: str, name: str, position: int) -> FileFormatError:
        """The error of a second block of one variable."""
        return self.file.error(
            position,
            f"a second {what} of {name!r}",
            expected=f"one {what} for each variable",
            advice="rename or remove one of the two",
        )

    def title(self, conditional: Conditional) -> str:
        """A table as a message names it."""
        return f"{self.words.table} of {conditional.names[0]!r}" if conditional.names else self.words.table

    # -- headers ------------------------------------------------------------------------------------------------------

    def check(self, conditionals: Sequence[Conditional], limits: Limits) -> None:
        """Every name is known, every variable has one table, no variable is its own ancestor, no table is too large."""
        limits.require("factors", len(conditionals), self.file.source)
        by_child: dict[str, Conditional] = {}
        for one in conditionals:
            self._check_names(one)
            if one.names[0] in by_child:
                raise self.repeated(self.words.table, one.names[0], one.position)
            by_child[one.names[0]] = one
        missing = [name for name in self.variables if name not in by_child]
        if missing:
            raise self.file.error(
                self.file.end,
                f"the text ends without a {self.words.table} of {listed(missing[:5])}",
                expected=f"one {self.words.table} for each variable",
                advice="add it, or fetch the file again if its end is missing",
            )
        cycle = find_cycle({child: one.names[1:] for child, one in by_child.items()})
        if cycle:
            raise self.file.error(
                by_child[cycle[0]].position,
                f"a cycle among the parents: {' -> '.join(cycle)}",
                expected="variables that can be ordered with parents before children",
                advice="remove one arc of the cycle",
            )
        self._check_sizes(conditionals, limits)

    def _check_names(self, one: Conditional) -> None:
        parents = one.names[1:]
        if not one.names or len(set(parents)) != len(parents):
            raise self.file.error(
                one.position,
                f"the names {listed(one.names)} in the header of a {self.words.table}",
                expected="( child | parents ) with different parents",
                advice="name one child, and each of its parents once",
            )
        for place, name in enumerate(one.names):
            if name not in self.variables:
                raise self.file.error(
                    one.position,
                    f"the unknown {'parent' if place else 'variable'} {name!r} in the {self.title(one)}",
                    expected=f"a name that has a {self.words.variable}",
                    nearest=closest(name, self.variables),
                    advice=f"correct the name, or add its {self.words.variable}",
                )

    def _check_sizes(self, conditionals: Sequence[Conditional], limits: Limits) -> None:
        """Tables are counted before any is made: a default row is short, whatever it stands for."""
        cells = 0
        for one in conditionals:
            cells += math.prod(self.variables[name].extent for name in one.names)
            if len(one.names) > limits.scope or cells > limits.cells:
                what = f"{self.file.source}: the {self.title(one)}"
                limits.require("scope", len(one.names), what)
                limits.require("cells", cells, f"{what} and those before it")

    # -- values -------------------------------------------------------------------------------------------------------

    def tables(self, conditionals: Sequence[Conditional]) -> tuple[tuple[tuple[str, ...], np.ndarray], ...]:
        """The tables with axes (parents..., child), their rows normalised."""
        scopes = [(*one.names[1:], one.names[0]) for one in conditionals]
        shapes = [shape_of(self.variables[name] for name in scope) for scope in scopes]
        cells = [math.prod(shape) for shape in shapes]
        for one, count in zip(conditionals, cells, strict=True):
            if one.arrange is None and len(one.words) != count:
                raise self.miscounted(one, one.position_of_row(0), len(one.words), count)
        values = self._numbers(conditionals)
        ends = [0, *accumulate(cells)]
        self._normalise(values, conditionals, ends, np.array([shape[-1] for shape in shapes], np.int64))
        return tuple(
            (scope, values[start:end].reshape(shape))
            for scope, shape, (start, end) in zip(scopes, shapes, pairwise(ends), strict=True)
        )

    def miscounted(self, one: Conditional, position: int, found: int, expected: int) -> FileFormatError:
        """The error of a number of values that does not fit."""
        return self._misread(one, position, f"{found} values", f"{expected} values")

    def _misread(self, one: Conditional, position: int, cause: str, expected: str) -> FileFormatError:
        *parents, width = shape_of(self.variables[name] for name in (*one.names[1:], one.names[0]))
        return self.file.error(
            position,
            f"{cause} in the {self.title(one)}",
            expected=f"{expected}: {width} for each row, {math.prod(parents)} rows in all",
            advice="check the values against the labels of the child and of its parents",
        )

    def _numbers(self, conditionals: Sequence[Conditional]) -> np.ndarray:
        """All numbers of all tables, one table after another."""
        words = list(chain.from_iterable([one.words for one in conditionals]))
        try:
            numbers = np.array(list(map(float, words)), np.float64)
        except ValueError:
            numbers = None
        if numbers is None or "_" in "".join(words):  # underscores, which float() passes over
            for one in conditionals:
                misread = first_misread(one.words)
                if misread is not None:
                    position = self.file.find(one.words[misread], one.position_of_word(misread))
                    raise self._misread(one, position, f"{one.words[misread]!r} among the values", "numbers")
        assert numbers is not None
        if all(one.arrange is None for one in conditionals):
            return numbers
        ends = [0, *accumulate(len(one.words) for one in conditionals)]
        parts = [numbers[start:end] for start, end in pairwise(ends)]
        return np.concatenate(
            [one.arrange(part) if one.arrange else part for one, part in zip(conditionals, parts, strict=True)]
        )

    def _normalise(
        self, values: np.ndarray, conditionals: Sequence[Conditional], ends: Sequence[int], widths: np.ndarray
    ) -> None:
        """Each row over its sum, in place; rows of all tables are checked together."""
        if not values.size:
            return
        wrong = first_invalid(values)
        counts = np.diff(np.array(ends)) // widths
        lengths = np.repeat(widths, counts)
        starts = np.cumsum(lengths) - lengths
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.add.reduceat(values, starts)
            far = np.abs(sums - 1) > SUM_TOLERANCE
        if wrong is not None or far.any():
            row = int(far.argmax()) if wrong is None else int(np.searchsorted(starts, wrong, side="right")) - 1
            table = int(np.searchsorted(np.cumsum(counts), row, side="right"))
            fault = f"sums to {float(sums[row])!r}" if wrong is None else f"holds {float(values[wrong])!r}"
            raise self._wrong_row(conditionals[table], row - int(counts[:table].sum()), fault)
        rows = RowSums(self.file.source)
        divisors = rows.divisors(sums)
        if (divisors != 1).any():
            values /= np.repeat(divisors, lengths)
        rows.warn()

    def _wrong_row(self, one: Conditional, row: int, fault: str) -> FileFormatError:
        return self.file.error(
            one.position_of_row(row),
            f"the {self.row_title(one, row)} in the {self.title(one)} {fault}",
            expected=f"finite values, none negative, with a sum within {SUM_TOLERANCE:g} of 1",
            advice=f"correct the values; {self.words.order}",
        )

    def row_title(self, one: Conditional, row: int) -> str:
        """A row as a message names it: by the labels of the parents."""
        parents = [self.variables[name] for name in one.names[1:]]
        places = np.unravel_index(row, shape_of(parents)) if parents else ()
        labels = [str(parent.label(int(place))) for parent, place in zip(parents, places, strict=True)]
        return f"row ({', '.join(labels)})" if labels else "table"
