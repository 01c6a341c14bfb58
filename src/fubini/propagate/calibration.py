"""Calibration of a junction tree: messages up to the roots and down again, by Hugin or by Shafer–Shenoy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.eliminate.ask import eliminate, marginals
from fubini.propagate.division_policy import Division
from fubini.propagate.factor_graph import FactorGraph
from fubini.propagate.junction_tree import JunctionTree
from fubini.terms.factor import Factor, product, terms_of


class Calibrated(NamedTuple):
    """For each clique factors whose product is its belief, and how many divisions a policy touched."""

    cliques: list[list[Factor]]
    touched: Data


def calibrate_hugin(graph: FactorGraph, tree: JunctionTree, division: Division) -> Calibrated:
    """σ′ = ⊕_{C∖S} ψ_C;  ψ_D ← ψ_D ⊗ (σ′ ⊘ σ)"""
    potentials = _potentials(graph, tree)
    separators: dict[int, Factor] = {}
    for clique, parent in enumerate(tree.above):
        potential = potentials[clique]
        if parent is not None and potential is not None:
            separators[clique] = graph.sum_to([potential], tree.separator(clique))
            potentials[parent] = _times(graph, potentials[parent], separators[clique])
    touched: Data = 0
    for clique in reversed(range(len(tree.cliques))):
        parent = tree.above[clique]
        if parent is not None:
            above = potentials[parent]
            assert above is not None, "what is above a message has it"
            message = graph.sum_to([above], tree.separator(clique))
            if clique in separators:
                message, more = division.divide(message, separators[clique], batch=tuple(graph.batch))
                touched = touched + more
            potentials[clique] = _times(graph, potentials[clique], message)
    return Calibrated([[] if belief is None else [belief] for belief in potentials], touched)


def _potentials(graph: FactorGraph, tree: JunctionTree) -> list[Factor | None]:
    """The product of the factors of each clique; None stands for 1."""
    potentials: list[Factor | None] = [None] * len(tree.cliques)
    for factor, home in zip(graph.factors, tree.homes, strict=True):
        if home is not None:
            potentials[home] = _times(graph, potentials[home], factor)
    return potentials


def _times(graph: FactorGraph, f: Factor | None, g: Factor) -> Factor:
    return g if f is None else graph.times(f, g)


def calibrate_shafer_shenoy(graph: FactorGraph, tree: JunctionTree) -> Calibrated:
    """μ_{C→D} = ⊕_{C∖S} ψ_C ⊗ Π_{B≠D} μ_{B→C}, the factors of ψ_C never multiplied before the planner sums them."""
    own: list[list[Factor]] = [[] for _ in tree.cliques]
    for factor, home in zip(graph.factors, tree.homes, strict=True):
        if home is not None:
            own[home].append(factor)
    arriving: list[dict[int, Factor]] = [{} for _ in tree.cliques]  # messages by the clique they come from

    def send(source: int, target: int, separator: frozenset[Name]) -> None:
        parts = [*own[source], *(message for clique, message in arriving[source].items() if clique != target)]
        if parts:
            arriving[target][source] = _sum_out(graph, parts, separator)

    for clique, parent in enumerate(tree.above):
        if parent is not None:
            send(clique, parent, tree.separator(clique))
    for clique in reversed(range(len(tree.cliques))):
        parent = tree.above[clique]
        if parent is not None:
            send(parent, clique, tree.separator(clique))
    beliefs = [[*own[clique], *arriving[clique].values()] for clique in range(len(tree.cliques))]
    return Calibrated([[term for part in parts for term in terms_of(part)] for parts in beliefs], 0)


def _sum_out(graph: FactorGraph, factors: Sequence[Factor], keep: frozenset[Name]) -> Factor:
    """⊕ over the variables not kept, in the order the planner finds."""
    terms = [term for factor in factors for term in terms_of(factor)]
    gone = dict.fromkeys(name for term in terms for name in term.inputs if name not in keep | graph.batch)
    return eliminate(terms, tuple(gone), semiring=graph.semiring) if gone else product(*terms)


def read_marginals(
    graph: FactorGraph, tree: JunctionTree, calibrated: Calibrated, names: Sequence[Name]
) -> dict[Name, Factor]:
    """The marginal of each name, from the smallest clique that has it."""
    source = tree.smallest_with(graph.sizes)
    wanted: dict[int, list[Name]] = {}
    for name in names:
        wanted.setdefault(source[name], []).append(name)
    found: dict[Name, Factor] = {}
    for clique, inside in wanted.items():
        found |= marginals(calibrated.cliques[clique], inside, batch=tuple(graph.batch), semiring=graph.semiring)
    return {name: found[name] for name in names}


def sum_everything(graph: FactorGraph, tree: JunctionTree, calibrated: Calibrated) -> Factor:
    """⊕ of all factors: the product of the sums of the root cliques, and of the factors without variables."""
    roots = [clique for clique, parent in enumerate(tree.above) if parent is None]
    totals = [_sum_out(graph, calibrated.cliques[clique], frozenset()) for clique in roots]
    return product(*totals, *(f for f, home in zip(graph.factors, tree.homes, strict=True) if home is None))
