"""Piecewise factors: boxes that share edges, affine substitution, plates, draws, expectations, the order of sums."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, Intractable

x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def steps(*pieces: tuple[float, float, float], name: str = "x") -> fb.Piecewise:
    """Constants on intervals."""
    return fb.Piecewise([({name: (low, high)}, fb.Table(height)) for low, high, height in pieces])


def integral(function: Callable[[float], float], *points: float) -> float:
    total = zip((-12.0, *points), (*points, 12.0), strict=True)
    return sum(integrate.quad(function, low, high, epsabs=1e-13)[0] for low, high in total)


# -- edges ----------------------------------------------------------------------------------------------------------


def test_boxes_that_share_an_edge() -> None:
    """An edge of both factors is no box of its own: neither a quotient nor a maximum sees one there."""
    f, g = steps((0.0, 1.0, 3.0), (1.0, 2.0, 1.0)), steps((1.0, 2.0, 5.0))
    both = f * g
    assert float(both.max("x")) == pytest.approx(5.0)
    assert float(both.sum("x")) == pytest.approx(5.0)
    assert float((g / f)(x=1.5)) == pytest.approx(5.0)
    inner = steps((0.0, 1.0, 2.0)) / steps((0.0, 2.0, 4.0))
    assert [float(inner(x=at)) for at in (-0.5, 0.5, 1.5, 2.5)] == pytest.approx([0.0, 0.5, 0.0, 0.0])
    with pytest.raises(DataError, match="over zero"):
        f / g


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.5), (2.0, -0.3), (-1.5, 0.4)])
def test_at_an_affine_function(slope: float, shift: float) -> None:
    """f(x = b + s y) is piecewise along y: its integral with a Gaussian is closed."""
    f = fb.Piecewise([({"x": (-0.4, np.inf)}, dist.Normal(0.2, 1.1)("x"))]) * steps((-9.0, 0.3, 0.5), (0.3, 9.0, 2.0))
    moved = f(x=slope * y + shift)
    prior = dist.Normal(-0.1, 0.8)("y")

    def weight(at: float) -> float:
        inside = slope * at + shift
        height = 0.0 if inside < -0.4 else 0.5 if inside < 0.3 else 2.0
        return height * stats.norm.pdf(inside, 0.2, 1.1) * stats.norm.pdf(at, -0.1, 0.8)

    edges = sorted((edge - shift) / slope for edge in (-0.4, 0.3))
    assert float((moved * prior).sum("y")) == pytest.approx(integral(weight, *edges), rel=1e-9)
    assert float((moved * prior)(y=0.37)) == pytest.approx(weight(0.37), rel=1e-12)


# -- sums -----------------------------------------------------------------------------------------------------------


def cut_plane(form: str) -> fb.Factor:
    """x ~ N(0, 1), y ~ N(x, ½²), and a weight of 3 where x > 0.2, given as boxes or read from a comparison."""
    plane = dist.Normal(0.0, 1.0)("x") * dist.Normal(x, 0.5)("y")
    if form == "boxes":
        return plane * steps((-np.inf, 0.2, 1.0), (0.2, np.inf, 3.0))
    return plane * fb.weight(log=fb.ops.where(x > 0.2, np.log(3.0), 0.0))


@pytest.mark.parametrize("form", ["boxes", "comparison"])
@pytest.mark.parametrize("names", [("x", "y"), ("y", "x")])
def test_what_is_cut_is_integrated_last(form: str, names: tuple) -> None:
    expected = stats.norm.cdf(0.2) + 3.0 * stats.norm.sf(0.2)
    assert float(cut_plane(form).sum(*names)) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(Intractable, match="marginal is none"):
        cut_plane(form).sum("x")


def test_plates_and_their_marginals() -> None:
    """Π_i Σ_k w(i, k) in each box; the marginal of k in a cell is from the product of the other cells."""
    weights = np.random.default_rng(0).uniform(0.2, 2.0, (2, 3, 2))  # (side, i, k)
    boxes = ({"x": (-np.inf, 0.0)}, {"x": (0.0, np.inf)})
    link = fb.Piecewise([(box, fb.Table(table, ("i", "k"))) for box, table in zip(boxes, weights, strict=True)])
    prior = dist.Normal(0.3, 1.0)("x")
    sides = np.array([stats.norm.cdf(-0.3), stats.norm.sf(-0.3)])
    total = fb.eliminate([link, prior], {"x": (), "k": ("i",)}, ("i",))
    assert float(total) == pytest.approx(weights.sum(2).prod(1) @ sides, rel=1e-9)
    found = fb.marginals([link, prior], {"x": (), "k": ("i",)}, ("i",))["k"]
    others = np.stack([np.delete(weights.sum(2), i, axis=1).prod(1) for i in range(3)], 1)
    expected = np.einsum("s,sik,si->ik", sides, weights, others)
    assert np.asarray(found.weights) == pytest.approx(expected / expected.sum(1, keepdims=True), rel=1e-9)


def test_gradient_with_unbounded_boxes() -> None:
    """The derivative of log P(x > 0.2) by mean and precision is finite, and right."""

    def log_mass(mean: jax.Array, precision: jax.Array) -> jax.Array:
        f = fb.Gaussian(mean=mean, precision=precision, inputs={"x": fb.Real})
        return fb.Piecewise([({"x": (0.2, np.inf)}, f.normalize())]).sum("x").log().data

    at = (jnp.array([0.1]), jnp.array([[1.7]]))
    by_mean, by_precision = jax.jit(jax.grad(log_mass, (0, 1)))(*at)

    def plain(mean: float, precision: float) -> float:
        return float(stats.norm.logsf(0.2, mean, precision**-0.5))

    step = 1e-6
    assert by_mean[0] == pytest.approx((plain(0.1 + step, 1.7) - plain(0.1 - step, 1.7)) / (2 * step), rel=1e-6)
    slope = (plain(0.1, 1.7 + step) - plain(0.1, 1.7 - step)) / (2 * step)
    assert by_precision[0, 0] == pytest.approx(slope, rel=1e-6)


# -- averages and draws ---------------------------------------------------------------------------------------------


def test_expectations_in_two_dimensions() -> None:
    """E[f₁ f₂] and E[(f₁ − f₂)²] in a quadrant, against a grid."""
    mean, covariance = np.array([0.3, -0.4]), np.array([[1.0, 0.6], [0.6, 2.0]])
    plane = dist.MultivariateNormal(mean, covariance)("f")
    quadrant = fb.Piecewise([({"f": [(0.0, np.inf), (0.0, np.inf)]}, plane)])
    nodes, weights = np.polynomial.legendre.leggauss(80)
    line, share = 5.0 * (nodes + 1.0), 5.0 * weights
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1)
    density = stats.multivariate_normal(mean, covariance).pdf(grid) * share[:, None] * share[None]
    f = fb.Variable("f", fb.Reals[2])
    for value, numbers in ((f[0] * f[1], grid[..., 0] * grid[..., 1]), ((f[0] - f[1]) ** 2, (grid @ [1, -1]) ** 2)):
        expected = (density * numbers).sum() / density.sum()
        assert float(fb.expectation(quadrant, value)) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(Intractable, match="degree"):
        fb.expectation(quadrant, f[0] ** 3)


def test_draws_of_boxes_in_two_dimensions() -> None:
    f = fb.Piecewise(
        [({"f": [(0.0, 1.0), (0.0, 2.0)]}, fb.Table(1.0)), ({"f": [(1.0, 3.0), (-1.0, 0.0)]}, fb.Table(0.5))]
    )
    drawn = f.sample(jax.random.key(0), "f", n=100_000)["f"]
    low = drawn[:, 0] < 1.0
    assert low.mean() == pytest.approx(2 / 3, abs=0.01)
    assert drawn[low].mean(0) == pytest.approx([0.5, 1.0], abs=0.02)
    assert drawn[~low].mean(0) == pytest.approx([2.0, -0.5], abs=0.02)


@pytest.mark.parametrize("side", [(6.0, np.inf), (-np.inf, -6.0), (7.0, 7.01)])
def test_draws_far_out(side: tuple[float, float]) -> None:
    f = fb.Piecewise([({"x": side}, dist.Normal(0.0, 1.0)("x"))])
    drawn = f.sample(jax.random.key(0), "x", n=20_000)["x"]
    assert drawn.min() >= side[0] and drawn.max() <= side[1]
    assert abs(drawn.mean() - float(f.mean("x"))) < 5 * drawn.std() / np.sqrt(20_000)


def test_draws_without_a_closed_form_are_errors() -> None:
    quadrant = fb.Piecewise(
        [({"f": [(0.0, np.inf), (0.0, np.inf)]}, dist.MultivariateNormal(np.zeros(2), np.eye(2))("f"))]
    )
    with pytest.raises(Intractable, match="cut along 2 axes"):
        quadrant.sample(jax.random.key(0), "f")
    beyond = fb.Piecewise([({"x": (40.0, np.inf)}, dist.Normal(0.0, 1.0)("x"))])
    with pytest.raises(DataError, match="too far from the mean"):
        beyond.sample(jax.random.key(0), "x")


def test_constant_parts_on_jax_and_traced() -> None:
    """In boxes with bounds a mean; in others an error, and NaN where it is traced."""

    def steps(height: jax.Array, high: float) -> fb.Piecewise:
        return fb.Piecewise([({"x": (0.0, 1.0)}, fb.Table(height, ())), ({"x": (1.0, high)}, fb.Table(2 * height, ()))])

    expected = (1 * 0.5 + 4 * 2.0) / 5
    assert float(steps(jnp.asarray(0.7), 3.0).mean("x")) == pytest.approx(expected, abs=1e-6)
    assert float(jax.jit(lambda h: steps(h, 3.0).mean("x").data)(0.7)) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(DataError, match="boxes without bound"):
        steps(jnp.asarray(0.7), np.inf).mean("x")
    assert np.isnan(jax.jit(lambda h: steps(h, np.inf).sum("x").log().data)(0.7))
