"""Densities as factors: Values as parameters, what they become in a sum, the order of sums, and bad parameters."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable
from fubini.terms.value import to_array

X, Y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
V = fb.Variable("v", fb.Reals[2])
S, G = fb.Variable("s", fb.Positive), fb.Variable("g", fb.Positive)
K = fb.Variable("k", fb.Bint[3])
ROOT = np.array([[1.2, 0.0], [0.4, 0.8]])
COVARIANCE = ROOT @ ROOT.T
UNDER = pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)


def numbers(factor: fb.Factor) -> np.ndarray:
    return np.exp(np.asarray(to_array(factor.log()).data))


# -- lazy until a sum -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: dist.Normal(X, 1.0)("y"),
        lambda: dist.Categorical(probs=np.array([0.2, 0.8]))("k"),
        lambda: dist.Delta(1.5)("x"),
        lambda: dist.Poisson(G)("n"),
        lambda: dist.MultivariateNormal(V, np.eye(2))("w"),
    ],
)
def test_nothing_is_computed_before_a_sum(make: Callable[[], fb.Factor]) -> None:
    f = make()
    assert isinstance(f, dist.Density)
    assert not isinstance(f * 2.0, fb.Table | fb.Gaussian | fb.Delta)
    assert isinstance(f(**{name: f"{name}2" for name in f.inputs}), dist.Density)


def test_parameters_are_free_variables() -> None:
    """A density has the names of its parameters beside its own, and is a function of all of them."""
    f = dist.Gamma(S, fb.ops.exp(X))("g")
    assert f.inputs == {"s": fb.Positive, "x": fb.Real, "g": fb.Positive}
    right = stats.gamma.logpdf(0.7, 2.5, scale=np.exp(-0.3))
    assert float(f(s=2.5, x=0.3, g=0.7).log()) == pytest.approx(right, rel=1e-12)
    assert float(f(g=0.7)(s=2.5)(x=0.3).log()) == pytest.approx(right, rel=1e-12)


def test_lifted_function_as_parameter() -> None:
    f = dist.Normal(fb.lift(jnp.sin)(X), 0.5)("y")
    assert float(f(x=0.4, y=1.0).log()) == pytest.approx(stats.norm.logpdf(1.0, np.sin(0.4), 0.5), rel=1e-12)


def test_gathered_parameter() -> None:
    loc = np.array([-1.0, 0.5, 2.0])
    f = dist.Cauchy(fb.Array(loc)[K], 1.0)("x")
    assert f.inputs == {"k": fb.Bint[3], "x": fb.Real}
    np.testing.assert_allclose(to_array(f(x=0.3).log()).data, stats.cauchy.logpdf(0.3, loc), rtol=1e-12)


def test_a_value_of_other_variables() -> None:
    """p(v; θ) is a density of v, not of what v is made of: ∫ N(2x; 0, 1) dx = 1/2."""
    assert float(dist.Normal(0.0, 1.0)(2.0 * X).sum("x")) == pytest.approx(0.5, rel=1e-12)


def test_variable_in_its_own_parameter() -> None:
    """N(x; 3x, 1) is exp(−½ (2x)²)/√2π, whose mass is 1/2: not the density of its variable."""
    assert float(dist.Normal(3.0 * X, 1.0)("x").sum("x")) == pytest.approx(0.5, rel=1e-12)
    assert float(dist.Poisson(1.0 + K)(K).sum("k")) == pytest.approx(stats.poisson.pmf(range(3), [1, 2, 3]).sum())


# -- Gaussians ------------------------------------------------------------------------------------------------------

GAUSSIANS = {
    "Normal": lambda x: dist.Normal(x, 0.7),
    "MultivariateNormal, covariance": lambda x: dist.MultivariateNormal(x, covariance_matrix=COVARIANCE),
    "MultivariateNormal, precision": lambda x: dist.MultivariateNormal(x, precision_matrix=COVARIANCE),
    "MultivariateNormal, root": lambda x: dist.MultivariateNormal(x, scale_tril=ROOT),
    "LowRankMultivariateNormal": lambda x: dist.LowRankMultivariateNormal(x, np.array([[0.5], [0.2]]), np.ones(2)),
    "Independent": lambda x: dist.Normal(x, np.array([0.7, 1.1])).to_event(1),
    "MatrixNormal": lambda x: dist.MatrixNormal(x, ROOT, np.eye(3)),
    "CAR": lambda x: dist.CAR(x, 0.4, 1.3, np.array([[0.0, 1.0], [1.0, 0.0]])),
}
EVENTS = {"Normal": (), "MatrixNormal": (2, 3)}
SLOW = ("LowRankMultivariateNormal", "MatrixNormal", "CAR")  # numpyro's densities of these take long to trace
each_gaussian = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in GAUSSIANS]
)


@each_gaussian
def test_log_normaliser_is_zero(name: str) -> None:
    """With a Variable as location, summed over its own variable; and over the location, since it is symmetric."""
    domain = fb.Real.with_shape(EVENTS.get(name, (2,)))
    loc = fb.Variable("m", domain)
    f = GAUSSIANS[name](loc)("y")
    assert f.inputs == {"m": domain, "y": domain}
    point = np.full(domain.shape, 0.3)
    assert float(f.sum("y")(m=point).log()) == pytest.approx(0.0, abs=1e-12)
    assert float(f.sum("m")(y=point).log()) == pytest.approx(0.0, abs=1e-9)


@each_gaussian
def test_becomes_a_gaussian(name: str) -> None:
    """Times a prior of its location, the location summed out: a Gaussian that agrees with a large determinant."""
    shape = EVENTS.get(name, (2,))
    size = int(np.prod(shape))
    loc = fb.Variable("m", fb.Real.with_shape(shape))
    prior = dist.Normal(np.zeros(shape), 1.5).to_event(len(shape))("m")
    f = GAUSSIANS[name](loc)("y")
    joint = (prior * f).sum("m")
    assert isinstance(joint, fb.Gaussian) and joint.inputs == {"y": fb.Real.with_shape(shape)}
    noise = np.asarray(GAUSSIANS[name](np.zeros(shape))("y").covariance("y").data).reshape(size, size)
    point = np.linspace(-0.5, 1.0, size)
    right = stats.multivariate_normal(np.zeros(size), noise + 2.25 * np.eye(size)).logpdf(point)
    assert float(joint(y=point.reshape(shape)).log()) == pytest.approx(right, rel=1e-9)


@pytest.mark.slow
def test_covariances() -> None:
    """The covariance of each kind, written out."""
    found = {
        name: np.asarray(make(np.zeros(2))("y").covariance("y").data) for name, make in list(GAUSSIANS.items())[1:6]
    }
    np.testing.assert_allclose(found["MultivariateNormal, covariance"], COVARIANCE, rtol=1e-12)
    np.testing.assert_allclose(found["MultivariateNormal, precision"], np.linalg.inv(COVARIANCE), rtol=1e-12)
    np.testing.assert_allclose(found["MultivariateNormal, root"], COVARIANCE, rtol=1e-12)
    np.testing.assert_allclose(
        found["LowRankMultivariateNormal"], np.eye(2) + np.outer([0.5, 0.2], [0.5, 0.2]), rtol=1e-12
    )
    np.testing.assert_allclose(found["Independent"], np.diag([0.49, 1.21]), rtol=1e-12)


def test_random_walk_is_a_gaussian() -> None:
    f = dist.GaussianRandomWalk(0.7, num_steps=3)("w")
    steps = np.minimum.outer(np.arange(1, 4), np.arange(1, 4))
    np.testing.assert_allclose(f.covariance("w").data, 0.49 * steps, rtol=1e-10)
    w = fb.Variable("w", fb.Reals[3])
    evidence = (f * dist.Normal(w[2], 0.5)(1.2)).sum("w")
    assert float(evidence.log()) == pytest.approx(stats.norm.logpdf(1.2, 0.0, np.sqrt(3 * 0.49 + 0.25)), rel=1e-10)


def test_state_space_is_a_gaussian() -> None:
    A = np.array([[0.5, 0.2], [0.0, 0.8]])
    f = dist.GaussianStateSpace(num_steps=2, transition_matrix=A, covariance_matrix=COVARIANCE)("z")
    z = fb.Variable("z", fb.Reals[2, 2])
    last = (f * dist.Normal(z[1, 0], 0.5)(1.2)).sum("z")
    variance = (A @ COVARIANCE @ A.T + COVARIANCE)[0, 0] + 0.25
    assert float(last.log()) == pytest.approx(stats.norm.logpdf(1.2, 0.0, np.sqrt(variance)), rel=1e-10)


@pytest.mark.parametrize("what", ["loc", "scale", "both"])
def test_normals_along_i_and_j(what: str) -> None:
    """Behaviour 23: mass 1, mean and density for each cell; the location a Variable plus an array."""
    generator = np.random.default_rng(1)
    loc, scale = generator.normal(size=(2, 3)), generator.uniform(0.5, 2.0, size=(2, 3))
    m = fb.Array(loc, ("i", "j")) if what != "scale" else 0.4
    s = fb.Array(scale, ("i", "j")) if what != "loc" else 0.9
    f = dist.Normal(m + X, s)("y")
    assert f.inputs.keys() == {"i", "j", "x", "y"}
    np.testing.assert_allclose(to_array(f.sum("y")(x=0.2).log()).data, np.zeros((2, 3)), atol=1e-12)
    np.testing.assert_allclose(to_array(f.sum("x")(y=0.2).log()).data, np.zeros((2, 3)), atol=1e-12)
    right_m = loc if what != "scale" else np.full((2, 3), 0.4)
    right_s = scale if what != "loc" else np.full((2, 3), 0.9)
    joint = (f * dist.Normal(0.0, 1.5)("x")).sum("x")
    right = stats.norm.logpdf(0.7, right_m, np.sqrt(right_s**2 + 2.25))
    found = to_array(joint(y=0.7).log())
    assert found.names == ("i", "j")
    np.testing.assert_allclose(found.data, right, rtol=1e-10)


def test_multivariate_normals_along_i_and_j() -> None:
    generator = np.random.default_rng(2)
    loc = generator.normal(size=(2, 2))
    roots = np.tril(generator.uniform(0.5, 1.5, size=(3, 2, 2)))
    f = dist.MultivariateNormal(fb.Array(loc, ("i",)), scale_tril=fb.Array(roots, ("j",)))("y")
    found = to_array(f.sum("y").log())
    np.testing.assert_allclose(found.data, np.zeros_like(found.data), atol=1e-12)
    point = np.array([0.3, -0.2])
    at = to_array((f * dist.Normal(np.zeros(2), 2.0)("y"))(y=point).log())
    for i in range(2):
        for j in range(3):
            right = stats.multivariate_normal(loc[i], roots[j] @ roots[j].T).logpdf(point)
            right += stats.norm.logpdf(point, 0.0, 2.0).sum()
            cell = at(i=i, j=j)
            assert float(cell) == pytest.approx(right, rel=1e-10)


def test_scale_that_is_a_variable_is_no_gaussian_in_it() -> None:
    f = dist.Normal(X, S)("y")
    assert float(f(s=0.5).sum("x")(y=0.3)) == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(DataError, match="the integral over 's'"):  # ∫ exp(−½ d²/s²)/s ds is infinite
        f.sum("s")


def test_location_with_a_slope_that_is_a_variable() -> None:
    """z = x y + noise is normal given y."""
    f = (dist.Normal(X * Y, 1.0)("z") * dist.Normal(0.0, 1.0)("x")).sum("x")
    assert float(f(y=0.5, z=0.3)) == pytest.approx(stats.norm.pdf(0.3, 0.0, np.sqrt(1.25)), rel=1e-12)


@pytest.mark.parametrize("value", [X * X, fb.ops.exp(X), fb.ops.sin(X)], ids=repr)
def test_location_that_is_not_affine(value: fb.Value) -> None:
    with pytest.raises(Intractable, match="'x'") as caught:
        (dist.Normal(value, 1.0)("z") * dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, 1.0)("y")).sum("x")
    assert "Normal(loc=" in str(caught.value)


def test_truncated_normal_is_no_gaussian() -> None:
    """A density that is zero somewhere is not exp of a quadratic."""
    f = dist.TruncatedNormal(0.0, 1.0, low=0.0)("x") * dist.Normal(X, 1.0)(0.5)
    assert float(f(x=-0.1).log()) == -np.inf
    mass = stats.norm(0.0, np.sqrt(2)).logpdf(0.5) + stats.norm(0.25, np.sqrt(0.5)).logsf(0.0) + np.log(2.0)
    assert float(f.sum("x").log()) == pytest.approx(mass, rel=1e-6)


# -- Tables and Deltas ----------------------------------------------------------------------------------------------


def test_categorical_is_a_table() -> None:
    probs = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    f = dist.Categorical(probs=fb.Array(probs, ("a",)))("k")
    likelihood = np.array([0.9, 0.5, 0.1])
    found = (f * fb.Table(likelihood, ("k",))).sum("k")
    assert isinstance(found, fb.Table) and found.inputs == {"a": fb.Bint[2]}
    np.testing.assert_allclose(numbers(found), probs @ likelihood, rtol=1e-12)


def test_bernoulli_is_a_table() -> None:
    f = dist.Bernoulli(logits=fb.Array(np.array([-1.0, 0.0, 2.0]), ("i",)))("b")
    found = (f * fb.Table([2.0, 5.0], ("b",))).sum("b")
    p = 1 / (1 + np.exp([1.0, 0.0, -2.0]))
    assert isinstance(found, fb.Table)
    np.testing.assert_allclose(numbers(found), 2 * (1 - p) + 5 * p, rtol=1e-12)


def test_binomial_is_a_table() -> None:
    f = dist.Binomial(4, 0.3)("n")
    found = (f * fb.weight(log=0.5 * fb.Variable("n", fb.Bint[5]))).sum("n")
    assert isinstance(found, fb.Table)
    assert float(found) == pytest.approx((0.7 + 0.3 * np.exp(0.5)) ** 4, rel=1e-12)


def test_a_variable_of_fewer_values() -> None:
    """Poisson at a bounded integer sums to less than one: exactly what lies within the bound."""
    n = fb.Variable("n", fb.Bint[5])
    assert float(dist.Poisson(2.0)(n).sum("n")) == pytest.approx(stats.poisson.cdf(4, 2.0), rel=1e-12)


def test_a_variable_of_more_values() -> None:
    n = fb.Variable("n", fb.Bint[4])
    found = dist.Categorical(probs=np.array([0.3, 0.7]))(n)
    np.testing.assert_allclose(numbers((found * fb.Table(np.ones(4), ("n",))).sum("n")), 1.0)
    assert float(found(n=3).log()) == -np.inf


def test_delta_density_is_a_delta() -> None:
    found = (dist.Delta(1.5)("x") * dist.Normal(X, 2.0)("y")).sum("x")
    assert float(found(y=0.3).log()) == pytest.approx(stats.norm.logpdf(0.3, 1.5, 2.0), rel=1e-12)
    assert isinstance((dist.Delta(1.5)("x") * dist.Normal(0.0, 1.0)("x")) / dist.Normal(0.0, 2.0)("x"), fb.Delta)


def test_delta_density_of_a_value() -> None:
    """δ(y = 2x) with x normal: the density of y."""
    found = (dist.Delta(2.0 * X)("y") * dist.Normal(1.0, 0.5)("x")).sum("x")
    assert float(found(y=0.3).log()) == pytest.approx(stats.norm.logpdf(0.3, 2.0, 1.0), rel=1e-12)


def test_delta_with_a_density_of_its_own() -> None:
    """Its mass is exp(log_density), alone and in a product."""
    f = dist.Delta(1.5, log_density=0.3)("x")
    assert float((f * dist.Normal(0.0, 1.0)("x")).sum("x").log()) == pytest.approx(stats.norm.logpdf(1.5) + 0.3)
    assert float(f.sum("x").log()) == pytest.approx(0.3)


def test_normal_at_bounded_integers_is_a_table() -> None:
    f = dist.Normal(1.0 * K, 0.5)(0.7)
    assert float(f.sum("k")) == pytest.approx(stats.norm.pdf(0.7, [0, 1, 2], 0.5).sum(), rel=1e-12)


# -- the order of sums ----------------------------------------------------------------------------------------------


def gamma_poisson() -> fb.Factor:
    return dist.Gamma(2.0, 3.0)("g") * dist.Poisson(G)("n")


def test_own_variable_first() -> None:
    """Σ_n leaves the prior of g, as a function of g."""
    found = gamma_poisson().sum("n")
    assert found.inputs == {"g": fb.Positive}
    assert float(found(g=0.7).log()) == pytest.approx(stats.gamma.logpdf(0.7, 2.0, scale=1 / 3), rel=1e-12)


@pytest.mark.parametrize("names", [("g", "n"), ("n", "g")])
def test_both_in_any_order(names: tuple[str, str]) -> None:
    assert float(gamma_poisson().sum(*names)) == 1.0
    assert float(fb.eliminate([dist.Poisson(G)("n"), dist.Gamma(2.0, 3.0)("g")], sum=names)) == 1.0


def blocked() -> fb.Factor:
    return dist.LogNormal(0.0, 1.0)("g") * dist.Poisson(G)("n")


def test_parameter_alone() -> None:
    found = gamma_poisson().sum("g")
    assert found.inputs == {"n": fb.Nat}
    assert float(found(n=2)) == pytest.approx(stats.nbinom.pmf(2, 2, 0.75), rel=1e-12)


def test_parameter_alone_names_both() -> None:
    with pytest.raises(Intractable) as caught:
        blocked().sum("g")
    text = str(caught.value)
    assert "'g'" in text and "LogNormal(" in text and "Poisson(rate=g)(n)" in text and "to do:" in text


def test_a_chain_of_densities_sums_to_one() -> None:
    """Each is summed over its own variable before its parameters are."""
    f = dist.Exponential(1.0)("s") * dist.Gamma(S, 1.0)("g") * dist.Poisson(G)("n") * dist.Normal(G, S)("x")
    assert float(f.sum("s", "g", "n", "x")) == 1.0
    assert f.sum("n", "x").inputs == {"s": fb.Positive, "g": fb.Positive}


def test_an_observed_child() -> None:
    assert float(gamma_poisson()(n=2).sum("g")) == pytest.approx(stats.nbinom.pmf(2, 2, 0.75), rel=1e-12)
    with pytest.raises(Intractable, match="'g'"):
        blocked()(n=2).sum("g")


@pytest.mark.slow
def test_draws_of_parents_before_children() -> None:
    found = gamma_poisson().sample(jax.random.key(0), "g", "n", n=4000)
    assert found["n"].dtype == np.int64
    mean, variance = 2 / 3, 2 / 3 + 2 / 9  # negative binomial
    assert abs(found["n"].mean() - mean) < 5 * np.sqrt(variance / 4000)
    assert abs(found["g"].mean() - 2 / 3) < 5 * np.sqrt(2 / 9 / 4000)
    assert abs(np.cov(found["g"], found["n"])[0, 1] - 2 / 9) < 0.05


def test_scaled_density() -> None:
    """A constant changes the mass and nothing else."""
    f = dist.Gamma(2.0, 3.0)("g") * 5.0
    assert float(f.sum("g")) == pytest.approx(5.0, rel=1e-12)
    assert float(f.normalize().sum("g")) == pytest.approx(1.0, rel=1e-12)
    assert float(f.mean("g")) == pytest.approx(2 / 3, rel=1e-12)


def test_quotient_of_densities() -> None:
    """0 outside the support, where both are 0."""
    f = dist.Gamma(2.0, 3.0)("g") / dist.Gamma(3.0, 1.0)("g")
    right = stats.gamma.logpdf(0.7, 2, scale=1 / 3) - stats.gamma.logpdf(0.7, 3)
    assert float(f(g=0.7).log()) == pytest.approx(right, rel=1e-12)
    uniform = dist.Uniform(0.0, 1.0)("x")
    assert float((uniform / uniform)(x=1.5).log()) == -np.inf


def test_power_of_a_density() -> None:
    f = dist.Gamma(2.0, 3.0)("g") ** 0.5
    assert float(f(g=0.7).log()) == pytest.approx(0.5 * stats.gamma.logpdf(0.7, 2, scale=1 / 3), rel=1e-12)


def test_plate_of_densities() -> None:
    """Π_i Poisson(n_i; g), at a number."""
    counts = np.array([2, 0, 3, 1])
    f = dist.Poisson(G)(fb.Array(counts, ("i",))).product("i")
    assert f.inputs == {"g": fb.Positive}
    assert float(f(g=1.3).log()) == pytest.approx(stats.poisson.logpmf(counts, 1.3).sum(), rel=1e-12)


def test_shared_parameter_in_a_plate_counts_once_for_each_cell() -> None:
    """B1.1: d log Z/dσ and log Z of normal data with one σ."""
    data = np.array([0.3, -1.2, 0.8, 1.5, 0.1])

    def evidence(sigma: Any) -> Any:
        likelihood = dist.Normal(X, sigma)(fb.Array(data, ("i",))).product("i")
        return (dist.Normal(0.0, 1.0)("x") * likelihood).sum("x").log().data

    def right(sigma: float) -> float:
        return stats.multivariate_normal(np.zeros(5), sigma**2 * np.eye(5) + 1.0).logpdf(data)

    assert float(evidence(0.7)) == pytest.approx(right(0.7), rel=1e-12)
    slope = (right(0.7 + 1e-5) - right(0.7 - 1e-5)) / 2e-5
    with jax.enable_x64(True):
        assert float(jax.grad(evidence)(0.7)) == pytest.approx(slope, rel=1e-7)


def test_posterior_predictive_against_quadrature() -> None:
    """What is blocked exactly is still evaluable point by point."""
    f = (dist.Gamma(2.0, 3.0)("g") * dist.Poisson(G)("n"))(n=2)
    total, _ = integrate.quad(lambda g: float(f(g=g)), 0.0, 20.0, epsabs=1e-10)
    assert total == pytest.approx(stats.nbinom.pmf(2, 2, 0.75), rel=1e-8)


# -- lazy -----------------------------------------------------------------------------------------------------------


def test_blocked_sum_stays_recorded() -> None:
    with fb.lazy:
        e = blocked().sum("g")
    assert e.inputs == {"n": fb.Nat} and "Σ_g" in repr(e)
    with pytest.raises(Intractable) as eager:
        blocked().sum("g")
    with pytest.raises(Intractable) as later:
        fb.evaluate(e)
    assert str(later.value).replace("'", "") == str(eager.value).replace("'", "")


def test_recorded_sum_of_densities_is_evaluated() -> None:
    with fb.lazy:
        e = (dist.Normal(0.0, 1.0)("x") * dist.Normal(X, 1.0)("y")).sum("x")
    assert not isinstance(e, fb.Gaussian)
    assert float(fb.evaluate(e)(y=0.3).log()) == pytest.approx(stats.norm.logpdf(0.3, 0.0, np.sqrt(2)), rel=1e-12)


def test_recorded_sum_over_own_variable() -> None:
    with fb.lazy:
        e = gamma_poisson().sum("n")
    assert float(fb.evaluate(e)(g=0.7).log()) == pytest.approx(stats.gamma.logpdf(0.7, 2.0, scale=1 / 3), rel=1e-12)


# -- bad parameters and values --------------------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "negative scale": (lambda s: dist.Normal(0.0, s)("x"), -1.0, "scale"),
    "zero scale": (lambda s: dist.Normal(0.0, s)("x"), 0.0, "scale"),
    "NaN scale": (lambda s: dist.Normal(0.0, s)("x"), np.nan, "scale"),
    "NaN location": (lambda m: dist.Normal(m, 1.0)("x"), np.nan, "loc"),
    "one bad scale of three": (lambda s: dist.Normal(0.0, s)("x"), np.array([1.0, -2.0, 3.0]), "scale"),
    "negative rate": (lambda r: dist.Gamma(2.0, r)("x"), -1.0, "rate"),
    "NaN rate": (lambda r: dist.Poisson(r)("x"), np.nan, "rate"),
    "probability above one": (lambda p: dist.Bernoulli(probs=p)("x"), 1.2, "probs"),
    "NaN probability": (lambda p: dist.Bernoulli(probs=p)("x"), np.nan, "probs"),
    "probabilities that do not sum to one": (
        lambda p: dist.Categorical(probs=p)("x"),
        np.array([0.3, 0.3, 0.3]),
        "probs",
    ),
    "a negative probability": (lambda p: dist.Categorical(probs=p)("x"), np.array([1.2, -0.2]), "probs"),
    "NaN logits": (lambda p: dist.Categorical(logits=p)("x"), np.array([0.1, np.nan]), "logits"),
    "negative concentration": (lambda c: dist.Dirichlet(c)("x"), np.array([1.0, -1.0]), "concentration"),
    "indefinite covariance": (
        lambda c: dist.MultivariateNormal(np.zeros(2), covariance_matrix=c)("x"),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        "covariance_matrix",
    ),
    "inner scale": (lambda s: dist.Normal(0.0, s).expand([3])("x"), -1.0, "scale"),
}


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
@pytest.mark.parametrize("name", BAD)
def test_bad_parameter(name: str, array: Callable) -> None:
    make, bad, key = BAD[name]
    with pytest.raises(DataError, match=key) as caught:
        make(array(bad))
    assert "dist." in str(caught.value) and "expected:" in str(caught.value)


@UNDER
@pytest.mark.parametrize("name", ["negative scale", "probabilities that do not sum to one"])
def test_bad_parameter_at_construction(name: str, interpretation: fb.Interpretation) -> None:
    make, bad, key = BAD[name]
    with interpretation, pytest.raises(DataError, match=key):
        make(bad)


@pytest.mark.parametrize("name", BAD)
def test_bad_parameter_under_jit_is_nan(name: str) -> None:
    """Summed over its variable: not 1, as it would be by the rule that needs no numbers."""
    make, bad, _ = BAD[name]
    found = jax.jit(lambda p: make(p).sum("x").log().data)(jnp.asarray(bad))
    assert np.all(np.isnan(found))


@pytest.mark.parametrize("name", BAD)
def test_bad_parameter_in_checked(name: str) -> None:
    make, bad, key = BAD[name]
    with pytest.raises(DataError, match=key):
        fb.checked(jax.jit(lambda p: make(p).sum("x").log().data))(jnp.asarray(bad))


@pytest.mark.parametrize("name", ["negative scale", "NaN location", "one bad scale of three", "negative rate"])
def test_bad_parameter_spoils_the_density_under_jit(name: str) -> None:
    make, bad, _ = BAD[name]
    point = np.full(make(np.ones_like(bad)).inputs["x"].shape, 0.4)
    assert np.isnan(jax.jit(lambda p: make(p)(x=point).log().data)(jnp.asarray(bad)))


def test_bad_parameter_of_one_cell_spoils_that_cell() -> None:
    def mass(scale: Any) -> Any:
        f = dist.Normal(0.0, fb.Array(scale, ("i",)))("x") * fb.Table(np.ones(3), ("i",))
        return to_array(f.sum("x").log()).data

    found = jax.jit(mass)(jnp.asarray([1.0, -2.0, 3.0]))
    np.testing.assert_allclose(found, [0.0, np.nan, 0.0], atol=1e-6)


def test_a_bad_gathered_parameter_under_jit() -> None:
    """Parameters that arrive by substitution are checked too, where they are numbers."""
    with pytest.raises(DataError, match="scale"):
        dist.Normal(0.0, fb.Variable("t", fb.Real))("x")(t=-1.0)
    found = jax.jit(lambda t: dist.Normal(0.0, fb.Variable("t", fb.Real))("x")(t=t).sum("x").log().data)(-1.0)
    assert np.isnan(found)


MISFITS = {
    "parameters of different shapes": lambda: dist.Normal(np.zeros(2), np.ones(3)),
    "matrix of another size": lambda: dist.MultivariateNormal(np.zeros(3), np.eye(2)),
    "value of another shape": lambda: dist.MultivariateNormal(np.zeros(2), np.eye(2))(fb.Variable("x", fb.Reals[3])),
    "array of another shape": lambda: dist.Normal(np.zeros(2), 1.0)(np.zeros(3)),
    "a real where an integer is due": lambda: dist.Poisson(1.0)(1.5),
    "a real variable for counts": lambda: dist.Poisson(1.0)(X),
    "a real variable for a category": lambda: dist.Categorical(probs=np.array([0.3, 0.7]))(X),
    "a number for a vector": lambda: dist.MultivariateNormal(np.zeros(2), np.eye(2))(0.5),
    "one name with two domains": lambda: dist.Gamma(X, 1.0)("x"),
    "too few parameters": lambda: dist.Beta(1.0),
    "an unknown parameter": lambda: dist.Normal(loc=0.0, sigma=1.0),
    "a string for a parameter": lambda: dist.Normal("m", 1.0),
    "a factor for a parameter": lambda: dist.Normal(fb.Table([0.5, 0.5], ("k",)), 1.0),
    "both probs and logits": lambda: dist.Bernoulli(probs=0.3, logits=0.1),
    "neither probs nor logits": lambda: dist.Bernoulli(),
    "two matrices": lambda: dist.MultivariateNormal(np.zeros(2), np.eye(2), np.eye(2)),
}


@UNDER
@pytest.mark.parametrize("name", MISFITS)
def test_misfit_at_construction(name: str, interpretation: fb.Interpretation) -> None:
    with interpretation, pytest.raises(DomainError) as caught:
        MISFITS[name]()
    assert "expected:" in str(caught.value)


@UNDER
def test_sum_over_a_name_that_is_absent(interpretation: fb.Interpretation) -> None:
    with interpretation, pytest.raises(fb.FubiniError, match="'z'"):
        dist.Normal(X, 1.0)("y").sum("z")


@UNDER
def test_blocked_max_names_the_variable(interpretation: fb.Interpretation) -> None:
    f = dist.Gamma(0.5, 3.0)("g")  # which grows without end towards 0
    if interpretation is fb.lazy:
        with fb.lazy:
            e = f.max("g")
        with pytest.raises(Intractable, match=r"over '?g'?"):
            fb.evaluate(e)
        return
    with pytest.raises(Intractable, match="'g'"):
        f.max("g")


# -- derivatives ----------------------------------------------------------------------------------------------------


def test_derivatives_of_a_density_in_its_parameters() -> None:
    def log(a: Any) -> Any:
        return dist.Gamma(a, 3.0)("g")(g=0.7).log().data

    def right(a: float) -> float:
        return stats.gamma.logpdf(0.7, a, scale=1 / 3)

    h = 1e-4
    with jax.enable_x64(True):
        first, second = jax.grad(log)(2.0), jax.grad(jax.grad(log))(2.0)
    assert float(first) == pytest.approx((right(2 + h) - right(2 - h)) / (2 * h), rel=1e-6)
    assert float(second) == pytest.approx((right(2 + h) - 2 * right(2) + right(2 - h)) / h**2, rel=1e-5)


def test_derivative_is_finite_at_the_edge_of_the_support() -> None:
    """Outside the support the density is zero whatever the parameter: its derivative is 0 or NaN-free."""

    def log(high: Any) -> Any:
        return fb.ops.exp(dist.Uniform(0.0, high)("x")(x=1.5).log()).data

    assert float(jax.grad(log)(1.0)) == 0.0
    assert float(jax.grad(log)(2.0)) == pytest.approx(-0.25)


def test_mass_of_a_density_has_derivative_zero() -> None:
    found = jax.grad(lambda a: dist.Gamma(a, 3.0)("g").sum("g").log().data)(2.0)
    assert float(found) == 0.0


def test_vmap_over_a_parameter() -> None:
    found = jax.vmap(lambda a: dist.Gamma(a, 3.0)("g")(g=0.7).log().data)(jnp.asarray([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, stats.gamma.logpdf(0.7, [1.0, 2.0, 3.0], scale=1 / 3), rtol=1e-4)


def test_shared_by_two_compiled_functions() -> None:
    """A density of JAX's arrays that two compiled functions capture is read in each by itself."""
    x = fb.Variable("x", fb.Reals[2])
    start = dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=jnp.eye(2))("x")

    def log_mean(scale: Any) -> Any:
        seen = dist.MultivariateNormal(scale * x, covariance_matrix=jnp.eye(2))(np.array([1.0, 2.0]))
        return (start * seen).sum("x").log().data

    first, second = jax.jit(log_mean)(2.0), jax.jit(jax.grad(log_mean))(2.0)
    variance = 5.0  # of each number, 1 + 2²
    assert np.isclose(first, -np.log(2 * np.pi * variance) - 5 / (2 * variance), atol=1e-5)
    assert np.isclose(second, -2 * 2 / variance + 5 * 2 / variance**2, atol=1e-5)
