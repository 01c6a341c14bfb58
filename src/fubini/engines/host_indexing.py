"""JAX's reads and writes at places that are computed, on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

Places = list[np.ndarray]


def gather(operand: np.ndarray, indices: np.ndarray, *, dimension_numbers: Any, slice_sizes: Any, **given: Any) -> Any:
    """Slices of these sizes, one from each place; a place outside is moved inside, or filled."""
    how = dimension_numbers
    batch = indices.shape[:-1]
    gone = {*how.collapsed_slice_dims, *how.operand_batching_dims}
    window = [axis for axis in range(operand.ndim) if axis not in gone]
    starts, inside = _starts(
        operand.shape,
        indices,
        slice_sizes,
        how.start_index_map,
        tuple(zip(how.operand_batching_dims, how.start_indices_batching_dims, strict=True)),
    )
    at = _window_places(starts, slice_sizes, window, len(batch))
    result = operand[tuple(at)]
    if given["mode"] == GatherScatterMode.FILL_OR_DROP and not inside.all():
        fill = given.get("fill_value")
        empty = _no_number(operand.dtype) if fill is None else operand.dtype.type(fill)
        result = np.where(inside.reshape((*batch, *(1,) * len(window))), result, empty)
    order = [0] * result.ndim
    outer = [axis for axis in range(result.ndim) if axis not in how.offset_dims]
    for place, axis in enumerate((*outer, *how.offset_dims)):
        order[axis] = place
    return result.transpose(order)


def scatter_add(operand: np.ndarray, indices: np.ndarray, updates: np.ndarray, **given: Any) -> np.ndarray:
    """The operand with the updates added at their positions; updates outside are dropped."""
    return _scattered(np.add.at, operand, indices, updates, **given)


def scatter(operand: np.ndarray, indices: np.ndarray, updates: np.ndarray, **given: Any) -> np.ndarray:
    """The operand with the updates set at their positions; updates outside are dropped."""
    return _scattered(lambda into, at, what: into.__setitem__(at, what), operand, indices, updates, **given)


def _scattered(write: Any, operand: np.ndarray, indices: np.ndarray, updates: np.ndarray, **given: Any) -> np.ndarray:
    how = given["dimension_numbers"]
    batch = indices.shape[:-1]
    gone = {*how.inserted_window_dims, *how.operand_batching_dims}
    window = [axis for axis in range(operand.ndim) if axis not in gone]
    sizes = [1] * operand.ndim
    for axis, place in zip(window, how.update_window_dims, strict=True):
        sizes[axis] = updates.shape[place]
    starts, inside = _starts(
        operand.shape,
        indices,
        sizes,
        how.scatter_dims_to_operand_dims,
        tuple(zip(how.operand_batching_dims, how.scatter_indices_batching_dims, strict=True)),
    )
    outer = [axis for axis in range(updates.ndim) if axis not in how.update_window_dims]
    moved = updates.transpose((*outer, *how.update_window_dims))
    at = np.broadcast_arrays(*_window_places(starts, sizes, window, len(batch))) if operand.ndim else []
    kept = np.ones(batch, bool) if given["mode"] == GatherScatterMode.CLIP else inside
    result = np.array(operand)
    if not operand.ndim:
        for update, ok in zip(moved.reshape(-1), kept.reshape(-1), strict=True):
            write(result, (), update if ok else result[()] * 0)
        return result
    whole = np.broadcast_to(kept.reshape((*batch, *(1,) * len(window))), moved.shape)
    write(result, tuple(part[whole] for part in at), moved[whole])
    return result


def dynamic_slice(operand: np.ndarray, *starts: np.ndarray, slice_sizes: Any, **_: Any) -> np.ndarray:
    """A slice from a place, which is moved so that the slice is inside."""
    return operand[_slices(operand.shape, starts, slice_sizes)]


def dynamic_update_slice(operand: np.ndarray, update: np.ndarray, *starts: np.ndarray, **_: Any) -> np.ndarray:
    """The operand with a slice of it replaced."""
    result = np.array(operand)
    result[_slices(operand.shape, starts, update.shape)] = update
    return result


def _slices(shape: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    first = [min(max(int(at), 0), whole - size) for at, whole, size in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))


def _starts(shape: Any, indices: np.ndarray, sizes: Any, axes: Any, batching: Any) -> tuple[Places, np.ndarray]:
    """The first place of each slice along each axis, moved inside, and whether it was there."""
    batch = indices.shape[:-1]
    starts, inside = [np.zeros(batch, int) for _ in shape], np.ones(batch, bool)
    for place, axis in enumerate(axes):
        asked, most = indices[..., place].astype(int), shape[axis] - sizes[axis]
        inside &= (asked >= 0) & (asked <= most)
        starts[axis] = np.clip(asked, 0, max(most, 0))
    for axis, of in batching:
        own = [1] * len(batch)
        own[of] = batch[of]
        starts[axis] = np.broadcast_to(np.arange(batch[of]).reshape(own), batch)
    return starts, inside


def _window_places(starts: Places, sizes: Any, window: list[int], rank: int) -> Places:
    """The places of all entries of slices, along each axis: [batch …, window …]."""
    places = []
    for axis, start in enumerate(starts):
        at = start.reshape((*start.shape, *(1,) * len(window)))
        if axis in window:
            own = [1] * (rank + len(window))
            own[rank + window.index(axis)] = sizes[axis]
            at = at + np.arange(sizes[axis]).reshape(own)
        places.append(at)
    return places


def _no_number(dtype: np.dtype) -> Any:
    if np.issubdtype(dtype, np.inexact):
        return dtype.type(np.nan)
    if np.issubdtype(dtype, np.bool_):
        return np.True_
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max
