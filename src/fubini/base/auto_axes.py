"""Arrays over meshes whose axes are Explicit, on axes of type Auto: there the compiler places what is computed."""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

of_jax: Any = jax
_ON_AUTO_AXES: dict[int, jax.Array] = {}


def on_auto_axes(data: jax.Array) -> jax.Array:
    """The same parts on the same devices, over axes that the compiler may use as it finds best."""
    sharding = data.sharding
    assert isinstance(sharding, NamedSharding)
    mesh = auto_mesh(sharding.mesh)  # type: ignore[arg-type]
    if mesh is sharding.mesh:
        return data
    if id(data) not in _ON_AUTO_AXES:
        parts: Any = [shard.data for shard in data.addressable_shards]
        new = NamedSharding(mesh, PartitionSpec(*sharding.spec))
        _ON_AUTO_AXES[id(data)] = jax.make_array_from_single_device_arrays(data.shape, new, parts)
        weakref.finalize(data, _ON_AUTO_AXES.pop, id(data), None)
    return _ON_AUTO_AXES[id(data)]


@lru_cache(maxsize=64)
def auto_mesh(mesh: Mesh) -> Mesh:
    """The mesh with axes of type Auto."""
    if all(kind == AxisType.Auto for kind in mesh.axis_types):
        return mesh
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def settle_axes(data: Any) -> Any:
    """An array on axes of type Auto, where its devices are known: also one that is differentiated outside of `jit`."""
    if not isinstance(data, Tracer):
        sharding = data.sharding
        is_explicit = isinstance(sharding, NamedSharding) and bool(sharding.mesh.explicit_axes)
        return on_auto_axes(data) if is_explicit else data
    if not explicit_axes(data):
        return data
    number: Any = data
    while isinstance(number, Tracer):
        number = getattr(number, "primal", None)
    if number is None or not isinstance(number.sharding, NamedSharding):
        return data
    sharding = number.sharding
    return jax.device_put(data, NamedSharding(auto_mesh(sharding.mesh), PartitionSpec(*sharding.spec)))  # type: ignore[arg-type]


def explicit_axes(data: Any) -> tuple[str, ...]:
    """The axes of type Explicit of the mesh that a tracer tells to lie on."""
    return tuple(of_jax.typeof(data).sharding.mesh.explicit_axes)
