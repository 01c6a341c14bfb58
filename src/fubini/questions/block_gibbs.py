"""Blocked sweeps on XLA: every latent drawn whole from its conditional, all chains side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.base.arrays import Data
from fubini.compile.schedule import Schedule
from fubini.errors import NoRule, listed
from fubini.models.eliminated_model import EliminatedModel
from fubini.questions.moves import Values, Whole, whole_moves


class Blocked:
    """Sweeps over groups of latents: the labels, then the others."""

    def __init__(self, eliminated_model: EliminatedModel, labels: Sequence[str]) -> None:
        self.eliminated_model = eliminated_model
        self.moves: list[Whole] = []
        for group in ([name for name in eliminated_model.kept if name not in labels], labels):
            moves, blocked = whole_moves(eliminated_model, group)
            if blocked:
                raise NoRule(
                    f"a blocked sweep of {listed(eliminated_model.kept)}",
                    expected="conditionals in closed form of all latents, given the others",
                    nearest=f"{listed(blocked)} has none",
                    advice="leave more latents in, eliminate them, or leave blocked=True out",
                )
            self.moves.extend(moves)

    def sweep(self, key: Data, values: Values, numbers: Any) -> Values:
        """Every latent once."""
        for place, move in enumerate(self.moves):
            values = move.draw(jax.random.fold_in(key, place), values, numbers)
        return values

    @cached_property
    def _stretch(self) -> Callable[..., Any]:
        def one(key: Data, values: Values, numbers: Any, warmup: Data, thin: int, count: int) -> Values:
            def turn(number: Data, values: Values) -> Values:
                return self.sweep(jax.random.fold_in(key, number), values, numbers)

            def some(values: Values, place: Data) -> tuple[Values, Values]:
                begin = warmup + place * thin
                values = jax.lax.fori_loop(0, thin, lambda step, values: turn(begin + step, values), values)
                return values, values

            return jax.lax.scan(some, jax.lax.fori_loop(0, warmup, turn, values), jnp.arange(count))[1]

        def many(keys: Data, values: Values, numbers: Any, warmup: Data, thin: int, count: int) -> Values:
            return jax.vmap(lambda key, values: one(key, values, numbers, warmup, thin, count))(keys, values)

        return jax.jit(many, static_argnums=(4, 5))

    def run(
        self, key: Data, schedule: Schedule, chains: int, start: Mapping[str, np.ndarray], warmup: int = 0
    ) -> dict[str, np.ndarray]:
        """Draws [chain, sweep, …], after some sweeps that are not stored."""
        with self.eliminated_model.model.width(), eval_context():
            plain = self.eliminated_model.model.prior
            first, second = jax.random.split(key)
            sample = plain.sample(first, (chains,))
            prior = sample if isinstance(sample, Mapping) else plain.flatten(sample, plain.outline.names)
            values = {name: jnp.asarray(prior[name]) for name in self.eliminated_model.kept}
            for name, value in start.items():
                values[name] = jnp.broadcast_to(jnp.asarray(value), values[name].shape)
            count = schedule.sweeps // schedule.thin
            keys = jax.random.split(second, chains)
            numbers = jax.tree_util.tree_map(jnp.asarray, self.eliminated_model.numbers)
            draws = self._stretch(keys, values, numbers, jnp.asarray(warmup), schedule.thin, count)
            kept = {name: np.asarray(value)[:, count - schedule.kept :] for name, value in draws.items()}
        return {name: kept[name] for name in self.eliminated_model.kept}
