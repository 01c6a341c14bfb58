"""The paths of a finite chain: where time lies on a mesh, each device answers for its stretch of steps.

With M_j the product of the steps of stretch j, all devices are told all of them: what enters each stretch is
α_j = α_0 M_1 … M_(j−1), and what leaves it β_j = M_(j+1) … M_S 1.

Where arrays are arguments of a compiled function, only the compiler may know along which axes they lie. Stretches are
then computed side by side, and it finds that each is where its rows are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fubini.algebra.node import Index
from fubini.algebra.placement import Spread, lax, on_devices, untyped_jax
from fubini.algebra.placement import numpy_of_jax as jnp
from fubini.base.arrays import Data, is_traced
from fubini.numerics import finite_chains as chains
from fubini.numerics.finite_chains import in_order, largest, log_sum_exp, product_of_steps, steps_of

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


class Paths(NamedTuple):
    """log p of a path up to a constant: Σ_t logits[…, t, k_t] + Σ_t links[…, t, k_t, k_(t+1)]"""

    logits: Data
    links: Data
    placement: Placement | Stretches | None = None

    @classmethod
    def of(
        cls, logits: Data, links: Data, time: Index, batch: Sequence[Index], spread: Mapping[Index, Spread]
    ) -> Paths:
        """Paths over indices, of which some run along axes of a mesh."""
        along = spread.get(time)
        if along is None:
            return cls(logits, links, None if spread else Stretches.of(logits))
        return cls(logits, links, Placement(along, tuple(spread.get(i) for i in batch)))

    def evidence(self) -> Data:
        """log Σ over all paths: [… batch]."""
        if self.placement is None:
            return chains.chain_evidence(self.logits, self.links)

        def ask(steps: Data, products: Data, _: Data) -> Data:
            return log_sum_exp(log_sum_exp(in_order(products)))

        return self._in_batch(self._on_each(ask, log_sum_exp, is_in_time=False))

    def probabilities(self) -> Data:
        """The probability of each state at each time: [… batch, t, k]."""
        if self.placement is None:
            return chains.state_probabilities(self.logits, self.links)

        def ask(steps: Data, products: Data, here: Data) -> Data:
            none = jnp.zeros_like(products[0, ..., 0])
            enter, leave = chains.before_steps(products, none)[here], chains.after_steps(products, none)[here + 1]
            both = chains.before_steps(steps, enter)[:-1] + chains.after_steps(steps, leave)[:-1]
            return jnp.exp(both - log_sum_exp(both)[..., None])

        return jnp.moveaxis(self._in_time(self._on_each(ask, log_sum_exp)), 0, -2)

    def draw(self, key: Data) -> Data:
        """A draw of all states [… batch, t]: the same with and without a mesh, but for the rounding of weights."""
        if self.placement is None:
            return chains.path(key, self.logits, self.links)
        lead = jnp.moveaxis(self.logits, -2, 0)
        keys = untyped_jax.random.split(key, len(lead))
        noise = untyped_jax.vmap(partial(untyped_jax.random.gumbel, shape=lead.shape[1:], dtype=lead.dtype))(keys)
        return self._chosen(log_sum_exp, noise)

    def best(self) -> tuple[Data, Data]:
        """The likeliest path [… batch, t], and its log p [… batch]."""
        if self.placement is None:
            return chains.best_path(self.logits, self.links)

        def ask(steps: Data, products: Data, _: Data) -> Data:
            return largest(largest(in_order(products, largest))) + np.log(products.shape[-1])

        value = self._in_batch(self._on_each(ask, largest, is_in_time=False))
        return self._chosen(largest), value

    def _chosen(self, reduce: Callable[..., Data], *noise: Data) -> Data:
        """The states [… batch, t], each the greatest of weights and noise given the one after it.

        Of each stretch that is a function from the state after it to the state before, which all devices are told.
        """
        assert self.placement is not None
        tell_all = self.placement.tell_all

        def ask(steps: Data, products: Data, here: Data, *noise: Data) -> Data:
            reached = chains.before_steps(products, jnp.zeros_like(products[0, ..., 0]), reduce)
            weights = chains.before_steps(steps, reached[here], reduce)[:-1]
            noisy = weights + noise[0] if noise else weights
            choices = jnp.argmax(noisy[..., :, None] + steps, axis=-2)
            through = chains.chosen_before(choices, jnp.broadcast_to(jnp.arange(steps.shape[-1]), choices.shape[1:]))
            last = jnp.argmax(reached[-1], axis=-1)[..., None]  # behind the end, where all are alike
            borders = chains.chosen_before(tell_all(through[0]), last)
            after = jnp.concatenate([borders, last[None]])[here + 1]
            return chains.chosen_before(choices, after)[..., 0]

        states = self._on_each(ask, reduce, *noise)
        return jnp.moveaxis(self._in_time(states), 0, -1)

    # -- on each device ---------------------------------------------------------------------------------------------

    def _on_each(
        self, ask: Callable[..., Any], reduce: Callable[..., Data], *more: Data, is_in_time: bool = True
    ) -> Data:
        """ask(steps of a stretch, products of all stretches, the number of this one, its part of more arrays)"""
        assert self.placement is not None
        placement, length = self.placement, self.logits.shape[-2]
        sizes = placement.filled([length, *self.logits.shape[:-2]])

        def fill(data: Data) -> Data:
            lacking = [size - own for size, own in zip(sizes, data.shape, strict=False)]
            return jnp.pad(data, [*((0, count) for count in lacking), *[(0, 0)] * (data.ndim - len(lacking))])

        def local(steps: Data, number: Data, *more: Data) -> Data:
            return ask(steps, placement.tell_all(product_of_steps(steps, reduce)), number, *more)

        def compute(logits: Data, links: Data, *more: Data) -> Data:
            return placement.on_each(local, is_in_time, fill(steps_of(logits, links, sizes[0])), list(map(fill, more)))

        return placement.placed(compute, is_in_time)(self.logits, self.links, *more)

    def _in_time(self, answer: Data) -> Data:
        """Without what lies behind the end of time, which is in front, and of the batch."""
        return answer[(slice(self.logits.shape[-2]), *map(slice, self.logits.shape[:-2]))]

    def _in_batch(self, answer: Data) -> Data:
        """Without what lies behind the end of the batch."""
        return answer[tuple(map(slice, self.logits.shape[:-2]))]
