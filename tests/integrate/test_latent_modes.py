"""Modes of eliminated latents: against SciPy on a grid, enumeration of states, and the product itself at the mode."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fubini.algebra.build import ONE, add, call, const, get, index, minus, plus, power, times
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.errors import DataError
from fubini.integrate.block import eliminated_together
from fubini.integrate.elimination import eliminated
from fubini.integrate.latent_modes import mode
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import eliminated_power
from tests.integrate.numerics import square, value
from tests.integrate.test_latent_draws import FAMILIES, MANY, at, latent, log, n


def mode_of(result, leaf, arrays=None):
    found = mode(IntegrationStep((leaf.name,), result), [leaf], Evaluation(arrays or {}, xp=np))
    assert list(found.values) == [leaf] and found.values[leaf].shape == leaf.shape and found.log_maximum.shape == ()
    return found.values[leaf], float(found.log_maximum)


def check_maximum(terms, result, leaf, arrays=None):
    """The mode and the log maximum: the product at the mode is what the step leaves, times the maximum."""
    arrays = arrays or {}
    best, height = mode_of(result, leaf, arrays)
    at_mode = value(terms, {**arrays, leaf: best})
    assert at_mode == pytest.approx(value(result.terms, arrays) + height, rel=1e-9, abs=1e-9)
    random = np.random.default_rng(0)
    for _ in range(20):
        near = best * np.exp(0.05 * random.normal(size=leaf.shape)) + 1e-3 * random.normal(size=leaf.shape)
        assert leaf.is_integer or leaf.is_simplex or value(terms, {**arrays, leaf: near}) <= at_mode + 1e-9
    return best


@pytest.mark.parametrize("case", [name for name in FAMILIES if name != "BetaBinomial"])
def test_mode_of_a_family(case):
    leaf, domain, body, distribution = FAMILIES[case]
    result = eliminated([total([n], body)], leaf, domain)
    best, height = mode_of(result, leaf)
    low, high = distribution.ppf(1e-9), distribution.ppf(1 - 1e-6)
    grid = np.arange(low, high + 1) if leaf.is_integer else np.linspace(low, high, 200_001)
    logs = distribution.logpmf(grid) if leaf.is_integer else distribution.logpdf(grid)
    assert best.dtype.kind == ("i" if leaf.is_integer else "f")
    np.testing.assert_allclose(best, grid[np.nanargmax(logs)], atol=2e-4)
    assert height / MANY == pytest.approx(np.nanmax(logs), abs=1e-6)


def test_gamma_and_poisson():
    """max_λ Gamma(λ; a, b) Π Poisson(y; λ) for each of three rates"""
    rate = Leaf("rate", (3,), low=0.0, role="site")
    counts, i, j = Leaf("counts", (3, 5)), Index(3, "i"), Index(5, "j")
    x, y = get(rate, index(i)), get(counts, index(i), index(j))
    terms = [
        total([i], add(((log(x), 1.5), (x, -2.0)))),
        total([i, j], add(((times(y, log(x)), 1.0), (x, -1.0), (call("lgamma", plus(y, ONE)), -1.0)))),
    ]
    data = np.array([[1.0, 0, 2, 4, 1], [7, 3, 5, 2, 8], [0, 0, 0, 0, 0]])
    best = check_maximum(terms, eliminated(terms, rate, "positive"), rate, {counts: data})
    np.testing.assert_allclose(best, (1.5 + data.sum(1)) / 7)


def test_a_simplex_for_each_row():
    theta, c = latent(3, low=0.0, high=1.0, is_simplex=True), Index(3, "c")
    terms = [total([n, c], times(plus(index(c), ONE), log(get(theta, at, index(c)))))]
    best = check_maximum(terms, eliminated(terms, theta, "simplex"), theta)
    np.testing.assert_allclose(best, np.broadcast_to(np.array([1, 2, 3]) / 6, (MANY, 3)))


RANDOM = np.random.default_rng(5)
table, link = Leaf("table", (2, 3, 4)), Leaf("link", (4, 4))
ARRAYS = {table: RANDOM.normal(size=(2, 3, 4)), link: RANDOM.normal(size=(4, 4))}


@pytest.mark.parametrize("first", [True, False], ids=["rows first", "rows last"])
@pytest.mark.parametrize("links", [False, True], ids=["Categorical", "Chain"])
@pytest.mark.parametrize("xp", [np, jnp])
def test_states(first, links, xp):
    """States 1 to 3 at three steps, for each of two rows: the best of all paths."""
    z = Leaf("z", (2, 3) if first else (3, 2), low=1, high=3, is_integer=True, role="site")
    r, s, t = Index(2, "r"), Index(3, "s"), Index(2, "t")

    def entry(step):
        return get(z, *((index(r), step) if first else (step, index(r))))

    terms = [total([r, s], get(table, index(r), index(s), entry(index(s))))]
    if links:
        terms.append(total([r, t], get(link, entry(index(t)), entry(plus(index(t), ONE)))))
    result = eliminated(terms, z, "bint")
    found = mode(IntegrationStep(("z",), result), [z], Evaluation(ARRAYS, xp=xp))
    best = np.asarray(found.values[z])
    paths = 1 + np.array(list(itertools.product(range(3), repeat=3)))
    logs = np.array(
        [[one[range(3), p].sum() + links * ARRAYS[link][p[:-1], p[1:]].sum() for p in paths] for one in ARRAYS[table]]
    )
    np.testing.assert_array_equal(best if first else best.T, paths[logs.argmax(1)])
    assert float(found.log_maximum) == pytest.approx(
        (logs.max(1) - np.log(np.exp(logs).sum(1))).sum(), rel=1e-5 if xp is jnp else 1e-9
    )


def test_a_block_with_a_scale_in_front():
    pair, c = Leaf("x", (3, 2), role="site"), Index(2, "c")
    i, noise = Index(3, "i"), Leaf("noise", (), low=0.0, role="site")
    form = total([c], get(pair, index(i), index(c)))
    body = plus(total([c], square(get(pair, index(i), index(c)))), square(minus(form, const(3.0))))
    terms = [times(power(get(noise), -1.0), total([i], body))]
    best = check_maximum(terms, eliminated_together(terms, [pair]), pair, {noise: np.array(0.2)})
    np.testing.assert_allclose(best, 1.0)


def test_a_student():
    pair, c = Leaf("x", (2,), role="site"), Index(2, "c")
    form = plus(const(2.0), total([c], power(minus(get(pair, index(c)), index(c)), 2.0)))
    terms = [times(const(-6.0), log(form))]
    result = eliminated_power(terms, pair)
    np.testing.assert_allclose(check_maximum(terms, result, pair), [0.0, 1.0], atol=1e-12)
    _, height = mode_of(result, pair)
    assert height == pytest.approx(stats.multivariate_t([0, 1], 2.0 / 10 * np.eye(2), df=10).logpdf([0, 1]))


# -- refused --------------------------------------------------------------------------------------------------------

rate = Leaf("rate", (), low=0.0, role="site")
shape = Leaf("shape", ())


def gamma(concentration):
    """The step of Gamma(concentration, 2)"""
    terms = [add(((times(minus(concentration, ONE), log(get(rate))), 1.0), (get(rate), -2.0)))]
    return IntegrationStep(("rate",), eliminated(terms, rate, "positive"))


@pytest.mark.parametrize("number", [0.7, 1.0])
def test_a_gamma_without_a_mode(number):
    with pytest.raises(NoClosedForm, match="a Gamma with its maximum inside"):
        mode(gamma(const(number)), [rate], Evaluation({}, xp=np))
    step = gamma(get(shape))
    with pytest.raises(DataError, match="'rate', which is a Gamma"):
        mode(step, [rate], Evaluation({shape: np.array(number)}, xp=np))
    found = jax.jit(lambda a: mode(step, [rate], Evaluation({shape: a})))
    assert np.isnan(found(number).values[rate]) and np.isnan(found(number).log_maximum)
    assert float(found(3.0).values[rate]) == pytest.approx(1.0)


def test_a_dirichlet_without_a_mode():
    theta, c = Leaf("theta", (3,), low=0.0, high=1.0, is_simplex=True, role="site"), Index(3, "c")
    alpha = Leaf("alpha", (3,))
    terms = [total([c], times(minus(get(alpha, index(c)), ONE), log(get(theta, index(c)))))]
    step = IntegrationStep(("theta",), eliminated(terms, theta, "simplex"))
    with pytest.raises(DataError, match="maximum inside the support"):
        mode(step, [theta], Evaluation({alpha: np.array([2.0, 0.5, 3.0])}, xp=np))


def test_a_family_whose_mode_is_not_known():
    leaf, domain, body, _ = FAMILIES["BetaBinomial"]
    result = eliminated([total([n], body)], leaf, domain)
    with pytest.raises(NoClosedForm, match="BetaBinomial"):
        mode_of(result, leaf)
