"""Mixtures of joints: alike in their sites, each with a weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from fubini.base.arrays import Data, is_traced
from fubini.distributions.array_distribution import parameters
from fubini.distributions.density import Distribution
from fubini.errors import DomainError, NameClash, NoRule, listed
from fubini.models.flavour import Sites
from fubini.models.joint import Joint
from fubini.models.sample import Choice, Run, Site
from fubini.show.printed_form import Block, Words
from fubini.terms.numbers import shown_number
from fubini.terms.value import Array

SHOWN = 4  # components that are printed
MIXTURE = "mixture"  # the site that stands for the density of the whole


@jax.tree_util.register_pytree_node_class
class JointMixture(Joint):
    """Σ_k w_k p_k over joints with the same sites; weights are probabilities.

    >>> from fubini import dist
    >>> parts = [fb.JointNamed(dict(x=dist.Normal(loc, 1.0))) for loc in (-1.0, 1.0)]
    >>> round(float(JointMixture([0.3, 0.7], parts).log_prob(x=0.0)), 6)
    -1.418939
    """

    def __init__(self, weights: Any, components: Sequence[Joint]) -> None:
        if isinstance(components, Joint) or not components or not all(isinstance(each, Joint) for each in components):
            shown = components if isinstance(components, Joint) else listed(components)
            raise DomainError(f"a mixture of {shown}", expected="a list of at least one joint")
        self.index = Distribution("Categorical", {"probs": weights})
        self.components = tuple(components)
        count = self.index.leaf_values[0].output.shape
        if count != (len(components),):
            raise DomainError(f"weights of shape {count}", expected=f"one weight for each of {len(components)} joints")
        if any(MIXTURE in component.names for component in components):
            raise NameClash(f"a mixture with a site called {MIXTURE!r}", expected="another name for it")
        first, *others = (_shapes(component) for component in components)
        for other in others:
            if other != first:
                raise DomainError(
                    f"a mixture of joints with the sites {first} and {other}",
                    expected="the same names, in the same order, with the same shapes",
                )

    def sites(self) -> Sites:
        return self.components[0].sites()

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.components[0].unflatten(values)

    def flatten(self, value: Any, names: Sequence[str], what: str = "a value") -> dict[str, Any]:
        return self.components[0].flatten(value, names, what)

    def run(self, choice: Choice) -> Mixed:
        """A run of each, the values of one of them, and the density of the mixture there."""
        runs = [component.run(choice.beside(place)) for place, component in enumerate(self.components)]
        picked = Run(_picked(runs, choice.pick(len(runs), self.index)))
        return Mixed((*picked.sites, Site(MIXTURE, None, None)), self, choice.again(picked.complete))

    def _intervened(self, values: Mapping[str, Any]) -> JointMixture:
        return JointMixture(self.index["probs"], [component._intervened(values) for component in self.components])

    def __getitem__(self, index: Any) -> JointMixture:  # type: ignore[override]
        return JointMixture(self.index["probs"], [component[index] for component in self.components])

    def _form(self) -> Iterable[Block]:
        """The sites of each component under its weight."""
        yield Words(f"{self.title} of {len(self.components)} components")
        probs = self.index["probs"]
        numbers = probs.array if isinstance(probs, Array) and not is_traced(probs.array) else None
        for place, component in enumerate(self.components[:SHOWN]):
            share = "" if numbers is None else f", with weight {shown_number(float(numbers[place]))}"
            yield Words(f"component {place}{share}", 2)
            yield component.graph().drawing(4)
        if len(self.components) > SHOWN:
            yield Words(f"… {len(self.components) - SHOWN:,} more", 2)

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.index, self.components), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple) -> JointMixture:
        new = object.__new__(cls)
        new.index, new.components = children
        return new


@dataclass(frozen=True)
class Mixed(Run):
    """A run of a mixture: the values of one component, and the density of them all there."""

    mixture: JointMixture
    choice: Choice

    @cached_property
    def each(self) -> list[Run]:
        """The components at the values."""
        return [component.run(self.choice) for component in self.mixture.components]

    def _mixed(self, log_probs: list[Data]) -> Data:
        """log Σ_k w_k exp(log_probs_k)"""
        return logsumexp(jnp.stack(log_probs) + jnp.log(*parameters(self.mixture.index)))

    @property
    def log_prob(self) -> Data:
        return self._mixed([run.log_prob for run in self.each])

    @property
    def log_weight(self) -> Data:
        """log Σ_k w_k p_k(values, observed) / Σ_k w_k p_k(values)"""
        return self.log_prob - self._mixed([run.log_prob - run.log_weight for run in self.each])

    @property
    def sources(self) -> dict[str, Any]:
        """List for each site the distributions of all components."""
        first, *others = (run.sources for run in self.each)
        return {name: (source, *(other[name] for other in others)) for name, source in first.items()}

    @property
    def parts(self) -> dict[str, Data]:
        raise NoRule(
            "the terms of the density of a mixture",
            expected="a density that is a product over sites",
            advice="log_prob is that of the whole; nested in another joint a mixture has one term",
        )


def _picked(runs: Sequence[Run], index: Data) -> tuple[Site, ...]:
    """The sites of one of the runs."""

    def take(*each: Data) -> Data:
        return jnp.stack([jnp.asarray(item) for item in each])[index]

    chosen = []
    for sites in zip(*([site for site in run.sites if site.value is not None] for run in runs), strict=True):
        first, value = sites[0], jax.tree_util.tree_map(take, *(site.value for site in sites))
        inner = None if first.inner is None else Run(_picked([site.inner for site in sites], index))
        chosen.append(replace(first, value=value, log_density=None, inner=inner))
    return tuple(chosen)


def _shapes(joint: Joint) -> dict[str, Any]:
    outline = joint.outline
    return {name: outline[name].shape for name in outline.names}
