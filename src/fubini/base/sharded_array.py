"""Arrays over the devices of a mesh, of any length: what is padded to fill the devices is never read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fubini.base.arrays import Data, double_precision, is_traced
from fubini.base.auto_axes import auto_mesh as auto_mesh
from fubini.base.auto_axes import on_auto_axes
from fubini.base.distant import DistantArray, Range, Test, distant, register_distant
from fubini.base.fingerprints import require_agreement
from fubini.errors import DomainError


@jax.tree_util.register_pytree_node_class
class ShardedArray(DistantArray):
    """An array over devices; `data` may be longer than its shape, so that each device has as many rows.

    >>> mesh = jax.make_mesh((1,), ("rows",))
    >>> ShardedArray(fb.shard(np.zeros(4), mesh, "rows"), (3,))
    ShardedArray(float32[3] over 1 device by P('rows',))
    """

    def __init__(self, data: jax.Array, shape: tuple[int, ...]) -> None:
        self.data, self.shape = data, tuple(shape)

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The dtype of its entries."""
        return np.dtype(self.data.dtype)

    @property
    def sharding(self) -> NamedSharding:
        """How it lies on devices."""
        return self.data.sharding  # type: ignore[return-value]

    @property
    def key(self) -> Hashable:
        return id(self.data), self.shape

    @property
    def known(self) -> Data:
        return self.data

    def entries(self) -> Data:
        """Without what it is padded by; inside of a program."""
        return self.data if self.data.shape == self.shape else self.data[tuple(map(slice, self.shape))]

    @property
    def range(self) -> Range:
        key = id(self.data), self.shape
        if key not in _RANGES:
            self._require_agreement("the range")
            with double_precision(), eval_context():
                low, high, is_finite = jax.device_get(_range(self.shape, _everywhere(self.data))(self.data))
            _RANGES[key] = Range(float(low), float(high), bool(is_finite))
            weakref.finalize(self.data, _RANGES.pop, key, None)
        return _RANGES[key]

    def first_outside(self, test: Test) -> tuple[tuple[int, ...], Any] | None:
        self._require_agreement("a check of the values")
        with double_precision(), eval_context():
            found = _first_outside(test, self.shape, _everywhere(self.data))(self.data)
            count, place, value = jax.device_get(found)
        return None if not count else (tuple(map(int, np.unravel_index(int(place), self.shape))), value)

    def _require_agreement(self, asked: str) -> None:
        require_agreement(self.sharding.mesh, f"{asked} of data", {"array": f"{self!r}"})  # type: ignore[arg-type]

    def at(self, place: tuple[int, ...]) -> str:
        """Where an entry is, in words: its shard too."""
        axis = next(axis for axis, named in enumerate(self.sharding.spec) if named is not None)
        held = self.sharding.shard_shape(self.data.shape)[axis]
        return f"{super().at(place)}, in shard {place[axis] // held} of {self.data.shape[axis] // held}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.asarray(self.data)[tuple(map(slice, self.shape))]
        return whole if dtype is None else whole.astype(dtype)

    def __jax_array__(self) -> Data:
        return self.entries()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        if is_traced(self.data) or not isinstance(self.data, jax.Array):
            return f"ShardedArray{self.shape}"
        count, size = self.sharding.num_devices, ",".join(map(str, self.shape))
        by = f"P{tuple(self.sharding.spec)}"
        return f"ShardedArray({self.dtype}[{size}] over {count} device{'s' * (count != 1)} by {by})"

    def tree_flatten(self) -> tuple[tuple, tuple[int, ...]]:
        return (self.data,), self.shape

    @classmethod
    def tree_unflatten(cls, shape: tuple[int, ...], children: tuple) -> Any:
        """Inside a program it is an array of its own length."""
        new = object.__new__(cls)
        new.data, new.shape = children[0], shape
        return new.entries() if is_traced(new.data) else new


_RANGES: dict[tuple[int, tuple[int, ...]], Range] = {}  # by identity and shape, as long as the array is kept


@register_distant
def sharded_array(data: Any) -> ShardedArray | None:
    """The record of an array that lies on a mesh in parts."""
    if not isinstance(data, jax.Array) or not is_sharded(data):
        return None
    return ShardedArray(on_auto_axes(data), data.shape)


def mesh_of(arrays: Iterable[Any]) -> Mesh | None:
    """The mesh that arrays lie on; None where none does, an error where they lie on several."""
    found: dict[tuple, tuple[Mesh, tuple[int, ...]]] = {}
    for array in arrays:
        record = distant(array)
        if isinstance(record, ShardedArray):
            mesh = record.sharding.mesh
            found.setdefault((mesh.axis_names, mesh.devices.shape, tuple(mesh.device_ids.flat)), (mesh, record.shape))  # type: ignore[union-attr]
    if len(found) > 1:
        meshes = [mesh for mesh, _ in found.values()]
        each = [f"one of shape {shape} on {in_words(mesh, *meshes[:2])}" for mesh, shape in found.values()]
        raise DomainError(
            "data over two meshes",
            expected="all arrays of a question on one mesh",
            nearest=" and ".join(each[:2]),
            advice='fb.shard(x, mesh, "rows") moves an array to another mesh',
        )
    return next(iter(found.values()))[0] if found else None  # type: ignore[return-value]


def in_words(mesh: Mesh, *others: Mesh) -> str:
    """The axes of a mesh and their sizes; also its devices, where they tell it from others with such axes."""
    alike = [list(other.device_ids.flat) for other in others if dict(other.shape) == dict(mesh.shape)]
    own = list(mesh.device_ids.flat)
    place = next((k for other in alike for k, pair in enumerate(zip(own, other, strict=True)) if pair[0] != pair[1]), 0)
    differ = f", whose device {place} is number {own[place]}" if any(other != own for other in alike) else ""
    return f"{dict(mesh.shape)}{differ}"


def sharding_on_mesh(data: Any) -> NamedSharding | None:
    """How an array lies on a mesh, also where each device holds all of it; None of all others."""
    sharding = None if is_traced(data) else getattr(data, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def on_mesh(data: Any) -> Any:
    """Data as questions compute with them: arrays on a mesh over axes of type Auto, others as they are."""
    record = sharded_array(data)
    return data if record is None else record.data


def is_sharded(data: jax.Array) -> bool:
    """Whether the parts of an array lie on different devices of a mesh, or would if it had more than one."""
    sharding = data.sharding if not is_traced(data) else None
    return isinstance(sharding, NamedSharding) and any(axes is not None for axes in sharding.spec)


def placed_alike(arrays: Iterable[Any]) -> Callable[[Data], Any]:
    """Make results of a program lie as these arrays do where they have as many rows, with as many for each device.

    Further programs take them at their own length. Where devices do not divide rows, a result would lie whole on each.
    """
    lies = {
        size: NamedSharding(record.sharding.mesh, PartitionSpec(axes))
        for record in map(distant, arrays)
        if isinstance(record, ShardedArray)
        for size, axes in zip(record.data.shape, record.sharding.spec, strict=False)
        if axes is not None
    }

    def place(data: Data) -> Any:
        for axis, size in enumerate(data.shape):
            for longer, sharding in lies.items():
                parts = longer // sharding.shard_shape((longer,))[0]
                if size % parts and -(-size // parts) * parts == longer:
                    return placed(data, axis, longer, sharding)
        return data

    def placed(data: Data, axis: int, longer: int, sharding: NamedSharding) -> ShardedArray:
        lacking = [longer - size if place == axis else 0 for place, size in enumerate(data.shape)]
        spec = [sharding.spec[0] if place == axis else PartitionSpec.UNCONSTRAINED for place in range(data.ndim)]
        filled = jnp.pad(data, [(0, count) for count in lacking])
        lies_so = NamedSharding(sharding.mesh, PartitionSpec(*spec))
        return ShardedArray(jax.lax.with_sharding_constraint(filled, lies_so), data.shape)

    return place


def _everywhere(data: jax.Array) -> NamedSharding:
    """The same on each device."""
    assert isinstance(data.sharding, NamedSharding)
    return NamedSharding(data.sharding.mesh, PartitionSpec())


@lru_cache(maxsize=256)
def _range(shape: tuple[int, ...], out: NamedSharding) -> Any:
    def compute(data: Data) -> tuple[Data, Data, Data]:
        here = data[tuple(map(slice, shape))]
        is_finite = jnp.all(jnp.isfinite(here))
        return jnp.min(here), jnp.max(here), is_finite

    return jax.jit(compute, out_shardings=out)


@lru_cache(maxsize=256)
def _first_outside(test: Test, shape: tuple[int, ...], out: NamedSharding) -> Any:
    def compute(data: Data) -> tuple[Data, Data, Data]:
        here = data[tuple(map(slice, shape))]
        outside = jnp.broadcast_to(jnp.logical_not(test(here)), shape)
        number = jnp.arange(here.size).reshape(shape)
        place = jnp.min(jnp.where(outside, number, here.size))
        return jnp.sum(outside), place, jnp.sum(jnp.where(number == place, here, jnp.zeros((), here.dtype)))

    return jax.jit(compute, out_shardings=out)
