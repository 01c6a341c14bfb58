"""Mass, mean and covariance in each box of Gaussian parts: boxes of one or two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_jax, namespace
from fubini.base.domains import Bint, Domain, merge_inputs
from fubini.base.names import Bound, Name
from fubini.errors import Intractable, listed
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.table import Table
from fubini.factors.table_rules import multiply_tables
from fubini.numerics.box_moments import box_moments
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import places
from fubini.terms.value import Array

MOST_AXES = 2


class Cut(NamedTuple):
    """An axis that is cut: element number `element` of a real variable; `interval` says between which edges it lies.

    `at_middle` says that constant parts are weights of points in the middle of the intervals, a rule of quadrature: so
    are their moments and draws. Otherwise they are those of a density that is constant in each interval.
    """

    name: Name
    element: int
    interval: Bound
    at_middle: bool = False


def indices_of(cuts: Sequence[Cut], edges: Sequence[Array]) -> dict[Name, Domain]:
    """The hidden indices, which say in which box a point is."""
    return {cut.interval: Bint[edge.output.shape[0] + 1] for cut, edge in zip(cuts, edges, strict=True)}


class PieceMoments(NamedTuple):
    """The mass of each box, over the hidden indices and the batch, and moments [..., n] of all real elements there."""

    mass: Table
    mean: Data
    covariance: Data
    names: tuple[Name, ...]


def piece_moments(parts: Gaussian, cuts: Sequence[Cut], edges: Sequence[Array]) -> PieceMoments:
    """Moments of the real variables of `parts` in each box: those that are cut, and by regression the others.

    E[z | box] = μ + G (E[c | box] − μ_c),  Cov[z | box] = Σ − G Σ_cz + G Cov[c | box] Gᵀ,  G = Σ_zc Σ_cc⁻¹
    """
    position = {name: place.start for name, place in places(parts.reals).items()}
    _require_few(parts, cuts)
    own = [position[cut.name] + cut.element for cut in cuts]
    conditional = parts.conditional(*dict(parts.reals))
    mass = parts.reduced(frozenset(dict(parts.reals)))
    inputs = merge_inputs(
        {name: parts.inputs[name] for name in dict.fromkeys((*conditional.mean_names, *conditional.names))},
        indices_of(cuts, edges),
        *(edge.inputs for edge in edges),
    )
    names = tuple(inputs)
    shape = tuple(domain.extent for domain in inputs.values())
    xp = namespace(conditional.mean, conditional.half)
    n = conditional.mean.shape[-1]
    mean = xp.broadcast_to(align(conditional.mean, conditional.mean_names, names, 1), (*shape, n))
    covariance = xp.broadcast_to(align(conditional.covariance, conditional.names, names, 2), (*shape, n, n))
    dtype = namespace(mean, *(edge.array for edge in edges)).result_type(mean, *(edge.array for edge in edges))
    low, high = _sides(cuts, edges, names, shape, dtype)
    mean_c, cov_c = mean[..., own], covariance[..., own, :][..., :, own]
    box = box_moments(low, high, mean_c, cov_c)
    gain = _inverse(xp, cov_c) @ covariance[..., own, :]  # [..., c, z]: its transpose is G
    turned = xp.swapaxes(gain, -1, -2)
    moved = mean + (turned @ (box.mean - mean_c)[..., None])[..., 0]
    spread = covariance + turned @ (box.covariance - cov_c) @ gain
    assert isinstance(mass, Table), "a Gaussian without its real variables is a table"
    return PieceMoments(shifted(mass, box.log_mass, names, inputs), moved, spread, names)


def uniform_moments(
    parts: Table, cuts: Sequence[Cut], edges: Sequence[Array], reals: Sequence[tuple[Name, Domain]]
) -> PieceMoments:
    """Moments of parts that are constant in each box: all its elements are cut, and unbounded boxes are empty."""
    position = {name: place.start for name, place in places(tuple(reals)).items()}
    order = sorted(range(len(cuts)), key=lambda k: position[cuts[k].name] + cuts[k].element)
    inputs = merge_inputs(indices_of(cuts, edges), *(edge.inputs for edge in edges))
    names, shape = tuple(inputs), tuple(domain.extent for domain in inputs.values())
    low, high = _sides([cuts[k] for k in order], [edges[k] for k in order], names, shape, edges[0].array.dtype)
    xp = namespace(low, high)
    bounded = xp.isfinite(low) & xp.isfinite(high)
    low, high = xp.where(bounded, low, 0.0), xp.where(bounded, high, 0.0)
    width = high - low
    volume = Table(xp.where(xp.all(bounded, axis=-1), xp.prod(width, axis=-1), 0.0), inputs)
    between = np.diag([0.0 if cuts[k].at_middle else 1.0 / 12.0 for k in order])
    spread = width[..., :, None] * width[..., None, :] * between
    return PieceMoments(multiply_tables(parts, volume), 0.5 * (low + high), spread, names)


def _inverse(xp: Any, matrix: Data) -> Data:
    """The inverse of a positive definite matrix of one or two rows."""
    if matrix.shape[-1] == 1:
        return 1.0 / matrix
    a, b, c = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 1]
    rows = xp.stack([xp.stack([c, -b], -1), xp.stack([-b, a], -1)], -2)
    return rows / (a * c - b * b)[..., None, None]


def _sides(
    cuts: Sequence[Cut], edges: Sequence[Array], names: tuple[Name, ...], shape: tuple[int, ...], dtype: Any
) -> tuple[Data, Data]:
    """The lower and upper ends of every box, along the axes that are cut."""
    lows, highs = [], []
    for cut, edge in zip(cuts, edges, strict=True):
        xp = namespace(edge.array)
        end = xp.full((*edge.array.shape[:-1], 1), np.inf, edge.array.dtype)
        for sides, parts in ((lows, [-end, edge.array]), (highs, [edge.array, end])):
            data = align(xp.concatenate(parts, axis=-1), (*edge.names, cut.interval), names)
            data = data if is_jax(data) else data.astype(dtype)  # NumPy's numbers do not widen others
            sides.append(xp.broadcast_to(data, shape))
    xp = namespace(*lows)
    return xp.stack(lows, axis=-1), xp.stack(highs, axis=-1)


def _require_few(parts: Gaussian, cuts: Sequence[Cut]) -> None:
    missing = [cut.name for cut in cuts if cut.name not in dict(parts.reals)]
    if missing:
        raise Intractable(
            f"the mass in boxes of {parts} over {listed(missing)}",
            expected="parts that are Gaussians of the variables that are cut",
            nearest=f"they say nothing of {listed(missing)}: a constant over an unbounded box has no mass",
            advice="multiply by a density of these variables first",
        )
    if len(cuts) > MOST_AXES:
        raise Intractable(
            f"the mass of {parts} in boxes of {len(cuts)} axes",
            expected=f"at most {MOST_AXES} axes that are cut",
            advice="represent the variable by particles or a grid: `with fb.represent(x=fb.rep.Particles(1000, key)):`",
        )
