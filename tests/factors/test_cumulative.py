"""Distribution functions, quantiles and intervals of factors, against SciPy and enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, NoRule, UnknownName

LEVELS = np.array([0.01, 0.3, 0.5, 0.975])
k = fb.Array(np.array([-1.0, 2.0]), ("k",))
MIXTURES = {
    "normals": (dist.Normal(k, 0.5)("x"), [stats.norm(-1.0, 0.5), stats.norm(2.0, 0.5)]),
    "gammas": (dist.Gamma(k * k + 1.0, 2.0)("x"), [stats.gamma(2.0, scale=0.5), stats.gamma(5.0, scale=0.5)]),
    "students": (dist.StudentT(3.0, k, 1.0)("x"), [stats.t(3, -1.0), stats.t(3, 2.0)]),
    "betas": (dist.Beta(k * k, 2.0)("x"), [stats.beta(1.0, 2.0), stats.beta(4.0, 2.0)]),
    "counts": (dist.Poisson(k * k)("x"), [stats.poisson(1.0), stats.poisson(4.0)]),
}


SHARES = np.array([0.3, 0.7])


def mixture(parts, weights=SHARES):
    return (fb.Table(weights, ("k",)) * parts).sum("k")


@pytest.mark.parametrize("kind", MIXTURES)
def test_quantile_of_mixture(kind):
    parts, members = MIXTURES[kind]
    f = mixture(parts)
    assert f.exactness.is_exact
    roots = f.quantile(LEVELS).data

    def cdf(x):
        return 0.3 * members[0].cdf(x) + 0.7 * members[1].cdf(x)

    np.testing.assert_allclose(f.cdf(roots).data, cdf(roots), rtol=1e-12)
    if kind == "counts":
        assert roots.dtype.kind == "i"
        expected = [next(n for n in range(30) if cdf(n) >= level) for level in LEVELS]
        np.testing.assert_array_equal(roots, expected)
    else:
        np.testing.assert_allclose(cdf(roots), LEVELS, atol=1e-12)
    low, high = f.interval(0.4)
    assert float(low) == float(f.quantile(0.3)) and float(high) == float(f.quantile(0.7))


def test_quantile_of_table():
    weights = np.array([[0.2, 0.5, 0.3], [0.0, 0.5, 0.5]])
    f = fb.Table(weights, ("i", "a"))
    expected = [[np.argmax(np.cumsum(row) >= level - 1e-12) for level in (0.1, 0.2, 0.5, 0.9)] for row in weights]
    np.testing.assert_array_equal(f.quantile([0.1, 0.2, 0.5, 0.9], "a").data, expected)
    np.testing.assert_allclose(f.cdf([-0.5, 0.0, 1.7, 9.0], "a").data, [[0, 0.2, 0.7, 1], [0, 0, 0.5, 1]])
    assert f.quantile(0.5, "a").inputs == {"i": fb.Bint[2]}


def test_quantile_of_sparse_table():
    f = fb.Table([0.0, 0.25, 0.0, 0.75], ("a",))
    with fb.represent(a=fb.rep.Sparse()):
        sparse = fb.marginals([f], ("a",))["a"]
    assert sparse.quantile(0.5).data == 3 and float(sparse.cdf(1)) == 0.25


def test_quantile_of_gaussian():
    f = dist.MultivariateNormal(np.array([1.0, 2.0]), np.array([[4.0, 1.0], [1.0, 9.0]]))("x")._joined()
    assert type(f) is fb.Gaussian
    low, high = f.interval(0.9)
    np.testing.assert_allclose(low.data, [1.0, 2.0] - stats.norm.ppf(0.95) * np.array([2.0, 3.0]))
    np.testing.assert_allclose(high.data, [1.0, 2.0] + stats.norm.ppf(0.95) * np.array([2.0, 3.0]))
    np.testing.assert_allclose(f.cdf([0.0, 1.0]).data, stats.norm([1.0, 2.0], [2.0, 3.0]).cdf([0.0, 1.0]))
    assert f.quantile(LEVELS).data.shape == (4, 2)


def test_quantile_for_each_cell():
    f = fb.Table([0.3, 0.7], ("k",)) * dist.Normal(k, 1.0)("x")
    low, _ = f.interval(0.9)
    np.testing.assert_allclose(low.data, stats.norm([-1.0, 2.0]).ppf(0.05))
    f = fb.Table([0.3, 0.7], ("k",)) * dist.Gamma(k * k, 1.0)("x")
    np.testing.assert_allclose(f.quantile(LEVELS).data, stats.gamma([[1.0], [4.0]]).ppf(LEVELS))


def test_quantile_of_weighted_points():
    points = fb.Delta(x=fb.Array(np.array([3.0, -1.0, 2.0]), ("s",)))
    f = (fb.Table([0.5, 0.2, 0.3], ("s",)) * points).sum("s")
    np.testing.assert_allclose(f.quantile([0.1, 0.3, 0.6]).data, [-1.0, 2.0, 3.0], atol=1e-12)


@pytest.mark.parametrize("kind", ["normals", "gammas"])
def test_quantiles_are_the_same_under_jit(kind):
    parts, _ = MIXTURES[kind]
    expected = mixture(parts).quantile(0.3).data

    def ask(weights):
        return mixture(jax.tree_util.tree_map(jnp.asarray, parts), weights).quantile(0.3).data

    with jax.enable_x64(True):
        weights = jnp.array([0.3, 0.7])
        compiled, eager = jax.jit(ask)(weights), ask(weights)
        assert isinstance(eager, jax.Array)
        np.testing.assert_allclose([compiled, eager], expected, rtol=1e-10)


def test_derivative_of_a_quantile():
    def ask(weights):
        return mixture(dist.Normal(fb.Array(jnp.array([-1.0, 2.0]), ("k",)), 0.5)("x"), weights).quantile(0.5).data

    with jax.enable_x64(True):
        at = jnp.array([0.4, 0.6])
        members = stats.norm([-1.0, 2.0], 0.5)
        x = float(ask(at))
        slope = -(members.cdf(x) - 0.5) / (members.pdf(x) @ at)  # at weights that add up to one
        np.testing.assert_allclose(jax.grad(ask)(at), slope, rtol=1e-6)


def test_single_precision():
    f = mixture(dist.Gamma(fb.Array(jnp.array([1.0, 4.0]), ("k",)), 1.0)("x"), jnp.array([0.3, 0.7]))
    x = f.quantile(0.3).data
    assert x.dtype == jnp.float32
    assert abs(0.3 * stats.gamma(1.0).cdf(x) + 0.7 * stats.gamma(4.0).cdf(x) - 0.3) < 1e-5


def test_parameters_that_are_not_numbers_have_no_quantile():
    assert np.isnan(jax.jit(lambda s: dist.Gamma(s, 1.0)("x").quantile(0.3).data)(-1.0))
    assert np.isnan(jax.jit(lambda q: dist.Normal(0.0, 1.0)("x").quantile(q).data)(1.3))


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda f: f.interval(90), DataError, ["the interval of level 90", "above 0 and below 1", "0.9"]),
        (lambda f: f.quantile(0.0), DataError, ["the quantile of level 0.0", "above 0 and below 1"]),
        (lambda f: f.quantile([0.5, 1.5]), DataError, ["above 0 and below 1"]),
        (lambda f: f.interval("most"), DomainError, ["the interval of level 'most'", "a number"]),
        (lambda f: f.interval(0.9, "y"), UnknownName, ["an interval of 'y'", "'x'"]),
        (lambda f: (f * f(x="y")).interval(0.9), UnknownName, ["one of 'x', 'y'", "sum the others out"]),
        (lambda f: (f * f(x="y")).interval(0.9, "x"), DomainError, ["depends on 'y' too", ".sum('y')"]),
        (lambda f: dist.VonMises(0.0, 1.0)("x").interval(0.9), NoRule, ["VonMises has none", "np.quantile"]),
        (lambda f: dist.InverseWishart(4.0, np.eye(2))("x").interval(0.9), NoRule, ["entries", "np.quantile"]),
        (lambda f: fb.Table(np.ones((2, 2)), ("a", "b")).quantile(0.5), UnknownName, ["one of 'a', 'b'"]),
        (lambda f: fb.Table(0.5).mean(), UnknownName, ["this is a number"]),
    ],
)
def test_bad_input(ask, kind, words):
    with pytest.raises(kind) as error:
        ask(dist.Normal(0.0, 1.0)("x"))
    assert all(word in str(error.value) for word in words), str(error.value)
