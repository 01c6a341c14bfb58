"""Many cases of evidence on one network: the same questions, one row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fubini.errors import DataError, DomainError
from fubini.show.printed_form import Block, Shown, Words

SHOWN = 6  # columns that are printed


class NetworkCases(Shown):
    """A network given each row of a table of labels or positions; a cell that is missing (None, NaN) is not observed.

    Rows in which the same variables are observed are answered together.

    >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
    >>> net.condition_many({"b": [0, 1, 0]})
    3 cases of b, given to
    Network(unnamed: 2 variables)
      a: Bint[2]
      b: Bint[2]
    """

    def __init__(self, network: Any, cases: Any) -> None:
        self.network = network
        columns = {str(name): np.asarray(cases[name]) for name in cases}
        network._require(tuple(columns), "evidence")
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            shown = ", ".join(f"{name}: {len(column):,}" for name, column in columns.items()) or "no columns"
            raise DomainError("cases of evidence", expected="columns of the same length", nearest=shown)
        self.count = lengths.pop()
        for name in columns:
            if name in network.evidence:
                raise DataError(f"a column {name!r} of cases", expected="variables that are not observed already")
            if not network.variables[name].is_finite:
                raise DomainError(f"a column {name!r} of cases", expected="variables of finitely many values")
        self.positions = {name: self._read(name, column) for name, column in columns.items()}

    def _read(self, name: str, column: np.ndarray) -> np.ndarray:
        """The positions of a column, −1 where a cell is missing."""
        kinds, inverse = _distinct(column)
        found = [-1 if _is_missing(value) else self._position(name, value, column) for value in kinds]
        return np.array(found, np.int64)[inverse]

    def _position(self, name: str, value: Any, column: np.ndarray) -> int:
        if isinstance(value, (float, np.floating)) and value == int(value):  # a column of positions with gaps
            value = int(value)
        try:
            at = self.network._position(name, value)
            self.network._require_unambiguous(name, value)
        except (DataError, DomainError) as error:
            row = int(np.flatnonzero([each == value for each in column.tolist()])[0])
            raise type(error)(f"row {row} of the cases: {error}") from None
        return at

    def _groups(self) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Rows in which the same variables are observed, and these."""
        names = list(self.positions)
        seen = np.stack([self.positions[name] >= 0 for name in names], axis=1)
        patterns, inverse = np.unique(seen, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            yield np.flatnonzero(inverse.ravel() == k), [n for n, has in zip(names, pattern, strict=True) if has]

    def log_evidence(self) -> np.ndarray:
        """log P(evidence) of each row; −inf of one that is impossible.

        >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition_many({"b": [0, 1]}).log_evidence().round(4)
        array([-0.2877, -1.3863])
        """
        logs = np.empty(self.count)
        for rows, names in self._groups():
            many = self._many(rows, names)
            found = many.log_evidence() if many is not None else None
            logs[rows] = [float(case.log_evidence()) for case in self._cases(rows, names)] if found is None else found
        return logs

    def marginals(self) -> dict[str, np.ndarray]:
        """P(variable | evidence) [row, value] of every variable that some row does not observe.

        Where a row observes it, all its probability is at the observed value.

        >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition_many({"b": [1, None]}).marginals()["b"]
        array([[0.  , 1.  ],
               [0.75, 0.25]])
        """
        made: dict[str, np.ndarray] = {}
        for name, domain in self.network.variables.items():
            at = self.positions.get(name)
            if name in self.network.evidence or (at is not None and (at >= 0).all()):
                continue
            made[name] = np.zeros((self.count, domain.extent))
            if at is not None:
                observed = np.flatnonzero(at >= 0)
                made[name][observed, at[observed]] = 1.0
        for rows, names in self._groups():
            many = self._many(rows, names)
            found = many.marginals() if many is not None else None
            if found is None:
                found = self._one_by_one(rows, names)
            for name, table in found.items():
                if name in made:
                    made[name][rows] = table
        return made

    def _many(self, rows: np.ndarray, names: list[str]) -> Any:
        """The rows as cases of the network's tables, with what was observed before; None where these are no tables."""
        tables = self.network._tables
        if tables is None:
            return None
        before = self.network.evidence
        columns = [self.positions[name][rows] for name in names]
        columns += [np.full(len(rows), value) for value in before.values()]
        cases = np.stack(columns, axis=1) if columns else np.empty((len(rows), 0), np.int64)
        return tables.many([*names, *before], cases, None)

    def _cases(self, rows: np.ndarray, names: list[str]) -> Iterator[Any]:
        """The network given one row after another."""
        for row in rows:
            seen = {name: int(self.positions[name][row]) for name in names}
            yield self.network._given({**self.network.evidence, **seen})

    def _one_by_one(self, rows: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
        """Marginals row by row: where one has no mass, the error says which."""
        tables: list[dict[str, Any]] = []
        for row, case in zip(rows, self._cases(rows, names), strict=True):
            try:
                tables.append(case.marginals())
            except DataError as error:
                raise DataError(f"row {int(row)} of the cases: {error}") from None
        return {name: np.stack([table[name].weights for table in tables]) for name in tables[0]}

    def _form(self) -> Iterable[Block]:
        """How many cases, which columns, and the network."""
        shown = [*list(self.positions)[:SHOWN], *(["…"] if len(self.positions) > SHOWN else [])]
        count = f"{self.count:,} case{'s' * (self.count != 1)}"
        yield Words(f"{count} of {', '.join(shown) or 'no variables'}, given to")
        yield from self.network._form()


def _distinct(column: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The values of a column, each once, and which of them every row has."""
    if column.dtype.kind in "iufbUS":
        kinds, inverse = np.unique(column, return_inverse=True)
        return kinds.tolist(), inverse.ravel()
    places: dict[Any, int] = {}
    inverse = np.empty(len(column), np.int64)
    for row, value in enumerate(column.tolist()):
        key = None if _is_missing(value) else value
        inverse[row] = places.setdefault(key, len(places))
    return list(places), inverse


def _is_missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )
