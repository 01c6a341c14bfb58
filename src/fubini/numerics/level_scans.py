"""Steps over tables of JAX, level after level: few scans, whose number grows with the logarithm of the steps.

A step is z(o) = ⊕_s x(o, s) · y(o, s). All that depend on nothing but earlier levels are done at once, by the places of
their cells in one array; levels of about one size are the turns of one scan. A cell is w · exp(s + t), t the same for
all cells of a table, and w is 0 or 1 beside its derivatives: nothing underflows, however far apart weights are.

At a zero cell, exp(s + t) is the scale of its derivatives: the sum of its terms with the fewest zero weights, each of
them taken for 1. So the factors that a derivative meets are shares of sums, at most 1, but for one: that of a zero
term in a positive sum, which is clipped. Derivatives are finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, stop_gradient
from fubini.base.semirings import Semiring
from fubini.numerics.scaled import LOG_GREATEST, Scaled

ONE, NOUGHT = 0, 1  # the places of these numbers, before all tables
WASTE, ROOM = 16, 2**20  # products that are made in vain: so many times those that count, and besides


class TableStep(NamedTuple):
    """A step: two slots, the second −1 where there is one, and the variables of the result, in order."""

    first: int
    second: int
    scope: tuple[int, ...]


class LevelBlock(NamedTuple):
    """Steps with sums of about one length, those of each level in a row.

    Places of what is multiplied [level, cell, term], the table of each cell, and where its first cell is put.
    """

    first: np.ndarray
    second: np.ndarray
    tables: np.ndarray
    starts: np.ndarray


LevelScan = tuple[LevelBlock, ...]  # some levels, block after block


class LevelProgram(NamedTuple):
    """The scans of all steps, where each slot starts, and how many places there are."""

    scans: tuple[LevelScan, ...]
    given_tables: np.ndarray  # of each cell of the given tables, the number of its table
    starts: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    places: int

    def shape(self, slot: int) -> tuple[int, ...]:
        """The values of each variable of a slot."""
        return tuple([self.sizes[name] for name in self.scopes[slot]])

    def cells(self, slot: int) -> slice:
        """The places of a slot."""
        return slice(self.starts[slot], self.starts[slot] + math.prod(self.shape(slot)))


class Cells(NamedTuple):
    """w · exp(s + t) at every place, and the fewest zero weights that a term of it has."""

    weights: Data
    shifts: Data
    scales: Data
    zeros: Data


def level_program(
    scopes: Sequence[tuple[int, ...]], steps: Sequence[TableStep], sizes: Sequence[int]
) -> LevelProgram | None:
    """The scans for given tables and steps; None where sizes differ so much that most work would be in vain."""
    given = len(scopes)
    every = (*scopes, *[step.scope for step in steps])
    cells = [math.prod([sizes[name] for name in scope]) for scope in every]
    groups = _groups(every, steps, sizes, given)
    starts, end = [0] * len(every), NOUGHT + 1
    for slot in (*range(given), *[slot for level in groups for group in level.values() for slot in group]):
        starts[slot], end = end, end + cells[slot]
    widths = [sum([cells[slot] for group in level.values() for slot in group]) for level in groups]
    places = {slot: _places(every, steps[slot - given], starts, sizes) for slot in range(given, len(every))}
    scans = [_scan(groups[run.start : run.stop], places, starts, end) for run in _runs(widths)]
    work, padded = (sum([one.size for one in parts]) for parts in ([p for p, _ in places.values()], _firsts(scans)))
    if padded > WASTE * work + ROOM:
        return None
    tables = np.repeat(np.arange(given, dtype=np.int32), cells[:given])
    room = end + max([block.first.shape[1] for scan in scans for block in scan])
    return LevelProgram(tuple(scans), tables, tuple(starts), every, tuple(sizes), room)


def _firsts(scans: Sequence[LevelScan]) -> list[np.ndarray]:
    return [block.first for scan in scans for block in scan]


def _groups(
    scopes: Sequence[tuple[int, ...]], steps: Sequence[TableStep], sizes: Sequence[int], given: int
) -> list[dict[int, list[int]]]:
    """For each level of steps, the slots that they make, by the length of their sums: up to 4, up to 16, …"""
    levels = [0] * given
    groups: list[dict[int, list[int]]] = []
    for slot, step in enumerate(steps, given):
        both = set(scopes[step.first]).union(scopes[step.second] if step.second >= 0 else ())
        terms = math.prod([sizes[name] for name in both.difference(step.scope)])
        level = max(levels[step.first], levels[step.second] if step.second >= 0 else 0)
        levels.append(level + 1)
        if level == len(groups):
            groups.append({})
        groups[level].setdefault((terms - 1).bit_length() // 2, []).append(slot)
    return [dict(sorted(level.items())) for level in groups]


def _runs(widths: Sequence[int]) -> list[range]:
    """Levels that make one scan: whose greatest width, of all levels to come, has as many digits to base 16."""
    runs: list[range] = []
    most, digits = 0, -1
    for level in range(len(widths) - 1, -1, -1):
        most = max(most, widths[level])
        if runs and digits == most.bit_length() // 4:
            runs[-1] = range(level, runs[-1].stop)
        else:
            runs.append(range(level, level + 1))
        digits = most.bit_length() // 4
    return runs[::-1]


Places = tuple[np.ndarray, np.ndarray]


def _scan(
    levels: Sequence[dict[int, list[int]]], places: dict[int, Places], starts: Sequence[int], end: int
) -> LevelScan:
    """The blocks of some levels; a block without steps on a level writes before what is written next."""
    kinds = sorted({kind for level in levels for kind in level})
    blocks: list[LevelBlock] = []
    for kind in kinds:
        made = [level.get(kind, []) for level in levels]
        width = max([sum([len(places[slot][0]) for slot in slots]) for slots in made])
        shape = (len(levels), width, max([places[slot][0].shape[1] for slots in made for slot in slots]))
        first, second = np.full(shape, NOUGHT, np.int32), np.full(shape, NOUGHT, np.int32)
        tables, first_cells = np.full(shape[:2], width, np.int32), np.full(len(levels), end, np.int32)
        for turn, slots in enumerate(made):
            row = 0
            for number, slot in enumerate(slots):
                one, two = places[slot]
                count, terms = one.shape
                first[turn, row : row + count, :terms], second[turn, row : row + count, :terms] = one, two
                tables[turn, row : row + count] = number
                row += count
            if slots:
                first_cells[turn] = starts[slots[0]]
        blocks.append(LevelBlock(first, second, tables, first_cells))
    return tuple(blocks)


def _places(scopes: Sequence[tuple[int, ...]], step: TableStep, starts: Sequence[int], sizes: Sequence[int]) -> Places:
    """For each cell of a result and each term of its sum, the places of what is multiplied."""
    both = set(scopes[step.first]).union(scopes[step.second] if step.second >= 0 else ())
    gone = sorted(both.difference(step.scope))

    def of(slot: int) -> np.ndarray:
        if slot < 0:
            return np.full((1, 1), ONE)
        strides: dict[int, int] = {}
        stride = 1
        for name in reversed(scopes[slot]):
            strides[name], stride = stride, stride * sizes[name]
        rows, columns = (_offsets(names, strides, sizes) for names in (step.scope, gone))
        return starts[slot] + rows[:, None] + columns[None, :]

    one, two = np.broadcast_arrays(of(step.first), of(step.second))
    return one, two


def _offsets(names: Sequence[int], strides: dict[int, int], sizes: Sequence[int]) -> np.ndarray:
    offsets = np.zeros(1, np.int64)
    for name in names:
        offsets = (offsets[:, None] + strides.get(name, 0) * np.arange(sizes[name])).reshape(-1)
    return offsets


# -- on JAX ---------------------------------------------------------------------------------------------------------


def run_levels(program: LevelProgram, tables: Sequence[Scaled], semiring: Semiring) -> Cells:
    """All cells of all slots."""
    weights = [jnp.reshape(table.weights, -1) for table in tables]
    shifts = [jnp.reshape(jnp.broadcast_to(table.shift, table.weights.shape), -1) for table in tables]
    dtype = jnp.result_type(*weights)
    w, s = (jnp.concatenate(parts).astype(dtype) for parts in (weights, shifts))
    given = _rescaled(w, s, jnp.ones_like(w), jnp.ones_like(w), program.given_tables, len(tables))
    heads = jnp.asarray([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, jnp.inf]], dtype)  # of 1 and of nought
    rest = jnp.zeros(program.places - NOUGHT - 1 - w.shape[0], dtype)
    cells = Cells(*[jnp.concatenate([head, part, rest]) for head, part in zip(heads, given, strict=True)])
    limit = _log_greatest(program, dtype)

    def step(cells: Cells, block: LevelBlock) -> Cells:
        first, second = (Cells(*[part[places] for part in cells]) for places in (block.first, block.second))
        exponent = first.shifts + second.shifts
        zeros = first.zeros + second.zeros
        fewest = jnp.min(zeros, axis=1)
        is_fewest = zeros == fewest[:, None]
        top = jnp.max(jnp.where(is_fewest, stop_gradient(exponent), -jnp.inf), axis=1)
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        # A product of zero adds nothing, but its derivative is exp(exponent − top): keep that finite.
        sizes = jnp.exp(jnp.minimum(exponent - top[:, None], limit))
        scale = jnp.sum(jnp.where(is_fewest, stop_gradient(sizes), 0.0), axis=1)
        total = semiring.add(jnp, first.weights * second.weights * sizes, (1,))
        new = _rescaled(total, top, scale, fewest, block.tables, block.first.shape[0])
        made = new._replace(scales=new.scales + first.scales[:, 0] + second.scales[:, 0])
        pairs = zip(cells, made, strict=True)
        return Cells(*[jax.lax.dynamic_update_slice(every, few, (block.starts,)) for every, few in pairs])

    def turn(cells: Cells, level: LevelScan) -> tuple[Cells, None]:
        return reduce(step, level, cells), None

    for scan in program.scans:
        cells = lax_loops.scan(turn, cells, scan)[0]
    return cells


def _rescaled(weights: Data, shifts: Data, scale: Data, zeros: Data, tables: Data, count: int) -> Cells:
    """Weights 0 or 1 in value, zeros over their scale; of the shifts, the greatest of each table is taken out."""
    size = stop_gradient(weights)
    is_positive = size > 0
    size = jnp.where(is_positive, size, jnp.where(scale > 0, scale, 1.0))
    shifts = shifts + jnp.log(size)
    tops = jax.ops.segment_max(jnp.where(is_positive, stop_gradient(shifts), -jnp.inf), tables, count)
    top = jnp.where(jnp.isfinite(tops), tops, 0.0)[tables]
    return Cells(weights / size, shifts - top, top, jnp.where(is_positive, 0.0, jnp.maximum(zeros, 1.0)))


def _log_greatest(program: LevelProgram, dtype: Any) -> float:
    """The exponent where the derivative at a zero term stops: as many as there are terms add up to a finite number."""
    terms = sum([places.size for places in _firsts(program.scans)])
    return max(LOG_GREATEST[np.dtype(dtype).name] - math.log(terms), 0.0)


def normalized_slots(program: LevelProgram, cells: Cells, slots: Sequence[int]) -> list[Data]:
    """The weights of each slot over their sum; not a number where that is zero."""
    where = [program.cells(slot) for slot in slots]
    every: list[np.ndarray] = [np.arange(part.start, part.stop) for part in where]
    places, ends = np.concatenate(every), np.cumsum([0, *map(len, every)])
    owner = np.repeat(np.arange(len(slots)), np.diff(ends))
    limit = _log_greatest(program, cells.weights.dtype)
    weights = cells.weights[places] * jnp.exp(jnp.minimum(cells.shifts[places], limit))
    shares = weights / jax.ops.segment_sum(weights, owner, len(slots), indices_are_sorted=True)[owner]
    return [
        jnp.reshape(jax.lax.slice(shares, (start,), (end,)), program.shape(slot))
        for slot, start, end in zip(slots, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
