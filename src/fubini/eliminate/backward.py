"""The backward pass over a plan, once for every engine and representation.

Going down the steps in reverse, each slot receives its *adjoint*: the factor that, multiplied by the slot and summed,
gives the whole. A slot times its adjoint is its belief, and beliefs give all marginals. The same descent with a choice
instead of an adjoint, the arg max or a draw, gives the best assignment or posterior samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from fubini.base.arrays import require
from fubini.base.domains import merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, same_pair
from fubini.eliminate.forward import contract, embed, forward, read, results
from fubini.eliminate.level_tables import marginals_by_levels
from fubini.eliminate.passes import over_slices
from fubini.eliminate.plan import Plan, Step
from fubini.errors import Intractable
from fubini.factors.no_mass import nothing_to_choose
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, product, substitute, terms_of
from fubini.terms.heads import DIVIDE, EXCLUDE, MARGINALS, PLACE, SUM
from fubini.terms.storage import joined_storage
from fubini.terms.value import Array, Value

Choose = Callable[[Factor, tuple[Name, ...]], Mapping[Name, Array]]


def adjoints(
    plan: Plan, slots: Sequence[Factor], semiring: Semiring, wanted: Sequence[bool], batch: frozenset[Name]
) -> list[Factor | None]:
    """The adjoint of every wanted slot; None stands for 1. Slots of different results have their own wholes."""
    adjoint: list[Factor | None] = [None] * len(slots)
    first = len(plan.inputs)
    for position in reversed(range(len(plan.steps))):
        step, above = plan.steps[position], adjoint[first + position]
        for operand in step.operands:
            if wanted[operand]:
                rest = _siblings(step, operand, slots, slots[first + position], semiring)
                parts = [part for part in (rest, above) if part is not None]
                keep = frozenset(slots[operand].inputs) | batch
                adjoint[operand] = _summed(plan, semiring, parts, keep) if parts else None
    return adjoint


def _summed(plan: Plan, semiring: Semiring, parts: list[Factor], keep: frozenset[Name]) -> Factor:
    """⊕ over the names not kept of the product of the parts.

    An adjoint has the names of its slot, but not its storage: where slots are not contracted in pairs, a product stays
    lazy, and its sum has a plan of its own.
    """
    if semiring.embed is not same_pair or all(storage.in_pairs for storage in plan.storages):
        return contract(semiring, parts, keep)
    whole = product(*parts)
    if whole.storage.at_once:
        terms = sorted([term for part in parts for term in terms_of(part)], key=lambda term: not term.storage.at_once)
        return contract(semiring, terms, keep)
    gone = tuple(name for name in whole.inputs if name not in keep)
    return interpret(SUM, semiring, whole, gone) if gone else whole


def _siblings(step: Step, operand: int, slots: Sequence[Factor], made: Factor, semiring: Semiring) -> Factor | None:
    """The factors that a step multiplied its operand by: the other operand, or the other cells of the plate."""
    if step.kind != "multiply out":
        others = [slots[other] for other in step.operands if other != operand]
        return product(*others) if len(others) > 1 else next(iter(others), None)
    if step.scale == 1:
        return interpret(EXCLUDE, semiring, slots[operand], step.eliminated)
    if not semiring.homogeneous:
        raise Intractable(
            f"marginals in the semiring {semiring} with a scaled plate",
            expected="a semiring of weights, in which the plate can be divided by one cell",
            advice="ask without scale=, or in sum_product or max_product",
        )
    # C = (Π_i F_i)^s: C / F_i, where 0/0 = 0 is as good as any, F_i being 0 there.
    return interpret(DIVIDE, made, slots[operand])


def at_once_steps(plan: Plan, semiring: Semiring) -> dict[Name, int]:
    """The step that sums a name out of a product together with all others of it: its marginal is read off there."""
    if not plan.storages or plan.slices or semiring.embed is not same_pair:
        return {}
    steps: dict[Name, int] = {}
    for position, step in enumerate(plan.steps):
        if step.kind == "contract" and joined_storage([plan.storages[slot] for slot in step.operands]).at_once:
            steps |= dict.fromkeys(step.eliminated, position)
    return steps


def providers(plan: Plan, names: Sequence[Name]) -> dict[Name, int]:
    """Choose the slot to read each marginal from: one whose adjoint is needed anyway, else the smallest.

    Among slots that are not dense and of one size the last, which has the shortest adjoint.
    """
    slots: dict[Name, int] = {}
    inputs = len(plan.inputs)
    sizes = plan.slot_sizes
    last = -1 if plan.storages else 0
    for slot in sorted(range(len(plan.names)), key=lambda slot: (slot < inputs, sizes[slot], last * slot)):
        for name in plan.names[slot]:
            slots.setdefault(name, slot)
    return {name: slots[name] for name in names}


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
    """The marginal of each name, for each cell of its plates and of the batch."""
    steps = {name: step for name, step in at_once_steps(plan, semiring).items() if name in names}
    source = providers(plan, [name for name in names if name not in steps])
    wanted = wanted_slots(plan, [*source.values(), *(len(plan.inputs) + step for step in steps.values())])
    by_levels = None if steps else marginals_by_levels(plan, factors, semiring, source, wanted, batch)
    if by_levels is not None:
        return by_levels
    domains = merge_inputs(*(factor.inputs for factor in factors)) if plan.slices else {}

    def one_pass(at: Sequence[Factor], values: dict) -> list[Factor]:
        slots = forward(plan, [embed(semiring, factor) for factor in at], semiring, keep_all=True)
        adjoint = adjoints(plan, slots, semiring, wanted, frozenset(batch))
        at_once = _marginals_at_once(plan, steps, frozenset(batch), slots, semiring, adjoint)

        def belief(name: Name) -> Factor:
            if name in values:
                total = reduce(lambda a, b: contract(semiring, [a, b], frozenset(batch)), results(plan, slots))
                return interpret(PLACE, semiring, total, {name: domains[name]}, values[name])
            if name in steps:
                return at_once[name]
            above = adjoint[source[name]]
            parts = [slots[source[name]], *([above] if above is not None else [])]
            return promoted(_summed(plan, semiring, parts, frozenset((name, *plan.scopes[name], *batch))))

        return [belief(name) for name in names]

    beliefs = zip(names, over_slices(plan, factors, semiring, one_pass), strict=True)
    return [belief if name in steps else normalized(read(semiring, belief), name) for name, belief in beliefs]


def _marginals_at_once(
    plan: Plan,
    steps: Mapping[Name, int],
    batch: frozenset[Name],
    slots: Sequence[Factor],
    semiring: Semiring,
    adjoint: Sequence[Factor | None],
) -> dict[Name, Factor]:
    """The normalised marginals of all names that a step sums out, from what it multiplies and its result's adjoint."""
    groups: dict[tuple[int, frozenset[Name]], list[Name]] = {}
    for name, position in steps.items():
        groups.setdefault((position, batch.union(plan.scopes[name])), []).append(name)
    beliefs: dict[Name, Factor] = {}
    for (position, kept), names in groups.items():
        above = adjoint[len(plan.inputs) + position]
        parts = [*(slots[slot] for slot in plan.steps[position].operands), *([above] if above is not None else [])]
        whole = contract(semiring, parts, frozenset(name for part in parts for name in part.inputs))
        beliefs |= zip(names, interpret(MARGINALS, semiring, whole, tuple(names), kept), strict=True)
    return beliefs


def normalized(factor: Factor, name: Name) -> Factor:
    """The factor over its sum, for each cell of the other inputs."""
    return factor._normalized((name,))


def descend(plan: Plan, factors: Sequence[Factor], semiring: Semiring, choose: Choose) -> dict[Name, Array]:
    """One value for every eliminated variable, chosen given those above it, from the last step to the first."""
    slots = forward(plan, [embed(semiring, factor) for factor in factors], semiring, keep_all=True)
    chosen: dict[Name, Value] = {}
    for step in reversed(plan.steps):
        if step.kind != "multiply out" and step.eliminated:
            given = [substitute(slots[slot], chosen) for slot in step.operands]
            keep = frozenset(name for factor in given for name in factor.inputs)
            chosen.update(choose(contract(semiring, given, keep), step.eliminated))
    return _refused_without_mass(chosen, results(plan, slots))


def _refused_without_mass(chosen: dict, totals: Sequence[Factor]) -> dict[Name, Array]:
    """A zero that no variable has any more, in a result that is closed, refuses every choice."""
    for total in totals:
        if not total.inputs:
            has_mass = total._has_mass()
            for name, value in chosen.items():
                (array,) = require(has_mass, lambda: nothing_to_choose(list(chosen)), value.array)
                chosen[name] = Array._of(array, value.names, value.inputs, value.output)
    return chosen
