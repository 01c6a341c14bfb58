"""Rules of the reader: entries that are taken, replaced and added to."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.algebra.build import ONE, ZERO, const, equal, index, less, minus, negate, plus, times, where
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.ranges import bounds
from fubini.algebra.sums import total
from fubini.base.arrays import Data, is_traced, require
from fubini.errors import DataError
from fubini.read.jaxpr_reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray, of_leaf


@rule("gather")
def read_gather(reader: Reader, equation: Any, a: SymbolicArray, starts: SymbolicArray) -> SymbolicArray | None:
    """a[start + offset], where the starts are in range; of traced ones not a number where they are not"""
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape = equation.outvars[0].aval.shape
    offsets = list(numbers.offset_dims)
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [axis for axis in range(a.rank) if axis not in removed]
    batch = [axis for axis in range(len(shape)) if axis not in offsets]
    paired = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))

    def at(*where: Node) -> Node:
        places: list[Node] = [ZERO] * a.rank
        for axis, out in zip(kept, offsets, strict=True):
            places[axis] = where[out]
        outer = [where[axis] for axis in batch]
        for operand_axis, start_axis in paired.items():
            places[operand_axis] = outer[start_axis]
        for axis, start in within.items():
            places[axis] = plus(places[axis], start.at(*outer))
        return plus(a.at(*places), *(node("call", check, start.at(*outer)) for check, start in checks))

    within: dict[int, SymbolicArray] = {}
    checks: list[tuple[WithinRange, SymbolicArray]] = []
    fresh = [index(Index(size)) for size in starts.shape[:-1]]
    for place, axis in enumerate(numbers.start_index_map):
        within[axis] = start = SymbolicArray(starts.shape[:-1], partial(_entry_at, starts, const(float(place))))
        (low, high), last = bounds(start.at(*fresh)), a.shape[axis] - sizes[axis]
        if low < 0 or high > last:
            clipped = _clipped(reader, a, start, last) if np.dtype(equation.outvars[0].aval.dtype).kind == "f" else None
            if clipped is None:
                return None
            within[axis] = clipped
            checks.append((WithinRange(last), start))
    return SymbolicArray(shape, at)


def _entry_at(starts: SymbolicArray, last: Node, *where: Node) -> Node:
    return starts.at(*where, last)


class WithinRange(NamedTuple):
    """0 where a label is from 0 to the last, else not a number."""

    last: int

    is_check = True  # which no formula shows

    def __call__(self, labels: Data) -> Data:
        ok = (labels >= 0) & (labels <= self.last)
        return require(ok, self._error, jnp.zeros(jnp.shape(ok)))[0]

    def _error(self) -> DataError:
        return DataError("labels under jit", expected=f"labels from 0 to {self.last}, of an array of that many entries")


def _clipped(reader: Reader, a: SymbolicArray, start: SymbolicArray, last: int) -> SymbolicArray | None:
    """Labels that traced data decide, as if all were in range; None where they index known numbers, or are known."""
    numbers = None if reader.leaves_of(a) <= set(reader.known) else reader.numbers(start)
    if numbers is None or not is_traced(numbers):
        return None
    leaf = Leaf(f"given{len(reader.known)}", start.shape, low=0, high=last, is_integer=True, role="traced")
    whole: Any = jnp.clip(jnp.asarray(numbers, jnp.int32), 0, last)
    reader.known[leaf] = whole
    return of_leaf(leaf)


@rule("dynamic_slice")
def read_dynamic_slice(reader: Reader, equation: Any, a: SymbolicArray, *starts: SymbolicArray) -> SymbolicArray | None:
    """a[start + i], where the start is in range"""
    sizes = equation.params["slice_sizes"]
    for start, size, whole in zip(starts, sizes, a.shape, strict=True):
        low, high = bounds(start.at())
        if low < 0 or high > whole - size:
            return None
    return SymbolicArray(
        sizes, lambda *at: a.at(*(plus(part, start.at()) for part, start in zip(at, starts, strict=True)))
    )


@rule("scatter", "scatter-add")
def read_scatter(
    reader: Reader, equation: Any, a: SymbolicArray, starts: SymbolicArray, new: SymbolicArray
) -> SymbolicArray | None:
    """Entries, or slices, replaced or added to: where(i = place, new, a)"""
    numbers = equation.params["dimension_numbers"]
    if "CLIP" in str(equation.params["mode"]):
        return None
    if equation.primitive.name == "scatter-add":
        return _added(numbers, a, starts, new)
    if starts.constant is not None and starts.rank == 2:
        return _scattered(reader, numbers, a, starts.constant, new)
    point = starts.rank == 1 and not numbers.operand_batching_dims
    if not point or tuple(sorted(numbers.inserted_window_dims)) != tuple(sorted(numbers.scatter_dims_to_operand_dims)):
        return None
    window = [axis for axis in range(a.rank) if axis not in numbers.inserted_window_dims]
    if [a.shape[axis] for axis in window] != list(new.shape):
        return None

    def at(*where_: Node) -> Node:
        test = times(
            *(
                equal(where_[axis], starts.at(const(float(k))))
                for k, axis in enumerate(numbers.scatter_dims_to_operand_dims)
            )
        )
        return where(test, new.at(*(where_[axis] for axis in window)), a.at(*where_))

    return SymbolicArray(a.shape, at)


def _scattered(
    reader: Reader, numbers: Any, a: SymbolicArray, starts: np.ndarray, new: SymbolicArray
) -> SymbolicArray | None:
    """At known places along one axis, each once"""
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    places = starts[:, 0]
    plain = len(axes) == 1 and tuple(numbers.inserted_window_dims) == axes and not numbers.operand_batching_dims
    axis = axes[0]
    size = a.shape[axis]
    inside = plain and bool(np.all((places >= 0) & (places < size))) and len(set(places.tolist())) == len(places)
    if not inside or tuple(numbers.update_window_dims) != tuple(range(1, new.rank)):
        return None
    hit, which = np.zeros(size, bool), np.zeros(size, int)
    hit[places], which[places] = True, np.arange(len(places))
    touched, source = reader.constant(hit), reader.constant(which)

    def at(*where_: Node) -> Node:
        rest = (*where_[:axis], *where_[axis + 1 :])
        fresh = new.at(source.at(where_[axis]), *rest)
        return where(touched.at(where_[axis]), fresh, a.at(*where_))

    return SymbolicArray(a.shape, at)


def _added(numbers: Any, a: SymbolicArray, starts: SymbolicArray, new: SymbolicArray) -> SymbolicArray | None:
    """a[i] + Σ_j [place[j] = i] new[j], along one axis"""
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    plain = len(axes) == 1 and tuple(numbers.inserted_window_dims) == axes and not numbers.operand_batching_dims
    if not plain or starts.rank != 2 or tuple(numbers.update_window_dims) != tuple(range(1, new.rank)):
        return None
    axis = axes[0]

    def at(*where_: Node) -> Node:
        j = Index(starts.shape[0])
        rest = (*where_[:axis], *where_[axis + 1 :])
        here = equal(starts.at(index(j), ZERO), where_[axis])
        return plus(a.at(*where_), total([j], times(here, new.at(index(j), *rest))))

    return SymbolicArray(a.shape, at)


@rule("pad")
def read_pad(reader: Reader, equation: Any, a: SymbolicArray, value: SymbolicArray) -> SymbolicArray | None:
    """The value outside, a[i − low] inside"""
    spans = equation.params["padding_config"]
    if any(inner != 0 or low < 0 or high < 0 for low, high, inner in spans):
        return None

    def at(*where_: Node) -> Node:
        moved = [minus(part, const(float(low))) for part, (low, _, _) in zip(where_, spans, strict=True)]
        inside = ONE
        for part, size in zip(moved, a.shape, strict=True):
            inside = times(inside, negate(less(part, ZERO)), less(part, const(float(size))))
        return where(inside, a.at(*moved), value.at())

    return SymbolicArray(equation.outvars[0].aval.shape, at)
