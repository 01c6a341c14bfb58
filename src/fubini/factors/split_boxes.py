"""Gaussians in boxes, each as a sum of narrower ones along the axes that are cut."""

from __future__ import annotations

import math

import numpy as np

from fubini.base.arrays import is_jax, namespace
from fubini.base.domains import Bint
from fubini.base.names import Bound
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.gaussian_splitting import split_gaussian
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, places
from fubini.numerics.quadratic_elimination import root
from fubini.numerics.small_matrices import lower_solved
from fubini.terms.factor import Factor


def split_boxes(f: Factor, count: int, index: Bound) -> Factor:
    """A piecewise factor whose sum over the index is near f, of `count` Gaussians for each along every axis cut.

    What is not Gaussian in each box stays as it is.
    """
    if not isinstance(f, Piecewise) or count < 2 or not isinstance(parts := promoted(f.parts), Gaussian):
        return f
    place = places(parts.reals)
    return f.with_parts(_split(parts, [place[cut.name][cut.element] for cut in f.cuts], count, index))


def _split(g: Gaussian, axes: list[int], count: int, index: Bound) -> Gaussian:
    """w N(z; m, V)  ≈  Σ_i w p_i N(z; m_i, U)"""
    conditional = g.conditional(*dict(g.reals))
    mass = g.reduced(frozenset(dict(g.reals)))
    assert isinstance(mass, Table), "a Gaussian without its real variables is a table"
    names = tuple(dict.fromkeys((*conditional.mean_names, *conditional.names)))
    mean = align(conditional.mean, conditional.mean_names, names, 1)
    pieces = split_gaussian(mean, align(conditional.covariance, conditional.names, names, 2), axes, count)
    size = g.quadratic.size
    half, _ = root(pieces.covariance)
    xp = namespace(half)
    eye = xp.broadcast_to(xp.eye(size, dtype=half.dtype), half.shape)
    white = lower_solved(half, eye) if is_jax(half) else np.linalg.solve(half, eye)
    vector = (white[..., None, :, :] @ pieces.mean[..., None])[..., 0]
    volume = xp.sum(xp.log(xp.diagonal(half, axis1=-2, axis2=-1)), axis=-1) + 0.5 * size * math.log(2 * math.pi)
    logs = pieces.log_weights.astype(half.dtype) - volume[..., None]
    domains = {**g.inputs, index: Bint[len(pieces.log_weights)]}
    scale = shifted(mass, logs, (*names, index), domains)
    return Gaussian._of(scale, Quadratic(vector, (*names, index), white, names, True), g.reals, domains)
