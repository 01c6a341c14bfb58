"""One latent integrated out, its entries apart: against quadrature, for every domain and way of indexing; refusals."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln, xlogy
from scipy.stats import norm

from fubini.algebra.build import ONE, ZERO, add, call, const, equal, get, index, less, minus, plus, power, times, where
from fubini.algebra.features import Divergent, NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.elimination import eliminated, is_never_zero
from tests.integrate.numerics import log_integral, numbers, square, value

data = Leaf("data", (5,))
scale_of = Leaf("scale_of", (), low=0.0, role="site")
label = Leaf("label", (5,), low=0, high=2, is_integer=True)
outer = Leaf("outer", (3,), low=0, high=2, is_integer=True)
other = Leaf("other", (5,), low=0, high=2, is_integer=True)
OTHER = np.array([2, 0, 2, 0, 0])
DATA, LABEL, OUTER = np.array([0.5, -1.2, 2.0, 0.3, 1.1]), np.array([0, 2, 2, 0, 2]), np.array([2, 1, 1])
ARRAYS = {data: DATA, label: LABEL, outer: OUTER, other: OTHER, scale_of: np.array(0.7)}
SHARES = np.array([0.5, 1.2, 2.0, 0.3, 1.1])  # data, without their signs

i, j, t, c = Index(3, "i"), Index(5, "j"), Index(2, "t"), Index(3, "c")
at_i, at_j, at_t, at_c = index(i), index(j), index(t), index(c)
y, z = get(data, at_j), get(label, at_j)
size = call("abs", y)


def latent(*shape, **facts):
    return Leaf("x", shape, role="site", **facts)


# -- real numbers ---------------------------------------------------------------------------------------------------

x, alone = latent(3), latent(1)
PRIOR = total([i], square(get(x, at_i)))


def prior(v):
    return -0.5 * (v**2).sum(-1)


def squares_of(gaps):
    return -0.5 * (gaps**2).sum(-1)


NORMAL = {
    "a scalar": (
        latent(),
        lambda x: [square(minus(get(x), const(2.0)), const(4.0))],
        lambda v: -2 * (v[:, 0] - 2) ** 2,
    ),
    "an array of one entry": (
        alone,
        lambda x: [square(get(x, ZERO)), total([j], square(minus(y, get(x, ZERO))))],
        lambda v: prior(v) + squares_of(DATA - v),
    ),
    "every entry": (
        x,
        lambda x: [PRIOR, total([i], square(minus(get(x, at_i), get(data, at_i)), const(3.0)))],
        lambda v: prior(v) + 3 * squares_of(v - DATA[:3]),
    ),
    "backwards": (
        x,
        lambda x: [PRIOR, total([i], square(minus(get(x, minus(const(2.0), at_i)), get(data, at_i))))],
        lambda v: prior(v) + squares_of(v[:, ::-1] - DATA[:3]),
    ),
    "with a stride": (
        x,
        lambda x: [PRIOR, total([t], square(minus(get(x, times(const(2.0), at_t)), get(data, at_t))))],
        lambda v: prior(v) + squares_of(v[:, ::2] - DATA[:2]),
    ),
    "shifted": (
        x,
        lambda x: [PRIOR, total([t], square(minus(get(x, plus(at_t, ONE)), get(data, at_t))))],
        lambda v: prior(v) + squares_of(v[:, 1:] - DATA[:2]),
    ),
    "shifted beyond an end, under a test": (
        x,
        lambda x: [
            PRIOR,
            total([i], times(less(ZERO, at_i), square(minus(get(x, minus(at_i, ONE)), get(data, at_i))))),
        ],
        lambda v: prior(v) + squares_of(v[:, :2] - DATA[1:3]),
    ),
    "a fixed entry": (
        x,
        lambda x: [PRIOR, total([j], square(minus(get(x, ONE), y)))],
        lambda v: prior(v) + squares_of(v[:, 1:2] - DATA),
    ),
    "by labels, one of which never occurs": (
        x,
        lambda x: [PRIOR, total([j], square(minus(get(x, z), y), const(2.0)))],
        lambda v: prior(v) + 2 * squares_of(v[:, LABEL] - DATA),
    ),
    "by labels of labels": (
        x,
        lambda x: [PRIOR, total([j], square(minus(get(x, get(outer, z)), y)))],
        lambda v: prior(v) + squares_of(v[:, OUTER[LABEL]] - DATA),
    ),
    "with slopes of either sign": (
        x,
        lambda x: [PRIOR, total([j], square(minus(times(y, get(x, z)), ONE)))],
        lambda v: prior(v) + squares_of(DATA * v[:, LABEL] - 1),
    ),
    "a point that is set": (
        x,
        lambda x: [
            PRIOR,
            total([i], square(minus(where(equal(at_i, ONE), get(x, ZERO), get(x, at_i)), get(data, at_i)))),
        ],
        lambda v: prior(v) + squares_of(v[:, [0, 0, 2]] - DATA[:3]),
    ),
    "an interval": (
        x,
        lambda x: [
            total([i], square(get(x, at_i))),
            total([i], where(less(at_i, const(2.0)), square(minus(get(x, at_i), ONE)), const(0.25))),
        ],
        lambda v: prior(v) + squares_of(v[:, :2] - 1) + 0.25,
    ),
    "terms of degree one": (
        x,
        lambda x: [PRIOR, total([j], times(y, get(x, z))), total([j], y)],
        lambda v: prior(v) + v[:, LABEL] @ DATA + DATA.sum(),
    ),
    "a scale that stays": (
        x,
        lambda x: [
            total([i], square(get(x, at_i), power(get(scale_of), -2.0))),
            total([j], square(minus(get(x, z), y))),
        ],
        lambda v: prior(v / 0.7) + squares_of(v[:, LABEL] - DATA),
    ),
}


@pytest.mark.parametrize("case", NORMAL)
def test_real(case):
    leaf, terms, density = NORMAL[case]
    found = eliminated(terms(leaf), leaf, "real")
    assert found.distribution.family == "Normal" and all(leaf not in term.leaves for term in found.terms)
    count = int(np.prod(leaf.shape))
    assert value(found.terms, ARRAYS) == pytest.approx(log_integral(density, "real", count), rel=1e-9)


def test_the_conditional_of_a_real_latent():
    """Precisions 1 + n, means Σ y / (1 + n), by labels."""
    found = eliminated([PRIOR, total([j], square(minus(get(x, z), y)))], x, "real")
    count, mean = np.bincount(LABEL, minlength=3), np.bincount(LABEL, DATA, 3)
    np.testing.assert_allclose(numbers(found.distribution.parameters["loc"], ARRAYS, found.at), mean / (1 + count))
    np.testing.assert_allclose(numbers(found.distribution.parameters["scale"], ARRAYS, found.at), (1 + count) ** -0.5)


def test_two_groups_that_may_be_empty_and_a_prior_in_any_order():
    """0/0 of two empty groups is no matter where a third square has a weight."""
    first = total([j], square(minus(get(x, z), y)))
    second = total([j], square(minus(get(x, get(other, at_j)), y), const(0.5)))
    third = total([i], square(minus(get(x, at_i), const(0.1)), const(7.0)))
    found = eliminated([first, second, third], x, "real")
    expected = log_integral(
        lambda v: squares_of(v[:, LABEL] - DATA) + 0.5 * squares_of(v[:, OTHER] - DATA) + 7 * squares_of(v - 0.1),
        "real",
        3,
    )
    assert value(found.terms, ARRAYS) == pytest.approx(expected, rel=1e-9)


def test_an_entry_without_any_square_has_an_infinite_integral():
    found = eliminated([total([j], square(minus(get(x, z), y)))], x, "real")
    with np.errstate(divide="ignore"):
        assert value(found.terms, ARRAYS) == np.inf


def test_off_centre_numbers_lose_no_digits():
    far = {**ARRAYS, data: 1e8 + DATA}
    terms = [total([i], square(minus(get(x, at_i), const(1e8)))), total([j], square(minus(get(x, z), y)))]
    near = [PRIOR, total([j], square(minus(get(x, z), y)))]
    found, expected = (eliminated(each, x, "real").terms for each in (terms, near))
    assert value(found, far) == pytest.approx(value(expected, ARRAYS), rel=1e-7)


def test_terms_without_the_latent_stay_as_they_are():
    apart = total([j], call("exp", y))
    assert eliminated([apart, PRIOR], x, "real").terms[0] is apart


QUADRATIC, INSIDE = "a quadratic term: its integral is infinite", "entries within its shape"
REAL_REFUSED = {
    "no square": (total([j], times(y, get(x, z))), QUADRATIC),
    "a cube": (plus(PRIOR, power(get(x, ZERO), 3.0)), "a quadratic function of it"),
    "coupled entries": (plus(PRIOR, square(total([i], get(x, at_i)))), "several there are coupled"),
    "a product of entries": (plus(PRIOR, times(get(x, ZERO), get(x, ONE))), "a quadratic function of it"),
    "a square beyond the end": (plus(PRIOR, total([i], square(get(x, plus(at_i, ONE))))), INSIDE),
    "a term of degree one beyond the end": (plus(PRIOR, total([i], get(x, plus(at_i, ONE)))), INSIDE),
}


@pytest.mark.parametrize("case", REAL_REFUSED)
def test_real_refused(case):
    term, why = REAL_REFUSED[case]
    with pytest.raises(NoClosedForm, match=why) as refused:
        eliminated([term], x, "real")
    assert refused.value.latent is x


def test_a_real_latent_with_squares_of_no_positive_weight_diverges():
    with pytest.raises(Divergent):
        eliminated([PRIOR, total([i], square(minus(get(x, at_i), ONE), const(-3.0)))], x, "real")


ORDERED = ["every entry", "by labels, one of which never occurs", "backwards", "a fixed entry"]


@cache
def all_together():
    def density(v):
        return prior(v) + sum(NORMAL[name][2](v) - prior(v) for name in ORDERED)

    return log_integral(density, "real", 3)


@given(st.permutations(ORDERED))
def test_order_of_terms(names):
    """Terms made anew in another order: nodes are sorted by when they were made."""
    leaf = latent(3)
    made = [NORMAL[name][1](leaf)[1] for name in names]
    made.append(total([i], square(get(leaf, at_i))))
    found = eliminated(made, leaf, "real")
    assert value(found.terms, ARRAYS) == pytest.approx(all_together(), rel=1e-9)


# -- positive, unit and simplex -------------------------------------------------------------------------------------

p, u = latent(3, low=0.0), latent(3, low=0.0, high=1.0)
one, unit = latent(low=0.0), latent(low=0.0, high=1.0)


def log_of(leaf, *at):
    return call("log", get(leaf, *at))


def log1m(leaf, *at):
    return call("log", minus(ONE, get(leaf, *at)))


FEATURES = {
    "a Gamma by labels": (
        p,
        "positive",
        "Gamma",
        lambda x: [
            total([i], minus(log_of(x, at_i), get(x, at_i))),
            total([j], minus(log_of(x, z), times(size, get(x, z)))),
        ],
        lambda v: (np.log(v) - v).sum(-1) + (np.log(v[:, LABEL]) - SHARES * v[:, LABEL]).sum(-1),
    ),
    "an inverse Gamma": (
        one,
        "positive",
        "InverseGamma",
        lambda x: [add(((log_of(x), -4.0), (power(get(x), -1.0), -2.0)))],
        lambda v: -4 * np.log(v[:, 0]) - 2 / v[:, 0],
    ),
    "an exponential": (one, "positive", "Gamma", lambda x: [times(const(-3.0), get(x))], lambda v: -3 * v[:, 0]),
    "a half normal": (one, "positive", "HalfNormal", lambda x: [square(get(x))], lambda v: -0.5 * v[:, 0] ** 2),
    "a root of a Gamma": (
        one,
        "positive",
        "GeneralizedGamma",
        lambda x: [add(((log_of(x), 2.0), (power(get(x), 3.0), -0.4)))],
        lambda v: 2 * np.log(v[:, 0]) - 0.4 * v[:, 0] ** 3,
    ),
    "a negative power": (
        one,
        "positive",
        "GeneralizedGamma",
        lambda x: [add(((log_of(x), -3.0), (power(get(x), -2.0), -0.4)))],
        lambda v: -3 * np.log(v[:, 0]) - 0.4 / v[:, 0] ** 2,
    ),
    "a precision": (
        one,
        "positive",
        "Gamma",
        lambda x: [minus(log_of(x), get(x)), total([j], plus(square(y, get(x)), times(const(0.5), log_of(x))))],
        lambda v: np.log(v[:, 0]) - v[:, 0] + (0.5 * np.log(v) - 0.5 * v * DATA**2).sum(-1),
    ),
    "a Beta by labels of labels": (
        u,
        "unit",
        "Beta",
        lambda x: [
            total([i], plus(log_of(x, at_i), log1m(x, at_i))),
            total([j], plus(times(size, log_of(x, get(outer, z))), log1m(x, get(outer, z)))),
        ],
        lambda v: (
            (np.log(v) + np.log1p(-v)).sum(-1)
            + np.log(v[:, OUTER[LABEL]]) @ SHARES
            + np.log1p(-v[:, OUTER[LABEL]]).sum(-1)
        ),
    ),
    "a uniform": (unit, "unit", "Beta", lambda x: [times(ZERO, get(x))], lambda v: 0 * v[:, 0]),
    "a Beta at a fixed entry, in an interval": (
        u,
        "unit",
        "Beta",
        lambda x: [
            times(const(2.0), log_of(x, const(2.0))),
            total([i], where(less(at_i, const(2.0)), log1m(x, at_i), ZERO)),
        ],
        lambda v: 2 * np.log(v[:, 2]) + np.log1p(-v[:, :2]).sum(-1),
    ),
    "a simplex": (
        latent(3, low=0.0, high=1.0, is_simplex=True),
        "simplex",
        "Dirichlet",
        lambda x: [total([j], log_of(x, z)), total([c], times(const(0.5), log_of(x, at_c)))],
        lambda v: np.log(v[:, LABEL]).sum(-1) + 0.5 * np.log(v).sum(-1),
    ),
    "a simplex that nothing mentions": (
        latent(3, low=0.0, high=1.0, is_simplex=True),
        "simplex",
        "Dirichlet",
        lambda x: [ZERO],
        lambda v: 0 * v[:, 0],
    ),
    "a simplex of one": (
        latent(1, low=0.0, high=1.0, is_simplex=True),
        "simplex",
        "Dirichlet",
        lambda x: [times(const(3.0), log_of(x, ZERO))],
        lambda v: 0 * v[:, 0],
    ),
}


@pytest.mark.parametrize("case", FEATURES)
def test_by_features(case):
    leaf, domain, family, terms, density = FEATURES[case]
    found = eliminated(terms(leaf), leaf, domain)
    assert found.distribution.family == family and all(leaf not in term.leaves for term in found.terms)
    count = int(np.prod(leaf.shape))
    assert value(found.terms, ARRAYS) == pytest.approx(log_integral(density, domain, count), rel=1e-8, abs=1e-8)


def test_rows_of_simplexes():
    """θ[row, z_j]: each row a Dirichlet of its own; the last is read by none."""
    theta = latent(3, 3, low=0.0, high=1.0, is_simplex=True)
    rows = minus(const(2.0), z)
    found = eliminated([total([j], log_of(theta, rows, z))], theta, "simplex")
    counts = np.zeros((3, 3))
    np.add.at(counts, (2 - LABEL, LABEL), 1)
    expected = (gammaln(1 + counts).sum(-1) - gammaln(3 + counts.sum(-1))).sum()
    assert value(found.terms, ARRAYS) == pytest.approx(expected)
    np.testing.assert_allclose(numbers(found.distribution.parameters["concentration"], ARRAYS, found.at), 1 + counts)


LOGARITHMS, ONE_ENTRY = "logarithms of its entries alone", "no two entries in one term"
FEATURES_REFUSED = {
    "two powers": (p, "positive", add(((get(p, ZERO), -1.0), (power(get(p, ZERO), 2.0), -1.0))), "x\\^1, x\\^2"),
    "nothing at all": (one, "positive", ZERO, "the features none"),
    "a logarithm alone": (one, "positive", log_of(one), "a family on positive numbers with the features log x"),
    "a power on the unit interval": (unit, "unit", get(unit), "a family on unit numbers with the features x\\^1"),
    "log(1 − x) of a positive number": (one, "positive", log1m(one), "log\\(1 − x\\)"),
    "coupled entries": (p, "positive", times(get(p, ZERO), get(p, ONE)), ONE_ENTRY),
    "beyond the end": (p, "positive", total([i], get(p, plus(at_i, ONE))), INSIDE),
    "an entry of a simplex": (
        FEATURES["a simplex"][0],
        "simplex",
        get(FEATURES["a simplex"][0], ZERO),
        LOGARITHMS,
    ),
}


@pytest.mark.parametrize("case", FEATURES_REFUSED)
def test_by_features_refused(case):
    leaf, domain, term, why = FEATURES_REFUSED[case]
    with pytest.raises(NoClosedForm, match=why):
        eliminated([term], leaf, domain)


simplex = latent(3, low=0.0, high=1.0, is_simplex=True)
DIVERGENT = {
    "a rate below 0": (one, "positive", minus(get(one), log_of(one))),
    "a shape of 0": (one, "positive", minus(times(const(-1.0), log_of(one)), get(one))),
    "a Beta": (unit, "unit", times(const(-2.0), log_of(unit))),
    "a Beta at 1": (unit, "unit", times(const(-1.0), log1m(unit))),
    "a Dirichlet": (simplex, "simplex", times(const(-1.0), total([c], log_of(simplex, at_c)))),
}


@pytest.mark.parametrize("case", DIVERGENT)
def test_divergent(case):
    leaf, domain, term = DIVERGENT[case]
    with pytest.raises(Divergent):
        eliminated([term], leaf, domain)


# -- whole numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("low", [0, 2])
def test_finite(low):
    """k = low … low + 2 at every item, with a table of log-weights."""
    k = latent(5, low=float(low), high=low + 2.0, is_integer=True)
    term = total([j], add(((times(y, get(k, at_j)), 1.0), (power(get(k, at_j), 2.0), -0.5))))
    found = eliminated([term], k, "bint")
    states = low + np.arange(3.0)
    expected = np.log(np.exp(DATA[:, None] * states - 0.5 * states**2).sum(-1)).sum()
    assert found.distribution.family == "Categorical" and value(found.terms, ARRAYS) == pytest.approx(expected)


def test_counts():
    """Σ_k λ^k / k!, a rate for each item."""
    k = latent(5, low=0.0, is_integer=True)
    body = minus(times(call("log", size), get(k, at_j)), call("lgamma", plus(get(k, at_j), ONE)))
    found = eliminated([total([j], body)], k, "nat")
    assert found.distribution.family == "Poisson" and value(found.terms, ARRAYS) == pytest.approx(SHARES.sum())


def test_counts_of_a_family_that_is_not_drawn_are_refused():
    k = latent(low=0.0, is_integer=True)
    n, m, t = 4.0, 5.0, 3.0
    parts = [
        plus(get(k), ONE),
        minus(const(n + 1), get(k)),
        minus(const(t + 1), get(k)),
        plus(get(k), const(m - t + 1)),
    ]
    with pytest.raises(NoClosedForm, match="a family that can be drawn from"):
        eliminated([add((call("lgamma", part), -1.0) for part in parts)], k, "nat")


def test_is_never_zero():
    assert is_never_zero(const(-2.0)) and is_never_zero(times(const(-2.0), get(scale_of)))
    assert not is_never_zero(get(data, ZERO)) and not is_never_zero(total([j], equal(z, ONE)))


def test_a_product_that_a_test_leaves_out_counts_for_nothing():
    """x log p with p = 0 where the test fails."""
    weights = Leaf("weights", (3,), low=0.0, high=1.0)
    term = total([i], where(less(at_i, const(2.0)), call("log", get(weights, at_i)), ZERO))
    found = eliminated([PRIOR, term, total([j], square(minus(get(x, z), y)))], x, "real")
    arrays = {**ARRAYS, weights: np.array([0.5, 0.25, 0.0])}
    count = np.bincount(LABEL, minlength=3)
    expected = xlogy(1.0, 0.125) + 5 * np.log(2 * np.pi) / 2 + 3 * np.log(2 * np.pi) / 2
    expected += sum(
        norm.logpdf(DATA[label == LABEL].mean(), 0, (1 + 1 / n) ** 0.5)
        + np.sum(norm.logpdf(DATA[label == LABEL], DATA[label == LABEL].mean()))
        - norm.logpdf(0, 0, n**-0.5)
        for label, n in enumerate(count)
        if n
    )
    with np.errstate(divide="ignore"):
        assert value(found.terms, arrays) == pytest.approx(expected)
