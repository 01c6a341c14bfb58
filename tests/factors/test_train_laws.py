"""The laws of the algebra as properties of trains of random orders, ranks and batches, against their Tables."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.factors.train import Train, train_to_table

SIZES = {"a": 2, "b": 3, "c": 2, "d": 1, "e": 2}
RANK = 64  # above the number of values on either side of any bond: every operation is exact


@st.composite
def trains(draw, least: int = 2) -> Train:
    """A train over some names in any order, with zeros among its entries, of any scale, some with a batch."""
    names = draw(st.permutations(sorted(SIZES)))[: draw(st.integers(least, 4))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.random([SIZES[name] for name in names]) * rng.integers(0, 4, [SIZES[name] for name in names])
    table = fb.Table(weights + (weights.sum() == 0), tuple(names)) * 10.0 ** draw(st.integers(-200, 200))
    outer = names[2:] if draw(st.booleans()) else []
    order = tuple(name for name in names if name not in outer)
    made = Train.from_table(table._joined(), RANK, names=order, batch=tuple(outer))
    assert isinstance(made, Train)
    return made


def dense(f: fb.Factor) -> fb.Table:
    """The table of a factor, its names in order."""
    made = f._joined()
    made = train_to_table(made) if isinstance(made, Train) else made
    assert isinstance(made, fb.Table)
    return made.transposed(sorted(made.names))


def assert_equal(f: fb.Factor, g: fb.Factor, within: fb.Factor | None = None) -> None:
    """Equal up to rounding errors relative to the greatest entry, or to that of a train of which both are a part."""
    one, two = dense(f), dense(g)
    assert one.names == two.names and f.exactness.is_exact and g.exactness.is_exact
    top = max(np.max(np.asarray((two if within is None else dense(within)).log().data)), -1e9)
    values = [np.exp(np.asarray(h.log().data) - top) for h in (one, two)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-12)


def times(f: fb.Factor, g: fb.Factor) -> fb.Factor:
    return interpret(fb.heads.MULTIPLY, f, g)


@given(trains(), trains())
def test_products_commute(f, g) -> None:
    assert_equal(times(f, g), times(g, f))
    assert_equal(times(f, g), times(dense(f), dense(g)))


@settings(max_examples=8)
@given(trains(), trains(), trains())
def test_products_are_associative(f, g, h) -> None:
    assert_equal(times(times(f, g), h), times(f, times(g, h)))


@given(trains(), trains())
def test_sums_commute(f, g) -> None:
    assert_equal(f + g, g + f)
    assert_equal(f + g, dense(f) + dense(g))


@settings(max_examples=8)
@given(trains(), trains(), trains())
def test_products_distribute(f, g, h) -> None:
    assert_equal(times(f, g + h), times(f, g) + times(f, h))


@given(trains(), st.randoms())
def test_sums_over_names_in_any_order(f, random) -> None:
    names = list(f.inputs)
    random.shuffle(names)
    one: fb.Factor = f
    for name in names:
        one = one.sum(name)
        assert_equal(one, dense(f).sum(*names[: names.index(name) + 1]))


@given(trains(), trains())
def test_a_sum_passes_a_factor_without_its_variable(f, g) -> None:
    own = [name for name in f.inputs if name not in g.inputs]
    if own:
        assert_equal(times(f, g).sum(*own), times(f.sum(*own), g))
        assert_equal((f * g).sum(*own), times(f.sum(*own), g))


@given(trains(), st.sampled_from(sorted(SIZES)), st.integers(0, 2**32 - 1))
def test_a_quotient_undoes_a_product(f, name, seed) -> None:
    q = fb.Table(np.random.default_rng(seed).random(SIZES[name]) + 0.1, (name,))
    assert_equal(times(times(f, q) / q, q), times(f, q))
    assert_equal(times(f, q) / q, times(f, fb.Table(np.ones(SIZES[name]), (name,))))


@given(trains(), trains(), st.data())
def test_substitution_commutes(f, g, data) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted({*f.inputs, *g.inputs})), unique=True, min_size=1))
    at = {name: data.draw(st.integers(0, SIZES[name] - 1)) for name in names}

    def place(h: fb.Factor) -> fb.Factor:
        own = {name: value for name, value in at.items() if name in h.inputs}
        return h(own) if own else h

    assert_equal(place(times(f, g)), times(place(f), place(g)))
    assert_equal(place(f + g), place(f) + place(g), within=f + g)  # its entries have one scale in common
    other = [name for name in f.inputs if name not in at]
    if other:
        assert_equal(place(f.sum(other[0])), place(f).sum(other[0]))


@given(trains(), trains())
def test_evidence_is_the_same_under_any_representation(f, g) -> None:
    names = tuple({**f.inputs, **g.inputs})
    logs = [
        float(fb.eliminate(pair, names).log()) for pair in ((f, g), (dense(f), g), (f, dense(g)), (dense(f), dense(g)))
    ]
    assert logs[:3] == pytest.approx([logs[3]] * 3, rel=1e-10, abs=1e-10)
