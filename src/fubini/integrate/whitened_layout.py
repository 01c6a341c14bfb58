"""One normal vector whose covariance K is computed from other latents, seen through its entries.

w |A (x − m)|² + Σ_r v_r (s_r x[c_r] − y_r)²,  AᵀA = K⁻¹,

by the covariance of the data: one factor of K and one of I + √v s K s √v / w, instead of A and its orthogonal steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.build import divide, get, index, multiply, plus, power, scale, times
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.families.functions import log, log_rate
from fubini.integrate.coupling import CoupledSquare, LatentLayout, is_inside
from fubini.integrate.elimination import is_never_zero
from fubini.integrate.kronecker_layout import matrix_rows
from fubini.integrate.shared_root import VectorSquare, vector_square
from fubini.numerics.least_squares import Unknowns

FEW = 8  # unknowns, below which orthogonal steps take no longer
MORE = 2  # rows of data for each unknown, at most


class WhitenedBlock(NamedTuple):
    """The layout of the latent, the rows of its covariance and mean, the squares of the data, and log |w AᵀA|."""

    layout: LatentLayout
    prior: tuple[Node, ...]
    data: tuple[CoupledSquare, ...]
    log_determinant: Node


def whitened_block(
    squares: Sequence[CoupledSquare], latents: Sequence[Leaf], common: Mapping[Node, float]
) -> WhitenedBlock | None:
    """The squares of one latent as such a problem, their weights divided by a common one; None where they are not."""
    if len(latents) != 1 or len(latents[0].shape) != 1 or latents[0].shape[0] < FEW:
        return None
    (latent,) = latents
    roots = [(square, root) for square in squares if (root := _root(square)) is not None]
    if len(roots) != 1:
        return None
    ((prior, root),) = roots
    data = tuple(square for square in squares if square is not prior)
    vector = vector_square(prior, root, latent)
    count = sum(math.prod(i.size for i in square.over) for square in data)
    if vector is None or vector.over or not is_never_zero(vector.slope) or not 0 < count <= MORE * latent.shape[0]:
        return None
    if not all(_is_of_one_entry(square, latent) for square in data):
        return None
    return _block(vector, root, latent, data, common)


def _root(square: CoupledSquare) -> Leaf | None:
    """A of squares of A x, where the covariance of x is an array of its own that other latents decide."""
    roots = {leaf for _, slope in square.slopes for leaf in slope.coefficient.leaves if leaf.root_of is not None}
    if len(roots) != 1:
        return None
    (root,) = roots
    assert root.root_of is not None
    covariance, exponent = root.root_of
    return root if exponent == -1 and covariance.role == "opaque" and len(root.shape) == 2 else None


def _is_of_one_entry(square: CoupledSquare, latent: Leaf) -> bool:
    """One entry of the latent in each row, and no indices but those of its sum."""
    if len(square.slopes) != 1 or square.slopes[0][1].over:
        return False
    ((_, slope),) = square.slopes
    (place,) = slope.place
    free = square.weight.free | square.offset.free | slope.coefficient.free | place.free
    return free <= set(square.over) and is_inside(place, latent.shape[0], square.weight)


def _block(
    vector: VectorSquare, root: Leaf, latent: Leaf, data: tuple[CoupledSquare, ...], common: Mapping[Node, float]
) -> WhitenedBlock:
    assert root.root_of is not None
    n = latent.shape[0]
    i, j = Index(n, "i"), Index(n, "j")
    weight = times(vector.weight, power(vector.slope, 2.0))
    own = multiply([(weight, 1.0), *((base, -exponent) for base, exponent in common.items())])
    covariance = matrix_rows((i, j), divide(get(root.root_of[0], index(i), index(j)), own))
    mean = matrix_rows((vector.column,), divide(vector.offset, vector.slope))
    diagonal = total([i], log(get(root, index(i), index(i))))
    layout = LatentLayout((), Unknowns(None, n, is_whitened=True), (), {latent: 0}, flipped=False)
    log_determinant = plus(scale(float(n), log_rate(weight)), scale(2.0, diagonal))
    return WhitenedBlock(layout, (covariance, mean), data, log_determinant)
