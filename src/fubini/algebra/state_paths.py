"""The paths of a finite chain: where time lies on a mesh, each device answers for its stretch of steps.

With M_j the product of the steps of stretch j, all devices are told all of them: what enters each stretch is
α_j = α_0 M_1 … M_(j−1), and what leaves it β_j = M_(j+1) … M_S 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import PartitionSpec

from fubini.algebra.node import Index
from fubini.algebra.placement import Spread, lax, on_devices, untyped_jax
from fubini.algebra.placement import numpy_of_jax as jnp
from fubini.base.arrays import Data
from fubini.numerics import finite_chains as chains
from fubini.numerics.finite_chains import in_order, largest, log_sum_exp, product_of_steps, steps_of


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


class Paths(NamedTuple):
    """log p of a path up to a constant: Σ_t logits[…, t, k_t] + Σ_t links[…, t, k_t, k_(t+1)]"""

    logits: Data
    links: Data
    placement: Placement | None = None

    @classmethod
    def of(
        cls, logits: Data, links: Data, time: Index, batch: Sequence[Index], spread: Mapping[Index, Spread]
    ) -> Paths:
        """Paths over indices, of which some run along axes of a mesh."""
        along = spread.get(time)
        if along is None:
            return cls(logits, links)
        return cls(logits, links, Placement(along, tuple(spread.get(i) for i in batch)))

    def evidence(self) -> Data:
        """log Σ over all paths: [… batch]."""
        if self.placement is None:
            return chains.chain_evidence(self.logits, self.links)

        def ask(steps: Data, products: Data, _: Data) -> Data:
            return log_sum_exp(log_sum_exp(in_order(products)))

        return self._in_batch(self._on_each(ask, log_sum_exp, PartitionSpec(*self.placement.batch_axes)))

    def probabilities(self) -> Data:
        """The probability of each state at each time: [… batch, t, k]."""
        if self.placement is None:
            return chains.state_probabilities(self.logits, self.links)

        def ask(steps: Data, products: Data, here: Data) -> Data:
            none = jnp.zeros_like(products[0, ..., 0])
            enter, leave = chains.before_steps(products, none)[here], chains.after_steps(products, none)[here + 1]
            both = chains.before_steps(steps, enter)[:-1] + chains.after_steps(steps, leave)[:-1]
            return jnp.exp(both - log_sum_exp(both)[..., None])

        return jnp.moveaxis(self._in_time(self._on_each(ask, log_sum_exp, self.placement.spec)), 0, -2)

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

        value = self._in_batch(self._on_each(ask, largest, PartitionSpec(*self.placement.batch_axes)))
        return self._chosen(largest), value

    def _chosen(self, reduce: Callable[..., Data], *noise: Data) -> Data:
        """The states [… batch, t], each the greatest of weights and noise given the one after it.

        Of each stretch that is a function from the state after it to the state before, which all devices are told.
        """
        assert self.placement is not None
        axes = self.placement.time.axes

        def ask(steps: Data, products: Data, here: Data, *noise: Data) -> Data:
            reached = chains.before_steps(products, jnp.zeros_like(products[0, ..., 0]), reduce)
            weights = chains.before_steps(steps, reached[here], reduce)[:-1]
            noisy = weights + noise[0] if noise else weights
            choices = jnp.argmax(noisy[..., :, None] + steps, axis=-2)
            through = chains.chosen_before(choices, jnp.broadcast_to(jnp.arange(steps.shape[-1]), choices.shape[1:]))
            last = jnp.argmax(reached[-1], axis=-1)[..., None]  # behind the end, where all are alike
            borders = chains.chosen_before(lax.all_gather(through[0], axes), last)
            after = jnp.concatenate([borders, last[None]])[here + 1]
            return chains.chosen_before(choices, after)[..., 0]

        states = self._on_each(ask, reduce, self.placement.spec, *noise)
        return jnp.moveaxis(self._in_time(states), 0, -1)

    # -- on each device ---------------------------------------------------------------------------------------------

    def _on_each(self, ask: Callable[..., Any], reduce: Callable[..., Data], out: PartitionSpec, *more: Data) -> Data:
        """ask(steps of the device, products of all stretches, the number of the device's, its part of more arrays)"""
        assert self.placement is not None
        time, batch = self.placement
        length, *outer = self.logits.shape[-2], *self.logits.shape[:-2]
        lacking = [-length % time.parts, *(-n % on.parts if on else 0 for n, on in zip(outer, batch, strict=True))]
        steps = steps_of(self.logits, self.links, length + lacking[0])

        def fill(data: Data) -> Data:
            whole = length + lacking[0] - len(data)
            counts = [whole, *lacking[1:]]
            return jnp.pad(data, [*((0, count) for count in counts), *[(0, 0)] * (data.ndim - len(counts))])

        def local(steps: Data, number: Data, more: Sequence[Data]) -> Data:
            products = lax.all_gather(product_of_steps(steps, reduce), time.axes)
            return ask(steps, products, number[0], *more)

        spec = self.placement.spec
        specs = spec, PartitionSpec(time.axes), spec
        on_each = on_devices(local, time.mesh, specs, out)
        return on_each(fill(steps), jnp.arange(time.parts), tuple(map(fill, more)))

    def _in_time(self, answer: Data) -> Data:
        """Without what lies behind the end of time, which is in front, and of the batch."""
        return answer[(slice(self.logits.shape[-2]), *map(slice, self.logits.shape[:-2]))]

    def _in_batch(self, answer: Data) -> Data:
        """Without what lies behind the end of the batch."""
        return answer[tuple(map(slice, self.logits.shape[:-2]))]
