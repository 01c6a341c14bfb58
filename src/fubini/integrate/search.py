"""Which latents to eliminate, and in which order: attempts cost milliseconds, so they are made.

Feasibility depends on the order. Locations go before scales, and leaves before roots: real latents first, the last
written first; latents coupled in squares go together; what is blocked is tried again when others are gone. Where
that leaves some, other orders are tried, and the one that leaves least is taken: finite latents count most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.build import ZERO
from fubini.algebra.features import NoClosedForm
from fubini.algebra.label_digits import is_finite
from fubini.algebra.node import Leaf, Node
from fubini.base.domains import Domain
from fubini.integrate.block import Block, eliminated_together
from fubini.integrate.elimination import Eliminated, eliminated_by_configurations
from fubini.integrate.one_latent import eliminate_one
from fubini.integrate.student import Student, eliminated_power
from fubini.numerics.least_squares import DENSE


class Latent(NamedTuple):
    """A site to be eliminated: the leaf that stands for it, and its domain."""

    leaf: Leaf
    domain: Domain


class IntegrationStep(NamedTuple):
    """The latents eliminated in one step, and their distribution given the latents that remained then."""

    names: tuple[str, ...]
    result: Eliminated | Block | Student


class PartialElimination(NamedTuple):
    """The remaining terms after some eliminations, and why the other latents stayed."""

    terms: tuple[Node, ...]
    steps: tuple[IntegrationStep, ...]
    blocked: Mapping[str, NoClosedForm]


ORDER = {"real": 0, "bint": 1, "simplex": 2}  # the others after these
TRIES = 60  # steps attempted beyond the first order
FORMS = 2  # in which one integral is looked at: orders of the same latents write the same function differently
FEW = 16  # unknowns that are solved for together rather than one after another, where their slopes may cancel
SLOW = 3e4  # operations of one elimination, for a density that is asked thousands of times


def work(step: IntegrationStep) -> float:
    """Operations that a step costs each time its density is asked for, as far as its unknowns tell."""
    if isinstance(step.result, Eliminated):
        return 0.0
    layout = step.result.layout
    if layout.frame.recursions is not None:
        return layout.frame.recursions.work
    if layout.frame.is_sparse:
        return 16 * float(layout.size) ** 1.5  # as on a grid
    if layout.frame.is_whitened:
        return float(layout.size) ** 3 / 3
    if layout.frame.kronecker is not None:
        return 16.0 * sum(size**3 for size in layout.frame.kronecker)  # of singular values
    return float(layout.size) * layout.frame.cell**2


def reduced(terms: Sequence[Node], latents: Mapping[str, Latent]) -> PartialElimination:
    """Make as many eliminations as can be made; `latents` are in the order in which they were written."""
    return Search(latents).best(tuple(terms))


class Search:
    """Depth first, the likeliest order first; states that were seen are not visited again."""

    def __init__(
        self,
        latents: Mapping[str, Latent],
        later: Sequence[Latent] = (),
        adjusted: Callable[[IntegrationStep, Sequence[Leaf]], IntegrationStep] | None = None,
    ) -> None:
        self.latents, self.later, self.adjusted = latents, later, adjusted
        self.least: PartialElimination | None = None
        self._begin(with_configurations=False)

    def _begin(self, with_configurations: bool) -> None:
        self.with_configurations = with_configurations  # of coupled labels: where there is no other way
        self.tries = TRIES
        self.seen: set[tuple[object, ...]] = set()
        self.forms: Counter[frozenset[str]] = Counter()

    def best(self, terms: tuple[Node, ...]) -> PartialElimination:
        """The reduction that leaves least."""
        self._visit(terms, (), self._order(self.latents))
        assert self.least is not None
        if self.adjusted is None and any(is_finite(self.latents[name].leaf) for name in self.least.blocked):
            self._begin(with_configurations=True)
            self._visit(terms, (), self._order(self.latents))
        return self.least

    def together(self, terms: tuple[Node, ...], name: str) -> IntegrationStep | None:
        """The real latents that share terms with this one, directly or through others, in one block."""
        if self.latents[name].domain.kind != "real":
            return None
        *_, names = (group for _, group in zip(range(2), self._groups(terms, name, list(self.latents)), strict=False))
        try:
            return IntegrationStep(names, eliminated_together(terms, [self.latents[other].leaf for other in names]))
        except NoClosedForm:
            return None

    def _order(self, names: Mapping[str, Latent]) -> list[str]:
        return sorted(reversed(list(names)), key=lambda name: ORDER.get(self.latents[name].domain.kind, 3))

    def _visit(self, terms: tuple[Node, ...], steps: tuple[IntegrationStep, ...], waiting: list[str]) -> None:
        key = (frozenset(waiting), frozenset(terms))
        if key in self.seen or self.forms[key[0]] >= FORMS:
            return
        self.seen.add(key)
        self.forms[key[0]] += 1
        blocked: dict[str, NoClosedForm] = {}
        for name in waiting:
            try:
                for attempt in self._attempts(terms, name, waiting):
                    step = attempt
                    if self.adjusted is not None:
                        step = self.adjusted(step, [self.latents[n].leaf for n in step.names])
                    rest = [other for other in waiting if other not in step.names]
                    self._visit(step.result.terms, (*steps, step), rest)
                    if self.least is not None and (not self.least.blocked or self.tries <= 0):
                        return
                    self.tries -= 1
            except NoClosedForm as error:
                blocked[name] = error
        if all(name in blocked for name in waiting):
            if self.with_configurations:
                self._visit_configurations(terms, steps, waiting)
            self._offer(PartialElimination(terms, steps, blocked))

    def _visit_configurations(
        self, terms: tuple[Node, ...], steps: tuple[IntegrationStep, ...], waiting: list[str]
    ) -> None:
        """Where nothing else can be eliminated, sum out coupled labels that have few values together."""
        for name in (name for name in waiting if is_finite(self.latents[name].leaf)):
            try:
                step = IntegrationStep((name,), eliminated_by_configurations(terms, self.latents[name].leaf))
            except NoClosedForm:
                continue
            self._visit(step.result.terms, (*steps, step), [other for other in waiting if other != name])

    def _offer(self, new: PartialElimination) -> None:
        if self.least is None or self._burden(new) < self._burden(self.least):
            self.least = new

    def _burden(self, of: PartialElimination) -> tuple[int, bool, int]:
        """The remaining entries: finite ones first; then whether their density is slow, as it is asked often."""
        sizes = {name: math.prod(self.latents[name].domain.shape) for name in of.blocked}
        finite = sum(size for name, size in sizes.items() if self.latents[name].domain.is_discrete)
        return finite, bool(sizes) and any(work(step) > SLOW for step in of.steps), sum(sizes.values())

    def _attempts(self, terms: tuple[Node, ...], name: str, waiting: list[str]) -> Iterator[IntegrationStep]:
        """Yield the eliminations of a latent, with others if need be; raise if there is none."""
        leaf, domain = self.latents[name]
        alone: Eliminated | None = None
        is_coupled = False
        try:
            alone = result = eliminate_one(terms, leaf, domain.kind)
            is_coupled = result.care == "orthogonal steps"
            is_bounded = domain.kind != "real"  # no block knows of ends
            if is_bounded or not (is_coupled or self._are_spread(result.averaged, waiting)):
                yield from self._alone(terms, name, result)
                return
            first = NoClosedForm(leaf, ZERO, "latents that are eliminated with it")
        except NoClosedForm as error:
            if domain.kind != "real":
                raise
            first = error
        groups = list(dict.fromkeys(self._groups(terms, name, waiting)))
        if is_coupled:
            groups.sort(key=lambda names: not 1 < len(names) <= self._unknowns(names) <= FEW)
        tried = alone is not None
        for names in groups:
            if alone is not None and len(names) == 1 and not is_coupled:
                continue
            try:
                result = eliminated_together(terms, [self.latents[other].leaf for other in names])
            except NoClosedForm as error:
                first = error if len(names) == 1 else first
                continue
            if result.layout.frame.cell > DENSE and result.layout.frame.is_dense:
                first = _too_many(leaf)
                continue
            tried = True
            yield IntegrationStep(names, result)
        if alone is not None:
            yield from self._alone(terms, name, alone)
            return
        try:
            power = eliminated_power(terms, leaf)
            if power.layout.frame.cell > DENSE:
                raise _too_many(leaf)
            yield IntegrationStep((name,), power)
        except NoClosedForm:
            if not tried:
                raise first from None

    def _alone(self, terms: tuple[Node, ...], name: str, alone: Eliminated) -> Iterator[IntegrationStep]:
        """Eliminate one latent alone; last, where slopes may cancel, by plain sums of squares."""
        yield IntegrationStep((name,), alone)
        if alone.care:
            leaf, domain = self.latents[name]
            yield IntegrationStep((name,), eliminate_one(terms, leaf, domain.kind, is_plain=True))

    def _unknowns(self, names: Sequence[str]) -> int:
        return sum(math.prod(self.latents[name].leaf.shape) for name in names)

    def _are_spread(self, averaged: frozenset[Leaf], waiting: list[str]) -> bool:
        """Entries of a latent still to go would stand in as many squares as there are data, all of them in each."""
        later = (*(self.latents[name] for name in waiting), *self.later)
        return any(leaf in averaged and math.prod(leaf.shape) > 1 for leaf, _ in later)

    def _groups(self, terms: tuple[Node, ...], name: str, waiting: list[str]) -> Iterator[tuple[str, ...]]:
        """The latent alone; with all real latents that share terms, directly or through others; with one of these."""
        near = self._coupled(terms, (name,), waiting)
        yield (name,)
        whole = near
        while True:
            more = self._coupled(terms, whole, waiting)
            if more == whole:
                break
            whole = more
        yield whole
        for other in near:
            yield tuple(dict.fromkeys((name, other)))

    def _coupled(self, terms: tuple[Node, ...], names: tuple[str, ...], waiting: list[str]) -> tuple[str, ...]:
        leaves = {self.latents[name].leaf for name in names}
        close = [term for term in terms if term.leaves & leaves]
        real = [n for n in waiting if self.latents[n].domain.kind == "real"]
        more = [n for n in real if n not in names and any(self.latents[n].leaf in term.leaves for term in close)]
        return (*names, *more)


def _too_many(leaf: Leaf) -> NoClosedForm:
    return NoClosedForm(leaf, ZERO, f"at most {DENSE:,} coupled unknowns")
