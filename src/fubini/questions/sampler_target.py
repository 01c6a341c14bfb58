"""The density of the sites that remain after an elimination, over unconstrained numbers: what a sampler is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.distant import rebuild
from fubini.base.stream import blank_rows
from fubini.distributions.array_distribution import blank
from fubini.distributions.density import Distribution
from fubini.errors import NoRule
from fubini.infer.target import Target
from fubini.models.bijector import Constrain, unconstrained, unconstrained_shapes
from fubini.models.call_values import FlatJoint
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.paths import flat, nested
from fubini.models.sample import Chosen, Given
from fubini.models.sampled_rows import SampledRows

EMPTY: Mapping[str, Any] = MappingProxyType({})


class RemainingSites(Constrain):
    """The remaining sites at the images of their unconstrained numbers; of the others, those that are known."""

    def __init__(self, free: Mapping[str, Any], log_dets: list[Data] | None = None, known: Mapping[str, Any] = EMPTY):
        super().__init__(free, log_dets)
        self.known = known

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        if name not in self.free:
            return Chosen(self.known.get(name, blank(source)), lambda: jnp.zeros(()))
        return super().at(place, name, source)

    def within(self, place: int, name: str) -> RemainingSites:
        return RemainingSites(self.free.get(name, {}), self.log_dets, self.known.get(name, {}))

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        return jax.random.key(0), self._series


class SupportTransform:
    """From unconstrained numbers, by path, to values of the remaining sites."""

    def __init__(self, tree: Any, kept: tuple[str, ...]) -> None:
        self.tree, self.kept = tree, kept

    def values(
        self, free: Mapping[str, Data], leaves: list[Data], known: Mapping[str, Data] = EMPTY
    ) -> tuple[dict[str, Data], Data]:
        """Values by path, and log |∂ values / ∂ unconstrained|, given other sites, which may decide supports."""
        choice = RemainingSites(nested(free), known=nested(known))
        run = rebuild(self.tree, map(blank_rows, leaves)).run(choice)
        values = flat(run.flat)
        return {name: values[name] for name in self.kept}, sum(choice.log_dets, start=jnp.zeros(()))

    def free(self, values: Mapping[str, Data], leaves: list[Data]) -> dict[str, Data]:
        """The unconstrained numbers, by path, of values of these sites and of those that decide their supports."""
        run = rebuild(self.tree, map(blank_rows, leaves)).run(RemainingSites({}, known=nested(values)))
        numbers = flat(unconstrained(run))
        return {name: numbers[name] for name in self.kept}

    def require_no_rows(self, flat_joint: FlatJoint) -> None:
        """Raise where the rows of a stream decide a support."""

        def compute(free: dict[str, Data]) -> dict[str, Data]:
            run = rebuild(self.tree, flat_joint.leaves).run(RemainingSites(nested(free)))
            return {name: value for name, value in flat(run.flat).items() if name in self.kept}

        shapes = {name: jax.ShapeDtypeStruct(shape, float) for name, shape in self.shapes(flat_joint).items()}
        jax.jit(compute).lower(shapes)

    def shapes(self, flat_joint: FlatJoint) -> dict[str, tuple[int, ...]]:
        """Of the unconstrained numbers."""
        arrays = flat(unconstrained_shapes(flat_joint)[0])
        return {name: tuple(arrays[name].shape) for name in self.kept}

    @cached_property
    def of_draws(self) -> Callable[[Mapping[str, Data], list[Data]], dict[str, Data]]:
        """Values of draws [chain, draw, …], compiled."""
        one = jax.vmap(lambda free, leaves: self.values(free, leaves)[0], in_axes=(0, None))
        return jax.jit(jax.vmap(one, in_axes=(0, None)))

    @cached_property
    def prior(self) -> Callable[[Data, list[Data]], dict[str, Data]]:
        """Unconstrained numbers of draws of the model, one for each key, in which observed sites are as they are."""

        def one(key: Data, leaves: list[Data]) -> dict[str, Data]:
            numbers = flat(unconstrained(rebuild(self.tree, leaves).run(Given({}, key))))
            return {name: numbers[name] for name in self.kept}

        return jax.jit(jax.vmap(one, in_axes=(0, None)))


@lru_cache(maxsize=64)
def _support(eliminated_model: EliminatedModel, tree: Any) -> SupportTransform:
    return SupportTransform(tree, eliminated_model.kept)


@lru_cache(maxsize=64)
def _density(eliminated_model: EliminatedModel, support: SupportTransform) -> Callable[[Mapping[str, Data], Any], Data]:
    """The same function for the same model, so that what is compiled for it is used again."""

    def log_density(free: Mapping[str, Data], numbers: Any) -> Data:
        leaves, constants, *rows = numbers
        values, log_det = support.values(free, leaves)
        return eliminated_model.log_density(values, (*constants, *rows)) + log_det

    return log_density


def target_of(eliminated_model: EliminatedModel) -> tuple[Target, SupportTransform]:
    """The target of the remaining latents, and the way back to values."""
    model = eliminated_model.model
    shared = eliminated_model.shared
    support = _support(shared, model.tree)
    if model.is_streamed:
        support.require_no_rows(model)
    numbers = jax.tree_util.tree_map(jnp.asarray, (model.leaves, eliminated_model.numbers))

    def prior(keys: Data) -> dict[str, Data] | None:
        try:
            return support.prior(keys, numbers[0])
        except NoRule:  # of an improper prior, or a family without draws
            return None

    target = Target(support.shapes(model), _density(shared, support), numbers, prior)
    if isinstance(eliminated_model, SampledRows):
        leaves, (known, prepared, rows) = numbers
        own = {"samples": eliminated_model.rows_of_steps, "rounds": eliminated_model.rounds}
        target = replace(target, numbers=(leaves, (known, prepared), rows), **own)
    return target, support
