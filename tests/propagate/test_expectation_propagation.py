"""Expectation propagation: exact on conjugate models; clutter and probit regression against quadrature and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, UnknownName
from fubini.numerics.tilted_moments import tilted_moments

x = fb.Variable("x", fb.Real)
phi = fb.lift(ndtr)


def test_conjugate_models_are_exact():
    w = fb.Variable("w", fb.Reals[2])
    factors = [
        fb.Gaussian(mean=[0.0, 1.0], covariance=[[2.0, 0.5], [0.5, 1.0]], inputs={"w": fb.Reals[2]}),
        dist.Normal(w[0] - w[1], 0.5)("y")(y=0.3),
        dist.Normal(x + w[0], 1.0)("y")(y=1.0),
        dist.Normal(0.0, 2.0)("x"),
    ]
    result = fb.expectation_propagation(factors, ("w", "x"))
    known = fb.marginals(factors, ("w", "x"))
    assert result.exactness.is_exact and result.iterations == 0 and result.divisions == 0
    assert np.isclose(float(result.log_evidence), float(fb.eliminate(factors, ("w", "x")).log()))
    for name in ("w", "x"):
        assert np.allclose(result.marginals[name].mean(name).data, known[name].mean(name).data)
        assert np.allclose(result.marginals[name].covariance(name).data, known[name].covariance(name).data)


def test_tables_are_exact():
    factors = [fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))]
    result = fb.expectation_propagation(factors, ("a", "b"))
    assert np.isclose(float(result.log_evidence), np.log(2.25)) and result.exactness.is_exact


# -- clutter --------------------------------------------------------------------------------------------------------

CLUTTER = np.array([1.2, 2.6, 1.9, 2.3, -4.0, 2.1, 1.7, 2.9])


def clutter_factors(observed=CLUTTER):
    """Minka (2001), section 3.2.1: half of the observations are noise."""
    noise = [dist.Normal(0.0, np.sqrt(10.0))("y")(y=y) for y in observed]
    signal = [dist.Normal(x, 1.0)("y")(y=y) for y in observed]
    return [dist.Normal(0.0, 3.0)("x"), *(0.5 * s + 0.5 * n for s, n in zip(signal, noise, strict=True))]


def clutter_by_hand(observed=CLUTTER, sweeps=200):
    """Sites exp(h x − ½ k x²), moments as in Minka's thesis, equations 3.31 to 3.38; log Z_EP by its definition."""
    k, h, g = np.zeros((3, len(observed)))
    for _ in range(sweeps):
        for i, y in enumerate(observed):
            K, H = 1 / 9.0 + k.sum() - k[i], h.sum() - h[i]
            m, v = H / K, 1 / K
            a, b = 0.5 * stats.norm.pdf(y, m, np.sqrt(v + 1)), 0.5 * stats.norm.pdf(y, 0.0, np.sqrt(10.0))
            r, Z = a / (a + b), a + b
            mean = m + v * r * (y - m) / (v + 1)
            var = v - r * v**2 / (v + 1) + r * (1 - r) * v**2 * (y - m) ** 2 / (v + 1) ** 2
            k[i], h[i] = 1 / var - K, mean / var - H
            # ∫ site N(m, v) = Z
            g[i] = np.log(Z) - 0.5 * np.log(K / (K + k[i])) - 0.5 * (mean**2 / var - m**2 / v)
    K, H = 1 / 9.0 + k.sum(), h.sum()
    log_z = g.sum() + 0.5 * np.log((1 / 9.0) / K) + 0.5 * H**2 / K
    return H / K, 1 / K, log_z


def quadrature(log_density, reach, count=400001):
    grid = np.linspace(-reach, reach, count)
    weights = np.exp(log_density(grid))
    total = weights.sum() * (grid[1] - grid[0])
    mean = (weights * grid).sum() / weights.sum()
    return mean, (weights * (grid - mean) ** 2).sum() / weights.sum(), np.log(total)


def clutter_log_density(at):
    parts = [np.log(0.5 * stats.norm.pdf(y, at, 1.0) + 0.5 * stats.norm.pdf(y, 0.0, np.sqrt(10.0))) for y in CLUTTER]
    return stats.norm.logpdf(at, 0.0, 3.0) + sum(parts)


@pytest.mark.parametrize("division", ["allow", "clip", "damp"])
def test_clutter(division):
    result = fb.expectation_propagation(clutter_factors(), ("x",), division=division, tolerance=1e-11, iterations=300)
    assert result.converged and result.exactness.marks == ("projected(moments)",)
    q = result.marginals["x"]
    found = float(q.mean("x")), float(q.variance("x")), float(result.log_evidence)
    if division == "allow":
        assert np.allclose(found, clutter_by_hand(), atol=1e-7)
        assert result.divisions > 0  # the outlier has a site of negative precision
    mean, variance, log_z = quadrature(clutter_log_density, 40.0)
    assert abs(found[0] - mean) < 0.02 and abs(found[1] / variance - 1) < 0.1 and abs(found[2] - log_z) < 0.05


def test_damping_has_the_same_fixed_point():
    plain = fb.expectation_propagation(clutter_factors(), ("x",), tolerance=1e-11, iterations=300)
    damped = fb.expectation_propagation(clutter_factors(), ("x",), damping=0.5, tolerance=1e-11, iterations=600)
    assert damped.converged
    assert np.isclose(float(plain.log_evidence), float(damped.log_evidence), atol=1e-8)


# -- probit regression ----------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(1)
DESIGN = RANDOM.normal(size=(20, 2))
LABELS = (DESIGN @ np.array([1.0, -1.0]) + RANDOM.normal(size=20) > 0).astype(int)


def probit_factors(design=DESIGN):
    w = fb.Variable("w", fb.Reals[2])
    X = fb.Array(design, ("i",))
    prior = fb.Gaussian(mean=np.zeros(2), covariance=np.eye(2), inputs={"w": fb.Reals[2]}).normalize()
    score = X[0] * w[0] + X[1] * w[1]
    return [prior, dist.Bernoulli(probs=phi(score))("y")(y=fb.Array(LABELS, ("i",)))]


def probit_by_grid():
    line = np.linspace(-6.0, 6.0, 601)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    logs = stats.norm.logpdf(points).sum(-1)
    logs = logs + sum(stats.norm.logcdf((2 * y - 1) * (points @ row)) for row, y in zip(DESIGN, LABELS, strict=True))
    weights = np.exp(logs - logs.max())
    log_z = np.log(weights.sum()) + logs.max() + 2 * np.log(line[1] - line[0])
    weights /= weights.sum()
    mean = np.einsum("ij,ijk->k", weights, points)
    return mean, np.einsum("ij,ijk,ijl->kl", weights, points - mean, points - mean), log_z


def probit_by_hand(sweeps=200):
    """Rasmussen and Williams (2006), section 3.6, in weights: moments of Φ(z) under a normal in closed form."""
    s = 2 * LABELS - 1
    k, h, g = np.zeros((3, len(s)))
    for _ in range(sweeps):
        for i, row in enumerate(DESIGN):
            K, H = np.eye(2) + (DESIGN.T * k) @ DESIGN, DESIGN.T @ h
            V = np.linalg.inv(K)
            v, m = row @ V @ row, row @ V @ H
            v_c = 1 / (1 / v - k[i])
            m_c = v_c * (m / v - h[i])
            z = s[i] * m_c / np.sqrt(1 + v_c)
            ratio = stats.norm.pdf(z) / stats.norm.cdf(z)
            mean = m_c + s[i] * v_c * ratio / np.sqrt(1 + v_c)
            var = v_c - v_c**2 * ratio / (1 + v_c) * (z + ratio)
            k[i], h[i] = 1 / var - 1 / v_c, mean / var - m_c / v_c
            g[i] = stats.norm.logcdf(z) - 0.5 * np.log(var / v_c) - 0.5 * (mean**2 / var - m_c**2 / v_c)
    K, H = np.eye(2) + (DESIGN.T * k) @ DESIGN, DESIGN.T @ h
    V = np.linalg.inv(K)
    return V @ H, V, g.sum() - 0.5 * np.linalg.slogdet(K)[1] + 0.5 * H @ V @ H


def test_probit_regression():
    result = fb.expectation_propagation(probit_factors(), ("w",), plates=("i",), tolerance=1e-10)
    q = result.marginals["w"]
    found = q.mean("w").data, q.covariance("w").data, float(result.log_evidence)
    assert result.converged and result.divisions == 0
    for ours, theirs in zip(found, probit_by_hand(), strict=True):
        assert np.allclose(ours, theirs, atol=1e-7)
    mean, covariance, log_z = probit_by_grid()
    assert np.allclose(found[0], mean, atol=0.01) and np.allclose(found[1], covariance, atol=0.02)
    assert abs(found[2] - log_z) < 0.02


def test_one_factor_after_another_has_the_same_fixed_point():
    w = fb.Variable("w", fb.Reals[2])
    prior, plated = probit_factors()
    separate = [dist.Bernoulli(probs=phi(float(a) * w[0] + float(b) * w[1]))("y")(y=int(y))
                for (a, b), y in zip(DESIGN[:4], LABELS[:4], strict=True)]  # fmt: skip
    one = fb.expectation_propagation([prior, *separate], ("w",), tolerance=1e-10)
    together = fb.expectation_propagation(
        [prior, plated(i=fb.Array(np.arange(4), ("j",), fb.Bint[20]))], ("w",), plates=("j",), tolerance=1e-10
    )
    assert np.isclose(float(one.log_evidence), float(together.log_evidence), atol=1e-8)
    assert len(one.beliefs) == 5


def test_on_jax_and_under_jit():
    expected = fb.expectation_propagation(probit_factors(), ("w",), plates=("i",))

    def ask(design):
        result = fb.expectation_propagation(probit_factors(design), ("w",), plates=("i",))
        return result.marginals["w"].mean("w").data, result.log_evidence.data, result.divisions

    with jax.enable_x64(True):
        for function in (ask, jax.jit(ask)):
            mean, log_evidence, divisions = function(jnp.asarray(DESIGN))
            assert isinstance(mean, jax.Array) and divisions == 0
            assert np.allclose(mean, expected.marginals["w"].mean("w").data, atol=1e-6)
            assert np.isclose(log_evidence, float(expected.log_evidence), atol=1e-6)


# -- moments of a tilted normal -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "sd", "slope"), [(0.0, 1.0, 1.0), (-3.0, 2.0, 1.0), (0.5, 100.0, 1.0), (1.0, 1.0, 8.0)]
)
def test_tilted_moments_of_probit(mean, sd, slope):
    def log_f(points):
        return stats.norm.logcdf(slope * points[..., 0])

    found = tilted_moments(log_f, np.array([mean]), np.array([[sd**2]]))
    v = slope**2 * sd**2
    z = slope * mean / np.sqrt(1 + v)
    ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
    assert found.ok
    assert np.isclose(found.log_mass, stats.norm.logcdf(z), atol=1e-6)
    assert np.isclose(found.mean[0], mean + slope * sd**2 * ratio / np.sqrt(1 + v), atol=1e-5 * sd)
    variance = sd**2 - (slope * sd**2) ** 2 * ratio / (1 + v) * (z + ratio)
    assert np.isclose(found.covariance[0, 0], variance, rtol=1e-5)


def test_tilted_moments_of_a_narrow_function():
    """A likelihood a thousand times narrower than the normal: grids close in on it."""
    found = tilted_moments(lambda u: stats.norm.logpdf(u[..., 0], 2.0, 1e-3), np.array([0.0]), np.array([[1.0]]))
    assert found.ok and np.isclose(found.log_mass, stats.norm.logpdf(2.0, 0.0, np.sqrt(1 + 1e-6)), atol=1e-6)
    assert np.isclose(found.covariance[0, 0], 1e-6, rtol=1e-3)


def test_tilted_moments_in_two_dimensions():
    covariance = np.array([[1.0, 0.4], [0.4, 2.0]])
    other = np.array([[0.5, -0.2], [-0.2, 1.0]])
    found = tilted_moments(
        lambda u: stats.multivariate_normal.logpdf(u, [1.0, 0.0], other), np.array([0.0, 0.5]), covariance
    )
    K = np.linalg.inv(covariance) + np.linalg.inv(other)
    h = np.linalg.solve(covariance, [0.0, 0.5]) + np.linalg.solve(other, [1.0, 0.0])
    assert np.allclose(found.mean, np.linalg.solve(K, h), atol=1e-8)
    assert np.allclose(found.covariance, np.linalg.inv(K), atol=1e-8)
    assert np.isclose(found.log_mass, stats.multivariate_normal.logpdf([1.0, 0.0], [0.0, 0.5], covariance + other))


# -- bad input ------------------------------------------------------------------------------------------------------


def test_unknown_name():
    with pytest.raises(UnknownName, match="'z'"):
        fb.expectation_propagation(clutter_factors(), ("z",))


def test_a_variable_of_several_factors_that_is_not_asked_for():
    factors = [
        dist.Normal(0.0, 1.0)("x"),
        dist.Normal(x, 1.0)("y"),
        dist.Normal(fb.Variable("y", fb.Real), 1.0)("z")(z=0.0),
    ]
    with pytest.raises(DomainError, match="'y' in several factors"):
        fb.expectation_propagation(factors, ("x",))


def test_no_prior():
    with pytest.raises((DataError, Intractable, fb.FubiniError), match=r"match|improper"):
        fb.expectation_propagation([dist.Bernoulli(probs=phi(x))("y")(y=1)], ("x",))


def test_a_factor_of_many_numbers():
    w = fb.Variable("w", fb.Reals[3])
    prior = fb.Gaussian(mean=np.zeros(3), covariance=np.eye(3), inputs={"w": fb.Reals[3]})
    factor = fb.weight(log=-1.0 * fb.ops.exp(w[0]) - fb.ops.exp(w[1]) - fb.ops.exp(w[2]))
    with pytest.raises(Intractable, match="it depends on 3 numbers"):
        fb.expectation_propagation([prior, factor], ("w",))


def test_a_jump_is_projected_in_closed_form():
    factor = fb.weight(log=fb.ops.where(x > 0.123, 0.0, -np.inf))
    result = fb.expectation_propagation([dist.Normal(0.0, 1.0)("x"), factor], ("x",))
    points = np.linspace(0.123, 12.0, 400_001)
    weights = np.exp(-0.5 * points**2) / np.sqrt(2 * np.pi)
    mass = np.trapezoid(weights, points)
    mean = np.trapezoid(weights * points, points) / mass
    assert float(result.log_evidence) == pytest.approx(np.log(mass), abs=1e-7)
    assert float(result.marginals["x"].mean("x")) == pytest.approx(mean, abs=1e-7)


def test_a_jump_across_two_variables_is_refused():
    y = fb.Variable("y", fb.Real)
    factor = fb.weight(log=fb.ops.where(x + y > 0.123, 0.0, -1000.0))
    prior = dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, 1.0)("y")
    with pytest.raises(DataError, match="a jump"):
        fb.expectation_propagation([prior, factor], ("x", "y"))
