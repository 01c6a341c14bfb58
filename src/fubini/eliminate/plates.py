"""Planning with plates: tensor variable elimination (Obermeyer et al. 2019, algorithm 1).

A variable inside plates is an array variable; a factor counts once for each cell of the plates among its inputs. The
innermost plates go first: the variables that live there are summed out of each connected component, and what remains
is multiplied out over the plates that none of its remaining variables live in. Without plates that is one component.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fubini.base.names import Name
from fubini.eliminate.order import Precedence, components
from fubini.eliminate.plan import Plan, Step
from fubini.eliminate.tree import Forest, search_order
from fubini.errors import DomainError, Intractable, UnknownName, closest, listed
from fubini.terms.storage import Storage


class Problem(NamedTuple):
    """A question to the planner, without any numbers: hashable, so that plans can be looked up."""

    scopes: tuple[tuple[Name, ...], ...]
    sizes: tuple[tuple[Name, int], ...]
    summed: tuple[tuple[Name, tuple[Name, ...] | None], ...]
    plates: tuple[Name, ...] = ()
    scales: tuple[tuple[Name, float], ...] = ()
    limit: int | None = None
    dimensions: tuple[tuple[Name, int], ...] = ()  # of the variables that are not bounded integers
    before: frozenset[tuple[Name, Name]] = frozenset()  # pairs (first, second) that must go in this order
    products: frozenset[int] = frozenset()  # factors that no rule joins, taken together
    storages: tuple[Storage, ...] = ()  # of the factors; none where all are dense


def make_plan(problem: Problem) -> Plan:
    """The plan for a problem, unsliced."""
    return _Planner(problem).plan()


class _Planner:
    """The state of planning: partial results by the plates they are in, and those that are done."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sizes = dict(problem.sizes)
        self.summed = dict(problem.summed)
        _require_known(problem, self.sizes)
        self.lives = where_variables_live(problem)
        _require_no_kept_in_plates(problem, self.lives)
        self.forest = Forest(problem.scopes, self.sizes, dict(problem.dimensions), problem.storages)
        self.precedence = Precedence(frozenset(name for name, _ in problem.dimensions), problem.before)
        self.results: list[int] = []
        self.by_plates: dict[frozenset[Name], list[int]] = {}
        for slot, scope in enumerate(problem.scopes):
            self.by_plates.setdefault(frozenset(problem.plates).intersection(scope), []).append(slot)

    def plan(self) -> Plan:
        """Plan the innermost plates first."""
        while self.by_plates:
            inner = max(self.by_plates, key=lambda group: (len(group), sorted(map(str, group))))
            slots = self.by_plates.pop(inner)
            here = [name for name in self.summed if self.lives[name] == inner]
            for group in self._groups(slots, here, inner):
                for slot in self._sum_out(group, here):
                    self._multiply_out(slot, inner)
        self._merge_closed()
        plates = self.problem.plates
        scopes = {name: tuple(plate for plate in plates if plate in self.lives[name]) for name in self.summed}
        inputs = tuple(frozenset(scope) for scope in self.problem.scopes)
        steps = tuple(self._named(self.forest.steps))
        storages, reals = tuple(self.forest.storages), self.precedence.reals
        return Plan(inputs, steps, tuple(self.results), self.sizes, scopes, plates, (), reals, storages=storages)

    def _named(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Steps that sum variables that are not finite out of open factors integrate."""
        is_open = [slot in self.problem.products for slot in range(len(self.problem.scopes))]
        for step in steps:
            has_open, reals = any(is_open[slot] for slot in step.operands), self.precedence.reals
            integrates = has_open and step.kind == "contract" and bool(reals.intersection(step.eliminated))
            is_open.append(has_open and bool(reals.intersection(step.keep)))
            yield replace(step, kind="integrate") if integrates else step

    def _groups(self, slots: list[int], here: Sequence[Name], inner: frozenset[Name]) -> list[list[int]]:
        """Outside plates everything is one group: the order search sees the components by itself."""
        if not inner:
            return [slots]
        groups = components([self.forest.names[slot] for slot in slots], here)
        return [[slots[member] for member in members] for members, _ in groups]

    def _sum_out(self, slots: list[int], here: Sequence[Name]) -> list[int]:
        scopes = [self.forest.names[slot] for slot in slots]
        present = frozenset().union(*scopes)
        summed = [name for name in here if name in present]
        if not summed:
            return slots
        storages = [self.forest.storages[slot] for slot in slots] if self.forest.storages else ()
        order = search_order(scopes, self.sizes, summed, self.precedence, storages)
        return self.forest.contract(slots, summed, order)

    def _multiply_out(self, slot: int, inner: frozenset[Name]) -> None:
        """Take a partial result out of the plates that no remaining variable of it lives in."""
        remaining = [name for name in self.forest.names[slot] if name in self.summed]
        outer = frozenset().union(*(self.lives[name] for name in remaining)) & inner
        leaving = inner - outer
        if inner and not leaving and remaining:
            raise _no_exact_order(remaining, inner, self.lives)
        if leaving:
            scale = math.prod(power for plate, power in self.problem.scales if plate in leaving)
            slot = self.forest.add("multiply out", (slot,), leaving, float(scale))
        if remaining and inner:
            self.by_plates.setdefault(outer, []).append(slot)
        else:
            self.results.append(slot)

    def _merge_closed(self) -> None:
        """All closed results as one, so that a fully eliminated problem is one number."""
        names = self.forest.names
        closed = [slot for slot in self.results if not names[slot]]
        while len(closed) > 1:
            closed = [*closed[2:], self.forest.add("contract", (closed[0], closed[1]), frozenset())]
        self.results = [slot for slot in self.results if names[slot]] + closed


def where_variables_live(problem: Problem) -> dict[Name, frozenset[Name]]:
    """The plates of every variable: as declared, or those common to all factors that mention it."""
    plates = frozenset(problem.plates)
    lives: dict[Name, frozenset[Name]] = {}
    for scope in problem.scopes:
        own = plates.intersection(scope)
        for name in scope:
            if name not in plates:
                lives[name] = lives.get(name, own) & own
    for name, declared in problem.summed:
        if declared is not None:
            _require_within(name, declared, problem)
            lives[name] = frozenset(declared) & plates
        lives.setdefault(name, frozenset())
    return lives


def _require_within(name: Name, declared: tuple[Name, ...], problem: Problem) -> None:
    with_it = [frozenset(scope) for scope in problem.scopes if name in scope]
    common = frozenset.intersection(*with_it) - {name} if with_it else frozenset()
    outside = [plate for plate in declared if plate not in common]
    if outside:
        raise DomainError(
            f"{name!r} in the plates {listed(declared)}",
            expected=f"plates that every factor with {name!r} has: {listed(sorted(common, key=str))}",
            advice=f"list {outside[0]!r} in plates=, or take it out of the scope of {name!r}",
        )


def _require_known(problem: Problem, sizes: Mapping[Name, int]) -> None:
    for what, names in (("sum", [name for name, _ in problem.summed]), ("plate", problem.plates)):
        for name in names:
            if name not in sizes:
                raise UnknownName(
                    f"the {what} {name!r}",
                    expected=f"a name that some factor has: {listed(sizes)}",
                    nearest=closest(name, sizes),
                    advice="check the spelling; `.inputs` of a factor lists its names",
                )
    both = [name for name, _ in problem.summed if name in problem.plates]
    if both:
        raise DomainError(f"{both[0]!r} as a summed variable and as a plate", expected="one of the two")


def _require_no_kept_in_plates(problem: Problem, lives: Mapping) -> None:
    summed = dict(problem.summed)
    declared = {plate for home in summed.values() if home is not None for plate in home}
    for name, home in lives.items():
        if name not in summed and name not in declared and home:
            raise Intractable(
                f"multiplying out the plate {listed(sorted(home, key=str))}, which holds the kept variable {name!r}",
                expected=f"{name!r} to be summed, or the plate to stay a batch input",
                advice=f"add {name!r} to sum=, take the plate out of plates=, use f.product(…) if {name!r} is shared "
                f"by all cells, or name it in the scope of a summed variable if it is a plate",
            )


class PlatesDoNotNest(Intractable):
    """A factor couples variables of different plates, neither inside the other."""

    plates: frozenset[Name] = frozenset()


def _no_exact_order(remaining: Sequence[Name], inner: frozenset, lives: Mapping) -> PlatesDoNotNest:
    homes = "; ".join(f"{name!r} lives in {listed(sorted(lives[name], key=str))}" for name in remaining)
    error = PlatesDoNotNest(
        f"a factor in the plates {listed(sorted(inner, key=str))} couples variables of different plates",
        expected="plates that nest, or real variables that are Gaussian in one of the plates",
        nearest=homes,
        advice="turn one plate into an array of variables, or sum it after unrolling that plate",
    )
    error.plates = inner
    return error
