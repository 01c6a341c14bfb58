"""Passes over slices: a sliced plan is run once for each value of the sliced names, and the results are added up."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, namespace
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring
from fubini.eliminate.engine import engine_of
from fubini.eliminate.plan import Plan
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import ACCUMULATE, MASK
from fubini.terms.value import to_value

Values = dict[Name, Any]
OnePass = Callable[[Sequence[Factor], Values], list[Factor]]


def over_slices(
    plan: Plan,
    factors: Sequence[Factor],
    semiring: Semiring,
    one_pass: OnePass,
    reached: Sequence[frozenset] | None = None,
) -> list[Factor]:
    """⊕ of what one pass returns, over all values of the sliced names; in a trace, a scan.

    `reached` says for each item which sliced names it depends on: it is counted once for each value of those only.
    """
    if not plan.slices:
        return one_pass(factors, {})
    shape = [plan.sizes[name] for name in plan.slices]

    def at(position: Data) -> list[Factor]:
        values = dict(zip(plan.slices, namespace(position).unravel_index(position, shape), strict=True))
        items = one_pass(_sliced(factors, values), values)
        pairs = zip(items, reached or [frozenset(plan.slices)] * len(items), strict=True)
        return [_once(semiring, factor, names, values) for factor, names in pairs]

    if engine_of(factors) == "numpy":
        total = at(np.asarray(0))
        for position in range(1, plan.passes):
            total = _accumulated(semiring, total, at(np.asarray(position)))
        return total
    first = at(jnp.asarray(0))
    start = _accumulated(semiring, first, [_masked(semiring, factor, False) for factor in first])
    rest = jnp.arange(1, plan.passes)
    return lax_loops.scan(lambda total, k: (_accumulated(semiring, total, at(k)), None), start, rest)[0]


def reached_by_slices(plan: Plan) -> list[frozenset[Name]]:
    """List for each result the sliced names that went into it."""
    sliced = frozenset(plan.slices)
    reach = [names & sliced for names in plan.inputs]
    for step in plan.steps:
        reach.append(frozenset().union(*(reach[slot] for slot in step.operands)))
    return [reach[slot] for slot in plan.results]


def _sliced(factors: Sequence[Factor], values: Values) -> list[Factor]:
    fixed = {name: to_value(value) for name, value in values.items()}
    return [substitute(factor, fixed) for factor in factors]


def _once(semiring: Semiring, factor: Factor, names: frozenset[Name], values: Values) -> Factor:
    """The factor where all sliced names that it does not depend on are at their first value; zero elsewhere."""
    others = [value == 0 for name, value in values.items() if name not in names]
    return _masked(semiring, factor, reduce(operator.and_, others)) if others else factor


def _masked(semiring: Semiring, factor: Factor, keep: Data) -> Factor:
    return interpret(MASK, semiring, factor, keep)


def _accumulated(semiring: Semiring, first: list[Factor], second: list[Factor]) -> list[Factor]:
    """⊕ item by item."""
    return [interpret(ACCUMULATE, semiring, a, b) for a, b in zip(first, second, strict=True)]
