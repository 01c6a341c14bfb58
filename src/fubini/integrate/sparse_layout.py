"""When coupled unknowns are solved for by sparse factors: many of them, of which few stand in each row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.algebra.node import Leaf
from fubini.integrate.coupling import CoupledSquare, LatentLayout
from fubini.numerics.least_squares import DENSE, Unknowns

WORK = 1e7  # operations by dense matrices, below which these are kept: they never square a condition number
ENTRIES = 64  # unknowns in a row, at most
FULL = 1 / 16  # of a dense precision: a sparse one has less


def sparse_layout(
    layout: LatentLayout, squares: Sequence[CoupledSquare], latents: Sequence[Leaf]
) -> LatentLayout | None:
    """All entries of the latents end to end, where their precision is sparse and a dense one is much work."""
    size, cell = layout.size, layout.frame.cell
    is_split = layout.frame.length is not None or bool(layout.independent)
    if float(size) * cell**2 < WORK or cell == 1 or (is_split and size <= DENSE):  # which a traced program makes dense
        return None
    if any(map(has_more_indices, squares)):
        return None
    widths = [sum(math.prod(i.size for i in slope.over) for _, slope in square.slopes) for square in squares]
    counts = [math.prod(i.size for i in square.over) for square in squares]
    pairs = sum(count * width**2 for count, width in zip(counts, widths, strict=True))
    if size > DENSE:  # there are no dense matrices to fall back on
        if pairs > 4 * float(size) ** 2:
            return None
    elif max(widths) > ENTRIES or pairs > FULL * float(size) ** 2:
        return None
    first, start = {}, 0
    for latent in latents:
        first[latent] = start
        start += math.prod(latent.shape)
    return LatentLayout((), Unknowns(None, start, is_sparse=True), (), first, flipped=False)


def has_more_indices(square: CoupledSquare) -> bool:
    """Whether it has indices that it is not summed over: it is then one problem for each of their values."""
    own = set(square.over)
    inner = [(slope.coefficient, *slope.place) for _, slope in square.slopes]
    free = square.weight.free | square.offset.free
    for (_, slope), parts in zip(square.slopes, inner, strict=True):
        free = free.union(*(part.free - set(slope.over) for part in parts))
    return bool(free - own)
