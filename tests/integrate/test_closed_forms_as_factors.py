"""Closed forms of models asked as factors: evidence by an oracle, its gradient, and the moments of draws.

Each model has one parameter, a random number. Its evidence as a model and as factors is that of the oracle, its
derivatives are differences of it, and draws of the factors have the means of draws of the model.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import transforms
from scipy import special, stats

import fubini as fb
from fubini import dist
from fubini.models.flat_model import FlatModel
from fubini.questions.model_factors import model_factors
from fubini.terms.factor import product

DRAWS, STEP = 4000, 1e-4
SHARES = np.array([0.2, 0.3, 0.5])
COUNTS = np.array([2, 4, 3])
HOLES = np.ma.array([0.3, np.nan, 0.8], mask=[False, True, False])
SEEN = np.array([1.4, -0.5, 2.2])


@fb.model
def recursion(a):
    e = yield dist.Normal(a, 1.0).expand([3])
    y = yield dist.Normal(jax.lax.scan(lambda c, x: (0.5 * c + x, 0.5 * c + x), 0.0, e)[1], 0.5)


@fb.model
def updates(a):
    x = yield dist.Normal(a, 1.0).expand([3])
    filled = jax.lax.fori_loop(1, 3, lambda t, v: v.at[t].add(0.7 * v[t - 1]), x)
    y = yield dist.Normal(jax.checkpoint(lambda v: 1.0 + v)(filled) - 1.0, 0.5)


@fb.model
def solved(a):
    x = yield dist.Normal(a, 1.0).expand([3])
    y = yield dist.Normal(jnp.linalg.solve(jnp.array(SYSTEM), x), 0.5)


@fb.model
def sliced(a):
    x = yield dist.Normal(a, 1.0).expand([4])
    y = yield dist.Normal(jax.lax.dynamic_slice(x, (1,), (3,)), 0.5)


@fb.model
def coupled(a):
    z = yield dist.Bernoulli(0.3).expand([3])
    y = yield dist.Poisson(a * (1.0 + z.sum())).expand([3])


@fb.model
def multiplied(a):
    z = yield dist.Categorical(SHARES)
    y = yield dist.Poisson((a * jnp.array([1.0, 2.0, 3.0])).at[z].multiply(2.0))


@fb.model
def missing(a):
    x = yield dist.Normal(a, 1.0).expand([3])
    y = yield dist.Normal(2.0 * x + 1.0, 0.5)


@fb.model
def neighbours(a):
    z = yield dist.Normal(a, 1.0).expand([3])
    y = yield dist.Normal(z[np.array([0, 1, 2])] - 0.5 * z[np.array([1, 2, 0])], 0.5)


@fb.model
def matrix(a):
    W = yield dist.MatrixNormal(jnp.full((2, 3), a), COLUMNS, ROWS)
    y = yield dist.Normal(jnp.array([1.0, -0.5]) @ W, 0.5)


@fb.model
def moved(a):
    m = yield dist.Normal(a, 1.0)
    x = yield dist.TransformedDistribution(dist.Normal(0.0, 0.8).expand([3]), transforms.AffineTransform(m, 2.0))
    y = yield dist.Normal(x, 0.5)


@fb.model
def graded(a):
    z = yield dist.Categorical(SHARES).expand([3])
    y = yield dist.OrderedLogistic(a * jnp.array([-1.0, 0.5, 2.0])[z], CUTPOINTS)


@fb.model
def half_student(a):
    v = yield dist.InverseGamma(6.0, a)
    y = yield dist.HalfNormal(jnp.sqrt(v)).expand([3])


@fb.model
def wishart(a):
    S = yield dist.InverseWishart(9.0, a * jnp.array(SPREAD))
    y = yield dist.MultivariateNormal(jnp.zeros(2), S).expand([3])


@fb.model
def matrix_regression(a):
    S = yield dist.InverseWishart(9.0, a * jnp.array(SPREAD))
    B = yield dist.MultivariateNormal(jnp.zeros(2), S).expand([1])
    y = yield dist.MultivariateNormal(jnp.array(INPUTS) @ B, S)


@fb.model
def process(a):
    v = yield dist.InverseGamma(6.0, a)
    f = yield dist.MultivariateNormal(jnp.zeros(3), v * jnp.array(KERNEL))
    y = yield dist.Normal(f, 0.5 * jnp.sqrt(v))


CUTPOINTS, SPREAD = np.array([-0.5, 0.8]), np.array([[1.6, 0.4], [0.4, 0.9]])
INPUTS, KERNEL = np.array([[1.0], [-0.5], [2.0]]), np.exp(-0.5 * np.subtract.outer(np.arange(3), np.arange(3)) ** 2)
GRADES, VECTORS = np.array([0, 2, 1]), np.array([[1.0, 0.3], [-0.4, 0.8], [0.5, -1.2]])
SYSTEM = np.array([[2.0, 0.3, 0.0], [0.1, 1.5, -0.4], [0.0, 0.2, 1.0]])
ROWS = np.array([[1.0, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.2, 0.1, 0.9]])
COLUMNS = np.array([[1.0, 0.0], [-0.3, 0.7]])


def of_normals(to: np.ndarray, mean: Callable[[float], np.ndarray], covariance: np.ndarray) -> Callable[[float], float]:
    """log N(y; A m, A C Aᵀ + 0.25 I)"""
    noise = 0.25 * np.eye(len(to))
    return lambda a: stats.multivariate_normal(to @ mean(a), to @ covariance @ to.T + noise).logpdf(SEEN)


def of_coupled(a: float) -> float:
    each = [
        stats.bernoulli(0.3).logpmf(z).sum() + stats.poisson(a * (1 + sum(z))).logpmf(COUNTS).sum()
        for z in itertools.product((0, 1), repeat=3)
    ]
    return special.logsumexp(each)


def of_multiplied(a: float) -> float:
    rates = a * np.array([1.0, 2.0, 3.0]) * (1.0 + np.eye(3))
    return special.logsumexp(np.log(SHARES) + stats.poisson(rates).logpmf(COUNTS).sum(axis=1))


def of_missing(a: float) -> float:
    known = [0, 2]
    x = np.asarray(HOLES.data)[known]
    total = stats.norm(a, 1).logpdf(x).sum() + stats.norm(2 * x + 1, 0.5).logpdf(SEEN[known]).sum()
    return total + stats.norm(2 * a + 1, np.sqrt(4.25)).logpdf(SEEN[1])


def of_graded(a: float) -> float:
    passed = special.expit(CUTPOINTS[:, None] - a * np.array([-1.0, 0.5, 2.0]))
    chances = np.diff(np.vstack([np.zeros(3), passed, np.ones(3)]), axis=0)
    return np.log(chances @ SHARES)[GRADES].sum()


def of_shared_variance(covariance: np.ndarray, y: np.ndarray) -> Callable[[float], float]:
    """log ∫ N(y; 0, v C) InverseGamma(v; 6, a) dv, a Student's t"""
    return lambda a: stats.multivariate_t(np.zeros(3), a / 6 * covariance, 12).logpdf(y)


def of_shared_covariance(rows: np.ndarray) -> Callable[[float], float]:
    """log ∫ N(Y; 0, R ⊗ S) InverseWishart(S; 9, a Ψ) dS, a matrix Student's t"""
    squares = VECTORS.T @ np.linalg.solve(rows, VECTORS)
    front = special.multigammaln(6.0, 2) - special.multigammaln(4.5, 2) - 3 * np.log(np.pi)
    front -= np.linalg.slogdet(rows)[1]

    def log_evidence(a: float) -> float:
        before, after = (np.linalg.slogdet(one)[1] for one in (a * SPREAD, a * SPREAD + squares))
        return front + 4.5 * before - 6.0 * after

    return log_evidence


class Case(NamedTuple):
    """A model, what is observed, and its log-evidence by hand."""

    model: Any
    seen: dict[str, Any]
    log_evidence: Callable[[float], float]


def same(a: float) -> np.ndarray:
    return np.full(3, a)


LAGS = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]])
ADDED = np.array([[1.0, 0.0, 0.0], [0.7, 1.0, 0.0], [0.49, 0.7, 1.0]])
ROW = np.array([1.0, -0.5])
CASES = {
    "scan": Case(recursion, {"y": SEEN}, of_normals(LAGS, same, np.eye(3))),
    "updates in a loop": Case(updates, {"y": SEEN}, of_normals(ADDED, same, np.eye(3))),
    "solve": Case(solved, {"y": SEEN}, of_normals(np.linalg.inv(SYSTEM), same, np.eye(3))),
    "dynamic slice": Case(sliced, {"y": SEEN}, of_normals(np.eye(3), same, np.eye(3))),
    "labels together": Case(coupled, {"y": COUNTS}, of_coupled),
    "multiplied by a label": Case(multiplied, {"y": COUNTS}, of_multiplied),
    "missing covariate": Case(missing, {"x": HOLES, "y": SEEN}, of_missing),
    "differences of neighbours": Case(
        neighbours, {"y": SEEN}, of_normals(np.eye(3) - 0.5 * np.roll(np.eye(3), 1, axis=1), same, np.eye(3))
    ),
    "matrix normal": Case(
        matrix, {"y": SEEN},
        of_normals(np.eye(3), lambda a: 0.5 * same(a), ROWS @ ROWS.T * (ROW @ COLUMNS @ COLUMNS.T @ ROW)),
    ),
    "grades of labels": Case(graded, {"y": GRADES}, of_graded),
    "half Student's t": Case(
        half_student, {"y": np.abs(SEEN)}, lambda a: 3 * np.log(2) + of_shared_variance(np.eye(3), np.abs(SEEN))(a)
    ),
    "inverse Wishart": Case(wishart, {"y": VECTORS}, of_shared_covariance(np.eye(3))),
    "coefficients of vectors": Case(
        matrix_regression, {"y": VECTORS}, of_shared_covariance(np.eye(3) + INPUTS @ INPUTS.T)
    ),
    "Gaussian process": Case(process, {"y": SEEN}, of_shared_variance(KERNEL + 0.25 * np.eye(3), SEEN)),
    "affine transform": Case(moved, {"y": SEEN}, of_normals(np.eye(3), same, 1.0 + 2.56 * np.eye(3))),
}  # fmt: skip


def factors_of(post: Any) -> tuple[list[fb.Factor], list[str]]:
    factors, variables = model_factors(FlatModel(post))
    return factors, [variable.name for variable in variables]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_closed_form(name) -> None:
    case, at = CASES[name], np.random.default_rng(len(name)).uniform(0.4, 1.2)
    right = case.log_evidence(at)
    slope = (case.log_evidence(at + STEP) - case.log_evidence(at - STEP)) / (2 * STEP)

    def of_model(a):
        return case.model(a).condition(**case.seen).log_evidence().data

    def of_factors(a):
        factors, names = factors_of(case.model(a).condition(**case.seen))
        return fb.eliminate(factors, names).log().data

    with jax.enable_x64(True):
        for ask in (of_model, of_factors):
            assert float(ask(at)) == pytest.approx(right, rel=1e-9)
            found = jax.jit(jax.value_and_grad(ask))(jnp.array(at))
            np.testing.assert_allclose(found, (right, slope), rtol=1e-6)

    post = case.model(at).condition(**case.seen)
    factors, names = factors_of(post)
    if name == "matrix normal":  # whose factors alone have no common form
        ours = product(*factors).normalize(*names).sample(jax.random.key(0), *names, n=DRAWS)
    else:
        ours = fb.sample(jax.random.key(0), factors, names, n=DRAWS)
    theirs = post.infer(jax.random.key(1), draws=DRAWS // 4, chains=4, progress=False, predictive=False).posterior
    for site in names:
        one = np.asarray(ours[site], float)
        two = np.asarray(theirs[site].values, float).reshape(one.shape)
        error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / DRAWS) + 1e-12
        assert np.all(np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4.5 * error)
        np.testing.assert_allclose(one.std(axis=0), two.std(axis=0), rtol=0.15, atol=0.02)


@fb.model
def times(t):
    rate = yield dist.Gamma(2.0, t[0])
    chance = yield dist.Uniform(0.0, 1.0)
    y = yield dist.Weibull(rate**-0.5 * t[1], 2.0).expand([3])
    k = yield dist.Binomial(10, chance).expand([3])


@pytest.mark.parametrize("wide", [False, True])
def test_numbers_that_a_trace_knows(wide) -> None:
    """The exponent 2 and the ends 0 and 1, numbers of JAX inside `jit` and outside of it, decide rules there too."""

    def of_factors(t, y):
        factors, names = factors_of(times(t).condition(y=y, k=COUNTS))
        return fb.eliminate(factors, names).log().data

    rates, chances = fb.Variable("rate", fb.Positive), fb.Variable("chance", fb.Real)

    def by_hand(t, y):
        seen = dist.Weibull(rates**-0.5 * t[1], two).expand([3])(y)
        counted = dist.Uniform(none, one)("chance") * dist.Binomial(10, chances).expand([3])(COUNTS)
        return (dist.Gamma(two, t[0])("rate") * seen * counted).sum("rate", "chance").log().data

    shape, rate, y = 2.0, 1.3, np.array([1.3, 2.1, 0.5])
    right = np.log(2 * y / 0.49).sum() + shape * np.log(rate) + special.gammaln(shape + 3) - special.gammaln(shape)
    right -= (shape + 3) * np.log(rate + (y**2).sum() / 0.49)
    right += np.log(special.comb(10, COUNTS)).sum() + special.betaln(1 + COUNTS.sum(), 31 - COUNTS.sum())
    with jax.enable_x64(wide):
        none, one, two = map(jnp.array, (0.0, 1.0, 2.0))
        for ask in (of_factors, by_hand):
            for compiled in (ask, jax.jit(ask), ask):
                assert float(compiled(jnp.array([rate, 0.7]), jnp.asarray(y))) == pytest.approx(right, rel=1e-5)
