"""Latents drawn back: moments of thousands of entries, drawn at once, against SciPy, enumeration and dense matrices."""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from fubini.algebra.build import ONE, ZERO, add, call, const, get, index, minus, plus, power, scale, times
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.block import eliminated_together
from fubini.integrate.elimination import eliminated
from fubini.integrate.latent_draws import drawn, over
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import eliminated_power
from tests.integrate.numerics import square

MANY = 4000
n = Index(MANY, "n")
at = index(n)


def latent(*more, **facts):
    return Leaf("x", (MANY, *more), role="site", **facts)


def draws_of(result, leaf, arrays=None):
    found = drawn(IntegrationStep(("x",), result), [leaf], jax.random.key(0), Evaluation(arrays or {}, xp=np))
    assert list(found) == [leaf] and found[leaf].shape == leaf.shape
    return np.asarray(found[leaf])


real, positive = latent(), latent(low=0.0)
unit, count = latent(low=0.0, high=1.0), latent(low=0.0, is_integer=True)
P, U, K = (get(leaf, at) for leaf in (positive, unit, count))


def log(of):
    return call("log", of)


def lgamma(of):
    return call("lgamma", of)


FAMILIES = {
    "Normal": (real, "real", square(minus(get(real, at), const(2.0)), const(4.0)), stats.norm(2, 0.5)),
    "Gamma": (positive, "positive", add(((log(P), 1.5), (P, -2.0))), stats.gamma(2.5, scale=0.5)),
    "InverseGamma": (positive, "positive", add(((log(P), -7.0), (power(P, -1.0), -2.0))), stats.invgamma(6, scale=2)),
    "HalfNormal": (positive, "positive", square(P, const(4.0)), stats.halfnorm(scale=0.5)),
    "GeneralizedGamma": (
        positive,
        "positive",
        add(((log(P), 1.5), (power(P, 3.0), -2.0))),
        stats.gengamma(2.5 / 3, 3, scale=2 ** (-1 / 3)),
    ),
    "Beta": (unit, "unit", add(((log(U), 1.0), (log(minus(ONE, U)), 2.0))), stats.beta(2, 3)),
    "Poisson": (count, "nat", add(((K, np.log(2.5)), (lgamma(plus(K, ONE)), -1.0))), stats.poisson(2.5)),
    "Geometric": (count, "nat", scale(-0.3, K), stats.geom(1 - np.exp(-0.3), loc=-1)),
    "NegativeBinomial": (
        count,
        "nat",
        add(((K, -0.7), (lgamma(plus(K, const(2.5))), 1.0), (lgamma(plus(K, ONE)), -1.0))),
        stats.nbinom(2.5, 1 - np.exp(-0.7)),
    ),
    "Binomial": (
        count,
        "nat",
        add(((K, 0.4), (lgamma(minus(const(8.0), K)), -1.0), (lgamma(plus(K, ONE)), -1.0))),
        stats.binom(7, 1 / (1 + np.exp(-0.4))),
    ),
    "BetaBinomial": (
        count,
        "nat",
        add(
            (
                (lgamma(plus(K, const(2.5))), 1.0),
                (lgamma(minus(const(8.5), K)), 1.0),
                (lgamma(minus(const(8.0), K)), -1.0),
                (lgamma(plus(K, ONE)), -1.0),
            )
        ),
        stats.betabinom(7, 2.5, 1.5),
    ),
}


@pytest.mark.parametrize("case", FAMILIES)
def test_drawn(case):
    leaf, domain, body, distribution = FAMILIES[case]
    result = eliminated([total([n], body)], leaf, domain)
    found = draws_of(result, leaf)
    assert result.distribution.family == case
    assert found.mean() == pytest.approx(distribution.mean(), abs=5 * distribution.std() / MANY**0.5)
    assert found.std() == pytest.approx(distribution.std(), rel=0.12)
    points = np.unique(np.quantile(found, [0.1, 0.5, 0.9]))
    empirical = (found[:, None] <= points).mean(0)
    np.testing.assert_allclose(empirical, distribution.cdf(points), atol=5 * 0.5 / MANY**0.5)


def test_a_simplex_for_each_row():
    theta = latent(3, low=0.0, high=1.0, is_simplex=True)
    c = Index(3, "c")
    term = total([n, c], times(plus(index(c), ONE), log(get(theta, at, index(c)))))
    found = draws_of(eliminated([term], theta, "simplex"), theta)
    alpha = np.array([2.0, 3.0, 4.0])
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(found.mean(0), alpha / 9, atol=0.015)
    np.testing.assert_allclose(np.cov(found.T)[0, 1], -2 * 3 / 81 / 10, rtol=0.2)


RANDOM = np.random.default_rng(3)
TABLE, LINK = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(4, 4))
table, link = Leaf("table", (3, 4)), Leaf("link", (4, 4))


@pytest.mark.parametrize("first", [True, False], ids=["rows first", "rows last"])
@pytest.mark.parametrize("links", [False, True], ids=["Categorical", "Chain"])
def test_states(first, links):
    """States 2 and 3 at three steps, for each of many rows: all paths as often as enumeration says."""
    shape = (MANY, 3) if first else (3, MANY)
    z = Leaf("z", shape, low=2, high=3, is_integer=True, role="site")
    s, t = Index(3, "s"), Index(2, "t")

    def entry(step):
        return get(z, *((at, step) if first else (step, at)))

    terms = [total([n, s], get(table, index(s), entry(index(s))))]
    if links:
        terms.append(total([n, t], get(link, entry(index(t)), entry(plus(index(t), ONE)))))
    found = draws_of(eliminated(terms, z, "bint"), z, {table: TABLE, link: LINK})
    paths = 2 + np.array(list(itertools.product(range(2), repeat=3)))
    weights = np.exp([TABLE[range(3), p].sum() + links * LINK[p[:-1], p[1:]].sum() for p in paths])
    rows = found if first else found.T
    often = np.array([(rows == p).all(-1).mean() for p in paths])
    np.testing.assert_allclose(often, weights / weights.sum(), atol=5 * 0.5 / MANY**0.5)


@pytest.mark.parametrize("end", [0.0, 2.0], ids=["from its start", "from its end"])
def test_a_chain_for_each_row(end):
    """Walks that are known at one end: cov = ¼ + the number of steps in common."""
    walk, t = latent(3), Index(2, "t")
    ends = total([n], square(minus(get(walk, at, const(end)), const(5.0)), const(4.0)))
    steps = total([n, t], square(minus(get(walk, at, plus(index(t), ONE)), get(walk, at, index(t)))))
    found = draws_of(eliminated_together([ends, steps], [walk]), walk)
    far = np.abs(np.arange(3) - end)
    np.testing.assert_allclose(found.mean(0), 5.0, atol=5 * 2.25**0.5 / MANY**0.5)
    np.testing.assert_allclose(np.cov(found.T), 0.25 + np.minimum(far[:, None], far), atol=0.25)


def test_a_block_with_a_scale_in_front():
    pair, c = latent(2), Index(2, "c")
    noise = Leaf("noise", (), low=0.0, role="site")
    form = total([c], get(pair, at, index(c)))
    body = plus(total([c], square(get(pair, at, index(c)))), square(minus(form, const(3.0))))
    result = eliminated_together([times(power(get(noise), -1.0), total([n], body))], [pair])
    found = draws_of(result, pair, {noise: np.array(0.2)})
    covariance = 0.2 * np.linalg.inv(np.eye(2) + 1)
    np.testing.assert_allclose(found.mean(0), [1.0, 1.0], atol=0.03)
    np.testing.assert_allclose(np.cov(found.T), covariance, atol=0.02)


def test_a_student():
    """One power for all entries, which share a scale in each draw."""
    pair, c = Leaf("x", (2,), role="site"), Index(2, "c")
    form = plus(const(2.0), total([c], power(minus(get(pair, index(c)), index(c)), 2.0)))
    step = IntegrationStep(("x",), eliminated_power([times(const(-6.0), log(form))], pair))
    keys = jax.random.split(jax.random.key(0), MANY)
    found = np.asarray(jax.jit(jax.vmap(lambda key: drawn(step, [pair], key, Evaluation({}))[pair]))(keys))
    df, spread = 10.0, 2.0
    np.testing.assert_allclose(found.mean(0), [0.0, 1.0], atol=0.05)
    np.testing.assert_allclose(np.cov(found.T), np.eye(2) * spread / (df - 2), atol=0.03)


def test_over_indices_that_a_node_does_not_have():
    other = Index(2)
    assert over(Evaluation({}, xp=np), const(3.0), (other,)).tolist() == [3.0, 3.0]
    assert over(Evaluation({}, xp=np), plus(index(other), ZERO), (Index(3), other)).shape == (3, 2)
