"""Planning with plates: tensor variable elimination (Obermeyer et al. 2019, algorithm 1).

A variable inside plates is an array variable; a factor counts once for each cell of the plates among its inputs. The
innermost plates go first: the variables that live there are summed out of each connected component, and what is left
is multiplied out over the plates that none of its remaining variables live in. Without plates that is one component.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fubini.eliminate.order import components
from fubini.eliminate.plan import Plan
from fubini.eliminate.tree import Forest, search_order
from fubini.errors import DomainError, Intractable, UnknownName, closest, listed
from fubini.terms.term import Name


@dataclass(frozen=True)
class Problem:
    """What is asked of the planner, without any numbers: hashable, so that plans are found again."""

    scopes: tuple[tuple[Name, ...], ...]
    sizes: tuple[tuple[Name, int], ...]
    summed: tuple[tuple[Name, tuple[Name, ...] | None], ...]
    plates: tuple[Name, ...] = ()
    scales: tuple[tuple[Name, float], ...] = ()
    limit: int | None = field(default=None)


def make_plan(problem: Problem) -> Plan:
    """The plan for a problem, unsliced."""
    sizes = dict(problem.sizes)
    plates = frozenset(problem.plates)
    _require_known(problem, sizes)
    lives = where_variables_live(problem)
    summed = dict(problem.summed)
    _require_no_kept_in_plates(problem, plates, lives)
    forest = Forest(problem.scopes, sizes)
    by_plates: dict[frozenset[Name], list[int]] = {}
    for slot, scope in enumerate(problem.scopes):
        by_plates.setdefault(plates.intersection(scope), []).append(slot)
    results: list[int] = []
    while by_plates:
        inner = max(by_plates, key=lambda group: (len(group), sorted(map(str, group))))
        slots = by_plates.pop(inner)
        here = [name for name in summed if lives[name] == inner]
        for group in _groups(forest, slots, here, inner):
            for slot in _sum_out(forest, group, here):
                _multiply_out(forest, slot, inner, lives, summed, problem, by_plates, results)
    results = _merge_closed(forest, results)
    scopes = {name: tuple(plate for plate in problem.plates if plate in lives[name]) for name in summed}
    inputs = tuple(frozenset(scope) for scope in problem.scopes)
    return Plan(inputs, tuple(forest.steps), tuple(results), sizes, scopes, problem.plates)


def where_variables_live(problem: Problem) -> dict[Name, frozenset[Name]]:
    """The plates of every variable: as declared, or those common to all factors that mention it."""
    plates = frozenset(problem.plates)
    lives: dict[Name, frozenset[Name]] = {}
    for scope in problem.scopes:
        mine = plates.intersection(scope)
        for name in scope:
            if name not in plates:
                lives[name] = lives.get(name, mine) & mine
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


def _require_no_kept_in_plates(problem: Problem, plates: frozenset[Name], lives: Mapping) -> None:
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


def _groups(forest: Forest, slots: list[int], here: Sequence[Name], inner: frozenset[Name]) -> Iterable[list[int]]:
    """Outside plates everything is one group: the order search sees the components by itself."""
    if not inner:
        return [slots]
    found = components([forest.names[slot] for slot in slots], here)
    return [[slots[member] for member in members] for members, _ in found]


def _sum_out(forest: Forest, slots: list[int], here: Sequence[Name]) -> list[int]:
    present = frozenset().union(*(forest.names[slot] for slot in slots))
    mine = [name for name in here if name in present]
    if not mine:
        return slots
    scopes = [forest.names[slot] for slot in slots]
    return forest.contract(slots, mine, search_order(scopes, forest.sizes, mine))


def _multiply_out(
    forest: Forest,
    slot: int,
    inner: frozenset[Name],
    lives: Mapping[Name, frozenset[Name]],
    summed: Mapping,
    problem: Problem,
    by_plates: dict[frozenset[Name], list[int]],
    results: list[int],
) -> None:
    """Take a partial result out of the plates that no remaining variable of it lives in."""
    remaining = [name for name in forest.names[slot] if name in summed]
    outer = frozenset().union(*(lives[name] for name in remaining)) & inner
    leaving = inner - outer
    if inner and not leaving and remaining:
        raise _no_exact_order(remaining, inner, lives)
    if leaving:
        scale = 1.0
        for plate, power in problem.scales:
            scale *= power if plate in leaving else 1.0
        slot = forest.add("multiply out", (slot,), leaving, scale)
    if remaining and inner:
        by_plates.setdefault(outer, []).append(slot)
    else:
        results.append(slot)


def _no_exact_order(remaining: Sequence[Name], inner: frozenset, lives: Mapping) -> Intractable:
    homes = "; ".join(f"{name!r} lives in {listed(sorted(lives[name], key=str))}" for name in remaining)
    return Intractable(
        f"a factor in the plates {listed(sorted(inner, key=str))} couples variables of different plates",
        expected="plates that nest",
        nearest=homes,
        advice="turn one plate into an array of variables, or sum it after unrolling that plate",
    )


def _merge_closed(forest: Forest, results: list[int]) -> list[int]:
    """All closed results as one, so that a fully eliminated problem is one number."""
    closed = [slot for slot in results if not forest.names[slot]]
    while len(closed) > 1:
        closed = [*closed[2:], forest.add("contract", (closed[0], closed[1]), frozenset())]
    return [slot for slot in results if forest.names[slot]] + closed
