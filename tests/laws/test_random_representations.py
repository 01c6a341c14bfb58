"""The laws of the algebra as properties: random instances of random representations, against quadrature.

Golden G10: products and sums commute and associate, sums in any order, a sum passes what lacks its variable,
conditioning commutes with products and sums, quotients undo products, and no scale is lost.
"""

from functools import reduce
from operator import add, mul

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb

from .oracles import DOMAINS, Example, integral, points
from .pair_tables import SUMS, quotient_letter
from .representations import MAKERS, MIXED, all_names, assert_at, assert_total, priors, product, without

OPEN = {"quartic weight", "gamma density", "poisson density"}  # two of one may have no closed form, and are slow
PINNED = {"real delta", "delta at a discrete name", "delta at a real name", "atoms"} | MIXED
QUICK = [key for key in MAKERS if key not in OPEN and key != "quadratic weight"]
POINTWISE = [key for key in QUICK if key not in PINNED]
DIVIDENDS = [key for key in POINTWISE if key != "steps"]  # of which `box` is the representation with more rules
DIVISORS = [key for key in SUMS if key in QUICK and quotient_letter("table", key) == "."]
seeds = st.integers(0, 10**6)
few = settings(max_examples=settings().max_examples // 2)  # half of what the profile says


def make(key: str, seed: int) -> Example:
    return MAKERS[key](np.random.default_rng(seed))


@st.composite
def factors(draw: st.DrawFn, keys: list[str], least: int = 2, most: int = 3) -> list[Example]:
    """Instances of different kinds, at most one of them with point masses."""
    chosen = draw(st.lists(st.sampled_from(keys), min_size=least, max_size=most))
    pinned = [key for key in chosen if key in PINNED]
    chosen = [key for key in chosen if key not in PINNED or key == pinned[0]]
    chosen = [key for place, key in enumerate(chosen) if key not in PINNED or place == chosen.index(key)]
    return [make(key, draw(seeds)) for key in chosen]


@few
@given(factors(QUICK, most=4), st.randoms(use_true_random=False))
def test_evidence_in_any_order_and_grouping(examples, random):
    names, rest = list(all_names(*examples)), priors(examples)
    expected = integral([*examples, *rest])
    terms = [example.factor for example in (*examples, *rest)]
    random.shuffle(terms)
    random.shuffle(names)
    assert_total(reduce(mul, terms).sum(*names), expected)
    cut = random.randrange(len(terms))
    grouped = reduce(mul, terms[:cut], fb.Table(1.0)) * reduce(mul, terms[cut:])
    assert_total(fb.eliminate([grouped], names), expected)
    names.sort(key=lambda name: name == "x")  # what may be cut is integrated last
    assert_total(reduce(lambda f, name: f.sum(name), names, reduce(mul, terms)), expected)


@few
@given(factors(POINTWISE, most=3))
def test_products_and_sums_commute_and_associate(examples):
    f, g, h = [example.factor for example in (*examples, *examples)][:3]
    one, two, three = (*examples, *examples)[:3]
    at = points(examples)
    for operation, whole in ((mul, one(at) * two(at) * three(at)), (add, one(at) + two(at) + three(at))):
        for grouped in (operation(operation(f, g), h), operation(f, operation(g, h)), operation(h, operation(g, f))):
            assert_at(grouped, whole, at)


@few
@given(factors(POINTWISE, most=2), seeds)
def test_a_sum_passes_what_lacks_its_variable(examples, seed):
    f, g = (*examples, *examples)[:2]
    names = [name for name in f.names if name not in g.names and name in f.closed]
    if not names:
        return
    name = names[seed % len(names)]
    at = without(points([f, g], nodes=True), name)
    inside = integral([f], {other: value for other, value in at.items() if other in f.names})
    expected = inside * g(at) if at else inside * g({})
    for summed in ((f.factor * g.factor).sum(name), g.factor * f.factor.sum(name)):
        assert_at(summed, expected, at)


@few
@given(factors(POINTWISE, most=2), seeds)
def test_conditioning_commutes_with_products_and_sums(examples, seed):
    f, g = (*examples, *examples)[:2]
    names = all_names(f, g)
    name, at = names[seed % len(names)], points([f, g])
    value = fb.Array(at[name][0], (), DOMAINS[name])
    here = {**at, name: np.broadcast_to(at[name][:1], at[name].shape)}
    rest = without(at, name)
    for operation in (mul, add):
        expected = operation(f(here), g(here)) if rest else operation(f(here), g(here))[0]
        parts = [part.factor(**{name: value}) if name in part.names else part.factor for part in (f, g)]
        assert_at(operation(f.factor, g.factor)(**{name: value}), expected, rest)
        assert_at(operation(*parts), expected, rest)


@few
@given(st.sampled_from(DIVIDENDS), st.sampled_from(DIVISORS), seeds, seeds)
def test_a_quotient_undoes_a_product(dividend, divisor, one, two):
    """(p·q)/q = p and (p/q)·q = p, where q > 0."""
    p, q = make(dividend, one), make(divisor, two)
    if dividend in SUMS and quotient_letter(dividend, divisor) != ".":
        return
    at = points([p, q])
    assert_at((p.factor / q.factor) * q.factor, p(at), at)
    assert_at((p.factor * q.factor) / q.factor, p(at), at)


@few
@given(factors(QUICK, most=3), st.integers(-600, 600))
def test_no_scale_is_lost(examples, log):
    """Each factor times e^s: the logarithm of the evidence moves by s for each, far beyond what a double holds."""
    names, rest = all_names(*examples), priors(examples)
    scale = fb.Table.from_log(np.array(float(log)), ())
    whole = product(*examples, *rest) * reduce(mul, [scale] * len(examples))
    with np.errstate(divide="ignore"):  # two point masses of an integer may leave nothing
        expected = np.log(integral([*examples, *rest])) + log * len(examples)
    np.testing.assert_allclose(float(whole.sum(*names).log()), expected, rtol=1e-9, atol=1e-9)
