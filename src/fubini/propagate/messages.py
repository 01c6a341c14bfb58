"""Messages of belief propagation: of factors to variables, of variables to factors, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.interpretations import current, interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.forward import contract
from fubini.propagate.bundles import Bundles
from fubini.propagate.division_policy import Division
from fubini.propagate.factor_graph import sum_and_project
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import NORMALIZE
from fubini.terms.indexing import fold
from fubini.terms.value import Value, to_value

Messages = Sequence[Factor | None]  # of factors to variables, one for each edge; None stands for 1
Replies = dict[int, Factor | None]  # of variables to factors, by edge


@dataclass(frozen=True, eq=False)
class Exchange:
    """Factors in bundles, how they are summed, and how a belief is divided by a message; None: never."""

    bundles: Bundles
    factors: tuple[Factor, ...]
    semiring: Semiring
    division: Division | None

    def times(self, *factors: Factor | None) -> Factor | None:
        """The product, carried out; None stands for 1."""
        product = None
        for factor in factors:
            if factor is not None:
                product = (
                    factor if product is None else contract(self.semiring, [product, factor], _all(product, factor))
                )
        return product

    def variable_belief(self, messages: Messages, node: int, without: int | None = None) -> Factor | None:
        """b_x = Π_f μ_{f→x}, of all factors, or of all but one."""
        arriving = [(edge, messages[edge]) for edge in self.bundles.edges_of_node[node] if edge != without]
        return self.times(*(None if m is None else self.bundles.collect(m, self.bundles.edges[e]) for e, m in arriving))

    def replies(self, messages: Messages, positions: Iterable[int]) -> tuple[Replies, Data]:
        """Messages of variables to factors along some edges, and how many quotients a policy touched."""
        by_node: dict[int, list[int]] = {}
        for position in positions:
            by_node.setdefault(self.bundles.edges[position].node, []).append(position)
        replies: Replies = {}
        touched: Data = 0
        for node, own in by_node.items():
            if self.division is None or all(messages[position] is None for position in own):
                replies |= self._products(messages, node, own)
            else:
                some, more = self._quotients(messages, node, own, self.division)
                replies, touched = replies | some, touched + more
        return replies, touched

    def _products(self, messages: Messages, node: int, positions: Sequence[int]) -> Replies:
        """μ_{x→f} = Π_{g≠f} μ_{g→x}; of many factors from the products of those before and of those after."""
        if len(positions) < 4:
            return {position: self.variable_belief(messages, node, without=position) for position in positions}
        edges = self.bundles.edges_of_node[node]
        arriving = [messages[edge] for edge in edges]
        before: list[Factor | None] = [None]
        after: list[Factor | None] = [None]
        for ahead, behind in zip(arriving[:-1], arriving[:0:-1], strict=True):
            before.append(self.times(before[-1], ahead))
            after.append(self.times(behind, after[-1]))
        both = {edge: self.times(b, a) for edge, b, a in zip(edges, before, reversed(after), strict=True)}
        return {position: both[position] for position in positions}

    def _quotients(
        self, messages: Messages, node: int, positions: Sequence[int], division: Division
    ) -> tuple[Replies, Data]:
        """μ_{x→f} = b_x ⊘ μ_{f→x}"""
        belief = self.variable_belief(messages, node)
        replies: Replies = {}
        touched: Data = 0
        for position in positions:
            edge, own = self.bundles.edges[position], messages[position]
            there = None if belief is None else self.bundles.spread(belief, edge)
            if own is None or there is None:
                replies[position] = there
                continue
            replies[position], more = division.divide(there, own, batch=self._others(edge.bundle))
            touched = touched + more
        return replies, touched

    def _others(self, bundle: int) -> tuple[Name, ...]:
        index = self.bundles.indices[bundle]
        return tuple(self.bundles.batch) if index is None else (*self.bundles.batch, index)

    def factor_message(self, replies: Replies, position: int) -> Factor:
        """μ_{f→x} = ⊕ f ⊗ Π_{y≠x} μ_{y→f}, over its sum"""
        edge = self.bundles.edges[position]
        others = [other for other in self.bundles.edges_of_bundle[edge.bundle] if other != position]
        arriving = {self.bundles.edges[other].slot: replies[other] for other in others}
        summed = self.sum_with(edge.bundle, arriving, (edge.slot,))
        return rescale(summed, edge.slot, self.bundles.nodes[edge.node].domain, self.semiring)

    def sum_with(self, bundle: int, arriving: dict[Name, Factor | None], keep: tuple[Name, ...]) -> Factor:
        """⊕ of a factor times messages over all of its variables but some.

        A bounded integer goes as soon as its message is multiplied in; other variables, and those of a factor that is
        summed at once, only when all are.
        """
        factor = self.factors[bundle]
        kept = frozenset((*keep, *self._others(bundle)))
        if factor.storage.at_once:
            messages = [message for message in arriving.values() if message is not None]
            return sum_and_project(self.semiring, [factor, *messages], kept)
        slots = [name for name in factor.inputs if name not in kept]
        if all(factor.inputs[name].is_finite for name in slots):
            for name in slots:
                parts = [factor] if arriving.get(name) is None else [factor, arriving.pop(name)]
                factor = contract(self.semiring, parts, frozenset(factor.inputs) - {name} | kept)
        remaining = self.times(factor, *arriving.values())
        assert remaining is not None
        return sum_and_project(self.semiring, [remaining], kept)

    def factor_belief(self, messages: Messages, bundle: int) -> Factor:
        """b_f = f ⊗ Π_x μ_{x→f}"""
        replies, _ = self.replies(messages, self.bundles.edges_of_bundle[bundle])
        factor, messages = self.factors[bundle], [reply for reply in replies.values() if reply is not None]
        if factor.storage.at_once:
            return contract(self.semiring, [factor, *messages], _all(factor, *messages))
        belief = self.times(factor, *messages)
        assert belief is not None
        return belief

    def log_evidence(self, messages: Messages) -> Value:
        """log Z ≈ Σ_f log Z_f + Σ_x log Z_x − Σ_{f,x} log Z_fx, which is Bethe's where messages no longer change.

        Z_f = ⊕ f Π μ_{x→f},  Z_x = ⊕ Π μ_{f→x},  Z_fx = ⊕ μ_{f→x} μ_{x→f}: no logarithm of a zero of a factor is
        taken, and the scale of each message cancels.
        """
        total = to_value(0.0)
        for bundle, index in enumerate(self.bundles.indices):
            replies, _ = self.replies(messages, self.bundles.edges_of_bundle[bundle])
            arriving = {self.bundles.edges[edge].slot: reply for edge, reply in replies.items()}
            total = total + self._log_total(self.sum_with(bundle, arriving, ()), index)
            for edge, reply in replies.items():
                both = self.times(messages[edge], reply)
                assert both is not None, "every message has been sent"
                total = total - self._log_total(self._sum(both, index), index)
        for place, node in enumerate(self.bundles.nodes):
            belief = self.variable_belief(messages, place)
            if belief is not None:
                total = total + self._log_total(self._sum(belief, node.index), node.index)
        return total

    def _sum(self, factor: Factor, index: Name | None) -> Factor:
        return contract(self.semiring, [factor], self.bundles.batch | ({index} if index is not None else set()))

    def _log_total(self, total: Factor, index: Name | None) -> Value:
        return total.log() if index is None or index not in total.inputs else fold(ops.add, total.log(), index)


def _all(*factors: Factor) -> frozenset[Name]:
    return frozenset(name for factor in factors for name in factor.inputs)


def rescale(message: Factor, name: Name, domain: Domain, semiring: Semiring = sum_product) -> Factor:
    """A message over its sum, or over its value at one point where it need not have one: scales cancel in all answers.

    A representation that cannot be normalised by a number keeps its scale.
    """
    if name not in message.inputs:
        return message
    if domain.is_finite:
        total = contract(semiring, [message], frozenset(message.inputs) - {name})
    else:
        total = substitute(message, {name: to_value(_inside(domain))})
    return interpret(NORMALIZE, message, total) if current().find(NORMALIZE, (message, total)) else message


def _inside(domain: Domain) -> np.ndarray:
    """A value that a variable may have."""
    if domain.kind == "positive_definite":
        return np.broadcast_to(np.eye(domain.shape[-1]), domain.shape)
    if domain.kind == "simplex":
        return np.full(domain.shape, 1.0 / domain.shape[-1])
    return np.full(domain.shape, {"positive": 1.0, "unit": 0.5}.get(domain.kind, 0.0))
