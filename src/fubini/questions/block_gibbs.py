"""Block Gibbs on XLA: every latent drawn whole from its conditional, all chains side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from fubini.base.arrays import Data
from fubini.errors import NoRule, listed
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_count, fault_of_numbers, fault_of_range, first_fault
from fubini.infer.transitions import Transition, Transitions
from fubini.models.eliminated_model import EliminatedModel
from fubini.questions.moves import ConjugateMove, Values, conjugate_moves


class BlockState(NamedTuple):
    """Of one chain: the values of all latents, its key, and how many sweeps were made."""

    values: Values
    key: Data
    sweeps: Data


class BlockGibbs:
    """Sweeps over groups of latents: the labels, then the others."""

    def __init__(self, eliminated_model: EliminatedModel, labels: Sequence[str]) -> None:
        self.eliminated_model = eliminated_model
        self.moves: list[ConjugateMove] = []
        for group in ([name for name in eliminated_model.kept if name not in labels], labels):
            moves, blocked = conjugate_moves(eliminated_model, group)
            if blocked:
                raise NoRule(
                    f"a blocked sweep of {listed(eliminated_model.kept)}",
                    expected="conditionals in closed form of all latents, given the others",
                    nearest=f"{listed(blocked)} has none",
                    advice="leave more latents in, eliminate them, or leave blocked=True out",
                )
            self.moves.extend(moves)
        self.transition = Transition(self._init, self._step, self._draw, self._fault, is_vectorised=True)

    def _init(self, key: Data, start: Values, numbers: Any) -> BlockState:
        return BlockState(start, key, jnp.asarray(0))

    def _step(self, state: BlockState, numbers: Any) -> BlockState:
        """Draw every latent once."""
        key, values = jax.random.fold_in(state.key, state.sweeps), state.values
        for place, move in enumerate(self.moves):
            values = move.draw(jax.random.fold_in(key, place), values, numbers)
        return BlockState(values, state.key, state.sweeps + 1)

    def _draw(self, state: BlockState, numbers: Any) -> Draw:
        return Draw({name: state.values[name] for name in self.eliminated_model.kept}, {})

    def _fault(self, state: BlockState, drawn: Draw, transitions: int) -> str | None:
        """Values are those that the model has."""
        leaves = {name: self.eliminated_model.reading.sites[name] for name in self.eliminated_model.kept}
        ranges = (
            fault_of_range(name, values[name], leaf.low, leaf.high)
            for values in (state.values, drawn.values)
            for name, leaf in leaves.items()
            if leaf.is_integer  # of others the last digit may be past a bound
        )
        made = fault_of_count(state.sweeps, transitions)
        return made or fault_of_numbers(state.values.values()) or first_fault(ranges)

    def sampler(self, start: Mapping[str, np.ndarray], warmup: int, mesh: Mesh | None = None) -> Transitions:
        """Make the sampler whose chains begin with draws of the prior, or with given labels; they may lie on a mesh."""
        plain = self.eliminated_model.model.prior

        def starts(key: Data, chains: int) -> Values:
            sample = plain.sample(key, (chains,))
            prior = sample if isinstance(sample, Mapping) else plain.flatten(sample, plain.outline.names)
            values = {name: jnp.asarray(prior[name]) for name in self.eliminated_model.kept}
            for name, value in start.items():
                values[name] = jnp.broadcast_to(jnp.asarray(value), values[name].shape)
            return values

        numbers = jax.tree_util.tree_map(jnp.asarray, self.eliminated_model.numbers)
        return Transitions("gibbs", self.transition, numbers, warmup, starts, mesh)
