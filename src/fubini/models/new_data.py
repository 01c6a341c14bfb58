"""A model and the same model at new inputs as one: latents of the same name are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.distributions.continuation import longer_axis, rest_given_first
from fubini.distributions.density import Distribution
from fubini.errors import NoRule
from fubini.models.continued import does_not_fit
from fubini.models.flavour import Sites
from fubini.models.joint import Conditioned, Joint
from fubini.models.paths import flat, flat_sites, nested
from fubini.models.sample import Choice, Chosen, Given, Run, Site


def renamed(path: str) -> str:
    """The name of a site of the new model beside those of the old one; paths are not nested there."""
    return f"{path.replace('.', ':')} (new)"


@jax.tree_util.register_pytree_node_class
class WithNewData(Joint):
    """p(θ) p(data | θ) p(new data, new latents | θ): a model, and another one of the same latents."""

    ordered = False

    def __init__(self, old: Joint, new: Conditioned, fresh: tuple[str, ...] = ()) -> None:
        self.old, self.new, self.fresh = (
            old,
            new,
            fresh,
        )  # those of the new model alone, though the old one has them too

    @property
    def observed(self) -> dict[str, Any]:
        """The observations of both."""
        new = {renamed(path): value for path, value in flat(self.new.observed).items()}
        return {**getattr(self.old, "observed", {}), **new}

    def sites(self) -> Sites:
        raise NoRule("the sites of two models one by one", expected="`run`, which visits those of both")

    def unflatten(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(values)

    def run(self, choice: Choice) -> Run:
        first = self.old.run(choice)
        values = {path: value for path, value in flat(first.flat).items() if path not in self.fresh}
        shared = Shared(nested(values), choice)
        second = self.new.run(shared)
        return Run((*first.sites, *shared.own, *_weights(second)))

    def tree_flatten(self) -> tuple[tuple, tuple[str, ...]]:
        return (self.old, self.new), self.fresh

    @classmethod
    def tree_unflatten(cls, fresh: tuple[str, ...], children: tuple) -> WithNewData:
        joint = object.__new__(cls)
        joint.fresh, (joint.old, joint.new) = fresh, children
        return joint


def _weights(run: Run) -> Iterator[Site]:
    """The observed sites of the new model, and what only weighs there."""
    for path, site in flat_sites(run).items():
        if site.observed or (site.log_density is not None and not isinstance(site.source, Distribution)):
            yield Site(renamed(path), site.source, site.value, site.log_density, observed=site.observed)


@dataclass
class Shared:
    """The choice for a new model: latents of the old one at their values, the others as another choice has them."""

    values: Mapping[str, Any]
    choice: Choice
    path: str = ""
    own: list[Site] = field(default_factory=list)  # sites and entries that the new model alone has

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        value = self.values.get(name)
        if value is None:
            return self._own(name, source)
        if jnp.shape(value) == source.domain.shape:
            return Chosen(value, lambda: jnp.zeros(()))
        axis = longer_axis(source.domain.shape, jnp.shape(value))
        if axis is None:
            raise does_not_fit(f"{self.path}{name}", source.domain.shape, jnp.shape(value))
        later = self._own(name, rest_given_first(source, value, axis)).value
        return Chosen(jnp.concatenate([value, later], axis), lambda: jnp.zeros(()))

    def _own(self, name: str, source: Distribution) -> Chosen:
        path = renamed(f"{self.path}{name}")
        chosen = self.choice.at(1_000_000 + len(self.own), path, source)
        self.own.append(Site(path, source, chosen.value, chosen.log_density, observed=chosen.observed))
        return chosen

    def within(self, place: int, name: str) -> Shared:
        return Shared(self.values.get(name, {}), self.choice, f"{self.path}{name}.", self.own)

    def beside(self, place: int) -> Shared:
        raise NoRule(
            "a mixture of joints at new inputs, together with the old one",
            expected="a joint whose density is a product of the densities of its sites",
        )

    def pick(self, place: int, index: Distribution) -> Data:
        return self.choice.pick(place, index)

    def again(self, values: Mapping[str, Any]) -> Choice:
        return Given(values)

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        key, find = self.choice.series(place)

        def known(site: Any) -> Data | None:
            name = site["name"]
            if name not in self.values:
                return find({**site, "name": renamed(name)})
            if site["type"] == "sample" and jnp.ndim(self.values[name]) != len(site["fn"].shape()) + 1:
                raise does_not_fit(name, ("steps", *site["fn"].shape()), jnp.shape(self.values[name]))
            return self.values[name]

        return key, known

    def with_value(self, name: str, source: Distribution, value: Data) -> Chosen:
        if name not in self.values:
            chosen = self.choice.with_value(renamed(name), source, value)
            self.own.append(Site(renamed(name), source, value, chosen.log_density, observed=chosen.observed))
            return chosen
        if jnp.shape(self.values[name]) != jnp.shape(value):
            raise NoRule(
                f"later steps of {name!r} in NumPyro's scan as latents of their own",
                expected="as many steps as the old model has",
            )
        return Chosen(value, lambda: jnp.zeros(()))
