"""Tensor trains as factors: every rule against the Tables that they are trains of, eager, compiled, differentiated."""

from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.errors import DataError, DomainError, FubiniError, Intractable, NameClash, NoRule, UnknownName
from fubini.factors.train import Train, train_to_table
from fubini.factors.train_order import merge_orders
from fubini.factors.train_pieces import NegativeEntries

RNG = np.random.default_rng(5)
SIZES = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}


def table(names: Sequence[str], scale: float = 1.0) -> fb.Table:
    return fb.Table(scale * RNG.random([SIZES[name] for name in names]), tuple(names))


def train(names: Sequence[str], rank: int = 50, **options) -> tuple[Train, fb.Table]:
    """A train with its table."""
    dense = table(names)
    made = Train.from_table(dense, rank, names=tuple(names), **options)
    assert isinstance(made, Train)
    return made, dense


def entries(f: fb.Factor, names: Sequence[str]) -> np.ndarray:
    made = train_to_table(f) if isinstance(f, Train) else f._joined()
    assert isinstance(made, fb.Table) and set(made.names) == set(names)
    return np.asarray(made.transposed(tuple(names)).weights)


def assert_same(f: fb.Factor, expected: fb.Factor, kind: type = Train, exactness: str = "exact", rtol=1e-10) -> None:
    """Value, type and exactness."""
    assert type(f) is kind, f"{f!r}"
    assert str(f.exactness) == exactness
    names = tuple(expected.inputs)
    np.testing.assert_allclose(entries(f, names), entries(expected, names), rtol=rtol, atol=1e-13)


# -- construction ---------------------------------------------------------------------------------------------------


def test_cores_are_rows_values_columns() -> None:
    first, last = RNG.random((1, 2, 3)), RNG.random((3, 4, 1))
    f = Train([first, last], ("a", "b"), rank=5)
    assert (f.order, f.ranks, f.rank, f.inputs) == (("a", "b"), (3,), 5, {"a": fb.Bint[2], "b": fb.Bint[4]})
    np.testing.assert_allclose(f.weights, np.einsum("iaj,jbk->ab", first, last), rtol=1e-13)


def test_from_table_is_exact_within_the_bound() -> None:
    f, dense = train("abcd", rank=6)
    assert_same(f, dense, rtol=1e-15)
    assert f.ranks == (2, 6, 3) and f.rounding_error == 0.0


def test_from_table_is_projected_beyond_it() -> None:
    dense = table("abcd")
    f = Train.from_table(dense, rank=3)
    assert isinstance(f, Train) and f.ranks == (2, 3, 3) and str(f.exactness) == "projected(train)"
    values = np.linalg.svd(dense.weights.reshape(6, 6), compute_uv=False)
    expected = np.sqrt((values[3:] ** 2).sum() / (values**2).sum())  # one bond alone is truncated
    assert f.rounding_error == pytest.approx(expected, rel=1e-10)


def test_exactness_is_decided_from_structure() -> None:
    """A table of rank 1 whose ranks could be 6 is projected as well, with an error of nothing."""
    dense = fb.Table(np.ones((2, 3, 2, 3)), tuple("abcd"))
    f = Train.from_table(dense, rank=2)
    assert isinstance(f, Train) and str(f.exactness) == "projected(train)" and f.rounding_error < 1e-14
    np.testing.assert_allclose(f.weights, 1.0, rtol=1e-13)


def test_a_train_over_one_name_is_a_table() -> None:
    dense = table("a")
    assert Train.from_table(dense, rank=2).weights == pytest.approx(dense.weights)
    assert type(Train.from_table(dense, rank=2)) is fb.Table


def test_printed() -> None:
    f = Train.from_table(fb.Table(np.ones((2, 3)), ("a", "b")), 4)
    assert repr(f) == "Train(a: Bint[2], b: Bint[3])\n  ranks 2 of at most 4, exact"
    assert f"{f}" == "Train(a: Bint[2], b: Bint[3])"
    g = Train.from_table(fb.Table(np.eye(3), ("a", "b")), 2)
    assert repr(g).endswith("ranks 2 of at most 2, projected(train), rounding error 0.58")


# -- one test for each rule -----------------------------------------------------------------------------------------


def test_join_train() -> None:
    f, _ = train("ab")
    assert interpret(fb.heads.JOIN, f) is f


def test_multiply_trains() -> None:
    (f, p), (g, q) = train("abc"), train("bcde")
    assert_same(interpret(fb.heads.MULTIPLY, f, g), p * q)
    assert_same(interpret(fb.heads.MULTIPLY, g, f), p * q)


def test_multiply_trains_beyond_the_bound() -> None:
    (f, p), (g, q) = train("abcd", 6), train("abcd", 6)
    exact = interpret(fb.heads.MULTIPLY, f, g)
    assert_same(exact, p * q)  # the ranks of the product are 36, but 6 values are on one side of the middle
    h, _ = train("abcde", 4)
    with pytest.warns(NegativeEntries):
        rounded = interpret(fb.heads.MULTIPLY, h, f)
        assert rounded.rank == 6 and max(rounded.ranks) == 6
        assert str(rounded.exactness) == "projected(train)"
        want = entries(h, "abcde") * entries(f, "abcd")[..., None]
        np.testing.assert_allclose(entries(rounded, "abcde"), want, rtol=1e-9)


def test_multiply_train_table() -> None:
    f, p = train("abc")
    q = table("ce")
    assert_same(interpret(fb.heads.MULTIPLY, f, q), p * q)
    assert_same(interpret(fb.heads.MULTIPLY, q, f), p * q)


def test_multiply_table_train_of_a_number() -> None:
    f, p = train("abc")
    assert_same(interpret(fb.heads.MULTIPLY, fb.Table(2.5), f), p * 2.5)


def test_add_trains() -> None:
    (f, p), (g, q) = train("abc"), train("bcde")
    assert_same(f + g, p + q)
    assert_same(g + f, p + q)


def test_add_trains_of_far_scales() -> None:
    (f, p), (g, _) = train("abc"), train("abc")
    far = interpret(fb.heads.MULTIPLY, g, fb.Table.from_log(-900.0))
    assert_same(f + far, p)
    total = interpret(fb.heads.MULTIPLY, f, fb.Table.from_log(900.0)) + g
    assert float(total.sum(*"abc").log()) == pytest.approx(900.0 + np.log(p.weights.sum()), rel=1e-14)


def test_add_train_table() -> None:
    f, p = train("abc")
    q = table("ce")
    assert_same(f + q, p + q)
    assert_same(q + f, p + q)


def test_sum_train() -> None:
    f, p = train("abcd")
    assert_same(f.sum("b"), p.sum("b"))
    assert_same(f.sum("a", "d"), p.sum("a", "d"))
    assert_same(f.sum("a", "c", "d"), p.sum("a", "c", "d"), fb.Table)
    assert_same(f.sum(*"abcd"), p.sum(*"abcd"), fb.Table)


def test_reduce_train() -> None:
    f, p = train("abc")
    assert_same(f.max("b"), p.max("b"), fb.Table)


@pytest.mark.parametrize("swapped", [False, True])
def test_contract_trains(swapped) -> None:
    """Rounded after the sum: the evidence of two trains is exact whatever the bound."""
    (f, p), (g, q) = train("abcd", 6), train("abcd", 6)
    pair = (g, f) if swapped else (f, g)
    assert_same(interpret(fb.heads.CONTRACT, fb.sum_product, *pair, frozenset()), (p * q).sum(*"abcd"), fb.Table)
    kept = interpret(fb.heads.CONTRACT, fb.sum_product, *pair, frozenset("ab"))
    assert_same(kept, (p * q).sum("c", "d"))


def test_contract_train_table() -> None:
    f, p = train("abcd")
    q = table("de")
    for pair in ((f, q), (q, f)):
        assert_same(interpret(fb.heads.CONTRACT, fb.sum_product, *pair, frozenset("ae")), (p * q).sum(*"bcd"))


def test_multiply_out_train() -> None:
    f, p = train("abc")
    assert_same(f.product("b"), p.product("b"))
    assert_same(f.product("a", "b"), p.product("a", "b"), fb.Table)


def test_exclude_train() -> None:
    f, p = train("abc")
    for names in (("b",), ("a", "c"), ("a", "b")):
        found, expected = (interpret(fb.heads.EXCLUDE, fb.sum_product, h, names) for h in (f, p))
        assert_same(found, expected, Train if len(names) == 1 else fb.Table)
    assert_same(interpret(fb.heads.EXCLUDE, fb.sum_product, f(b=fb.Array(np.array([1]), ("i",))), ("i",)),
                fb.Table(np.ones((1, 2, 2)), ("i", "a", "c")))  # fmt: skip


@pytest.mark.parametrize("on_jax", [False, True])
def test_marginals_with_a_plate(on_jax) -> None:
    dense = RNG.random((4, 2, 3, 2))
    p = fb.Table(jnp.asarray(dense) if on_jax else dense, ("i", "a", "b", "c"))
    f = Train.from_table(p, 40)
    scopes = {"a": (), "b": (), "c": ("i",)}
    found, expected = (fb.marginals(h, scopes, plates=("i",)) for h in (f, p))
    for name in "abc":
        assert_same(found[name], expected[name], fb.Table, rtol=1e-4 if on_jax else 1e-10)


def test_substitute_train() -> None:
    f, p = train("abcd")
    assert_same(f(b=1), p(b=1))
    assert_same(f(a=1, d=2), p(a=1, d=2))
    assert_same(f(a=1, b=0, c=1), p(a=1, b=0, c=1), fb.Table)
    assert float(f(a=1, b=0, c=1, d=2)) == pytest.approx(p.weights[1, 0, 1, 2], rel=1e-13)


def test_substitute_train_by_arrays() -> None:
    """Indices make a batch: also of a name of the train itself, two at once, and the names of one another."""
    f, p = train("abcd")
    i, j = fb.Array(np.array([2, 0, 1, 1]), ("i",), fb.Bint[3]), fb.Array(np.array([[0, 1], [1, 1]]), ("i2", "j"))
    assert_same(f(b=i), p(b=i))
    assert f(b=i).batch == {"i": fb.Bint[4]}
    assert_same(f(b=i, c=j), p(b=i, c=j))
    own = fb.Array(np.array([1, 0]), ("a",), fb.Bint[2])
    assert_same(f(c=own), p(c=own))
    turned = {"a": fb.Array(np.array([1, 0]), ("c",), fb.Bint[2]), "c": fb.Array(np.array([0, 0]), ("a",), fb.Bint[2])}
    assert_same(f(turned), p(turned))


def test_renaming_keeps_the_order_of_the_cores() -> None:
    f, p = train("abc")
    assert_same(f(a="z"), p(a="z"))
    assert f(a="z").order == ("z", "b", "c") and f(a="b", b="a").order == ("b", "a", "c")
    assert_same(f(a="c", c="a")(c=1), p(a="c", c="a")(c=1))


def test_divide_train_table() -> None:
    f, p = train("abcd")
    q = table("bd")
    assert_same(f / q, p / q)
    assert_same(interpret(fb.heads.MULTIPLY, f / q, q), p, rtol=1e-9)


def test_divide_trains_of_rank_one() -> None:
    f, p = train("abcd")
    g = interpret(fb.heads.MULTIPLY, Train.ones({"a": fb.Bint[2], "b": fb.Bint[3]}, 4), table("a"))
    g = interpret(fb.heads.MULTIPLY, g, table("b"))
    assert g.ranks == (1,)
    assert_same(f / g, p / train_to_table(g))
    assert_same(p / g, p / train_to_table(g), fb.Table)
    q = table("cd")
    assert_same(q / g, q / train_to_table(g))


def test_divide_trains_where_entries_are_few() -> None:
    (f, p), (g, q) = train("abc"), train("bc")
    assert_same(f / g, p / q, fb.Table)
    assert_same(p / g, p / q, fb.Table)


def large(rank: int = 4) -> Train:
    """A train of 3^40 entries, of rank 2."""
    names = [f"x{k}" for k in range(40)]
    ends = [(1, 2), *[(2, 2)] * 38, (2, 1)]
    return Train([RNG.random((r, 3, s)) for r, s in ends], names, rank)


def test_divide_trains_is_refused_where_they_are_many() -> None:
    f = large()
    with pytest.raises(NoRule, match="Shafer-Shenoy") as error:
        f / f
    assert "expected:" in str(error.value) and "nearest:" in str(error.value) and "to do:" in str(error.value)


def test_normalize_train() -> None:
    f, p = train("abcd")
    assert_same(f.normalize(), p.normalize())
    assert_same(f.normalize("a", "b", "c"), p.normalize("a", "b", "c"))
    assert_same(f.normalize("a", "b"), p.normalize("a", "b"), fb.Table)


def test_power_train() -> None:
    f, p = train("abc")
    assert_same(f**2, p**2)
    assert_same(f**0.5, p**0.5, fb.Table)
    g = Train([np.array([[[1.0], [2.0]]]), np.array([[[3.0], [0.5]]])], ("a", "b"), rank=1)
    assert_same(g**-0.5, train_to_table(g) ** -0.5)
    with pytest.raises(NoRule, match="whole number"):
        large() ** 0.5


def test_choose_train() -> None:
    f, p = train("abcd")
    assert f.argmax() == p.argmax()
    with pytest.raises(NoRule, match="arg max") as error:
        large().argmax()
    assert "draw samples" in str(error.value)


def test_draw_train() -> None:
    f, p = train("abc")
    draws = f.sample(jax.random.key(1), n=40_000)
    counts = np.zeros((2, 3, 2))
    np.add.at(counts, tuple(draws[name] for name in "abc"), 1.0)
    expected = p.normalize().weights
    assert np.abs(counts / 40_000 - expected).max() < 4 * np.sqrt(0.25 / 40_000)


def test_draw_train_given_others() -> None:
    """One name for each value of the others."""
    f, p = train("abc")
    draws = f.sample(jax.random.key(1), "b", n=20_000)["b"]
    assert draws.shape == (20_000, 2, 2)
    share = (draws[..., None] == np.arange(3)).mean(0)
    expected = np.moveaxis(p.normalize("b").weights, 1, -1)
    assert np.abs(share - expected).max() < 4.5 * np.sqrt(0.25 / 20_000)


def test_draw_train_of_many_names() -> None:
    """The frequencies of one name of 3^40 entries against its marginal."""
    f = large()
    draws = f.sample(jax.random.key(2), n=20_000)
    for name in ("x0", "x17", "x39"):
        marginal = f.sum(*(other for other in f.inputs if other != name)).normalize().weights
        assert np.abs(np.bincount(draws[name], minlength=3) / 20_000 - marginal).max() < 4.5 * np.sqrt(0.25 / 20_000)


def test_expect_train() -> None:
    f, p = train("abc")
    value = fb.Variable("a", fb.Bint[2]) * 1.0 + fb.Variable("b", fb.Bint[3]) * 10.0
    assert float(fb.expectation(f, value)) == pytest.approx(float(fb.expectation(p, value)), rel=1e-12)


def test_train_to_table() -> None:
    f, p = train("abc")
    assert_same(train_to_table(f), p, fb.Table)
    assert float(f.entropy()) == pytest.approx(float(p.entropy()), rel=1e-12)
    assert float(f.kl(table("abc") * 1.0)) > 0
    np.testing.assert_allclose(np.asarray(f.mean("b").data), np.asarray(p.mean("b").data), rtol=1e-12)
    with pytest.raises(Intractable, match="1,048,576 entries"):
        large().log()


# -- goldens --------------------------------------------------------------------------------------------------------


def test_golden_product() -> None:
    """G1: Koller and Friedman, figure 4.3."""
    f = Train.from_table(fb.Table([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]], ("A", "B")), 6)
    g = Train.from_table(fb.Table([[0.5, 0.7], [0.1, 0.2]], ("B", "C")), 6)
    joint = entries(interpret(fb.heads.MULTIPLY, f, g), "ABC")
    assert [joint[0, 0, 0], joint[0, 1, 1], joint[2, 1, 1]] == pytest.approx([0.25, 0.16, 0.18])
    summed = entries((f * g).sum("B"), "AC")
    assert [summed[0, 0], summed[1, 1], summed[2, 1]] == pytest.approx([0.33, 0.07, 0.39])


def test_golden_quotient() -> None:
    """G2: a zero column gives 0 there; x/0 with x > 0 raises."""
    dense = fb.Table([[[0.5, 0.0], [0.25, 0.0]], [[0.125, 0.0], [1.0, 0.0]]], ("a", "b", "c"))
    f = Train.from_table(dense, 4)
    assert_same(f / f.sum("a", "b"), dense / dense.sum("a", "b"))
    assert np.all(entries(f / f.sum("a", "b"), "abc")[..., 1] == 0)
    with pytest.raises(DataError, match="a positive number over zero"):
        f / fb.Table([0.0, 1.0], ("b",))


# -- batches --------------------------------------------------------------------------------------------------------


def batched(rank: int = 50) -> tuple[Train, fb.Table]:
    dense = fb.Table(RNG.random((4, 2, 3, 2)), ("i", "a", "b", "c"))
    made = Train.from_table(dense, rank, batch=("i",))
    assert isinstance(made, Train) and made.batch == {"i": fb.Bint[4]} and made.order == ("a", "b", "c")
    return made, dense


def test_batch() -> None:
    f, p = batched()
    assert_same(f, p)
    assert_same(f.sum("b"), p.sum("b"))
    assert_same(f.sum("a", "b", "c"), p.sum("a", "b", "c"), fb.Table)
    assert_same(f.sum("i"), p.sum("i"))
    assert_same(f.sum("i", "b"), p.sum("i", "b"))
    assert_same(f(i=2, b=1), p(i=2, b=1))
    assert_same(f.normalize("a", "b", "c"), p.normalize("a", "b", "c"))


def test_batch_of_a_product() -> None:
    """With a table over the batch, with a train that has the name in its order, and with one that lacks it."""
    f, p = batched()
    weights = fb.Table(RNG.random(4), ("i",))
    assert_same(interpret(fb.heads.MULTIPLY, f, weights), p * weights)
    q = fb.Table(RNG.random((4, 2, 3)), ("i", "c", "d"))
    for order in ("icd", "dic", "cdi"):
        g = Train.from_table(q, 20, names=tuple(order))
        assert_same(interpret(fb.heads.MULTIPLY, f, g), p * q)
        assert_same(interpret(fb.heads.MULTIPLY, g, f), p * q)
        assert_same(f + g, p + q)
    h, r = train("cd")
    assert_same(interpret(fb.heads.MULTIPLY, f, h), p * r)


def test_batch_has_its_own_rounding_errors() -> None:
    f, p = batched(1)
    error = f.rounding_error
    assert error.shape == (4,) and np.all(error > 0.01)
    gap = (entries(f, "iabc") - p.weights).reshape(4, -1)
    np.testing.assert_allclose(np.linalg.norm(gap, axis=1) / np.linalg.norm(p.weights.reshape(4, -1), axis=1), error)


# -- orders ---------------------------------------------------------------------------------------------------------


def test_merge_orders() -> None:
    assert merge_orders(("x10", "x11"), ("x2", "x3")) == ("x2", "x3", "x10", "x11")
    assert merge_orders(("b", "a"), ("a", "c")) == ("b", "a", "c")
    assert merge_orders(("b", "a"), ("a", "b")) is None


@pytest.mark.parametrize("order", ["dcba", "badc", "cadb", "bacd"])
def test_orders_that_contradict_each_other(order) -> None:
    (f, p), (g, q) = train("abcd"), train(order)
    assert_same(interpret(fb.heads.MULTIPLY, f, g), p * q)
    assert_same(interpret(fb.heads.MULTIPLY, g, f), p * q)
    assert_same(f + g, p + q)


# -- elimination ----------------------------------------------------------------------------------------------------


def chain(on_jax: bool = False) -> tuple[list[fb.Table], list[str]]:
    """A chain of 12 ternary variables, as pairs."""
    names = [f"x{k}" for k in range(12)]
    arrays = [RNG.random((3, 3)) for _ in range(11)]
    return [
        fb.Table(jnp.asarray(a) if on_jax else a, pair) for a, pair in zip(arrays, pairwise(names), strict=True)
    ], names


def test_chain_of_twelve() -> None:
    """The product of all pairs as one train of rank 3, exact; 531,441 entries against the product of the tables."""
    pairs, names = chain()
    whole: fb.Factor = Train.from_table(pairs[0], rank=3)
    for pair in pairs[1:]:
        whole = interpret(fb.heads.MULTIPLY, whole, pair)
    assert isinstance(whole, Train) and whole.ranks == (3,) * 11 and str(whole.exactness) == "exact"
    letters = "abcdefghijkl"
    spec = ",".join(one + two for one, two in pairwise(letters)) + "->" + letters
    dense = np.einsum(spec, *(pair.weights for pair in pairs), optimize=True)
    np.testing.assert_allclose(whole.weights, dense, rtol=1e-10)
    evidence = fb.eliminate(pairs, names)
    assert float(whole.sum(*names)) == pytest.approx(float(evidence), rel=1e-12)
    for name in ("x0", "x5", "x11"):
        found = whole.sum(*(other for other in names if other != name))
        expected = fb.eliminate(pairs, [other for other in names if other != name])
        assert_same(found, expected, fb.Table)


def test_chain_of_twelve_beyond_the_bound() -> None:
    """Of rank 2: the numbers are near those of the tables, as near as the error says."""
    names = [f"x{k}" for k in range(12)]
    smooth = np.exp(-0.5 * (np.arange(3)[:, None] - np.arange(3)) ** 2)
    pairs = [fb.Table(smooth + 0.05 * RNG.random((3, 3)), pair) for pair in pairwise(names)]
    whole: fb.Factor = Train.from_table(pairs[0], rank=2)
    for pair in pairs[1:]:
        whole = interpret(fb.heads.MULTIPLY, whole, pair)
    assert isinstance(whole, Train) and whole.ranks == (2,) * 11 and str(whole.exactness) == "projected(train)"
    total = whole.sum(*names)
    assert total.exactness.marks == ("projected(train)",)
    assert total.exactness.error == pytest.approx(whole.rounding_error)  # a Table keeps it
    dense = np.einsum(",".join(a + b for a, b in pairwise("abcdefghijkl")) + "->abcdefghijkl",
                      *(pair.weights for pair in pairs), optimize=True)  # fmt: skip
    gap = np.linalg.norm(whole.weights - dense) / np.linalg.norm(dense)
    assert 0.0 < gap <= whole.rounding_error
    assert abs(float(total) / float(fb.eliminate(pairs, names)) - 1.0) < whole.rounding_error


@pytest.mark.parametrize("on_jax", [False, True])
def test_eliminate(on_jax) -> None:
    dense = RNG.random((2, 3, 2))
    p = fb.Table(jnp.asarray(dense) if on_jax else dense, ("a", "b", "c"))
    f, q, r = Train.from_table(p, 20), table("cd"), table("de")
    found = fb.eliminate([f, q, r], ("a", "b", "c"))
    want = np.einsum("abc,cd,de->de", dense, q.weights, r.weights)
    np.testing.assert_allclose(entries(found, "de"), want, rtol=1e-5 if on_jax else 1e-12)
    assert str(found.exactness) == "exact"
    closed = fb.eliminate([f, q, r], tuple("abcde"))
    assert float(closed) == pytest.approx(want.sum(), rel=1e-5 if on_jax else 1e-12)


def test_product_sums_by_a_plan() -> None:
    (f, p), q = train("abc"), table("cd")
    assert_same((f * q).sum("c"), (p * q).sum("c"))


@pytest.mark.parametrize("on_jax", [False, True])
def test_marginals(on_jax) -> None:
    dense = RNG.random((2, 3, 2))
    p = fb.Table(jnp.asarray(dense) if on_jax else dense, ("a", "b", "c"))
    f, q, r = Train.from_table(p, 20), table("cd"), table("de")
    found, expected = (fb.marginals([first, q, r], tuple("abcde")) for first in (f, p))
    for name in "abcde":
        assert_same(found[name], expected[name], fb.Table, rtol=1e-5 if on_jax else 1e-10)


def test_sample() -> None:
    (f, p), q = train("abc"), table("cd")
    draws = fb.sample(jax.random.key(3), [f, q], tuple("abcd"), n=30_000)
    counts = np.zeros((2, 3, 2, 3))
    np.add.at(counts, tuple(draws[name] for name in "abcd"), 1.0)
    expected = entries((p * q).normalize(), "abcd")
    assert np.abs(counts / 30_000 - expected).max() < 4.5 * np.sqrt(0.25 / 30_000)


def test_argmax() -> None:
    (f, p), q = train("abc"), table("cd")
    assert fb.argmax([f, q], tuple("abcd")) == fb.argmax([p, q], tuple("abcd"))


def test_explain() -> None:
    f, q = train("abc")[0], table("cd")
    text = str(fb.explain([f, q], sum=("a", "b", "c", "d")))
    assert "exact" in text, text


def test_two_hundred_names() -> None:
    """Evidence exact to the constant: the shift of every core is kept."""
    names = [f"x{k}" for k in range(200)]
    pairs = [fb.Table(1e-3 * RNG.random((3, 3)), pair) for pair in pairwise(names)]
    whole: fb.Factor = Train.from_table(pairs[0], rank=3)
    for pair in pairs[1:]:
        whole = interpret(fb.heads.MULTIPLY, whole, pair)
    expected = fb.eliminate(pairs, names)
    assert float(whole.sum(*names).log()) == pytest.approx(float(expected.log()), rel=1e-12)
    assert float(expected.log()) < -1000


# -- negative entries -----------------------------------------------------------------------------------------------


def band() -> fb.Factor:
    """A band matrix projected onto rank 2, which is −0.07 in its corners."""
    return Train.from_table(fb.Table([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]], ("a", "b")), 2)


def test_negative_entries_are_counted_and_reported() -> None:
    f = band()
    assert isinstance(f, Train) and f.count_negative() == 2
    with pytest.warns(NegativeEntries, match="2 negative entries of 9, read as 0"):
        assert np.all(f.weights >= 0)


def test_negative_entries_under_tracing_are_nan() -> None:
    """And no other entries; a draw from them is −1, and `checked` raises."""
    f = band()
    found = jax.jit(lambda g: g.weights)(f)
    np.testing.assert_array_equal(np.isnan(found), np.eye(3)[::-1] * (1 - np.eye(3)) > 0)
    np.testing.assert_allclose(np.nan_to_num(found), np.where(np.isnan(found), 0.0, _entries_of(f)), rtol=1e-5)
    with pytest.raises(DataError, match="negative entries, which rounding made"):
        fb.checked(jax.jit(lambda g: g.weights))(f)
    draws = jax.jit(lambda g: g(b=2).sample(jax.random.key(0), "a", n=8)["a"])(f)
    assert np.all(np.asarray(draws) == -1)


def _entries_of(f: fb.Factor) -> np.ndarray:
    with pytest.warns(NegativeEntries):
        return f.weights


def test_the_error_of_roundings_stands_on_a_table() -> None:
    f = Train.from_table(fb.Table(np.arange(8.0).reshape(2, 2, 2), ("a", "b", "c")), rank=1)
    for made in (f.sum("a", "b"), f(a=0, b=1), interpret(fb.heads.SUM, fb.max_product, f, ("a",))):
        assert type(made) is fb.Table and made.exactness.marks == ("projected(train)",)
    assert f.sum("a", "b").exactness.error == pytest.approx(f.rounding_error) and f.rounding_error > 0.1
    exact = Train.from_table(fb.Table(np.arange(8.0).reshape(2, 2, 2), ("a", "b", "c")), rank=2)
    assert exact.sum("a", "b").exactness.error is None


def test_a_negative_total_is_an_error() -> None:
    f = band()
    with pytest.raises(DataError, match="the total of a train, which rounding made negative"):
        f(a=0, b=2)
    traced = jax.jit(lambda k: f(a=k, b=2).log().data)(0)
    assert np.isnan(traced)


# -- compiled -------------------------------------------------------------------------------------------------------


def total(weights, rank: int = 50):
    """The evidence of a product of two trains and a table, rounded where the bound is low."""
    f = Train.from_table(fb.Table(weights, ("a", "b", "c")), rank)
    g = Train.from_table(fb.Table(weights[::-1] ** 2, ("a", "b", "c")), rank)
    both = interpret(fb.heads.MULTIPLY, f, g)
    return (both * fb.Table(np.array([0.3, 0.7]), ("c",))).sum("a", "b", "c").log().data


@pytest.mark.parametrize("rank", [50, 3, 2])
def test_jit_vmap_grad(rank) -> None:
    weights = RNG.random((3, 3, 2)) + 0.1
    with jax.enable_x64(True):
        value, gradient = jax.jit(jax.value_and_grad(lambda w: total(w, rank)))(jnp.asarray(weights))
        assert float(value) == pytest.approx(float(total(weights, rank)), rel=1e-9)
        direction = RNG.normal(size=weights.shape)
        ends = [float(total(weights + s * 1e-6 * direction, rank)) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / 2e-6
        assert float(jnp.sum(gradient * direction)) == pytest.approx(slope, rel=1e-5, abs=1e-7)
        many = jnp.stack([weights, weights[::-1]])
        mapped = jax.jit(jax.vmap(lambda w: total(w, rank)))(many)
        np.testing.assert_allclose(mapped, [float(total(w, rank)) for w in (weights, weights[::-1])], rtol=1e-9)


def test_returned_from_vmap() -> None:
    """A train is a pytree; the axis of vmap is a name of its batch once it has one."""
    weights = RNG.random((4, 2, 3, 2))
    made = jax.vmap(lambda w: Train.from_table(fb.Table(w, ("a", "b", "c")), 6))(jnp.asarray(weights))
    named = fb.name_axis(made, "i")
    assert named.batch == {"i": fb.Bint[4]}
    np.testing.assert_allclose(entries(named.sum("b"), "iac"), weights.sum(2), rtol=1e-5)
    with pytest.raises(DomainError, match="have no name"):
        made.sum("a")


def test_jit_of_a_train() -> None:
    f, p = train("abcd", 6)
    doubled = jax.jit(lambda f: interpret(fb.heads.MULTIPLY, f, fb.Table(2.0)).sum("b"))(f)
    assert isinstance(doubled, Train) and doubled.order == ("a", "c", "d")
    np.testing.assert_allclose(entries(doubled, "acd"), 2 * p.weights.sum(1), rtol=1e-5)


def test_numpy_stays_numpy() -> None:
    f, _ = train("abc")
    made = interpret(fb.heads.MULTIPLY, f, f).sum("a")
    assert all(type(leaf) in (np.ndarray, np.float64) for leaf in made.leaves())
    assert all(core.array.dtype == np.float64 for core in made.cores)


def test_traced_draws() -> None:
    f, _ = train("abc")
    draws = jax.jit(lambda key: f.sample(key, n=100))(jax.random.key(0))
    assert draws["a"].shape == (100,) and set(np.unique(draws["b"])) <= {0, 1, 2}


def test_traced_division_by_zero_is_not_a_number() -> None:
    f, _ = train("abc")
    made = jax.jit(lambda w: (f / fb.Table(w, ("b",))).sum("a", "b", "c").log().data)
    assert np.isnan(made(jnp.array([0.0, 1.0, 1.0])))
    assert np.isfinite(made(jnp.array([2.0, 1.0, 1.0])))


def test_traced_index_out_of_range_is_not_a_number() -> None:
    f, _ = train("abc")
    made = jax.jit(lambda k: f(a=k).sum("b", "c").log().data)
    assert np.isfinite(made(1)) and np.isnan(made(2)) and np.isnan(made(-1))


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Train([np.ones((1, 2, 1))], ("a",)), DomainError, "two names at least"),
        (lambda: Train([np.ones((1, 2, 2))] * 2, ("a", "b")), DomainError, "1 at both ends"),
        (lambda: Train([np.ones((1, 2, 1))] * 2, ("a", "a")), NameClash, "different names"),
        (lambda: Train([np.ones((1, 2, 1))] * 2, {"a": fb.Bint[2], "b": fb.Bint[3]}), DomainError, r"Bint\[2\]"),
        (lambda: Train([np.full((1, 2, 1), np.nan)] * 2, ("a", "b")), DataError, "finite numbers"),
        (lambda: Train([-np.ones((1, 2, 1)), np.ones((1, 2, 1))], ("a", "b")), DataError, "4 negative entries"),
        (lambda: Train([np.ones((1, 2, 2)), np.ones((2, 2, 1))], ("a", "b"), rank=1), DomainError, "at least 2"),
        (lambda: Train.from_table(table("ab"), rank=0), DataError, "at least 1"),
        (lambda: Train.from_table(table("ab"), 2, names=("a", "c")), UnknownName, "each name of the table once"),
        (lambda: train("ab")[0].sum("z"), UnknownName, "'z'"),
        (lambda: train("ab")[0](a=2), DataError, "out of range"),
        (lambda: interpret(fb.heads.MULTIPLY, train("ab")[0], train("ab")[0]).normalize("z"), UnknownName, "'z'"),
        (lambda: (train("ab")[0](b=0, a=0) * 0.0).normalize(), DataError, "positive mass"),
    ],
)
def test_errors(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


def test_normalising_nothing() -> None:
    zero = Train([np.zeros((1, 2, 1)), np.ones((1, 2, 1))], ("a", "b"))
    with pytest.raises(DataError, match="zero everywhere"):
        zero.normalize()
    with pytest.raises(FubiniError, match="positive mass"):
        zero.sample(jax.random.key(0))
