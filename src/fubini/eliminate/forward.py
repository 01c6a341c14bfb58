"""Running a plan forward: one local rule for each step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from fubini.base.interpretations import current, interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, same_pair, sum_product
from fubini.eliminate.flat_plans import compiled_plan, is_plain
from fubini.eliminate.level_tables import results_by_levels
from fubini.eliminate.passes import over_slices, reached_by_slices
from fubini.eliminate.plan import PLANS, Plan, Step
from fubini.eliminate.plates import Problem, make_plan
from fubini.eliminate.slicing import with_slices
from fubini.engines.choice import are_loops_loaded
from fubini.factors.fallbacks import blocked, combined, sum_of_product
from fubini.factors.promotion import is_open, promoted
from fubini.terms.factor import Factor, Product, Unit, after_sum
from fubini.terms.heads import (
    CONTRACT,
    EMBED,
    LEVEL,
    MULTIPLY_MANY,
    MULTIPLY_OUT,
    POWER,
    READ,
    REDUCE,
    REPEAT,
    SUM,
    exact_contract,
    exact_marginals,
    exact_multiply_many,
)
from fubini.terms.value import to_value


@exact_contract.rule
def contract_factors(semiring: Semiring, f: Factor, g: Factor, keep: frozenset) -> Factor:
    """⊕_x f·g, multiplied as far as there are rules and then summed"""
    both = combined((f, g))
    return _summed(semiring, both, tuple(name for name in both.inputs if name not in keep))


@exact_multiply_many.rule
def multiply_one_by_one(f: Factor, others: tuple) -> Factor:
    """f Π_k g_k, one after another"""
    return combined((f, *others))


@exact_marginals.rule
def marginals_one_by_one(semiring: Semiring, f: Factor, names: tuple, kept: frozenset) -> list:
    """f_x / ⊕_x f_x,  f_x = ⊕ over all but x and those kept, for each x"""
    others = {name: tuple(n for n in f.inputs if n != name and n not in kept) for name in names}
    return [promoted(_summed(semiring, f, others[name]))._normalized((name,)) for name in names]


def _summed(semiring: Semiring, factor: Factor, names: tuple[Name, ...]) -> Factor:
    """⊕ over the names, or the error that says what blocks it."""
    if not names:
        return factor
    if isinstance(factor, Product):
        return sum_of_product(semiring, factor, names)
    rule = current().find(SUM, (semiring, factor, names))
    if rule is None and factor.promotes:
        raise blocked(semiring, factor, names)
    return interpret(SUM, semiring, factor, names)


def find_plan(problem: Problem, whole: bool) -> Plan:
    """The plan for a problem, shared by problems of the same structure."""
    plan = PLANS.get((problem, whole))
    if plan is None:
        plan = PLANS.get_or_make((problem, whole), lambda: with_slices(_plan_of(problem), problem.limit, whole))
    return plan


def _plan_of(problem: Problem) -> Plan:
    """The plan, by the compiled planner where it is at hand: the same steps, sooner."""
    made = compiled_plan(problem) if are_loops_loaded() and is_plain(problem) else None
    return make_plan(problem) if made is None else made


def forward(plan: Plan, factors: Sequence[Factor], semiring: Semiring, keep_all: bool = False) -> list[Any]:
    """The value of every slot; of those that are read again or result, unless all are kept.

    Where all are kept it is for what is normalised: what plates are multiplied out of is then known up to a scale.
    """
    slots: list[Any] = [*factors, *[None] * len(plan.steps)]
    last = plan.last_use
    for position, step in enumerate(plan.steps):
        if keep_all and step.kind == "multiply out" and semiring.embed is same_pair and not plan.slices:
            slots[step.operands[0]] = _levelled(plan, step, slots[step.operands[0]])
        slots[len(factors) + position] = run_step(step, slots, semiring)
        if not keep_all:
            for slot in step.operands:
                if last[slot] == position:
                    slots[slot] = None
    return slots


def _levelled(plan: Plan, step: Step, factor: Factor) -> Factor:
    """The factor before a plate is multiplied out, without what all cells of the product would have in common.

    In single precision a sum of 100,000 logarithms has few digits for what they differ by.
    """
    return interpret(LEVEL, factor, step.eliminated, tuple(name for name in factor.inputs if name in plan.scopes))


def run_step(step: Step, slots: Sequence[Factor], semiring: Semiring) -> Factor:
    """Apply a step, and the interpretation's projection after a sum."""
    if step.kind == "multiply out":
        return _multiply_out(step, slots[step.operands[0]], semiring)
    result = contract(semiring, [slots[slot] for slot in step.operands], step.keep)
    return after_sum(result, step.eliminated) if step.eliminated else result


def contract(semiring: Semiring, factors: Sequence[Factor], keep: frozenset[Name]) -> Factor:
    """⊕ over the names not kept of the product of factors, already embedded."""
    if len(factors) == 2:
        return interpret(CONTRACT, semiring, *factors, keep)
    factor, *others = factors
    if others and semiring.embed is same_pair:
        factor = interpret(MULTIPLY_MANY, factor, tuple(others))
    for other in others if semiring.embed is not same_pair else ():
        factor = interpret(CONTRACT, semiring, factor, other, frozenset(factor.inputs))
    gone = tuple(name for name in factor.inputs if name not in keep)
    if semiring.embed is not same_pair:  # already in the carrier, where the rules for weights do not apply
        return interpret(REDUCE, semiring, factor, gone)
    return _summed(semiring, factor, gone)


def _multiply_out(step: Step, factor: Factor, semiring: Semiring) -> Factor:
    if not semiring.homogeneous:
        return interpret(REPEAT, semiring, factor, step.eliminated, step.scale)
    result = interpret(MULTIPLY_OUT, factor, step.eliminated)
    return result if step.scale == 1 else interpret(POWER, result, to_value(step.scale))


def embed(semiring: Semiring, factor: Factor) -> Factor:
    """A factor as the steps take it: joined into one representation, in the semiring's carrier."""
    if semiring is sum_product or semiring is max_product:
        if not factor.promotes:
            return factor
        if isinstance(factor, Product) and any(map(is_open, factor.terms)):
            return factor  # integrated as it is written: one factor would hide which entries are independent
    return interpret(EMBED, semiring, factor if isinstance(factor, Unit) else promoted(factor))


def run_forward(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> list[Factor]:
    """The results of a plan."""

    def one_pass(at: Sequence[Factor], values: dict) -> list[Factor]:
        return results(plan, forward(plan, [embed(semiring, factor) for factor in at], semiring))

    by_levels = results_by_levels(plan, factors, semiring)
    if by_levels is not None:
        return by_levels
    reached = reached_by_slices(plan) if plan.slices else None
    totals = over_slices(plan, factors, semiring, one_pass, reached)
    if not semiring.homogeneous:  # its ⊗ is not the product of weights: the results are joined in the carrier
        totals = [reduce(lambda a, b: contract(semiring, [a, b], frozenset(a.inputs) | frozenset(b.inputs)), totals)]
    return [read(semiring, factor) for factor in totals]


def results(plan: Plan, slots: Sequence[Factor]) -> list[Factor]:
    """The slots that remain."""
    return [slots[slot] for slot in plan.results]


def read(semiring: Semiring, factor: Factor) -> Factor:
    """A factor in the semiring's carrier as weights."""
    return factor if semiring.read is same_pair else interpret(READ, semiring, factor)
