"""Moves of latents beside compiled labels: drawn whole from their conditionals, or by the no-U-turn sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_context
from numpyro.infer.hmc import hmc

from fubini.base.arrays import Data
from fubini.errors import NoRule
from fubini.infer.target import impossible_if_not_finite, starting_points
from fubini.integrate.latent_draws import drawn
from fubini.integrate.search import Latent, Search, Step
from fubini.models.eliminated_model import EliminatedModel
from fubini.questions.sampler_target import Support

Values = dict[str, Data]


class Whole:
    """Latents drawn together, given all others: those that were eliminated last come first."""

    def __init__(self, left: EliminatedModel, steps: Sequence[Step]) -> None:
        self.left, self.steps = left, tuple(steps)
        self.names = tuple(name for step in steps for name in step.names)

    def draw(self, key: Data, values: Values, numbers: Any) -> Values:
        """New values of these latents."""
        found = {name: value for name, value in values.items() if name not in self.names}
        for place, step in enumerate(reversed(self.steps)):
            evaluation = self.left.evaluation(found, numbers)
            leaves = [self.left.reading.sites[name] for name in step.names]
            new = drawn(step, leaves, jax.random.fold_in(key, place), evaluation)
            found.update((leaf.name, value) for leaf, value in new.items())
        return found


def whole_moves(left: EliminatedModel, names: Sequence[str]) -> tuple[list[Whole], list[str]]:
    """Moves that draw these latents from closed forms, as many as can be together; and those that have none."""
    latents = {name: Latent(left.reading.sites[name], left.reading.domains[name]) for name in names}
    together = Search(latents).best(left.plan.terms)
    if not together.blocked:
        return ([Whole(left, together.steps)] if together.steps else []), []
    found, blocked = [], []
    for name, latent in latents.items():
        alone = Search({name: latent}).best(left.plan.terms)
        if alone.blocked:
            blocked.append(name)
        else:
            found.append(Whole(left, alone.steps))
    return found, blocked


class Walk:
    """Continuous latents without a closed form, moved together by one transition of the no-U-turn sampler."""

    def __init__(self, left: EliminatedModel, names: Sequence[str], warmup: int) -> None:
        for name in names:
            if left.reading.domains[name].is_discrete:
                raise NoRule(
                    f"draws of {name!r} in a sweep",
                    expected="a conditional in closed form, or a continuous latent",
                    nearest=f"{name!r} is discrete, and its entries are not independent given the others",
                    advice=f"name it in gibbs(…, {name!r}), which draws one entry after another",
                )
        self.left, self.names, self.warmup = left, tuple(names), warmup
        self.support = Support(left.model.tree, self.names)

    def log_density(self, free: Values, numbers: Any) -> Data:
        """Of unconstrained numbers, given all other latents."""
        leaves, mine, others = numbers
        values, log_det = self.support.values(free, leaves)
        return self.left.log_density({**others, **values}, mine) + log_det

    @cached_property
    def _kernel(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        def potential(numbers: Any) -> Callable[[Values], Data]:
            return lambda free: -impossible_if_not_finite(self.log_density(free, numbers))

        start, step = hmc(potential_fn_gen=potential, algo="NUTS")

        def begin(key: Data, numbers: Any) -> Any:
            shapes = tuple(self.support.shapes(self.left.model).items())
            points, log_p = starting_points(self.log_density, shapes)(key, numbers)
            free = {name: value[jnp.argmax(log_p)] for name, value in points.items()}
            return start(free, self.warmup, model_args=(numbers,), rng_key=key)

        def advance(state: Any, numbers: Any) -> tuple[Any, Values]:
            energy, slope = jax.value_and_grad(potential(numbers))(state.z)  # the others have moved since
            state = step(state._replace(potential_energy=energy, z_grad=slope), model_args=(numbers,))
            return state, self.support.values(state.z, numbers[0])[0]

        return jax.jit(begin), jax.jit(advance)

    def numbers(self, values: Values, mine: Any) -> Any:
        """What the density reads: data, and the other latents."""
        leaves = [jnp.asarray(leaf) for leaf in self.left.model.leaves]
        return leaves, mine, {name: value for name, value in values.items() if name not in self.names}

    def begin(self, key: Data, values: Values, mine: Any) -> Any:
        """The state of a chain."""
        return self._kernel[0](key, self.numbers(values, mine))

    def step(self, state: Any, values: Values, mine: Any) -> tuple[Any, Values]:
        """One transition."""
        state, new = self._kernel[1](state, self.numbers(values, mine))
        return state, {**values, **new}


class Rest:
    """All latents that no compiled loop draws: closed forms first, then the no-U-turn sampler for what has none."""

    def __init__(self, left: EliminatedModel, names: Sequence[str], warmup: int = 0) -> None:
        self.left = left
        self.names = tuple(names)
        self.whole, blocked = whole_moves(left, names)
        self.walk = Walk(left, blocked, warmup) if blocked else None

    @cached_property
    def numbers(self) -> Any:
        """Data, and what they alone decide, on the device."""
        return jax.tree_util.tree_map(jnp.asarray, self.left.numbers)

    @cached_property
    def _drawn(self) -> Callable[[Data, Values, Any], Values]:
        def every(key: Data, values: Values, numbers: Any) -> Values:
            for place, move in enumerate(self.whole):
                values = move.draw(jax.random.fold_in(key, place), values, numbers)
            return values

        return jax.jit(every)

    def begin(self, key: Data, values: Mapping[str, Any]) -> tuple[Any, Values]:
        """Values to begin with, from the prior; and the state of the no-U-turn sampler."""
        with self.left.model.width(), eval_context():
            plain = self.left.model.prior
            found = plain.sample(key)
            prior = found if isinstance(found, Mapping) else plain.flatten(found, plain.outline.names)
            first = {name: jnp.asarray(prior[name]) for name in self.names}
            all_of = {**first, **{name: jnp.asarray(value) for name, value in values.items()}}
            state = None if self.walk is None else self.walk.begin(key, all_of, self.numbers)
            return state, all_of

    def step(self, key: Data, state: Any, values: Values) -> tuple[Any, Values]:
        """New values of all of these latents."""
        with self.left.model.width(), eval_context():
            values = {name: jnp.asarray(value) for name, value in values.items()}
            if self.whole:
                values = self._drawn(key, values, self.numbers)
            if self.walk is not None:
                state, values = self.walk.step(state, values, self.numbers)
            return state, values
