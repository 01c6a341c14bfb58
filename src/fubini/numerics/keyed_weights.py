"""Weights of some cells alone: sorted keys, each once, and scaled weights beside them, in either engine.

An unused slot has the key `end`, which is past all others, and weight 0. On NumPy there are no unused slots and no zero
weights; on JAX the number of slots is static, a stored weight may be zero, and has its derivative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.base.semirings import Semiring
from fubini.numerics.scaled import LOG_GREATEST, Scaled, fits, gauged, linear

ROOM = 2**16  # numbers that are given a place each, whether they occur or not


class Keyed(NamedTuple):
    """The keys below `end` of some cells, in order, and the weights there; all other cells are zero."""

    keys: Data
    pair: Scaled
    end: int

    @property
    def slots(self) -> int:
        """The number of slots, used or not."""
        return self.keys.shape[0]

    @property
    def used(self) -> Data:
        """Whether each slot holds a cell."""
        return self.keys < self.end


def take(pair: Scaled, index: Data) -> Scaled:
    """The weights at the slots of an index."""
    weights, shift, low, high = pair
    return Scaled(weights[index], shift if pair.is_linear else shift[index], low, high)


def mask(pair: Scaled, keep: Data) -> Scaled:
    """The weights where `keep` is true, and zero elsewhere."""
    xp = namespace(pair.weights, pair.shift, keep)
    shift = pair.shift if pair.is_linear else xp.where(keep, pair.shift, 0.0)
    return Scaled(xp.where(keep, pair.weights, 0.0), shift, pair.low, pair.high)


def spread(pair: Scaled, slots: int) -> Scaled:
    """One weight, or as many as there are slots, for each slot."""
    xp = namespace(pair.weights, pair.shift)
    shift = pair.shift if pair.is_linear and xp is np else xp.broadcast_to(pair.shift, (slots,))
    return Scaled(xp.broadcast_to(pair.weights, (slots,)), shift, pair.low, pair.high)


def concatenate(pairs: Sequence[Scaled]) -> Scaled:
    """The weights of several, one after another."""
    xp = namespace(*(part for pair in pairs for part in pair[:2]))
    shifts = [xp.broadcast_to(pair.shift, pair.weights.shape) for pair in pairs]
    return Scaled(xp.concatenate([pair.weights for pair in pairs]), xp.concatenate(shifts))


def pad(keyed: Keyed) -> Keyed:
    """The same with at least one slot, as JAX's gathers need."""
    if keyed.slots:
        return keyed
    return Keyed(np.full(1, keyed.end), Scaled(np.zeros(1), 0.0), keyed.end)


def sort(keyed: Keyed) -> Keyed:
    """The same cells, in order of their keys."""
    order = _order(keyed.keys)
    return Keyed(keyed.keys[order], take(keyed.pair, order), keyed.end)


def _order(keys: Data) -> Data:
    return np.argsort(keys, kind="stable") if namespace(keys) is np else jnp.argsort(keys, stable=True)


def count_positive(keyed: Keyed) -> Data:
    """The number of cells that are not zero."""
    return namespace(keyed.keys).sum(keyed.used & (keyed.pair.weights != 0))


def drop_zeros(keyed: Keyed, slots: int) -> Keyed:
    """The cells that are not zero; on JAX in this number of slots, where they are more than that."""
    if namespace(keyed.keys, keyed.pair.weights) is np:
        keep = keyed.pair.weights != 0
        return keyed if keep.all() else Keyed(keyed.keys[keep], take(keyed.pair, keep), keyed.end)
    if keyed.slots <= slots:
        return keyed
    keep = keyed.used & (keyed.pair.weights != 0)
    first = jnp.argsort(~keep, stable=True)[:slots]
    keys = jnp.where(keep, keyed.keys, keyed.end)[first]
    return Keyed(keys, mask(take(keyed.pair, first), keys < keyed.end), keyed.end)


# -- sums -----------------------------------------------------------------------------------------------------------


def count_groups(keys: Data, end: int) -> Data:
    """The number of different keys among those in order."""
    return namespace(keys).sum(_starts(keys) & (keys < end))


def _starts(keys: Data) -> Data:
    """Whether each of the keys in order is the first of its kind."""
    xp = namespace(keys)
    return xp.concatenate([xp.ones(min(1, keys.shape[0]), bool), keys[1:] != keys[:-1]])


def add_groups(semiring: Semiring, keyed: Keyed, slots: int) -> Keyed:
    """⊕ of the weights of equal keys, the keys being in order; on JAX in this number of slots."""
    if namespace(keyed.keys, *keyed.pair[:2]) is np:
        return _add_groups_numpy(semiring, keyed)
    groups = jnp.cumsum(_starts(keyed.keys)) - 1
    keys = jnp.full(slots, keyed.end, keyed.keys.dtype).at[groups].set(keyed.keys, mode="drop")
    weights, shift, *_ = gauged(keyed.pair)
    exponents = jnp.where(stop_gradient(weights) > 0, stop_gradient(shift), -jnp.inf)
    top = jax.ops.segment_max(exponents, groups, slots)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    # A zero weight adds nothing, but its derivative is exp(s − c): keep that finite.
    exponent = shift - top.at[groups].get(mode="fill", fill_value=0.0)
    numbers = weights * jnp.exp(jnp.minimum(exponent, LOG_GREATEST[np.dtype(weights.dtype).name]))
    if semiring.ufunc is np.add:
        return Keyed(keys, Scaled(jax.ops.segment_sum(numbers, groups, slots), top), keyed.end)
    greatest = jax.ops.segment_max(numbers, groups, slots)
    return Keyed(keys, Scaled(jnp.where(greatest == -jnp.inf, 0.0, greatest), top), keyed.end)


def _add_groups_numpy(semiring: Semiring, keyed: Keyed) -> Keyed:
    keys, pair, end = keyed
    assert semiring.ufunc is not None, "a homogeneous semiring has one"
    if not keys.size:
        return keyed
    starts = np.flatnonzero(_starts(keys))
    flat, terms = linear(pair), math.log(keys.size)
    if flat is not None and fits(flat.low, flat.high + terms):
        total = semiring.ufunc.reduceat(flat.weights, starts)
        return Keyed(keys[starts], Scaled(total, flat.shift, flat.low, flat.high + terms), end)
    weights, shift, *_ = gauged(pair)
    top = np.maximum.reduceat(shift, starts)
    sizes = np.diff(starts, append=keys.size)
    with np.errstate(under="ignore"):
        total = semiring.ufunc.reduceat(weights * np.exp(shift - np.repeat(top, sizes)), starts)
    return Keyed(keys[starts], Scaled(total, top), end)


def add_in_place(semiring: Semiring, keyed: Keyed) -> Keyed | None:
    """⊕ of the weights of equal keys in any order, where NumPy has room for a number for each key; None elsewhere."""
    keys, pair, end = keyed
    if namespace(keys, *pair[:2]) is not np or end > ROOM + 4 * keys.size:
        return None
    flat, terms = linear(pair), math.log(max(1, keys.size))
    if flat is None or not fits(flat.low, flat.high + terms):
        return None
    if semiring.ufunc is np.add:
        total = np.bincount(keys, flat.weights, end)
    else:
        total = np.zeros(end)
        np.maximum.at(total, keys, flat.weights)
    present = np.flatnonzero(total)
    return Keyed(present, Scaled(total[present], flat.shift, flat.low, flat.high + terms), end)


# -- joins ----------------------------------------------------------------------------------------------------------


class Matches(NamedTuple):
    """For each key of a first list, where its equals are in a second one that is in order, and how many."""

    low: Data
    counts: Data

    @property
    def total(self) -> Data:
        """The number of pairs; the greatest integer where 32 bits do not hold it."""
        if namespace(self.counts) is np:
            return self.counts.sum()
        about, greatest = jnp.sum(self.counts.astype(float)), jnp.iinfo(self.counts.dtype).max
        return jnp.where(about < greatest // 2, jnp.sum(self.counts), greatest)


def match(first: Data, second: Data) -> Matches:
    """Find each key of the first among those of the second, which are in order."""
    xp = namespace(first, second)
    low = xp.searchsorted(second, first, side="left")
    return Matches(low, xp.searchsorted(second, first, side="right") - low)


def list_pairs(matches: Matches, slots: int) -> tuple[Data, Data, Data]:
    """All pairs (i, j) of equal keys, in order of i and then of j, and which of them are pairs: on JAX of the slots."""
    low, counts = matches
    xp = namespace(low)
    stops = xp.cumsum(counts)
    if xp is np:
        first = xp.repeat(xp.arange(counts.shape[0]), counts)
        pair = xp.arange(first.shape[0])
        return first, pair - (stops - counts)[first] + low[first], xp.ones(first.shape[0], bool)
    pair = jnp.arange(slots)
    first = jnp.minimum(jnp.searchsorted(stops, pair, side="right"), counts.shape[0] - 1)
    valid = pair < stops[-1]
    return first, jnp.where(valid, pair - (stops - counts)[first] + low[first], 0), valid


def look_up(keyed: Keyed, keys: Data) -> Scaled:
    """The weights of the cells with these keys; zero where there is none."""
    xp = namespace(keyed.keys, keyed.pair.weights, keys)
    keyed = pad(keyed)
    place = xp.minimum(xp.searchsorted(xp.asarray(keyed.keys), keys), keyed.slots - 1)
    return mask(take(keyed.pair, place), (keyed.keys[place] == keys) & (keys < keyed.end))


def scatter(keyed: Keyed) -> Scaled:
    """The weights of all cells, zero where there is none."""
    weights, shift, low, high = keyed.pair
    if namespace(keyed.keys, weights, shift) is not np:
        weights = jnp.zeros(keyed.end, weights.dtype).at[keyed.keys].set(weights, mode="drop")
        shift = (
            shift if np.ndim(shift) == 0 else jnp.zeros(keyed.end, shift.dtype).at[keyed.keys].set(shift, mode="drop")
        )
        return Scaled(weights, shift)
    every, shifts = np.zeros((2, keyed.end))
    every[keyed.keys] = weights
    if not keyed.pair.is_linear:
        shifts[keyed.keys] = shift
    return Scaled(every, shift if keyed.pair.is_linear else shifts, low, high)


def full_rows(keyed: Keyed, width: int, least: int) -> Data:
    """The rows k // width of which at least so many cells are present; on JAX with −1 for an unused one.

    As each takes that many slots, they are never more than slots / least.
    """
    rows = keyed.keys // width
    if namespace(rows) is np:
        different, counts = np.unique(rows, return_counts=True)
        return different[counts >= least]
    groups = jnp.cumsum(_starts(rows)) - 1
    counts = jax.ops.segment_sum(keyed.used.astype(rows.dtype), groups, keyed.slots)
    different = jnp.full(keyed.slots, -1, rows.dtype).at[groups].set(jnp.where(keyed.used, rows, -1), mode="drop")
    kept = jnp.where(counts >= least, different, -1)
    return kept[jnp.argsort(kept < 0, stable=True)[: max(1, keyed.slots // least)]]
