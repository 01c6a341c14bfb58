"""The structure of permutations, and what its elements stand for: a set of columns that are taken, and the next one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fubini.numerics import sdd
from fubini.numerics.circuit_structure import CircuitStructure, Integers
from fubini.numerics.vtree import Vtree, balanced, right_linear


@lru_cache(maxsize=16)
def permutation_structure(n: int) -> CircuitStructure:
    """One 1 in each row and column of n by n Booleans."""
    structure = sdd.compile_constraints(*permutation_constraints(n))
    assert structure is not None, "there are permutations"
    return structure


def permutation_constraints(n: int) -> tuple[Vtree, list[sdd.Constraint]]:
    """The rows in order, each of least height, and one 1 in each row and column."""
    rows = [list(range(i * n, i * n + n)) for i in range(n)]
    columns = [list(range(j, n * n, n)) for j in range(n)]
    vtree = Vtree.from_nested(right_linear([balanced(row) for row in rows]))
    return vtree, [sdd.exactly_one(part) for part in (*rows, *columns)]


@lru_cache(maxsize=16)
def filling_order(structure: CircuitStructure, n: int) -> tuple[Integers, Integers]:
    """For each element that chooses the column of a row, the set of columns taken before, as bits, and the column.

    Both are −1 for elements below a row, which choose nothing.
    """
    column = _columns(structure, n)
    taken = np.full(structure.count, -1, np.int64)
    taken[-1] = 0
    sets, chosen = (np.full(structure.size, -1, np.int64) for _ in range(2))
    for element in reversed(range(structure.size)):  # owners before what they lead to
        before = taken[structure.owner[element]]
        if before >= 0:
            own = column[structure.prime[element]]
            sets[element], chosen[element] = before, own
            taken[structure.sub[element]] = before | 1 << own
    last = np.isin(structure.owner, np.flatnonzero(_is_row(structure, n)))
    return tuple(np.where(last, -1, part).astype(np.int32) for part in (sets, chosen))  # type: ignore[return-value]


def _columns(structure: CircuitStructure, n: int) -> Integers:
    """The column of the 1 below each node of a row, −1 below which there is none."""
    column = np.full(structure.count, -1, np.int64)
    column[: structure.leaves] = np.where(structure.support[:, 0], -1, structure.variable % n)
    for owner, prime, sub in zip(*structure.elements, strict=True):
        column[owner] = max(column[prime], column[sub])
    return column.astype(np.int32)


def _is_row(structure: CircuitStructure, n: int) -> np.ndarray:
    """Whether the variables below each node are of one row."""
    rows = [len({variable // n for variable in scope}) == 1 for scope in structure.vtree.scopes]
    return np.concatenate([np.ones(structure.leaves, bool), np.asarray(rows, bool)[structure.place]])
