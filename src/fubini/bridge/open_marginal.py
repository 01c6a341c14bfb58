"""The marginal of one variable of a density: by an order that ends with it, or given finite variables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fubini.algebra.node import Leaf
from fubini.base.arrays import Data, namespace
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.bridge.conditionals import places_of
from fubini.bridge.disintegration import indexed, not_integrable
from fubini.bridge.indexed_density import Disintegration, IndexedDensity
from fubini.distributions.student_conditionals import student_of_vector
from fubini.errors import NoRule
from fubini.factors.mixture import CAP
from fubini.factors.table import Table
from fubini.integrate.student import Student
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_marginal
from fubini.terms.value import Array


@exact_marginal.rule
def marginal_of_factor(f: Factor, name: Name, others: tuple) -> Factor:
    """p(x)  =  ∫ f(x, y) dy / ∫∫ f(x, y) dy dx"""
    names = (*others, name)
    density = marginal(indexed(f, names), (name,), others)
    if not density.is_closed:
        raise not_integrable(f, density.whole)
    try:
        return density.factor()
    except NoRule:  # of a block along named axes: each of their values on its own
        return marginal(indexed(f, names, has_axes=False), (name,), others).factor()


class Marginal(NamedTuple):
    """The integrals behind the density of variables, for each value of an index where there is one."""

    names: tuple[Name, ...]
    whole: Disintegration
    along: Name | None = None
    labels: Mapping[Name, Array] = {}  # the values of the variables themselves along the index, where they are finite

    @property
    def is_closed(self) -> bool:
        """Whether the marginal has a closed form."""
        return not self.whole.plan.blocked

    def factor(self) -> Factor:
        """p(x), or  Σ_k p(k) p(x | k)."""
        if self.labels:
            return self._of_labels()
        density = self.whole.marginal(self.names)
        if self.along is None:
            return density
        return (self.whole.remaining.normalize(self.along) * density).sum(self.along)

    def as_vector(self, name: Name) -> Factor | None:
        """The density of all entries end to end as one vector, where they are Student's t together; else None."""
        step = next((step for step in self.whole.plan.integrals if set(self.names) <= set(step.names)), None)
        if self.along is not None or step is None or not isinstance(step.result, Student) or len(self.names) < 2:
            return None
        return student_of_vector(*self.whole.of.conditionals.student(step, self.names), name)

    def _of_labels(self) -> Factor:
        """p(z_i = k)  =  Σ_s p(s) [z_i(s) = k], over all values s of the labels together"""
        ((name, values),) = self.labels.items()
        shares = self.whole.remaining.normalize(*values.names)
        last = self.whole.of.integrand.latents[name].high
        table = _table_of_entries(name, np.asarray(values.array), shares.weights, int(last or 0) + 1)
        return table._marked(shares.exactness)


def marginal(density: IndexedDensity, names: tuple[Name, ...], others: Sequence[Name]) -> Marginal:
    """The density of some names, the others integrated out."""
    direct = density.without((*others, *names), names)
    if not direct.plan.blocked:
        return Marginal(names, direct)
    leaves = density.integrand.latents
    for labels in choices({other: leaves[other] for other in others}):
        index = _index_of(labels)
        rest = [other for other in (*others, *names) if other not in labels]
        values = _assignments({label: leaves[label] for label in labels}, index, density)
        conditional = density.given(values).without(rest, names)
        if not conditional.plan.blocked:
            return Marginal(names, conditional, index)
    return _of_own_labels(density, names, others) or Marginal(names, direct)


def _of_own_labels(density: IndexedDensity, names: tuple[Name, ...], others: Sequence[Name]) -> Marginal | None:
    """The marginal of one array of labels, from the probability of all of its values together."""
    leaf = density.integrand.latents[names[0]]
    labels = probabilities_of_labels(density, names, others) if len(names) == 1 and leaf.first >= 0 else None
    if labels is None:
        return None
    values, whole = labels
    return Marginal(names, whole, values[names[0]].names[0], {names[0]: values[names[0]]})


def probabilities_of_labels(
    density: IndexedDensity, names: tuple[Name, ...], others: Sequence[Name]
) -> tuple[dict[Name, Array], Disintegration] | None:
    """All values together of finite variables along an index, and the integrals at each; None where they are many."""
    leaves = density.integrand.latents
    for labels in (names, *((*names, *few) for few in choices({other: leaves[other] for other in others}))):
        if math.prod(count(leaves[label]) for label in labels) > CAP:
            continue
        values = _assignments({label: leaves[label] for label in labels}, _index_of(labels), density)
        conditional = density.given(values).without([other for other in others if other not in labels])
        if not conditional.plan.blocked:
            return values, conditional
    return None


def _table_of_entries(name: Name, values: np.ndarray, weights: Data, size: int) -> Table:
    """The probability of each value of each entry: Σ_s w(s) [values(s) = k]."""
    shape = values.shape[1:]
    flat = values.reshape(len(values), -1)
    hits = (flat[:, :, None] == np.arange(size)).astype(float)
    table = namespace(weights).tensordot(weights, hits, axes=1).reshape((*shape, size))
    return Table(table, (*places_of(name, len(shape)), name))


@lru_cache(maxsize=256)
def _index_of(labels: tuple[Name, ...]) -> Bound:
    """The axis of their values together: one for one question, so that nothing is compiled twice."""
    return Bound(",".join(map(str, labels)))


def choices(leaves: Mapping[Name, Leaf]) -> Iterator[tuple[Name, ...]]:
    """One finite variable, or all of them, where these have few values."""
    counts = {name: count(leaf) for name, leaf in leaves.items()}
    few = tuple(name for name, count in counts.items() if count <= CAP)
    yield from ((name,) for name in few)
    if len(few) > 1 and math.prod(counts[name] for name in few) <= CAP:
        yield few


def count(leaf: Leaf) -> float:
    """The number of values that all entries of a variable have together."""
    if not leaf.is_integer or leaf.low is None or leaf.high is None:
        return math.inf
    return int(leaf.high - leaf.low + 1) ** math.prod(leaf.shape)  # more than a float may hold


def _assignments(labels: Mapping[Name, Leaf], index: Name, density: IndexedDensity) -> dict[Name, Array]:
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
