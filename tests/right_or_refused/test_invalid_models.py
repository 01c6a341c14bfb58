"""Models that are no probability: parameters that a family does not allow are refused, or NaN under tracing."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pytest
from scipy import stats

import fubini as fb
from fubini import dist, measures
from fubini.errors import DataError, FubiniError, Restriction

pytestmark = pytest.mark.right_or_refused


@fb.model
def coin(a, b):
    p = yield dist.Beta(a, b)
    y = yield dist.Bernoulli(p)


@fb.model
def normals(**matrix):
    x = yield dist.MultivariateNormal(jnp.zeros(2), **matrix)
    y = yield dist.Normal(x, 1.0)


@fb.model
def successes(n):
    p = yield dist.Beta(1.0, 1.0)
    y = yield dist.Binomial(n, p)


@fb.model
def votes(n):
    t = yield dist.Dirichlet(np.ones(3))
    y = yield dist.Multinomial(n, t)


TILTED = np.array([[1.0, 0.5], [0.2, 1.0]])

INVALID = {
    "Beta of a negative number": lambda: coin(-0.5, 2.0).condition(y=1),
    "Beta of a negative JAX number": lambda: coin(jnp.array(-0.5), 2.0).condition(y=1),
    "covariance that is not symmetric": lambda: normals(covariance_matrix=TILTED).condition(y=np.zeros(2)),
    "scale_tril that is not triangular": lambda: normals(scale_tril=TILTED).condition(y=np.zeros(2)),
    "Binomial of 3.5": lambda: successes(3.5).condition(y=2),
    "NaN": lambda: coin(np.nan, 2.0).condition(y=1),
}
QUESTIONS = {
    "log_evidence": lambda post: post.log_evidence(),
    "marginal": lambda post: post.marginal(post.names[0]),
    "posterior": lambda post: post.posterior(),
    "eliminate": lambda post: post.eliminate(post.names[0]).log_prob(),
    "infer": lambda post: post.infer(jax.random.key(0), draws=5, chains=1, progress=False),
    "sample": lambda post: post.uncondition().sample(jax.random.key(0)),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("model", INVALID)
def test_an_argument_that_the_family_does_not_allow_is_refused(model, question):
    post = INVALID[model]()
    with pytest.raises(DataError):
        QUESTIONS[question](post)


def test_under_tracing_it_is_not_a_number_and_checked_raises():
    def evidence(a):
        return coin(a, 2.0).condition(y=1).log_evidence().data

    traced = jax.jit(evidence)
    assert np.isnan(traced(-0.5))
    np.testing.assert_allclose(traced(2.0), np.log(0.5), rtol=1e-6)
    with pytest.raises(DataError, match="concentration1"):
        fb.checked(traced)(-0.5)
    np.testing.assert_allclose(float(coin(2.0, 2.0).condition(y=1).log_evidence()), np.log(0.5))  # then eager again


def test_a_numpyro_function_with_such_an_argument_is_refused():
    def model(a):
        p = numpyro.sample("p", numpyro_families.Beta(a, 2.0))
        numpyro.sample("y", numpyro_families.Bernoulli(p), obs=1)

    with pytest.raises(DataError, match="concentration1"):
        fb.from_numpyro(model, -0.5).log_evidence()
    assert np.isnan(jax.jit(lambda a: fb.from_numpyro(model, a).log_evidence().data)(-0.5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: dist.Uniform(1.0, 0.0),
        lambda: dist.DiscreteUniform(3, 1),
        lambda: dist.Binomial(3.5, 0.5),
        lambda: dist.MultivariateNormal(np.zeros(2), covariance_matrix=TILTED),
        lambda: dist.TruncatedNormal(0.0, 1.0, low=2.0, high=1.0)("x").sum("x").log(),
        lambda: measures.Bernoulli(1.5),
        lambda: measures.Beta(-0.5, 2),
        lambda: measures.Binomial(3.5, 0.5),
    ],
)
def test_numbers_that_the_family_does_not_allow_are_refused_when_it_is_made(make):
    with pytest.raises(FubiniError):
        make()


# -- probabilities that latents decide ------------------------------------------------------------------------------


def observed(prior, likelihood, y):
    @fb.model
    def model():
        v = yield prior
        y = yield likelihood(v)

    return model().condition(y=y)


BETA, LABEL = dist.Beta(1.0, 2.0), dist.Categorical(np.array([0.2, 0.3, 0.5]))

LEAVING = {
    "Bernoulli(2 p)": (BETA, lambda p: dist.Bernoulli(2 * p), 1),
    "Categorical that sums to 2 p": (BETA, lambda p: dist.Categorical(jnp.stack([p, p])), 1),
    "Bernoulli(0.6 z)": (LABEL, lambda z: dist.Bernoulli(0.6 * z), 1),
    "Normal of a scale z - 1": (LABEL, lambda z: dist.Normal(0.0, z - 1.0), 1.0),
    "rows that do not sum to 1": (
        LABEL,
        lambda z: dist.Categorical(jnp.array([[0.1, 0.8], [0.5, 0.5], [1.0, 0.0]])[z]),
        1,
    ),
    "Binomial(z - 1)": (LABEL, lambda z: dist.Binomial(z - 1, 0.3), 0),
}


@pytest.mark.parametrize("name", LEAVING)
def test_a_parameter_that_may_leave_its_range_is_refused_and_named(name):
    post = observed(*LEAVING[name])
    with pytest.raises(FubiniError, match="may leave what its family allows"):
        post.log_evidence()


def test_two_probabilities_that_do_not_sum_to_one_are_refused():
    @fb.model
    def model():
        p = yield dist.Beta(1.0, 1.0)
        q = yield dist.Beta(1.0, 1.0)
        y = yield dist.Categorical(jnp.stack([p, q]))

    with pytest.raises(FubiniError, match="Simplex"):
        model().condition(y=1).log_evidence()


def test_a_sampler_says_that_it_leaves_out_what_is_not_allowed():
    post = observed(*LEAVING["Bernoulli(2 p)"])
    with pytest.warns(Restriction, match="probs"):
        found = post.infer(jax.random.key(0), draws=50, chains=1, progress=False)
    assert float(found.posterior["v"].max()) < 0.5


STAYING = {  # the model, and its evidence by hand
    "1 - p": (BETA, lambda p: dist.Bernoulli(1 - p), 1, 2 / 3),
    "[p, 1 - p]": (BETA, lambda p: dist.Categorical(jnp.stack([p, 1 - p])), 1, 2 / 3),
    "[p/2, p/2, 1 - p]": (BETA, lambda p: dist.Categorical(jnp.array([p / 2, p / 2, 1 - p])), 0, 1 / 6),
    "[p², 2 p (1 - p), (1 - p)²]": (
        *(BETA, lambda p: dist.Categorical(jnp.array([p * p, 2 * p * (1 - p), (1 - p) ** 2])), 1),
        2 * 2 / (3 * 4),
    ),
    "a simplex in another order": (
        *(dist.Dirichlet(np.ones(3)), lambda p: dist.Categorical(p[jnp.array([2, 0, 1])]), 1),
        1 / 3,
    ),
    "rows that sum to 1": (
        LABEL,
        lambda z: dist.Categorical(jnp.array([[0.1, 0.9], [0.5, 0.5], [1.0, 0.0]])[z]),
        1,
        0.33,
    ),
    "a scale by label": (
        *(LABEL, lambda z: dist.Normal(0.0, jnp.array([1.0, 2.0, 3.0])[z]), 1.0),
        float(np.dot([0.2, 0.3, 0.5], stats.norm.pdf(1.0, 0.0, [1.0, 2.0, 3.0]))),
    ),
    "a known matrix times a variance": (
        *(dist.InverseGamma(2.0, 2.0), lambda v: dist.MultivariateNormal(jnp.zeros(2), v * jnp.eye(2)), np.ones(2)),
        float(stats.multivariate_t.pdf(np.ones(2), np.zeros(2), np.eye(2), df=4)),
    ),
}


@pytest.mark.parametrize("name", STAYING)
def test_a_parameter_that_stays_in_range_is_not_refused(name):
    *model, evidence = STAYING[name]
    np.testing.assert_allclose(float(observed(*model).log_evidence()), np.log(evidence), rtol=1e-6)


def test_a_factor_whose_parameter_leaves_its_range_is_refused():
    z = fb.Variable("z", fb.Bint[3])
    for weights in (np.array([0.2, 0.3, 0.5]), jnp.array([0.2, 0.3, 0.5])):
        with pytest.raises(DataError):
            (fb.Table(weights, ("z",)) * dist.Bernoulli(0.6 * z)(1)).sum("z").log()


def test_a_measure_whose_probability_leaves_its_range_is_refused():
    @fb.measure
    def leaving():
        p = yield measures.Beta(1, 1)
        yield measures.observe(measures.Bernoulli(2 * p), 1)
        return p

    with pytest.raises(FubiniError, match="between 0 and 1"):
        fb.total_mass(leaving())


# -- impossible counts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "post",
    [
        lambda: votes(4).condition(y=np.array([1, 1, 1])),
        lambda: votes(jnp.array(4)).condition(y=np.array([1, 1, 1])),
        lambda: successes(3.0).condition(y=4),
        lambda: successes(np.array([3, 5])).condition(y=np.array([4, 1])),
    ],
)
def test_a_count_that_cannot_be_is_impossible(post):
    with pytest.raises(DataError, match="impossible"):
        post().log_evidence()


def test_under_tracing_it_has_no_density():
    def evidence(n):
        return successes(n).condition(y=4).log_evidence().data

    assert jax.jit(evidence)(3.0) == -np.inf
    np.testing.assert_allclose(jax.jit(evidence)(6.0), -np.log(7), rtol=1e-6)
    np.testing.assert_allclose(float(successes(6.0).condition(y=4).log_evidence()), -np.log(7), rtol=1e-6)


def test_counts_that_can_be_have_the_right_evidence():
    n, y = np.array([3, 5]), np.array([2, 4])
    want = np.log(stats.binom.pmf(y[:, None], n[:, None], p := (np.arange(4000) + 0.5) / 4000)).sum(0)
    np.testing.assert_allclose(
        float(successes(n).condition(y=y).log_evidence()), np.log(np.exp(want).mean()), rtol=1e-5
    )
    assert p.size == 4000
    np.testing.assert_allclose(float(votes(4).condition(y=np.array([2, 1, 1])).log_evidence()), -np.log(15), rtol=1e-6)
