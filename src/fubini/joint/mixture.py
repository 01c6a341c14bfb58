"""Mixtures of joints: alike in their sites, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from fubini.arrays import Data
from fubini.dist.density import Distribution
from fubini.dist.law import parameters
from fubini.errors import DomainError, listed
from fubini.joint.flavour import Sites
from fubini.joint.joint import Joint
from fubini.joint.run import Choice, Given, Run, Site


@jax.tree_util.register_pytree_node_class
class JointMixture(Joint):
    """Σ_k w_k p_k over joints with the same sites; weights are probabilities.

    >>> from fubini import dist
    >>> parts = [fb.JointNamed(dict(x=dist.Normal(loc, 1.0))) for loc in (-1.0, 1.0)]
    >>> round(float(JointMixture([0.3, 0.7], parts).log_prob(x=0.0)), 6)
    -1.418939
    """

    def __init__(self, weights: Any, components: Sequence[Joint]) -> None:
        if not components or not all(isinstance(component, Joint) for component in components):
            raise DomainError(f"a mixture of {listed(components)}", expected="at least one joint")
        self.index = Distribution("Categorical", {"probs": weights})
        self.components = tuple(components)
        count = self.index.leaf_values[0].output.shape
        if count != (len(components),):
            raise DomainError(f"weights of shape {count}", expected=f"one weight for each of {len(components)} joints")
        first, *others = (_shapes(component) for component in components)
        for other in others:
            if other != first:
                raise DomainError(
                    f"a mixture of joints with the sites {first} and {other}",
                    expected="the same names, in the same order, with the same shapes",
                )

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.components[0].ordered

    def sites(self) -> Sites:
        return self.components[0].sites()

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.components[0].unflatten(values)

    def run(self, choice: Choice) -> Run:
        """A run of each, the values of one of them, and the density of the mixture there."""
        runs = [component.run(choice.beside(place)) for place, component in enumerate(self.components)]
        picked = Run(_picked(runs, choice.pick(len(runs), self.index)))
        return Run((*picked.sites, Site("mixture", self.index, None, lambda: self._log_density(picked.complete))))

    def _log_density(self, values: Mapping[str, Any]) -> Data:
        """log Σ_k w_k p_k(values)"""
        each = jnp.stack([component.run(Given(values)).log_prob for component in self.components])
        return logsumexp(each + jnp.log(*parameters(self.index)))

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.index, self.components), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple) -> JointMixture:
        new = object.__new__(cls)
        new.index, new.components = children
        return new


def _picked(runs: Sequence[Run], index: Data) -> tuple[Site, ...]:
    """The sites of one of the runs."""

    def take(*each: Data) -> Data:
        return jnp.stack([jnp.asarray(item) for item in each])[index]

    found = []
    for sites in zip(*(run.sites for run in runs), strict=True):
        first, value = sites[0], jax.tree_util.tree_map(take, *(site.value for site in sites))
        inner = None if first.inner is None else Run(_picked([site.inner for site in sites], index))
        if value is not None:
            found.append(replace(first, value=value, log_density=None, inner=inner))
    return tuple(found)


def _shapes(joint: Joint) -> dict[str, Any]:
    outline = joint.outline
    return {name: outline[name].shape for name in outline.names}
