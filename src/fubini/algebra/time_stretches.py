"""Time in stretches: where it lies on a mesh, each device answers for its own, and is told few numbers of all.

Where arrays are arguments of a compiled function, only the compiler may know along which axes they lie. Stretches are
then computed side by side, and it finds that each is where its rows are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax.sharding import NamedSharding, PartitionSpec

from fubini.algebra.node import Index
from fubini.algebra.placement import Spread, lax, on_devices, untyped_jax
from fubini.algebra.placement import numpy_of_jax as jnp
from fubini.base.arrays import Data, is_traced

STRETCH = "stretch"  # the name of the axis of stretches side by side


class Placement(NamedTuple):
    """Along which axes of a mesh time lies, and those of the names of several chains that lie in parts."""

    time: Spread
    batch: tuple[Spread | None, ...]

    @property
    def spec(self) -> PartitionSpec:
        """How steps [t, … batch, k, next] lie."""
        return PartitionSpec(self.time.axes, *self.batch_axes)

    @property
    def batch_axes(self) -> list[tuple[str, ...] | None]:
        """The axes of the mesh along which each axis of the batch lies."""
        return [None if one is None else one.axes for one in self.batch]

    def placed(self, function: Callable[..., Data], is_in_time: bool) -> Callable[..., Data]:
        """The function as it is."""
        return function

    def filled(self, shape: Sequence[int]) -> list[int]:
        """The sizes [t, … batch] that devices divide."""
        parts = [self.time.parts, *(1 if on is None else on.parts for on in self.batch)]
        return [-(-size // count) * count for size, count in zip(shape, parts, strict=True)]

    def on_each(self, local: Callable[..., Any], is_in_time: bool, steps: Data, more: Sequence[Data]) -> Data:
        """local(steps of a stretch, its number, more arrays of it), for each stretch where it lies."""
        out = self.spec if is_in_time else PartitionSpec(*self.batch_axes)
        specs = self.spec, PartitionSpec(self.time.axes), [self.spec] * len(more)

        def one(steps: Data, number: Data, more: Sequence[Data]) -> Data:
            return local(steps, number[0], *more)

        on_each = on_devices(one, self.time.mesh, specs, out)
        return on_each(steps, jnp.arange(self.time.parts), list(more))

    def tell_all(self, data: Data) -> Data:
        """What each stretch has, one after another."""
        return lax.all_gather(data, self.time.axes)


class Stretches(NamedTuple):
    """Time in so many stretches side by side, where only the compiler knows on which devices of a mesh they are."""

    parts: int
    sharding: Any  # of logits [… batch, t, k], as far as their type tells

    @classmethod
    def of(cls, logits: Data) -> Stretches | None:
        """As many as devices may hold of time [… batch, t, k] of traced logits; None where that lies on one."""
        if not is_traced(logits):
            return None
        sharding = untyped_jax.typeof(logits).sharding
        mesh = sharding.mesh
        if mesh.empty or mesh.manual_axes:
            return None
        parts = math.prod(mesh.shape[axis] for axis in _named(sharding.spec[-2])) if mesh.explicit_axes else mesh.size
        return None if parts == 1 else cls(parts, sharding)

    def filled(self, shape: Sequence[int]) -> list[int]:
        """The sizes [t, … batch] that stretches divide."""
        return [-(-shape[0] // self.parts) * self.parts, *shape[1:]]

    def placed(self, function: Callable[..., Data], is_in_time: bool) -> Callable[..., Data]:
        """The function over axes that the compiler uses as it finds best, where types tell how its answer lies."""
        mesh, (*batch, t, _) = self.sharding.mesh, self.sharding.spec
        if not mesh.explicit_axes:
            return function
        out = NamedSharding(mesh, PartitionSpec(*[t] * is_in_time, *batch))
        return untyped_jax.sharding.auto_axes(function, axes=mesh.explicit_axes, out_sharding=out)

    def on_each(self, local: Callable[..., Any], is_in_time: bool, steps: Data, more: Sequence[Data]) -> Data:
        """local(steps of a stretch, its number, more arrays of it), for each stretch."""
        cut = [data.reshape(self.parts, -1, *data.shape[1:]) for data in (steps, *more)]
        each = untyped_jax.vmap(local, axis_name=STRETCH, out_axes=0 if is_in_time else None)
        answer = each(cut[0], jnp.arange(self.parts), *cut[1:])
        return answer.reshape(-1, *answer.shape[2:]) if is_in_time else answer

    def tell_all(self, data: Data) -> Data:
        """What each stretch has, one after another, on all devices."""
        told = lax.all_gather(data, STRETCH)
        spec = PartitionSpec(None, *[PartitionSpec.UNCONSTRAINED] * data.ndim)
        return lax.with_sharding_constraint(told, NamedSharding(untyped_jax.typeof(told).sharding.mesh, spec))


def _named(axes: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The axes of a mesh along which an axis of an array lies."""
    return () if axes is None else (axes,) if isinstance(axes, str) else axes


def in_stretches(
    numbers: Data, time: Index, batch: Sequence[Index], spread: Mapping[Index, Spread]
) -> Placement | Stretches | None:
    """How time is cut, of numbers [… batch, t, k] with indices that may run along axes of a mesh; None if it is not."""
    along = spread.get(time)
    if along is None:
        return None if spread else Stretches.of(numbers)
    return Placement(along, tuple(spread.get(i) for i in batch))


def fill(data: Data, sizes: Sequence[int]) -> Data:
    """With zeros behind the ends of the first axes, up to these sizes."""
    lacking = [size - own for size, own in zip(sizes, data.shape, strict=False)]
    return jnp.pad(data, [*((0, count) for count in lacking), *[(0, 0)] * (data.ndim - len(lacking))])
