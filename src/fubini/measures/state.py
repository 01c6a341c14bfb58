"""A measure while it is simplified: draws that wait, what is known of them, and draws that were recognised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fubini.algebra.build import ZERO
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.sums import total
from fubini.measures.branch import Branch, DrawStatement, Returned, Test, mapped_value, nodes_of, renamed
from fubini.measures.draw_density import DrawDistribution, log_density, support_of
from fubini.measures.inequalities import Limit, ends_of, limits_of, limits_of_support


class Fact(NamedTuple):
    """A parameter under another leaf, of which more is known, and the inequalities that say so."""

    new: Leaf
    old: Leaf
    limits: tuple[Limit, ...]


class State(NamedTuple):
    """∫ over the draws that wait of e^(Σ terms) [limits] [tests], then the recognised draws, the last one first."""

    waiting: tuple[DrawStatement, ...]
    priors: Mapping[Leaf, Node]  # the term of each draw as it was written
    terms: tuple[Node, ...]
    limits: tuple[Limit, ...]
    tests: tuple[Test, ...]  # those that are no inequalities
    frozen: tuple[DrawStatement, ...]  # opaque ones, and those that they depend on
    recognised: tuple[DrawStatement, ...]
    value: Returned
    facts: tuple[Fact, ...] = ()  # what inequalities say of parameters, in the order in which it was derived
    observed: tuple[DrawDistribution, ...] = ()  # whose densities are among the terms

    @property
    def kept(self) -> frozenset[Leaf]:
        """What the value depends on, and the distributions of recognised draws."""
        distributions = (draw.distribution.leaves for draw in self.recognised)
        return frozenset().union(*(node.leaves for node in nodes_of(self.value)), *distributions)

    @property
    def leaves(self) -> frozenset[Leaf]:
        """All that it depends on beside the densities that were written."""
        draws = (*self.waiting, *self.frozen, *self.recognised)
        distributions = (*(draw.distribution for draw in draws), *self.observed)
        nodes = (*self.terms, *(test.node for test in self.tests), *nodes_of(self.value))
        return frozenset().union(*(part.leaves for part in (*distributions, *self.limits, *nodes)))

    def mapped(self, change: Callable[[Node], Node]) -> State:
        """With a function applied to each node."""
        return State(
            tuple(draw._replace(distribution=draw.distribution.mapped(change)) for draw in self.waiting),
            {leaf: change(term) for leaf, term in self.priors.items()},
            tuple(map(change, self.terms)),
            tuple(limit._replace(low=change(limit.low), high=change(limit.high)) for limit in self.limits),
            tuple(test._replace(node=change(test.node)) for test in self.tests),
            self.frozen,
            tuple(draw._replace(distribution=draw.distribution.mapped(change)) for draw in self.recognised),
            mapped_value(self.value, change),
            self.facts,
            tuple(distribution.mapped(change) for distribution in self.observed),
        )

    def without(self, leaf: Leaf) -> State:
        """With one draw less to wait for."""
        return self._replace(waiting=tuple(draw for draw in self.waiting if draw.leaf is not leaf))

    @property
    def is_impossible(self) -> bool:
        """It is zero for certain."""
        if any(limit.fails for limit in self.limits) or any(test.node is ZERO for test in self.tests):
            return True
        plain = [limit for limit in self.limits if not limit.over]
        return any(a.contradicts(b) for place, a in enumerate(plain) for b in plain[place + 1 :])


def state_of(branch: Branch) -> State:
    """A branch before anything is done to it."""
    frozen = _frozen(branch)
    waiting = tuple(draw for draw in branch.draws if draw.leaf not in frozen)
    priors = {draw.leaf: total(draw.at, log_density(draw.distribution, draw.entry)) for draw in waiting}
    limits: list[Limit] = []
    for draw in waiting:
        limits.extend(limits_of_support(draw, support_of(draw.distribution)))
    tests: list[Test] = []
    for test in branch.tests:
        new_limits = limits_of(test, [draw.leaf for draw in waiting])
        if new_limits is None:
            tests.append(test)
        else:
            limits.extend(new_limits)
    terms = tuple(term for term in (*priors.values(), branch.weight) if term is not ZERO)
    return State(
        waiting,
        priors,
        terms,
        tuple(limits),
        tuple(tests),
        tuple(draw for draw in branch.draws if draw.leaf in frozen),
        (),
        branch.value,
        observed=branch.observed,
    )


def _frozen(branch: Branch) -> set[Leaf]:
    """Opaque draws, and all that these depend on: nothing may be drawn before them that was drawn after."""
    frozen: set[Leaf] = set()
    for draw in reversed(branch.draws):
        if draw.distribution.is_opaque or draw.leaf in frozen:
            frozen |= {draw.leaf, *draw.distribution.leaves}
    return frozen & set(branch.drawn)


def with_facts(state: State) -> State:
    """What inequalities of one parameter alone say of it, as bounds of a new leaf in its place."""
    drawn = {draw.leaf for draw in (*state.waiting, *state.frozen, *state.recognised)}
    for limit in state.limits:
        leaf = next(iter(limit.leaves), None)
        if len(limit.leaves) != 1 or leaf is None or leaf in drawn or leaf.shape:
            continue
        own = tuple(other for other in state.limits if other.leaves == {leaf})
        try:
            ends = ends_of(leaf, (), own)
        except NoClosedForm:
            continue
        lows = [end.args[0] for end in ends.lows if end.kind == "const"]
        highs = [end.args[0] for end in ends.highs if end.kind == "const"]
        low, high = max(lows, default=leaf.low), min(highs, default=leaf.high)
        new = Leaf(leaf.name, (), low=low, high=high, is_integer=leaf.is_integer, role=leaf.role)
        rest = state._replace(limits=tuple(other for other in state.limits if other not in own))
        mapped = rest.mapped(lambda node, old=leaf, new=new: renamed(node, {old: new}))
        return with_facts(mapped._replace(facts=(*state.facts, Fact(new, leaf, own))))
    return state
