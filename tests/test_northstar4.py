"""The north-star programs 4 and 5 as written, with the values they promise."""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

RNG = np.random.default_rng(4)
T, K = 4, 3
pi = RNG.dirichlet(np.ones(K))
transition = RNG.dirichlet(np.ones(K), K)
likelihood = RNG.uniform(0.1, 1.0, (T, K))
key = jax.random.key(0)

# -- 4. Sequences ------------------------------------------------------------------------------------------------------


def paths() -> tuple[np.ndarray, np.ndarray]:
    """All paths (x₀, …, x_T) and their weights."""
    every = np.array(list(itertools.product(range(K), repeat=T + 1)))
    weights = pi[every[:, 0]].copy()
    for t in range(T):
        weights *= transition[every[:, t], every[:, t + 1]] * likelihood[t, every[:, t + 1]]
    return every, weights


@pytest.fixture(scope="module")
def chain() -> fb.Chain:
    step = fb.Table(transition, ("x", "x_next")) * fb.Table(likelihood, ("t", "x_next"))
    return fb.Chain(init=fb.Table(pi, ("x",)), factor=step, time="t", step={"x": "x_next"})


def test_log_evidence(chain: fb.Chain) -> None:
    log = chain.log_evidence()
    assert isinstance(log, fb.Value) and not log.inputs and log.exactness.is_exact
    assert float(log) == pytest.approx(math.log(paths()[1].sum()), abs=1e-12)


def test_filter(chain: fb.Chain) -> None:
    found = chain.filter()
    assert found.inputs == {"t": fb.Bint[T], "x_next": fb.Bint[K]}
    alpha, want = pi, []
    for t in range(T):
        alpha = (alpha @ transition) * likelihood[t]
        want.append(alpha / alpha.sum())
    np.testing.assert_allclose(np.exp(found.log().data), want, rtol=1e-12)


def test_smooth(chain: fb.Chain) -> None:
    s = chain.smooth()
    every, weights = paths()
    assert s.inputs == {"t": fb.Bint[T], "x_next": fb.Bint[K]} and s.initial.inputs == {"x": fb.Bint[K]}
    share = weights / weights.sum()
    want = np.array([[share[every[:, t] == state].sum() for state in range(K)] for t in range(T + 1)])
    np.testing.assert_allclose(np.exp(s.initial.log().data), want[0], rtol=1e-12)
    np.testing.assert_allclose(np.exp(s.log().data), want[1:], rtol=1e-12)


def test_argmax(chain: fb.Chain) -> None:
    best = chain.argmax()
    every, weights = paths()
    assert set(best) == {"x", "x_next"}
    np.testing.assert_array_equal([best["x"], *best["x_next"]], every[weights.argmax()])


def test_sample(chain: fb.Chain) -> None:
    draws = chain.sample(key, n=10)
    assert draws["x"].shape == (10,) and draws["x_next"].shape == (10, T)
    assert np.all((draws["x_next"] >= 0) & (draws["x_next"] < K))


def test_markov() -> None:
    step = fb.Table(transition, ("x", "x_next")) * fb.Table(likelihood, ("t", "x_next"))
    whole = fb.markov(step, time="t", step={"x": "x_next"})
    assert isinstance(whole, fb.Factor) and set(whole.inputs) == {"x", "x_next"}
    want = np.linalg.multi_dot([transition * likelihood[t] for t in range(T)])
    found = [[float(whole(x=i, x_next=j)) for j in range(K)] for i in range(K)]
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.slow
def test_the_same_lines_with_gaussian_factors() -> None:
    """A Kalman filter and smoother: against the dense Gaussian of all states."""
    y = RNG.normal(size=T)
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(y, ("t",)))
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})
    prior = np.linalg.inv(np.eye(T + 1) - 0.9 * np.eye(T + 1, k=-1))
    prior = prior @ np.diag([1.0] + [0.25] * T) @ prior.T
    H = np.eye(T + 1)[1:]

    def given(count: int) -> tuple[np.ndarray, np.ndarray]:
        spread = H[:count] @ prior @ H[:count].T + 0.49 * np.eye(count)
        gain = np.linalg.solve(spread, H[:count] @ prior).T
        return gain @ y[:count], prior - gain @ H[:count] @ prior

    want = stats.multivariate_normal(np.zeros(T), H @ prior @ H.T + 0.49 * np.eye(T)).logpdf(y)
    assert float(chain.log_evidence()) == pytest.approx(want, abs=1e-10)
    found = chain.filter()
    means = [given(t + 1)[0][t + 1] for t in range(T)]
    np.testing.assert_allclose(found.mean("x_next").data, means, atol=1e-10)
    s = chain.smooth()
    mean, covariance = given(T)
    np.testing.assert_allclose(s.mean("x_next").data, mean[1:], atol=1e-10)
    np.testing.assert_allclose(s.variance("x_next").data, np.diag(covariance)[1:], atol=1e-10)
    assert float(s.initial.mean("x")) == pytest.approx(mean[0], abs=1e-10)
    best = chain.argmax()
    np.testing.assert_allclose([best["x"], *best["x_next"]], mean, atol=1e-9)
    assert chain.sample(key, n=10)["x_next"].shape == (10, T)


def test_a_switching_chain() -> None:
    """Discrete s, real x, and a window of 3: exact for two steps, against all paths of the switch."""
    P, loc, y = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([-1.0, 1.0]), np.array([0.4, 1.1])
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = fb.Table(P, ("s", "s_next")) * dist.Normal(0.9 * x + fb.Array(loc, ("s_next",)), 0.5)("x_next")
    step = step * dist.Normal(x_next, 0.7)(fb.Array(y, ("t",)))
    init = fb.Table([0.5, 0.5], ("s",)) * dist.Normal(0.0, 1.0)("x")
    with fb.moment_matching(window=3):
        chain = fb.Chain(init=init, factor=step, time="t", step={"s": "s_next", "x": "x_next"})
        log = chain.log_evidence()
    total = 0.0
    spread = np.array([[0.81 + 0.25, 0.9 * (0.81 + 0.25)], [0.9 * (0.81 + 0.25), 0.81 * (0.81 + 0.25) + 0.25]])
    for a, b, c in itertools.product(range(2), repeat=3):
        mean = [loc[b], 0.9 * loc[b] + loc[c]]
        total += 0.5 * P[a, b] * P[b, c] * stats.multivariate_normal(mean, spread + 0.49 * np.eye(2)).pdf(y)
    assert float(log) == pytest.approx(math.log(total), abs=1e-10)
    assert repr(log.exactness) == "projected(moment_matching(window=3)) × 2"  # one a step


# -- 5. Approximation is a projection ----------------------------------------------------------------------------------


def elbo(m: Any, log_s: Any, obs: Any, key: Any) -> Any:
    z = fb.Variable("z", fb.Real)
    q = dist.Normal(m, jnp.exp(log_s))("z")
    p = dist.Normal(0.0, 1.0)("z") * dist.Normal(fb.ops.exp(z), 1.0)(obs)
    with fb.monte_carlo(key, 1000):
        return fb.expectation(q, p.log() - q.log(), "z").data  # unbiased value and derivatives of all orders


def elbo_exactly(m: float, log_s: float, obs: float) -> float:
    """E[z²] = m² + s², E[eᶻ] = exp(m + s²/2), E[e²ᶻ] = exp(2m + 2s²)."""
    s2 = math.exp(2 * log_s)
    prior = -0.5 * math.log(2 * math.pi) - 0.5 * (m * m + s2)
    first, second = math.exp(m + s2 / 2), math.exp(2 * m + 2 * s2)
    fit = -0.5 * math.log(2 * math.pi) - 0.5 * (obs * obs - 2 * obs * first + second)
    return prior + fit + 0.5 * math.log(2 * math.pi * math.e * s2)


@pytest.mark.slow
def test_grad_of_the_elbo_as_written() -> None:
    found = jax.jit(jax.grad(elbo))(0.0, 0.0, 1.3, key)
    assert found.shape == () and bool(jnp.isfinite(found))


@pytest.mark.slow
def test_elbo_and_its_derivatives_are_unbiased() -> None:
    """Value, both gradients and the Hessian at a guide of scale e⁻¹ within 4 standard errors from a hundred keys."""
    at = (0.1, -1.0)

    @jax.jit
    @jax.vmap
    def everything(key: Any) -> Any:
        theta = jnp.array(at)

        def f(theta: Any) -> Any:
            return elbo(theta[0], theta[1], 1.3, key)

        def slope(theta: Any) -> Any:
            value, gradient = jax.value_and_grad(f)(theta)
            return gradient, (value, gradient)

        hessian, (value, gradient) = jax.jacfwd(slope, has_aux=True)(theta)
        return value, gradient, hessian

    found = everything(jax.random.split(key, 100))
    h, e = 1e-3, 1e-3 * np.eye(2)

    def exactly(theta: np.ndarray) -> float:
        return elbo_exactly(*theta, 1.3)

    gradient = [(exactly(at + e[i]) - exactly(at - e[i])) / (2 * h) for i in range(2)]
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    hessian = [
        [sum(a * b * exactly(at + a * e[i] + b * e[j]) for a, b in signs) / (4 * h * h) for j in range(2)]
        for i in range(2)
    ]
    for mine, want in zip(found, (exactly(np.array(at)), gradient, hessian), strict=True):
        error = np.std(mine, axis=0, ddof=1) / 10
        np.testing.assert_array_less(np.abs(np.mean(mine, axis=0) - np.array(want)), 4 * error + 1e-5)


def test_elbo_under_jit_and_the_key() -> None:
    """Compiled it is the same number; the key decides it."""
    compiled = jax.jit(elbo)
    first = float(compiled(0.0, -1.0, 1.3, key))
    assert first == pytest.approx(float(elbo(0.0, -1.0, 1.3, key)), rel=1e-5)
    assert first == float(compiled(0.0, -1.0, 1.3, key)) != float(compiled(0.0, -1.0, 1.3, jax.random.key(1)))
    assert first == pytest.approx(elbo_exactly(0.0, -1.0, 1.3), abs=0.2)
