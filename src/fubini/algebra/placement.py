"""Which indices of nodes run along an axis of a mesh: those that read an array along an axis that lies in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fubini.algebra.binding import inside
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.walk import walk
from fubini.base.arrays import Data

lax: Any = jax.lax  # its functions tell nothing of Data
tree_map: Callable[..., Any] = jax.tree_util.tree_map
numpy_of_jax: Any = jnp
untyped_jax: Any = jax

Placed = Mapping[Leaf, NamedSharding]


def first_axis(array: Data) -> Data:
    """With an axis of one entry in front."""
    return array[None]


class Spread(NamedTuple):
    """An axis of a mesh, or several as one, along which an index runs."""

    mesh: Mesh
    axes: tuple[str, ...]

    @property
    def parts(self) -> int:
        """The devices along it."""
        count = 1
        for axis in self.axes:
            count *= self.mesh.shape[axis]
        return count

    def on_each(self, function: Callable[..., Any], same: Any, *arrays: Any) -> Any:
        """The results of a function of what is the same everywhere and each device's own rows, one after another.

        They are everywhere, along the first axis. Rows beyond the end are zero.
        """

        def stacked(same: Any, own: Any) -> Any:
            return tree_map(first_axis, function(same, *own))

        results = self._local(stacked, PartitionSpec(self.axes), same, arrays)
        everywhere = NamedSharding(_mesh_around() or self.mesh, PartitionSpec())
        return tree_map(partial(lax.with_sharding_constraint, shardings=everywhere), results)

    def sum_of_each(self, function: Callable[..., Data], *arrays: Any) -> Data:
        """The sum over devices of a function of their own rows, everywhere; rows beyond the end are zero."""

        def summed(_: Any, own: Any) -> Data:
            return lax.psum(function(*own), self.axes)

        return self._local(summed, PartitionSpec(), (), arrays)

    def _local(self, function: Callable[..., Any], out: PartitionSpec, same: Any, arrays: Any) -> Any:
        local = on_devices(function, self.mesh, (PartitionSpec(), PartitionSpec(self.axes)), out)
        return local(same, tree_map(partial(filled, parts=self.parts), arrays))


def on_devices(function: Callable[..., Any], mesh: Mesh, specs: Any, out: Any) -> Callable[..., Any]:
    """A function of each device's own parts; for one chain of several on the mesh, of those of the chain's devices.

    What it captures would be typed as outside of it: arrays are arguments.
    """
    around = _mesh_around()
    if around is None:
        return untyped_jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    own = set(around.axis_names) - set(around.manual_axes)
    return untyped_jax.shard_map(function, in_specs=specs, out_specs=out, axis_names=own, check_vma=False)


def _mesh_around() -> Any:
    """The mesh of a function that runs for each of some of its parts; None outside of such functions."""
    mesh = untyped_jax.sharding.get_abstract_mesh()
    return mesh if mesh.manual_axes else None


def filled(array: Data, parts: int, axis: int = 0) -> Data:
    """An axis, the first unless another is said, with zeros at its end: each of so many parts has as many entries."""
    lacking = -array.shape[axis] % parts
    pads = [(0, lacking if place == axis else 0) for place in range(array.ndim)]
    return numpy_of_jax.pad(array, pads) if lacking else array


def count_devices() -> int:
    """How many devices there are, in all processes."""
    return untyped_jax.device_count()


def in_blocks(array: Data, parts: int) -> Data:
    """Rows in so many parts [part, row, …], with zeros at the end."""
    return filled(array, parts).reshape(parts, -1, *array.shape[1:])


def over_auto_axes(function: Callable[[Any], Data], arrays: Any) -> Data:
    """A function of traced arrays, the same on each device, whose parts the compiler places as it finds best.

    Arrays may have types that say how they lie: axes that are Explicit.
    """
    for leaf in jax.tree_util.tree_leaves(arrays):
        mesh = untyped_jax.typeof(leaf).sharding.mesh
        if mesh.explicit_axes:
            everywhere = NamedSharding(mesh, PartitionSpec())
            return untyped_jax.sharding.auto_axes(function, axes=mesh.explicit_axes, out_sharding=everywhere)(arrays)
    return function(arrays)


def spread_indices(nodes: Iterable[Node], placed: Placed) -> dict[Index, Spread]:
    """The indices that read arrays along axes that lie in parts, and along which axes of the mesh these lie."""
    found: dict[Index, Spread] = {}
    if not placed:
        return found
    for this in walk(*nodes, parts=inside):
        if this.kind != "get" or this.args[0] not in placed:
            continue
        sharding = placed[this.args[0]]
        spec: tuple[Any, ...] = tuple(sharding.spec)
        for part, axes in zip(this.args[1:], spec, strict=False):
            if axes is not None and part.kind == "index" and isinstance(part.args[0], Index):
                named: tuple[str, ...] = tuple(axes) if isinstance(axes, tuple) else (axes,)  # type: ignore[reportUnknownArgumentType]
                found.setdefault(part.args[0], Spread(sharding.mesh, named))  # type: ignore[arg-type]
    return found
