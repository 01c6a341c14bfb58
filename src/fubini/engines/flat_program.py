"""A plan over tables as a flat program: loops on one array, laid out once, run at any numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fubini.engines.code_cache import load
from fubini.engines.reused_arrays import reused_arrays

LOG_2 = math.log(2.0)


class FlatSteps(NamedTuple):
    """Steps over tables whose variables are numbers; slots are the given tables, then one for each step."""

    sizes: np.ndarray  # of the variables
    scope_starts: np.ndarray  # of all slots
    scopes: np.ndarray
    operands: np.ndarray  # two slots for each step, the second −1 where there is one
    results: np.ndarray  # the slots that remain
    place: np.ndarray  # when each variable goes


class GivenTables(NamedTuple):
    """Tables in one array, which begins with the number 1."""

    cells: np.ndarray
    offsets: np.ndarray  # of the tables
    low: np.ndarray  # binary logarithms of the least and the greatest positive number of each
    high: np.ndarray


class FlatProgram:
    """Loops on one array for a list of steps: forward, and backward for the marginals that are wanted.

    `strides` are those of the variables of the given tables, in the order of their scopes; `end` is where the given
    tables end. `wanted` are variables, and with the number of these added given tables, whose variables' joint
    marginals are wanted; `kept` are variables that are never summed.
    """

    def __init__(
        self,
        steps: FlatSteps,
        strides: np.ndarray,
        end: int,
        *,
        wanted: Sequence[int] = (),
        kept: Sequence[int] = (),
        is_sum: bool = True,
    ) -> None:
        tables = len(steps.scope_starts) - 1 - len(steps.operands)
        starts = steps.scope_starts[: tables + 1]
        members = steps.scopes[: starts[-1]]
        stays = np.zeros(len(steps.sizes), np.bool_)
        stays[list(kept)] = True
        self.steps, self.tables, self.is_sum, self.stays = steps, tables, is_sum, stays
        self.wanted = np.array(wanted, np.int64)
        laid = load("flat_layout").lay_out(
            starts, members, strides, np.zeros(tables, np.int64), steps.sizes, steps.place, steps.operands,
            steps.scope_starts, steps.scopes, stays, self.wanted, end, is_sum,
        )  # fmt: skip
        self.code, (self.starts, self.members, self.strides, self.offsets, self.cells), self.ends, places = laid
        self.unit, self.forward, self.begin, self.finish, self.top = map(int, places)
        self.loops = load("flat_run")
        self.wanted_cells = np.array([self._cells_of(name) for name in self.wanted.tolist()], np.int64)

    def _cells_of(self, wanted: int) -> int:
        """The cells of a marginal, for each value of what is never summed."""
        sizes, scopes, starts = self.steps.sizes, self.steps.scopes, self.steps.scope_starts
        if wanted < len(sizes):
            return int(sizes[wanted])
        slot = wanted - len(sizes)
        own = scopes[starts[slot] : starts[slot + 1]]
        return math.prod(sizes[own[~self.stays[own]]].tolist())

    def names_of(self, slot: int) -> list[int]:
        """The variables of a slot of the program, outermost first."""
        return self.members[self.starts[slot] : self.starts[slot + 1]].tolist()

    def run(self, given: GivenTables, fill: Callable[[np.ndarray], None] | None = None) -> FlatRun | None:
        """The program at these numbers; None where they leave the range of double precision.

        `fill` writes the tables that are given behind those of `given`.
        """
        array = reused_arrays.take(self.top)
        count = len(self.offsets)
        offsets, low, high = self.offsets.copy(), np.zeros(count), np.zeros(count)
        offsets[: self.tables], low[: self.tables], high[: self.tables] = given.offsets, given.low, given.high
        array[: len(given.cells)] = given.cells
        if fill is not None:
            fill(array)
        shift = np.zeros(count, np.int64)
        stuck = self.loops.run(
            self.code, offsets, self.cells, low, high, shift, self.tables, array, 0, len(self.code[0]), self.is_sum
        )
        run = FlatRun(self, array, offsets, low, high, shift)
        if stuck >= 0:
            run.finish()
            return None
        return run


class FlatRun(NamedTuple):
    """A program that has been run, with its numbers; `finish` gives the array back."""

    program: FlatProgram
    array: np.ndarray
    offsets: np.ndarray
    low: np.ndarray
    high: np.ndarray
    shift: np.ndarray

    def finish(self) -> None:
        """Nothing more is read: the array serves the next run."""
        reused_arrays.give(self.array)

    def results(self) -> list[tuple[np.ndarray, list[int], float, float, float]]:
        """The tables that remain: numbers, variables, the logarithm of their scale, and the bounds of their own."""
        program = self.program
        found = []
        for slot in program.steps.results:
            names = program.members[program.starts[slot] : program.starts[slot + 1]].tolist()
            strides = program.strides[program.starts[slot] : program.starts[slot + 1]]
            shape = program.steps.sizes[names]
            flat = self.array[self.offsets[slot] : self.offsets[slot] + self._extent(shape, strides)]
            view = np.lib.stride_tricks.as_strided(flat, shape, strides * flat.itemsize)
            bounds = (self.low[slot] * LOG_2, self.high[slot] * LOG_2)
            found.append((view.copy(), names, float(self.shift[slot]) * LOG_2, *bounds))
        return found

    def _extent(self, shape: np.ndarray, strides: np.ndarray) -> int:
        return 1 + int(((shape - 1) * strides).sum()) if len(shape) else 1

    def marginals(self) -> np.ndarray | None:
        """The normalised marginals that are wanted, one after another; None where nothing has mass."""
        program = self.program
        if not program.loops.normalize(self.array, self.offsets, program.cells, program.wanted_cells, program.ends):
            return None
        return self.array[program.begin : program.finish].copy()

    def choose(self, gone: Sequence[Sequence[int]], uniforms: np.ndarray, draws: int) -> np.ndarray | None:
        """Values of the variables that each step eliminates, one row for each draw; None where nothing has mass."""
        program = self.program
        operands = np.where(program.steps.operands < 0, program.unit, program.steps.operands)
        starts = np.cumsum([0, *map(len, gone)])
        flat = np.array([name for names in gone for name in names], np.int64)
        chosen = np.zeros((draws, len(program.steps.sizes)), np.int64)
        where = (program.starts, program.members, program.strides, self.offsets, program.steps.sizes, self.array)
        return chosen if program.loops.choose(operands, starts, flat, *where, uniforms, chosen) else None


def plan_steps(
    starts: np.ndarray, members: np.ndarray, sizes: np.ndarray, is_summed: np.ndarray, *limits: float
) -> FlatSteps | None:
    """The steps of the planner, for tables over sorted variables; None where counts are too large."""
    count, operands, scope_starts, scopes, results, order = load("flat_plan").plan(
        starts, members, sizes, is_summed, *limits
    )
    if count < 0:
        return None
    place = np.full(len(sizes), len(order), np.int64)
    place[order] = np.arange(len(order))
    place[place == len(order)] += np.arange(len(sizes) - len(order))
    slots = len(starts) - 1 + count
    return FlatSteps(sizes, scope_starts[: slots + 1], scopes, operands[:count], results, place)
