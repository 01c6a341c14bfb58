"""Questions to factors whose product is one sparse linear system: solved as a whole, not step by step.

Factors say that they are (`is_solvable`), a rule of SOLVE makes the system. Where it has none that is clear, as of a
singular precision, the rules answer, or say what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from fubini.base.domains import Domain, merge_inputs
from fubini.base.interpretations import current, exact, interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.eliminate.plan import Plan
from fubini.engines.choice import asked_engine
from fubini.errors import EngineError, listed
from fubini.numerics.randomness import Randomness
from fubini.terms.factor import Factor
from fubini.terms.heads import SOLVE
from fubini.terms.value import Array

LEAST_TERMS = 12  # fewer are as quick by their rules
MOST_KEPT = 32  # numbers that stay, of which all covariances are solved for


class LinearSystem(Protocol):
    """What a rule of SOLVE makes of a product of factors."""

    def total(self, semiring: Semiring, kept: Sequence[Name]) -> Factor:
        """⊕ over all variables but these."""
        ...

    def marginals(self, names: Sequence[Name]) -> list[Factor]:
        """The normalised marginal of each."""
        ...

    def mode(self) -> dict[Name, Array]:
        """The best value of every variable."""
        ...

    def draws(self, randomness: Randomness, groups: Sequence[Sequence[Name]]) -> dict[Name, Array]:
        """Draws, with random numbers for one group of variables after another."""
        ...


def total_of_system(
    terms: Sequence[Factor], summed: Iterable[tuple[Name, Any]], plates: Any, semiring: Semiring
) -> Factor | None:
    """⊕ over names of the product; None where steps answer."""
    if not _is_asked_for(terms, plates, semiring):
        return None
    gone, inputs = {name for name, _ in summed}, _inputs(terms)
    kept = [name for name in inputs if name not in gone]
    if sum([math.prod(inputs[name].shape) for name in kept]) > MOST_KEPT:
        return _refused(f"a sum that keeps {listed(kept[:4])} and more")
    system = _solve(terms)
    return system.total(semiring, kept) if system is not None else None


def marginals_of_system(
    terms: Sequence[Factor], names: tuple[Name, ...], batch: Sequence[Name], plates: Any, semiring: Semiring
) -> list[Factor] | None:
    """The marginal of each name; None where steps answer."""
    if not _is_asked_for(terms, (plates, batch) if batch else plates, semiring):
        return None
    if semiring is not sum_product:
        return _refused(f"marginals in the semiring {semiring}")
    system = _solve(terms)
    return system.marginals(names) if system is not None else None


def mode_of_system(terms: Sequence[Factor], names: Sequence[Name], plates: Any) -> dict[Name, Array] | None:
    """The best value of each of the names, which are all; None where steps answer."""
    if not _is_asked_for(terms, plates, max_product):
        return None
    if set(_inputs(terms)) != set(names):
        return _refused("the best values of some variables given the others")
    system = _solve(terms)
    return system.mode() if system is not None else None


def draws_of_system(plan: Plan, terms: Sequence[Factor], randomness: Randomness) -> dict[Name, Array] | None:
    """Draws of all variables, those that the steps of a plan would make with the same random numbers; or None."""
    if not _is_asked_for(terms, plan.plates, sum_product):
        return None
    if randomness.xp is not np:
        return _refused("random numbers that are not NumPy's")
    if len(_inputs(terms)) != len(plan.eliminated):
        return _refused("draws of some variables given the others")
    groups = _groups(plan, terms)
    system = _solve(terms, tuple([name for group in groups for name in group]))
    return system.draws(randomness, groups[::-1]) if system is not None else None


def _groups(plan: Plan, terms: Sequence[Factor]) -> list[list[Name]]:
    """The variables that each step eliminates, in the order in which they stand in the product of its operands."""
    slots: list[list[Name]] = [list(term.inputs) for term in terms]
    groups: list[list[Name]] = []
    for step in plan.steps:
        names = dict.fromkeys([name for slot in step.operands for name in slots[slot]])
        slots.append([name for name in names if name in step.keep])
        groups.append([name for name in names if name not in step.keep])
    return groups


def _is_asked_for(terms: Sequence[Factor], plates: Any, semiring: Semiring) -> bool:
    """Whether to solve the product as a whole: it can be, and there are many factors, or it is asked for by name."""
    asked = asked_engine()
    if asked not in (None, "sparse") or (asked is None and len(terms) < LEAST_TERMS):
        return False
    obstacle = _obstacle(terms, plates, semiring)
    if obstacle:
        _refused(obstacle)
    return not obstacle


def _obstacle(terms: Sequence[Factor], plates: Any, semiring: Semiring) -> str:
    """What is not solved as a whole, in words; nothing where all is."""
    if semiring is not sum_product and semiring is not max_product:
        return f"the semiring {semiring}"
    if current() is not exact:
        return f"the interpretation {current()}"
    if plates:
        return "a question with plates, a scale or a batch"
    for term in terms:
        if not term.is_solvable:
            return f"the factor {term}"
    return "" if any([term.inputs for term in terms]) else "constants alone"


def _refused(obstacle: str) -> None:
    """Raise if the engine is asked for by name."""
    if asked_engine() == "sparse":
        raise EngineError(
            f"the engine 'sparse' for {obstacle}",
            expected="Gaussians over real variables alone in NumPy's double precision, under the exact interpretation",
            advice="leave the engine to the data: without fb.engine(…) the rules answer such a question",
        )


def _inputs(terms: Sequence[Factor]) -> Mapping[Name, Domain]:
    return merge_inputs(*[term.inputs for term in terms])


def _solve(terms: Sequence[Factor], order: tuple[Name, ...] = ()) -> LinearSystem | None:
    first = next(k for k, term in enumerate(terms) if term.inputs)
    others = (*terms[:first], *terms[first + 1 :])
    return cast("LinearSystem | None", interpret(SOLVE, terms[first], others, order))
