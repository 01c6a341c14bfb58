"""Gaussians as quotients: whether they can be integrated, and what to take in place of those that cannot."""

from __future__ import annotations

import math

import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.factors.gaussian import Gaussian
from fubini.factors.gaussian_rules import divide_gaussians, multiply_gaussian_table, multiply_gaussians
from fubini.factors.properness import greatest, greatest_of, truth
from fubini.factors.table_rules import divide_tables
from fubini.numerics import quadratic as numerics
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, diagonal
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_bounded, exact_clip, exact_distance, exact_proper
from fubini.terms.value import Array

ROUNDING = 1e3  # units of the last place of the greatest precision: a negative curvature below is a rounding error


@exact_proper.rule
def proper_gaussian(f: Gaussian, names: tuple) -> Array:
    """K_xx is positive definite"""
    own, _ = f.positions(frozenset(names))
    K = f.precision
    block = K.array[..., list(own), :][..., :, list(own)] if own else K.array[..., :0, :0]
    lowest = namespace(block).linalg.eigvalsh(block)[..., :1]
    return truth((lowest > 0).all(-1), K.names, f.inputs)


@exact_bounded.rule
def bounded_gaussian_quotient(f: Gaussian, g: Gaussian, names: tuple) -> Array:
    """K_f − K_g has no negative curvature beyond rounding errors"""
    quotient = divide_gaussians(f, g)
    K, scale = quotient.precision, f.precision
    xp = namespace(K.array, scale.array)
    unit = np.finfo(np.dtype(xp.result_type(K.array, scale.array))).eps
    limit = ROUNDING * unit * xp.max(abs(scale.array), axis=(-1, -2))
    lowest = xp.linalg.eigvalsh(K.array)[..., 0]
    order = tuple(dict.fromkeys((*K.names, *scale.names)))
    ok = align(lowest, K.names, order) >= -align(limit, scale.names, order)
    return truth(ok, order, quotient.inputs)


@exact_clip.rule
def clip_gaussian_quotient(f: Gaussian, g: Gaussian) -> Factor:
    """K = (K_f − K_g)₊,  h = (K + K_g) μ_f − h_g: the product with g has the mean of f; and its mass, by the scale"""
    reals = numerics.merged(f.reals, g.reals)
    names = tuple(name for name, _ in reals)
    quotient = divide_gaussians(f, g)
    K, below = quotient.precision, Gaussian._of(g.scale, g.onto(reals), reals, g.inputs)
    conditional = f.conditional(*names)
    batch = {name: domain for name, domain in quotient.inputs.items() if domain.is_finite}
    order = tuple(batch)
    positive = _positive_part(align(K.array, K.names, order, 2))
    precision, info = below.precision, below.info
    mean = align(conditional.mean, conditional.mean_names, order, 1)
    total = positive + align(precision.array, precision.names, order, 2)
    h = (total @ mean[..., None])[..., 0] - align(info.array, info.names, order, 1)
    xp = namespace(h, positive)
    shape = tuple(domain.extent for domain in batch.values())
    h, positive = (xp.broadcast_to(x, (*shape, *x.shape[len(shape) :])) for x in (h, positive))
    clipped = Gaussian._of(quotient.scale, Quadratic(h, order, positive, order), reals, quotient.inputs)
    mass, product = f.reduced(frozenset(names)), multiply_gaussians(clipped, g).reduced(frozenset(names))
    return multiply_gaussian_table(clipped, divide_tables(mass, product))  # type: ignore[arg-type]


def _positive_part(matrix: Data) -> Data:
    """V max(λ, 0) Vᵀ"""
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(matrix)
    return (vectors * xp.maximum(values, 0.0)[..., None, :]) @ xp.swapaxes(vectors, -1, -2)


@exact_distance.rule
def distance_of_gaussians(f: Gaussian, g: Gaussian) -> Data:
    """max |K − K′|_ij / √(K_ii K_jj) and |h − h′|_i / √K_ii: in standard deviations; scales do not count"""
    if set(f.inputs) != set(g.inputs):
        return math.inf
    theirs = Gaussian._of(g.scale, g.onto(f.reals), f.reals, g.inputs)
    order = tuple(name for name in f.inputs if f.inputs[name].is_finite)
    h, k = (align(x.array, x.names, order, 1) for x in (f.info, theirs.info))
    K, L = (align(x.array, x.names, order, 2) for x in (f.precision, theirs.precision))
    xp = namespace(h, k, K, L)
    size = xp.maximum(*(abs(diagonal(x)) for x in (K, L)))
    root = xp.sqrt(xp.where(size == 0, 1.0, size))
    gap = abs(K - L) / (root[..., :, None] * root[..., None, :])
    return greatest_of([greatest(gap, K, L), greatest(abs(h - k) / root, h, k)])
