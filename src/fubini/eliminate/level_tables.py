"""Questions to long plans over tables of JAX by a few scans: what is traced hardly grows with the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from fubini.base.domains import merge_inputs
from fubini.base.interpretations import current, exact
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.eliminate.engine import engine_of
from fubini.eliminate.plan import Plan
from fubini.engines.choice import asked_engine
from fubini.errors import EngineError
from fubini.factors.promotion import promoted
from fubini.numerics.level_scans import LevelProgram, TableStep, level_program, normalized_slots, run_levels
from fubini.numerics.scaled import Scaled
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor, Unit

LEAST_STEPS = 150  # fewer are compiled one by one in some seconds, and run sooner than scans


def results_by_levels(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> list[Factor] | None:
    """The results of a plan; None where its steps are taken one by one."""
    if not _is_asked_for(plan, factors, semiring):
        return None
    program = _program(plan, factors, "results", _forward(plan))
    if program is None:
        return None
    tables, make, inputs, mark = _tables(factors)
    cells, names = run_levels(program, [table.pair for table in tables], semiring), list(plan.sizes)
    found: list[Factor] = []
    for slot in plan.results:
        where, shape = program.cells(slot), program.shape(slot)
        shift = (cells.shifts[where] + cells.scales[where]).reshape(shape)
        pair = Scaled(cells.weights[where].reshape(shape), shift)
        found.append(make(pair, {names[k]: inputs[names[k]] for k in program.scopes[slot]}, mark))
    return found


def marginals_by_levels(
    plan: Plan,
    factors: Sequence[Factor],
    semiring: Semiring,
    sources: dict[Name, int],
    wanted: Sequence[bool],
    batch: Sequence[Name],
) -> list[Factor] | None:
    """The normalised marginal of each name, from the slot that is its source; None where steps are taken one by one."""
    if not _is_asked_for(plan, factors, semiring, batch):
        return None
    number = {name: k for k, name in enumerate(plan.sizes)}
    steps, beliefs = _with_beliefs(plan, factors, {number[name]: slot for name, slot in sources.items()}, wanted)
    program = _program(plan, factors, ("marginals", tuple(sources)), steps)
    if program is None:
        return None
    tables, make, inputs, mark = _tables(factors)
    cells = run_levels(program, [table.pair for table in tables], semiring)
    shares = normalized_slots(program, cells, beliefs)
    return [make(Scaled(share, 0.0), {name: inputs[name]}, mark) for name, share in zip(sources, shares, strict=True)]


def is_by_levels(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> bool:
    """Whether a sum is answered by scans."""
    is_asked = _is_asked_for(plan, factors, semiring)
    return is_asked and _program(plan, factors, "results", _forward(plan)) is not None


def _tables(factors: Sequence[Factor]) -> tuple[list[Any], Any, dict, Any]:
    tables: list[Any] = [promoted(factor) if isinstance(factor, Unit) else factor for factor in factors]
    return tables, type(tables[0])._of, merge_inputs(*[table.inputs for table in tables]), combined(tables)


def _scopes(plan: Plan, factors: Sequence[Factor]) -> list[tuple[int, ...]]:
    """The variables of the given tables, as numbers, in the order of their axes."""
    number = {name: k for k, name in enumerate(plan.sizes)}
    return [tuple([number[name] for name in factor.inputs]) for factor in factors]


def _forward(plan: Plan) -> list[TableStep]:
    number = {name: k for k, name in enumerate(plan.sizes)}
    return [
        TableStep(step.operands[0], (*step.operands, -1)[1], tuple(sorted([number[name] for name in step.keep])))
        for step in plan.steps
    ]


def _with_beliefs(
    plan: Plan, factors: Sequence[Factor], sources: dict[int, int], wanted: Sequence[bool]
) -> tuple[list[TableStep], list[int]]:
    """The steps forward, those that make the adjoints of wanted slots, and the slots of the beliefs.

    An adjoint is the product of the other operand and of the adjoint of what a step makes, summed to the slot's names.
    """
    steps, given = _forward(plan), len(factors)
    scopes = [*_scopes(plan, factors), *[step.scope for step in steps]]
    adjoints = [-1] * len(scopes)

    def contract(slots: Sequence[int], keep: Sequence[int]) -> int:
        first, second = (*slots, -1)[:2]
        names = set(scopes[first]).union(scopes[second] if second >= 0 else ())
        steps.append(TableStep(first, second, tuple(sorted(names.intersection(keep)))))
        scopes.append(steps[-1].scope)
        return len(scopes) - 1

    for position in reversed(range(len(plan.steps))):
        operands, above = plan.steps[position].operands, adjoints[given + position]
        for operand in operands:
            parts = [slot for slot in (*[other for other in operands if other != operand], above) if slot >= 0]
            if wanted[operand] and parts:
                adjoints[operand] = contract(parts, scopes[operand])
    beliefs = [
        contract([slot for slot in (source, adjoints[source]) if slot >= 0], (name,))
        for name, source in sources.items()
    ]
    return steps, beliefs


def _program(plan: Plan, factors: Sequence[Factor], question: Any, steps: list[TableStep]) -> LevelProgram | None:
    """The program of a question to the plan, which keeps it; tables of other axes have another one."""
    scopes = _scopes(plan, factors)
    programs = plan.__dict__.setdefault("_cached_levels", {})
    key = (question, tuple(scopes))
    if key not in programs:
        programs[key] = level_program(scopes, steps, list(plan.sizes.values()))
    if programs[key] is None and asked_engine() == "scan":
        raise _refused("tables whose sizes are far apart")
    return cast("LevelProgram | None", programs[key])


def _is_asked_for(plan: Plan, factors: Sequence[Factor], semiring: Semiring, batch: Sequence[Name] = ()) -> bool:
    asked = asked_engine()
    if asked not in (None, "scan") or (asked is None and len(plan.steps) < LEAST_STEPS):
        return False
    obstacle = _obstacle(plan, factors, semiring, batch)
    if obstacle and asked == "scan":
        raise _refused(obstacle)
    return not obstacle


def _obstacle(plan: Plan, factors: Sequence[Factor], semiring: Semiring, batch: Sequence[Name]) -> str:
    """What scans do not take, in words; nothing where they take all of it."""
    if semiring is not sum_product and semiring is not max_product:
        return f"the semiring {semiring}"
    if current() is not exact:
        return f"the interpretation {current()}"
    if batch or plan.slices:
        return "a plan with a batch or with slices"
    for factor in factors:
        if not (factor.lists_cells or (isinstance(factor, Unit) and all(d.is_finite for d in factor.inputs.values()))):
            return f"the factor {factor}, which is no table"
    if not plan.steps or any([step.kind != "contract" or len(step.operands) > 2 for step in plan.steps]):
        return "a plan without steps, or with steps that multiply out"
    return "" if engine_of(factors) != "numpy" else "numbers of NumPy"


def _refused(obstacle: str) -> EngineError:
    return EngineError(
        f"the engine 'scan' for {obstacle}",
        expected="tables of JAX under the exact interpretation, sums or maxima of their products, no plates",
        advice="leave the engine to the data: without fb.engine(…) the rules answer such a step",
    )
