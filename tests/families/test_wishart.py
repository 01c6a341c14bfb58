"""Wishart and inverse-Wishart priors: evidence, marginals, modes and draws against formulas and quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions
import pytest
from jax.scipy.special import multigammaln
from scipy import integrate, stats
from scipy.special import logsumexp

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, NoRule

RNG = np.random.default_rng(3)
P, N, DF, KAPPA = 2, 6, 5.0, 0.3
Y = RNG.normal(size=(N, P)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
PSI = np.array([[1.6, 0.4], [0.4, 0.9]])
MEAN = np.array([0.3, -0.2])


@fb.model
def covariance(df=DF, scale=PSI, mean=MEAN):
    S = yield dist.InverseWishart(df, scale)
    y = yield dist.MultivariateNormal(mean, S).expand([N])


@fb.model
def precision(df=DF, scale=PSI, mean=MEAN):
    S = yield dist.Wishart(df, scale)
    y = yield dist.MultivariateNormal(mean, precision_matrix=S).expand([N])


@fb.model
def unknown_mean(df=DF, scale=PSI, mean=MEAN, kappa=KAPPA):
    S = yield dist.InverseWishart(df, scale)
    mu = yield dist.MultivariateNormal(mean, S / kappa)
    y = yield dist.MultivariateNormal(mu, S).expand([N])


@fb.model
def unknown_mean_by_precision(df=DF, scale=PSI, mean=MEAN, kappa=KAPPA):
    S = yield dist.Wishart(df, scale)
    mu = yield dist.MultivariateNormal(mean, precision_matrix=kappa * S)
    y = yield dist.MultivariateNormal(mu, precision_matrix=S).expand([N])


MODELS = {
    "covariance": covariance,
    "precision": precision,
    "unknown mean": unknown_mean,
    "unknown mean by precision": unknown_mean_by_precision,
}


# -- formulas ---------------------------------------------------------------------------------------------------------


def log_normaliser(df, scatter):
    """log ∫ |S|^(−(ν + p + 1)/2) e^(−½ tr(S⁻¹ B)) dS"""
    p = scatter.shape[-1]
    return df * p / 2 * jnp.log(2) + multigammaln(df / 2, p) - df / 2 * jnp.linalg.slogdet(scatter)[1]


def posterior_scatter(name, scale=PSI, mean=MEAN, kappa=KAPPA, y=Y):
    """Ψ or V⁻¹, and that of the posterior"""
    prior = jnp.linalg.inv(scale) if "precision" in name else jnp.asarray(scale)
    if "unknown" not in name:
        return prior, prior + (y - mean).T @ (y - mean)
    n, centre = len(y), y.mean(axis=0)
    between = kappa * n / (kappa + n) * jnp.outer(centre - mean, centre - mean)
    return prior, prior + (y - centre).T @ (y - centre) + between


def expected_evidence(name, df=DF, scale=PSI, mean=MEAN, kappa=KAPPA, y=Y):
    n, p = y.shape
    prior, scatter = posterior_scatter(name, scale, mean, kappa, y)
    shrunk = p / 2 * jnp.log(kappa / (kappa + n)) if "unknown" in name else 0.0
    return log_normaliser(df + n, scatter) - log_normaliser(df, prior) - n * p / 2 * jnp.log(2 * jnp.pi) + shrunk


def in_double(function, *given):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*jax.tree.map(jnp.asarray, given)))


def expected(name, **changed):
    return float(in_double(lambda: expected_evidence(name, **changed)))


# -- the same models by other doors -----------------------------------------------------------------------------------


def as_numpyro(name):
    nd = numpyro.distributions
    by_precision = "precision" in name

    def normal(mean, S, factor=1.0):
        form = {"precision_matrix": factor * S} if by_precision else {"covariance_matrix": S / factor}
        return nd.MultivariateNormal(mean, **form)

    def model():
        S = numpyro.sample("S", (nd.Wishart if by_precision else nd.InverseWishart)(DF, PSI))
        mu = numpyro.sample("mu", normal(MEAN, S, KAPPA)) if "unknown" in name else MEAN
        with numpyro.plate("n", N):
            numpyro.sample("y", normal(mu, S), obs=Y)

    return fb.from_numpyro(model)


def as_factors(name, df=DF, scale=PSI, mean=MEAN, kappa=KAPPA, y=Y):
    S, mu = fb.Variable("S", fb.PositiveDefinite[P]), fb.Variable("mu", fb.Reals[P])
    by_precision = "precision" in name

    def normal(mean, factor=1.0):
        form = {"precision_matrix": factor * S} if by_precision else {"covariance_matrix": S / factor}
        return dist.MultivariateNormal(mean, **form)

    prior = (dist.Wishart if by_precision else dist.InverseWishart)(df, scale)("S")
    data = normal(mu if "unknown" in name else mean)(fb.Array(y, ("n",))).product("n")
    return prior * normal(mean, kappa)("mu") * data if "unknown" in name else prior * data


# -- evidence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("door", ["model", "numpyro", "factors"])
def test_evidence(name, door):
    if door == "factors":
        f = as_factors(name)
        value = f.sum(*f.inputs).log()
    else:
        value = (MODELS[name]().condition(y=Y) if door == "model" else as_numpyro(name)).log_evidence()
    assert str(value.exactness) == "exact"
    assert float(value) == pytest.approx(expected(name), abs=1e-9)


@pytest.mark.parametrize("name", ["covariance", "precision"])
def test_evidence_by_quadrature(name):
    """On a grid over the Cholesky factor L of the matrix, with dS = 2² L₀₀² L₁₁ dL and L₀₀, L₁₁ = e^a, e^b."""
    a, b, c = np.linspace(-3, 3, 61), np.linspace(-3, 3, 61), np.linspace(-10, 10, 201)
    A, B, C = (grid.ravel() for grid in np.meshgrid(a, b, c, indexing="ij"))
    first, last = np.exp(A), np.exp(B)
    log_determinant = 2 * (A + B)
    entries = {(0, 0): first**2, (0, 1): first * C, (1, 1): C**2 + last**2}

    def trace_of_inverse(M):
        """tr(S⁻¹ M)"""
        adjugate = entries[1, 1] * M[0, 0] - 2 * entries[0, 1] * M[0, 1] + entries[0, 0] * M[1, 1]
        return adjugate / np.exp(log_determinant)

    def trace(M):
        """tr(S M)"""
        return entries[0, 0] * M[0, 0] + 2 * entries[0, 1] * M[0, 1] + entries[1, 1] * M[1, 1]

    squares = (Y - MEAN).T @ (Y - MEAN)
    if name == "covariance":
        prior = -(DF + P + 1) / 2 * log_determinant - trace_of_inverse(PSI) / 2
        data = -N / 2 * log_determinant - trace_of_inverse(squares) / 2
    else:
        prior = (DF - P - 1) / 2 * log_determinant - trace(np.linalg.inv(PSI)) / 2
        data = N / 2 * log_determinant - trace(squares) / 2
    measure = 3 * A + 2 * B  # 4 L₀₀² L₁₁ · L₀₀ L₁₁, up to the 4, which cancels
    evidence = logsumexp(prior + data + measure) - logsumexp(prior + measure) - N * P / 2 * np.log(2 * np.pi)
    assert float(MODELS[name]().condition(y=Y).log_evidence()) == pytest.approx(evidence, abs=2e-4)


@pytest.mark.parametrize("form", ["scale_matrix", "rate_matrix", "scale_tril"])
@pytest.mark.parametrize("family", ["Wishart", "InverseWishart"])
def test_forms_of_the_matrix(family, form):
    given = {"scale_matrix": PSI, "rate_matrix": np.linalg.inv(PSI), "scale_tril": np.linalg.cholesky(PSI)}[form]

    @fb.model
    def model():
        S = yield getattr(dist, family)(DF, **{form: given})
        form_of_normal = "covariance_matrix" if family == "InverseWishart" else "precision_matrix"
        y = yield dist.MultivariateNormal(MEAN, **{form_of_normal: S}).expand([N])

    name = "covariance" if family == "InverseWishart" else "precision"
    assert float(model().condition(y=Y).log_evidence()) == pytest.approx(expected(name), abs=1e-9)


@pytest.mark.parametrize("name", ["unknown mean", "unknown mean by precision"])
@pytest.mark.parametrize("p", [1, 3])
def test_other_sizes(name, p):
    rng = np.random.default_rng(p)
    scale = np.cov(rng.normal(size=(p, 9))).reshape(p, p) + np.eye(p)
    y, mean = rng.normal(size=(N, p)), rng.normal(size=p)
    evidence = MODELS[name](DF, scale, mean).condition(y=y).log_evidence()
    assert float(evidence) == pytest.approx(expected(name, scale=scale, mean=mean, y=y), abs=1e-9)


@pytest.mark.parametrize("name", ["precision", "unknown mean"])
@pytest.mark.parametrize("is_model", [True, False])
def test_compiled_and_differentiated(name, is_model):
    """In degrees of freedom, scale, mean, the weight of the mean and data; of the scale, along symmetric changes."""
    keys = ("df", "scale", "mean", *(["kappa"] if "unknown" in name else []), "y")

    def ours(*given):
        named = dict(zip(keys, given, strict=True))
        if not is_model:
            f = as_factors(name, **named)
            return f.sum(*f.inputs).log().data
        y = named.pop("y")
        return MODELS[name](**named).condition(y=y).log_evidence().data

    def exact(*given):
        return expected_evidence(name, **dict(zip(keys, given, strict=True)))

    numbers = {"df": DF, "scale": PSI, "mean": MEAN, "kappa": KAPPA, "y": Y}
    given = [numbers[key] for key in keys]
    every = tuple(range(len(keys)))
    value, slopes = in_double(jax.jit(jax.value_and_grad(ours, every)), *given)
    wanted, expected_slopes = in_double(jax.value_and_grad(exact, every), *given)
    assert float(value) == pytest.approx(float(wanted), abs=1e-9)
    for key, found, right in zip(keys, slopes, expected_slopes, strict=True):
        both = [part + part.T if key == "scale" else part for part in (found, right)]
        np.testing.assert_allclose(*both, atol=1e-9, err_msg=key)
    single = jax.jit(ours)(*(jnp.asarray(number, jnp.float32) for number in given))
    assert single.dtype == jnp.float32
    assert float(single) == pytest.approx(float(wanted), rel=1e-5)


def test_factors_summed_one_after_another():
    """The mean first, then the matrix, of what remains."""
    f = as_factors("unknown mean").sum("mu")
    assert float(f.sum("S").log()) == pytest.approx(expected("unknown mean"), abs=1e-9)
    scatter = in_double(lambda: posterior_scatter("unknown mean")[1])
    np.testing.assert_allclose(f.normalize("S").mean("S").data, scatter / (DF + N - P - 1), rtol=1e-9)


def test_traced_numbers_that_are_not_allowed():
    evidence = jax.jit(lambda df, scale, kappa: unknown_mean(df, scale, MEAN, kappa).condition(y=Y).log_evidence().data)
    for bad in ((0.5, PSI, KAPPA), (DF, -PSI, KAPPA), (DF, PSI, -KAPPA)):
        assert np.isnan(evidence(*bad))


def test_matrices_in_a_plate():
    """One matrix and one mean for each class, of data with known labels."""
    labels = np.array([0, 1, 1, 2, 0, 1, 2, 2])
    y = RNG.normal(size=(8, P))

    @fb.model
    def classes():
        S = yield dist.InverseWishart(DF, PSI).expand([3])
        mu = yield dist.MultivariateNormal(MEAN, S / KAPPA)
        y = yield dist.MultivariateNormal(mu[labels], S[labels])

    post = classes().condition(y=y)
    parts = [y[labels == k] for k in range(3)]
    assert float(post.log_evidence()) == pytest.approx(
        sum(expected("unknown mean", y=part) for part in parts), abs=1e-9
    )
    scatters = [in_double(lambda part=part: posterior_scatter("unknown mean", y=part)[1]) for part in parts]
    means = [scatter / (DF + len(part) - P - 1) for part, scatter in zip(parts, scatters, strict=True)]
    np.testing.assert_allclose(post.marginal("S").mean("S").data, means, rtol=1e-9)


# -- marginals, modes and draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_marginal_of_the_matrix(name):
    scatter = in_double(lambda: posterior_scatter(name)[1])
    marginal = MODELS[name]().condition(y=Y).marginal("S")
    is_wishart = "precision" in name
    assert marginal.distribution.family == ("Wishart" if is_wishart else "InverseWishart")
    mean = (DF + N) * np.linalg.inv(scatter) if is_wishart else scatter / (DF + N - P - 1)
    np.testing.assert_allclose(marginal.mean("S").data, mean, rtol=1e-9)
    family = stats.wishart(DF + N, np.linalg.inv(scatter)) if is_wishart else stats.invwishart(DF + N, scatter)
    assert float(marginal(S=PSI).log()) == pytest.approx(family.logpdf(PSI), rel=1e-9)


@pytest.mark.parametrize("name", ["unknown mean", "unknown mean by precision"])
def test_marginal_of_the_mean(name):
    """∫ N(mu | m, S/w) p(S) dS is Student's t."""
    scatter, weight, df = in_double(lambda: posterior_scatter(name)[1]), KAPPA + N, DF + N - P + 1
    loc = (KAPPA * MEAN + Y.sum(axis=0)) / weight
    marginal = MODELS[name]().condition(y=Y).marginal("mu")
    assert marginal.distribution.family == "MultivariateStudentT"
    point = np.array([0.2, 0.7])
    wanted = stats.multivariate_t(loc, scatter / (weight * df), df).logpdf(point)
    assert float(marginal(mu=point).log()) == pytest.approx(wanted, rel=1e-9)


def test_predictive_distribution():
    @fb.model
    def with_new():
        S = yield dist.InverseWishart(DF, PSI)
        mu = yield dist.MultivariateNormal(MEAN, S / KAPPA)
        y = yield dist.MultivariateNormal(mu, S).expand([N])
        new = yield dist.MultivariateNormal(mu, S)

    scatter, df = in_double(lambda: posterior_scatter("unknown mean")[1]), DF + N - P + 1
    loc = (KAPPA * MEAN + Y.sum(axis=0)) / (KAPPA + N)
    wanted = stats.multivariate_t(loc, scatter * (1 + 1 / (KAPPA + N)) / df, df)
    marginal = with_new().condition(y=Y).marginal("new")
    point = np.array([-0.4, 1.1])
    assert float(marginal(new=point).log()) == pytest.approx(wanted.logpdf(point), rel=1e-9)


def test_modes():
    """Of the matrix alone, and of the matrix and the mean together, which have one more power of |S|^(−½)."""
    scatter = in_double(lambda: posterior_scatter("covariance")[1])
    post = covariance().condition(y=Y)
    np.testing.assert_allclose(post.map().S, scatter / (DF + N + P + 1), rtol=1e-9)
    both, scatter = unknown_mean().condition(y=Y), in_double(lambda: posterior_scatter("unknown mean")[1])
    best = both.map()
    np.testing.assert_allclose(best.S, scatter / (DF + N + P + 2), rtol=1e-9)
    np.testing.assert_allclose(best.mu, (KAPPA * MEAN + Y.sum(axis=0)) / (KAPPA + N), rtol=1e-9)
    by_precision, rate = precision().condition(y=Y), in_double(lambda: posterior_scatter("precision")[1])
    np.testing.assert_allclose(by_precision.map().S, (DF + N - P - 1) * np.linalg.inv(rate), rtol=1e-9)


@pytest.mark.parametrize("name", ["unknown mean", "unknown mean by precision"])
def test_draws(name):
    """Exact and independent; of the inverse of the covariance, which has moments of all orders, mean and variance."""
    post, count = MODELS[name]().condition(y=Y), 4000
    draws = post.predict(jax.random.key(5), "S", "mu", draws=count)
    scatter, df = in_double(lambda: posterior_scatter(name)[1]), DF + N
    P_draws = np.asarray(draws["S"], float) if "precision" in name else np.linalg.inv(np.asarray(draws["S"], float))
    V = np.linalg.inv(scatter)
    variance = df * (V**2 + np.outer(np.diag(V), np.diag(V)))
    assert np.all(np.abs(P_draws.mean(axis=0) - df * V) < 4 * np.sqrt(variance / count))
    np.testing.assert_allclose(P_draws.var(axis=0), variance, rtol=0.2)
    loc = (KAPPA * MEAN + Y.sum(axis=0)) / (KAPPA + N)
    residual = np.linalg.cholesky(P_draws).transpose(0, 2, 1) @ (np.asarray(draws["mu"]) - loc)[..., None]
    standard = np.sqrt(KAPPA + N) * residual.ravel()
    assert stats.kstest(standard, "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(standard[::2], P_draws[:, 0, 0])[0, 1]) < 0.06


def test_infer_says_that_draws_are_exact():
    data = covariance().condition(y=Y).infer(jax.random.key(0), draws=50, chains=2, progress=False)
    assert data.posterior.attrs["method"] == "exact" and data.posterior["S"].shape == (2, 50, P, P)


# -- what has no closed form ------------------------------------------------------------------------------------------


def test_matrix_used_elsewhere_is_refused():
    @fb.model
    def elsewhere():
        S = yield dist.InverseWishart(DF, PSI)
        y = yield dist.MultivariateNormal(MEAN, S).expand([N])
        z = yield dist.Normal(S[0, 1], 0.5)

    @fb.model
    def both_ways():
        S = yield dist.InverseWishart(DF, PSI)
        y = yield dist.MultivariateNormal(MEAN, precision_matrix=S).expand([N])

    with pytest.raises(Intractable, match="squares of vectors times a root of it"):
        elsewhere().condition(y=Y, z=0.1).log_evidence()
    with pytest.raises(Intractable, match="as a covariance matrix alone, or as a precision matrix alone"):
        both_ways().condition(y=Y).log_evidence()


def test_programs_of_measures_are_refused():
    with pytest.raises(NoRule, match="'S' is a positive definite matrix"):
        fb.simplify(covariance().condition(y=Y))


def test_scale_that_is_a_latent():
    """The matrix is integrated out given the scale, which remains; quadrature over it is right."""

    @fb.model
    def scaled():
        s = yield dist.Gamma(2.0, 1.0)
        S = yield dist.InverseWishart(DF, s * PSI)
        y = yield dist.MultivariateNormal(MEAN, S).expand([N])

    post = scaled().condition(y=Y)
    assert post.eliminate("S").eliminated == ("S",) and post.eliminate("S").kept == ("s",)
    with fb.quadrature():
        found = float(post.log_evidence())
    evidence = jax.jit(lambda s: expected_evidence("covariance", scale=s * PSI))
    wanted, _ = integrate.quad(lambda s: np.exp(float(in_double(evidence, s))) * s * np.exp(-s), 0, np.inf)
    assert found == pytest.approx(np.log(wanted), abs=1e-4)


def test_sampled_by_nuts():
    """Over the unconstrained matrix: the exact posterior again."""
    post = covariance().condition(y=Y)
    options = {"method": "nuts", "eliminate": (), "progress": False, "predictive": False, "log_likelihood": False}
    data = post.infer(jax.random.key(2), draws=1500, chains=1, **options)
    assert data.posterior.attrs["method"] == "nuts"
    inverse = np.linalg.inv(np.asarray(data.posterior["S"], float)[0])
    V = np.linalg.inv(in_double(lambda: posterior_scatter("covariance")[1]))
    variance = (DF + N) * (V**2 + np.outer(np.diag(V), np.diag(V)))
    assert np.all(np.abs(inverse.mean(axis=0) - (DF + N) * V) < 0.2 * np.sqrt(variance))


def test_observed_matrix():
    S = np.array([[0.9, -0.1], [-0.1, 0.7]])
    found = covariance().condition(S=S, y=Y).log_evidence()
    wanted = stats.invwishart(DF, PSI).logpdf(S) + stats.multivariate_normal(MEAN, S).logpdf(Y).sum()
    assert float(found) == pytest.approx(wanted, rel=1e-9)


# -- bad input --------------------------------------------------------------------------------------------------------

NOT_POSITIVE, NOT_SYMMETRIC = np.diag([1.0, -1.0]), np.array([[1.0, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("family", ["Wishart", "InverseWishart"])
@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ((1.0, np.eye(2)), DataError, ["concentration=1", "lower_bound=1", "more than p - 1 degrees of freedom"]),
        ((5.0, NOT_POSITIVE), DataError, ["scale_matrix=", "PositiveDefinite", "its least eigenvalue is -1"]),
        ((5.0, NOT_SYMMETRIC), DataError, ["scale_matrix=", "PositiveDefinite", "(S + S.T) / 2"]),
        ((5.0, None, NOT_SYMMETRIC), DataError, ["rate_matrix=", "PositiveDefinite", "(R + R.T) / 2"]),
        ((5.0, np.ones((2, 3))), DomainError, ["scale_matrix of shape (2, 3)", "a square matrix", "np.eye(p)"]),
        ((5.0, np.ones(3)), DomainError, ["scale_matrix of shape (3,)", "a square matrix"]),
        ((5.0, 2.0), DomainError, ["scale_matrix of shape ()", "a square matrix"]),
        ((5.0,), DomainError, ["Exactly one of", "scale_matrix", "rate_matrix", "scale_tril"]),
    ],
)
def test_bad_parameters(family, arguments, error, words):
    with pytest.raises(error) as caught:
        getattr(dist, family)(*arguments)
    assert all(word in str(caught.value) for word in (family, *words))


@pytest.mark.parametrize("matrix", [NOT_POSITIVE, NOT_SYMMETRIC])
def test_bad_value_of_the_matrix(matrix):
    with pytest.raises(DataError, match="PositiveDefinite") as caught:
        covariance().condition(S=matrix)
    assert "symmetric" in str(caught.value)


def test_bad_shapes_together():
    with pytest.raises(DomainError, match="MultivariateNormal"):
        covariance(DF, np.eye(3)).condition(y=Y).log_evidence()
