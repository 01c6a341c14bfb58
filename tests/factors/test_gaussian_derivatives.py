"""First and second derivatives of evidence, moments and maxima against finite differences, in double precision."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist, ops

DATA = (0.3, -1.2, 2.0, 0.7, 1.1)
X, Y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
V = fb.Variable("v", fb.Reals[2])


def first(function: Callable, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of an oracle in NumPy."""
    found = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[index] = step
        found[index] = (function(at + move) - function(at - move)) / (2 * step)
    return found


def second(function: Callable, at: np.ndarray, step: float = 1e-4) -> np.ndarray:
    columns = [first(lambda p, i=i: first(function, p, step)[i], at, step) for i in range(len(at))]
    return np.stack(columns)


class Question(NamedTuple):
    """A number asked of the library in parameters θ, its oracle in NumPy, and where to ask."""

    ask: Callable
    oracle: Callable
    at: list[float]


def shared_scale(t):
    likelihood = dist.Normal(X, jnp.exp(t[1]))(fb.Array(jnp.array(DATA), ("i",)))
    return (dist.Normal(t[0], jnp.exp(t[2]))("x") * likelihood.product("i")).sum("x").log().data


def shared_scale_oracle(t):
    covariance = np.exp(2 * t[2]) * np.ones((5, 5)) + np.exp(2 * t[1]) * np.eye(5)
    return stats.multivariate_normal(np.full(5, t[0]), covariance).logpdf(DATA)


def information(t):
    """A Gaussian given by location and precision, over a scalar and a vector."""
    root = jnp.array([[1.0, 0.2, 0.0], [0.0, 1.0, -0.3], [0.4, 0.0, 1.0]]) * t[3]
    K = root @ root.T + jnp.diag(jnp.exp(t[:3]))
    return root, K


def gaussian(t):
    _, K = information(t)
    f = fb.Gaussian(info=t[:3] * t[4], precision=K, log_scale=t[4] ** 2, inputs={"x": fb.Real, "v": fb.Reals[2]})
    return f.sum("x", "v").log().data


def gaussian_oracle(t):
    root = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, -0.3], [0.4, 0.0, 1.0]]) * t[3]
    K, h = root @ root.T + np.diag(np.exp(t[:3])), t[:3] * t[4]
    return t[4] ** 2 + 0.5 * (3 * np.log(2 * np.pi) - np.linalg.slogdet(K)[1] + h @ np.linalg.solve(K, h))


def partly(t):
    """∫ over x, then evaluated at v."""
    _, K = information(t)
    f = fb.Gaussian(info=t[:3] * t[4], precision=K, log_scale=t[4] ** 2, inputs={"x": fb.Real, "v": fb.Reals[2]})
    return f.sum("x")(v=jnp.array([0.3, -0.7])).log().data


def partly_oracle(t):
    root = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, -0.3], [0.4, 0.0, 1.0]]) * t[3]
    K, h, v = root @ root.T + np.diag(np.exp(t[:3])), t[:3] * t[4], np.array([0.3, -0.7])
    b = h[0] - K[0, 1:] @ v
    log = t[4] ** 2 + h[1:] @ v - 0.5 * v @ K[1:, 1:] @ v
    return log + 0.5 * (np.log(2 * np.pi / K[0, 0]) + b * b / K[0, 0])


def by(kind: str, location: str = "mean") -> Callable:
    """Evidence through each way of giving a matrix."""

    def ask(t):
        L = jnp.array([[jnp.exp(t[0]), 0.0], [t[1], jnp.exp(t[2])]])
        matrix = {"scale_tril": L, "covariance": L @ L.T, "precision": L @ L.T, "precision_sqrt": L}[kind]
        f = fb.Gaussian(**{location: t[3:5], kind: matrix}, inputs={"v": fb.Reals[2]})
        return (f * dist.MultivariateNormal(jnp.ones(2), jnp.eye(2))("v")).sum("v").log().data

    return ask


def by_oracle(kind: str, location: str = "mean") -> Callable:
    def oracle(t):
        L = np.array([[np.exp(t[0]), 0.0], [t[1], np.exp(t[2])]])
        K = L @ L.T if kind in ("precision", "precision_sqrt") else np.linalg.inv(L @ L.T)
        h = K @ t[3:5] if location == "mean" else t[3:5]
        P, q = K + np.eye(2), h + np.ones(2)
        return (
            -np.log(2 * np.pi)
            - 1.0
            + 0.5 * (2 * np.log(2 * np.pi) - np.linalg.slogdet(P)[1] + q @ np.linalg.solve(P, q))
        )

    return oracle


def multivariate(key: str) -> Callable:
    def ask(t):
        L = jnp.array([[jnp.exp(t[0]), 0.0], [t[1], jnp.exp(t[2])]])
        M = {"scale_tril": L, "covariance_matrix": L @ L.T, "precision_matrix": L @ L.T}[key]
        A = jnp.array([[1.0, t[3]], [0.5, -1.0]])
        joint = dist.MultivariateNormal(A @ V + t[4], **{key: M})(jnp.array([1.0, 2.0])) * dist.Normal(
            jnp.zeros(2), 1.0
        )("v")
        return joint.sum("v").log().data

    return ask


def multivariate_oracle(key: str) -> Callable:
    def oracle(t):
        L = np.array([[np.exp(t[0]), 0.0], [t[1], np.exp(t[2])]])
        S = np.linalg.inv(L @ L.T) if key == "precision_matrix" else L @ L.T
        A = np.array([[1.0, t[3]], [0.5, -1.0]])
        return stats.multivariate_normal(np.full(2, t[4]), A @ A.T + S).logpdf([1.0, 2.0])

    return oracle


def lifted(t):
    """Parameters inside a lifted function: the mean is tanh(t₀) x + t₁² in it."""
    mean = fb.lift(lambda x, a: jnp.tanh(a[0]) * x + a[1] ** 2)(X, fb.Array(t))
    return (dist.Normal(0.0, 2.0)("x") * dist.Normal(mean, jnp.exp(t[2]))(1.5)).sum("x").log().data


def closed_over(t):
    """The same, the parameters closed over."""
    mean = fb.lift(lambda x: jnp.tanh(t[0]) * x + t[1] ** 2)(X)
    return (dist.Normal(0.0, 2.0)("x") * dist.Normal(mean, jnp.exp(t[2]))(1.5)).sum("x").log().data


def by_ops(t):
    """The same through fb.ops on Values."""
    a, b = fb.Array(t[0]), fb.Array(t[1])
    mean = ops.tanh(a) * X + b * b
    return (dist.Normal(0.0, 2.0)("x") * dist.Normal(mean, ops.exp(fb.Array(t[2])))(1.5)).sum("x").log().data


def lifted_oracle(t):
    slope = np.tanh(t[0])
    return stats.norm(t[1] ** 2, np.sqrt(4 * slope**2 + np.exp(2 * t[2]))).logpdf(1.5)


def chain(t):
    """A random walk of four states with an unknown slope and noises, seen at each."""
    x = [fb.Variable(f"x{k}", fb.Real) for k in range(4)]
    factors = [dist.Normal(t[3], 1.0)("x0")]
    factors += [dist.Normal(t[0] * x[k - 1], jnp.exp(t[1]))(x[k]) for k in range(1, 4)]
    factors += [dist.Normal(x[k], jnp.exp(t[2]))(DATA[k]) for k in range(4)]
    return fb.eliminate(factors, sum=[f"x{k}" for k in range(4)]).log().data


def chain_oracle(t):
    mean, covariance = np.zeros(4), np.zeros((4, 4))
    mean[0], covariance[0, 0] = t[3], 1.0
    for k in range(1, 4):
        mean[k] = t[0] * mean[k - 1]
        covariance[k, :k] = covariance[:k, k] = t[0] * covariance[k - 1, :k]
        covariance[k, k] = t[0] ** 2 * covariance[k - 1, k - 1] + np.exp(2 * t[1])
    return stats.multivariate_normal(mean, covariance + np.exp(2 * t[2]) * np.eye(4)).logpdf(DATA[:4])


def mixture(t):
    weights = fb.Table.from_log(jnp.stack([t[0], 0.0 * t[0]]), ("k",))
    component = dist.Normal(fb.Array(t[1:3], ("k",)), jnp.exp(t[3]))("x") * dist.Normal(X, 0.5)(0.4)
    return (weights * component).sum("x", "k").log().data


def mixture_oracle(t):
    sd = np.sqrt(np.exp(2 * t[3]) + 0.25)
    return np.log(np.exp(t[0]) * stats.norm(t[1], sd).pdf(0.4) + stats.norm(t[2], sd).pdf(0.4))


def batch(t):
    """Σ_i over the cells of a batched Gaussian, a zero weight in one of them."""
    f = fb.Gaussian(
        info=jnp.stack([t[:1], t[1:2], t[:1] * t[1:2]]),
        precision=jnp.exp(t[2]) * jnp.ones((1, 1)),
        inputs={"i": fb.Bint[3], "x": fb.Real},
    )
    return (fb.Table(jnp.array([0.5, 0.0, 2.0]), ("i",)) * f).sum("x", "i").log().data


def batch_oracle(t):
    k = np.exp(t[2])
    h = np.array([t[0], t[1], t[0] * t[1]])
    return np.log(np.sum(np.array([0.5, 0.0, 2.0]) * np.sqrt(2 * np.pi / k) * np.exp(0.5 * h * h / k)))


def quotient(t):
    """(p / q) p with precisions that must stay positive together."""
    p, q = dist.Normal(t[0], 1.0)("x"), dist.Normal(t[1], jnp.exp(t[2]))("x")
    return (p / q * p).sum("x").log().data


def quotient_oracle(t):
    k = 2 - np.exp(-2 * t[2])
    h = 2 * t[0] - t[1] * np.exp(-2 * t[2])
    g = -(t[0] ** 2) + 0.5 * t[1] ** 2 * np.exp(-2 * t[2]) - 0.5 * np.log(2 * np.pi) + t[2]
    return g + 0.5 * (np.log(2 * np.pi / k) + h * h / k)


def power(t):
    return (dist.Normal(t[0], jnp.exp(t[1]))("x") ** t[2]).sum("x").log().data


def power_oracle(t):
    return -t[2] * (t[1] + 0.5 * np.log(2 * np.pi)) + 0.5 * np.log(2 * np.pi / t[2]) + t[1]


def maximum(t):
    joint = dist.Normal(t[0], jnp.exp(t[1]))("x") * dist.Normal(t[2] * X, 1.0)(1.5)
    return joint.max("x").log().data


def maximum_oracle(t):
    k = np.exp(-2 * t[1]) + t[2] ** 2
    h = t[0] * np.exp(-2 * t[1]) + 1.5 * t[2]
    g = -np.log(2 * np.pi) - t[1] - 0.5 * (t[0] ** 2 * np.exp(-2 * t[1]) + 2.25)
    return g + 0.5 * h * h / k


def moment(t):
    joint = dist.Normal(t[0], jnp.exp(t[1]))("x") * dist.Normal(t[2] * X, 1.0)(1.5)
    return joint.mean("x").data + joint.variance("x").data ** 2


def moment_oracle(t):
    k = np.exp(-2 * t[1]) + t[2] ** 2
    return (t[0] * np.exp(-2 * t[1]) + 1.5 * t[2]) / k + 1 / k**2


def functionals(t):
    p = dist.Normal(t[0], jnp.exp(t[1]))("x") * dist.Normal(t[2] * X, 1.0)("y")
    q = dist.Normal(0.0, 1.0)("x") * dist.Normal(0.5 * X, 1.3)("y")
    return p.kl(q, "x", "y").data + 2.0 * p.mutual_information("x", "y").data + 3.0 * p.entropy("y").data


def functionals_oracle(t):
    v = np.exp(2 * t[1])
    S, m = np.array([[v, t[2] * v], [t[2] * v, t[2] ** 2 * v + 1]]), np.array([t[0], t[2] * t[0]])
    T = np.array([[1.0, 0.5], [0.5, 0.25 + 1.69]])
    logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    kl = 0.5 * (np.trace(np.linalg.solve(T, S)) + m @ np.linalg.solve(T, m) - 2 + logs)
    information = 0.5 * np.log(v * S[1, 1] / np.linalg.det(S))
    return kl + 2 * information + 1.5 * np.log(2 * np.pi * np.e * S[1, 1])


def expectation(t):
    q = dist.Normal(t[0], jnp.exp(t[1]))("x")
    p = dist.Normal(0.0, 1.0)("x") * dist.Normal(t[2] * X, 1.0)(1.5)
    return fb.expectation(q, p.log() - q.log(), "x").data


def expectation_oracle(t):
    v = np.exp(2 * t[1])
    prior = -0.5 * np.log(2 * np.pi) - 0.5 * (t[0] ** 2 + v)
    likelihood = -0.5 * np.log(2 * np.pi) - 0.5 * ((1.5 - t[2] * t[0]) ** 2 + t[2] ** 2 * v)
    return prior + likelihood + 0.5 * np.log(2 * np.pi * np.e * v)


FIVE = [0.3, -0.2, 0.1, 1.2, 0.8]
# Of the ways to give a matrix those that others do not go through: a scale is a covariance's root, a precision is asked
# with its location, a covariance_matrix with the sensors below.
QUESTIONS = {
    "a shared scale": Question(shared_scale, shared_scale_oracle, [0.2, -0.4, 0.6]),
    "information and precision": Question(gaussian, gaussian_oracle, FIVE),
    "a partial sum at a point": Question(partly, partly_oracle, FIVE),
    "covariance": Question(by("covariance"), by_oracle("covariance"), FIVE),
    "precision_sqrt": Question(by("precision_sqrt", "info"), by_oracle("precision_sqrt", "info"), FIVE),
    "a precision_matrix": Question(multivariate("precision_matrix"), multivariate_oracle("precision_matrix"), FIVE),
    "a multivariate scale_tril": Question(multivariate("scale_tril"), multivariate_oracle("scale_tril"), FIVE),
    "a lifted function": Question(lifted, lifted_oracle, [0.4, 0.7, -0.3]),
    "a lifted function that closes over": Question(closed_over, lifted_oracle, [0.4, 0.7, -0.3]),
    "ops": Question(by_ops, lifted_oracle, [0.4, 0.7, -0.3]),
    "a chain": Question(chain, chain_oracle, [0.9, -0.3, -0.5, 0.2]),
    "a mixture": Question(mixture, mixture_oracle, [0.4, -1.0, 1.2, 0.1]),
    "a batch": Question(batch, batch_oracle, [0.4, -1.0, 0.3]),
    "a quotient": Question(quotient, quotient_oracle, [0.4, -1.0, 0.3]),
    "a power": Question(power, power_oracle, [0.4, -0.2, 1.7]),
    "a maximum": Question(maximum, maximum_oracle, [0.4, -0.2, 1.7]),
    "moments": Question(moment, moment_oracle, [0.4, -0.2, 1.7]),
    "functionals": Question(functionals, functionals_oracle, [0.4, -0.2, 0.7]),
    "an expectation": Question(expectation, expectation_oracle, [0.4, -0.2, 0.7]),
}


QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # compiled once, run once
FAST = ("a shared scale", "information and precision", "a lifted function", "a quotient")


def slope_first(ask: Callable, direction: np.ndarray) -> Callable:
    """The value, the gradient, and the gradient of the slope in one direction: the second derivative times it."""

    def slope(t):
        return jax.jvp(ask, (t,), (jnp.asarray(direction, t.dtype),))[1]

    return jax.jit(lambda t: (*jax.value_and_grad(ask)(t), jax.grad(slope)(t)), compiler_options=QUICK)


def gradient_first(ask: Callable, direction: np.ndarray) -> Callable:
    """The same, the second derivative as the slope of the gradient: a smaller program."""

    def both(t):
        (value, gradient), (_, curvature) = jax.jvp(jax.value_and_grad(ask), (t,), (jnp.asarray(direction, t.dtype),))
        return value, gradient, curvature

    return jax.jit(both, compiler_options=QUICK)


def agrees(ask: Callable, oracle: Callable, at: Sequence[float], along: Callable = gradient_first) -> None:
    """Value, first and second derivatives in double precision."""
    at = np.array(at)
    direction = np.cos(np.arange(len(at)) + 1.0)
    with jax.enable_x64(True):
        value, slope, curvature = along(ask, direction)(jnp.asarray(at))
    np.testing.assert_allclose(value, oracle(at), rtol=1e-9)
    np.testing.assert_allclose(slope, first(oracle, at), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(curvature, second(oracle, at) @ direction, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAST)
def test_value_and_derivatives(name):
    agrees(*QUESTIONS[name], along=slope_first)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in FAST])
def test_value_and_derivatives_of_more(name):
    agrees(*QUESTIONS[name])


# -- by name --------------------------------------------------------------------------------------------------------


def test_golden_derivative_in_a_shared_scale():
    """d/dσ of the evidence of Normal(x, σ) at five data: each datum's constant takes part."""

    def evidence(sigma):
        likelihood = dist.Normal(X, sigma)(fb.Array(jnp.array(DATA), ("i",))).product("i")
        return (dist.Normal(0.0, 2.0)("x") * likelihood).sum("x").log().data

    def oracle(sigma):
        return stats.multivariate_normal(np.zeros(5), 4 * np.ones((5, 5)) + sigma**2 * np.eye(5)).logpdf(DATA)

    with jax.enable_x64(True):
        found = jax.jit(jax.grad(evidence))(0.6)
    assert float(found) == pytest.approx((oracle(0.6 + 1e-6) - oracle(0.6 - 1e-6)) / 2e-6, rel=1e-6)


def sensors(t, order: str):
    """Three sensors of position alone, fused before the prior over position and velocity."""
    state = fb.Variable("s", fb.Reals[4])
    H = jnp.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    seen = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)))
    likelihoods = [dist.MultivariateNormal(H @ state, jnp.exp(t[0]) * jnp.eye(2))(seen[k] + t[1]) for k in range(3)]
    prior = dist.MultivariateNormal(jnp.ones(4) * t[2], jnp.exp(t[3]) * (jnp.eye(4) + 0.3))("s")
    if order == "plate":
        fused = dist.MultivariateNormal(H @ state, jnp.exp(t[0]) * jnp.eye(2))(fb.Array(seen + t[1], ("k",)))
        return (fused.product("k") * prior).sum("s").log().data
    fused = likelihoods[0]
    for likelihood in likelihoods[1:]:
        fused = fused * likelihood
    if order == "joined first":  # into one Gaussian of rank two over four dimensions
        fused = fused / fb.Gaussian(info=jnp.zeros(4), precision=jnp.zeros((4, 4)), inputs={"s": fb.Reals[4]})
    return (fused * prior).sum("s").log().data


def sensors_oracle(t):
    seen = np.random.default_rng(0).normal(size=(3, 2)) + t[1]
    P = np.exp(t[3]) * (np.eye(4) + 0.3)[:2, :2]
    covariance = np.kron(np.ones((3, 3)), P) + np.exp(t[0]) * np.eye(6)
    return stats.multivariate_normal(np.full(6, t[2]), covariance).logpdf(seen.ravel())


LISTED = ("listed", "joined first")
SENSOR_AT = np.array([-0.3, 0.2, 0.1, 0.4])


@pytest.mark.parametrize("order", ["plate", *(pytest.param(order, marks=pytest.mark.slow) for order in LISTED)])
def test_rank_deficient_sensors_fused_before_the_prior(order):
    agrees(lambda t: sensors(t, order), sensors_oracle, SENSOR_AT)


@pytest.mark.slow
def test_rank_deficient_sensors_in_single_precision():
    slope = jax.jit(jax.grad(lambda t: sensors(t, "listed")))(jnp.asarray(SENSOR_AT, jnp.float32))
    np.testing.assert_allclose(slope, first(sensors_oracle, SENSOR_AT), rtol=2e-3, atol=2e-3)


def velocity(t):
    """A sensor of position alone under a transition of position and velocity: the velocity is summed out first."""
    p, v = fb.Variable("p", fb.Real), fb.Variable("v", fb.Real)
    step = dist.Normal(p + v * t[0], jnp.exp(t[1]))("q")
    seen = dist.Normal(fb.Variable("q", fb.Real), 0.5)(1.2) * dist.Normal(p, 0.5)(0.3)
    return (
        (step * seen * dist.Normal(0.0, 2.0)("v") * dist.Normal(0.0, 10.0)("p")).sum("v").sum("q").sum("p").log().data
    )


def velocity_oracle(t):
    p, q = 100.0, 100.0 + 4 * t[0] ** 2 + np.exp(2 * t[1])
    return stats.multivariate_normal([0, 0], [[p + 0.25, p], [p, q + 0.25]]).logpdf([0.3, 1.2])


@pytest.mark.slow
def test_sums_in_turn_of_rank_deficient_factors():
    agrees(velocity, velocity_oracle, [0.7, -0.4])


def test_derivatives_at_a_zero_precision():
    """A factor that knows nothing yet: log ∫ exp(−½ k x²) N(x; 0, 1) dx = −½ log(1 + k) about k = 0."""

    def evidence(t):
        f = fb.Gaussian(info=jnp.zeros(1), precision=t[0] * jnp.ones((1, 1)), inputs={"x": fb.Real})
        return (f * dist.Normal(0.0, 1.0)("x")).sum("x").log().data

    agrees(evidence, lambda t: -0.5 * math.log1p(t[0]), [0.0])


def test_derivatives_at_a_zero_slope():
    """N(1; a x, 1) at a = 0, where the likelihood does not depend on x: evidence N(1; 0.3 a, 1 + a²)."""

    def evidence(t):
        return (dist.Normal(0.3, 1.0)("x") * dist.Normal(t[0] * X, 1.0)(1.0)).sum("x").log().data

    agrees(evidence, lambda t: stats.norm(0.3 * t[0], math.sqrt(1 + t[0] ** 2)).logpdf(1.0), [0.0])


@pytest.mark.slow
def test_derivatives_where_rows_repeat():
    """Equal factors: the stacked rows are linearly dependent, the derivative is finite and right."""

    def evidence(t):
        f = dist.Normal(X + Y, 1.0)(t[0])
        prior = dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, 1.0)("y")
        return (f * f * f * prior).sum("x").sum("y").log().data

    def oracle(t):
        return stats.multivariate_normal(np.zeros(3), 2 * np.ones((3, 3)) + np.eye(3)).logpdf(np.full(3, t[0]))

    agrees(evidence, oracle, [0.7])


def test_the_derivative_of_a_marginals_mean():
    """d E[x₀ | data]/d data through the backward pass: the gain of the joint normal."""

    def mean(data):
        x = [fb.Variable(f"x{k}", fb.Real) for k in range(3)]
        factors = [dist.Normal(0.0, 2.0)("x0"), *(dist.Normal(x[k - 1], 1.0)(x[k]) for k in (1, 2))]
        factors += [dist.Normal(x[k], 0.5)(data[k]) for k in range(3)]
        return fb.marginals(factors, ("x0", "x1", "x2"))["x0"].mean("x0").data

    prior = 4.0 + np.minimum.outer(np.arange(3), np.arange(3))
    gain = prior @ np.linalg.inv(prior + 0.25 * np.eye(3))
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(mean))(jnp.array([0.3, -0.2, 1.0]))
    np.testing.assert_allclose(found, gain[0], rtol=1e-8)


def test_the_derivative_of_a_draw():
    """A draw of N(m, s) moves with m by one and with s by its own noise."""

    def draw(m, s):
        return dist.Normal(m, s)("x").sample(jax.random.key(0), "x")["x"]

    with jax.enable_x64(True):
        x, by = jax.jit(jax.value_and_grad(draw, (0, 1)))(0.3, 2.0)
    np.testing.assert_allclose(by, [1.0, (float(x) - 0.3) / 2.0], rtol=1e-9)


def test_derivatives_under_vmap():
    def evidence(m):
        return (dist.Normal(m, 1.0)("x") * dist.Normal(X, 0.5)(1.0)).sum("x").log().data

    ms = np.array([0.0, 1.0, 3.0])
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(jax.grad(evidence)))(jnp.asarray(ms))
    np.testing.assert_allclose(found, (1.0 - ms) / 1.25, rtol=1e-9, atol=1e-12)


def test_a_residual_of_zero():
    """A datum exactly at the prior mean: derivatives are zero, not NaN."""

    def evidence(t):
        return (dist.Normal(t[0], 1.0)("x") * dist.Normal(X, 1.0)(t[0])).sum("x").log().data

    agrees(evidence, lambda t: -0.5 * math.log(4 * math.pi), [0.7])
