"""The backward pass over a plan, once for every engine and representation.

Going down the steps in reverse, each slot receives its *adjoint*: the factor that, multiplied by the slot and summed,
gives the whole. A slot times its adjoint is its belief, and beliefs give all marginals. The same descent with a choice
instead of an adjoint, the arg max or a draw, gives the best assignment or posterior samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from fubini.eliminate.plan import Plan, Step
from fubini.eliminate.run import at_value, contract, embed, forward, over_slices, results, sliced
from fubini.interpretations import interpret
from fubini.semirings import Semiring
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import DIVIDE
from fubini.terms.term import Name
from fubini.terms.value import Array, Value

Choose = Callable[[Factor, tuple[Name, ...]], Mapping[Name, Array]]


def adjoints(plan: Plan, slots: Sequence[Factor], semiring: Semiring, wanted: Sequence[bool]) -> list[Factor | None]:
    """The adjoint of every wanted slot; None stands for 1. Slots of different results have their own wholes."""
    adjoint: list[Factor | None] = [None] * len(slots)
    first = len(plan.inputs)
    for position in reversed(range(len(plan.steps))):
        step, above = plan.steps[position], adjoint[first + position]
        if not wanted[first + position]:
            continue
        for operand in step.operands:
            if wanted[operand]:
                adjoint[operand] = _descend(step, operand, slots, above, slots[first + position], semiring)
    return adjoint


def _descend(
    step: Step, operand: int, slots: Sequence[Factor], above: Factor | None, made: Factor, semiring: Semiring
) -> Factor | None:
    """The adjoint of one operand, given that of the step's result."""
    if step.kind == "multiply out":
        # C = Π_i F_i: the adjoint of F_i is that of C times C / F_i, where 0/0 = 0 is as good as any: F_i is 0 there.
        rest = interpret(DIVIDE, made, slots[operand])
        return rest if above is None else contract(semiring, [above, rest], frozenset(rest.inputs))
    parts = [slots[other] for other in step.operands if other != operand]
    parts += [above] if above is not None else []
    if not parts:
        return None
    keep = frozenset(slots[operand].inputs)
    return contract(semiring, parts, keep)


def providers(plan: Plan, names: Sequence[Name]) -> dict[Name, int]:
    """For each name the slot to read its marginal from: one whose adjoint is needed anyway, else the smallest."""
    found: dict[Name, int] = {}
    inputs = len(plan.inputs)
    sizes = [_size(plan, scope) for scope in plan.names]
    for slot in sorted(range(len(plan.names)), key=lambda slot: (slot < inputs, sizes[slot])):
        for name in plan.names[slot]:
            found.setdefault(name, slot)
    return {name: found[name] for name in names}


def _size(plan: Plan, names: frozenset[Name]) -> int:
    size = 1
    for name in names:
        size *= plan.sizes[name]
    return size


def wanted_slots(plan: Plan, targets: Sequence[int]) -> list[bool]:
    """The slots whose adjoints the targets need: themselves and everything made from them."""
    wanted = [False] * len(plan.names)
    for slot in targets:
        wanted[slot] = True
    for position, step in enumerate(plan.steps):
        if any(wanted[operand] for operand in step.operands):
            wanted[len(plan.inputs) + position] = True
    return wanted


def run_marginals(
    plan: Plan, factors: Sequence[Factor], semiring: Semiring, names: tuple[Name, ...], batch: tuple[Name, ...]
) -> list[Factor]:
    """The unnormalised marginal of each name, over its plates and the batch."""
    source = providers(plan, names)
    wanted = wanted_slots(plan, list(source.values()))

    def one_pass(values: dict[Name, Any]) -> list[Factor]:
        slots = forward(plan, [embed(semiring, factor) for factor in sliced(factors, values)], semiring, keep_all=True)
        adjoint = adjoints(plan, slots, semiring, wanted)

        def belief(name: Name) -> Factor:
            if name in values:
                total = reduce(lambda a, b: contract(semiring, [a, b], frozenset(batch)), results(plan, slots))
                return at_value(total, name, values[name], plan.sizes[name])
            above = adjoint[source[name]]
            parts = [slots[source[name]], *([above] if above is not None else [])]
            return contract(semiring, parts, frozenset((name, *plan.scopes[name], *batch)))

        return [belief(name) for name in names]

    return over_slices(plan, one_pass, semiring, factors)


def descend(plan: Plan, factors: Sequence[Factor], semiring: Semiring, choose: Choose) -> dict[Name, Array]:
    """One value for every eliminated variable, chosen given those above it, from the last step to the first."""
    slots = forward(plan, [embed(semiring, factor) for factor in factors], semiring, keep_all=True)
    chosen: dict[Name, Value] = {}
    for step in reversed(plan.steps):
        if step.kind == "contract" and step.eliminated:
            given = [substitute(slots[slot], chosen) for slot in step.operands]
            keep = frozenset(name for factor in given for name in factor.inputs)
            chosen.update(choose(contract(semiring, given, keep), step.eliminated))
    return chosen  # type: ignore[return-value]
