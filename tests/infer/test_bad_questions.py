"""Questions that have no answer: what was asked, what was expected, and what to do, in every message."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as npd
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, NoRule, UnknownName
from tests.models.bad import Bad, check

KEY = jax.random.key(0)
Y = np.array([0.5, -0.3, 1.1])
X = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]])
HOLE = np.array([[1.0, np.nan], [0.5, 2.0], [0.0, 1.0]])


@fb.model
def normal():
    mu = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(mu, 1.0).expand([3])


@fb.model
def spread():
    mu = yield dist.Normal(0.0, 1.0)
    sigma = yield dist.HalfNormal(1.0)
    y = yield dist.Normal(mu, sigma).expand([3])


@fb.model
def known_noise(x):
    w = yield dist.Normal(0.0, 1.0).expand([2])
    y = yield dist.Normal(x @ w, 1.0)


@fb.model
def regression(x):
    w = yield dist.Normal(0.0, 1.0).expand([2])
    sigma = yield dist.HalfNormal(1.0)
    y = yield dist.Normal(x @ w, sigma)


@fb.model
def bounded():
    u = yield dist.Uniform(0.0, 1.0)
    y = yield dist.Uniform(0.0, u)


@fb.model
def bounded_twice():
    """Not closed: u is left to the sampler."""
    u = yield dist.Uniform(0.0, 1.0)
    y = yield dist.Uniform(0.0, jnp.sin(u))


@fb.model
def never():
    k = yield dist.Categorical(np.array([0.5, 0.5]))
    y = yield dist.Poisson(jnp.where(k == 1, 0.0, 0.0))


@fb.model
def counts():
    p = yield dist.Beta(1.0, 1.0)
    y = yield dist.Binomial(5, p)


@fb.model
def improper():
    mu = yield dist.ImproperUniform(npd.constraints.real, (), ())
    y = yield dist.Normal(0.0, 1.0)


@fb.model
def improper_in_the_end():
    """Nothing depends on σ once μ is integrated out."""
    sigma = yield dist.ImproperUniform(npd.constraints.positive, (), ())
    mu = yield dist.Normal(0.0, sigma)
    y = yield dist.Normal(0.0, 1.0)


@fb.model
def places():
    z = yield dist.Normal(0.0, 1.0).expand([4])
    y = yield dist.Normal(jnp.sum(jnp.nonzero(z)[0]), 1.0)


@fb.model
def masked():
    z = yield dist.Normal(0.0, 1.0).expand([4])
    y = yield dist.Normal(jnp.sum(z[z > 0]), 1.0)


@fb.model
def sized():
    n = yield dist.DiscreteUniform(1, 4)
    y = yield dist.Normal(jnp.zeros(n), 1.0)


@fb.model
def infinite():
    n = yield dist.Poisson(3.0)
    y = yield dist.Normal(jnp.sqrt(n + 0.1), 1.0)


def closed() -> fb.Joint:
    return normal().condition(y=Y)


def partly() -> fb.Joint:
    return spread().condition(y=Y)


def infer(post: fb.Joint, key=KEY, draws=5, **settings):
    return post.infer(key, draws, **{"warmup": 5, "chains": 1, "progress": False, **settings})


IMPOSSIBLE = ["p(observed) is 0", "impossible"]
SHAPES = ["a random value", "after the site 'z'", "jnp.where"]

BAD: dict[str, Bad] = {
    # impossible data
    "evidence of impossible data": (lambda: bounded().condition(y=2.0).log_evidence(), DataError, IMPOSSIBLE),
    "evidence of impossible counts": (lambda: never().condition(y=3).log_evidence(), DataError, IMPOSSIBLE),
    "draws given impossible data": (lambda: infer(bounded().condition(y=2.0)), DataError, IMPOSSIBLE),
    "draws given impossible counts": (lambda: infer(never().condition(y=3)), DataError, IMPOSSIBLE),
    "predictions given impossible data": (lambda: never().condition(y=3).predict(KEY, "y"), DataError, IMPOSSIBLE),
    "sampling given impossible data": (
        lambda: infer(bounded_twice().condition(y=2.0)),
        DataError,
        ["starting points", "the density is 0", "check that the observations are possible"],
    ),
    "data outside of their support": (
        lambda: counts().condition(y=7),
        DataError,
        ["the value 7 of the site 'y'", "Bint[6]"],
    ),
    "nan in data": (
        lambda: normal().condition(y=np.array([0.5, np.nan, 1.0])),
        DataError,
        ["the value nan of the site 'y'"],
    ),
    "an infinite datum": (
        lambda: normal().condition(y=np.array([0.5, np.inf, 1.0])),
        DataError,
        ["the value inf of the site 'y'"],
    ),
    "evidence with nan in an argument": (
        lambda: known_noise(HOLE).condition(y=Y).log_evidence(),
        DataError,
        ["an array of shape (3, 2) has NaN at (0, 1)", "masked"],
    ),
    "draws with nan in an argument": (
        lambda: infer(regression(HOLE).condition(y=Y)),
        DataError,
        ["an array of shape (3, 2) has NaN at (0, 1)", "masked"],
    ),
    # improper posteriors
    "evidence of an improper posterior": (lambda: improper().condition(y=0.5).log_evidence(), DataError, ["improper"]),
    "draws of an improper posterior": (
        lambda: infer(improper().condition(y=0.5)),
        DataError,
        ["the posterior of 'mu'", "improper", "give it a proper prior"],
    ),
    "draws of what is improper in the end": (
        lambda: infer(improper_in_the_end().condition(y=0.5)),
        DataError,
        ["the posterior of 'sigma'", "improper", "give it a proper prior"],
    ),
    # unknown sites
    "eliminating an unknown site": (
        lambda: closed().eliminate("nu"),
        UnknownName,
        ["the site 'nu'", "'mu'", "nearest:  'mu'"],
    ),
    "eliminating an observed site": (
        lambda: closed().eliminate("y"),
        UnknownName,
        ["the site 'y', which is observed", "'mu'"],
    ),
    "eliminating twice": (
        lambda: partly().eliminate("mu").eliminate("mu"),
        UnknownName,
        ["the site 'mu'", "eliminated", "'sigma'"],
    ),
    "the marginal of an unknown site": (lambda: closed().marginal("nu"), UnknownName, ["the site 'nu'", "'mu'"]),
    "the marginal of an observed site": (lambda: closed().marginal("y"), UnknownName, ["'y', which is observed"]),
    "predicting an unknown site": (
        lambda: closed().predict(KEY, "z"),
        UnknownName,
        ["the site 'z'", "'mu', 'y'"],
    ),
    "observing an unknown site": (lambda: normal().condition(z=Y), UnknownName, ["an observation for 'z'", "'y'"]),
    "inferring without an unknown site": (
        lambda: infer(partly(), eliminate=["nu"]),
        UnknownName,
        ["the site 'nu'", "'mu', 'sigma'"],
    ),
    "inferring without an observed site": (
        lambda: infer(partly(), eliminate=["y"]),
        UnknownName,
        ["the site 'y', which is observed", "'mu', 'sigma'"],
    ),
    # what has no closed form
    "eliminating a scale": (
        lambda: partly().eliminate("sigma"),
        Intractable,
        ["eliminate('sigma')", "'sigma' has no closed form", "infer(key)"],
    ),
    "inferring without a scale": (
        lambda: infer(partly(), eliminate=["sigma"]),
        Intractable,
        ["infer(eliminate=['sigma'])", "'sigma' has no closed form"],
    ),
    "evidence with a scale": (
        lambda: partly().log_evidence(),
        Intractable,
        ["log_evidence()", "'sigma' has no closed form", "'mu' can be", "infer(key)"],
    ),
    "the marginal with a scale": (
        lambda: partly().marginal("mu"),
        Intractable,
        ["marginal('mu')", "'sigma' has no closed form"],
    ),
    "predictions with a scale": (
        lambda: partly().predict(KEY, "y"),
        Intractable,
        ["predict", "'sigma' has no closed form", "draws=infer(key)) predicts from draws"],
    ),
    "a count without bound": (
        lambda: infer(infinite().condition(y=1.0)),
        NoRule,
        ["draws of 'n'", "finitely many values", "truncate"],
    ),
    # shapes that depend on values
    "evidence with places of a latent": (lambda: places().condition(y=0.5).log_evidence(), DomainError, SHAPES),
    "draws with places of a latent": (lambda: infer(places().condition(y=0.5)), DomainError, SHAPES),
    "evidence with a mask by a latent": (lambda: masked().condition(y=0.5).log_evidence(), DomainError, SHAPES),
    "draws with a mask by a latent": (lambda: infer(masked().condition(y=0.5)), DomainError, SHAPES),
    "a size that is a latent": (
        lambda: sized().condition(y=np.zeros(2)).log_evidence(),
        DomainError,
        ["after the site 'n'", "int or bool arguments"],
    ),
    # settings
    "no draws": (lambda: infer(partly(), draws=0), DomainError, ["draws=0", "a positive whole number"]),
    "half a draw": (lambda: infer(partly(), draws=1.5), DomainError, ["draws=1.5", "a positive whole number"]),
    "no chains": (lambda: infer(partly(), chains=0), DomainError, ["chains=0", "a positive whole number"]),
    "a negative warmup": (lambda: infer(partly(), warmup=-1), DomainError, ["warmup=-1", "whole number"]),
    "a word for a warmup": (lambda: infer(partly(), warmup="a"), DomainError, ["warmup='a'", "whole number"]),
    "no predictions": (
        lambda: closed().predict(KEY, "y", draws=0),
        DomainError,
        ["draws=0", "a positive whole number"],
    ),
    "an unknown method": (
        lambda: infer(partly(), method="hmc"),
        DomainError,
        ["method='hmc'", "'nuts', 'smc', 'svi', 'laplace', 'gibbs'"],
    ),
    "an unknown option": (
        lambda: infer(partly(), target_acept=0.9),
        DomainError,
        ["target_acept", "'target_accept', 'max_tree_depth', 'dense_mass'"],
    ),
    "an acceptance above one": (lambda: infer(partly(), target_accept=1.9), DomainError, ["target_accept=1.9"]),
    "a negative depth": (lambda: infer(partly(), max_tree_depth=-1), DomainError, ["max_tree_depth=-1"]),
    "a number for a key": (lambda: infer(partly(), key=0), DataError, ["the key 0", "jax.random.key(0)"]),
    "two keys": (lambda: infer(partly(), key=jax.random.split(KEY)), DataError, ["a JAX random key"]),
    "a number for a key of predictions": (lambda: closed().predict(0, "y"), DataError, ["the key 0"]),
    "dims of an unknown site": (
        lambda: infer(closed(), dims={"q": ["a"]}),
        UnknownName,
        ["dims of 'q'", "'mu'"],
    ),
    "too many dims": (lambda: infer(closed(), dims={"y": ["a", "b"]}), DomainError, ["'y'", "'a', 'b'", "(3,)"]),
    "too few coords": (
        lambda: infer(closed(), dims={"y": ["a"]}, coords={"a": [1, 2]}),
        DomainError,
        ["'a'", "2", "3"],
    ),
    # recovering
    "recovering without a value": (
        lambda: partly().eliminate("mu").recover(KEY, {}),
        DataError,
        ["no value for the site 'sigma'", "values for 'sigma'"],
    ),
    "recovering with an unknown site": (
        lambda: partly().eliminate("mu").recover(KEY, {"sigma": 1.0, "tau": 1.0}),
        UnknownName,
        ["the site 'tau'", "'sigma'"],
    ),
    "recovering with an observed site": (
        lambda: partly().eliminate("mu").recover(KEY, {"sigma": 1.0, "y": Y}),
        UnknownName,
        ["the site 'y', which is observed"],
    ),
    "recovering what is given": (
        lambda: partly().eliminate("mu").recover(KEY, {"sigma": 1.0, "mu": 1.0}),
        UnknownName,
        ["the site 'mu'", "'sigma'"],
    ),
    "recovering from a wrong shape": (
        lambda: regression(X).condition(y=Y).eliminate().recover(KEY, {"sigma": 1.0, "w": np.zeros(3)}),
        DomainError,
        ["of shape (3,) for the site 'w'", "the shape (2,)"],
    ),
    "recovering from batches that do not broadcast": (
        lambda: regression(X).condition(y=Y).eliminate().recover(KEY, {"sigma": np.ones(4), "w": np.zeros((3, 2))}),
        DomainError,
        ["(3,)", "(4,)", "broadcast"],
    ),
    "recovering from outside of a support": (
        lambda: partly().eliminate("mu").recover(KEY, {"sigma": -1.0}),
        DataError,
        ["the value -1.0 of the site 'sigma'", "Positive"],
    ),
    "recovering from a word": (
        lambda: partly().eliminate("mu").recover(KEY, {"sigma": "a"}),
        DomainError,
        ["'a'", "the site 'sigma'", "numbers"],
    ),
    "recovering with a number for a key": (
        lambda: partly().eliminate("mu").recover(0, {"sigma": 1.0}),
        DataError,
        ["the key 0", "jax.random.key(0)"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(name: str) -> None:
    check(BAD[name])


def test_a_flat_prior_with_data_is_proper() -> None:
    """∫ N(y; μ, 1) dμ = 1"""

    @fb.model
    def flat():
        mu = yield dist.ImproperUniform(npd.constraints.real, (), ())
        y = yield dist.Normal(mu, 1.0)

    assert float(flat().condition(y=0.5).log_evidence()) == pytest.approx(0.0, abs=1e-9)
