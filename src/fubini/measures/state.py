"""A measure while it is simplified: draws that wait, what is known of them, and draws that were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fubini.index.build import ZERO, add
from fubini.index.node import Leaf, Node
from fubini.index.sums import total
from fubini.measures.laws import log_density, support_of
from fubini.measures.limits import Limit, limits_of, limits_of_support
from fubini.measures.program import Branch, Draw, Returned, Test, mapped_value, nodes_of


class State(NamedTuple):
    """∫ over the draws that wait of e^(Σ terms) [limits] [tests], then the draws found, the last one first."""

    waiting: tuple[Draw, ...]
    priors: Mapping[Leaf, Node]  # the term of each draw as it was written
    terms: tuple[Node, ...]
    limits: tuple[Limit, ...]
    tests: tuple[Test, ...]  # those that are no inequalities
    frozen: tuple[Draw, ...]  # opaque ones, and those that they depend on
    found: tuple[Draw, ...]
    value: Returned

    @property
    def kept(self) -> frozenset[Leaf]:
        """What the value depends on."""
        return frozenset().union(*(node.leaves for node in nodes_of(self.value)))

    def mapped(self, change: Callable[[Node], Node]) -> State:
        """With a function applied to each node."""
        return State(
            tuple(draw._replace(law=draw.law.mapped(change)) for draw in self.waiting),
            {leaf: change(term) for leaf, term in self.priors.items()},
            tuple(map(change, self.terms)),
            tuple(limit._replace(low=change(limit.low), high=change(limit.high)) for limit in self.limits),
            tuple(test._replace(node=change(test.node)) for test in self.tests),
            self.frozen,
            tuple(draw._replace(law=draw.law.mapped(change)) for draw in self.found),
            mapped_value(self.value, change),
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
    priors = {draw.leaf: total(draw.at, log_density(draw.law, draw.entry)) for draw in waiting}
    limits: list[Limit] = []
    for draw in waiting:
        limits.extend(limits_of_support(draw, support_of(draw.law)))
    tests: list[Test] = []
    for test in branch.tests:
        found = limits_of(test)
        if found is None:
            tests.append(test)
        else:
            limits.extend(found)
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
    )


def _frozen(branch: Branch) -> set[Leaf]:
    """Opaque draws, and all that these depend on: nothing may be drawn before them that was drawn after."""
    found: set[Leaf] = set()
    for draw in reversed(branch.draws):
        if draw.law.is_opaque or draw.leaf in found:
            found |= {draw.leaf, *draw.law.leaves}
    return found & set(branch.drawn)


def weight_of(state: State) -> Node:
    """The logarithm of what is left to multiply with."""
    return add((term, 1.0) for term in state.terms)
