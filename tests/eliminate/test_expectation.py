"""`fb.expectation` and `fb.integrate` where they have a closed form, against enumeration, quadrature and samples."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from fubini.terms.value import to_array

X, Y, Z = (fb.Variable(name, fb.Real) for name in "xyz")
V = fb.Variable("v", fb.Reals[2])
A, B = fb.Variable("a", fb.Bint[3]), fb.Variable("b", fb.Bint[2])
K = fb.Variable("k", fb.Bint[3])
G = fb.Variable("g", fb.Positive)
TABLE = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
W = np.array([0.2, 0.3, 0.5])
LOC, SCALE = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 0.7])
ROOT = np.array([[1.2, 0.0], [0.4, 0.8]])
COVARIANCE = ROOT @ ROOT.T
MEAN = np.array([0.3, -0.2])


def table() -> fb.Table:
    return fb.Table(TABLE, ("a", "b"))


def joint() -> fb.Factor:
    """x ~ N(0.3, 1.2), y | x ~ N(2x − 1, 0.5)"""
    return dist.Normal(0.3, 1.2)("x") * dist.Normal(2.0 * X - 1.0, 0.5)("y")


def mixture() -> fb.Factor:
    return (fb.Table(W, ("k",)) * normals()).sum("k")


def normals() -> fb.Factor:
    return dist.Normal(fb.Array(LOC, ("k",)), fb.Array(SCALE, ("k",)))("x")


def numbers(value: fb.Value) -> np.ndarray:
    return np.asarray(to_array(value).data)


# -- discrete -------------------------------------------------------------------------------------------------------


def test_discrete() -> None:
    found = fb.expectation(table(), A * 10.0 + B, "a", "b")
    a, b = np.indices(TABLE.shape)
    assert isinstance(found, fb.Value) and found.inputs == {}
    assert float(found) == pytest.approx(np.sum(TABLE * (10 * a + b)) / TABLE.sum(), rel=1e-12)


def test_all_inputs_where_no_name_is_given() -> None:
    assert float(fb.expectation(table(), 1.0 * A)) == pytest.approx(float(fb.expectation(table(), 1.0 * A, "a", "b")))


def test_integral_is_not_divided() -> None:
    found = fb.integrate(table(), 1.0 * A, "a", "b")
    assert float(found) == pytest.approx(np.sum(TABLE * np.arange(3)[:, None]), rel=1e-12)


def test_integral_of_one_is_the_mass() -> None:
    assert float(fb.integrate(table(), 1.0, "a", "b")) == pytest.approx(TABLE.sum(), rel=1e-12)
    assert float(fb.expectation(table(), 1.0, "a", "b")) == 1.0


def test_conditional_on_the_other_name() -> None:
    """Normalised for each b."""
    found = fb.expectation(table(), A * A * 1.0, "a")
    assert found.inputs == {"b": fb.Bint[2]}
    np.testing.assert_allclose(numbers(found), (np.arange(3) ** 2 @ TABLE) / TABLE.sum(0), rtol=1e-12)
    unscaled = fb.integrate(table(), A * A * 1.0, "a")
    np.testing.assert_allclose(numbers(unscaled), np.arange(3) ** 2 @ TABLE, rtol=1e-12)


def test_value_that_depends_on_the_other_name() -> None:
    found = fb.expectation(table(), 1.0 * A + 100.0 * B, "a")
    right = (np.arange(3) @ TABLE) / TABLE.sum(0) + 100 * np.arange(2)
    np.testing.assert_allclose(numbers(found), right, rtol=1e-12)


def test_value_of_an_array() -> None:
    payoff = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 5.0]])
    found = fb.expectation(table(), fb.Array(payoff, ("a",)), "a", "b")
    assert found.output == fb.Reals[2]
    np.testing.assert_allclose(numbers(found), (TABLE.sum(1) @ payoff) / TABLE.sum(), rtol=1e-12)


def test_values_with_new_names() -> None:
    """A name that only the value has stays."""
    payoff = np.arange(12.0).reshape(3, 4)
    found = fb.expectation(table(), fb.Array(payoff, ("a", "i")), "a", "b")
    assert found.inputs == {"i": fb.Bint[4]}
    np.testing.assert_allclose(numbers(found), (TABLE.sum(1) @ payoff) / TABLE.sum(), rtol=1e-12)


def test_infinity_at_zero_weight() -> None:
    """0 · ∞ is 0 under a sum: log 0 where nothing is."""
    p = fb.Table([0.0, 1.0, 3.0], ("a",))
    assert float(fb.expectation(p, p.log(), "a")) == pytest.approx(0.75 * np.log(3), rel=1e-12)


def test_product_of_tables() -> None:
    other = np.array([0.3, 2.0])
    found = fb.expectation(table() * fb.Table(other, ("b",)), 1.0 * A, "a", "b")
    w = TABLE * other
    assert float(found) == pytest.approx(np.sum(w * np.arange(3)[:, None]) / w.sum(), rel=1e-12)


def test_entropy_as_an_expectation() -> None:
    p = table().normalize()
    assert float(-fb.expectation(p, p.log(), "a", "b")) == pytest.approx(float(table().entropy("a", "b")), rel=1e-12)


def test_zero_mass() -> None:
    zero = fb.Table(np.zeros(3), ("a",))
    assert float(fb.integrate(zero, 1.0 * A, "a")) == 0.0
    with pytest.raises(fb.FubiniError, match="zero"):
        fb.expectation(zero, 1.0 * A, "a")


def test_zero_mass_for_some_cells() -> None:
    """An integral over a column of zeros is zero, beside one that is not."""
    p = fb.Table([[0.5, 0.0], [0.1, 0.0], [0.3, 0.0]], ("a", "b"))
    np.testing.assert_allclose(numbers(fb.integrate(p, 1.0 * A, "a")), [0.7, 0.0], atol=1e-15)
    with pytest.raises(fb.FubiniError, match="zero"):
        numbers(fb.expectation(p, 1.0 * A, "a"))


# -- Gaussian -------------------------------------------------------------------------------------------------------

POLYNOMIALS: dict[str, tuple[fb.Value, Callable]] = {
    "x": (X, lambda x: x),
    "3x + 1": (3.0 * X + 1.0, lambda x: 3 * x + 1),
    "x²": (X * X, lambda x: x**2),
    "x ** 2": (X**2, lambda x: x**2),
    "square": (fb.ops.square(X - 1.0), lambda x: (x - 1) ** 2),
    "quadratic": (2.0 * X * X - 3.0 * X + 0.5, lambda x: 2 * x * x - 3 * x + 0.5),
    "quotient": ((X - 1.0) / 4.0, lambda x: (x - 1) / 4),
    "constant": (0.0 * X + 2.0, lambda x: 2.0 + 0 * x),
    "log density": (dist.Normal(0.7, 0.4)("x").log(), lambda x: stats.norm.logpdf(x, 0.7, 0.4)),
    "lifted": (fb.lift(lambda x: 2.0 * x * x - x)(X), lambda x: 2 * x**2 - x),
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_under_a_gaussian(name: str) -> None:
    """Of degree two at most, under an unnormalised product, against quadrature."""
    value, of = POLYNOMIALS[name]
    f = dist.Normal(0.3, 1.2)("x") * dist.Normal(X, 0.9)(1.4)
    grid = np.linspace(-12, 12, 20001)
    p = stats.norm.pdf(grid, 0.3, 1.2) * stats.norm.pdf(1.4, grid, 0.9)
    total = integrate.simpson(p * of(grid), x=grid)
    assert float(fb.integrate(f, value, "x")) == pytest.approx(total, rel=1e-9)
    assert float(fb.expectation(f, value, "x")) == pytest.approx(total / integrate.simpson(p, x=grid), rel=1e-9)


def test_conditional_on_a_real() -> None:
    """E[y | x] and E[y² | x] as Values of x."""
    mean, square = fb.expectation(joint(), Y, "y"), fb.expectation(joint(), Y * Y, "y")
    assert mean.inputs == {"x": fb.Real}
    assert float(mean(x=0.4)) == pytest.approx(-0.2, rel=1e-9)
    assert float(square(x=0.4)) == pytest.approx(0.04 + 0.25, rel=1e-9)


def test_conditional_integral() -> None:
    """∫ y p(x, y) dy = p(x) E[y | x], at a point."""
    found = fb.integrate(joint(), Y, "y")
    assert float(found(x=0.4)) == pytest.approx(stats.norm.pdf(0.4, 0.3, 1.2) * -0.2, rel=1e-9)


def test_products_of_two_variables() -> None:
    """E[x y] = Cov + E[x] E[y], and with the other names of the value left free."""
    assert float(fb.expectation(joint(), X * Y, "x", "y")) == pytest.approx(2 * 1.44 + 0.3 * -0.4, rel=1e-9)
    found = fb.expectation(joint(), X * Y, "y")
    assert float(found(x=0.4)) == pytest.approx(0.4 * -0.2, rel=1e-9)


def test_value_with_a_free_real_of_its_own() -> None:
    """E_x[x z + x²] is a Value of z."""
    found = fb.expectation(dist.Normal(0.3, 1.2)("x"), X * Z + X * X, "x")
    assert found.inputs == {"z": fb.Real}
    assert float(found(z=2.0)) == pytest.approx(0.6 + 1.44 + 0.09, rel=1e-9)


def test_free_real_of_any_degree() -> None:
    """Only the names integrated need be of degree two: E_x[x e^z] = E[x] e^z."""
    found = fb.expectation(dist.Normal(0.3, 1.2)("x"), X * fb.ops.exp(Z), "x")
    assert float(found(z=2.0)) == pytest.approx(0.3 * np.exp(2.0), rel=1e-9)


def test_coefficients_that_depend_on_a_free_real() -> None:
    """E_x[z² x²]: degree four in both, two in what is integrated."""
    found = fb.expectation(dist.Normal(0.3, 1.2)("x"), Z * Z * X * X, "x")
    assert float(found(z=2.0)) == pytest.approx(4 * (1.44 + 0.09), rel=1e-9)


def test_names_not_in_the_value_are_summed_out() -> None:
    assert float(fb.expectation(joint(), Y, "x", "y")) == pytest.approx(-0.4, rel=1e-9)
    assert float(fb.expectation(joint(), Y)) == pytest.approx(-0.4, rel=1e-9)


def test_batched_over_an_index() -> None:
    found = fb.expectation(normals(), X * X + 1.0 * K, "x")
    assert found.inputs == {"k": fb.Bint[3]}
    np.testing.assert_allclose(numbers(found), LOC**2 + SCALE**2 + np.arange(3), rtol=1e-9)


def test_discrete_and_real_together() -> None:
    """E[k x²] under weights times Gaussians: each k with its share of the mass."""
    f = fb.Table(3.0 * W, ("k",)) * normals()
    found = fb.expectation(f, K * X * X, "k", "x")
    assert float(found) == pytest.approx(W @ (np.arange(3) * (LOC**2 + SCALE**2)), rel=1e-9)
    assert float(fb.integrate(f, K * X * X, "k", "x")) == pytest.approx(3 * float(found), rel=1e-9)


def test_discrete_alone_given_the_real() -> None:
    """E[k | x], at a point."""
    found = fb.expectation(fb.Table(W, ("k",)) * normals(), 1.0 * K, "k")
    p = W * stats.norm.pdf(0.3, LOC, SCALE)
    assert float(found(x=0.3)) == pytest.approx(np.arange(3) @ p / p.sum(), rel=1e-9)


def test_vector_quadratic_form() -> None:
    f = dist.MultivariateNormal(MEAN, COVARIANCE)("v")
    M = np.array([[2.0, 0.5], [0.0, 1.0]])
    found = fb.expectation(f, fb.lift(lambda v: v @ M @ v)(V), "v")
    assert float(found) == pytest.approx(np.trace(M @ COVARIANCE) + MEAN @ M @ MEAN, rel=1e-9)
    assert float(fb.expectation(f, V[0] * V[1], "v")) == pytest.approx(COVARIANCE[0, 1] + MEAN.prod(), rel=1e-9)


def test_vector_valued() -> None:
    f = dist.MultivariateNormal(MEAN, COVARIANCE)("v")
    M = np.array([[2.0, 0.5], [0.0, 1.0], [1.0, 1.0]])
    found = fb.expectation(f, fb.Array(M) @ V + 1.0, "v")
    assert found.output == fb.Reals[3]
    np.testing.assert_allclose(numbers(found), M @ MEAN + 1, rtol=1e-9)


def test_vector_valued_of_degree_two() -> None:
    """E[v²] elementwise: the numbers, or an error that says one at a time."""
    f = dist.MultivariateNormal(MEAN, COVARIANCE)("v")
    try:
        found = numbers(fb.expectation(f, V * V, "v"))
    except fb.FubiniError as error:
        assert "expected:" in str(error)
    else:
        np.testing.assert_allclose(found, np.diag(COVARIANCE) + MEAN**2, rtol=1e-9)


@pytest.mark.parametrize("names", [("x", "y"), ("y", "x")])
def test_order_of_names(names: tuple[str, str]) -> None:
    assert float(fb.expectation(joint(), X * X - 2.0 * X * Y, *names)) == pytest.approx(
        1.44 + 0.09 - 2 * (2 * 1.44 + 0.3 * -0.4), rel=1e-9
    )


def test_against_samples() -> None:
    """Behaviour 20: E[x] under an unnormalised Gaussian and E_g[log h], by 10⁵ draws."""
    f = 5.0 * dist.Normal(0.3, 1.2)("x") * dist.Normal(X, 0.9)(1.4)
    h = dist.Normal(0.5, 0.7)("x")
    draws = f.sample(jax.random.key(0), "x", n=100_000)["x"]
    assert float(fb.expectation(f, X, "x")) == pytest.approx(draws.mean(), abs=0.1)
    assert float(fb.expectation(f, h.log(), "x")) == pytest.approx(stats.norm.logpdf(draws, 0.5, 0.7).mean(), abs=0.1)


def test_divergence_as_an_expectation() -> None:
    p, q = dist.Normal(0.3, 1.2)("x"), dist.Normal(0.5, 0.7)("x")
    found = fb.expectation(p, p.log() - q.log(), "x")
    right = np.log(0.7 / 1.2) + (1.44 + 0.04) / (2 * 0.49) - 0.5
    assert float(found) == pytest.approx(right, rel=1e-9)
    assert float(p.kl(q, "x")) == pytest.approx(right, rel=1e-9)


# -- mixtures and Deltas --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_under_a_mixture(name: str) -> None:
    value, of = POLYNOMIALS[name]
    grid = np.linspace(-12, 14, 20001)
    p = stats.norm.pdf(grid[:, None], LOC, SCALE) @ W
    right = integrate.simpson(p * of(grid), x=grid)
    assert float(fb.expectation(mixture(), value, "x")) == pytest.approx(right, rel=1e-9)
    assert float(fb.integrate(3.0 * mixture(), value, "x")) == pytest.approx(3 * right, rel=1e-9)


def test_under_a_product_of_mixtures() -> None:
    grid = np.linspace(-12, 14, 20001)
    p = (stats.norm.pdf(grid[:, None], LOC, SCALE) @ W) ** 2
    right = integrate.simpson(p * grid**2, x=grid) / integrate.simpson(p, x=grid)
    assert float(fb.expectation(mixture() * mixture(), X * X, "x")) == pytest.approx(right, rel=1e-9)


def test_any_function_under_a_delta() -> None:
    assert float(fb.expectation(fb.Delta(x=1.5), fb.ops.exp(X), "x")) == pytest.approx(np.exp(1.5), rel=1e-12)
    found = fb.expectation(3.0 * fb.Delta(x=1.5), fb.ops.sin(X), "x")
    assert float(found) == pytest.approx(np.sin(1.5), rel=1e-12)
    assert float(fb.integrate(3.0 * fb.Delta(x=1.5), fb.ops.sin(X), "x")) == pytest.approx(3 * np.sin(1.5), rel=1e-12)


def test_any_function_under_atoms() -> None:
    f = (fb.Delta(x=fb.Array(LOC)[K]) * fb.Table(2.0 * W, ("k",))).sum("k")
    assert float(fb.expectation(f, fb.ops.exp(X), "x")) == pytest.approx(W @ np.exp(LOC), rel=1e-12)
    assert float(fb.integrate(f, fb.ops.exp(X), "x")) == pytest.approx(2 * W @ np.exp(LOC), rel=1e-12)


def test_under_a_delta_that_depends_on_a_gaussian() -> None:
    """x = 2y − 1 with y normal."""
    f = fb.Delta(x=2.0 * Y - 1.0) * dist.Normal(0.3, 1.2)("y")
    assert float(fb.expectation(f, X * Y, "x", "y")) == pytest.approx(2 * (1.44 + 0.09) - 0.3, rel=1e-9)
    assert float(fb.expectation(f, X * X, "x")(y=0.5)) == pytest.approx(0.0, abs=1e-12)


def test_under_spike_and_slab() -> None:
    f = 0.25 * fb.Delta(x=1.5) + 0.75 * dist.Normal(0.0, 1.0)("x")
    assert float(fb.expectation(f, X * X, "x")) == pytest.approx(0.25 * 2.25 + 0.75, rel=1e-12)


def test_gaussian_given_a_delta() -> None:
    """The Delta of one name, the Gaussian of another, in one product."""
    f = fb.Delta(x=1.5) * dist.Normal(2.0 * X, 0.5)("y")
    assert float(fb.expectation(f, X * Y * Y, "x", "y")) == pytest.approx(1.5 * (9.0 + 0.25), rel=1e-9)


# -- densities ------------------------------------------------------------------------------------------------------


def test_affine_under_a_density() -> None:
    f = dist.Gamma(2.0, 3.0)("g")
    assert float(fb.expectation(f, 4.0 * G + 1.0, "g")) == pytest.approx(4 * 2 / 3 + 1, rel=1e-12)


def test_affine_under_a_scaled_density() -> None:
    """A constant beside it changes the integral only."""
    f = 5.0 * dist.Gamma(2.0, 3.0)("g")
    assert float(fb.expectation(f, 1.0 * G, "g")) == pytest.approx(2 / 3, rel=1e-12)
    assert float(fb.integrate(f, 1.0 * G, "g")) == pytest.approx(10 / 3, rel=1e-12)


def test_counts() -> None:
    n = fb.Variable("n", fb.Nat)
    assert float(fb.expectation(dist.Poisson(1.7)("n"), 1.0 * n, "n")) == pytest.approx(1.7, rel=1e-12)
    m = fb.Variable("m", fb.Bint[5])
    found = fb.expectation(dist.Binomial(4, 0.3)("m"), m * m * 1.0, "m")
    assert float(found) == pytest.approx(4 * 0.21 + 1.44, rel=1e-12)


def test_conditional_density() -> None:
    """E[n | g] of a Poisson is g."""
    n = fb.Variable("n", fb.Nat)
    found = fb.expectation(dist.Poisson(G)("n"), 2.0 * n, "n")
    assert float(found(g=1.3)) == pytest.approx(2.6, rel=1e-12)


# -- errors ---------------------------------------------------------------------------------------------------------

BLOCKED: dict[str, Callable[[], Any]] = {
    "degree three": lambda: fb.expectation(dist.Normal(0.0, 1.0)("x"), X * X * X, "x"),
    "exponential": lambda: fb.expectation(dist.Normal(0.0, 1.0)("x"), fb.ops.exp(X), "x"),
    "lifted": lambda: fb.expectation(dist.Normal(0.0, 1.0)("x"), fb.lift(jnp.sin)(X), "x"),
    "absolute": lambda: fb.expectation(dist.Normal(0.0, 1.0)("x"), fb.ops.absolute(X), "x"),
    "test of a value": lambda: fb.expectation(
        dist.Normal(0.0, 1.0)("x"), fb.ops.where(fb.ops.less(X, 0.0), 1.0, 0.0), "x"
    ),
    "reciprocal": lambda: fb.expectation(dist.Normal(0.0, 1.0)("x"), 1.0 / X, "x"),
    "under a mixture": lambda: fb.expectation(mixture(), fb.ops.exp(X), "x"),
    "integral": lambda: fb.integrate(dist.Normal(0.0, 1.0)("x"), fb.ops.exp(X), "x"),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_no_closed_form(name: str) -> None:
    with pytest.raises(Intractable, match="'x'") as caught:
        BLOCKED[name]()
    assert "expectation" in str(caught.value) and "expected:" in str(caught.value) and "to do:" in str(caught.value)


def test_square_under_a_density() -> None:
    """Mean and variance of a family are used: E[g²] = E[g]² + Var[g]. Of a cube nothing is known."""
    assert float(fb.expectation(dist.Gamma(2.0, 3.0)("g"), G * G, "g")) == pytest.approx(4 / 9 + 2 / 9)
    with pytest.raises(Intractable, match="'g'"):
        fb.expectation(dist.Gamma(2.0, 3.0)("g"), G * G * G, "g")


def test_blocked_factor() -> None:
    f = dist.LogNormal(0.0, 1.0)("g") * dist.Poisson(G)(2)
    with pytest.raises(Intractable, match="'g'"):
        fb.expectation(f, 1.0 * G, "g")


def test_improper_factor() -> None:
    with pytest.raises(fb.FubiniError, match="'x'"):
        fb.expectation(fb.weight(log=0.0 * X), X, "x")


@pytest.mark.parametrize("ask", [fb.expectation, fb.integrate])
def test_unknown_name(ask: Callable) -> None:
    with pytest.raises(fb.FubiniError, match="'z'"):
        ask(table(), 1.0 * A, "z")


@pytest.mark.parametrize("ask", [fb.expectation, fb.integrate])
def test_one_name_with_two_domains(ask: Callable) -> None:
    with pytest.raises(fb.FubiniError, match="'a'"):
        ask(table(), fb.Variable("a", fb.Real), "a")


# -- under transformations ------------------------------------------------------------------------------------------


def second_moment(loc: Any) -> Any:
    f = dist.Normal(loc, 1.2)("x") * dist.Normal(X, 0.9)(1.4)
    return fb.expectation(f, X * X, "x").data


def right_second_moment(loc: float) -> float:
    precision = 1 / 1.44 + 1 / 0.81
    mean = (loc / 1.44 + 1.4 / 0.81) / precision
    return mean**2 + 1 / precision


def test_jit() -> None:
    assert float(jax.jit(second_moment)(0.3)) == pytest.approx(right_second_moment(0.3), rel=1e-5)


def test_grad() -> None:
    precision = 1 / 1.44 + 1 / 0.81
    mean = (0.3 / 1.44 + 1.4 / 0.81) / precision
    with jax.enable_x64(True):
        assert float(jax.grad(second_moment)(0.3)) == pytest.approx(2 * mean / 1.44 / precision, rel=1e-9)
        assert float(jax.grad(jax.grad(second_moment))(0.3)) == pytest.approx(2 / 1.44**2 / precision**2, rel=1e-9)


def test_vmap() -> None:
    at = np.array([0.3, -1.0, 2.0])
    found = jax.vmap(second_moment)(jnp.asarray(at))
    np.testing.assert_allclose(found, [right_second_moment(loc) for loc in at], rtol=1e-4)


def test_grad_through_weights() -> None:
    """d/dw of a ratio of sums, at a zero weight too."""

    def mean(w: Any) -> Any:
        return fb.expectation(fb.Table(w, ("k",)), K * K * 1.0, "k").data

    w = np.array([0.5, 0.0, 2.0])
    found = jax.grad(mean)(jnp.asarray(w))
    right = (np.arange(3) ** 2 - (np.arange(3) ** 2 @ w) / w.sum()) / w.sum()
    np.testing.assert_allclose(found, right, rtol=1e-5)


def test_grad_through_the_value() -> None:
    found = jax.grad(lambda c: fb.integrate(2.0 * dist.Normal(0.3, 1.2)("x"), c * X * X, "x").data)(1.7)
    assert float(found) == pytest.approx(2 * (1.44 + 0.09), rel=1e-5)


def test_mixture_under_jit_and_grad() -> None:
    def second(w: Any) -> Any:
        return fb.expectation((fb.Table(w, ("k",)) * normals()).sum("k"), X * X, "x").data

    each = LOC**2 + SCALE**2
    assert float(jax.jit(second)(jnp.asarray(W))) == pytest.approx(W @ each, rel=1e-5)
    np.testing.assert_allclose(jax.grad(second)(jnp.asarray(W)), each - W @ each, rtol=1e-4)


def test_integral_of_nothing_under_jit() -> None:
    """A table without mass, known only when it runs: an integral of zero, an expectation that is NaN."""
    zero = jnp.zeros(3)
    assert float(jax.jit(lambda w: fb.integrate(fb.Table(w, ("k",)), 1.0 * K, "k").data)(zero)) == 0.0
    assert np.isnan(jax.jit(lambda w: fb.expectation(fb.Table(w, ("k",)), 1.0 * K, "k").data)(zero))


def test_engine_follows_the_data() -> None:
    f = dist.Normal(0.3, 1.2)("x")
    assert isinstance(fb.expectation(f, X * X, "x").data, np.ndarray | np.floating)
    assert isinstance(fb.expectation(dist.Normal(jnp.asarray(0.3), 1.2)("x"), X * X, "x").data, jax.Array)
