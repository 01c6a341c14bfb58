"""The paths of a finite chain: where time lies on a mesh, each device answers for its stretch of steps.

With M_j the product of the steps of stretch j, all devices are told all of them: what enters each stretch is
α_j = α_0 M_1 … M_(j−1), and what leaves it β_j = M_(j+1) … M_S 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fubini.algebra.node import Index
from fubini.algebra.placement import Spread, untyped_jax
from fubini.algebra.placement import numpy_of_jax as jnp
from fubini.algebra.time_stretches import Placement, Stretches, fill, in_stretches
from fubini.base.arrays import Data
from fubini.numerics import finite_chains as chains
from fubini.numerics.finite_chains import in_order, largest, log_sum_exp, product_of_steps, steps_of


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
        return cls(logits, links, in_stretches(logits, time, batch, spread))

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

        def local(steps: Data, number: Data, *more: Data) -> Data:
            return ask(steps, placement.tell_all(product_of_steps(steps, reduce)), number, *more)

        def compute(logits: Data, links: Data, *more: Data) -> Data:
            steps = fill(steps_of(logits, links, sizes[0]), sizes)
            return placement.on_each(local, is_in_time, steps, [fill(data, sizes) for data in more])

        return placement.placed(compute, is_in_time)(self.logits, self.links, *more)

    def _in_time(self, answer: Data) -> Data:
        """Without what lies behind the end of time, which is in front, and of the batch."""
        return answer[(slice(self.logits.shape[-2]), *map(slice, self.logits.shape[:-2]))]

    def _in_batch(self, answer: Data) -> Data:
        """Without what lies behind the end of the batch."""
        return answer[tuple(map(slice, self.logits.shape[:-2]))]
