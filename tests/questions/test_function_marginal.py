"""Marginals of functions of sites, against enumeration, matrices, changes of variables and large samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, NoRule, UnknownName
from tests.questions.test_marginals import COUNTS, POINTS, X, Y, clusters, coal, levels, line, of_clusters, of_coal

QUICK = {"log_likelihood": False, "predictive": False}


@pytest.fixture(scope="module")
def normal():
    return levels().condition(y=np.array([1.0, 2.0]))


@pytest.fixture(scope="module")
def student():
    return line(X).condition(y=Y)


@pytest.fixture(scope="module")
def change():
    return coal(len(COUNTS)).condition(y=COUNTS)


@pytest.fixture(scope="module")
def labels():
    return clusters(3).condition(x=POINTS)


def test_difference_of_normal_sites(normal):
    whole = normal.marginal("a").covariance().data
    f = normal.marginal(lambda s: s.a[0] - s.a[1])
    assert type(f) is fb.Gaussian and f.exactness.is_exact
    np.testing.assert_allclose(float(f.variance()), np.array([1, -1]) @ whole @ [1, -1], rtol=1e-8)
    mean = normal.marginal("a").mean().data
    np.testing.assert_allclose(float(f.mean()), mean[0] - mean[1], rtol=1e-8)
    low, _ = f.interval(0.9)
    np.testing.assert_allclose(float(low), stats.norm(float(f.mean()), float(f.variance()) ** 0.5).ppf(0.05))


def test_a_named_function_of_two_sites(normal):
    def total(s):
        return s["a"] + s.b

    f = normal.marginal(total)
    assert f.inputs == {"total": fb.Reals[2]}
    joint = normal.marginal("a", "b")
    cross = joint.covariance("a", "b").data
    own = normal.marginal("a").covariance().data
    expected = own + cross[:, None] + cross[None, :] + float(normal.marginal("b").variance())
    np.testing.assert_allclose(f.covariance().data, expected, rtol=1e-6)


def test_stacked_entries(normal):
    f = normal.marginal(lambda s: jnp.stack([s.a[0], s.a[1] - s.m]))
    assert f.inputs["value"] == fb.Reals[2]
    np.testing.assert_allclose(f.variance().data[0], normal.marginal("a").variance().data[0], rtol=1e-6)


def test_fitted_line_with_unknown_variance(student):
    f = student.marginal(lambda s: s.a + s.b * np.array([0.0, 2.5]))
    assert f.distribution.family == "MultivariateStudentT"
    rows = np.vstack([np.stack([np.ones(4), X], 1), np.diag([1.0, 0.5])])
    centre = np.linalg.solve(rows.T @ rows, rows.T @ np.r_[Y, 0, 0])
    left = np.r_[Y, 0, 0] - rows @ centre
    df, rate = 2 * (3 + 2), 2 + left @ left / 2
    A = np.array([[1.0, 0.0], [1.0, 2.5]])
    scale = A @ np.linalg.inv(rows.T @ rows) @ A.T * rate / (df / 2)
    expected = stats.t(df, A @ centre, np.sqrt(np.diag(scale)))
    np.testing.assert_allclose(f.interval(0.9)[0].data, expected.ppf(0.05), rtol=1e-6)
    np.testing.assert_allclose(f.interval(0.9)[1].data, expected.ppf(0.95), rtol=1e-6)
    single = student.marginal(lambda s: s.a + 2.5 * s.b)
    np.testing.assert_allclose(float(single.quantile(0.2)), expected.ppf(0.2)[1], rtol=1e-6)


MONOTONE = {
    "sd": (lambda s: jnp.sqrt(s.v), np.sqrt, True),
    "precision": (lambda s: 1 / s.v, lambda v: 1 / v, False),
    "affine": (lambda s: 3.0 - 2 * s.v, lambda v: 3.0 - 2 * v, False),
    "log odds": (lambda s: jnp.log1p(s.v) / 2, lambda v: np.log1p(v) / 2, True),
    "cube": (lambda s: jax.nn.sigmoid(s.v**3), lambda v: 1 / (1 + np.exp(-(v**3))), True),
    "power": (lambda s: s.v**-1.5, lambda v: v**-1.5, False),
}


@pytest.mark.parametrize("case", MONOTONE)
def test_monotone_functions(student, case):
    function, numbers, rises = MONOTONE[case]
    f, base = student.marginal(function), student.marginal("v")
    levels = np.array([0.05, 0.4, 0.9])
    expected = numbers(base.quantile(levels if rises else 1 - levels).data)
    np.testing.assert_allclose(f.quantile(levels).data, expected, rtol=1e-8)
    np.testing.assert_allclose(f.cdf(expected).data, levels, rtol=1e-7)
    width = 1e-5 * abs(expected[1])
    slope = float(f.cdf(expected[1] + width)) - float(f.cdf(expected[1] - width))
    np.testing.assert_allclose(np.exp(float(f(value=expected[1]).log())), slope / (2 * width), rtol=1e-5)


def test_monotone_functions_of_mixtures(change):
    shares, early, _ = of_coal()
    f = change.marginal(lambda s: jnp.log(s.early))
    members = stats.gamma(early[:, 0], scale=1 / early[:, 1])
    for level, edge in zip((0.05, 0.95), f.interval(0.9), strict=True):
        np.testing.assert_allclose(shares @ members.cdf(np.exp(float(edge))), level, atol=1e-8)


def test_an_entry_of_a_simplex(labels):
    every, shares = of_clusters()
    f = labels.marginal(lambda s: s.theta[1])
    ones = every.sum(1)
    expected = np.log(shares @ stats.beta(1 + ones, 4 - ones).pdf(0.3))
    np.testing.assert_allclose(float(f(value=0.3).log()), expected, rtol=1e-6)


def test_a_difference_in_a_mixture(labels):
    f = labels.marginal(lambda s: s.mu[0] - s.mu[1])
    assert type(f) is fb.Mixture
    covariance = labels.marginal("mu").covariance().data
    np.testing.assert_allclose(float(f.variance()), np.array([1, -1]) @ covariance @ [1, -1], rtol=1e-6)
    np.testing.assert_allclose(float(f.cdf(0.0)), 0.5, rtol=1e-8)  # labels may be exchanged


def test_functions_of_labels(labels, change):
    every, shares = of_clusters()
    same = labels.marginal(lambda s: s.z[0] == s.z[1])
    assert type(same) is fb.Table and same.inputs == {"value": fb.Bint[2]}
    np.testing.assert_allclose(same.weights[1], shares @ (every[:, 0] == every[:, 1]), rtol=1e-8)
    count = labels.marginal(lambda s: s.z.sum())
    np.testing.assert_allclose(count.weights, [shares @ (every.sum(1) == k) for k in range(4)], rtol=1e-8)
    points, _, _ = of_coal()
    year = change.marginal(lambda s: s.s + 1851.5)
    assert year.inputs == {"value": fb.Real}
    np.testing.assert_allclose(float(year.mean()), points @ np.arange(6) + 1851.5, rtol=1e-8)
    half = change.marginal(lambda s: s.s >= 3)
    np.testing.assert_allclose(half.weights[1], points[3:].sum(), rtol=1e-8)


def test_under_jit_and_in_single_precision():
    @jax.jit
    def ask(y):
        f = levels().condition(y=y).marginal(lambda s: s.a[0] - s.a[1])
        return f.mean().data, f.interval(0.9)[0].data

    expected = levels().condition(y=np.array([1.0, 2.0])).marginal(lambda s: s.a[0] - s.a[1])
    mean, low = ask(jnp.array([1.0, 2.0]))
    assert mean.dtype == jnp.float32
    np.testing.assert_allclose(mean, expected.mean().data, rtol=1e-4)
    np.testing.assert_allclose(low, expected.interval(0.9)[0].data, rtol=1e-4)


def test_draws_agree(student):
    draws = student.infer(jax.random.key(0), draws=4000, chains=1, progress=False, **QUICK).posterior
    made = student.marginal(lambda s: s.a + 2 * s.b)
    numbers = (draws["a"] + 2 * draws["b"]).values.ravel()
    np.testing.assert_allclose(np.mean(numbers < float(made.quantile(0.3))), 0.3, atol=0.03)


@fb.model
def rates():
    p = yield dist.Beta(2.0, 3.0)
    r = yield dist.Gamma(jnp.array([2.0, 3.0]), 1.0)
    x = yield dist.Binomial(10, p)
    y = yield dist.Poisson(r)


AFFINE = {
    "1 - p": (lambda s: 1 - s.p, stats.beta(6, 9), -1.0, 1.0),
    "several steps": (lambda s: (2 * s.p + 1) / 4 - 5, stats.beta(6, 9), 0.5, -4.75),
    "an entry": (lambda s: -s.r[1], stats.gamma(7, scale=0.5), -1.0, 0.0),
}


@pytest.mark.parametrize("name", AFFINE)
@pytest.mark.parametrize("on", [np, jnp])
def test_moments_of_an_affine_function(name, on):
    function, of_site, slope, offset = AFFINE[name]
    f = rates().condition(x=on.asarray(4), y=on.asarray([3, 4])).marginal(function)
    assert float(f.mean()) == pytest.approx(slope * of_site.mean() + offset, rel=1e-6)
    assert float(f.variance()) == pytest.approx(slope**2 * of_site.var(), rel=1e-5)


def test_a_mean_that_is_not_known():
    f = rates().condition(x=4, y=np.array([3, 4])).marginal(lambda s: jnp.sqrt(s.p))
    assert float(f.quantile(0.5)) == pytest.approx(np.sqrt(stats.beta(6, 9).ppf(0.5)), rel=1e-6)
    with pytest.raises(NoRule, match=r"(?s)the mean of 'value'.*quantile\(0.5\)"):
        f.mean()


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda s: s.ab, UnknownName, ["the site 'ab' in a function", "'a'"]),
        (lambda s: 1.0, DomainError, ["of no site", "lambda s:"]),
        (lambda s: s.a.nothing, DomainError, ["AttributeError", "lambda s:"]),
        (lambda s: jnp.sin(s.a), Intractable, ["a function of 'a'", "only rises", "infer(key)", "fb.expectation"]),
        (lambda s: s.a * s.v, Intractable, ["a function of 'a', 'v'", "InverseGamma", "infer(key)"]),
        (lambda s: s.a**2, Intractable, ["a function of 'a'"]),
        (lambda s: jnp.stack([s.a, 2 * s.a]), DataError, ["covariance is singular", "leave out"]),
    ],
)
def test_bad_input(student, function, kind, words):
    with pytest.raises(kind) as error:
        student.marginal(function)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_function_of_a_site_without_a_closed_marginal():
    @fb.model
    def hard():
        m = yield dist.Normal(0.0, 1.0)
        x = yield dist.Normal(jnp.sin(m), 1.0)

    with pytest.raises(Intractable, match=r"the marginal of 'value', a function of 'm'") as error:
        hard().condition(x=0.3).marginal(lambda s: 2 * s.m)
    parts = ("expected: an affine function", "nearest:  marginal('m'): the integral over 'm'", "to do:    infer(key)")
    assert all(part in str(error.value) for part in parts), str(error.value)
