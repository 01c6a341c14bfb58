"""Entries of the inverse of L D Lᵀ where L is not 0, without the others: Takahashi's recursion.

S_ij = [i = j]/d_j − Σ_{k > j} S_ik L_kj, for i ≥ j, the last column first (Erisman and Tinney 1975, eq. 3). If L is not
0 at (i, j) and (k, j), it may be filled in at (i, k): each entry that is read has been computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse


class LowerColumns(NamedTuple):
    """A lower triangle by columns: the rows of each in order, that of the diagonal first."""

    starts: np.ndarray
    rows: np.ndarray
    entries: np.ndarray


FEW = 1_000  # columns that are gone through by NumPy, in the time that the loops take to be loaded or less


def selected_inverse(lower: LowerColumns, pivots: np.ndarray, pattern: Any) -> LowerColumns:
    """The inverse of L D Lᵀ in a pattern that has that of L in it, filled in to be closed."""
    if len(pivots) <= FEW:
        return _inverse_of_few(lower, pivots, pattern)
    filled, inverted = _compiled()
    starts, rows = filled(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64), len(pivots))
    csc_array: Any = scipy.sparse.csc_array
    closed = csc_array((np.zeros(len(rows)), rows, starts), shape=pattern.shape)
    closed.sort_indices()
    starts, rows = closed.indptr.astype(np.int64), closed.indices.astype(np.int64)
    own = lower.starts.astype(np.int64), lower.rows.astype(np.int64), lower.entries
    return LowerColumns(starts, rows, inverted(starts, rows, *own, pivots))


def _inverse_of_few(lower: LowerColumns, pivots: np.ndarray, pattern: Any) -> LowerColumns:
    """The same on a dense matrix, column by column."""
    size = len(pivots)
    below = _filled_below(pattern.indptr.tolist(), pattern.indices.tolist(), size)
    inverse, starts = np.zeros((size, size)), lower.starts.tolist()
    for j in range(size - 1, -1, -1):
        start, end = starts[j] + 1, starts[j + 1]
        variance = 1.0 / pivots[j]
        if len(below[j]) == 1:
            (k,), slope = below[j], lower.entries[start] if end > start else 0.0
            inverse[k, j] = inverse[j, k] = shared = -slope * inverse[k, k]
            variance -= slope * shared
        elif below[j]:
            filled, own, entries = np.array(below[j]), lower.rows[start:end], lower.entries[start:end]
            column = -(inverse[filled[:, None], own] @ entries)
            inverse[filled, j] = inverse[j, filled] = column
            variance -= inverse[j, own] @ entries
        inverse[j, j] = variance
    columns = np.repeat(np.arange(size), [1 + len(rows) for rows in below])
    rows = np.array([row for j, others in enumerate(below) for row in (j, *others)], np.int64)
    ends = np.cumsum([0, *(1 + len(others) for others in below)])
    return LowerColumns(ends, rows, inverse[rows, columns])


def _filled_below(starts: list[int], rows: list[int], size: int) -> list[list[int]]:
    """The rows below the diagonal of each column, with those that are filled in, in order."""
    waiting: list[set[int]] = [set() for _ in range(size)]
    below: list[list[int]] = []
    for j in range(size):
        own = waiting[j].union(rows[starts[j] : starts[j + 1]])
        own.discard(j)
        below.append(sorted(own))
        if own:
            waiting[below[j][0]] |= own
    return below


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two loops, compiled when they are first needed, and kept on disk where there is room."""
    from numba import njit

    try:
        return njit(cache=True)(_filled), njit(cache=True)(_inverted)
    except RuntimeError:  # no folder that can be written to
        return njit(_filled), njit(_inverted)


def _filled(starts: np.ndarray, rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A pattern with what is filled in: the rows of a column are those of the first below its diagonal too."""
    new_starts = np.zeros(size + 1, np.int64)
    new_rows = np.empty(len(rows) + size, np.int64)
    first_child, next_child = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    seen_by = np.full(size, -1, np.int64)
    end = 0
    for j in range(size):
        start = end
        if end + size > len(new_rows):  # room for a whole column
            grown = np.empty(2 * len(new_rows) + size, np.int64)
            grown[:end] = new_rows[:end]
            new_rows = grown
        seen_by[j] = j
        new_rows[end] = j
        end += 1
        for place in range(starts[j], starts[j + 1]):
            if seen_by[rows[place]] != j:
                seen_by[rows[place]] = j
                new_rows[end] = rows[place]
                end += 1
        child = first_child[j]
        while child >= 0:
            for place in range(new_starts[child], new_starts[child + 1]):
                if new_rows[place] > j and seen_by[new_rows[place]] != j:
                    seen_by[new_rows[place]] = j
                    new_rows[end] = new_rows[place]
                    end += 1
            child = next_child[child]
        new_starts[j + 1] = end
        if end > start + 1:
            parent = new_rows[start + 1]
            for place in range(start + 2, end):
                parent = min(parent, new_rows[place])
            next_child[j] = first_child[parent]
            first_child[parent] = j
    return new_starts, new_rows[:end].copy()


def _inverted(
    starts: np.ndarray,
    rows: np.ndarray,
    own_starts: np.ndarray,
    own_rows: np.ndarray,
    own_entries: np.ndarray,
    pivots: np.ndarray,
) -> np.ndarray:
    """S in the pattern (starts, rows); L is `own`, whose pattern is in it."""
    size = len(pivots)
    inverse = np.zeros(len(rows))
    column, total = np.zeros(size), np.zeros(size)  # of L, and Σ_k S_ik L_kj
    for j in range(size - 1, -1, -1):
        start, end = starts[j] + 1, starts[j + 1]
        for place in range(own_starts[j], own_starts[j + 1]):
            column[own_rows[place]] = own_entries[place]
        for place in range(start, end):
            k = rows[place]
            weight = column[k]
            total[k] += inverse[starts[k]] * weight
            here = starts[k] + 1
            for other in range(place + 1, end):
                i = rows[other]
                while rows[here] < i:
                    here += 1
                total[i] += inverse[here] * weight
                total[k] += inverse[here] * column[i]
        diagonal = 1.0 / pivots[j]
        for place in range(start, end):
            i = rows[place]
            inverse[place] = -total[i]
            diagonal += total[i] * column[i]
            total[i] = 0.0
        inverse[start - 1] = diagonal
        for place in range(start, end):
            column[rows[place]] = 0.0
        column[j] = 0.0
    return inverse
