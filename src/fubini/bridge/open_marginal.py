"""The marginal of one variable of a density: by an order that ends with it, or given finite variables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fubini.algebra.node import Leaf
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.bridge.disintegration import indexed, not_integrable
from fubini.bridge.indexed_density import Disintegration, IndexedDensity
from fubini.errors import NoRule
from fubini.factors.mixture import CAP
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_marginal
from fubini.terms.value import Array, Value


@exact_marginal.rule
def marginal_of_factor(f: Factor, name: Name, others: tuple) -> Factor:
    """p(x)  =  ∫ f(x, y) dy / ∫∫ f(x, y) dy dx"""
    names = (*others, name)
    density = marginal(indexed(f, names), name, others)
    if not density.is_closed:
        raise not_integrable(f, density.whole)
    try:
        return density.factor()
    except NoRule:  # of a block along named axes: each of their values on its own
        return marginal(indexed(f, names, has_axes=False), name, others).factor()


class Marginal(NamedTuple):
    """The integrals behind the density of a variable, for each value of an index where there is one."""

    name: Name
    whole: Disintegration
    along: Name | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the marginal has a closed form."""
        return not self.whole.plan.blocked

    def factor(self) -> Factor:
        """p(x), or  Σ_k p(k) p(x | k)."""
        density = self.whole.marginal(self.name)
        if self.along is None:
            return density
        return (self.whole.remaining.normalize(self.along) * density).sum(self.along)


def marginal(density: IndexedDensity, name: Name, others: Sequence[Name]) -> Marginal:
    """The density of a name, the others integrated out."""
    direct = density.without((*others, name), name)
    if not direct.plan.blocked:
        return Marginal(name, direct)
    leaves = density.integrand.latents
    for labels in _choices({other: leaves[other] for other in others}):
        index = _index_of(labels)
        rest = [other for other in (*others, name) if other not in labels]
        conditional = density.given(_assignments({label: leaves[label] for label in labels}, index, density)).without(
            rest, name
        )
        if not conditional.plan.blocked:
            return Marginal(name, conditional, index)
    return Marginal(name, direct)


@lru_cache(maxsize=256)
def _index_of(labels: tuple[Name, ...]) -> Bound:
    """The axis of their values together: one for one question, so that nothing is compiled twice."""
    return Bound(",".join(map(str, labels)))


def _choices(leaves: Mapping[Name, Leaf]) -> Iterator[tuple[Name, ...]]:
    """One finite variable, or all of them, where these have few values."""
    counts = {name: _count(leaf) for name, leaf in leaves.items()}
    few = tuple(name for name, count in counts.items() if count <= CAP)
    yield from ((name,) for name in few)
    if len(few) > 1 and math.prod(counts[name] for name in few) <= CAP:
        yield few


def _count(leaf: Leaf) -> float:
    """The number of values that all entries of a variable have together."""
    if not leaf.is_integer or leaf.low is None or leaf.high is None:
        return math.inf
    return float(leaf.high - leaf.low + 1) ** math.prod(leaf.shape)


def _assignments(labels: Mapping[Name, Leaf], index: Name, density: IndexedDensity) -> dict[Name, Value]:
    """All values of finite variables together, along a named axis."""
    ranges = [range(leaf.first, leaf.first + leaf.count) for leaf in labels.values() for _ in _entries(leaf)]
    every = np.array(list(itertools.product(*ranges)))
    ends = np.cumsum([len(_entries(leaf)) for leaf in labels.values()])
    parts = np.split(every, ends[:-1], axis=1)
    domains: Mapping[Name, Domain] = density.integrand.domains
    return {
        name: Array._of(part.reshape(-1, *leaf.shape), (index,), {index: Bint[len(every)]}, domains[name])
        for (name, leaf), part in zip(labels.items(), parts, strict=True)
    }


def _entries(leaf: Leaf) -> range:
    return range(math.prod(leaf.shape))
