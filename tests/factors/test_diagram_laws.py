"""Diagrams: the laws of the algebra, of random diagrams."""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fubini as fb
from fubini.factors.diagram import Diagram

from .diagrams import SIZES, cells, multiply

# -- laws -----------------------------------------------------------------------------------------------------------

FEW = st.sampled_from([0.0, 0.25, 1.0, 3.0])


def arrays(names: Sequence[str], elements: st.SearchStrategy = FEW) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, [SIZES[name] for name in names], elements=elements)


@st.composite
def diagrams(draw: Callable, elements: st.SearchStrategy = FEW) -> tuple[Diagram, np.ndarray]:
    """A diagram over some names in some order, and its weights over all names."""
    names = draw(st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=3, unique=True))
    weights = draw(arrays(names, elements))
    shape = [SIZES[name] if name in names else 1 for name in SIZES]
    spread = weights.transpose([names.index(name) for name in SIZES if name in names]).reshape(shape)
    return Diagram(weights, names), spread


def spread_over(factor: fb.Factor) -> np.ndarray:
    """The weights over all names, of extent 1 where the factor lacks one."""
    names = [name for name in SIZES if name in factor.inputs]
    return cells(factor, *names).reshape([SIZES[name] if name in names else 1 for name in SIZES])


def assert_same(factor: fb.Factor, expected: np.ndarray) -> None:
    assert factor.exactness.is_exact
    np.testing.assert_allclose(*np.broadcast_arrays(spread_over(factor), expected), rtol=1e-12)


@given(diagrams(), diagrams())
def test_products_commute(one, two):
    expected = one[1] * two[1]
    assert_same(multiply(one[0], two[0]), expected)
    assert_same(multiply(two[0], one[0]), expected)


@given(diagrams(), diagrams(), diagrams())
def test_products_associate(one, two, three):
    expected = one[1] * two[1] * three[1]
    assert_same(multiply(multiply(one[0], two[0]), three[0]), expected)
    assert_same(multiply(one[0], multiply(two[0], three[0])), expected)


@given(diagrams(), diagrams(), st.randoms())
def test_sums_in_any_order(one, two, random):
    both = multiply(one[0], two[0])
    names = random.sample(sorted(both.inputs), len(both.inputs))
    expected = np.broadcast_to(one[1] * two[1], np.broadcast_shapes(one[1].shape, two[1].shape)).sum()
    assert float(reduce(lambda factor, name: factor.sum(name), names, both)) == pytest.approx(expected)
    assert float(both.sum(*names)) == pytest.approx(expected)


@given(arrays("ab"), arrays("bc"))
def test_a_sum_passes_a_factor_without_its_variable(one, two):
    f, g = Diagram(one, ("a", "b")), Diagram(two, ("b", "c"))
    expected = cells(multiply(f, g).sum("a"), "b", "c")
    np.testing.assert_allclose(cells(multiply(f.sum("a"), g), "b", "c"), expected, rtol=1e-12)


@given(diagrams(), diagrams(st.sampled_from([0.25, 1.0, 3.0])))
def test_quotient_times_divisor_is_the_dividend(one, two):
    back = multiply(one[0] / two[0], two[0])
    assert_same(back, np.broadcast_to(one[1], np.broadcast_shapes(one[1].shape, two[1].shape)))


@given(diagrams(), diagrams(), st.data())
def test_substitution_commutes_with_products_and_sums(one, two, data):
    both = multiply(one[0], two[0])
    name = data.draw(st.sampled_from(sorted(both.inputs)))
    value = data.draw(st.integers(0, SIZES[name] - 1))
    at = [part(**{name: value}) if name in part.inputs else part for part in (one[0], two[0])]
    np.testing.assert_allclose(spread_over(both(**{name: value})), spread_over(multiply(*at)), rtol=1e-12)
    others = [other for other in both.inputs if other != name]
    if others:
        total = both.sum(*others)
        assert float(total(**{name: value})) == pytest.approx(float(both(**{name: value}).sum(*others)))


@given(diagrams(), st.data())
def test_levels_in_any_order(one, data):
    names = data.draw(st.permutations(one[0].names))
    there = one[0].ordered(names)
    assert there.names == tuple(names)
    assert_same(there, one[1])
    assert there.ordered(one[0].names).nodes == one[0].nodes


@given(diagrams(), st.data())
def test_levels_as_a_batch(one, data):
    names = data.draw(st.lists(st.sampled_from(one[0].names), unique=True))
    there = one[0].with_batch(names)
    assert set(there.batch) == set(names)
    assert_same(there, one[1])
