"""The laws of the algebra for every pair of representations, against pointwise evaluation and quadrature.

`pair_tables.py` says which pairs are closed; where one is not, the documented error is the law.
"""

from collections.abc import Iterable
from functools import reduce
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError, Intractable
from fubini.factors.circuit import Circuit
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse
from tests.representations.log_linear import LogLinear

from .oracles import DOMAINS, INTEGERS, integral, points
from .pair_tables import ERRORS, PAIRED, TWO_MEASURES, quotient_letter, sum_letter
from .representations import (
    EXAMPLES,
    MIXED,
    MIXTURES,
    POINT_MASSES,
    all_names,
    assert_at,
    assert_total,
    priors,
    product,
    read,
    without,
)
from .toy import Steps

# SECOND examples of a representation are tested in slow tests, each with itself and with one example of every kind
# (PARTNERS): a covering design, where pairs of kinds are those of the others.
SECOND = {"rank-deficient gaussian", "array gaussian", "quadratic weight", "constrained circuit", "half-lines"}
PARTNERS = {
    "table",
    "batched gaussian",
    "delta at a discrete name",
    "truncated gaussian",
    "mixture over a bound index",
    "gamma density",
    "box",
}
# The gamma density is slow to evaluate: with all for sums and quotients, with PARTNERS for the other laws.
OPEN = {"gamma density", "quartic weight"}  # no rule makes a representation of them


def is_paired(one: str, two: str) -> bool:
    return one == two or all(key not in SECOND or other in PARTNERS for key, other in ((one, two), (two, one)))


def _pair(one: str, two: str, word: str) -> object:
    return pytest.param(one, two, id=f"{one} {word} {two}", marks=[pytest.mark.slow] if {one, two} & SECOND else [])


def over(chosen: Iterable[tuple[str, str]], word: str = "and") -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("one", "two"), [_pair(one, two, word) for one, two in chosen])


PAIRS = [pair for pair in combinations_with_replacement(PAIRED, 2) if is_paired(*pair)]
FEWER = [pair for pair in PAIRS if "gamma density" not in pair or PARTNERS & {pair[pair[0] == "gamma density"]}]
ORDERED = [(one, two) for one in PAIRED for two in PAIRED if is_paired(one, two)]


def has_sum(one: str, two: str) -> bool:
    return sum_letter(one, two) in ".x"


# -- products and sums ----------------------------------------------------------------------------------------------


@over(PAIRS)
@pytest.mark.one_in(3)
def test_products_commute(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    for whole in (f.factor * g.factor, g.factor * f.factor):
        if {one, two} & MIXED:
            with pytest.raises(Intractable, match=TWO_MEASURES):
                read(whole, at)
        else:
            assert_at(whole, f(at) * g(at), at)


@over(PAIRS)
@pytest.mark.one_in(3)
def test_evidence_is_the_same_in_any_order(one, two):
    """Products in any order and grouping; sums at once, in turn in two orders, and by a plan."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    rest, names = priors([f, g]), all_names(f, g)
    prior = product(*rest)
    if not has_sum(one, two):
        error, message = ERRORS[sum_letter(one, two)]
        for ask in (
            lambda: (f.factor * g.factor * prior).sum(*names),
            lambda: fb.eliminate([g.factor * f.factor, prior], names),
        ):
            with pytest.raises(error, match=message):
                ask()
        return
    expected = integral([f, g, *rest])
    grouped = ((f.factor * g.factor) * prior, g.factor * (f.factor * prior))
    for whole in grouped:
        assert_total(whole.sum(*names), expected)
    orders = list(permutations(names))
    for order in orders[:: max(1, len(orders) - 1)]:
        assert_total(fb.eliminate([f.factor, prior, g.factor], sum=order), expected)
    reals_first = sorted(names, key=lambda name: (name in INTEGERS, name))
    for order in (reals_first, reals_first[::-1]) if sum_letter(one, two) == "." else (reals_first[::-1],):
        last_x = sorted(order, key=lambda name: name == "x") if sum_letter(one, two) == "x" else order
        assert_total(reduce(lambda whole, name: whole.sum(name), last_x, grouped[0]), expected)


@over(pair for pair in PAIRS if has_sum(*pair))
@pytest.mark.one_in(3)
def test_sum_of_a_product_over_each_name(one, two):
    """Against quadrature, at points of the names that stay."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    rest, at = priors([f, g]), points([f, g], nodes=True)
    whole = product(f, g, *rest)
    for name in all_names(f, g):
        if name == "x" and sum_letter(one, two) == "x":
            with pytest.raises(ERRORS["x"][0], match=ERRORS["x"][1]):
                whole.sum(name)
        elif not {one, two} & MIXED or name == "x":
            kept = without(at, name)
            assert_at(whole.sum(name), integral([f, g, *rest], kept), kept)


def private(one: str, two: str) -> list[str]:
    """The names of one that two lacks, and that leave a function of a point when they are summed out."""
    names = [name for name in EXAMPLES[one].names if name not in EXAMPLES[two].names and name in EXAMPLES[one].closed]
    return [name for name in names if two not in MIXED and (one not in MIXED or name == "x")]


@over((pair for pair in ORDERED if private(*pair)), "by")
@pytest.mark.one_in(3)
def test_a_sum_passes_a_factor_without_its_variable(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g], nodes=True)
    for name in private(one, two):
        kept = without(at, name)
        expected = integral([f], {other: value for other, value in kept.items() if other in f.names}) * g(kept)
        assert_at((f.factor * g.factor).sum(name), expected, kept)
        assert_at(f.factor.sum(name) * g.factor, expected, kept)


@over(pair for pair in FEWER if not set(pair) & MIXED)
@pytest.mark.one_in(3)
def test_conditioning_commutes_with_products_and_mixes(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    for name in all_names(f, g):
        value = fb.Array(at[name][0], (), DOMAINS[name])
        here = {**at, name: np.broadcast_to(at[name][:1], at[name].shape)}
        rest = without(at, name)
        expected = (
            [f(here) * g(here), f(here) + g(here)] if rest else [f(here)[0] * g(here)[0], f(here)[0] + g(here)[0]]
        )
        parts = [example.factor(**{name: value}) if name in example.names else example.factor for example in (f, g)]
        assert_at((f.factor * g.factor)(**{name: value}), expected[0], rest)
        assert_at(parts[0] * parts[1], expected[0], rest)
        if f.pins == g.pins:
            assert_at((f.factor + g.factor)(**{name: value}), expected[1], rest)


# -- quotients, mixes, plates ---------------------------------------------------------------------------------------


@over(ORDERED, "by")
@pytest.mark.one_in(3)
def test_quotient_times_divisor_is_the_dividend(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    letter, at = quotient_letter(one, two), points([f, g])
    if letter != ".":
        with pytest.raises(ERRORS[letter][0], match=ERRORS[letter][1]):
            f.factor / g.factor
        return
    quotient = f.factor / g.factor
    if one in MIXED:
        back = quotient * g.factor
        assert back.inputs.keys() == set(all_names(f, g))
        if two not in OPEN:  # which no rule integrates
            rest, names = priors([f, g]), all_names(f, g)
            size = np.prod([DOMAINS[name].extent for name in names if name not in all_names(f, *rest)])
            assert_total((back * product(*rest)).sum(*names), size * integral([f, *rest]))
        return
    divisor = EXAMPLES[two](at) if two not in MIXED else g.parts[0](at)  # away from its point mass
    assert_at(quotient, np.where(divisor > 0, f(at) / np.where(divisor > 0, divisor, 1.0), 0.0), at)
    if two not in MIXED:
        assert_at(quotient * g.factor, f(at), at)


@over(FEWER)
@pytest.mark.one_in(3)
def test_a_mix_is_the_sum_at_every_point(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    for both in (f.factor + g.factor, g.factor + f.factor):
        assert both.inputs.keys() == set(all_names(f, g))
        if ({one, two} & MIXED or f.pins != g.pins) and f(at).any() and g(at).any():
            with pytest.raises(Intractable, match=TWO_MEASURES):
                read(both, at)
        else:
            assert_at(both, f(at) + g(at), at)


@over(FEWER)
@pytest.mark.one_in(3)
def test_the_sum_of_a_mix_is_the_mix_of_the_sums(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    names, rest = all_names(f, g), priors([f, g])
    if {"r", "n", "u"} & (set(f.names) ^ set(g.names)):
        with pytest.raises(Intractable, match="is infinite"):  # one of them is constant along a name without a prior
            ((f.factor + g.factor) * product(*rest)).sum(*names)
        return
    whole = (f.factor + g.factor) * product(*rest)
    if "quartic weight" in (one, two):
        with pytest.raises(Intractable, match="the integral over"):
            whole.sum(*names)
        return
    sizes = [np.prod([DOMAINS[n].extent for n in names if n not in all_names(part, *rest)]) for part in (f, g)]
    expected = [size * integral([part, *rest]) for size, part in zip(sizes, (f, g), strict=True)]
    assert_total(whole.sum(*names), sum(expected))


def has_plate(one: str, two: str) -> bool:
    return "a" in all_names(EXAMPLES[one], EXAMPLES[two]) and not {one, two} & (MIXTURES | POINT_MASSES)


@over(pair for pair in PAIRS if has_plate(*pair))
def test_a_plate_of_a_product_is_the_product_of_its_slices(one, two):
    """Over `a`: what lacks it counts three times."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    cells = [{**at, "a": np.full_like(at["a"], cell)} for cell in range(3)]
    expected, rest = np.prod([f(cell) * g(cell) for cell in cells], axis=0), without(at, "a")
    assert_at((f.factor * g.factor).product("a"), expected if rest else expected[0], rest)


# -- what comes out of it -------------------------------------------------------------------------------------------


KINDS = (
    (("table", "log table"), "a", fb.Table),
    (("table", "categorical density"), "a", fb.Table),
    (("table", "diagram"), "a", Diagram),
    (("table", "sparse"), "a", Sparse),
    (("sparse", "log table"), "a", Sparse),
    (("sparse", "discrete delta"), "a", Sparse),
    (("sparse", "batched gaussian"), "a", fb.Mixture),
    (("sparse", "diagram"), "a", fb.Table),
    (("sparse", "train"), "a", fb.Table),
    (("diagram", "train"), "a", fb.Table),
    (("table", "train"), "a", fb.Table),
    (("train", "batched gaussian"), "a", fb.Mixture),
    (("diagram", "discrete delta"), "a", Diagram),
    (("diagram", "batched gaussian"), "a", fb.Mixture),
    (("table", "discrete delta"), "a", fb.Table),
    (("table", "batched gaussian"), "x", fb.Gaussian),
    (("table", "batched gaussian"), "a", fb.Mixture),
    (("table", "batched gaussian"), "xy", fb.Table),
    (("gaussian", "rank-deficient gaussian"), "x", fb.Gaussian),
    (("gaussian", "rank-deficient gaussian"), "xy", fb.Table),
    (("gaussian", "normal density"), "x", fb.Gaussian),
    (("gaussian", "quadratic weight"), "y", fb.Gaussian),
    (("batched gaussian", "discrete delta"), "a", fb.Gaussian),
    (("batched gaussian", "real delta"), "x", fb.Gaussian),
    (("batched gaussian", "real delta"), "xy", fb.Table),
    (("table", "delta at a discrete name"), "b", fb.Delta),
    (("table", "delta at a discrete name"), "a", fb.Mixture),
    (("table", "delta at a discrete name"), "x", fb.Table),
    (("gaussian", "mixture over a bound index"), "x", fb.Table),
    (("batched gaussian", "mixture over a bound index"), "x", fb.Mixture),
    (("real delta", "mixture over a bound index"), "x", fb.Table),
    (("gaussian", "gaussian plus delta"), "x", fb.Table),
    (("table", "circuit"), "a", Circuit),
    (("circuit", "log linear"), "a", fb.Table),
    (("circuit", "constrained circuit"), "bc", fb.Table),
    (("circuit", "batched gaussian"), "a", fb.Mixture),
    (("circuit", "truncated gaussian"), "x", Circuit),
    (("log linear", "log linear"), "a", LogLinear),
    (("log linear", "log table"), "a", fb.Table),
    (("log linear", "batched gaussian"), "a", fb.Mixture),
    (("table", "pieces"), "b", fb.Piecewise),
    (("pieces", "gaussian"), "x", fb.Table),
    (("truncated gaussian", "pieces"), "b", fb.Piecewise),
    (("truncated gaussian", "gaussian"), "x", fb.Table),
    (("truncated gaussian", "table"), "a", fb.Mixture),
    (("truncated gaussian", "mixture over a bound index"), "x", fb.Table),
    (("atoms", "table"), "a", fb.Mixture),
    (("atoms", "batched gaussian"), "x", fb.Mixture),
    (("atoms", "truncated gaussian"), "x", fb.Table),
    (("table", "steps"), "b", Steps),
    (("steps", "box"), "u", fb.Table),
)


@pytest.mark.parametrize(("keys", "names", "kind"), KINDS)
def test_kind_of_a_sum(keys, names, kind):
    """A factor of the kind that the algebra says, beside tables perhaps."""
    result = fb.eliminate([EXAMPLES[key].factor for key in keys], sum=tuple(names))
    pieces = result.terms if hasattr(result, "terms") else (result,)
    kinds = {type(piece) for piece in pieces}
    assert kind in kinds
    assert kinds <= {kind, fb.Table}
    assert result.exactness.is_exact


def test_a_singular_integral_is_an_error():
    with pytest.raises(DataError, match="singular"):
        EXAMPLES["rank-deficient gaussian"].factor.sum("x", "y")
