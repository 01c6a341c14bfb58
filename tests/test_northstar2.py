"""The north-star program 2 as written, with the values it promises, on NumPy and JAX data, and its derivatives."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist

RNG = np.random.default_rng(2)
DATA = RNG.normal(1.0, 1.5, 7)
ENGINES = [pytest.param(np.asarray, id="numpy"), pytest.param(jnp.asarray, id="jax")]
every_engine = pytest.mark.parametrize("engine", ENGINES)


def tolerance(engine: Callable) -> float:
    return 1e-12 if engine is np.asarray else 1e-5


def lognormal(at: float, mean: float, deviation: float) -> float:
    return float(stats.norm(mean, deviation).logpdf(at))


@pytest.fixture
def p() -> fb.Factor:
    return dist.Normal(0.0, 1.0)("x") * dist.Normal(2.0, 1.0)("x")


@pytest.fixture(params=ENGINES)
def p_of_arrays(request: pytest.FixtureRequest) -> tuple[fb.Factor, float]:
    engine = request.param
    made = [dist.Normal(engine(loc), engine(1.0))("x") for loc in (0.0, 2.0)]
    return made[0] * made[1], tolerance(engine)


# -- p = Normal(0, 1)("x") * Normal(2, 1)("x") ------------------------------------------------------------------------


def test_a_density_applied_to_a_name_is_a_factor(p: fb.Factor) -> None:
    assert isinstance(dist.Normal(0.0, 1.0)("x"), fb.Factor)
    assert isinstance(p, fb.Factor) and p.inputs == {"x": fb.Real}


def test_a_density_applied_to_a_value_is_a_factor() -> None:
    x = fb.Variable("x", fb.Real)
    f = dist.Normal(0.0, 1.0)(2.0 * x + 1.0)
    assert isinstance(f, fb.Factor) and f.inputs == {"x": fb.Real}
    assert float(f(x=0.4).log()) == pytest.approx(lognormal(1.8, 0, 1), abs=1e-12)


def test_log_of_the_sum(p: fb.Factor) -> None:
    assert float(p.sum("x").log()) == pytest.approx(-2.265512, abs=5e-7)
    assert float(p.sum("x").log()) == pytest.approx(-math.log(4 * math.pi) / 2 - 1, abs=1e-14)


def test_log_of_the_sum_of_arrays(p_of_arrays: tuple[fb.Factor, float]) -> None:
    p, small = p_of_arrays
    assert float(p.sum("x").log()) == pytest.approx(-math.log(4 * math.pi) / 2 - 1, abs=small)


def test_mean_and_variance(p: fb.Factor) -> None:
    mean, variance = p.mean("x"), p.variance("x")
    assert isinstance(mean, fb.Value) and isinstance(variance, fb.Value)
    assert float(mean) == pytest.approx(1.0, abs=1e-14)
    assert float(variance) == pytest.approx(0.5, abs=1e-14)


def test_mean_and_variance_of_arrays(p_of_arrays: tuple[fb.Factor, float]) -> None:
    p, small = p_of_arrays
    assert float(p.mean("x")) == pytest.approx(1.0, abs=small)
    assert float(p.variance("x")) == pytest.approx(0.5, abs=small)


@pytest.mark.parametrize("at", [0.3, -4.0, 25.0])
def test_division(p: fb.Factor, at: float) -> None:
    found = float((p / dist.Normal(2.0, 1.0)("x"))(x=at).log())
    assert found == pytest.approx(lognormal(at, 0, 1), rel=1e-12)


def test_division_then_the_sum(p: fb.Factor) -> None:
    assert float((p / dist.Normal(2.0, 1.0)("x")).sum("x")) == pytest.approx(1.0, abs=1e-12)


def test_division_past_the_unit_is_improper(p: fb.Factor) -> None:
    """What is divided by itself twice has no finite integral: an error, not a number."""
    wide = p / dist.Normal(2.0, 1.0)("x") / dist.Normal(0.0, 1.0)("x") / dist.Normal(0.0, 1.0)("x")
    with pytest.raises(fb.FubiniError, match=r"improper|indefinite|no finite"):
        float(wide.sum("x"))


@pytest.mark.parametrize("power", [0.5, 2.0, 1.7])
def test_power_is_exact(p: fb.Factor, power: float) -> None:
    raised = p**power
    oracle, _ = integrate.quad(lambda v: (stats.norm.pdf(v) * stats.norm.pdf(v, 2)) ** power, -30, 32, limit=400)
    assert float(raised(x=0.3).log()) == pytest.approx(power * (lognormal(0.3, 0, 1) + lognormal(0.3, 2, 1)), rel=1e-12)
    assert float(raised.sum("x")) == pytest.approx(oracle, rel=1e-9)
    assert raised.sum("x").exactness.is_exact


def test_max_is_exact(p: fb.Factor) -> None:
    peak = p.max("x")
    assert float(peak.log()) == pytest.approx(2 * lognormal(1.0, 0, 1), rel=1e-12)
    assert peak.exactness.is_exact
    assert float(p.argmax("x")["x"]) == pytest.approx(1.0, abs=1e-12)
    assert float((p**0.5).max("x").log()) == pytest.approx(lognormal(1.0, 0, 1), rel=1e-12)


# -- q = Normal(2 x + y[0], 0.5)("z") * MultivariateNormal(0, 1)("y") -------------------------------------------------


def make_q(engine: Callable) -> fb.Factor:
    x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Reals[2])
    return dist.Normal(2.0 * x + y[0], 0.5)("z") * dist.MultivariateNormal(engine(np.zeros(2)), engine(np.eye(2)))("y")


@every_engine
def test_sum_of_y_is_a_gaussian_over_x_and_z(engine: Callable) -> None:
    """∫ N(z; 2x + y₀, ½) N(y; 0, 1) dy  =  N(z; 2x, √1.25), of rank one in two variables."""
    found = make_q(engine).sum("y")
    assert isinstance(found, fb.Gaussian) and set(found.inputs) == {"x", "z"}
    assert found.exactness.is_exact
    for x, z in RNG.normal(0, 3, (5, 2)):
        expected = lognormal(z, 2 * x, math.sqrt(1.25))
        assert float(found(x=x, z=z).log()) == pytest.approx(expected, rel=10 * tolerance(engine))


@every_engine
def test_rank_deficient_legally(engine: Callable) -> None:
    """It may be summed over z, or over x, or over both with a prior; over both alone is an error that says so."""
    found = make_q(engine).sum("y")
    small = 10 * tolerance(engine)
    assert float(found.sum("z")(x=3.0).log()) == pytest.approx(0.0, abs=small)
    assert float(found.sum("x")(z=3.0).log()) == pytest.approx(-math.log(2), abs=small)
    assert float((found * dist.Normal(1.0, 2.0)("x")).sum("x", "z").log()) == pytest.approx(0.0, abs=small)
    with pytest.raises(fb.FubiniError, match=r"prior|improper|singular|determine"):
        float(found.sum("x", "z"))


@every_engine
def test_posterior_of_y(engine: Callable) -> None:
    """At x and z it is a linear regression; the joint-normal formula."""
    found = make_q(engine)(x=0.5, z=3.0)
    small = 10 * tolerance(engine)
    np.testing.assert_allclose(found.mean("y").data, [2.0 / 1.25, 0.0], atol=small)
    np.testing.assert_allclose(found.covariance("y").data, [[0.2, 0], [0, 1]], atol=small)


# -- Deltas -----------------------------------------------------------------------------------------------------------


def test_sum_of_a_delta_puts_the_point_in(p: fb.Factor) -> None:
    found = (p * fb.Delta(x=1.5)).sum("x")
    assert float(found.log()) == pytest.approx(lognormal(1.5, 0, 1) + lognormal(1.5, 2, 1), rel=1e-13)
    assert found.exactness.is_exact


def test_a_delta_times_arrays(p_of_arrays: tuple[fb.Factor, float]) -> None:
    p, small = p_of_arrays
    found = (p * fb.Delta(x=1.5)).sum("x")
    assert float(found.log()) == pytest.approx(lognormal(1.5, 0, 1) + lognormal(1.5, 2, 1), rel=small)


# -- plates -----------------------------------------------------------------------------------------------------------


def evidence(data: np.ndarray, mean: float, deviation: float, noise: float) -> float:
    """The joint normal of data with a common location integrated out."""
    n = len(data)
    return stats.multivariate_normal(np.full(n, mean), noise**2 * np.eye(n) + deviation**2).logpdf(data)


@every_engine
def test_a_plate_is_one_factor_for_each_datum(engine: Callable) -> None:
    x = fb.Variable("x", fb.Real)
    lik = dist.Normal(x, 1.0)(fb.Array(engine(DATA), ("i",))).product("i")
    assert lik.inputs == {"x": fb.Real}
    expected = stats.norm(0.7, 1).logpdf(DATA).sum()
    assert float(lik(x=0.7).log()) == pytest.approx(expected, rel=10 * tolerance(engine))


@every_engine
def test_log_evidence_of_a_plate(engine: Callable) -> None:
    x = fb.Variable("x", fb.Real)
    lik = dist.Normal(x, 1.0)(fb.Array(engine(DATA), ("i",))).product("i")
    found = (dist.Normal(0.0, 10.0)("x") * lik).sum("x").log()
    assert isinstance(found, fb.Value) and not found.inputs
    assert float(found) == pytest.approx(evidence(DATA, 0, 10, 1), rel=10 * tolerance(engine))
    assert isinstance(found.data, jax.Array) == (engine is jnp.asarray)


def log_evidence(mean: jax.Array, deviation: jax.Array, noise: jax.Array, data: jax.Array) -> jax.Array:
    x = fb.Variable("x", fb.Real)
    lik = dist.Normal(x, noise)(fb.Array(data, ("i",))).product("i")
    return (dist.Normal(mean, deviation)("x") * lik).sum("x").log().data


POINT = (0.5, 3.0, 1.3, DATA)


def differences(fn: Callable, at: tuple, step: float = 1e-5) -> list[np.ndarray]:
    """Central differences in every entry of every argument."""
    found = []
    for k, arg in enumerate(at):
        flat = np.asarray(arg, float).ravel()
        slopes = np.zeros(flat.shape)
        for entry in range(flat.size):
            ends = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[entry] += sign * step
                ends.append(float(fn(*at[:k], moved.reshape(np.shape(arg)), *at[k + 1 :])))
            slopes[entry] = (ends[0] - ends[1]) / (2 * step)
        found.append(slopes.reshape(np.shape(arg)))
    return found


def test_log_evidence_is_differentiable_in_every_parameter() -> None:
    """Mean, deviation, noise and each datum, against differences of the joint-normal formula."""
    expected = differences(lambda m, s, n, d: evidence(d, float(m), float(s), float(n)), POINT)
    with jax.enable_x64(True):
        arguments = tuple(map(jnp.asarray, POINT))
        found = jax.jit(jax.grad(log_evidence, (0, 1, 2, 3)))(*arguments)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)


def test_log_evidence_in_single_precision() -> None:
    expected = differences(lambda m, s, n, d: evidence(d, float(m), float(s), float(n)), POINT)
    found = jax.jit(jax.grad(log_evidence, (0, 1, 2, 3)))(*map(jnp.asarray, POINT))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_second_derivatives_of_log_evidence() -> None:
    with jax.enable_x64(True):
        point = jnp.asarray(POINT[:3])

        def fn(theta: jax.Array) -> jax.Array:
            return log_evidence(theta[0], theta[1], theta[2], jnp.asarray(DATA))

        found = np.asarray(jax.jit(jax.hessian(fn))(point))
        gradient = jax.jit(jax.grad(fn))
        expected = [
            (gradient(point.at[k].add(1e-5)) - gradient(point.at[k].add(-1e-5))) / 2e-5 for k in range(len(point))
        ]
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-6, atol=1e-7)


def test_log_evidence_under_vmap() -> None:
    means = jnp.asarray([-1.0, 0.0, 2.0])
    found = jax.jit(jax.vmap(lambda m: log_evidence(m, 3.0, 1.3, jnp.asarray(DATA))))(means)
    np.testing.assert_allclose(found, [evidence(DATA, m, 3.0, 1.3) for m in (-1, 0, 2)], rtol=1e-5)


# -- m = a Mixture ----------------------------------------------------------------------------------------------------


def make_mixture(engine: Callable) -> fb.Factor:
    located = dist.Normal(fb.Array(engine(np.array([-1.0, 1.0])), ("k",)), 1.0)("x")
    return (fb.Table([0.3, 0.7], ("k",)) * located).sum("k")


@every_engine
def test_a_sum_over_k_is_an_exact_mixture(engine: Callable) -> None:
    m = make_mixture(engine)
    assert isinstance(m, fb.Mixture) and m.inputs == {"x": fb.Real} and m.exactness.is_exact
    small = 10 * tolerance(engine)
    for at in (-3.0, 0.5, 4.0):
        expected = 0.3 * stats.norm.pdf(at, -1) + 0.7 * stats.norm.pdf(at, 1)
        assert float(m(x=at)) == pytest.approx(expected, rel=small)
    assert float(m(x=0.5).log()) == pytest.approx(-1.254210, abs=5e-7 + small)


@every_engine
def test_moments_and_mass_of_the_mixture(engine: Callable) -> None:
    m = make_mixture(engine)
    small = 10 * tolerance(engine)
    assert float(m.sum("x")) == pytest.approx(1.0, rel=small)
    assert float(m.mean("x")) == pytest.approx(0.4, rel=small)
    assert float(m.variance("x")) == pytest.approx(1.84, rel=small)


def test_the_mixture_as_written() -> None:
    """Weights in a list, locations in JAX's array: the answer is JAX's."""
    m = (
        fb.Table([0.3, 0.7], ("k",)) * dist.Normal(fb.Array(jnp.array([-1.0, 1.0]), ("k",)), 1.0)("x")
    ).sum("k")  # fmt: skip
    assert isinstance(m, fb.Mixture) and isinstance(m(x=0.5).log().data, jax.Array)


def test_mixture_is_differentiable_in_every_parameter() -> None:
    def log_density(weights: jax.Array, locations: jax.Array, scale: jax.Array, at: jax.Array) -> jax.Array:
        mixed = fb.Table(weights, ("k",)) * dist.Normal(fb.Array(locations, ("k",)), scale)("x")
        return mixed.sum("k")(x=at).log().data

    def oracle(weights: np.ndarray, locations: np.ndarray, scale: float, at: float) -> float:
        return float(np.log(np.sum(weights * stats.norm.pdf(at, locations, scale))))

    point = (np.array([0.3, 0.7]), np.array([-1.0, 1.0]), 1.2, 0.5)
    with jax.enable_x64(True):
        arguments = tuple(map(jnp.asarray, point))
        found = jax.jit(jax.grad(log_density, (0, 1, 2, 3)))(*arguments)
    for mine, theirs in zip(found, differences(oracle, point), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)


# -- Gaussian and lift ------------------------------------------------------------------------------------------------


def arrays_of_gaussian() -> tuple[np.ndarray, np.ndarray]:
    root = RNG.normal(size=(4, 3, 5))
    return RNG.normal(size=(4, 3)), root @ np.swapaxes(root, -1, -2)


@pytest.mark.parametrize("engine", [ENGINES[0], pytest.param(jnp.asarray, id="jax", marks=pytest.mark.slow)])
def test_gaussian_of_arrays_with_a_leading_batch_axis(engine: Callable) -> None:
    h0, K0 = arrays_of_gaussian()
    f = fb.Gaussian(
        info=engine(h0), precision=engine(K0), inputs={"i": fb.Bint[4], "u": fb.Real, "v": fb.Reals[2]}
    )  # fmt: skip
    assert f.inputs == {"i": fb.Bint[4], "u": fb.Real, "v": fb.Reals[2]}
    small = 100 * tolerance(engine)
    for i in range(4):
        z = RNG.normal(size=3)
        expected = h0[i] @ z - z @ K0[i] @ z / 2
        assert float(f(i=i, u=z[0], v=z[1:]).log()) == pytest.approx(expected, rel=small)
        _, logdet = np.linalg.slogdet(K0[i])
        mass = h0[i] @ np.linalg.solve(K0[i], h0[i]) / 2 - logdet / 2 + 1.5 * math.log(2 * math.pi)
        assert float(f.sum("u", "v")(i=i).log()) == pytest.approx(mass, rel=small, abs=small)
        np.testing.assert_allclose(
            f(i=i).sum("u").mean("v").data, np.linalg.solve(K0[i], h0[i])[1:], rtol=10 * small, atol=10 * small
        )


def test_gaussian_is_differentiable_in_its_arrays() -> None:
    h0, K0 = arrays_of_gaussian()

    def total(info: jax.Array, root: jax.Array) -> jax.Array:
        precision = root @ jnp.swapaxes(root, -1, -2)
        f = fb.Gaussian(info=info, precision=precision, inputs={"i": fb.Bint[4], "u": fb.Real, "v": fb.Reals[2]})
        return f.sum("u", "v").product("i").log().data

    def oracle(info: np.ndarray, root: np.ndarray) -> float:
        precision = root @ np.swapaxes(root, -1, -2)
        quadratic = np.einsum("ia,iab,ib->", info, np.linalg.inv(precision), info) / 2
        return float(quadratic - np.linalg.slogdet(precision)[1].sum() / 2 + 4 * 1.5 * math.log(2 * math.pi))

    point = (h0, np.linalg.cholesky(K0))
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(total, (0, 1)))(*map(jnp.asarray, point))
    for mine, theirs in zip(found, differences(oracle, point), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_any_jax_function_of_values_is_a_value() -> None:
    x = fb.Variable("x", fb.Real)
    found = fb.lift(jnp.tanh)(x)
    assert isinstance(found, fb.Value) and found.inputs == {"x": fb.Real}
    assert float(found(x=0.3)) == pytest.approx(math.tanh(0.3), abs=1e-12)


def test_a_density_of_a_lifted_value_can_be_evaluated_and_says_what_blocks_its_sum() -> None:
    x = fb.Variable("x", fb.Real)
    f = dist.Normal(fb.lift(jnp.tanh)(x), 0.5)(0.2) * dist.Normal(0.0, 1.0)("x")
    expected = lognormal(0.2, math.tanh(1.1), 0.5) + lognormal(1.1, 0, 1)
    assert float(f(x=1.1).log()) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(fb.FubiniError, match=r"'x'[\s\S]*tanh"):
        float(f.sum("x"))
