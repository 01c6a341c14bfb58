"""Piecewise factors given by boxes: masses and moments against quadrature, and the errors of boxes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import norm

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted

x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)


def thresholds(slope: Any = 0.5) -> fb.Piecewise:
    """y given x: another line in each of two boxes, and nothing beyond."""
    falling = dist.Normal(-0.4 * x, 0.6)("y") * dist.Normal(0.0, 1.5)("x")
    return fb.Piecewise([({"x": (-np.inf, 0.0)}, dist.Normal(slope * x + 1.0, 0.3)("y")), ({"x": (0.0, 2.0)}, falling)])


def rule(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre points and weights."""
    points, weights = np.polynomial.legendre.leggauss(200)
    return 0.5 * (high + low) + 0.5 * (high - low) * points, 0.5 * (high - low) * weights


def by_quadrature(power: int) -> float:
    """∫∫ f(x, y) N(x; 0.3, 1) N(0.7; y, 0.8) yᵖ dx dy."""
    b, over = rule(-8.0, 8.0)
    total = 0.0
    for side in (-1, 1):
        a, weights = (part[:, None] for part in (rule(-8.0, 0.0) if side < 0 else rule(0.0, 2.0)))
        falling = norm.pdf(b, -0.4 * a, 0.6) * norm.pdf(a, 0.0, 1.5)
        line = norm.pdf(b, 0.5 * a + 1.0, 0.3) if side < 0 else falling
        total += float((line * norm.pdf(a, 0.3, 1.0) * norm.pdf(0.7, b, 0.8) * b**power * weights * over).sum())
    return total


def joint(slope: Any = 0.5) -> fb.Factor:
    return thresholds(slope) * dist.Normal(0.3, 1.0)("x") * dist.Normal(y, 0.8)(0.7)


def test_gaussians_of_different_forms_in_boxes() -> None:
    f = promoted(joint())
    assert isinstance(f, Piecewise)
    assert isinstance(promoted(f.parts), Gaussian)
    mass = by_quadrature(0)
    assert float(f.sum("x", "y")) == pytest.approx(mass, rel=1e-7)
    assert float(fb.expectation(f, y, "x", "y")) == pytest.approx(by_quadrature(1) / mass, rel=1e-6)
    assert f.sum("x", "y").exactness.is_exact


def test_gaussians_in_boxes_at_points() -> None:
    for a, expected in (
        (-1.0, norm.pdf(0.2, 0.5, 0.3)),
        (1.0, norm.pdf(0.2, -0.4, 0.6) * norm.pdf(1.0, 0.0, 1.5)),
        (3.0, 0.0),
    ):
        assert float(thresholds()(x=a, y=0.2)) == pytest.approx(expected, rel=1e-12)


def test_gaussians_in_boxes_traced_with_derivatives() -> None:
    def mass(slope: Any) -> Any:
        return joint(slope).sum("x", "y").log().data

    with jax.enable_x64(True):
        value, slope = jax.jit(jax.value_and_grad(mass))(0.5)
        assert value == pytest.approx(np.log(by_quadrature(0)), rel=1e-7)
        ends = [float(jax.jit(mass)(end)) for end in (0.499, 0.501)]
        assert float(slope) == pytest.approx((ends[1] - ends[0]) / 0.002, rel=1e-4)


def test_gaussians_of_different_variables_and_batches_in_boxes() -> None:
    """Boxes of x; a Gaussian of x and one of x and y, which say something else for each k."""
    shifts = fb.Array(np.array([0.0, 1.0]), ("k",))
    first = dist.Normal(shifts, 1.0)("x") * dist.Normal(0.0, 1.0)("y")
    second = dist.Normal(0.0, 2.0)("x") * dist.Normal(x, 1.0)("y") * fb.Table([0.25, 0.5], ("k",))
    f = fb.Piecewise([({"x": (-np.inf, 0.0)}, first), ({"x": (1.0, np.inf)}, second)])
    expected = norm.cdf(0.0, [0.0, 1.0], 1.0) + norm.sf(1.0, 0.0, 2.0) * np.array([0.25, 0.5])
    assert f.sum("x", "y").weights == pytest.approx(expected, rel=1e-9)


def test_other_factors_in_boxes_have_an_error() -> None:
    pieces: list[tuple[Any, Any]] = [
        ({"x": (0.0, 1.0)}, dist.Normal(x, 1.0)("y")),
        ({"x": (1.0, 2.0)}, dist.Cauchy(x, 1.0)("y")),
    ]
    with pytest.raises(Intractable, match="a Gaussian in each box") as error:
        fb.Piecewise(pieces)
    assert "Cauchy" in str(error.value)
    assert "add Piecewise factors of one box each" in str(error.value)


def test_pieces_add_up() -> None:
    halves = [
        fb.Piecewise([({"x": (-np.inf, 0.0)}, dist.Normal(0.5, 1.0)("x"))]),
        fb.Piecewise([({"x": (0.0, np.inf)}, dist.Normal(0.0, 0.7)("x"))]),
    ]
    assert float((halves[0] + halves[1]).sum("x")) == pytest.approx(norm.cdf(-0.5) + 0.5, rel=1e-9)


def test_bad_boxes() -> None:
    half = dist.Normal(0.0, 1.0)("x")
    with pytest.raises(fb.FubiniError, match="without pieces"):
        fb.Piecewise([])
    with pytest.raises(fb.FubiniError, match="overlap"):
        fb.Piecewise([({"x": (0.0, 2.0)}, half), ({"x": (1.0, 3.0)}, half)])
    with pytest.raises(fb.FubiniError, match="low < high"):
        fb.Piecewise([({"x": (1.0, 1.0)}, half)])
    with pytest.raises(fb.FubiniError, match="a real variable"):
        fb.Piecewise([({"k": (0.0, 1.0)}, fb.Table([0.5, 0.5], ("k",)))])
    with pytest.raises(fb.FubiniError, match="2 intervals of 'x'"):
        fb.Piecewise([({"x": [(0.0, 1.0), (0.0, 1.0)]}, half)])


def test_what_is_cut_is_integrated_last() -> None:
    """Whatever order the planner would prefer: a Gaussian of y goes before x, whose integral is no Gaussian of y."""
    half = fb.Piecewise([({"x": (0.0, np.inf)}, dist.Normal(0.3, 1.0)("x"))])
    f = half * dist.Normal(0.3 * x, 0.5)("y") * dist.Normal(y, 0.8)(0.7)
    a, weights = rule(0.0, 9.0)
    expected = (norm.pdf(a, 0.3, 1.0) * norm.pdf(0.7, 0.3 * a, np.hypot(0.5, 0.8)) * weights).sum()
    assert float(f.sum("x", "y")) == pytest.approx(expected, rel=1e-9)
