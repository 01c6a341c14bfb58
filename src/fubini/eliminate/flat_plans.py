"""Plans over tables as numbers: the steps of a plan for the flat engine, and plans that the compiled planner makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fubini.base.names import Name
from fubini.eliminate.plan import Plan, Step
from fubini.eliminate.plates import Problem
from fubini.eliminate.slicing import BYTES, MEMORY_LIMIT
from fubini.eliminate.tree import PATIENCE, SCOPE_TIME, SHARE, SPEED, WIDE
from fubini.engines.flat_program import FlatSteps, plan_steps

MOST_NAMES = 8192  # beyond them masks of neighbours take too much memory


def is_plain(problem: Problem) -> bool:
    """Whether a problem is of dense tables alone, without plates."""
    has_more = problem.plates or problem.dimensions or problem.storages or problem.before or problem.products
    return not has_more and len(problem.sizes) <= MOST_NAMES and all([home is None for _, home in problem.summed])


def steps_within(
    scopes: Sequence[Sequence[int]], sizes: np.ndarray, is_summed: np.ndarray, limit: int | None
) -> FlatSteps | None:
    """The steps of the compiled planner for tables over sorted variables.

    None where counts are too large for it, or the intermediate results do not fit, so that a plan has to be sliced.
    """
    flat = _steps_of(scopes, sizes, is_summed)
    if flat is None:
        return None
    made = flat.scope_starts[len(scopes) :]
    logs = np.log2(sizes)[flat.scopes[made[0] : made[-1]]]
    cells = np.exp2(np.add.reduceat(np.append(logs, 0.0), made[:-1] - made[0]) * (np.diff(made) > 0))
    return flat if BYTES * 2 * cells.sum() <= (MEMORY_LIMIT if limit is None else limit) else None


def compiled_plan(problem: Problem) -> Plan | None:
    """The plan of a plain problem, by the compiled planner; None where counts are too large for it."""
    sizes, summed = dict(problem.sizes), dict(problem.summed)
    names = list(sizes)
    number = {name: k for k, name in enumerate(names)}
    scopes = [sorted([number[name] for name in scope]) for scope in problem.scopes]
    values = np.array(list(sizes.values()), np.int64)
    is_summed = np.zeros(len(names), np.bool_)
    is_summed[[number[name] for name in summed if name in number]] = True
    flat = _steps_of(scopes, values, is_summed)
    if flat is None:
        return None
    inputs = tuple(map(frozenset, problem.scopes))
    steps = _named_steps(flat, names, sizes, inputs)
    return Plan(inputs, steps, tuple(flat.results.tolist()), sizes, dict.fromkeys(summed, ()), flat=flat)


def _steps_of(scopes: Sequence[Sequence[int]], sizes: np.ndarray, is_summed: np.ndarray) -> FlatSteps | None:
    starts = np.cumsum([0, *map(len, scopes)])
    members = np.array([name for scope in scopes for name in scope], np.int64)
    return plan_steps(starts, members, sizes, is_summed, SCOPE_TIME, SHARE, SPEED, PATIENCE, WIDE)


def _named_steps(flat: FlatSteps, names: list[Name], sizes: Mapping[Name, int], inputs: tuple) -> tuple[Step, ...]:
    ends, scopes = flat.scope_starts.tolist(), flat.scopes.tolist()
    slots, first = list(inputs), len(inputs)
    steps = []
    for step, (a, b) in enumerate(flat.operands.tolist()):
        slot = first + step
        keep = frozenset([names[k] for k in scopes[ends[slot] : ends[slot + 1]]])
        union = slots[a] | slots[b] if b >= 0 else slots[a]
        gone = union - keep
        eliminated = tuple(sorted(gone, key=str)) if len(gone) > 1 else tuple(gone)
        size = math.prod([sizes[name] for name in keep])
        work = size * math.prod([sizes[name] for name in gone])
        steps.append(Step("contract", (a, b) if b >= 0 else (a,), eliminated, keep, work, size))
        slots.append(keep)
    return tuple(steps)


def flat_steps(plan: Plan) -> FlatSteps:
    """The steps of a plan over tables as numbers: as the compiled planner left them, or read off the plan."""
    flat = plan.flat or plan.__dict__.get("_cached_flat")
    if flat is None:
        flat = plan.__dict__["_cached_flat"] = _numbered_steps(plan)
    return flat


def _numbered_steps(plan: Plan) -> FlatSteps:
    number = {name: k for k, name in enumerate(plan.sizes)}
    scopes = [sorted([number[name] for name in names]) for names in plan.names]
    operands = np.array([(*step.operands, -1)[:2] for step in plan.steps], np.int64).reshape(-1, 2)
    sizes = np.array(list(plan.sizes.values()), np.int64)
    order = [number[name] for name in plan.eliminated]
    place = np.empty(len(sizes), np.int64)
    place[[*order, *(k for k in range(len(sizes)) if k not in set(order))]] = np.arange(len(sizes))
    members = np.array([name for scope in scopes for name in scope], np.int64)
    starts = np.cumsum([0, *map(len, scopes)])
    return FlatSteps(sizes, starts, members, operands, np.array(plan.results, np.int64), place)
