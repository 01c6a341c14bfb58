"""Moments, entropy and divergence of joints whose sites are independent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import kl_divergence

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import made
from fubini.distributions.density import Distribution
from fubini.distributions.summary_statistics import ENTROPY, MEAN, VARIANCE, SummaryStatistic
from fubini.errors import DomainError, NoRule, listed
from fubini.models.call_values import FlatJoint
from fubini.models.calls import ask
from fubini.models.flavour import Flavour, Sites
from fubini.models.outline import Outline
from fubini.models.sample import Blank, Choice, Run


def compute_means(joint: Flavour) -> Any:
    """The mean of each site, in the structure of a sample."""
    flat_joint = _independent(joint, "the mean")
    return flat_joint.unflatten(ask(_mean, flat_joint, {}))


def compute_variances(joint: Flavour) -> Any:
    """The variance of each site, in the structure of a sample."""
    flat_joint = _independent(joint, "the variance")
    return flat_joint.unflatten(ask(_variance, flat_joint, {}))


def total_entropy(joint: Flavour) -> Data:
    """H(p q)  =  H(p) + H(q)"""
    return ask(_entropy, _independent(joint, "the entropy"), {})


def total_kl(first: Flavour, second: Flavour) -> Data:
    """KL(p q ‖ p′ q′)  =  KL(p ‖ p′) + KL(q ‖ q′)"""
    one, other = _independent(first, "the divergence"), _independent(second, "the divergence")
    if one.outline.free != other.outline.free:
        raise DomainError(
            f"the divergence between joints of {one.outline.free} and {other.outline.free}", expected="the same sites"
        )
    return ask(_kl, FlatJoint(Pair(first, second)), {})


@jax.tree_util.register_pytree_node_class
class Pair(Flavour):
    """Two joints, asked together; its sites are those of the first."""

    def __init__(self, first: Flavour, second: Flavour) -> None:
        self.first, self.second = first, second

    def sites(self) -> Sites:
        return self.first.sites()

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.first.unflatten(values)

    def run(self, choice: Choice) -> Run:
        return self.first.run(choice)

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.first, self.second), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple) -> Pair:
        return cls(*children)


def _independent(joint: Flavour, what: str) -> FlatJoint:
    flat_joint = FlatJoint(joint)
    tied = next(
        (
            f"{name!r} depends on {listed(parents[:1])}"
            for name, parents in flat_joint.outline.reached.items()
            if parents
        ),
        "",
    )
    if tied or _is_weighed(flat_joint.outline):
        raise DomainError(
            f"{what} of a joint in which {tied or 'a weight depends on all sites'}",
            expected="sites that are independent of each other",
            advice="draw samples and average, or ask for the moments of one site given the others",
        )
    return flat_joint


def _is_weighed(outline: Outline) -> bool:
    return any(site.kind == "weight" or (site.inner and _is_weighed(site.inner)) for site in outline.sites)


def _each(run: Run, of: Callable[[Distribution], Any]) -> dict[str, Any]:
    sources = {site.name: site.source for site in run.sites if site.is_free}
    return jax.tree_util.tree_map(of, sources, is_leaf=lambda item: isinstance(item, Distribution))


def _compute(statistic: SummaryStatistic, source: Distribution) -> Data:
    numpyro_distribution = made(source)
    try:
        return statistic.compute(numpyro_distribution)
    except NotImplementedError as error:
        what = statistic.name
        raise NoRule(f"the {what} of {source}", expected=f"a family whose {what} numpyro knows") from error


def _mean(joint: Flavour, key: Data, given: Mapping[str, Any]) -> dict[str, Any]:
    return _each(joint.run(Blank()), partial(_compute, MEAN))


def _variance(joint: Flavour, key: Data, given: Mapping[str, Any]) -> dict[str, Any]:
    return _each(joint.run(Blank()), partial(_compute, VARIANCE))


def _entropy(joint: Flavour, key: Data, given: Mapping[str, Any]) -> Data:
    each = _each(joint.run(Blank()), partial(_compute, ENTROPY))
    return sum(jax.tree_util.tree_leaves(each), start=jnp.zeros(()))


def _kl(pair: Any, key: Data, given: Mapping[str, Any]) -> Data:
    sources = (_each(joint.run(Blank()), lambda source: source) for joint in (pair.first, pair.second))
    flat = [jax.tree_util.tree_leaves(each, is_leaf=lambda item: isinstance(item, Distribution)) for each in sources]
    return sum((_divergence(p, q) for p, q in zip(*flat, strict=True)), start=jnp.zeros(()))


def _divergence(p: Distribution, q: Distribution) -> Data:
    try:
        return jnp.sum(kl_divergence(made(p), made(q)))
    except NotImplementedError as error:
        raise NoRule(f"the divergence between {p} and {q}", expected="two families that numpyro can compare") from error
