"""Tables of which some variables are observed, one case at a time or many at once: programs by what is observed.

The tables lie in one array, once. Of a single case each table is the stretch that the observed values point at; nothing
is copied. Of many cases, the tables with observed variables have the case as one more variable, which is never summed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fubini.base.domains import Domain
from fubini.base.interpretations import current, exact
from fubini.eliminate.flat_plans import MOST_NAMES, flat_steps, steps_within
from fubini.eliminate.flat_tables import PASSES, STEP_TIME, given_tables, joint_shift
from fubini.eliminate.forward import find_plan
from fubini.eliminate.plates import Problem
from fubini.engines.choice import asked_engine, is_flat_worth_it
from fubini.engines.flat_program import FlatProgram, FlatRun, FlatSteps, GivenTables
from fubini.numerics.scaled import Scaled
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor

WIDTH = 64  # cases that one run takes at once
EVIDENCE, VARIABLES, TABLES = "evidence", "marginals of variables", "marginals of tables"


class _Scope(NamedTuple):
    """The variables of a table by number, sorted, with their strides."""

    names: tuple[int, ...]
    strides: tuple[int, ...]


class _Observed(NamedTuple):
    """The program of a question where some variables are observed, and where in the tables the observed ones stand."""

    program: FlatProgram
    tables: np.ndarray  # of each place where an observed variable stands: the table, the variable, its stride
    names: np.ndarray
    strides: np.ndarray


class ObservedTables:
    """Tables of NumPy over named variables, for questions that observe some of them."""

    def __init__(self, variables: Mapping[str, Domain], factors: Sequence[Any]) -> None:
        self.variables, self.factors = variables, tuple(factors)
        self.number = {name: k for k, name in enumerate(variables)}
        self.sizes = np.array([domain.size for domain in variables.values()], np.int64)
        self.all_names = list(variables)
        self.scopes = [self._scope(factor) for factor in factors]
        self.mark, self.make = combined(factors), type(factors[0])._of
        self._programs: dict[Any, Any] = {}

    def _scope(self, factor: Any) -> _Scope:
        number, size, pairs = self.number, 1, []
        for name, extent in zip(reversed(factor.inputs), reversed(factor.pair.weights.shape), strict=True):
            pairs.append((number[name], size))
            size *= extent
        pairs.sort()
        return _Scope(*zip(*pairs, strict=True)) if pairs else _Scope((), ())

    @cached_property
    def given(self) -> GivenTables:
        """The numbers of the tables."""
        return given_tables(self.factors)

    @cached_property
    def shift(self) -> float:
        """The logarithm of what was taken out of all tables together."""
        return joint_shift(self.factors)

    def _steps(self, observed: frozenset[int], limit: int | None) -> FlatSteps | None:
        """The plan for what is not observed, its variables numbered among these; None for one that is sliced."""
        hidden = [k for k in range(len(self.all_names)) if k not in observed]
        again = {k: place for place, k in enumerate(hidden)}
        scopes = [[again[k] for k in scope.names if k in again] for scope in self.scopes]
        if len(hidden) <= MOST_NAMES:
            steps = steps_within(scopes, self.sizes[hidden], np.ones(len(hidden), np.bool_), limit)
            if steps is not None:
                return steps
        names, sizes = [self.all_names[k] for k in hidden], self.sizes[hidden].tolist()
        named = tuple([tuple([names[k] for k in scope]) for scope in scopes])
        summed = tuple([(name, None) for name in names])
        plan = find_plan(Problem(named, tuple(zip(names, sizes, strict=True)), summed, limit=limit), True)
        return None if plan.slices else flat_steps(plan)

    def _program(self, observed: frozenset[int], wants_marginals: bool, limit: int | None) -> _Observed | None:
        key = (observed, wants_marginals, limit)
        if key not in self._programs:
            steps = self._steps(observed, limit)
            if steps is None:
                return None
            strides = [s for scope in self.scopes for k, s in zip(*scope, strict=True) if k not in observed]
            wanted = range(len(steps.sizes)) if wants_marginals else ()
            end = len(self.given.cells)
            program = FlatProgram(steps, np.array(strides, np.int64), end, wanted=wanted)
            self._programs[key] = _Observed(program, *self._places(observed))
        return self._programs[key]

    def _places(self, observed: frozenset[int]) -> Iterator[np.ndarray]:
        places = [
            (table, k, stride)
            for table, scope in enumerate(self.scopes)
            for k, stride in zip(*scope, strict=True)
            if k in observed
        ]
        return iter(np.array(places, np.int64).reshape(-1, 3).T.copy())

    def run(self, evidence: Mapping[str, int], wants_marginals: bool, limit: int | None) -> FlatRun | None:
        """The program at these values of the observed variables; None where weights leave the range."""
        number = self.number
        asked = self._program(frozenset([number[name] for name in evidence]), wants_marginals, limit)
        if asked is None:
            return None
        values = np.zeros(len(self.sizes), np.int64)
        for name, at in evidence.items():
            values[number[name]] = at
        offsets = self.given.offsets.copy()
        np.add.at(offsets, asked.tables, asked.strides * values[asked.names])
        return asked.program.run(self.given._replace(offsets=offsets))

    def marginals(self, evidence: Mapping[str, int], limit: int | None) -> dict[str, Factor] | None:
        """P(variable | evidence) of all variables that are not observed; None where the rules are to answer."""
        run = self.run(evidence, True, limit)
        found = run.marginals() if run is not None else None
        if run is None or found is None:
            return None
        run.finish()
        at, made, mark, make = 0, {}, self.mark, self.make
        for name, domain in self.variables.items():
            if name not in evidence:
                end = at + domain.size  # type: ignore[operator]
                made[name] = make(Scaled(found[at:end], 0.0), {name: domain}, mark)
                at = end
        return made

    def log_evidence(self, evidence: Mapping[str, int], limit: int | None) -> Factor | None:
        """P(evidence) as a factor without variables; None where the rules are to answer."""
        run = self.run(evidence, False, limit)
        if run is None:
            return None
        ((weights, _, scale, low, high),) = run.results()
        run.finish()
        return self.make(Scaled(weights, scale + self.shift, low, high), {}, self.mark)

    def with_numbers(self, factors: Sequence[Any]) -> ObservedTables:
        """Other numbers in tables of the same variables: the programs are the same."""
        new = ObservedTables(self.variables, factors)
        new._programs = self._programs
        return new

    # -- many cases ------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop all programs: the next question makes its own."""
        self._programs.clear()

    def is_sliced(self, names: Sequence[str], limit: int | None) -> bool:
        """Whether the plan for what is not observed has to be run for some values one by one: it does not fit."""
        return self._steps(frozenset([self.number[name] for name in names]), limit) is None

    def many(self, names: Sequence[str], cases: np.ndarray, limit: int | None) -> ManyCases:
        """The questions at rows of values of the observed names."""
        return ManyCases(self, tuple([self.number[name] for name in names]), np.asarray(cases, np.int64), limit)


class ManyCases:
    """Rows of values of the same observed variables."""

    def __init__(self, tables: ObservedTables, names: tuple[int, ...], cases: np.ndarray, limit: int | None) -> None:
        self.tables, self.names, self.cases, self.limit = tables, names, cases, limit
        self.width = min(WIDTH, max(1, len(cases)))

    def _program(self, question: str) -> tuple[FlatProgram, np.ndarray, Any] | None:
        """The program with the case as the last variable, where the tables lie, and what fills those with a case."""
        key = ("many", self.names, self.width, question, self.limit)
        programs = self.tables._programs
        if key not in programs:
            programs[key] = self._make_program(question)
        return programs[key]

    def _make_program(self, question: str) -> tuple[FlatProgram, np.ndarray, Any] | None:
        tables, observed = self.tables, frozenset(self.names)
        steps = tables._steps(observed, self.limit)
        if steps is None:
            return None
        batch, count = len(steps.sizes), len(tables.scopes)
        offsets, strides, end = tables.given.offsets.copy(), [], len(tables.given.cells)
        sources, shapes, jumps, targets, seen, seen_strides = [], [], [], [], [], []
        has_case = np.zeros(len(steps.scope_starts) - 1, np.bool_)
        for table, scope in enumerate(tables.scopes):
            own = [(k, stride) for k, stride in zip(*scope, strict=True) if k not in observed]
            if len(own) == len(scope.names):
                strides.extend(stride for _, stride in own)
                continue
            has_case[table] = True
            shape = [int(tables.sizes[k]) for k, _ in own]
            sources.append(int(offsets[table]))
            shapes.append(shape)
            jumps.append([stride for _, stride in own])
            seen.append([self.names.index(k) for k in scope.names if k in observed])
            seen_strides.append([stride for k, stride in zip(*scope, strict=True) if k in observed])
            targets.append(end)
            offsets[table] = end
            size = self.width
            dense = []
            for extent in reversed(shape):
                dense.append(size)
                size *= extent
            strides.extend([*reversed(dense), 1])
            end += size
        for step, (a, b) in enumerate(steps.operands.tolist()):
            has_case[count + step] = has_case[a] or (b >= 0 and has_case[b])
        wanted = {EVIDENCE: range(0), VARIABLES: range(batch), TABLES: range(batch + 1, batch + 1 + count)}[question]
        program = FlatProgram(
            _with_case(steps, has_case, self.width), np.array(strides, np.int64), end, wanted=wanted, kept=(batch,)
        )
        lists = (shapes, jumps), (seen, seen_strides)
        (starts, (flat_shape, flat_jumps)), (seen_starts, (flat_seen, flat_seen_strides)) = map(_flattened, lists)
        source, target = np.array(sources, np.int64), np.array(targets, np.int64)

        def fill(array: np.ndarray, positions: np.ndarray) -> None:
            where = (source, starts, flat_shape, flat_jumps, target, self.width, positions)
            program.loops.gather(array, *where, seen_starts, flat_seen, flat_seen_strides)

        return program, offsets, fill

    def _runs(self, question: str) -> Iterator[tuple[slice, FlatRun | None]]:
        """The program at one stretch of cases after another; the last is filled up with its first case."""
        made = self._program(question)
        if made is None:
            yield slice(0, 0), None
            return
        program, offsets, fill = made
        given = self.tables.given._replace(offsets=offsets)

        def run(start: int) -> tuple[slice, FlatRun | None]:
            part = self.cases[start : start + self.width]
            positions = np.empty((len(self.names), self.width), np.int64)
            positions[:, : len(part)] = part.T
            positions[:, len(part) :] = part[:1].T
            return slice(start, start + len(part)), program.run(given, lambda array: fill(array, positions))

        starts = range(0, len(self.cases), self.width)
        threads = min(len(starts), os.cpu_count() or 1)
        if threads < 2:
            yield from map(run, starts)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(run, starts)

    def log_evidence(self) -> np.ndarray | None:
        """log P(evidence) of each case; None where no single scale keeps the weights of all cases within range."""
        logs = np.empty(len(self.cases))
        for part, run in self._runs(EVIDENCE):
            if run is None:
                return None
            ((weights, _, scale, *_),) = run.results()
            run.finish()
            logs[part] = self._logs(weights, scale)[: part.stop - part.start]
        return logs

    def _logs(self, weights: np.ndarray, scale: float) -> np.ndarray:
        """The logarithms of the evidence of the cases of a run."""
        with np.errstate(divide="ignore"):
            return np.log(np.broadcast_to(weights, self.width)) + scale + self.tables.shift

    def expected_counts(self, weights: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]] | None:
        """log P(evidence) of each case, and for each table the sum over cases of P(its variables | evidence) · weight.

        The axes of each are those of the table. None where weights leave the range, or a case has no mass.
        """
        logs, totals = np.empty(len(self.cases)), np.zeros(0)
        program = None
        for part, run in self._runs(TABLES):
            if run is None:
                return None
            ((evidence, _, scale, *_),) = run.results()
            rows, program = run.marginals(), run.program
            run.finish()
            if rows is None:
                return None
            own = np.zeros(self.width)
            own[: part.stop - part.start] = weights[part]
            logs[part] = self._logs(evidence, scale)[: part.stop - part.start]
            counts = _weighted(rows, program, own)
            totals = counts if not len(totals) else totals + counts
        assert program is not None, "there is a case"
        return logs, self._tables_of(totals, program)

    def _tables_of(self, totals: np.ndarray, program: FlatProgram) -> list[np.ndarray]:
        """The cells of all tables, one after another, each with the axes that its factor has."""
        tables, observed = self.tables, frozenset(self.names)
        hidden = [k for k in range(len(tables.all_names)) if k not in observed]
        made, at = [], 0
        for factor, slot, cells in zip(tables.factors, program.ends, program.wanted_cells.tolist(), strict=True):
            names = [hidden[k] for k in program.names_of(slot) if k < len(hidden)]
            table = totals[at : at + cells].reshape([int(tables.sizes[k]) for k in names])
            order = [tables.number[name] for name in factor.inputs if tables.number[name] not in observed]
            made.append(table.transpose([names.index(k) for k in order]))
            at += cells
        return made

    def marginals(self) -> dict[str, np.ndarray] | None:
        """P(variable | evidence) [case, value] of all variables not observed; None as above, or for no mass."""
        tables, observed = self.tables, frozenset(self.names)
        hidden = [k for k in range(len(tables.all_names)) if k not in observed]
        sizes = tables.sizes[hidden]
        found = np.empty((int(sizes.sum()), len(self.cases)))
        for part, run in self._runs(VARIABLES):
            rows = run.marginals() if run is not None else None
            if run is None or rows is None:
                return None
            run.finish()
            if run.program.finish - run.program.begin == len(found):  # no table has a case
                found[:, part] = rows[:, None]
            else:
                at, from_ = 0, 0
                for end, size in zip(run.program.ends.tolist(), sizes.tolist(), strict=True):
                    cells = int(run.program.cells[end])
                    own = rows[from_ : from_ + cells].reshape(size, -1)  # of one column where no case matters
                    found[at : at + size, part] = own[:, : part.stop - part.start]
                    at, from_ = at + size, from_ + cells
        ends = np.cumsum(sizes)[:-1]
        parts = np.split(found, ends) if len(hidden) else []
        return {tables.all_names[k]: np.ascontiguousarray(part.T) for k, part in zip(hidden, parts, strict=True)}


def _weighted(rows: np.ndarray, program: FlatProgram, weights: np.ndarray) -> np.ndarray:
    """Marginals of cases, each times its weight, added up: one after another."""
    cells = program.wanted_cells
    if len(rows) == int(cells.sum()) * len(weights):
        return rows.reshape(-1, len(weights)) @ weights
    parts, at = [], 0
    for size, end in zip(cells.tolist(), program.ends.tolist(), strict=True):
        length = int(program.cells[end])
        own = rows[at : at + length].reshape(size, -1)  # of one column where no case matters
        parts.append(own @ weights if own.shape[1] == len(weights) else own[:, 0] * weights.sum())
        at += length
    return np.concatenate(parts)


def _with_case(steps: FlatSteps, has_case: np.ndarray, width: int) -> FlatSteps:
    """The steps with one more variable, the case, in the slots that depend on it."""
    batch = len(steps.sizes)
    lengths = np.diff(steps.scope_starts) + has_case
    starts = np.concatenate([[0], np.cumsum(lengths)])
    scopes = np.full(starts[-1], batch, np.int64)
    for slot, (begin, end) in enumerate(zip(steps.scope_starts[:-1], steps.scope_starts[1:], strict=True)):
        scopes[starts[slot] : starts[slot] + end - begin] = steps.scopes[begin:end]
    return steps._replace(
        sizes=np.append(steps.sizes, width), scope_starts=starts, scopes=scopes, place=np.append(steps.place, batch)
    )


def _flattened(lists: tuple[list[list[int]], ...]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Lists of the same lengths, one after another, and where each begins."""
    starts = np.cumsum([0, *map(len, lists[0])])
    return starts, [np.array([number for one in each for number in one], np.int64) for each in lists]


def observed_tables(variables: Mapping[str, Domain], factors: Sequence[Factor]) -> ObservedTables | None:
    """The factors as tables in one array; None where one of them is no table of NumPy within the range."""
    for factor in factors:
        finite = all([domain.is_finite for domain in factor.inputs.values()])
        if not (finite and factor.lists_cells and all([isinstance(n, (np.ndarray, float)) for n in factor.leaves()])):
            return None
        if not factor.pair.is_linear or factor.pair.weights.dtype != np.float64:  # type: ignore[attr-defined]
            return None
    if not factors or not all([domain.is_finite for domain in variables.values()]):
        return None
    named = {str(name) for factor in factors for name in factor.inputs}
    return ObservedTables(variables, factors) if named >= set(variables) else None


def are_loops_to_answer(tables: int) -> bool:
    """Whether compiled loops answer a question to so many tables: as asked by name, or as is worth while."""
    if asked_engine() == "rules" or current() is not exact:
        return False
    return asked_engine() == "flat" or is_flat_worth_it(STEP_TIME * PASSES * tables)
