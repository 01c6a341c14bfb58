"""Questions to a plan over tables by compiled loops, where all its factors are dense tables of NumPy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from fubini.base.domains import Domain, merge_inputs
from fubini.base.interpretations import current, exact
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.eliminate.engine import engine_of
from fubini.eliminate.flat_plans import flat_steps
from fubini.eliminate.plan import Plan
from fubini.engines.choice import asked_engine, is_flat_worth_it
from fubini.engines.flat_program import LOG_2, FlatProgram, FlatRun, GivenTables
from fubini.errors import EngineError
from fubini.factors.promotion import promoted
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import Scaled
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor, Unit
from fubini.terms.value import Array

STEP_TIME = 40e-6  # seconds of a step by its rule
LEAST_STEPS = 4  # of a plan that is run once; fewer are as quick by their rules
PASSES = 3  # over all steps, for the marginals


class FlatTables:
    """Tables one after another in one array, and the programs of a plan over them."""

    def __init__(self, plan: Plan, tables: Sequence[Any]) -> None:
        self.plan, self.tables = plan, tables
        self.make = type(tables[0])._of

    def program(self, question: Hashable, **options: Any) -> FlatProgram:
        """The program of a question to the plan, which keeps it; tables of other axes have another one."""
        names = tuple([table.names for table in self.tables])
        programs = self.plan.__dict__.setdefault("_cached_programs", {})
        if (question, names) not in programs:
            programs[question, names] = self._make_program(**options)
        return programs[question, names]

    def _make_program(self, **options: Any) -> FlatProgram:
        steps, number = flat_steps(self.plan), self.number
        strides: list[int] = []
        for table in self.tables:
            shape = table.pair.weights.shape
            own = dict(zip(table.names, [math.prod(shape[axis + 1 :]) for axis in range(len(shape))], strict=True))
            strides.extend(own[name] for name in sorted(own, key=number.__getitem__))
        end = 1 + sum(table.pair.weights.size for table in self.tables)
        return FlatProgram(steps, np.array(strides, np.int64), end, **options)

    @property
    def number(self) -> dict[Name, int]:
        """The number of each variable."""
        found = self.plan.__dict__.get("_cached_numbers")
        if found is None:
            found = self.plan.__dict__["_cached_numbers"] = {name: k for k, name in enumerate(self.plan.sizes)}
        return found

    def forward(self, semiring: Semiring) -> FlatRun | None:
        """The plan run forward; None where weights leave the range."""
        is_sum = semiring is sum_product
        return self.program(("forward", is_sum), is_sum=is_sum).run(given_tables(self.tables))

    def results(self, semiring: Semiring) -> list[Factor] | None:
        """The factors that remain."""
        run = self.forward(semiring)
        if run is None:
            return None
        found = run.results()
        run.finish()
        inputs = merge_inputs(*(table.inputs for table in self.tables))
        names, shift = list(self.plan.sizes), joint_shift(self.tables)
        mark, dtype = combined(self.tables), self._dtype
        made = []
        for weights, numbers, scale, low, high in found:
            pair = Scaled(weights.astype(dtype, copy=False), scale + shift, low, high)
            made.append(self.make(pair, {names[k]: inputs[names[k]] for k in numbers}, mark))
            shift = 0.0
        return made

    @property
    def _dtype(self) -> np.dtype:
        return np.result_type(*[table.pair.weights.dtype for table in self.tables])

    def marginals(self, names: tuple[Name, ...], batch: tuple[Name, ...]) -> list[Factor] | None:
        """The normalised marginal of each name; None where weights leave the range, or there is no mass."""
        number = self.number
        wanted, kept = [number[name] for name in names], [number[name] for name in batch]
        program = self.program(("marginals", names, batch), wanted=wanted, kept=kept)
        run = program.run(given_tables(self.tables))
        found = run.marginals() if run is not None else None
        if run is not None:
            run.finish()
        if found is None:
            return None
        inputs, mark = merge_inputs(*(table.inputs for table in self.tables)), combined(self.tables)
        found = found.astype(self._dtype, copy=False)
        all_names, at, made = list(self.plan.sizes), 0, []
        for name, slot in zip(names, program.ends.tolist(), strict=True):
            if not batch:
                own: dict[Name, Domain] = {name: inputs[name]}
                size = program.steps.sizes[number[name]]
                weights = found[at : at + size]
            else:
                scope = program.members[program.starts[slot] : program.starts[slot + 1]].tolist()
                own = {all_names[k]: inputs[all_names[k]] for k in scope}
                size = int(program.cells[slot])
                weights = found[at : at + size].reshape([program.steps.sizes[k] for k in scope])
            at += size
            made.append(self.make(Scaled(weights, 0.0), own, mark))
        return made

    def choose(self, semiring: Semiring, randomness: Randomness | None, draws: int) -> dict[Name, np.ndarray] | None:
        """One value for every eliminated variable and each draw; None where weights leave the range, or no mass."""
        run, number = self.forward(semiring), self.number
        if run is None:
            return None
        gone = [[number[name] for name in step.eliminated] for step in self.plan.steps]
        count = sum(map(bool, gone))
        uniforms = np.empty((0, 0))
        if randomness is not None:
            uniforms = np.stack([randomness.uniform((draws,)) for _ in range(count)]) if count else np.empty((0, draws))
        chosen = run.choose(gone, uniforms, draws)
        totals = [weights for weights, *_ in run.results()]
        run.finish()
        if chosen is None or not all(weights.any() for weights in totals):
            return None
        return {name: chosen[:, number[name]] for name in self.plan.eliminated}


def given_tables(tables: Sequence[Any]) -> GivenTables:
    """The numbers of tables, one after another in one array."""
    pairs = [table.pair for table in tables]
    ends = np.cumsum([1, *[pair.weights.size for pair in pairs]])
    cells = np.empty(ends[-1])
    cells[0] = 1.0
    for start, pair in zip(ends.tolist(), pairs, strict=False):
        weights = pair.weights
        cells[start : start + weights.size] = weights.reshape(-1)
    bounds = np.array([(pair.low, pair.high) for pair in pairs]).reshape(-1, 2).T / LOG_2
    return GivenTables(cells, ends[:-1], *bounds)


def joint_shift(tables: Sequence[Any]) -> float:
    """The logarithm of what was taken out of all tables together."""
    return math.fsum([table.pair.shift for table in tables])


def flat_tables(plan: Plan, factors: Sequence[Factor], semiring: Semiring, passes: int = 1) -> FlatTables | None:
    """The tables of a question that compiled loops are to answer; None where the rules answer it."""
    asked = asked_engine()
    if asked == "rules":
        return None
    obstacle = _obstacle(plan, factors, semiring)
    if obstacle:
        if asked == "flat":
            raise EngineError(
                f"the engine 'flat' for {obstacle}",
                expected="tables of NumPy under the exact interpretation, sums or maxima of their products, no plates",
                advice="leave the engine to the data: without fb.engine(…) the rules answer such a step",
            )
        return None
    is_short = _is_short(plan, passes)
    if asked != "flat" and (is_short or not is_flat_worth_it(STEP_TIME * passes * len(plan.steps))):
        return None
    tables: list[Any] = [promoted(factor) if isinstance(factor, Unit) else factor for factor in factors]
    return FlatTables(plan, tables) if all([table.pair.is_linear for table in tables]) else None


def _is_short(plan: Plan, passes: int) -> bool:
    """Whether the rules are as quick."""
    return passes == 1 and len(plan.steps) < LEAST_STEPS


def engine_name(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> str:
    """The engine that answers a question to a plan: numpy, xla, trace, or loops, where these are loaded."""
    engine = engine_of(factors)
    by_rules = engine != "numpy" or asked_engine() == "rules" or _obstacle(plan, factors, semiring)
    return engine if by_rules or _is_short(plan, 1) else "loops"


def _obstacle(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> str:
    """What compiled loops do not take, in words; nothing where they take all of it."""
    if semiring is not sum_product and semiring is not max_product:
        return f"the semiring {semiring}"
    if current() is not exact:
        return f"the interpretation {current()}"
    for factor in factors:
        if not (factor.lists_cells or isinstance(factor, Unit)) or not all(
            [d.is_finite for d in factor.inputs.values()]
        ):
            return f"the factor {factor}, which is no table"
        if any([not isinstance(leaf, (np.ndarray, np.generic, float)) for leaf in factor.leaves()]):
            return f"the factor {factor}, whose numbers are not NumPy's"
    if plan.slices:
        return f"a plan that is run for each value of {', '.join(map(str, plan.slices))}"
    for step in plan.steps:
        if step.kind != "contract" or len(step.operands) > 2:
            names = ", ".join(map(str, step.eliminated))
            return f"the step that {'multiplies out' if step.kind == 'multiply out' else step.kind + 's'} {names}"
    return ""


def eliminate_tables(plan: Plan, factors: Sequence[Factor], semiring: Semiring) -> list[Factor] | None:
    """The results of a plan by compiled loops; None where the rules are to answer."""
    tables = flat_tables(plan, factors, semiring)
    return tables.results(semiring) if tables is not None else None


def table_marginals(
    plan: Plan, factors: Sequence[Factor], semiring: Semiring, names: tuple[Name, ...], batch: tuple[Name, ...]
) -> list[Factor] | None:
    """The marginals of names by compiled loops; None where the rules are to answer."""
    tables = flat_tables(plan, factors, semiring, PASSES) if semiring is sum_product else None
    return tables.marginals(names, batch) if tables is not None else None


def choose_from_tables(
    plan: Plan, factors: Sequence[Factor], semiring: Semiring, randomness: Randomness | None = None
) -> dict[Name, Array] | None:
    """The best value of every variable, or draws of it, by compiled loops; None where the rules are to answer."""
    summed = set(plan.eliminated)
    if any(name not in summed for factor in factors for name in factor.inputs):
        return None
    tables = flat_tables(plan, factors, semiring, 2)
    draws = 1 if randomness is None else randomness.domain.extent
    chosen = tables.choose(semiring, randomness, draws) if tables is not None else None
    if chosen is None:
        return None
    domains = merge_inputs(*(factor.inputs for factor in factors))
    if randomness is None:
        return {name: Array._of(at[0], (), {}, domains[name]) for name, at in chosen.items()}
    axis = {SAMPLES: randomness.domain}
    return {name: Array._of(at, (SAMPLES,), axis, domains[name]) for name, at in chosen.items()}
