"""Moves of latents beside compiled labels: drawn whole from their conditionals, or by the no-U-turn sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_context

from fubini.base.arrays import Data
from fubini.errors import NoRule
from fubini.infer.nuts import NutsOptions, nuts_transition, potential
from fubini.infer.target import starting_points
from fubini.integrate.latent_draws import drawn
from fubini.integrate.search import IntegrationStep, Latent, Search
from fubini.models.eliminated_model import EliminatedModel
from fubini.questions.draw_elimination import has_ends
from fubini.questions.sampler_target import SupportTransform

Values = dict[str, Data]


class ConjugateMove:
    """Latents drawn together, given all others: those that were eliminated last come first."""

    def __init__(self, eliminated_model: EliminatedModel, steps: Sequence[IntegrationStep]) -> None:
        self.eliminated_model, self.steps = eliminated_model, tuple(steps)
        self.names = tuple(name for step in steps for name in step.names)

    def draw(self, key: Data, values: Values, numbers: Any) -> Values:
        """New values of these latents."""
        known = {name: value for name, value in values.items() if name not in self.names}
        for place, step in enumerate(reversed(self.steps)):
            evaluation = self.eliminated_model.evaluation(known, numbers)
            leaves = [self.eliminated_model.reading.sites[name] for name in step.names]
            new = drawn(step, leaves, jax.random.fold_in(key, place), evaluation)
            known.update((leaf.name, value) for leaf, value in new.items())
        return known


def conjugate_moves(eliminated_model: EliminatedModel, names: Sequence[str]) -> tuple[list[ConjugateMove], list[str]]:
    """Moves that draw these latents from closed forms, as many as can be together; and those that have none."""
    latents = {
        name: Latent(eliminated_model.reading.sites[name], eliminated_model.reading.domains[name]) for name in names
    }
    together = Search(latents).best(eliminated_model.plan.terms)
    if not together.blocked:
        return ([ConjugateMove(eliminated_model, together.steps)] if together.steps else []), []
    moves, blocked = [], []
    for name, latent in latents.items():
        alone = Search({name: latent}).best(eliminated_model.plan.terms)
        if alone.blocked:
            blocked.append(name)
        else:
            moves.append(ConjugateMove(eliminated_model, alone.steps))
    return moves, blocked


class NutsMove:
    """Continuous latents without a closed form, moved together by one transition of the no-U-turn sampler."""

    def __init__(self, eliminated_model: EliminatedModel, names: Sequence[str], warmup: int) -> None:
        for name in names:
            if eliminated_model.reading.domains[name].is_discrete:
                raise NoRule(
                    f"draws of {name!r} in a sweep",
                    expected="a conditional in closed form, or a continuous latent",
                    nearest=f"{name!r} is discrete, and its entries are not independent given the others",
                    advice=f"name it in gibbs(…, {name!r}), which draws one entry after another",
                )
        self.eliminated_model, self.names, self.warmup = eliminated_model, tuple(names), warmup
        self.support = SupportTransform(eliminated_model.model.tree, self.names)
        self.may_have_moved_ends = any(has_ends(eliminated_model.model, name) for name in self.names)

    def log_density(self, free: Values, numbers: Any) -> Data:
        """Of unconstrained numbers, given all other latents."""
        leaves, constants, others = numbers
        values, log_det = self.support.values(free, leaves, others)
        return self.eliminated_model.log_density({**others, **values}, constants) + log_det

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        transition = nuts_transition(self.log_density, NutsOptions(self.warmup, dense_mass=False))

        def begin(key: Data, numbers: Any) -> Any:
            shapes = tuple(self.support.shapes(self.eliminated_model.model).items())
            points, log_p = starting_points(self.log_density, shapes)(key, numbers)
            free = {name: value[jnp.argmax(log_p)] for name, value in points.items()}
            return transition.init(key, free, numbers)

        def advance(state: Any, values: Values, numbers: Any) -> tuple[Any, Values]:
            free = state.z
            if self.may_have_moved_ends:  # the others have moved, these values stand
                free = self.support.free({**numbers[2], **values}, numbers[0])
            energy, slope = jax.value_and_grad(potential(self.log_density, numbers))(free)
            state = transition.step(state._replace(z=free, potential_energy=energy, z_grad=slope), numbers)
            return state, self.support.values(state.z, numbers[0], numbers[2])[0]

        return jax.jit(begin), jax.jit(advance)

    def numbers(self, values: Values, constants: Any) -> Any:
        """What the density reads: data, and the other latents."""
        leaves = [jnp.asarray(leaf) for leaf in self.eliminated_model.model.leaves]
        return leaves, constants, {name: value for name, value in values.items() if name not in self.names}

    def begin(self, key: Data, values: Values, constants: Any) -> Any:
        """The state of a chain."""
        return self._compiled[0](key, self.numbers(values, constants))

    def step(self, state: Any, values: Values, constants: Any) -> tuple[Any, Values]:
        """One transition."""
        held = {name: values[name] for name in self.names}
        state, new = self._compiled[1](state, held, self.numbers(values, constants))
        return state, {**values, **new}


class OtherLatents:
    """All latents that no compiled loop draws: closed forms first, then the no-U-turn sampler for what has none."""

    def __init__(self, eliminated_model: EliminatedModel, names: Sequence[str], warmup: int = 0) -> None:
        self.eliminated_model = eliminated_model
        self.names = tuple(names)
        self.conjugate, blocked = conjugate_moves(eliminated_model, names)
        self.nuts = NutsMove(eliminated_model, blocked, warmup) if blocked else None

    @cached_property
    def numbers(self) -> Any:
        """Data, and what they alone decide, on the device."""
        return jax.tree_util.tree_map(jnp.asarray, self.eliminated_model.numbers)

    @cached_property
    def _drawn(self) -> Callable[[Data, Values, Any], Values]:
        def draw(key: Data, values: Values, numbers: Any) -> Values:
            for place, move in enumerate(self.conjugate):
                values = move.draw(jax.random.fold_in(key, place), values, numbers)
            return values

        return jax.jit(draw)

    def begin(self, key: Data, values: Mapping[str, Any]) -> tuple[Any, Values]:
        """Values to begin with, from the prior; and the state of the no-U-turn sampler."""
        with self.eliminated_model.model.precision(), eval_context():
            plain = self.eliminated_model.model.prior
            sample = plain.sample(key)
            prior = sample if isinstance(sample, Mapping) else plain.flatten(sample, plain.outline.names)
            first = {name: jnp.asarray(prior[name]) for name in self.names}
            every = {**first, **{name: jnp.asarray(value) for name, value in values.items()}}
            state = None if self.nuts is None else self.nuts.begin(key, every, self.numbers)
            return state, every

    def step(self, key: Data, state: Any, values: Values) -> tuple[Any, Values]:
        """New values of all of these latents."""
        with self.eliminated_model.model.precision(), eval_context():
            values = {name: jnp.asarray(value) for name, value in values.items()}
            if self.conjugate:
                values = self._drawn(key, values, self.numbers)
            if self.nuts is not None:
                state, values = self.nuts.step(state, values, self.numbers)
            return state, values
