"""`fb.shard`: an array placed on the devices of a mesh, each process reading its own rows."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fubini.base.arrays import Data, is_traced
from fubini.base.distant import distant
from fubini.base.fingerprints import require_agreement
from fubini.base.row_places import RowPlaces
from fubini.base.sharded_array import ShardedArray, auto_mesh
from fubini.base.stream import Stream
from fubini.errors import DomainError, UnknownName, closest, listed


def shard(x: Any, mesh: Mesh, *axes: str | None) -> Any:
    """An array whose first axes lie along these axes of a mesh; None leaves an axis whole.

    Data decide the mesh, as they decide the engine: models and factors that read the array are computed where its rows
    are. It may be an array, a memory map or a Zarr array: each process reads its own rows. A length that the devices
    do not divide is padded, at no effect on any answer. Of an `fb.Stream` each process reads its share, chunk by chunk,
    of which each of its devices sums a part.

    >>> mesh = jax.make_mesh((1,), ("rows",))
    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), y=lambda m: fb.dist.Normal(m, 1.0).expand([100])))
    >>> y = fb.shard(np.linspace(0.0, 1.0, 100), mesh, "rows")
    >>> round(float(model.condition(y=y).marginal("m").mean("m")), 4)
    0.495
    """
    _require_mesh(mesh)
    if isinstance(x, Stream):
        return _placed_stream(x, mesh, axes)
    if is_traced(x):
        raise DomainError(
            "fb.shard(…) of an array inside a compiled function",
            expected="an array, a memory map or a Zarr array, before the function is called",
            advice="inside, jax.lax.with_sharding_constraint places a value",
        )
    shape = _shape_of(x)
    _require_axes(mesh, axes, shape)
    sharding = NamedSharding(auto_mesh(mesh), PartitionSpec(*axes))
    padded = tuple(
        size if place >= len(axes) or axes[place] is None else _rounded_up(size, mesh.shape[axes[place]])
        for place, size in enumerate(shape)
    )
    require_agreement(mesh, f"fb.shard(…, {', '.join(map(repr, axes))})", {"shape": shape, "dtype": _dtype_of(x)})
    record = distant(x)
    if isinstance(record, ShardedArray):
        return _moved(record, sharding, padded)
    dtype = jax.dtypes.canonicalize_dtype(_dtype_of(x))
    data = jax.make_array_from_callback(padded, sharding, lambda where: _rows(x, where, shape, padded, dtype))
    return data if padded == shape else ShardedArray(data, shape)


def _placed_stream(stream: Stream, mesh: Mesh, axes: tuple[str | None, ...]) -> Stream:
    """A stream whose chunks are summed on the devices along an axis."""
    _require_axes(mesh, axes, stream.shape[:1])
    return stream.placed(RowPlaces(mesh, tuple(axis for axis in axes if axis is not None)))


def _moved(record: ShardedArray, sharding: NamedSharding, padded: tuple[int, ...]) -> Any:
    """An array that lies on devices already, placed on others."""
    shape = record.shape
    whole = jax.jit(lambda data: _padded(data[tuple(map(slice, shape))], padded))(record.data)
    data = jax.device_put(whole, sharding)
    return data if padded == shape else ShardedArray(data, shape)


def _padded(data: Data, shape: tuple[int, ...]) -> Data:
    return jax.numpy.pad(data, [(0, size - own) for own, size in zip(data.shape, shape, strict=True)])


def _rows(x: Any, where: Any, shape: tuple[int, ...], padded: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The part of an array that one device holds; zeros beyond its end."""
    spans = [span.indices(size) for span, size in zip(where, padded, strict=True)]
    inside = tuple(
        slice(min(start, size), min(stop, size)) for (start, stop, _), size in zip(spans, shape, strict=True)
    )
    part = np.asarray(x[inside] if shape else x, dtype)
    lacking = [(0, stop - start - own) for (start, stop, _), own in zip(spans, part.shape, strict=True)]
    return np.pad(part, lacking) if any(after for _, after in lacking) else part


def _rounded_up(size: int, parts: int) -> int:
    return -(-size // parts) * parts


def _dtype_of(x: Any) -> np.dtype:
    return np.dtype(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)


def _shape_of(x: Any) -> tuple[int, ...]:
    shape = getattr(x, "shape", None)
    if shape is None and isinstance(x, (list, tuple)):
        shape = np.shape(x)
    kind = np.dtype(getattr(x, "dtype", float)).kind if not isinstance(x, jax.Array) else "f"
    if shape is None or kind not in "biuf" or isinstance(x, np.ma.MaskedArray):
        raise DomainError(
            f"fb.shard of {type(x).__name__}",
            expected="numbers: an array, a memory map (np.load(…, mmap_mode='r')) or a Zarr array",
            advice="entries that are missing are not read from a mesh: leave their rows out"
            if isinstance(x, np.ma.MaskedArray)
            else "fb.Stream reads files in chunks",
        )
    return tuple(shape)


def _require_mesh(mesh: Any) -> None:
    if not isinstance(mesh, Mesh):
        raise DomainError(
            f"fb.shard(x, {mesh!r}, …)",
            expected="a mesh of devices",
            advice='jax.make_mesh((len(jax.devices()),), ("rows",)) has all of them along one axis',
        )


def _require_axes(mesh: Mesh, axes: tuple[str | None, ...], shape: tuple[int, ...]) -> None:
    asked = f"fb.shard(…, {', '.join(map(repr, axes))})"
    named = [axis for axis in axes if axis is not None]
    if not named:
        raise DomainError(asked, expected=f"an axis of the mesh for an axis of the array: {listed(mesh.axis_names)}")
    for axis in named:
        if not isinstance(axis, str):
            raise DomainError(
                asked,
                expected=f"a name for each of the first axes of the array: {listed(mesh.axis_names)}, or None",
                nearest=f"{axis!r}",
                advice='fb.shard(x, mesh, "rows") lays the first axis along rows; a mesh of one axis has all devices',
            )
        if axis not in mesh.axis_names:
            raise UnknownName(
                asked, expected=f"axes of the mesh: {listed(mesh.axis_names)}", nearest=closest(axis, mesh.axis_names)
            )
    if len(set(named)) < len(named):
        raise DomainError(asked, expected="each axis of the mesh once")
    if len(axes) > len(shape):
        raise DomainError(f"{asked} of an array of shape {shape}", expected=f"at most {len(shape)} axes")
