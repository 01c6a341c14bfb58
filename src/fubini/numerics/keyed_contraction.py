"""Contraction of two keyed weights: ⊕_s f(k, x, s) g(k, s, y), summed while it is joined, so that f·g is never built.

Each operand is a matrix: f has a row for each (k, x) and a column for each (k, s), g a row for each (k, s) and a column
for each y; the contraction is their product. Sums of products in double precision are a product of sparse matrices
(Gustavson 1978); others are done block by block, each with all pairs of some rows, so that a block's groups are
finished with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.semirings import Semiring
from fubini.numerics.keyed_weights import ROOM, Keyed, add_groups, count_groups, list_pairs, mask, match, sort, take
from fubini.numerics.scaled import Scaled, fitting, multiplied

PAIRS = 2**22  # that are looked at together
SPARE = 4  # slots for pairs, relative to the capacity, where their number is not known


class Operand(NamedTuple):
    """The weights of an operand; for each, the key of its cell (k, s), which both have, and that of its other names."""

    inner: Data
    outer: Data
    pair: Scaled
    ends: tuple[int, int]  # past the keys of either kind, which unused slots have
    alone: int  # the number of cells of the names that the other one lacks


class Contracted(NamedTuple):
    """The result in order of its keys, the cells that it has, and whether all pairs found a slot."""

    keyed: Keyed
    count: Data
    is_complete: Data = True


def contract_keyed(semiring: Semiring, f: Operand, g: Operand, capacity: int) -> Contracted:
    """⊕_s f(k, x, s) g(k, s, y), with keys of (k, x) and then of y; no more cells than the capacity are kept."""
    if namespace(f.inner, g.inner, *f.pair[:2], *g.pair[:2]) is not np:
        return _contract_on_jax(semiring, f, g, capacity)
    left, right = fitting(f.pair, g.pair) if semiring.ufunc is np.add else (None, None)
    if left is None or right is None:
        return _collect(_contract_blocks(semiring, f, g), f.ends[1] * g.ends[1], capacity)
    f, g = f._replace(pair=left), g._replace(pair=right)
    return _collect(_multiply_matrices(f, g), f.ends[1] * g.ends[1], capacity)


def _collect(blocks: Iterator[Keyed], end: int, capacity: int) -> Contracted:
    """The blocks one after another; past the capacity they are counted, and not kept."""
    kept: list[Keyed] = []
    count = 0
    for block in blocks:
        count += block.slots
        kept.append(block)
        if count > capacity:
            kept = kept[:1]
    keys = np.concatenate([block.keys for block in kept]) if kept else np.zeros(0, np.int64)
    shifts = {block.pair.shift for block in kept if block.pair.is_linear}
    weights = np.concatenate([block.pair.weights for block in kept]) if kept else np.zeros(0)
    if len(shifts) <= 1 and all(block.pair.is_linear for block in kept):
        return Contracted(Keyed(keys, Scaled(weights, shifts.pop() if shifts else 0.0), end), count)
    spread = [np.broadcast_to(block.pair.shift, block.pair.weights.shape) for block in kept]
    return Contracted(Keyed(keys, Scaled(weights, np.concatenate(spread)), end), count)


# -- sums of products, as matrices ----------------------------------------------------------------------------------


def _multiply_matrices(f: Operand, g: Operand) -> Iterator[Keyed]:
    """Σ_s F[(k, x), (k, s)] G[(k, s), y], some rows of F at a time."""
    rows, row_keys = _numbered(f.outer, f.ends[1])
    columns, column_keys = _numbered(g.outer, g.ends[1])
    inner, inner_keys = _numbered(g.inner, g.ends[0])
    own, present = _numbers_of(f.inner, inner_keys)
    left = _matrix(f.pair.weights[present], (rows[present], own[present]), (_size(row_keys), _size(inner_keys)))
    right = _matrix(g.pair.weights, (inner, columns), (_size(inner_keys), _size(column_keys)))
    shift, end = f.pair.shift + g.pair.shift, f.ends[1] * g.ends[1]
    for start, stop in _blocks_of_rows(left, np.diff(right.indptr)):
        product = left[start:stop] @ right
        product.sort_indices()
        numbers = np.repeat(np.arange(start, stop), np.diff(product.indptr))
        keys = _keys_of(numbers, row_keys) * g.ends[1] + _keys_of(product.indices, column_keys)
        yield Keyed(keys, Scaled(product.data, shift), end)


def _matrix(weights: np.ndarray, cells: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]) -> Any:
    return scipy.sparse.csr_array((weights, cells), shape=shape)


def _numbered(keys: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray | int]:
    """Small numbers in place of keys, in the same order, and the key of each; small keys are left as they are."""
    if end <= ROOM + 4 * keys.size:
        return keys, end
    different, numbers = np.unique(keys, return_inverse=True)
    return numbers, different


def _numbers_of(keys: np.ndarray, different: np.ndarray | int) -> tuple[np.ndarray, Data]:
    """The numbers of keys among those numbered, and which of them are."""
    if isinstance(different, int):
        return keys, slice(None)
    places = np.minimum(np.searchsorted(different, keys), max(0, different.size - 1))
    return places, different[places] == keys if different.size else np.zeros(keys.size, bool)


def _keys_of(numbers: np.ndarray, different: np.ndarray | int) -> np.ndarray:
    return numbers.astype(np.int64) if isinstance(different, int) else different[numbers]


def _size(different: np.ndarray | int) -> int:
    return different if isinstance(different, int) else max(1, different.size)


def _blocks_of_rows(left: Any, lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Rows together that make no more than `PAIRS` pairs, or a single one that makes more."""
    pairs = np.concatenate([[0], np.cumsum(lengths[left.indices])])[left.indptr]
    start, last = 0, left.shape[0]
    while start < last:
        stop = max(start + 1, int(np.searchsorted(pairs, pairs[start] + PAIRS, side="right")) - 1)
        yield start, min(stop, last)
        start = stop


# -- in any semiring of weights, and in log space -------------------------------------------------------------------


def _contract_blocks(semiring: Semiring, f: Operand, g: Operand) -> Iterator[Keyed]:
    """The pairs of some rows at a time, grouped by the cell that they add to."""
    by_row, by_inner = np.argsort(f.outer, kind="stable"), np.argsort(g.inner, kind="stable")
    f, g = _at(f, by_row), _at(g, by_inner)
    matches = match(f.inner, g.inner)
    pairs, starts = np.cumsum(matches.counts), np.flatnonzero(np.diff(f.outer, prepend=-1))
    row, end = 0, f.ends[1] * g.ends[1]
    while row < starts.size:
        before = pairs[starts[row] - 1] if starts[row] else 0
        ends = pairs[np.append(starts[row + 1 :], f.outer.size) - 1]
        more = max(1, int(np.searchsorted(ends, before + PAIRS, side="right")))
        here = slice(starts[row], starts[row + more] if row + more < starts.size else f.outer.size)
        first, second, _ = list_pairs(type(matches)(matches.low[here], matches.counts[here]), 0)
        first = first + here.start
        keys = f.outer[first] * g.ends[1] + g.outer[second]
        pair = multiplied(take(f.pair, first), take(g.pair, second))
        yield add_groups(semiring, sort(Keyed(keys, pair, end)), 0)
        row += more


def _at(operand: Operand, order: Data) -> Operand:
    return operand._replace(inner=operand.inner[order], outer=operand.outer[order], pair=take(operand.pair, order))


# -- with a number of slots that is fixed ---------------------------------------------------------------------------


def _contract_on_jax(semiring: Semiring, f: Operand, g: Operand, capacity: int) -> Contracted:
    """The pairs in as many slots as there can be, or `SPARE` times the capacity; then their groups."""
    g = _at(g, jnp.argsort(g.inner, stable=True))
    matches = match(jnp.where(f.inner < f.ends[0], f.inner, -1), g.inner)
    slots = _most_pairs(f, g, capacity) if is_traced(matches.low) else max(1, int(matches.total))
    first, second, valid = list_pairs(matches, slots)
    end = f.ends[1] * g.ends[1]
    keys = jnp.where(valid, f.outer[first] * g.ends[1] + g.outer[second], end)
    pair = mask(multiplied(take(f.pair, first), take(g.pair, second)), valid)
    groups = sort(Keyed(keys, pair, end))
    summed = add_groups(semiring, groups, min(end, capacity, slots))
    kept = summed._replace(pair=mask(summed.pair, summed.used))
    return Contracted(kept, count_groups(groups.keys, end), matches.total <= slots)


def _most_pairs(f: Operand, g: Operand, capacity: int) -> int:
    """As many pairs as the shapes allow, or as are looked at."""
    own, theirs = f.inner.shape[0], g.inner.shape[0]
    possible = min(own * min(theirs, g.alone), theirs * min(own, f.alone))
    return max(1, min(possible, max(SPARE * capacity, ROOM)))
