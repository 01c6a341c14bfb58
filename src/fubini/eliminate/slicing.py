"""Slicing: a plan that needs too much memory is run once for each value of some variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fubini.base.names import Name
from fubini.eliminate.plan import Plan, Step
from fubini.errors import MemoryLimit
from fubini.terms.storage import joined_storage

BYTES = 8
MEMORY_LIMIT = 4 * 2**30  # bytes of intermediate results, unless a call says otherwise
WORK_LIMIT = 2 * 10**11  # multiply-adds: minutes
HOPELESS = 10**6 * WORK_LIMIT  # slices never lessen the work


def with_slices(plan: Plan, limit: int | None, whole: bool) -> Plan:
    """The plan, sliced until its intermediate results fit; `whole` where a backward pass keeps them all."""
    limit = MEMORY_LIMIT if limit is None else limit
    start = plan
    while _bytes(plan, whole) > limit and plan.work < HOPELESS and (names := _sliceable(plan)):
        plan = min((_fixed(plan, name) for name in names), key=lambda sliced: (sliced.work, sliced.largest))
    if _bytes(plan, whole) > limit or (plan.slices and plan.work > WORK_LIMIT):
        raise _refusal(start, plan, limit, whole)
    return plan


def _bytes(plan: Plan, whole: bool) -> int:
    return BYTES * (2 * plan.retained if whole else 3 * plan.largest)


def _sliceable(plan: Plan) -> list[Name]:
    """Summed variables of the largest step, outside plates, of more than one value, where every slot can be sliced."""
    if not plan.steps or plan.reals or not all(storage.sliceable for storage in plan.storages):
        return []
    largest = max(plan.steps, key=lambda step: step.size)
    return [
        name
        for name in sorted(largest.keep | set(largest.eliminated), key=str)
        if name in plan.scopes and not plan.scopes[name] and name not in plan.slices and plan.sizes[name] > 1
    ]


def _fixed(plan: Plan, name: Name) -> Plan:
    """The plan with one more name fixed: the same steps on smaller factors."""
    fixed = replace(plan, slices=(*plan.slices, name))
    if plan.storages:
        return replace(fixed, steps=tuple(_asked_again(fixed)))
    size = plan.sizes[name]

    def smaller(step: Step) -> Step:
        divided = step.work // size if name in step.keep or name in step.eliminated else step.work
        return replace(step, work=divided, size=step.size // size if name in step.keep else step.size)

    return replace(fixed, steps=tuple(map(smaller, plan.steps)))


def _asked_again(plan: Plan) -> Iterator[Step]:
    """The steps at what their storages say of them, with the sliced names of one value."""
    sizes = {**plan.sizes, **dict.fromkeys(plan.slices, 1)}
    for step, made in zip(plan.steps, plan.storages[len(plan.inputs) :], strict=True):
        whole = joined_storage([plan.storages[slot] for slot in step.operands])
        union = step.keep.union(step.eliminated)
        yield replace(step, work=whole.work(union, sizes, {}), size=made.size(step.keep, sizes, {}))


def _refusal(plan: Plan, sliced: Plan, limit: int, whole: bool) -> MemoryLimit:
    return MemoryLimit(
        f"a plan whose intermediate results need {_bytes(plan, whole) / 2**30:,.3g} GiB",
        expected=f"at most {limit / 2**30:,.3g} GiB",
        nearest=f"sliced over {len(sliced.slices)} variables ({sliced.passes:,} passes) it needs "
        f"{_bytes(sliced, whole) / 2**30:,.3g} GiB and {sliced.work:.3g} multiply-adds",
        advice="observe more variables, raise memory_limit=, or approximate: "
        'fb.propagate(factors, method="belief propagation")',
    )
