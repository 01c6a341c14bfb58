"""Rows of data over the variables of a network, as codes: a data frame with labels or positions, and missing cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fubini.base.domains import Bint, Domain
from fubini.engines.code_cache import load
from fubini.errors import DataError, DomainError, UnknownName, closest, listed
from fubini.models.case_columns import column_of, distinct, is_missing, is_soft, positions

COMPILED = 200_000  # rows from which compiled loops count


@dataclass(frozen=True)
class Rows:
    """The code of every variable in every row, [variable, row]: a position, or past the last where it is missing."""

    domains: Mapping[str, Domain]
    codes: np.ndarray

    @classmethod
    def read(cls, frame: Any, names: Sequence[str], domains: Mapping[str, Domain]) -> Rows:
        """The rows of a data frame, or of columns by name: one column for each variable, no others."""
        columns = {str(name): column_of(frame[name]) for name in _names(frame)}
        for name in columns:
            if name not in names:
                raise UnknownName(
                    f"the column {name!r} of the data",
                    expected=f"one of the {len(names)} variables of the network",
                    nearest=closest(name, names),
                    advice=f"leave it out: frame.drop(columns={name!r})",
                )
        lacking = [name for name in names if name not in columns]
        if lacking:
            raise UnknownName(
                f"data without a column {lacking[0]!r}",
                expected=f"a column for each of the {len(names)} variables, cells may be missing",
                nearest=closest(lacking[0], columns),
            )
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            shown = ", ".join(f"{name}: {len(column):,}" for name, column in columns.items())
            raise DomainError("data for a network", expected="columns of the same length", nearest=shown)
        if lengths == {0}:
            raise DataError("data for a network without rows", expected="at least one row")
        for name, column in columns.items():
            if is_soft(column):
                raise DomainError(
                    f"the column {name!r} of the data, with lists of weights",
                    expected="labels or positions: tables are learnt from what was observed",
                    advice="leave uncertain cells missing",
                )
        known = {name: domains[name] if name in domains else domain_of(name, columns[name]) for name in names}
        for name, domain in known.items():
            if not domain.is_finite:
                raise DomainError(f"data of {name!r} in {domain!r}", expected="variables of finitely many values")
        largest = max(domain.extent for domain in known.values())
        codes = np.empty((len(names), *lengths), np.min_scalar_type(largest))
        for place, (name, domain) in enumerate(known.items()):
            _write(codes[place], positions(domain, name, columns[name]), domain.extent)
        return cls(known, codes)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.codes.shape[1]

    @cached_property
    def has_gaps(self) -> np.ndarray:
        """Which rows have a missing cell."""
        gaps = np.zeros(self.count, np.bool_)
        for code, domain in zip(self.codes, self.domains.values(), strict=True):
            gaps |= code == domain.extent
        return gaps

    def missing(self, name: str) -> int:
        """The number of missing cells of a variable."""
        return int(np.count_nonzero(self.codes[self.place[name]] == self.domains[name].extent))

    @cached_property
    def place(self) -> dict[str, int]:
        """The row of codes of each variable."""
        return {name: place for place, name in enumerate(self.domains)}

    def of(self, rows: np.ndarray) -> Rows:
        """Some of the rows."""
        return Rows(self.domains, np.ascontiguousarray(self.codes[:, rows]))

    def counts(self, names: Sequence[str]) -> np.ndarray:
        """How many rows have each combination of values of some variables, all of them observed."""
        sizes = [self.domains[name].extent + 1 for name in names]
        strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        if math.prod(sizes) >= 2**32:
            raise DataError(f"a table over {listed(names)}", expected=f"at most {2**32:,} cells")
        members = np.array([self.place[name] for name in names])
        if self.count >= COMPILED:
            found = np.zeros(math.prod(sizes), np.int64)
            load("table_counts").count_rows(self.codes, members, np.array(strides, np.int64), found)
        else:
            cells = sum(self.codes[k].astype(np.int64) * stride for k, stride in zip(members, strides, strict=True))
            found = np.bincount(cells, minlength=math.prod(sizes))
        return found.reshape(sizes)[tuple(slice(size - 1) for size in sizes)]

    def distinct(self) -> tuple[Rows, np.ndarray]:
        """The different rows, and how often each occurs."""
        kinds, counts = np.unique(self.codes, axis=1, return_counts=True)
        return Rows(self.domains, kinds), counts.astype(np.float64)


def _names(frame: Any) -> Iterable[Any]:
    names = list(frame)
    if not names:
        raise DataError("data for a network without columns", expected="a data frame, or columns by name")
    return names


def _write(codes: np.ndarray, found: np.ndarray, missing: int) -> None:
    codes[:] = found
    if found.dtype.kind == "i" and (gaps := found < 0).any():
        codes[gaps] = missing


def domain_of(name: str, column: Any) -> Domain:
    """The values of a column: its labels in order, or positions from 0 to the greatest."""
    if hasattr(column, "cat"):
        return Bint.labelled(*map(str, column.cat.categories))
    kinds = [value for value in distinct(column)[0] if not is_missing(value)]
    if not kinds:
        raise _all_missing(name)
    if all(isinstance(value, str) for value in kinds):
        return Bint.labelled(*sorted(kinds))
    if all(map(_is_position, kinds)):
        return Bint[int(max(kinds)) + 1]
    raise DomainError(
        f"the values of {name!r}, {listed(kinds[:6])}",
        expected="labels as strings, or positions from 0 on",
        advice=f"turn them into labels: frame[{name!r}].astype(str)",
    )


def _is_position(value: Any) -> bool:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value == int(value) >= 0


def _all_missing(name: str) -> DataError:
    return DataError(
        f"data in which every cell of {name!r} is missing",
        expected="at least one observed cell in each column",
        advice="without any, its values are interchangeable, and nothing tells them apart",
    )


def require_observed(rows: Rows) -> None:
    """Raise where a variable is observed in no row."""
    for name in rows.domains:
        if rows.missing(name) == rows.count:
            raise _all_missing(name)
