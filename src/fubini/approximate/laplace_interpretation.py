"""Laplace's approximation in force: an integral without a closed form is that of the normal at the highest mode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, overload

import numpy as np
import scipy

from fubini.approximate.closed_part import closed_part, in_closed_form
from fubini.approximate.laplace_approximation import laplace_factor
from fubini.approximate.open_integral import OpenIntegral, WeightedPoints
from fubini.base.interpretations import Interpretation, current
from fubini.base.names import Name
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import DataError, Intractable, NoRule, listed
from fubini.factors.promotion import promoted
from fubini.terms.exactness import projected
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.heads import EXPECT, INTEGRATE, SUM
from fubini.terms.value import Value

laplace_integrate = RuleSet("laplace.integrate", head=INTEGRATE)
laplace_sum = RuleSet("laplace.sum", head=SUM)
laplace_expect = RuleSet("laplace.expect", head=EXPECT)

POINTS = 1024  # of the normal, unless it has more numbers than a quarter of these


class Laplace(Interpretation):
    """Sums and integrals without a closed form by the normal at the mode."""


@overload
def laplace() -> Interpretation: ...
@overload
def laplace(factor: Factor, *names: Name, start: Mapping[Name, Any] | None = None) -> Factor: ...
def laplace(
    factor: Factor | None = None, *names: Name, start: Mapping[Name, Any] | None = None
) -> Interpretation | Factor:
    """The interpretation in force, with integrals that have no closed form done by the normal at the mode.

    What has a closed form stays exact. Bounded latents are approximated on an unconstrained scale, as infer() has them.
    Nothing says how large the error is: `fb.quadrature()` and `fb.monte_carlo(key, n)` do.

    >>> @fb.model
    ... def counts():
    ...     z = yield fb.dist.Normal(0.0, 1.0)
    ...     y = yield fb.dist.Poisson(jnp.exp(z))
    >>> with fb.laplace():
    ...     evidence = counts().condition(y=3).log_evidence()
    >>> round(float(evidence), 3), evidence.exactness
    (-2.52, projected(laplace))

    Of a factor, the Gaussian that has its value, mode and curvature at its mode, over the real names or all of them.
    Bounded integers are batch inputs, with a mode for each cell. The search goes from `start`, or from near zero.

    >>> z = fb.Variable("z", fb.Real)
    >>> f = fb.dist.Normal(0.0, 1.0)("z") * fb.dist.Poisson(fb.ops.exp(z))(3)
    >>> g = fb.laplace(f, "z")
    >>> round(float(g.mean("z")), 4), round(float(g.sum("z").log()), 3), g.exactness
    (0.7921, -2.52, projected(laplace))
    """
    if factor is not None:
        return laplace_factor(factor, *names, start=start)
    if start is not None:
        raise DataError("laplace() with start= and without a factor", expected="a factor, where a search can start")
    return Laplace("laplace()", (laplace_integrate, laplace_sum, laplace_expect), base=current())


@laplace_integrate.rule
def integrate_at_mode(integral: OpenIntegral) -> WeightedPoints:
    """∫ f(x) dx  ≈  f(x̂) |2π H⁻¹|^½, H = −∂² log f(x̂), with points that have the mean x̂ and the covariance H⁻¹"""
    density = integral.density()
    normal = max(density.normals(), key=lambda normal: normal.log_mass)
    if not normal.is_mode:
        raise DataError(
            f"Laplace's approximation of the density of {listed(integral.names)}",
            expected="a mode that a search finds, where the logarithm curves down in every direction",
            advice="use fb.quadrature(), fb.monte_carlo(key, n) or infer(key), or give the latents narrower priors",
        )
    points = normal.mode + _standard_normal_points(density.size) @ normal.root.T
    log_total = normal.log_mass + 0.5 * density.size * math.log(2 * math.pi)
    return WeightedPoints(points, np.full(len(points), log_total - math.log(len(points))), projected("laplace"))


def _standard_normal_points(size: int) -> np.ndarray:
    """Points [point, number] with mean 0 and covariance I: of a Sobol sequence and their opposites."""
    count = 2 ** math.ceil(math.log2(max(POINTS, 4 * size)))
    uniform = scipy.stats.qmc.Sobol(size, scramble=True, seed=0).random(count // 2)
    half = scipy.special.ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
    points = np.concatenate([half, -half])
    root = np.linalg.cholesky(points.T @ points / count)
    return scipy.linalg.solve_triangular(root, points.T, lower=True).T


@laplace_sum.rule
def sum_at_mode(semiring: Semiring, f: Factor, names: tuple) -> Factor:
    """∫ f(x, y) dx  ≈  ∫ g(x, y) dx, g the Gaussian at the mode of f, where it has no closed form"""
    try:
        return in_closed_form(Laplace, SUM, semiring, f, names)
    except (Intractable, NoRule) as error:
        if semiring is not sum_product:
            raise
        normal = _normal(f, names, error)
    return in_closed_form(Laplace, SUM, semiring, normal, tuple(name for name in names if name in normal.inputs))


@laplace_expect.rule
def expect_at_mode(f: Factor, value: Value, names: tuple) -> Value:
    """E_f[v]  ≈  E_g[v], g the Gaussian at the mode of f, where it has no closed form"""
    try:
        return in_closed_form(Laplace, EXPECT, f, value, names)
    except (Intractable, NoRule) as error:
        normal = _normal(f, names, error, keep=tuple(value.inputs))
    return in_closed_form(Laplace, EXPECT, normal, value, tuple(name for name in names if name in normal.inputs))


def _normal(f: Factor, names: tuple, reason: Exception, keep: tuple = ()) -> Factor:
    """The factor with those of the names summed that have a closed form, as a Gaussian over the others."""
    infinite = [name for name in names if not f.inputs[name].is_finite]
    with current().without(Laplace):
        terms, _ = closed_part(list(terms_of(f)), infinite, keep)
        rest = promoted(product(*terms))
        left = [name for name in infinite if name in rest.inputs]
        if not left or any(not domain.is_finite and name not in left for name, domain in rest.inputs.items()):
            raise reason
        return laplace_factor(rest, *left)
