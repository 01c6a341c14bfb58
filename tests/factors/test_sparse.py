"""Sparse factors: each rule against the same rule of Tables, on both engines, with its type and exactness."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.errors import DataError, DomainError, MemoryLimit
from fubini.factors.sparse import Sparse
from fubini.numerics.randomness import Randomness
from fubini.terms.exactness import projected
from fubini.terms.heads import CHOOSE, DRAW, EXCLUDE, JOIN, MULTIPLY

# Koller and Friedman, figure 4.3.
A = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
B = np.array([[0.5, 0.7], [0.1, 0.2]])
C = np.array([[0.0, 2.0, 0.5], [1.0, 0.0, 0.0]])
both = pytest.mark.parametrize("xp", [np, jnp])


def table(weights: Any, *names: str, xp: Any = np) -> fb.Table:
    return fb.Table(xp.asarray(weights), names)


def sparse(weights: Any, *names: str, xp: Any = np, capacity: int | None = None) -> Sparse:
    return Sparse.from_table(table(weights, *names, xp=xp), capacity)


def spread(factor: fb.Factor, order: tuple) -> np.ndarray:
    logs = factor.log()
    for name in reversed(order):
        logs = fb.stack(logs, name)
    return np.exp(np.asarray(logs.data, np.float64))


def assert_sparse(factor: fb.Factor, expected: Any, *order: str, kind: type = Sparse) -> None:
    """The kind, the engine's zeros, the exactness, and the numbers."""
    expected = np.asarray(expected)
    assert type(factor) is kind
    assert factor.exactness.is_exact
    assert factor.inputs == {name: fb.Bint[size] for name, size in zip(order, expected.shape, strict=True)}
    np.testing.assert_allclose(spread(factor, order), expected, rtol=2e-6, atol=1e-30)
    if isinstance(factor, Sparse):
        assert factor.stored <= factor.capacity
        if factor.is_on_numpy:
            assert factor.stored == np.count_nonzero(expected)


# -- construction ---------------------------------------------------------------------------------------------------


@both
def test_cells_in_any_order_and_twice(xp: Any) -> None:
    f = Sparse(xp.asarray([[2, 1], [0, 0], [2, 1]]), xp.asarray([0.5, 0.25, 0.125]), {"a": fb.Bint[3], "b": fb.Bint[2]})
    expected = np.zeros((3, 2))
    expected[2, 1], expected[0, 0] = 0.625, 0.25
    assert_sparse(f, expected, "a", "b")
    assert f.is_on_numpy == (xp is np)


@both
def test_from_log(xp: Any) -> None:
    f = Sparse.from_log(np.array([[3], [0], [1]]), xp.asarray([-1000.0, -1001.0, -np.inf]), {"a": fb.Bint[4]})
    assert float(f.sum("a").log()) == pytest.approx(np.logaddexp(-1000, -1001))
    np.testing.assert_allclose(np.asarray(f.log().data), [-1001, -np.inf, -np.inf, -1000])


@both
def test_from_table(xp: Any) -> None:
    """All cells on JAX, where they fit: a zero has a derivative; the others alone in fewer slots."""
    f = sparse(C, "a", "b", xp=xp)
    assert f.stored == (3 if xp is np else 6)
    assert_sparse(f, C, "a", "b")
    few = sparse(C, "a", "b", xp=xp, capacity=4)
    assert few.stored == (3 if xp is np else 4)
    assert_sparse(few, C, "a", "b")
    assert_sparse(f.with_capacity(3), C, "a", "b")


def test_many_cells() -> None:
    """2⁶⁰ cells, of which three are stored."""
    inputs = {f"x{i}": fb.Bint[2] for i in range(60)}
    cells = np.zeros((3, 60), int)
    cells[1, 59] = cells[2] = 1
    cells[1, 0] = 1
    f = Sparse(cells, [1.0, 2.0, 4.0], inputs)
    assert f.sum(*list(inputs)[1:]).weights.tolist() == [1.0, 6.0]
    assert float(f.sum(*inputs)) == 7.0
    assert float(interpret(MULTIPLY, f, f).sum(*inputs)) == 21.0
    assert interpret(CHOOSE, f, tuple(inputs))["x30"].data == 1
    with pytest.raises(MemoryLimit, match=r"as a Table of 1,152,921,504,606,846,976 cells"):
        f.to_table()


def test_printing() -> None:
    f = sparse(C, "a", "b")
    assert f"{f}" == "Sparse(a: Bint[2], b: Bint[3])"
    assert repr(f).splitlines() == [f"{f}, 3 of 6 cells", "  a=0, b=1: 2", "  a=0, b=2: 0.5", "  a=1, b=0: 1"]
    wet = fb.Bint.labelled("dry", "wet")
    assert "rain=wet: exp(-800)" in repr(Sparse.from_log([[1]], [-800.0], {"rain": wet}))
    assert repr(sparse(np.ones(20), "a")).endswith("  …")
    assert repr(sparse(C, "a", "b", xp=jnp)) == repr(f)
    shown = []
    jax.eval_shape(lambda w: shown.append(repr(sparse(w, "a", "b", xp=jnp))), C)
    assert shown == ["Sparse(a: Bint[2], b: Bint[3])"]


# -- rules ----------------------------------------------------------------------------------------------------------


@both
def test_multiply_sparse(xp: Any) -> None:
    """G1: the product, and its sum over the shared name."""
    f, g = sparse(A, "A", "B", xp=xp), sparse(B, "B", "C", xp=xp)
    found = interpret(MULTIPLY, f, g)
    assert_sparse(found, A[:, :, None] * B, "A", "B", "C")
    weights = spread(found, ("A", "B", "C"))
    np.testing.assert_allclose([weights[0, 0, 0], weights[0, 1, 1], weights[2, 1, 1]], [0.25, 0.16, 0.18], rtol=1e-6)
    total = (f * g).sum("B")
    assert_sparse(total, A @ B, "A", "C")
    np.testing.assert_allclose(spread(total, ("A", "C"))[[0, 1, 2], [0, 1, 1]], [0.33, 0.07, 0.39], rtol=1e-6)


@both
def test_multiply_sparse_without_shared_names(xp: Any) -> None:
    found = interpret(MULTIPLY, sparse(C, "a", "b", xp=xp), sparse(B, "c", "d", xp=xp))
    assert_sparse(found, C[:, :, None, None] * B, "a", "b", "c", "d")


@both
def test_multiply_sparse_table(xp: Any) -> None:
    """The same keys where the table has no other names, else the join with its cells."""
    f = sparse(C, "a", "b", xp=xp)
    same = interpret(MULTIPLY, f, table([2.0, 0.0, 3.0], "b", xp=xp))
    assert_sparse(same, C * [2.0, 0.0, 3.0], "a", "b")
    assert xp is np or same.stored == f.stored
    assert_sparse(interpret(MULTIPLY, f, table(B, "a", "c")), np.einsum("ab,ac->abc", C, B), "a", "b", "c")


@both
def test_multiply_table_sparse(xp: Any) -> None:
    assert_sparse(interpret(MULTIPLY, table(3.0, xp=xp), sparse(C, "a", "b")), 3 * C, "a", "b")
    found = interpret(MULTIPLY, table(B, "c", "a", xp=xp), sparse(C, "a", "b"))
    assert_sparse(found, np.einsum("ca,ab->abc", B, C), "a", "b", "c")


def test_multiply_sparse_gaussian() -> None:
    g = fb.Gaussian(mean=np.array([[0.5], [1.0]]), precision=[[2.0]], inputs={"a": fb.Bint[2], "x": fb.Real})
    w = np.array([0.0, 0.25])
    for found in (interpret(MULTIPLY, sparse(w, "a"), g), interpret(MULTIPLY, g, sparse(w, "a"))):
        assert isinstance(found, fb.Gaussian)
    dense, thin = ((f * g).sum("a", "x") for f in (table(w, "a"), sparse(w, "a")))
    assert float(thin) == pytest.approx(float(dense))


@both
def test_divide_sparse(xp: Any) -> None:
    """G2: a column of zeros over its sum is zero there; a positive number over zero is an error."""
    weights = np.array([[1.0, 0.0, 3.0], [2.0, 0.0, 0.0]])
    f = sparse(weights, "a", "b", xp=xp)
    total = f.sum("a")
    expected = np.divide(weights, weights.sum(0), where=weights > 0, out=np.zeros((2, 3)))
    assert_sparse(f / total, expected, "a", "b")
    assert_sparse(f / total.to_table(), expected, "a", "b")
    assert_sparse(interpret(MULTIPLY, f / total, total), weights, "a", "b")
    with pytest.raises(DataError, match=r"a positive number over zero, at a=0, b=0"):
        f / sparse([0.0, 1.0, 1.0], "b", xp=xp)
    with pytest.raises(DataError, match=r"a positive number over zero, at a=0, b=0"):
        f / table([0.0, 1.0, 1.0], "b", xp=xp)


@both
def test_divide_sparse_by_a_factor_of_other_names(xp: Any) -> None:
    f, g = sparse(C, "a", "b", xp=xp), sparse([[2.0, 4.0], [0.5, 1.0]], "a", "c", xp=xp)
    assert_sparse(f / g, C[:, :, None] / np.array([[2.0, 4.0], [0.5, 1.0]])[:, None], "a", "b", "c")
    with pytest.raises(DataError, match="over zero, at a=0, b=1, c=0"):
        f / sparse([[0.0, 4.0], [0.5, 1.0]], "a", "c", xp=xp)


@both
def test_divide_table_sparse(xp: Any) -> None:
    assert_sparse(table(C, "a", "b", xp=xp) / sparse(C, "a", "b", xp=xp), C > 0, "a", "b")


@both
def test_normalize_sparse(xp: Any) -> None:
    f = sparse(C, "a", "b", xp=xp)
    assert_sparse(f.normalize(), C / C.sum(), "a", "b")
    assert_sparse(f.normalize("b"), C / C.sum(1, keepdims=True), "a", "b")
    with pytest.raises(DataError, match=r"normalising .* zero everywhere"):
        sparse([[0.0, 0.0], [0.0, 1.0]], "a", "b", xp=xp).normalize("b")
    with pytest.raises(DataError, match=r"normalising .* zero everywhere"):
        sparse([0.0, 0.0], "a", xp=xp).normalize()


@both
def test_add_sparse(xp: Any) -> None:
    """The union of the keys; names that one lacks are all values of it."""
    f = sparse(C, "a", "b", xp=xp)
    assert_sparse(f + sparse(C.T, "b", "a", xp=xp), 2 * C, "a", "b")
    assert_sparse(f + sparse([0.0, 3.0], "c", xp=xp), C[:, :, None] + np.array([0.0, 3.0]), "a", "b", "c")


@both
def test_add_sparse_table(xp: Any) -> None:
    f = sparse(C, "a", "b", xp=xp)
    assert_sparse(f + table([1.0, 0.0, 0.0], "b", xp=xp), C + np.array([1.0, 0.0, 0.0]), "a", "b")
    assert_sparse(1.0 + f, C + 1.0, "a", "b")


@both
def test_sum_sparse(xp: Any) -> None:
    f = sparse(C, "a", "b", xp=xp)
    assert_sparse(f.sum("a"), C.sum(0), "b")
    assert_sparse(f.sum("b"), C.sum(1), "a")
    assert_sparse(f.max("a"), C.max(0), "b")
    assert_sparse(f.sum("a", "b"), C.sum(), kind=fb.Table)
    assert_sparse(f.reduce(fb.counting, "b"), (C > 0).sum(1), "a")
    assert_sparse(f.reduce(fb.boolean, "b"), (C > 0).any(1).astype(float), "a")


@both
def test_sum_sparse_as_table(xp: Any) -> None:
    assert_sparse(sparse(C, "a", "b", xp=xp).reduce(fb.min_sum, "b"), C.max(1), "a", kind=fb.Table)


@both
def test_contract_sparse(xp: Any) -> None:
    """Names of one factor alone are summed before the join."""
    f, g = sparse(A, "A", "B", xp=xp), table(B, "B", "C", xp=xp)
    for pair in ((f, g), (g, f), (f, Sparse.from_table(g))):
        found = interpret(fb.heads.CONTRACT, fb.sum_product, *pair, frozenset("B"))
        assert_sparse(found, A.sum(0) * B.sum(1), "B")


@both
def test_substitute_sparse(xp: Any) -> None:
    f, rows = sparse(C, "a", "b", xp=xp), np.array([[1, 0], [0, 0], [1, 1]])
    assert_sparse(f(a=0), C[0], "b")
    assert_sparse(f(b=2, a=0), 0.5, kind=fb.Table)
    assert_sparse(f(b=2, a=1), 0.0, kind=fb.Table)
    at = fb.Array(xp.asarray(rows), ("i", "j"), fb.Bint[2])
    assert_sparse(f(a=at), C[rows], "i", "j", "b")
    assert_sparse(f(a=at(i="b")), C[rows.T, np.arange(3)], "j", "b")
    assert_sparse(f(b=slice(1, 3)), C[:, 1:3], "a", "b")
    assert_sparse(f(a="b", b="a"), C.T, "a", "b")
    one = fb.Variable("c", fb.Bint[2])
    assert_sparse(sparse(B, "a", "b", xp=xp)(a=one, b=one), np.diag(B), "c")


@both
def test_power_sparse(xp: Any) -> None:
    f = sparse(C, "a", "b", xp=xp)
    assert_sparse(f**2.0, C**2, "a", "b")
    assert_sparse(f ** fb.Array(xp.asarray([1.0, 3.0]), ("a",)), C ** np.array([[1.0], [3.0]]), "a", "b")
    assert_sparse(f ** fb.Array(xp.asarray([1.0, 3.0]), ("c",)), C[:, :, None] ** [1.0, 3.0], "a", "b", "c")
    assert_sparse(f**0.0, np.ones((2, 3)), "a", "b", kind=fb.Table)
    with pytest.raises(DataError, match="a negative power"):
        f**-1.0


@both
def test_multiply_out_sparse(xp: Any) -> None:
    f = sparse(A, "A", "B", xp=xp)
    assert_sparse(f.product("B"), A.prod(1), "A")
    assert_sparse(f.product("A"), A.prod(0), "B")
    assert_sparse(f.product("A", "B"), 0.0, kind=fb.Table)


@both
def test_exclude_sparse(xp: Any) -> None:
    weights = np.array([[0.5, 0.8, 2.0], [0.1, 0.0, 3.0], [0.0, 0.0, 1.0]])
    found = interpret(EXCLUDE, fb.sum_product, sparse(weights, "x", "i", xp=xp), ("i",))
    expected = np.stack([np.delete(weights, i, 1).prod(1) for i in range(3)], 1)
    assert_sparse(found, expected, "x", "i")
    alone = interpret(EXCLUDE, fb.sum_product, sparse(weights[:, :1], "x", "i", xp=xp), ("i",))
    np.testing.assert_allclose(spread(alone, ("x", "i")), 1.0)


@both
def test_choose_sparse(xp: Any) -> None:
    """The first of equals, as of a table; an error where nothing has mass."""
    weights = np.array([[[0.0, 2.0], [2.0, 0.5]], [[0.0, 0.0], [0.0, 3.0]]])
    f, dense = sparse(weights, "a", "b", "c", xp=xp), table(weights, "a", "b", "c")
    for names in (("a", "b", "c"), ("c", "b"), ("b", "c"), ("b", "a")):
        found, expected = (interpret(CHOOSE, factor, names) for factor in (f, dense))
        for name in names:
            assert found[name].names == expected[name].names
            np.testing.assert_array_equal(found[name].data, expected[name].data)
    with pytest.raises(DataError, match="zero everywhere"):
        interpret(CHOOSE, f, ("b",))


@both
def test_draw_sparse(xp: Any) -> None:
    """The same draws as those of a table, with the same random numbers, for each cell of the other names."""
    weights = np.random.default_rng(0).uniform(size=(3, 4, 2)) * np.array([1.0, 0.0, 2.0, 0.5])[:, None]
    f, dense = sparse(weights, "a", "b", "c", xp=xp), table(weights, "a", "b", "c", xp=xp)
    for names in (("a", "b", "c"), ("b",), ("c", "b")):
        draws = [interpret(DRAW, Randomness(jax.random.key(1), 50, xp), g, names) for g in (f, dense)]
        for name in names:
            assert draws[0][name].names == draws[1][name].names
            np.testing.assert_array_equal(draws[0][name].data, draws[1][name].data)
    with pytest.raises(DataError, match="zero everywhere"):
        interpret(DRAW, Randomness(jax.random.key(1), 5, xp), f, ("a",))


@both
def test_expect_sparse(xp: Any) -> None:
    b = fb.Variable("b", fb.Bint[3])
    found = fb.expectation(sparse(C, "a", "b", xp=xp), b * b, "a", "b")
    assert float(found) == pytest.approx((C.sum(0) @ [0, 1, 4]) / C.sum(), rel=1e-6)


@both
def test_questions(xp: Any) -> None:
    """Moments, entropy, Kullback-Leibler divergence and mutual information, as those of a table."""
    f, g = sparse(C, "a", "b", xp=xp), sparse(C.T + 0.5, "b", "a", xp=xp)
    dense, other = table(C, "a", "b"), table(C.T + 0.5, "b", "a")
    for ask in (
        lambda p, q: p.sum("a").mean("b"),
        lambda p, q: p.sum("a").variance("b"),
        lambda p, q: p.entropy("a", "b"),
        lambda p, q: p.kl(q, "a", "b"),
        lambda p, q: p.mutual_information("a", "b"),
    ):
        assert float(ask(f, g)) == pytest.approx(float(ask(dense, other)), rel=1e-5)
    assert float(g.kl(f, "a", "b")) == math.inf


def test_marks_are_kept() -> None:
    f, g = sparse(C, "a", "b")._marked(projected("toy")), sparse(C, "a", "b")
    for found in (f.sum("a"), f + g, f / g, f**2.0, f(a=0), f.product("a"), interpret(MULTIPLY, f, g), f.to_table()):
        assert found.exactness == projected("toy")


# -- weights that no float holds ------------------------------------------------------------------------------------


@both
def test_shifts_are_never_lost(xp: Any) -> None:
    """Products and sums of weights that differ by thousands of nats, exact to the constant."""
    logs = np.array([[-1000.0, 0.0, -np.inf], [-2000.0, -np.inf, 500.0]])
    f = Sparse.from_table(fb.Table.from_log(xp.asarray(logs), ("a", "b")))
    assert float((f * f * f).sum("a", "b").log()) == pytest.approx(1500.0)
    np.testing.assert_allclose(np.asarray(f.sum("a").log().data), [-1000.0, 0.0, 500.0], rtol=1e-6)
    np.testing.assert_allclose(np.asarray((f / f.sum("a")).log().data)[1], [-1000.0, -np.inf, 0.0], rtol=1e-6)
    np.testing.assert_allclose(np.asarray((f + f).log().data), logs + np.log(2), rtol=1e-5)
    assert float((f**3.0)(a=1, b=0).log()) == pytest.approx(-6000.0)
    assert f.argmax("a", "b") == {"a": 1, "b": 2}


def test_numpy_meets_jax() -> None:
    """A sparse factor of NumPy whose weights single precision does not hold, times a table of JAX."""
    f = Sparse.from_table(fb.Table([1e-80, 1e-82, 0.0], ("a",)))
    found = fb.eliminate([f, fb.Table(jnp.array([1.0, 2.0, 3.0]), ("a",))], ("a",))
    assert float(found.log()) == pytest.approx(np.log(1.02e-80), rel=1e-6)


# -- capacity, and other errors -------------------------------------------------------------------------------------


@both
def test_overflow_names_the_capacity_needed(xp: Any) -> None:
    f, g = sparse(A, "A", "B", xp=xp, capacity=6), sparse(B, "C", "D", xp=xp, capacity=4)
    stored = 20 if xp is np else 24
    with pytest.raises(MemoryLimit, match=f"the capacity needed is {stored}\n"):
        interpret(MULTIPLY, f, g)
    assert interpret(MULTIPLY, f.with_capacity(stored), g).stored == stored
    with pytest.raises(MemoryLimit, match=r"with_capacity\(5\)"):
        sparse(A, "A", "B", xp=xp, capacity=4)
    with pytest.raises(MemoryLimit, match="the capacity needed is 3"):
        Sparse(np.arange(3)[:, None], xp.ones(3), {"a": fb.Bint[4]}, capacity=2)
    with pytest.raises(MemoryLimit, match="the capacity needed is"):
        sparse(np.eye(3), "a", "b", xp=xp, capacity=3) + sparse(np.eye(3)[::-1], "a", "b", xp=xp, capacity=3)
    with pytest.raises(MemoryLimit, match="the capacity needed is 9"):
        sparse(np.eye(3), "a", "b", xp=xp, capacity=3)(b=fb.Array(np.zeros(9, int), ("j",), fb.Bint[3]))


@both
def test_overflow_inside_a_plan(xp: Any) -> None:
    """A compiled plan marks it, and the error is that of the step."""
    f, g = sparse(A, "A", "B", xp=xp, capacity=6), sparse(B, "C", "D", xp=xp, capacity=4)
    with pytest.raises(MemoryLimit, match="the capacity needed is"):
        fb.eliminate([f, g, table(np.ones((3, 4)), "A", "E", xp=xp)], ("A",))


def test_overflow_under_tracing_is_nan() -> None:
    """In every cell, also in those that are not stored, and in derivatives."""

    def total(weights: Any, capacity: int) -> Any:
        f = Sparse.from_table(fb.Table(weights, ("a",)), capacity)
        return f.sum("a").log().data, f.log().data

    weights = jnp.array([0.5, 0.0, 0.25])
    run = jax.jit(total, static_argnums=1)
    np.testing.assert_allclose(run(weights, 2)[0], np.log(0.75), rtol=1e-6)
    assert all(np.isnan(part).all() for part in run(weights, 1))
    assert np.isnan(jax.jit(jax.grad(lambda w: total(w, 1)[0]))(weights)).all()
    with pytest.raises(DataError, match="in a Sparse of capacity 1"):
        fb.checked(jax.jit(lambda w: total(w, 1)[0]))(weights)


def test_data_errors_under_tracing_are_nan() -> None:
    inputs = {"a": fb.Bint[3]}
    cells, weights = jnp.array([[0], [2]]), jnp.array([1.0, 2.0])
    make = jax.jit(lambda cells, weights: Sparse(cells, weights, inputs).log().data)
    np.testing.assert_allclose(make(cells, weights), [0.0, -np.inf, np.log(2)], rtol=1e-6)
    assert np.isnan(make(cells, -weights)).all()
    assert np.isnan(make(cells + 1, weights)).all()
    f = Sparse(cells, weights, inputs)
    at = jax.jit(lambda k: f(a=k).log().data)
    assert float(at(2)) == pytest.approx(np.log(2)) and np.isnan(at(3))
    over = jax.jit(lambda w: (f / fb.Table(w, ("a",))).log().data)
    np.testing.assert_allclose(over(jnp.array([2.0, 0.0, 2.0])), [-np.log(2), -np.inf, 0.0], rtol=1e-6)
    assert np.isnan(over(jnp.array([0.0, 1.0, 2.0]))).all()
    power = jax.jit(lambda a: (f**a).log().data)
    assert np.isnan(power(-1.0)).all() and not np.isnan(power(2.0)).any()
    product = jax.jit(lambda w: interpret(MULTIPLY, f, fb.Table(w, ("a",))).log().data)
    assert np.isnan(product(jnp.array([1.0, -1.0, 1.0]))).all()
    norm = jax.jit(lambda w: Sparse(cells, w, inputs).normalize().log().data)
    assert np.isnan(norm(jnp.zeros(2))).all()
    choose = jax.jit(lambda w: Sparse(cells, w, inputs).argmax("a")["a"])
    assert int(choose(weights)) == 2 and int(choose(jnp.zeros(2))) == -1


def test_keys_that_32_bits_do_not_hold() -> None:
    """JAX in single precision refuses them; in double precision, and on NumPy, they are exact."""
    inputs = {"a": fb.Bint[70_000], "b": fb.Bint[70_000]}
    cells, weights = np.array([[69_999, 69_999], [69_999, 3]]), np.array([0.5, 0.25])
    with pytest.raises(MemoryLimit, match=r"at most 2,147,483,647 cells, which integers of 32 bits of JAX number"):
        Sparse(cells, jnp.asarray(weights), inputs)
    f = Sparse(cells, weights, inputs)
    assert f(b=3)(a=69_999).weights == 0.25
    with pytest.raises(MemoryLimit, match="enable double precision"):
        fb.eliminate([f, fb.Table(jnp.ones(70_000), ("a",))], ("a",))
    assert float(fb.eliminate([f, fb.Table(jnp.array(2.0))], ("a",))(b=3)) == pytest.approx(0.5, rel=1e-6)
    with jax.enable_x64(True):
        found = Sparse(cells, jnp.asarray(weights), inputs).sum("a")
        assert float(found(b=3)) == 0.25 and float(found(b=4)) == 0.0
    with pytest.raises(MemoryLimit, match="64 bits"):
        Sparse(np.zeros((1, 5), int), [1.0], {name: fb.Bint[70_000] for name in "abcde"})


@pytest.mark.parametrize(
    ("cells", "weights", "inputs", "message"),
    [
        ([[0]], [-1.0], {"a": fb.Bint[2]}, r"a bad weight \(got -1.0\)"),
        ([[0]], [np.inf], {"a": fb.Bint[2]}, "a bad weight"),
        ([[0], [2]], [1.0, 1.0], {"a": fb.Bint[2]}, r"a cell \[2\] outside its domains\n  expected: a from 0 to 1"),
        ([[-1]], [1.0], {"a": fb.Bint[2]}, "outside its domains"),
        ([[0, 1]], [1.0], {"a": fb.Bint[2]}, r"cells of shape \(1, 2\)"),
        ([[0.5]], [1.0], {"a": fb.Bint[2]}, "dtype float64"),
        ([[0]], [1.0], {"a": fb.Real}, "a bounded integer for each name"),
        ([[0]], [1.0], ("a",), "a bounded integer for each name"),
    ],
)
def test_bad_input(cells: Any, weights: Any, inputs: Any, message: str) -> None:
    with pytest.raises((DataError, DomainError), match=message):
        Sparse(cells, weights, inputs)


def test_bad_capacity_and_log_weights() -> None:
    with pytest.raises(DataError, match="a whole number of at least 1"):
        sparse(C, "a", "b", capacity=0)
    with pytest.raises(DataError, match="a bad log-weight"):
        Sparse.from_log([[0]], [np.nan], {"a": fb.Bint[2]})
    with pytest.raises(DataError, match="an index out of range for 'a'"):
        sparse(C, "a", "b")(a=fb.Array(np.array([5]), ("j",)))


# -- laws -----------------------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0])
SIZE = {"a": 2, "b": 3, "c": 2, "d": 2}


@st.composite
def factors(draw: Any, positive: bool = False) -> fb.Factor:
    """A sparse factor over one to three names, or a table one time in four."""
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    count = math.prod(SIZE[name] for name in names)
    numbers = draw(st.lists(NUMBERS.filter(bool) if positive else NUMBERS, min_size=count, max_size=count))
    made = table(np.reshape(numbers, [SIZE[name] for name in names]), *names)
    return made if draw(st.integers(0, 3)) == 0 else Sparse.from_table(made)


def over_all(factor: fb.Factor) -> np.ndarray:
    """The weights over all four names."""
    whole = factor * fb.Table(np.ones((2, 3, 2, 2)), tuple("abcd"))
    return spread(whole, tuple("abcd"))


def times(f: fb.Factor, g: fb.Factor) -> fb.Factor:
    return interpret(MULTIPLY, f, g)


def assert_same(f: fb.Factor, g: fb.Factor) -> None:
    np.testing.assert_allclose(over_all(f), over_all(g), rtol=1e-12, atol=0)


@given(factors(), factors(), factors())
def test_products_commute_and_associate(f: fb.Factor, g: fb.Factor, h: fb.Factor) -> None:
    assert_same(times(f, g), times(g, f))
    assert_same(times(times(f, g), h), times(f, times(g, h)))
    np.testing.assert_allclose(over_all(times(f, g)), over_all(f) * over_all(g), rtol=1e-12)
    np.testing.assert_allclose(over_all(f + g), over_all(f) + over_all(g), rtol=1e-12)
    assert_same(times(f, g + h), times(f, g) + times(f, h))


@given(factors(), factors(), st.permutations("abcd"))
def test_sums_in_any_order(f: fb.Factor, g: fb.Factor, order: list) -> None:
    both_of = times(f, g)
    names = [name for name in order if name in both_of.inputs]
    one_by_one: fb.Factor = both_of
    for name in names:
        one_by_one = one_by_one.sum(name)
    assert float(one_by_one) == pytest.approx(float(both_of.sum(*names)))
    assert float(fb.eliminate([f, g], names)) == pytest.approx(float(one_by_one))


@given(factors(), factors())
def test_a_sum_passes_a_factor_without_its_variable(f: fb.Factor, g: fb.Factor) -> None:
    for name in g.inputs:
        if name not in f.inputs:
            assert_same(times(f, g).sum(name), times(f, g.sum(name)))


@given(factors(), factors(positive=True))
def test_a_quotient_times_its_divisor(p: fb.Factor, q: fb.Factor) -> None:
    assert_same(times(p / q, q), times(p, q**0.0))


@given(factors(), factors(), st.integers(0, 1))
def test_substitution_commutes_with_products_and_sums(f: fb.Factor, g: fb.Factor, value: int) -> None:
    for name in f.inputs:
        at = {name: value}
        in_g = {key: v for key, v in at.items() if key in g.inputs}
        assert_same(times(f, g)(at), times(f(at), g(in_g) if in_g else g))
        assert_same((f + g)(at), f(at) + (g(in_g) if in_g else g))
        for other in f.inputs:
            if other != name:
                assert_same(f.sum(other)(at), f(at).sum(other))


# -- jit, vmap, grad ------------------------------------------------------------------------------------------------

INPUTS = {"a": fb.Bint[4], "b": fb.Bint[5]}
CELLS = np.array([[0, 1], [1, 4], [1, 1], [3, 0], [3, 1]])
WEIGHTS = np.array([0.5, 0.25, 2.0, 0.125, 0.0])


def log_evidence(weights: Any) -> Any:
    f = Sparse(CELLS, weights, INPUTS)
    g = fb.Table(np.linspace(0.5, 1.5, 15).reshape(5, 3), ("b", "c"))
    h = Sparse.from_table(fb.Table(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.5]]), ("d", "c")))
    return fb.eliminate([f, g, h, f.sum("b") ** 0.5], ("a", "b", "c", "d")).log().data


def test_under_jit_and_traced_once() -> None:
    traced = []

    @jax.jit
    def run(f: Sparse) -> tuple[Sparse, fb.Factor]:
        traced.append(f)
        return f, (f * fb.Table(np.ones(5), ("b",))).sum("a")

    for scale in (1.0, 2.0):
        back, total = run(Sparse(CELLS, jnp.asarray(scale * WEIGHTS), INPUTS))
        assert type(back) is Sparse and back.inputs == INPUTS and back.capacity == 2**20
        np.testing.assert_allclose(spread(total, ("b",)), scale * np.array([0.125, 2.5, 0, 0, 0.25]), rtol=1e-6)
    assert len(traced) == 1


def test_under_vmap() -> None:
    scales = jnp.array([1.0, 2.0, 0.5])
    batch = fb.name_axis(jax.vmap(lambda s: Sparse(CELLS, s * WEIGHTS, INPUTS))(scales), "i")
    assert batch.inputs == {"i": fb.Bint[3], **INPUTS}
    dense = np.zeros((4, 5))
    dense[tuple(CELLS.T)] = WEIGHTS
    assert_sparse(batch, np.asarray(scales)[:, None, None] * dense, "i", "a", "b")
    unnamed = jax.vmap(lambda s: Sparse(CELLS, s * WEIGHTS, INPUTS))(scales)
    with pytest.raises(DomainError, match=r"fb\.name_axis"):
        unnamed.sum("a")
    np.testing.assert_allclose(
        jax.vmap(lambda s: log_evidence(s * WEIGHTS))(scales),
        [log_evidence(float(s) * WEIGHTS) for s in scales],
        rtol=1e-5,
    )


def test_under_grad() -> None:
    """Also with respect to a weight that is stored and zero, in the sum and in the maximum."""
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(log_evidence))(jnp.asarray(WEIGHTS))
    steps = 1e-6 * np.eye(5)
    expected = [(log_evidence(WEIGHTS + step) - log_evidence(np.abs(WEIGHTS - step))) / 2e-6 for step in steps[:4]]
    expected.append((log_evidence(WEIGHTS + steps[4]) - log_evidence(WEIGHTS)) / 1e-6)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    greatest = jax.grad(lambda w: Sparse(CELLS, w, INPUTS).max("a", "b").log().data)(jnp.asarray(WEIGHTS))
    np.testing.assert_allclose(greatest, [0, 0, 0.5, 0, 0], rtol=1e-6)


def test_derivative_of_a_zero_of_a_table() -> None:
    found = jax.grad(lambda w: Sparse.from_table(fb.Table(w, ("a",))).sum("a").log().data)(jnp.array([0.0, 2.0]))
    np.testing.assert_allclose(found, [0.5, 0.5], rtol=1e-6)


# -- through plans --------------------------------------------------------------------------------------------------


def network(xp: Any) -> tuple[list[fb.Factor], list[fb.Factor]]:
    """Factors in both representations: half of the first list are sparse."""
    rng = np.random.default_rng(3)
    scopes = ("ab", "bc", "cd", "da", "e", "de")
    tables = []
    for scope in scopes:
        weights = rng.uniform(0.1, 1, [3] * len(scope)) * (rng.uniform(size=[3] * len(scope)) < 0.7)
        tables.append(table(weights, *scope, xp=xp))
    return [Sparse.from_table(f) if k % 2 == 0 else f for k, f in enumerate(tables)], tables


@both
def test_eliminate_and_marginals(xp: Any) -> None:
    mixed, tables = network(xp)
    assert float(fb.eliminate(mixed, tuple("abcde"))) == pytest.approx(
        float(fb.eliminate(tables, tuple("abcde"))), rel=1e-5
    )
    found, expected = fb.marginals(mixed, tuple("abcde")), fb.marginals(tables, tuple("abcde"))
    for name, marginal in found.items():
        assert marginal.exactness.is_exact
        np.testing.assert_allclose(marginal.weights, expected[name].weights, rtol=1e-5, atol=1e-7)
    kept = interpret(JOIN, fb.eliminate(mixed, tuple("bcd")))
    assert_sparse(kept, spread(fb.eliminate(tables, tuple("bcd")), ("a", "e")), "a", "e")


@both
def test_argmax_and_sample(xp: Any) -> None:
    mixed, tables = network(xp)
    best, expected = fb.argmax(mixed, tuple("abcde")), fb.argmax(tables, tuple("abcde"))
    assert {name: int(x) for name, x in best.items()} == {name: int(x) for name, x in expected.items()}
    draws = fb.sample(jax.random.key(0), mixed, tuple("abcde"), n=4000)
    exact = fb.marginals(tables, tuple("abcde"))
    for name, numbers in draws.items():
        shares = np.bincount(np.asarray(numbers), minlength=3) / 4000
        np.testing.assert_allclose(shares, exact[name].weights, atol=0.03)


@both
def test_plates(xp: Any) -> None:
    """Σ_x of a product over a plate, its marginals, and a plate to a power."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=(3, 4)) * (rng.uniform(size=(3, 4)) < 0.9)
    inner = rng.uniform(size=(3, 4, 2))
    dense = [table(weights, "x", "i", xp=xp), table(inner, "x", "i", "z", xp=xp), table([0.2, 0.3, 0.5], "x", xp=xp)]
    thin = [Sparse.from_table(f) for f in dense[:2]] + dense[2:]
    scopes = {"x": (), "z": ("i",)}
    for scale in (None, {"i": 2.0}):
        totals = [float(fb.eliminate(f, scopes, ("i",), scale=scale)) for f in (thin, dense)]
        assert totals[0] == pytest.approx(totals[1], rel=1e-5)
    found, expected = (fb.marginals(f, scopes, ("i",)) for f in (thin, dense))
    for name, order in (("x", ("x",)), ("z", ("z", "i"))):
        np.testing.assert_allclose(spread(found[name], order), spread(expected[name], order), rtol=1e-5, atol=1e-7)


def test_explain() -> None:
    mixed, _ = network(np)
    text = str(fb.explain(mixed, sum=tuple("abcde")))
    assert "5 steps" in text and "Σ_e #4(e) #5(d,e)" in text and "exact" in text


def test_impossible_evidence() -> None:
    f, g = sparse([1.0, 0.0], "a"), sparse([[0.0, 1.0], [1.0, 0.0]], "a", "b")
    assert fb.eliminate([f, g(b=0)], ("a",)).log().data == -np.inf
    with pytest.raises(DataError, match="zero everywhere"):
        fb.marginals([f, g(b=0)], ("a",))
    with pytest.raises(DataError, match="zero everywhere"):
        fb.argmax([f, g(b=0)], ("a",))
    with pytest.raises(DataError, match="zero everywhere"):
        fb.sample(jax.random.key(0), [f, g(b=0)], ("a",))


def test_marginals_of_a_network(data: Any) -> None:
    """Asia, with a deterministic node: all marginals as those of tables."""
    net = fb.io.read_bif(data / "bayes_nets" / "discrete" / "asia.bif.gz")
    thin = [Sparse.from_table(f) for f in net.factors]
    assert sum(f.stored for f in thin) == 32 and sum(math.prod(f.sizes) for f in thin) == 36
    found, expected = fb.marginals(thin, net.hidden), net.marginals()
    for name in net.hidden:
        np.testing.assert_allclose(found[name].weights, expected[name].weights, rtol=0, atol=1e-9)


def test_cells_of_a_network_with_many_zeros(data: Any) -> None:
    """Mildew: of 547,158 entries of its tables 37,924 are not zero."""
    net = fb.io.read_bif(data / "bayes_nets" / "discrete" / "mildew.bif.gz")
    assert sum(f.weights.size for f in net.factors) == 547_158
    assert sum(Sparse.from_table(f).stored for f in net.factors) == 37_924
