"""`cond`, `switch` and tables that a label chooses from: as models, in plates, and as factors; against enumeration.

Factors have no control flow of their own: a lifted function has, and so have `fb.ops.where` and an array that the label
is an index of. All of them are to agree.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pytest
from scipy import special, stats

import fubini as fb
from fubini import dist

KEY, DRAWS = jax.random.key(0), 4000
RANDOM = np.random.default_rng(20261119)
SHARES, (MEAN, Y) = RANDOM.dirichlet(np.full(3, 3.0)), RANDOM.normal(size=2).tolist()
BRANCHES = [lambda a: 2 * a, lambda a: a + 1, lambda a: -a]
SCALE, SHIFT = np.array([2.0, 1.0, -1.0]), np.array([0.0, 1.0, 0.0])


def by_hand(shares=SHARES, mean=MEAN, y=Y):
    """log p(y), the probabilities of the label and the mean of a given each."""
    logs = np.log(shares) + stats.norm(SCALE * mean + SHIFT, np.sqrt(1 + SCALE**2)).logpdf(y)
    means = mean + SCALE * (y - SHIFT - SCALE * mean) / (1 + SCALE**2)
    return special.logsumexp(logs), special.softmax(logs), means


def slopes_by_hand(step=1e-4):
    """The derivatives of the evidence in the mean and the data."""
    moves = ((step, 0.0), (0.0, step))
    ends = [[by_hand(mean=MEAN + sign * d, y=Y + sign * e)[0] for sign in (1, -1)] for d, e in moves]
    return [(high - low) / (2 * step) for high, low in ends]


# -- one label, by every door ----------------------------------------------------------------------------------------


@fb.model
def switched(shares, mean):
    z = yield dist.Categorical(shares)
    a = yield dist.Normal(mean, 1.0)
    y = yield dist.Normal(jax.lax.switch(z, BRANCHES, a), 1.0)


@fb.model
def nested(shares, mean):
    z = yield dist.Categorical(shares)
    a = yield dist.Normal(mean, 1.0)
    others = lambda a: jax.lax.cond(z == 1, BRANCHES[1], BRANCHES[2], a)  # noqa: E731
    y = yield dist.Normal(jax.lax.cond(z == 0, BRANCHES[0], others, a), 1.0)


def numpyro_switched(shares, mean):
    z = numpyro.sample("z", numpyro_families.Categorical(shares), infer={"enumerate": "parallel"})
    a = numpyro.sample("a", numpyro_families.Normal(mean, 1.0))
    numpyro.sample("y", numpyro_families.Normal(jax.lax.switch(z, BRANCHES, a), 1.0))


POSTS = {
    "switch": lambda *given, y=Y: switched(*given).condition(y=y),
    "cond in cond": lambda *given, y=Y: nested(*given).condition(y=y),
    "NumPyro": lambda *given, y=Y: fb.from_numpyro(numpyro_switched, *given).condition(y=y),
}
z, a = fb.Variable("z", fb.Bint[3]), fb.Variable("a", fb.Real)
MEANS = {
    "a lifted switch": lambda: fb.lift(lambda z, a: jax.lax.switch(z, BRANCHES, a))(z, a),
    "a lifted cond": lambda: fb.lift(
        lambda z, a: jax.lax.cond(z == 0, BRANCHES[0], lambda a: jnp.where(z == 1, a + 1, -a), a)
    )(z, a),
    "where": lambda: fb.ops.where(z == 0, 2 * a, fb.ops.where(z == 1, a + 1, -a)),
    "a table": lambda: fb.Array(SCALE, ("z",)) * a + fb.Array(SHIFT, ("z",)),
}


def factors(name, shares=SHARES, mean=MEAN, y=Y):
    return dist.Categorical(shares)("z") * dist.Normal(mean, 1.0)("a") * dist.Normal(MEANS[name](), 1.0)(y)


@pytest.mark.parametrize("door", POSTS)
def test_a_label_that_branches(door):
    """Evidence, its gradient in the prior and the data, the label, and draws."""
    evidence, chances, means = by_hand()
    post = POSTS[door](SHARES, MEAN)
    assert post.log_evidence().exactness.is_exact
    assert float(post.log_evidence()) == pytest.approx(evidence, rel=1e-6)
    np.testing.assert_allclose(post.marginal("z").weights, chances, rtol=1e-5)
    ask = lambda mean, y: POSTS[door](jnp.asarray(SHARES), mean, y=y).log_evidence().data  # noqa: E731
    value, slopes = jax.jit(jax.value_and_grad(ask, (0, 1)))(MEAN, Y)
    assert float(value) == pytest.approx(evidence, rel=1e-5)
    np.testing.assert_allclose(slopes, slopes_by_hand(), rtol=1e-3)
    _assert_draws(post.posterior().sample(KEY, "z", "a", n=DRAWS), chances, means)
    assert float(POSTS[door](SHARES, MEAN).log_evidence()) == pytest.approx(evidence, rel=1e-6)  # eager again


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("on", [np, jnp])
def test_the_same_as_factors(name, on):
    """In every order of elimination; of JAX data the gradient, of NumPy's the draws."""
    evidence, chances, means = by_hand()
    given = factors(name, on.asarray(SHARES), on.asarray(MEAN), on.asarray(Y))
    for orders in ((("z", "a"),), (("a",), ("z",)), (("z",), ("a",))):
        value = given
        for names in orders:
            value = value.sum(*names)
        assert value.exactness.is_exact and float(value.log()) == pytest.approx(evidence, rel=1e-6)
    np.testing.assert_allclose(given.sum("a").normalize("z").weights, chances, rtol=1e-5)
    if on is np:
        _assert_draws(given.normalize("z", "a").sample(KEY, "z", "a", n=DRAWS), chances, means)
    else:
        ask = lambda mean, y: factors(name, jnp.asarray(SHARES), mean, y).sum("z", "a").log().data  # noqa: E731
        np.testing.assert_allclose(jax.jit(jax.grad(ask, (0, 1)))(MEAN, Y), slopes_by_hand(), rtol=1e-3)


def _assert_draws(draws, chances, means):
    z, a = np.asarray(draws["z"]), np.asarray(draws["a"])
    error = 5 * np.sqrt(chances / DRAWS)
    assert np.all(np.abs(np.bincount(z, minlength=3) / DRAWS - chances) < error)
    for k in range(3):
        spread = np.sqrt(1 / (1 + SCALE[k] ** 2))
        assert a[z == k].mean() == pytest.approx(means[k], abs=5 * spread / np.sqrt(np.sum(z == k)))
        assert a[z == k].std() == pytest.approx(spread, rel=0.15)


# -- in plates, twice, of other families -----------------------------------------------------------------------------

PLATE = np.array([0.3, 1.0, -2.0, 0.5])


class Case(NamedTuple):
    """A model, its data and its evidence."""

    model: object
    data: dict
    evidence: float


@fb.model
def a_label_each(shares):
    z = yield dist.Categorical(shares).expand([4])
    a = yield dist.Normal(MEAN, 1.0).expand([4])
    y = yield dist.Normal(jax.vmap(lambda z, a: jax.lax.switch(z, BRANCHES, a))(z, a), 1.0)


MATRICES = (2 * np.eye(4), np.tril(np.ones((4, 4))), np.eye(4)[::-1])


@fb.model
def one_label_of_an_array(shares):
    z = yield dist.Categorical(shares)
    a = yield dist.Normal(0.0, 1.0).expand([4])
    x = jax.lax.switch(z, [lambda a: 2 * a, jnp.cumsum, lambda a: a[::-1]], a)
    y = yield dist.Normal(x, 1.0)


@fb.model
def clamped(shares):
    """A label beyond the ends of the branches takes the first or the last one."""
    z = yield dist.Categorical(shares)
    y = yield dist.Poisson(jax.lax.switch(z - 1, [lambda: 1.0, lambda: 5.0]))


@fb.model
def two_labels(shares):
    """Two labels and two branches in one mean."""
    z = yield dist.Categorical(shares)
    w = yield dist.Bernoulli(0.3)
    a = yield dist.Normal(0.0, 1.0)
    first = jax.lax.switch(z, BRANCHES, a)
    y = yield dist.Normal(first + jax.lax.cond(w == 1, lambda a: 3 * a, lambda a: a - 1, a), 1.0)


def two_by_hand():
    logs = []
    for k, w in itertools.product(range(3), range(2)):
        slope, shift = SCALE[k] + (3 if w else 1), SHIFT[k] - (0 if w else 1)
        chance = np.log(SHARES[k]) + np.log(0.3 if w else 0.7)
        logs.append(chance + stats.norm(shift, np.sqrt(1 + slope**2)).logpdf(Y))
    return special.logsumexp(logs)


COUNTS = np.array([2, 1])


@fb.model
def rates(shares):
    z = yield dist.Bernoulli(shares[0])
    g = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Poisson(jax.lax.cond(z == 1, lambda g: 3 * g, lambda g: g / 2, g)).expand([2])


def rates_by_hand():
    """Gamma-Poisson of each rate."""
    total, c = COUNTS.sum(), np.array([0.5, 3.0])
    counts = special.gammaln(2 + total) - special.gammaln(COUNTS + 1).sum() + total * np.log(c)
    return special.logsumexp(np.log([1 - SHARES[0], SHARES[0]]) + counts - (2 + total) * np.log(1 + 2 * c))


def of_matrices():
    each = [stats.multivariate_normal(np.zeros(4), m @ m.T + np.eye(4)).logpdf(PLATE) for m in MATRICES]
    return special.logsumexp(np.log(SHARES) + each)


CASES = {
    "a label each": Case(a_label_each, dict(y=PLATE), sum(by_hand(y=y)[0] for y in PLATE)),
    "one label of an array": Case(one_label_of_an_array, dict(y=PLATE), of_matrices()),
    "clamped": Case(clamped, dict(y=3), np.log(SHARES @ stats.poisson([1.0, 1.0, 5.0]).pmf(3))),
    "two labels": Case(two_labels, dict(y=Y), two_by_hand()),
    "rates": Case(rates, dict(y=COUNTS), rates_by_hand()),
}


@pytest.mark.parametrize("name", CASES)
def test_evidence_of_others(name):
    """In double precision, and in single precision under jit."""
    case = CASES[name]
    found = case.model(SHARES).condition(**case.data).log_evidence()
    assert found.exactness.is_exact and float(found) == pytest.approx(case.evidence, rel=1e-6)
    ask = jax.jit(lambda shares: case.model(shares).condition(**case.data).log_evidence().data)
    assert float(ask(jnp.asarray(SHARES, jnp.float32))) == pytest.approx(case.evidence, rel=1e-5)


def test_rates_as_factors():
    w, g = fb.Variable("w", fb.Bint[2]), fb.Variable("g", fb.Positive)
    rate = fb.lift(lambda w, g: jax.lax.cond(w == 1, lambda g: 3 * g, lambda g: g / 2, g))(w, g)
    joint = dist.Bernoulli(SHARES[0])("w") * dist.Gamma(2.0, 1.0)("g") * dist.Poisson(rate).expand([2])(COUNTS)
    assert float(joint.sum("w", "g").log()) == pytest.approx(rates_by_hand(), rel=1e-9)
    chance = float(joint.sum("g").normalize("w").weights[1])
    mean = 5 * (chance / 7 + (1 - chance) / 2)
    draws = joint.normalize("w", "g").sample(KEY, "w", "g", n=DRAWS)
    assert draws["w"].mean() == pytest.approx(chance, abs=5 * np.sqrt(chance * (1 - chance) / DRAWS))
    assert draws["g"].mean() == pytest.approx(mean, abs=0.1)
