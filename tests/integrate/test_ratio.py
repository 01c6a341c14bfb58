"""Sums over whole numbers without an end, by their ratio: against sums of many terms; and what is refused."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from fubini.algebra.build import ONE, ZERO, add, call, const, equal, get, index, minus, plus, power, scale, times
from fubini.algebra.features import Divergent, NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.ratio import summed_by_ratio, zeros_of
from tests.integrate.numerics import numbers

k = Leaf("k", (), low=0.0, is_integer=True, role="site")
many = Leaf("many", (3,), low=0.0, is_integer=True, role="site")
rate = Leaf("rate", (3,), low=0.0)
label = Leaf("label", (4,), low=0, high=2, is_integer=True)
trials = Leaf("trials", (3,), low=0, is_integer=True)
RATE, LABEL, TRIALS = np.array([0.5, 2.0, 1.2]), np.array([0, 2, 2, 0]), np.array([3, 0, 7])
ARRAYS = {rate: RATE, label: LABEL, trials: TRIALS}
i, j = Index(3, "i"), Index(4, "j")
K = np.arange(3000.0)


def lgamma(of):
    return call("lgamma", of)


def up(offset):
    """log Γ(k + offset)"""
    return lgamma(plus(get(k), const(offset)))


def down(offset):
    """log Γ(offset − k)"""
    return lgamma(minus(const(offset), get(k)))


def binomial(n):
    """log of n! over k! (n − k)!, −∞ beyond n"""
    inside = np.where(n >= K, K, 0)
    return np.where(n >= K, -gammaln(inside + 1) - gammaln(n - inside + 1), -np.inf)


CASES = {
    "Poisson": (minus(scale(np.log(2.5), get(k)), up(1.0)), K * np.log(2.5) - gammaln(K + 1), stats.poisson(2.5)),
    "Geometric": (scale(-0.3, get(k)), -0.3 * K, stats.geom(1 - np.exp(-0.3), loc=-1)),
    "NegativeBinomial": (
        add(((get(k), -0.4), (up(2.5), 1.0), (up(1.0), -1.0))),
        -0.4 * K + gammaln(K + 2.5) - gammaln(K + 1),
        stats.nbinom(2.5, 1 - np.exp(-0.4)),
    ),
    "Binomial": (
        add(((get(k), 0.4), (down(8.0), -1.0), (up(1.0), -1.0))),
        0.4 * K + binomial(7),
        stats.binom(7, 1 / (1 + np.exp(-0.4))),
    ),
    "BetaBinomial": (
        add(((up(2.5), 1.0), (down(8.5), 1.0), (down(8.0), -1.0), (up(1.0), -1.0))),
        binomial(7) + gammaln(K + 2.5) + gammaln(np.maximum(8.5 - K, 1)),
        stats.betabinom(7, 2.5, 1.5),
    ),
    "Hypergeometric": (
        add(((up(1.0), -1.0), (up(3.0), -1.0), (down(5.0), -1.0), (down(4.0), -1.0))),
        np.where(
            K <= 3,
            -gammaln(K + 1) - gammaln(K + 3) - gammaln(np.maximum(5 - K, 1)) - gammaln(np.maximum(4 - K, 1)),
            -np.inf,
        ),
        None,
    ),
}


def sampled(distribution):
    """SciPy's distribution with the parameters that were found."""
    at = {name: float(numbers(part, {})) for name, part in distribution.parameters.items()}
    match distribution.family:
        case "Poisson":
            return stats.poisson(at["rate"])
        case "Geometric":
            return stats.geom(at["probs"], loc=-1)
        case "NegativeBinomial":
            return stats.nbinom(at["total_count"], 1 - at["probs"])
        case "Binomial":
            return stats.binom(at["total_count"], at["probs"])
        case "BetaBinomial":
            return stats.betabinom(at["total_count"], at["concentration1"], at["concentration0"])
    assert distribution.family == "Hypergeometric"
    return stats.hypergeom(at["first"] + at["second"], at["first"], at["draws"])


@pytest.mark.parametrize("case", CASES)
def test_summed_by_ratio(case):
    mine, expected, distribution = CASES[case]
    found = summed_by_ratio(mine, k)
    assert found.distribution.family == case and found.at == () and found.outside == ()
    assert float(numbers(found.distribution.log_normaliser, {})) == pytest.approx(logsumexp(expected), rel=1e-10)
    few = np.arange(4)
    np.testing.assert_allclose(sampled(found.distribution).logpmf(few), (expected - logsumexp(expected))[:4], rtol=1e-9)
    if distribution is not None:
        np.testing.assert_allclose(sampled(found.distribution).pmf(few), distribution.pmf(few), rtol=1e-9)


def test_rates_by_labels_of_an_array():
    """Σ_j log λ[l_j] k[l_j]: slopes add up, and a label that never occurs leaves 1/k! alone."""
    entry = get(many, get(label, index(j)))
    slopes = total([j], times(call("log", get(rate, get(label, index(j)))), entry))
    factorials = total([i], lgamma(plus(get(many, index(i)), ONE)))
    found = summed_by_ratio(plus(minus(slopes, factorials), const(3.0)), many)
    rates = RATE ** np.bincount(LABEL, minlength=3)
    np.testing.assert_allclose(numbers(found.distribution.parameters["rate"], ARRAYS, found.at), rates)
    assert found.outside == (const(3.0),)


def test_trials_of_an_array_none_of_them_included():
    body = lambda at: plus(lgamma(plus(get(many, at), ONE)), lgamma(minus(plus(get(trials, at), ONE), get(many, at))))  # noqa: E731
    found = summed_by_ratio(scale(-1.0, total([i], body(index(i)))), many)
    expected = TRIALS * np.log(2) - gammaln(TRIALS + 1)
    assert found.distribution.family == "Binomial"
    np.testing.assert_allclose(numbers(found.distribution.log_normaliser, ARRAYS, found.at), expected, rtol=1e-12)


def test_a_constant_up_to_an_end():
    found = summed_by_ratio(ZERO, k, high=const(4.0))
    assert found.distribution.family == "Counting" and float(
        numbers(found.distribution.log_normaliser, {})
    ) == pytest.approx(np.log(5))


def test_an_end_that_the_terms_know_as_well():
    mine = CASES["Binomial"][0]
    assert summed_by_ratio(mine, k, high=const(7.0)).distribution.family == "Binomial"
    with pytest.raises(NoClosedForm, match="of a known family"):
        summed_by_ratio(mine, k, high=const(5.0))


def test_zeros():
    found = zeros_of(add(((up(-1.0), -1.0), (down(8.0), -1.0), (get(k), 0.3))), k, ())
    assert found.lows == (const(2.0),) and found.highs == (const(7.0),)


KNOWN, RATIONAL = "a ratio f\\(k \\+ 1\\)/f\\(k\\) of a known family", "that is a rational function of k"
READ_ONCE = "factorials of it, each entry read once"
REFUSED = {
    "a square": (k, scale(-1.0, power(get(k), 2.0)), RATIONAL),
    "a product of functions": (k, times(get(k), up(1.0)), RATIONAL),
    "another function": (k, call("exp", get(k)), READ_ONCE),
    "Γ(2k)": (k, lgamma(plus(scale(2.0, get(k)), ONE)), READ_ONCE),
    "a power of Γ that data decide": (k, times(get(rate, ZERO), up(1.0)), READ_ONCE),
    "factorials by labels": (many, total([j], lgamma(plus(get(many, get(label, index(j))), ONE))), READ_ONCE),
    "factorials of some entries": (many, lgamma(plus(get(many, ZERO), ONE)), READ_ONCE),
    "1/k!²": (k, scale(-2.0, up(1.0)), KNOWN),
    "k!": (k, up(1.0), KNOWN),
    "trials that are not whole": (k, scale(-1.0, plus(up(1.0), down(4.5))), KNOWN),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    leaf, mine, why = REFUSED[case]
    with pytest.raises(NoClosedForm, match=why) as refused:
        summed_by_ratio(mine, leaf)
    assert refused.value.latent is leaf


@pytest.mark.parametrize("slope", [0.0, 0.2])
@pytest.mark.parametrize("family", ["Geometric", "NegativeBinomial"])
def test_divergent(family, slope):
    more = ZERO if family == "Geometric" else minus(up(2.5), up(1.0))
    mine = add(((get(k), slope), (more, 1.0)))
    with pytest.raises(Divergent):
        summed_by_ratio(mine, k)


def test_an_array_of_one_entry():
    single = Leaf("single", (1,), low=0.0, is_integer=True, role="site")
    first = Index(1, "i")
    mine = total([first], minus(get(single, index(first)), lgamma(plus(get(single, index(first)), ONE))))
    found = summed_by_ratio(mine, single)
    np.testing.assert_allclose(numbers(found.distribution.log_normaliser, {}, found.at), [np.e])


def test_slopes_under_a_test():
    mine = total([i], minus(times(equal(index(i), ONE), get(many, index(i))), lgamma(plus(get(many, index(i)), ONE))))
    found = summed_by_ratio(mine, many)
    np.testing.assert_allclose(numbers(found.distribution.parameters["rate"], {}, found.at), [1.0, np.e, 1.0])
