"""Columns of a table of cases: positions of labels, with missing cells, and soft evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from fubini.base.domains import Domain
from fubini.errors import DataError, DomainError, FubiniError
from fubini.models.network_evidence import finding_of, is_finding, position_of, require_unambiguous

FEW = 1000  # rows that are looked at one by one


class Findings(NamedTuple):
    """Soft evidence of one variable in many cases: different weights [kind, value], and the kind of each case."""

    weights: np.ndarray
    at: np.ndarray

    @classmethod
    def read(cls, domain: Domain, name: str, column: np.ndarray) -> Self:
        """The weights of each cell: a list as it is, all ones of a cell that is missing, one value alone of a label."""
        rows = np.ones((len(column), domain.extent))
        for row, cell in enumerate(column):
            if is_missing(cell):
                continue
            try:
                if is_finding(domain, cell):
                    rows[row] = finding_of(domain, name, cell)
                else:
                    rows[row] = np.arange(domain.extent) == _position(domain, name, cell)
            except (DataError, DomainError) as error:
                raise at_row(row, error) from None
        weights, inverse = np.unique(rows, axis=0, return_inverse=True)
        return cls(weights, inverse.ravel())

    @classmethod
    def of_cells(cls, domain: Domain, positions: np.ndarray) -> Self:
        """Values that are observed, all ones where a cell is missing."""
        size = domain.extent
        return cls(np.concatenate([np.eye(size), np.ones((1, size))]), np.where(positions < 0, size, positions))

    def of_rows(self, rows: np.ndarray) -> Findings:
        """The findings of some cases."""
        return Findings(self.weights, self.at[rows])


def column_of(cells: Any) -> Any:
    """Cells as an array, of lists and other cells together one of objects; a categorical column stays as it is."""
    if hasattr(cells, "cat"):
        return cells
    if isinstance(cells, Sequence) and not isinstance(cells, str):
        listed = [isinstance(cell, (list, tuple, np.ndarray)) for cell in cells]
        if any(listed) and not (all(listed) and len({len(cell) for cell in cells}) == 1):
            column = np.empty(len(cells), object)
            column[:] = cells
            return column
    return np.asarray(cells)


def is_soft(column: Any) -> bool:
    """Whether some cell is a list of weights."""
    if column.ndim == 2:
        return True
    return (
        column.dtype.kind == "O"
        and not hasattr(column, "cat")
        and any(isinstance(cell, (list, tuple, np.ndarray)) for cell in column)
    )


def positions(domain: Domain, name: str, column: Any) -> np.ndarray:
    """The positions of a column of labels or positions, −1 where a cell is missing."""
    if _are_plain_positions(domain, column):
        return column
    kinds, inverse = distinct(column)
    found = [-1 if is_missing(value) else _known_position(domain, name, value, column) for value in kinds]
    return np.array([*found, -1], np.int64)[inverse]  # of a code −1, the last


def _are_plain_positions(domain: Domain, column: Any) -> bool:
    """Whether whole numbers are positions as they are: within the range, and none is another's label."""
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iu" or not len(column):
        return False
    if domain.labels is not None and any(label.lstrip("-").isdigit() for label in map(str, domain.labels)):
        return False
    return column.min() >= 0 and column.max() < domain.extent


def _known_position(domain: Domain, name: str, value: Any, column: Any) -> int:
    try:
        return _position(domain, name, value)
    except (DataError, DomainError) as error:
        raise at_row(int(np.flatnonzero([each == value for each in column.tolist()])[0]), error) from None


def _position(domain: Domain, name: str, value: Any) -> int:
    if isinstance(value, (float, np.floating)) and value == int(value):  # a column of positions with gaps
        value = int(value)
    at = position_of(domain, name, value)
    require_unambiguous(domain, name, value)
    return at


def at_row(row: int, error: FubiniError) -> FubiniError:
    """The error of a cell, with the row that it is in."""
    return type(error)(f"row {row} of the cases: {error}")


def distinct(column: Any) -> tuple[list[Any], np.ndarray]:
    """The values of a column, each once, and which of them every row has; −1 is a missing cell too."""
    if hasattr(column, "cat"):
        return list(column.cat.categories), np.asarray(column.cat.codes)
    if column.dtype.kind in "iufbUS":
        kinds, inverse = np.unique(column, return_inverse=True)
        return kinds.tolist(), inverse.ravel()
    if len(column) > FEW:
        import pandas as pd

        codes, kinds = pd.factorize(column)
        return list(kinds), codes
    places: dict[Any, int] = {}
    inverse = np.empty(len(column), np.int64)
    for row, value in enumerate(column.tolist()):
        key = None if is_missing(value) else value
        inverse[row] = places.setdefault(key, len(places))
    return list(places), inverse


def is_missing(value: Any) -> bool:
    """Whether a cell has no value."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )
