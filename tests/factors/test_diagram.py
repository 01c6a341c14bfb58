"""Diagrams: each rule against enumeration, the laws of the algebra, both engines, questions, errors, networks."""

import math
import pickle
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.errors import DataError, MemoryLimit, NameClash, UnknownName
from fubini.factors.diagram import Diagram
from fubini.numerics.randomness import source_of
from fubini.terms.exactness import estimated
from fubini.terms.factor import Weight

A = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])  # Koller and Friedman 2009, figure 4.3
B = np.array([[0.5, 0.7], [0.1, 0.2]])
STEP = np.array([[[1.0, 2.0], [1.0, 2.0]], [[3.0, 3.0], [0.0, 0.0]], [[3.0, 3.0], [0.0, 0.0]]])
SIZES = {"a": 3, "b": 2, "c": 2, "d": 3}
KEY = jax.random.key(0)


def cells(factor: fb.Factor, *names: str) -> np.ndarray:
    """The weights of a factor, axes in this order."""
    value = factor.log()
    assert set(value.inputs) == set(names)
    for name in reversed(names):
        value = fb.stack(value, name)
    return np.exp(np.asarray(value.data, np.float64))


def assert_is(factor: fb.Factor, kind: type, expected: Any, *names: str, rtol: float = 1e-12) -> None:
    """Of this kind, exact, with these weights."""
    assert type(factor) is kind
    assert factor.exactness.is_exact
    np.testing.assert_allclose(cells(factor, *names), expected, rtol=rtol, atol=0)


def multiply(f: fb.Factor, g: fb.Factor) -> fb.Factor:
    return interpret(fb.heads.MULTIPLY, f, g)


@pytest.fixture
def f() -> Diagram:
    return Diagram(A, ("a", "b"))


@pytest.fixture
def g() -> Diagram:
    return Diagram(B, ("b", "c"))


# -- the data -------------------------------------------------------------------------------------------------------


def test_equal_parts_are_shared_and_counted():
    step = Diagram(STEP, ("a", "b", "c"))
    assert (step.node_count, step.terminal_count) == (3, 4)  # a; b where a > 0; c where a = 0
    assert repr(step) == "Diagram(a: Bint[3], b: Bint[2], c: Bint[2], nodes=3, terminals=4)"
    assert_is(step, Diagram, STEP, "a", "b", "c")
    np.testing.assert_array_equal(step.weights, STEP)


def test_a_constant_has_no_node():
    flat = Diagram(np.full((3, 2), 0.25), ("a", "b"))
    assert (flat.node_count, flat.terminal_count) == (0, 1)
    assert float(flat.sum("a", "b")) == 1.5


def test_the_order_decides_how_many_nodes():
    """(a0 ∧ b0) ∨ (a1 ∧ b1) ∨ (a2 ∧ b2), for which Bryant (1986) has linear and exponential orders."""
    bits = np.indices((2,) * 6).astype(bool)
    weights = (bits[0] & bits[3]) | (bits[1] & bits[4]) | (bits[2] & bits[5])
    names = ("a0", "a1", "a2", "b0", "b1", "b2")
    near = Diagram(weights.astype(float), names, order=("a0", "b0", "a1", "b1", "a2", "b2"))
    far = Diagram(weights.astype(float), names)
    assert (near.node_count, far.node_count) == (6, 14)
    assert far.ordered(near.names).nodes == near.nodes
    assert_is(near, Diagram, weights.astype(float), *names)


def test_from_table_and_back():
    """The promotion `diagram_to_table`, and the way there."""
    table = fb.Table.from_log(np.array([[0.0, -2000.0], [-2000.0, 1500.0]]), ("a", "b"))
    there = Diagram.from_table(table, order=("b", "z", "a"))
    assert there.names == ("b", "a")
    back = there + fb.Table(0.0)
    assert there.terminal_count == 3
    np.testing.assert_allclose(fb.stack(fb.stack(there.log(), "b"), "a").data, [[0.0, -2000.0], [-2000.0, 1500.0]])
    assert type(back) is Diagram
    assert float(there.sum("a", "b").log()) == pytest.approx(1500.0)


def test_labels_are_kept():
    domains = {"a": fb.Bint.labelled("low", "mid", "high"), "b": fb.Bint[2]}
    f = Diagram(A, domains)
    assert f.inputs == domains
    assert f(a=2).inputs == {"b": fb.Bint[2]}
    np.testing.assert_allclose(f(a=2).weights, A[2])
    assert multiply(f, Diagram(B, ("b", "c"))).inputs["a"] == domains["a"]


def test_it_is_pickled_with_its_axes(f, g):
    there = pickle.loads(pickle.dumps(f))
    assert_is(multiply(there, g), Diagram, A[:, :, None] * B, "a", "b", "c")


def test_renaming_keeps_the_nodes(f):
    there = f(a="b", b="a")
    assert there.nodes == f.nodes
    assert_is(there, Diagram, A, "b", "a")


def test_a_mark_stays_with_the_result(f, g):
    rough = f._marked(estimated(10))
    for factor in (multiply(rough, g), rough / g, rough + g, rough.sum("a"), rough(a=1), rough**2.0, rough.normalize()):
        assert str(factor.exactness) == "estimated(10)"


# -- rules ----------------------------------------------------------------------------------------------------------


def test_join_diagram(f):
    assert interpret(fb.heads.JOIN, f) is f


def test_diagram_to_table(f):
    """By promotion, beside a representation that has no rule with diagrams."""
    found = interpret(fb.heads.CONTRACT, fb.sum_product, f, fb.Table(np.ones(3), ("a",)), frozenset("b"))
    assert_is(found, Diagram, A.sum(0), "b")
    np.testing.assert_array_equal(f.weights, A)


def test_multiply_diagrams(f, g):
    """Golden G1."""
    found = multiply(f, g)
    assert_is(found, Diagram, A[:, :, None] * B, "a", "b", "c")
    assert [found.weights[0, 0, 0], found.weights[0, 1, 1], found.weights[2, 1, 1]] == pytest.approx([0.25, 0.16, 0.18])


def test_multiply_diagram_table(f):
    assert_is(multiply(f, fb.Table(B, ("b", "c"))), Diagram, A[:, :, None] * B, "a", "b", "c")


def test_multiply_table_diagram(g):
    assert_is(multiply(fb.Table(A, ("a", "b")), g), Diagram, A[:, :, None] * B, "a", "b", "c")


def test_multiply_of_other_orders():
    """Levels that stand the other way round in the two."""
    f, g = Diagram(A, ("a", "b"), order=("b", "a")), Diagram(STEP, ("a", "b", "c"))
    assert_is(multiply(f, g), Diagram, A[:, :, None] * STEP, "a", "b", "c")
    assert_is(multiply(g, f), Diagram, A[:, :, None] * STEP, "a", "b", "c")


def test_multiply_with_a_level_that_is_a_batch(f, g):
    """b is a level of one, and a batch of the other."""
    batched = f.with_batch(("b",))
    assert (batched.names, batched.batch) == (("a",), ("b",))
    assert_is(multiply(batched, g), Diagram, A[:, :, None] * B, "a", "b", "c")
    assert_is(multiply(g, batched), Diagram, A[:, :, None] * B, "a", "b", "c")
    assert_is(g + batched, Diagram, A[:, :, None] + B, "a", "b", "c")


def test_a_zero_ends_a_product():
    zero = Diagram([0.0, 1.0], ("a",))
    many = Diagram(np.arange(1.0, 9.0).reshape(2, 2, 2), ("b", "c", "d"))
    assert (multiply(zero, many).node_count, multiply(zero, many).terminal_count) == (8, 9)


def _gaussian() -> fb.Gaussian:
    return fb.Gaussian(mean=[[0.0], [1.0], [2.0]], precision=[[2.0]], inputs={"a": fb.Bint[3], "x": fb.Real})


def test_multiply_diagram_gaussian(f):
    found = multiply(f, _gaussian())
    assert type(found) is fb.Gaussian
    assert_is(found.sum("x"), fb.Table, cells(_gaussian().sum("x"), "a")[:, None] * A, "a", "b", rtol=1e-9)


def test_multiply_gaussian_diagram(f):
    found = multiply(_gaussian(), f)
    assert type(found) is fb.Gaussian
    assert_is(found.sum("x"), fb.Table, cells(_gaussian().sum("x"), "a")[:, None] * A, "a", "b", rtol=1e-9)


def test_divide_diagrams(g):
    """Golden G2: a column of zeros over its sum is zero."""
    weights = np.array([[0.5, 0.0], [0.25, 0.0]])
    f = Diagram(weights, ("a", "b"))
    assert_is(f / f.sum("a"), Diagram, [[2 / 3, 0.0], [1 / 3, 0.0]], "a", "b")
    assert_is(Diagram(A, ("a", "b")) / g, Diagram, A[:, :, None] / B, "a", "b", "c")


def test_divide_diagram_table(f):
    assert_is(f / fb.Table(B, ("b", "c")), Diagram, A[:, :, None] / B, "a", "b", "c")
    assert_is(f / 2.0, Diagram, A / 2, "a", "b")


def test_divide_table_diagram(g):
    assert_is(fb.Table(A, ("a", "b")) / g, Diagram, A[:, :, None] / B, "a", "b", "c")
    assert_is(1.0 / g, Diagram, 1 / B, "b", "c")


def test_divide_diagram_gaussian():
    step = Diagram([1.0, 2.0, 1.0], ("a",))
    found = (step / _gaussian()) * _gaussian() * _gaussian()
    expected = cells(_gaussian().sum("x"), "a") * [1.0, 2.0, 1.0]
    assert_is(
        fb.eliminate(found, sum=("x",)).normalize()._joined(), fb.Table, expected / expected.sum(), "a", rtol=1e-9
    )


def test_divide_by_diagram():
    """Of a Gaussian, and of a density that no rule joins."""
    step = Diagram([1.0, 2.0, 1.0], ("a",))
    found = _gaussian() / step
    assert type(found) is fb.Gaussian
    assert_is(found.sum("x"), fb.Table, cells(_gaussian().sum("x"), "a") / [1.0, 2.0, 1.0], "a", rtol=1e-9)
    open_ = Weight(-1.0 * fb.Variable("x", fb.Real) ** 4) / step
    assert float(open_(x=1.0, a=1).log()) == pytest.approx(-1 - math.log(2))


def test_normalize_diagram(f):
    assert_is(f.normalize("a"), Diagram, A / A.sum(0), "a", "b")
    assert_is(f.normalize("b"), Diagram, A / A.sum(1, keepdims=True), "a", "b")


def test_normalize_diagram_by_table(f):
    assert_is(f.normalize(), Diagram, A / A.sum(), "a", "b")


def test_add_diagrams(f, g):
    assert_is(f + g, Diagram, A[:, :, None] + B, "a", "b", "c")


def test_add_diagram_table(f):
    assert_is(f + fb.Table(B, ("b", "c")), Diagram, A[:, :, None] + B, "a", "b", "c")


def test_add_table_diagram(g):
    assert_is(fb.Table(A, ("a", "b")) + g, Diagram, A[:, :, None] + B, "a", "b", "c")


def test_sum_diagram(f, g):
    """Golden G1, the sum; a sum over all names is a table."""
    found = multiply(f, g).sum("b")
    assert_is(found, Diagram, A @ B, "a", "c")
    assert [found.weights[0, 0], found.weights[1, 1], found.weights[2, 1]] == pytest.approx([0.33, 0.07, 0.39])
    assert_is(found.sum("a", "c"), fb.Table, (A @ B).sum())


@pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product, fb.min_sum, fb.counting, fb.boolean], ids=str)
@pytest.mark.parametrize("names", ["a", "b", "ac", "abc"])
def test_sum_diagram_in_semirings(semiring, names):
    left = [name for name in "abc" if name not in names]
    found = Diagram(STEP, ("a", "b", "c")).reduce(semiring, *names)
    expected = cells(fb.Table(STEP, ("a", "b", "c")).reduce(semiring, *names), *left)
    assert_is(found, Diagram if left else fb.Table, expected, *left)


def test_sum_of_a_batch(f):
    batched = f.with_batch(("a",))
    assert_is(batched.sum("a"), Diagram, A.sum(0), "b")
    assert_is(batched.sum("b"), fb.Table, A.sum(1), "a")
    assert_is(batched.max("a", "b"), fb.Table, A.max())


def test_multiply_out_diagram():
    step = Diagram(STEP, ("a", "b", "c"))
    assert_is(step.product("b"), Diagram, STEP.prod(1), "a", "c")
    assert_is(step.product("a", "b", "c"), fb.Table, STEP.prod())


def test_exclude_diagram(f):
    found = interpret(fb.heads.EXCLUDE, fb.sum_product, f, ("a",))
    expected = [A[[1, 2]].prod(0), A[[0, 2]].prod(0), A[[0, 1]].prod(0)]
    assert_is(found, Diagram, expected, "a", "b")


def test_power_diagram(f):
    assert_is(f**2.0, Diagram, A**2, "a", "b")
    exponents = np.array([[0.5, 1.0], [2.0, 3.0]])
    assert_is(f ** fb.Array(exponents, ("b", "i")), Diagram, A[:, :, None] ** exponents, "a", "b", "i")


def test_substitute_diagram():
    step = Diagram(STEP, ("a", "b", "c"))
    assert_is(step(b=1), Diagram, STEP[:, 1], "a", "c")
    assert (step(b=1).node_count, step(b=1).terminal_count) == (2, 3)
    assert_is(step(a=2, b=0, c=1), fb.Table, 3.0)
    assert_is(step(b=fb.Variable("c", fb.Bint[2])), Diagram, STEP[:, [0, 1], [0, 1]], "a", "c")
    assert_is(step(b="c", c="b"), Diagram, STEP, "a", "c", "b")
    index = np.array([[0, 1, 2], [2, 2, 0]])
    found = step(a=fb.Array(index, ("i", "j"), fb.Bint[3]), c=1)
    assert found.inputs.keys() == {"i", "j", "b"}
    assert_is(found, Diagram, STEP[index][..., 1], "i", "j", "b")
    assert_is(found(b=0), fb.Table, STEP[index][..., 0, 1], "i", "j")
    everything = step(a=fb.Array([2, 0], ("i",), fb.Bint[3]), b=fb.Array([1, 0], ("i",), fb.Bint[2]), c=1)
    assert_is(everything, fb.Table, STEP[[2, 0], [1, 0], 1], "i")


def test_substitution_by_an_array_over_a_level(f):
    """f(a = v(b), b)"""
    assert_is(f(a=fb.Array([2, 0], ("b",), fb.Bint[3])), fb.Table, A[[2, 0], [0, 1]], "b")


def test_expect_diagram(f):
    value = fb.Variable("a", fb.Bint[3]) * 10.0
    np.testing.assert_allclose(float(fb.expectation(f, value, "a", "b")), (A.sum(1) / A.sum()) @ [0, 10, 20])
    np.testing.assert_allclose(f.mean("a").data, (A / A.sum(0)).T @ [0, 1, 2])
    np.testing.assert_allclose(f.variance("b").data, fb.Table(A, ("a", "b")).variance("b").data)
    assert float(f.entropy()) == pytest.approx(float(fb.Table(A, ("a", "b")).entropy()))
    other = Diagram(A + 0.1, ("a", "b"))
    assert float(f.kl(other)) == pytest.approx(float(fb.Table(A, ("a", "b")).kl(fb.Table(A + 0.1, ("a", "b")))))


def test_choose_diagram():
    step = Diagram(STEP, ("a", "b", "c"))
    assert step.argmax("a", "b", "c") == {"a": 1, "b": 0, "c": 0}
    np.testing.assert_array_equal(Diagram(A, ("a", "b")).argmax("a")["a"], [0, 2])
    np.testing.assert_array_equal(Diagram(A, ("a", "b")).argmax("b")["b"], [1, 0, 1])
    np.testing.assert_array_equal(Diagram(A, ("a", "b")).with_batch(("a",)).argmax("b")["b"], [1, 0, 1])


@pytest.mark.parametrize("on", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_draw_diagram(on):
    """Frequencies of whole assignments, of levels that a path passes over too, within five standard errors."""
    n = 20_000
    draws = Diagram(on(STEP), ("a", "b", "c")).sample(KEY, "a", "b", "c", n=n)
    counts = np.zeros(STEP.shape)
    np.add.at(counts, tuple(np.asarray(draws[name]) for name in "abc"), 1)
    p = STEP / STEP.sum()
    assert np.all(np.abs(counts - n * p) <= 5 * np.sqrt(n * p * (1 - p)))
    given_b = Diagram(on(STEP), ("a", "b", "c")).sample(KEY, "a", "c", n=n)
    assert given_b["a"].shape == (n, 2)
    p = STEP[:, 1].sum(1) / STEP[:, 1].sum()
    assert np.all(np.abs(np.bincount(np.asarray(given_b["a"])[:, 1], minlength=3) - n * p) <= 5 * np.sqrt(n * p))


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


# -- engines --------------------------------------------------------------------------------------------------------


def log_evidence(weights: Any, other: Any) -> Any:
    f, g = Diagram(weights, ("a", "b", "c")), Diagram(other, ("b", "d"))
    return fb.eliminate([f, g, fb.Table(np.array([0.5, 2.0]), ("c",))], sum=("a", "b", "c", "d")).log().data


OTHER = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, 0.5]])


def plain_log_evidence(weights: Any, other: Any) -> Any:
    return np.log(np.einsum("abc,bd,c->", weights, other, np.array([0.5, 2.0])))


def test_numpy_stays_numpy(f):
    for factor in (f, f.sum("a"), f(a=1), f / f.sum("a"), f + f, f**2.0):
        assert all(type(leaf) in (np.ndarray, float) for leaf in factor.leaves())
        assert next(iter(factor.leaves())).dtype == np.float64


def test_jax_stays_jax_and_is_merged_where_it_is_known():
    step = Diagram(jnp.asarray(STEP), ("a", "b", "c"))
    assert (step.node_count, step.terminal_count) == (3, 4)
    for factor in (step, step.sum("a"), step(a=1), step + step, step.normalize("b")):
        assert all(isinstance(leaf, jax.Array) for leaf in factor.leaves())
    np.testing.assert_allclose(cells(step.sum("b"), "a", "c"), STEP.sum(1), rtol=1e-6)


def test_under_jit():
    """The nodes of a diagram that goes in are used; a table in a trace has a terminal for each cell."""
    traced = []

    @jax.jit
    def run(f: Diagram, g: Diagram) -> tuple[Diagram, fb.Factor, Any]:
        traced.append((f.node_count, f.terminal_count))
        return f, (f * g).sum("a", "c"), Diagram(jnp.exp(g.terminals.weights), ("t",)).terminal_count

    for weights in (STEP, 7.0 - STEP):  # other numbers in the same places
        f, g = Diagram(jnp.asarray(weights), ("a", "b", "c")), Diagram(jnp.asarray(OTHER), ("b", "d"))
        back, found, count = run(f, g)
        assert (back.nodes, int(count)) == (f.nodes, g.terminal_count)
        np.testing.assert_allclose(cells(found, "b", "d"), weights.sum((0, 2))[:, None] * OTHER, rtol=1e-5)
    assert traced == [(3, 4)]


def test_the_pattern_of_equal_numbers_decides_the_nodes():
    first = Diagram([[1.0, 2.0], [2.0, 3.0]], ("a", "b"))
    assert Diagram([[9.0, 0.5], [0.5, 4.0]], ("a", "b")).nodes == first.nodes
    assert Diagram([[9.0, 0.5], [0.5, 9.0]], ("a", "b")).nodes != first.nodes


def test_under_vmap():
    scales = np.array([1.0, 2.0, 0.5])
    batch = fb.name_axis(jax.vmap(lambda s: Diagram(s * STEP, ("a", "b", "c")))(jnp.asarray(scales)), "i")
    assert batch.inputs == {"i": fb.Bint[3], "a": fb.Bint[3], "b": fb.Bint[2], "c": fb.Bint[2]}
    expected = scales[:, None] * STEP.sum((1, 2))
    np.testing.assert_allclose(cells(batch.sum("b", "c"), "i", "a"), expected, rtol=1e-6)


def test_under_grad():
    """Also at weights that are zero, and equal: each cell has its own derivative."""
    with jax.enable_x64(True):
        value, slopes = jax.jit(jax.value_and_grad(log_evidence, (0, 1)))(jnp.asarray(STEP), jnp.asarray(OTHER))
        evidence = np.einsum("abc,bd,c->", STEP, OTHER, np.array([0.5, 2.0]))
        expected = np.broadcast_to(np.einsum("bd,c->bc", OTHER, np.array([0.5, 2.0])) / evidence, STEP.shape)
        np.testing.assert_allclose(value, plain_log_evidence(STEP, OTHER), rtol=1e-12)
        np.testing.assert_allclose(slopes[0], expected, rtol=1e-9)
        expected = np.einsum("abc,c->b", STEP, np.array([0.5, 2.0]))[:, None] / evidence
        np.testing.assert_allclose(slopes[1], np.broadcast_to(expected, OTHER.shape), rtol=1e-9)


def test_gradient_in_the_terminals_of_a_diagram():
    """The derivative in a terminal is the sum over its cells."""
    with jax.enable_x64(True):
        f = Diagram(jnp.asarray(STEP), ("a", "b", "c"))
        slope, _ = jax.grad(lambda f: f.sum("a", "b", "c").log().data)(f).terminals.leaves()
        counts = [(weight == STEP).sum() for weight in np.asarray(f.terminals.weights)]
        np.testing.assert_allclose(slope, np.array(counts) / STEP.sum(), rtol=1e-12)


def test_a_batch_under_jit_with_a_traced_index():
    f = Diagram(jnp.asarray(STEP), ("a", "b", "c"))
    found = jax.jit(lambda f, k: f(b=fb.Array(k, (), fb.Bint[2])))(f, jnp.asarray(1))
    np.testing.assert_allclose(cells(found, "a", "c"), STEP[:, 1], rtol=1e-6)


def test_nothing_underflows():
    """Weights 4,000 nats apart: evidence is exact to the constant."""
    logs = np.array([[-3000.0, -1000.0], [-1000.0, 1000.0]])
    for on in (np.asarray, jnp.asarray):
        f = Diagram.from_table(fb.Table.from_log(on(logs), ("a", "b")))
        assert float(f.sum("a", "b").log()) == pytest.approx(1000.0, rel=1e-6)
        assert float(f(b=0).sum("a").log()) == pytest.approx(-1000.0, rel=1e-6)
        assert float(multiply(f, f)(a=0, b=0).log()) == pytest.approx(-6000.0, rel=1e-6)


# -- questions ------------------------------------------------------------------------------------------------------


def test_eliminate_with_tables(f):
    found = fb.eliminate([f, fb.Table(B, ("b", "c"))], sum=("a", "b"))
    assert_is(found, Diagram, A.sum(0) @ B, "c")
    assert float(fb.eliminate([f, fb.Table(B, ("b", "c"))], sum=("a", "b", "c"))) == pytest.approx((A @ B).sum())


def test_eliminate_with_a_plate():
    """Σ_b Π_a f(a, b) g(b)"""
    found = fb.eliminate([Diagram(A, ("a", "b")), fb.Table([0.5, 2.0], ("b",))], {"b": ()}, ("a",))
    assert float(found) == pytest.approx(A.prod(0) @ [0.5, 2.0])


@pytest.mark.parametrize("on", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_marginals_with_tables(on):
    found = fb.marginals([Diagram(on(A), ("a", "b")), fb.Table(on(B), ("b", "c"))], ("a", "b", "c"))
    joint = A[:, :, None] * B / (A @ B).sum()
    for axis, name in enumerate("abc"):
        expected = joint.sum(tuple(k for k in range(3) if k != axis))
        np.testing.assert_allclose(cells(found[name], name), expected, rtol=1e-6)


@pytest.mark.parametrize("on", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_argmax_with_tables(on):
    found = fb.argmax([Diagram(on(STEP), ("a", "b", "c")), fb.Table(on(OTHER), ("b", "d"))], ("a", "b", "c", "d"))
    expected = np.einsum("abc,bd->abcd", STEP, OTHER)
    assert expected[tuple(int(found[name]) for name in "abcd")] == expected.max()


@pytest.mark.parametrize("on", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_sample_with_tables(on):
    n = 4000
    factors = [Diagram(on(STEP), ("a", "b", "c")), fb.Table(on(OTHER), ("b", "d"))]
    draws = fb.sample(KEY, factors, ("a", "b", "c", "d"), n=n)
    p = np.einsum("abc,bd->abd", STEP, OTHER)
    p /= p.sum()
    counts = np.zeros(p.shape)
    np.add.at(counts, tuple(np.asarray(draws[name]) for name in "abd"), 1)
    assert np.all(np.abs(counts - n * p) <= 5 * np.sqrt(n * p))


def test_explain(f, g):
    text = str(fb.explain([f, g], sum=("a", "b", "c")))
    assert "sum_product over 'a', 'b', 'c'" in text
    assert "exact" in text


# -- diagrams that no table could be --------------------------------------------------------------------------------


def monotone(count: int) -> Diagram:
    """1 where x0 ≤ x1 ≤ …, of bits."""
    names = [f"x{k:02}" for k in range(count)]
    steps = [Diagram([[1.0, 1.0], [0.0, 1.0]], pair) for pair in pairwise(names)]
    return reduce(multiply, steps)  # type: ignore[arg-type, return-value]


def test_sixty_bits_in_one_diagram():
    f = monotone(60)
    assert (f.node_count, f.terminal_count) == (1 + 2 * 58 + 1, 2)  # whether the bit before was 1
    assert float(f.sum(*f.inputs)) == 61.0
    np.testing.assert_allclose(f.sum(*(name for name in f.names if name != "x29")).weights, [31.0, 30.0])
    assert f.max(*f.inputs).weights == 1.0
    draws = interpret(fb.heads.DRAW, source_of(KEY, 2000, "numpy"), f, f.names)
    bits = np.stack([draws[name].array for name in f.names])
    assert np.all(np.diff(bits, axis=0) >= 0)
    counts = np.bincount(bits.sum(0), minlength=61)
    assert np.all(np.abs(counts - 2000 / 61) <= 5 * np.sqrt(2000 / 61))


def test_a_table_of_it_is_refused():
    with pytest.raises(MemoryLimit, match="cells of Diagram"):
        monotone(60).log()


# -- errors ---------------------------------------------------------------------------------------------------------


def test_a_positive_number_over_zero_names_the_cell(f):
    step = Diagram(STEP, ("a", "b", "c"))
    with pytest.raises(DataError, match=r"a positive number over zero, at a=1, b=1, c=0"):
        Diagram(np.ones((3, 2)), ("a", "b")) / step
    with pytest.raises(DataError, match=r"a positive number over zero"):
        1.0 / f
    assert_is(step / step, Diagram, STEP > 0, "a", "b", "c")


def test_division_by_zero_is_nan_in_a_trace():
    ratio = jax.jit(lambda f, g: f / g)(Diagram(jnp.ones(2), ("a",)), Diagram(jnp.asarray([0.0, 2.0]), ("a",)))
    np.testing.assert_array_equal(np.asarray(ratio.weights), [np.nan, 0.5])


def test_normalising_nothing():
    with pytest.raises(DataError, match="zero everywhere"):
        Diagram([[0.0, 0.0], [1.0, 2.0]], ("a", "b")).normalize("b")


def test_choosing_from_nothing():
    zero = Diagram(np.zeros((2, 2)), ("a", "b"))
    with pytest.raises(DataError, match="from a factor that is zero everywhere"):
        zero.argmax("a", "b")
    with pytest.raises(DataError, match="from a factor that is zero everywhere"):
        zero.sample(KEY, "a", "b", n=3)
    found = jax.jit(lambda w: Diagram(w, ("a", "b")).argmax("a"))(jnp.asarray([[0.0, 1.0], [0.0, 2.0]]))
    np.testing.assert_array_equal(found["a"], [-1, 1])


def test_a_negative_power_of_zero(f):
    with pytest.raises(DataError, match=r"a negative power of Diagram\(a: Bint\[3\], b: Bint\[2\]"):
        f**-1.0


def test_an_index_out_of_range(f):
    with pytest.raises(DataError, match="an index out of range for 'a'"):
        f(a=3)
    found = jax.jit(lambda f, k: f(a=fb.Array(k, (), fb.Bint[3])))(f, jnp.asarray(5))
    assert np.all(np.isnan(np.asarray(found.weights)))


def test_bad_data():
    with pytest.raises(DataError, match="bad weight"):
        Diagram([-1.0, 2.0], ("a",))
    with pytest.raises(NameClash, match="levels 'a', 'a'"):
        Diagram(A, ("a", "b"), order=("a", "a"))
    with pytest.raises(UnknownName, match="'z'"):
        Diagram(A, ("a", "b")).sum("z")


# -- networks -------------------------------------------------------------------------------------------------------


def network(data: Any, name: str) -> list[fb.Factor]:
    return list(fb.io.read_bif(data / "bayes_nets" / "discrete" / f"{name}.bif.gz").observed_factors)


@pytest.mark.parametrize("name", ["asia", "child", "alarm"])
def test_marginals_of_a_network_are_those_of_tables(data, name):
    tables = network(data, name)
    names = list(dict.fromkeys(variable for table in tables for variable in table.inputs))
    expected = fb.marginals(tables, names)
    found = fb.marginals([Diagram.from_table(table, order=names) for table in tables], names)
    for variable in names:
        assert type(found[variable]) is Diagram
        np.testing.assert_allclose(found[variable].weights, expected[variable].weights, rtol=0, atol=1e-9)


# Nodes and terminals of all conditional probability tables, and the cells of these; child first, or parents first.
COUNTS = {
    "link": (20_502, (4_543, 3_679), 1_292),
    "mildew": (547_158, (6_540, 11_705), 16_275),
}


@pytest.mark.parametrize("name", COUNTS)
def test_nodes_and_terminals_of_conditional_probability_tables(data, name):
    tables = network(data, name)
    orders = [[table.names for table in tables], [table.names[::-1] for table in tables]]
    made = [list(map(Diagram.from_table, tables, order)) for order in orders]
    nodes = tuple(sum(diagram.node_count for diagram in diagrams) for diagrams in made)
    terminals = sum(diagram.terminal_count for diagram in made[0])
    assert (sum(table.weights.size for table in tables), nodes, terminals) == COUNTS[name]
    for diagram, table in zip(made[1], tables, strict=True):
        np.testing.assert_array_equal(diagram.weights, table.transposed(diagram.names).weights)
