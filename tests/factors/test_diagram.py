"""Diagrams: the data, each rule against enumeration, errors."""

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.errors import DataError, NameClash, UnknownName
from fubini.factors.diagram import Diagram
from fubini.factors.promotion import to_kind
from fubini.numerics.randomness import source_of
from fubini.terms.exactness import estimated
from fubini.terms.factor import Weight

from .diagrams import KEY, STEP, A, B, assert_is, cells, multiply


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
    """The promotion, also where a pair has no rule of its own."""
    assert_is(to_kind(f, fb.Table), fb.Table, A, "a", "b")
    found = interpret(fb.heads.NORMALIZE, fb.Table(A, ("a", "b")), Diagram(B[0], ("b",)))
    assert_is(found, fb.Table, A / B[0], "a", "b")


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
    found = interpret(fb.heads.CHOOSE, Diagram(STEP, ("a", "b", "c")), ("b", "a", "c"))
    assert {name: int(value.array) for name, value in found.items()} == {"a": 1, "b": 0, "c": 0}
    given_b = interpret(fb.heads.CHOOSE, Diagram(A, ("a", "b")), ("a",))["a"]
    assert given_b.inputs == {"b": fb.Bint[2]}
    np.testing.assert_array_equal(given_b.data, [0, 2])


def test_argmax_diagram():
    assert Diagram(STEP, ("a", "b", "c")).argmax("a", "b", "c") == {"a": 1, "b": 0, "c": 0}
    np.testing.assert_array_equal(Diagram(A, ("a", "b")).argmax("a")["a"], [0, 2])
    np.testing.assert_array_equal(Diagram(A, ("a", "b")).argmax("b")["b"], [1, 0, 1])
    np.testing.assert_array_equal(Diagram(A, ("a", "b")).with_batch(("a",)).argmax("b")["b"], [1, 0, 1])


@pytest.mark.parametrize("on", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_sample_diagram(on):
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


def test_draw_diagram():
    """Beside another name there is a draw for each sample and each of its values."""
    drawn = interpret(fb.heads.DRAW, source_of(KEY, 4000, "numpy"), Diagram(A, ("a", "b")), ("a",))["a"]
    assert drawn.array.shape == (4000, 2)
    shares = np.stack([np.bincount(drawn.array[:, b], minlength=3) / 4000 for b in range(2)], axis=1)
    p = A / A.sum(0)
    assert np.all(np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / 4000))


def test_a_sample_without_an_axis(f):
    assert {name: np.shape(value) for name, value in f.sample(KEY, "a").items()} == {"a": (2,)}
    with pytest.raises(DataError, match="n=0 samples"):
        f.sample(KEY, "a", n=0)
    with pytest.raises(DataError, match="a JAX random key"):
        f.sample(0, "a")


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
