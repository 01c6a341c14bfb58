"""Running a plan: one local rule for each step, in the engine that the data decide.

NumPy data run step by step. JAX arrays run as one compiled function for each plan and structure of the factors; inside
a trace the steps are traced in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from fubini.arrays import namespace
from fubini.domains import Bint
from fubini.eliminate.plan import Plan, Step
from fubini.eliminate.plates import Problem, make_plan
from fubini.eliminate.slicing import with_slices
from fubini.factors.fallbacks import join
from fubini.factors.scaled import Scaled
from fubini.factors.table import Table, contract_tables, embedded, multiply_out, read_out
from fubini.interpretations import current, interpret
from fubini.semirings import Semiring
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import CONTRACT, MULTIPLY, MULTIPLY_OUT, POWER, SUM, exact_contract
from fubini.terms.term import Name
from fubini.terms.value import to_value


@exact_contract.rule
def contract_two_tables(semiring: Semiring, f: Table, g: Table, keep: frozenset) -> Table:
    """⊕_x f(x, y) g(x, z)  =  h(y, z), never building f·g"""
    return contract_tables(semiring, f, g, keep)


@exact_contract.rule
def contract_factors(semiring: Semiring, f: Factor, g: Factor, keep: frozenset) -> Factor:
    """⊕_x f·g, multiplied and then summed"""
    both = interpret(MULTIPLY, f, g)
    gone = tuple(name for name in both.inputs if name not in keep)
    return interpret(SUM, semiring, both, gone) if gone else both


@lru_cache(maxsize=1024)
def find_plan(problem: Problem, whole: bool) -> Plan:
    """The plan for a problem; found again where the structure is the same."""
    return with_slices(make_plan(problem), problem.limit, whole)


def forward(plan: Plan, factors: Sequence[Factor], semiring: Semiring, keep_all: bool = False) -> list[Any]:
    """The value of every slot; of those that are read again or result, unless all are kept."""
    slots: list[Any] = [*factors, *[None] * len(plan.steps)]
    last = plan.last_use
    for position, step in enumerate(plan.steps):
        slots[len(factors) + position] = run_step(step, slots, semiring)
        if not keep_all:
            for slot in step.operands:
                if last[slot] == position:
                    slots[slot] = None
    return slots


def run_step(step: Step, slots: Sequence[Factor], semiring: Semiring) -> Factor:
    """Apply a step, and the interpretation's projection after a sum."""
    if step.kind == "multiply out":
        return _multiply_out(step, slots[step.operands[0]], semiring)
    result = contract(semiring, [slots[slot] for slot in step.operands], step.keep)
    project = current().project
    return result if project is None or not step.eliminated else project(result, step.eliminated)


def contract(semiring: Semiring, factors: Sequence[Factor], keep: frozenset[Name]) -> Factor:
    """⊕ over the names not kept of the product of factors, already embedded."""
    if len(factors) == 2:
        return interpret(CONTRACT, semiring, *factors, keep)
    (factor,) = factors
    gone = tuple(name for name in factor.inputs if name not in keep)
    if isinstance(factor, Table):
        return factor.reduced(semiring, gone)
    return interpret(SUM, semiring, factor, gone) if gone else factor


def _multiply_out(step: Step, factor: Factor, semiring: Semiring) -> Factor:
    if isinstance(factor, Table) and not semiring.homogeneous:
        table = multiply_out(semiring, factor, step.eliminated)
        weights = (
            semiring.repeat(namespace(table.weights), table.weights, step.scale) if step.scale != 1 else table.weights
        )
        return Table._of(Scaled(weights, 0.0), table.inputs, table.exactness)
    result = interpret(MULTIPLY_OUT, factor, step.eliminated)
    return result if step.scale == 1 else interpret(POWER, result, to_value(step.scale))


def embed(semiring: Semiring, factor: Factor) -> Factor:
    """A factor as the steps take it: joined into one representation, in the semiring's carrier."""
    factor = factor if isinstance(factor, Table) else join(factor)
    return embedded(semiring, factor) if isinstance(factor, Table) else factor


def run_forward(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> list[Factor]:
    """The results of a plan."""

    def one_pass(values: dict[Name, Any]) -> list[Factor]:
        slots = forward(plan, [embed(semiring, factor) for factor in sliced(factors, values)], semiring)
        return results(plan, slots)

    return [_read(semiring, factor) for factor in over_slices(plan, one_pass, semiring, factors)]


def results(plan: Plan, slots: Sequence[Factor]) -> list[Factor]:
    """The slots that remain."""
    return [slots[slot] for slot in plan.results]


def at_value(total: Factor, name: Name, value: Any, size: int) -> Factor:
    """total · δ(name = value), as a table."""
    assert isinstance(total, Table), "only tables are sliced"
    xp = namespace(total.weights, value)
    weights = xp.where(np.arange(size) == value, total.weights[..., None], 0.0)
    shift = total.shift if np.ndim(total.shift) == 0 else xp.broadcast_to(total.shift[..., None], weights.shape)
    return Table._of(Scaled(weights, shift), {**total.inputs, name: Bint[size]}, total.exactness)


def over_slices(plan: Plan, one_pass: Callable, semiring: Semiring, factors: Sequence[Factor]) -> list[Factor]:
    """⊕ of the results of one pass over all values of the sliced names; in a trace, a scan."""
    if not plan.slices:
        return one_pass({})
    shape = [plan.sizes[name] for name in plan.slices]

    def at(position: Any) -> list[Factor]:
        return one_pass(dict(zip(plan.slices, namespace(position).unravel_index(position, shape), strict=True)))

    if engine_of(factors) == "numpy":
        return reduce(lambda a, b: _accumulate(semiring, a, b), map(at, map(np.asarray, range(plan.passes))))
    first = at(jnp.asarray(0))
    start = _accumulate(semiring, first, [_zeroed(semiring, factor) for factor in first])
    total, _ = jax.lax.scan(
        lambda carry, position: (_accumulate(semiring, carry, at(position)), None), start, jnp.arange(1, plan.passes)
    )
    return total


def sliced(factors: Sequence[Factor], values: dict[Name, Any]) -> Sequence[Factor]:
    """The factors at these values."""
    if not values:
        return factors
    fixed = {name: to_value(value) for name, value in values.items()}
    return [substitute(factor, fixed) for factor in factors]


def _accumulate(semiring: Semiring, first: list[Factor], second: list[Factor]) -> list[Factor]:
    return [add(semiring, a, b) for a, b in zip(first, second, strict=True)]


def _zeroed(semiring: Semiring, factor: Factor) -> Factor:
    assert isinstance(factor, Table), "only tables are sliced"
    return Table._of(Scaled(jnp.full_like(factor.weights, semiring.zero), factor.shift), factor.inputs)


def add(semiring: Semiring, a: Factor, b: Factor) -> Factor:
    """a ⊕ b, as a sum over a fresh index of two values."""
    assert isinstance(a, Table) and isinstance(b, Table), "only tables are sliced"
    return _stacked(a, b).reduced(semiring, ("slice",))


def _stacked(a: Table, b: Table) -> Table:
    x, y = a.pair, b.aligned(a.names)
    shape, xp = x.weights.shape, namespace(*x[:2], *y[:2])
    weights = xp.stack([x.weights, y.weights])
    shift = xp.stack([xp.broadcast_to(x.shift, shape), xp.broadcast_to(y.shift, shape)])
    return Table._of(Scaled(weights, shift), {"slice": Bint[2], **a.inputs}, a.exactness | b.exactness)


def _read(semiring: Semiring, factor: Factor) -> Factor:
    return read_out(semiring, factor) if isinstance(factor, Table) else factor


def engine_of(factors: Sequence[Factor]) -> str:
    """Which engine the data decide: numpy, xla, or the trace in progress."""
    engine = "numpy"
    for factor in factors:
        for leaf in factor.leaves():
            kind = type(leaf)
            if kind is np.ndarray or kind is float:
                continue
            if isinstance(leaf, Tracer):
                return "trace"
            if isinstance(leaf, jax.Array):
                engine = "xla"
    return engine


def on_engine(run: Callable, plan: Plan, factors: Sequence[Factor], *static: Any, arrays: tuple = ()) -> Any:
    """run(plan, factors, *arrays, *static) on the engine of the data."""
    if engine_of(factors) != "xla":
        return run(plan, factors, *arrays, *static)
    return _compiled(run, plan, static)(list(factors), arrays)


@lru_cache(maxsize=1024)
def _compiled(run: Callable, plan: Plan, static: tuple) -> Callable:
    return jax.jit(lambda factors, arrays: run(plan, factors, *arrays, *static))
