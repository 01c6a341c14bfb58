"""The passes of the compiler: values of one type, run in order over what the sweeps of a sampler compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from fubini.algebra.build import ZERO, multiply, plus
from fubini.algebra.node import Index, Leaf, Node
from fubini.compile.derive import Derivation, Label
from fubini.compile.fibre import is_data
from fubini.compile.fuse import Grouping, fuse_accumulations, fused_sums, separate
from fubini.compile.hoist import Store, hoisted, is_of_class
from fubini.compile.loop import Weights, weights_of
from fubini.compile.row_proposals import CountFactor, count_factors
from fubini.compile.statistics import Statistic, reads
from fubini.errors import DomainError, closest, listed


class Sweeps(NamedTuple):
    """What the sweeps over labels compute, before they are text."""

    derivation: Derivation
    labels: tuple[Label, ...]
    density: Node  # computed anew for every candidate
    constants: Store  # arrays of what the data alone decide
    is_grouped: bool = False  # the density is read off statistics
    weights: Mapping[Leaf, Weights] = {}  # of candidates by label, in statistics that every label updates
    by_class: Mapping[Leaf, Store] = {}  # arrays of what depends on a class alone, by label
    is_hoisted: bool = False  # what no candidate changes is computed before the loop over candidates
    group: Grouping = separate  # accumulations into loops
    has_sizes: bool = False  # sizes are numbers in the text
    proposals: Mapping[Leaf, tuple[CountFactor, ...]] = {}  # what a class is proposed from, in place of weighing all

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that the density is read off."""
        return self.derivation.statistics if self.is_grouped else ()

    @property
    def has_updates(self) -> bool:
        """Whether statistics are kept, and updated by what each label changes."""
        return bool(self.weights)


class Pass(NamedTuple):
    """One step of the compiler, which can be turned off by its name: the distribution of draws is the same without it.

    So are the draws themselves but for `propose`, by which another class of the same distribution is drawn.
    """

    name: str
    description: str
    apply: Callable[[Sweeps], Sweeps]


def run_passes(derivation: Derivation, passes: Iterable[Pass]) -> Sweeps:
    """Apply passes in order to sweeps that compute the density of every candidate from all items."""
    leaves = frozenset(label.leaf for label in derivation.labels)
    for term in derivation.terms:
        list(reads(term, leaves))  # an error where one cannot be read
    sweeps = Sweeps(derivation, derivation.labels, plus(*derivation.terms), Store("H"))
    for one in passes:
        sweeps = one.apply(sweeps)
    return sweeps


def group_items(sweeps: Sweeps) -> Sweeps:
    """f(Σ_J [a(J) = c] m(J))  =  f(S(c)), where the density has statistics"""
    plain = sweeps.derivation.plain
    if plain is ZERO and sweeps.derivation.terms:
        return sweeps
    return sweeps._replace(density=plain, is_grouped=True)


def take_differences(sweeps: Sweeps) -> Sweeps:
    """p(k | others)  ∝  exp(f(S + d(k)) − f(S)), where S is kept"""
    if not sweeps.is_grouped:
        return sweeps
    weights = {label.leaf: weights_of(label.score, label.at) for label in sweeps.labels}
    return sweeps._replace(density=ZERO, weights=weights)


def hoist_parts(sweeps: Sweeps) -> Sweeps:
    """f(g(data), …)  =  f(H, …),  f(g(S[k]), …)  =  f(C[k], …)"""
    labels = tuple(_with_constants(label, sweeps.constants) for label in sweeps.labels)
    density = hoisted(sweeps.density, partial(_is_of_item, at=frozenset()), sweeps.constants)
    sweeps = sweeps._replace(labels=labels, density=density, is_hoisted=True)
    if not sweeps.has_updates:
        return sweeps
    stores = {label.leaf: Store("C") for label in labels}
    weights = {label.leaf: _weights_by_class(label, stores[label.leaf]) for label in labels}
    return sweeps._replace(weights=weights, by_class=stores)


def _with_constants(label: Label, constants: Store) -> Label:
    """A label whose score and changes read what data alone decide from arrays."""
    is_loose = partial(_is_of_item, at=frozenset(label.at))
    changes = {
        leaf: (axes, {guards: hoisted(value, is_loose, constants) for guards, value in change.items()})
        for leaf, (axes, change) in label.changes.items()
    }
    return label._replace(changes=changes, score=hoisted(label.score, is_loose, constants))


def _is_of_item(of: Node, at: frozenset[Index]) -> bool:
    """Whether data alone decide a node, for each place of a label."""
    return is_data(of) and bool(of.leaves) and of.free <= at


def _weights_by_class(label: Label, store: Store) -> Weights:
    """The weights of candidates, with what depends on a class alone in arrays."""
    weights = weights_of(label.score, label.at)
    is_loose = partial(is_of_class, k=label.k, states=label.rows)
    shared = [(base, power) for base, power in weights.factors if is_loose(base)]
    others = [(hoisted(base, is_loose, store), power) for base, power in weights.factors if (base, power) not in shared]
    if shared:
        whole = multiply(shared)
        others.append((whole if whole.kind == "get" else store.entry(whole), 1.0))
    return Weights(tuple(others), hoisted(weights.exponent, is_loose, store), weights.loops)


def fuse_loops(sweeps: Sweeps) -> Sweeps:
    """Σ_i a + Σ_i b  =  Σ_i (a + b)"""
    return sweeps._replace(density=fused_sums(sweeps.density), group=fuse_accumulations)


def specialise_sizes(sweeps: Sweeps) -> Sweeps:
    """range(sizes[0])  =  range(6)"""
    return sweeps._replace(has_sizes=True)


def propose_classes(sweeps: Sweeps) -> Sweeps:
    """w(k) = Π (a + S[r, k]) g(k): k′ from a + S[r, ·], accepted by w and q, where classes are many"""
    changed: list[Leaf] = [leaf for label in sweeps.labels for leaf, (_, change) in label.changes.items() if change]
    states = frozenset(one.leaf for one in sweeps.statistics if changed.count(one.leaf) == 1)
    proposals = {}
    for label in sweeps.labels if sweeps.has_updates else ():
        own = states & label.changes.keys()
        factors = count_factors(label, sweeps.weights[label.leaf], own, sweeps.constants)
        if factors is not None:
            proposals[label.leaf] = factors
    return sweeps._replace(proposals=proposals)


HISTOGRAM = Pass("histogram", "Sums over items become statistics by group.", group_items)
DIFFERENCE = Pass("difference", "Statistics are kept, and updated by what one label changes.", take_differences)
HOIST = Pass("hoist", "What no candidate changes is computed outside of the loops, and kept.", hoist_parts)
FUSE = Pass("fuse", "Loops over indices of the same sizes become one loop.", fuse_loops)
SPECIALISE = Pass("specialise", "Sizes are numbers in the text of loops.", specialise_sizes)
PROPOSE = Pass("propose", "Classes are proposed from those of other items, where they are many.", propose_classes)

PASSES = (HISTOGRAM, DIFFERENCE, HOIST, FUSE, SPECIALISE, PROPOSE)


def passes_without(names: Sequence[str]) -> tuple[Pass, ...]:
    """The passes in order, without those of these names."""
    known = [one.name for one in PASSES]
    for name in names:
        if name not in known:
            raise DomainError(f"without={name!r}", expected=f"passes: {listed(known)}", nearest=closest(name, known))
    return tuple(one for one in PASSES if one.name not in names)
