"""The factor algebra on tables, against enumeration in double precision."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fubini as fb

from .tables import NAMES, POSITIVE, Raw, assert_close, assert_factor, factor_sets, joint, names_of, raws, total

SIZES = dict(zip(NAMES, (3, 2, 4, 1, 2), strict=True))
ab = raws("a", "b", sizes=SIZES)
bc = raws("b", "c", sizes=SIZES)
positive_b = raws("b", sizes=SIZES, elements=POSITIVE)


def product(factors: list[Raw]) -> fb.Factor:
    """The factors multiplied from left to right."""
    result = factors[0].table
    for factor in factors[1:]:
        result = result * factor.table
    return result


@given(factor_sets(least=2), st.randoms())
def test_products_commute(factors, random):
    """Factors in any order have the same product."""
    names = names_of(factors)
    shuffled = random.sample(factors, len(factors))
    expected = joint(factors, names)
    assert_factor(product(factors), expected, names, fb.Factor)
    assert_factor(product(shuffled), expected, names, fb.Factor)


@given(factor_sets(least=3, most=3))
def test_products_associate(factors):
    f, g, h = (factor.table for factor in factors)
    names = names_of(factors)
    expected = joint(factors, names)
    assert_factor((f * g) * h, expected, names, fb.Factor)
    assert_factor(f * (g * h), expected, names, fb.Factor)


@given(factor_sets(), st.data())
def test_sums_in_any_order(factors, data):
    """One name at a time in any order, or all at once: the same factor of what is left."""
    names = names_of(factors)
    summed = data.draw(st.lists(st.sampled_from(names), unique=True) if names else st.just([]))
    kept = tuple(name for name in names if name not in summed)
    expected = total(factors, kept)
    assert_factor(product(factors).sum(*summed), expected, kept, fb.Factor)
    one_at_a_time = product(factors)
    for name in summed:
        one_at_a_time = one_at_a_time.sum(name)
    assert_factor(one_at_a_time, expected, kept, fb.Factor)


@given(factor_sets(most=4), st.data())
def test_equal_evidence_under_any_partition_of_eliminations(factors, data):
    """Names eliminated in rounds, each round a partial elimination of the result before it."""
    names = names_of(factors)
    order = data.draw(st.permutations(names))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    result = [factor.table for factor in factors]
    for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True):
        result = fb.eliminate(result, sum=tuple(order[start:stop]))
    assert_factor(fb.eliminate(result), total(factors), (), fb.Factor)


@given(ab, bc)
def test_evidence_is_one_table_whatever_the_order_of_names(f, g):
    for order in permutations("abc"):
        assert_factor(fb.eliminate([f.table, g.table], sum=order), total([f, g]))


@given(ab, bc)
def test_a_sum_passes_factors_without_its_variable(f, g):
    passed = f.table.sum("a") * g.table
    assert_factor((f.table * g.table).sum("a"), total([f, g], ("b", "c")), ("b", "c"), fb.Factor)
    assert_factor(passed, total([f, g], ("b", "c")), ("b", "c"), fb.Factor)


@given(ab, raws("b", sizes=SIZES))
def test_quotient_times_divisor_is_the_dividend(p, q):
    """(p/q)·q = p where q > 0; 0/0 is 0 where it is not."""
    p = Raw(np.where(q.weights > 0, p.weights, 0.0), p.names)
    ratio = p.table / q.table
    safe = np.where(q.weights > 0, q.weights, 1.0)
    assert_factor(ratio, p.weights / safe, ("a", "b"))
    assert_factor(ratio * q.table, p.weights, ("a", "b"), fb.Factor)


@given(ab, bc)
def test_a_conditional_sums_to_one(f, g):
    """Σ_a f(a, b) / Σ_a f(a, b) is 1 where it has mass and 0/0 = 0 elsewhere."""
    whole = f.table * g.table
    mass = total([f, g], ("b", "c"))
    assert_factor((whole / whole.sum("a")).sum("a"), np.where(mass > 0, 1.0, 0.0), ("b", "c"), fb.Factor)


@pytest.mark.parametrize("over", [1.0, [1.0, 0.0]])
def test_a_positive_number_over_zero_is_an_error(over):
    names = ("a",)[: np.ndim(over)]
    with pytest.raises(fb.FubiniError, match="over zero"):
        fb.Table(over, names) / fb.Table([0.0, 2.0], ("a",))
    with pytest.raises(fb.FubiniError, match="over zero"):
        fb.Table(over, names) / 0.0


def test_a_density_over_a_number_that_is_zero_is_an_error():
    """Also where the number is a sum that came out as zero, and the density is one that no rule joins."""
    zero, x = fb.Table([0.0, 0.0], ("a",)).sum("a"), fb.Variable("x", fb.Real)
    for density in (fb.dist.Gamma(2.0, 1.0)("r"), fb.weight(log=-(x**4)), fb.dist.Normal(0.0, 1.0)("x")):
        with pytest.raises(fb.FubiniError, match="zero"):
            density / zero


def test_zero_over_zero_is_zero():
    assert_factor(fb.Table([0.0, 3.0], ("a",)) / fb.Table([0.0, 2.0], ("a",)), [0.0, 1.5], ("a",))
    assert_factor(fb.Table(0.0) / fb.Table(0.0), 0.0)


@given(ab, bc, st.sampled_from((0, 0.5, 1, 2, 3.5)))
def test_power(f, g, exponent):
    """Pointwise, for tables and products; the power 0 is 1 everywhere."""
    assert_factor(f.table**exponent, f.weights**exponent, ("a", "b"))
    expected = joint([f, g], "abc") ** exponent
    assert_factor((f.table * g.table) ** exponent, expected, tuple("abc"), fb.Factor)


@given(raws("a", "b", sizes=SIZES, elements=POSITIVE))
def test_power_that_varies(f):
    exponents = np.array([-1.0, 0.5])
    assert_factor(f.table ** fb.Array(exponents, ("b",)), f.weights**exponents, ("a", "b"))
    expected = f.weights[..., None] ** exponents
    assert_factor(f.table ** fb.Array(exponents, ("k",)), expected, ("a", "b", "k"))


def test_a_negative_power_of_zero_is_an_error():
    with pytest.raises(fb.FubiniError, match="zero"):
        fb.Table([0.0, 1.0], ("a",)) ** -1.0


@given(ab, bc)
def test_addition(f, g):
    """(f + g)(a, b, c) = f(a, b) + g(b, c), also of products and numbers."""
    expected = f.weights[:, :, None] + g.weights[None]
    assert_factor(f.table + g.table, expected, tuple("abc"))
    assert_factor(f.table * 2.0 + g.table, expected + f.weights[:, :, None], tuple("abc"))
    assert_factor(1.0 + f.table, 1.0 + f.weights, ("a", "b"))


@given(raws("a", "b", "i", sizes=SIZES | {"i": 3}), raws("b", sizes=SIZES), POSITIVE)
def test_a_plate_multiplies_constants_too(f, g, c):
    """Π_i c·g(b)·f(a, b, i) = c³ g(b)³ Π_i f(a, b, i): what lacks i is multiplied |i| times."""
    plated = (f.table * g.table * c).product("i")
    assert_factor(plated, c**3 * g.weights**3 * f.weights.prod(2), ("a", "b"), fb.Factor)
    assert_factor(f.table.product("i"), f.weights.prod(2), ("a", "b"))
    assert_factor(f.table.product("i", "a"), f.weights.prod((0, 2)), ("b",))


@given(raws("a", "i", sizes=SIZES | {"i": 4}), raws("a", sizes=SIZES))
def test_a_sum_of_a_plate(f, g):
    """Σ_a Π_i g(a) f(a, i), the product recorded and then summed by plan."""
    expected = (g.weights**4 * f.weights.prod(1)).sum()
    assert_factor((g.table * f.table).product("i").sum("a"), expected)


@given(ab)
def test_an_absent_variable(f):
    """Σ over a Variable that f lacks is n·f, max is f, Π is fⁿ."""
    z = fb.Variable("z", fb.Bint[3])
    assert_factor(f.table.sum(z), 3 * f.weights, ("a", "b"), fb.Factor)
    assert_factor(f.table.sum(z, "a"), 3 * f.weights.sum(0), ("b",), fb.Factor)
    assert_factor(f.table.max(z), f.weights, ("a", "b"), fb.Factor)
    assert_factor(f.table.product(z), f.weights**3, ("a", "b"), fb.Factor)
    assert_factor(fb.eliminate([f.table], sum=("a", "b", z)), 3 * f.weights.sum())


def test_an_absent_name_is_an_error():
    f = fb.Table([[0.5, 1.0]], ("a", "b"))
    for question in (f.sum, f.max, f.product, f.argmax, f.entropy):
        with pytest.raises(fb.FubiniError, match="'z'"):
            question("z")
    with pytest.raises(fb.FubiniError, match="'z'"):
        fb.eliminate([f], sum=("a", "z"))


def test_a_variable_of_another_size_is_an_error():
    f = fb.Table([0.5, 1.0], ("a",))
    for question in (f.sum, f.max, f.product):
        with pytest.raises(fb.FubiniError, match="'a'"):
            question(fb.Variable("a", fb.Bint[3]))


def test_empty_products():
    """The product of nothing is 1; a closed table is a number."""
    assert_factor(fb.eliminate([]), 1.0)
    assert_factor(fb.eliminate([], sum=()), 1.0)
    assert_factor(fb.eliminate([], sum=(fb.Variable("z", fb.Bint[4]),)), 4.0)
    assert float(fb.Table(2.0)) == 2.0 and fb.Table(2.0).inputs == {}
    assert_factor(fb.eliminate([fb.Table(2.0), fb.Table(3.0)], sum=()), 6.0, (), fb.Factor)
    assert_factor(fb.Table(2.0).sum(), 2.0)
    assert_factor(fb.Table(2.0).product(), 2.0)


@given(POSITIVE, POSITIVE)
def test_domains_of_one_value(v, w):
    f, g = fb.Table([[v]], ("a", "b")), fb.Table([w], ("b",))
    assert_factor((f * g).sum("a", "b"), v * w)
    assert_factor((f * g).normalize(), [[1.0]], ("a", "b"), fb.Factor)
    assert_factor((f * g).product("b"), [v * w], ("a",), fb.Factor)
    assert (f * g).argmax("a", "b") == {"a": 0, "b": 0}
    assert float((f * g).entropy("a", "b")) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("weight", [0.0, 1e-300, 3.25, 1e300])
def test_float_of_a_closed_table_is_its_weight(weight):
    assert float(fb.Table(weight)) == weight
    assert math.isclose(float(fb.Table([weight, weight], ("a",)).sum("a")), 2 * weight, rel_tol=1e-12)


# -- functionals ----------------------------------------------------------------------------------------------------


def entropy(p: np.ndarray) -> float:
    """−Σ p log p of an array that need not be normalised."""
    p = p[p > 0] / p.sum()
    return float(-(p * np.log(p)).sum())


@given(ab, bc)
def test_normalize(f, g):
    """Over all names or over some; nothing to normalise is an error."""
    whole, mass = joint([f, g], "abc"), total([f, g])
    if mass == 0:
        with pytest.raises(fb.FubiniError, match="zero"):
            (f.table * g.table).normalize()
        return
    assert_factor((f.table * g.table).normalize(), whole / mass, tuple("abc"), fb.Factor)
    marginal = whole.sum(0)
    if marginal.min() > 0:
        assert_factor((f.table * g.table).normalize("a"), whole / marginal, tuple("abc"), fb.Factor)


@given(ab, bc)
def test_entropy(f, g):
    """Of the normalised marginal: other names are summed out."""
    assume(total([f, g]) > 0)
    for names in permutations("abc", 2):
        actual = (f.table * g.table).entropy(*names)
        assert isinstance(actual, fb.Value) and not actual.inputs
        assert_close(float(actual), entropy(total([f, g], names)))


@given(ab, bc)
def test_mutual_information(f, g):
    assume(total([f, g]) > 0)
    pairs = total([f, g], ("a", "c"))
    expected = entropy(pairs.sum(1)) + entropy(pairs.sum(0)) - entropy(pairs)
    assert_close(float((f.table * g.table).mutual_information("a", "c")), expected)


@given(ab, raws("b", "a", sizes=SIZES, elements=POSITIVE))
def test_kl(f, g):
    """Σ p log(p/q) of the normalised marginals, the axes of q in another order."""
    assume(f.weights.sum() > 0)
    p, q = f.weights / f.weights.sum(), g.weights.T / g.weights.sum()
    expected = (p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()
    assert_close(float(f.table.kl(g.table, "a", "b")), expected)
    first, second = p.sum(1), q.sum(1)
    terms = first[first > 0] * np.log(first[first > 0] / second[first > 0])
    assert_close(float(f.table.kl(g.table, "a")), terms.sum())


def test_kl_where_both_are_zero():
    """A cell without mass under both takes no part; one without mass only under q makes it infinite."""
    p, q = fb.Table([0.0, 1.0, 3.0], ("a",)), fb.Table([0.0, 1.0, 1.0], ("a",))
    assert_close(float(p.kl(q, "a")), 0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert float(fb.Table([1.0, 1.0, 1.0], ("a",)).kl(q, "a")) == math.inf


def test_kl_of_factors_over_different_names_is_an_error():
    p, q = fb.Table([[0.2, 0.3], [0.1, 0.4]], ("a", "b")), fb.Table([0.5, 0.5], ("a",))
    for first, second in ((p, q), (q, p)):
        with pytest.raises(fb.FubiniError):
            first.kl(second)


@given(ab, bc)
def test_argmax_attains_the_maximum(f, g):
    whole = joint([f, g], "abc")
    assume(whole.max() > 0)
    found = (f.table * g.table).argmax("a", "b", "c")
    assert set(found) == set("abc")
    assert whole[tuple(int(found[name]) for name in "abc")] == pytest.approx(whole.max(), rel=1e-12)
    assert_factor((f.table * g.table).max("a", "b", "c"), whole.max())
