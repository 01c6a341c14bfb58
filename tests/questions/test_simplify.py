"""`fb.simplify(post)`: the program that is left has the density of the model, and its text does not grow with data."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from tests.measures.oracle import cloud

RANDOM = np.random.default_rng(0)


@fb.model
def mixture(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 14.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def coins(n):
    p = yield dist.Beta(2.0, 3.0)
    x = yield dist.Bernoulli(p).expand([n])


@fb.model
def counts(exposure):
    rate = yield dist.Gamma(2.0, 3.0)
    x = yield dist.Poisson(rate * exposure)


@fb.model
def regression(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


@fb.model
def heavy(n):
    s = yield dist.HalfCauchy(1.0)
    m = yield dist.Normal(0.0, s)
    x = yield dist.Normal(m, 1.0).expand([n])


MODELS = {
    "mixture": (mixture(6, 3), {"s": RANDOM.normal(size=6)}),
    "coins": (coins(5), {"x": np.array([1, 0, 1, 1, 0])}),
    "counts": (counts(np.array([1.0, 2.0, 0.5])), {"x": np.array([2, 3, 0])}),
    "heavy": (heavy(3), {"x": RANDOM.normal(size=3)}),
}
VALUES = {
    "mixture": {"theta": [0.2, 0.5, 0.3], "mu": [0.4, -1.2, 2.0], "y": [0, 1, 1, 2, 0, 1]},
    "coins": {"p": 0.3},
    "counts": {"rate": 0.7},
    "heavy": {"s": 0.8, "m": 0.3},
}


@pytest.mark.parametrize("name", MODELS)
def test_density(name):
    """At any values of the sites, the program has the log-density of the model."""
    model, data = MODELS[name]
    post = model.condition(**data)
    found = fb.simplify(post)
    assert found.measure is not None
    (branch,) = found.measure.branches
    known = {leaf: value for leaf, value in eliminated(FlatModel(post)).reading.reader.known.items()}
    values = {leaf: np.asarray(VALUES[name][leaf.name], float) for leaf in branch.drawn}
    _, weight = cloud(branch, known, fixed=values)
    expected = post.log_prob({key: jnp.asarray(value) for key, value in VALUES[name].items()})
    assert float(np.log(weight.sum())) == pytest.approx(float(np.asarray(expected)), rel=1e-5)


def test_text_does_not_depend_on_sizes():
    texts = [fb.simplify(mixture(n, k).condition(s=RANDOM.normal(size=n))).source() for n, k in ((20, 3), (500, 30))]
    words = [re.findall(r"[^\d\W]\w*", text) for text in texts]  # all but numbers, whose signs move terms about
    assert sorted(words[0]) == sorted(words[1])
    assert "theta = yield Dirichlet(" in texts[0]


def test_sites_that_are_drawn_together():
    x = RANDOM.normal(size=(20, 3))
    text = fb.simplify(regression(x).condition(y=RANDOM.normal(size=20))).source()
    assert "v = yield InverseGamma(13, (1/2)*(least_squares(w)) + 2)" in text
    assert "w = yield MultivariateNormal(least_squares(w), precision=1/v)" in text


def test_what_is_left_is_flat_under_the_weight():
    text = fb.simplify(MODELS["heavy"][0].condition(**MODELS["heavy"][1])).source()
    assert text.splitlines()[2] == "    s = yield Lebesgue(0, inf)"


def test_a_reduced_model():
    post = MODELS["mixture"][0].condition(**MODELS["mixture"][1])
    assert fb.simplify(post.eliminate("theta", "mu")).source() == fb.simplify(post).source()
    assert "theta = yield Dirichlet(array(3, lambda i: 1))" in fb.simplify(post.eliminate("mu")).source()


def test_a_measure_is_simplified_as_such():
    assert fb.simplify(fb.measures.StudentT(1)) == fb.measures.Cauchy(0, 1)


def test_finite_sites_that_begin_at_another_number():
    """The program says their weights, and draws from the posterior of the model."""

    @fb.model
    def counted(n):
        k = yield fb.dist.DiscreteUniform(2, 4)
        y = yield fb.dist.Poisson(jnp.asarray(k, float)).expand([n])

    y = np.array([2.0, 3.0, 5.0])
    post = counted(3).condition(y=y)
    found = fb.simplify(post)
    assert "k = yield Categorical(array(3, " in found.source() and found.source().endswith("return k + 2")
    logs = np.array([float(post.log_prob(k=k)) for k in (2, 3, 4)])
    (branch,) = found.measure.branches
    known = {leaf: y for leaf in branch.weight.leaves}
    for place, right in enumerate(np.exp(logs)):
        _, weight = cloud(branch, known, fixed={branch.drawn[0]: np.asarray(float(place))})
        assert float(weight.sum()) == pytest.approx(right, rel=1e-5)
