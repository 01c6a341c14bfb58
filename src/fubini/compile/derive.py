"""The conditional of one label, derived: the score of each candidate, and what the label adds to each statistic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fubini.algebra.build import ZERO, add, index, plus
from fubini.algebra.label_digits import is_finite
from fubini.algebra.node import Index, Leaf, Node
from fubini.compile.difference import Change, Derived, Difference, Keeping, guarded, whole
from fubini.compile.neighbours import Neighbours
from fubini.compile.statistics import Statistic, Statistics, increment, places_of
from fubini.errors import NoRule


class Label(NamedTuple):
    """A latent with finitely many values: its place, its candidate, and the scores of these."""

    leaf: Leaf
    at: tuple[Index, ...]
    k: Index
    changes: dict[Leaf, tuple[tuple[Index, ...], Change]]  # of statistics, then of what is derived from them
    score: Node  # log p(candidate | all others), up to what no candidate changes
    neighbours: tuple[Statistic, ...] = ()  # sums over the labels that are coupled with an entry

    @property
    def rows(self) -> dict[Leaf, frozenset[int]]:
        """The axes of each statistic along which the label changes the entry of its class alone."""
        return {leaf: frozenset(_classes(axes, change, self.k)) for leaf, (axes, change) in self.changes.items()}


class Derivation(NamedTuple):
    """A density of labels: as a function of statistics, what else is kept, and the conditional of each label."""

    terms: tuple[Node, ...]  # as they are given
    plain: Node  # in statistics
    density: Node  # in statistics, and what is derived from them
    statistics: tuple[Statistic, ...]
    derived: tuple[Derived, ...]
    labels: tuple[Label, ...]

    @property
    def coupled(self) -> tuple[Statistic, ...]:
        """Statistics whose items read more than one entry of a label."""
        return tuple(one for one in self.statistics if any(len(places_of(one, of.leaf)) > 1 for of in self.labels))


def derived(terms: Sequence[Node], labels: Sequence[Leaf], differences: bool = True) -> Derivation:
    """Derive the statistics of a density, and the difference that each label makes."""
    with_labels = tuple(term for term in terms if term.leaves & set(labels))
    try:
        return _derived(with_labels, labels)
    except NoRule:
        if differences:
            raise
    return Derivation(with_labels, ZERO, ZERO, (), (), tuple(_bare(leaf) for leaf in labels))


def _bare(leaf: Leaf) -> Label:
    """A label of which no difference is known."""
    return Label(leaf, tuple(Index(size, "u") for size in leaf.shape), Index(candidates(leaf), "k"), {}, ZERO)


def _derived(terms: Sequence[Node], labels: Sequence[Leaf]) -> Derivation:
    statistics = Statistics(terms, labels)
    keeping = Keeping(frozenset(one.leaf for one in statistics.all))
    plain = plus(*statistics.terms)
    density = keeping.of(plain)
    kept = tuple(keeping.derived.values())
    with_labels = tuple(term for term in terms if term.leaves & set(labels))
    return Derivation(
        with_labels,
        plain,
        density,
        statistics.all,
        kept,
        tuple(_label(leaf, statistics, keeping, density) for leaf in labels),
    )


def _label(leaf: Leaf, statistics: Statistics, keeping: Keeping, density: Node) -> Label:
    at, k = tuple(Index(size, "u") for size in leaf.shape), Index(candidates(leaf), "k")
    neighbours = Neighbours(tuple(statistics.labels), at)
    steps = {one.leaf: (one.axes, neighbours.of(increment(one, leaf, at, k))) for one in statistics.all}
    difference = Difference(steps, keeping.derived)
    score = whole(difference.of(density))
    parts = score.args if score.kind == "add" else ((score, 1.0),)
    changes = {name: (axes, guarded(change)) for name, (axes, change) in difference.changes.items()}
    varying = add((part, c) for part, c in parts if k in part.free)
    return Label(leaf, at, k, changes, varying, neighbours.all)


def candidates(leaf: Leaf) -> int:
    """How many values a label has."""
    if not is_finite(leaf) or leaf.low is None or leaf.high is None:
        raise NoRule(
            f"gibbs({leaf.name!r})",
            expected="a latent with finitely many values",
            advice="eliminate it, or leave it out: what is continuous is drawn by its own conditional",
        )
    return leaf.count


def _classes(axes: tuple[Index, ...], change: Change, k: Index) -> set[int]:
    """Axes that every part of a change has a test [axis = k] of."""
    tested = [
        {place for place, axis in enumerate(axes) for test in guards if set(test.args) == {index(axis), index(k)}}
        for guards in change
    ]
    return set.intersection(*tested) if tested else set(range(len(axes)))
