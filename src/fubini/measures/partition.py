"""Flat branches that overlap, as a partition: [t < 1] + [0 < t] is 1, 2 and 1 on three intervals."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from fubini.algebra.build import ZERO, const, get
from fubini.families.parameters import Support
from fubini.measures.branch import Branch, DrawStatement
from fubini.measures.finish import with_plain_leaves
from fubini.measures.flat import flat_distribution, is_base_measure, is_flat, uniform_distribution


class Flat(NamedTuple):
    """A constant density between two numbers."""

    low: float
    high: float
    density: float


def partitioned(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    """Flat branches that return what they draw, cut where any of them ends, and added; all others as they are."""
    flat = {place: piece for place, branch in enumerate(branches) if (piece := _flat(branch)) is not None}
    if not any(_overlap(a, b) for a, b in itertools.combinations(flat.values(), 2)):
        return branches
    first = branches[next(iter(flat))]
    cells = _joined(_cells(list(flat.values())))
    rest = tuple(branch for place, branch in enumerate(branches) if place not in flat)
    return (*rest, *(_branch(first, cell) for cell in cells))


def _flat(branch: Branch) -> Flat | None:
    if len(branch.draws) != 1 or branch.tests or branch.weight.kind != "const":
        return None
    (draw,) = branch.draws
    if draw.at or draw.leaf.is_integer or not is_flat(draw.distribution) or branch.value is not get(draw.leaf):
        return None
    low, high = draw.distribution.given.values()
    if low.kind != "const" or high.kind != "const":
        return None
    width = 1.0 if is_base_measure(draw.distribution) else high.args[0] - low.args[0]
    return Flat(low.args[0], high.args[0], math.exp(branch.weight.args[0]) / width)


def _overlap(a: Flat, b: Flat) -> bool:
    return max(a.low, b.low) < min(a.high, b.high)


def _cells(flat: list[Flat]) -> list[Flat]:
    ends = sorted({end for one in flat for end in (one.low, one.high)})
    cells = []
    for low, high in itertools.pairwise(ends):
        density = sum(one.density for one in flat if one.low <= low and high <= one.high)
        if density:
            cells.append(Flat(low, high, density))
    return cells


def _joined(cells: list[Flat]) -> list[Flat]:
    """Neighbours of the same density as one."""
    joined: list[Flat] = []
    for cell in cells:
        if joined and joined[-1].high == cell.low and joined[-1].density == cell.density:
            joined[-1] = joined[-1]._replace(high=cell.high)
        else:
            joined.append(cell)
    return joined


def _branch(like: Branch, cell: Flat) -> Branch:
    (draw,) = like.draws
    is_finite = math.isfinite(cell.low) and math.isfinite(cell.high)
    mass = cell.density * (cell.high - cell.low) if is_finite else cell.density
    low, high = const(cell.low), const(cell.high)
    distribution = uniform_distribution(low, high) if is_finite else flat_distribution(Support(low, high))
    weight = ZERO if mass == 1 else const(math.log(mass))
    return with_plain_leaves(Branch((DrawStatement(draw.leaf, (), distribution),), (), weight, like.value))
