"""Elimination in every semiring against enumeration, and the units of associative operations."""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb

from .tables import NAMES, POSITIVE, Raw, assert_factor, factor_sets, names_of, raws, repeated, total, unroll

bottleneck = fb.Semiring(
    "bottleneck",
    add=lambda xp, a, axis: xp.min(a, axis=axis),
    multiply=lambda xp, a, b: xp.maximum(a, b),
    zero=np.inf,
    one=-np.inf,
    embed=lambda xp, weights, shift: (weights * xp.exp(shift), 0.0),
    homogeneous=False,
)


class Oracle(NamedTuple):
    """A semiring on plain numbers: what a weight becomes, ⊗ of two, ⊕ along axes."""

    semiring: fb.Semiring
    embed: Callable = lambda weights: weights
    times: Callable = np.multiply
    plus: Callable = np.sum
    repeats: Callable = lambda result, n: n * result  # ⊕ of n equal terms

    def total(self, factors: list[Raw], keep: tuple = ()) -> np.ndarray:
        """⊕ of ⊗, by enumeration. In min_sum weights stand for exp(−cost): the least cost is the greatest weight."""
        embedded = [Raw(self.embed(weights), names) for weights, names in factors]
        return total(embedded, keep, self.times, self.plus)


def indicator(weights: np.ndarray) -> np.ndarray:
    return (weights > 0).astype(float)


def once(result: np.ndarray, n: int) -> np.ndarray:
    return result


ORACLES = {
    "sum_product": Oracle(fb.sum_product),
    "max_product": Oracle(fb.max_product, plus=np.max, repeats=once),
    "min_sum": Oracle(fb.min_sum, plus=np.max, repeats=once),
    "counting": Oracle(fb.counting, embed=indicator),
    "boolean": Oracle(fb.boolean, embed=indicator, plus=np.max, repeats=once),
    "bottleneck": Oracle(bottleneck, times=np.maximum, plus=np.min, repeats=once),
}
oracles = pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES)
A, AB, BC = ("a",), ("a", "b"), ("b", "c")
SIZES = {"a": 3, "b": 2, "c": 3, "i": 2, "j": 3}


@oracles
@settings(max_examples=30)
@given(factors=factor_sets())
def test_evidence(oracle, factors):
    names = names_of(factors)
    expected = oracle.total(factors) if names else reduce(oracle.times, [oracle.embed(raw.weights) for raw in factors])
    assert_factor(
        fb.eliminate([raw.table for raw in factors], names, semiring=oracle.semiring), expected, (), fb.Factor
    )


@oracles
@settings(max_examples=30)
@given(factors=factor_sets(least=2), data=st.data())
def test_some_names_kept(oracle, factors, data):
    """What remains is a factor of the names that were not summed."""
    names = names_of(factors)
    summed = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True) if names else st.just([]))
    kept = tuple(name for name in names if name not in summed)
    if not summed:
        return
    result = fb.eliminate([raw.table for raw in factors], summed, semiring=oracle.semiring)
    assert_factor(result, oracle.total(factors, kept), kept, fb.Factor)


@oracles
@settings(max_examples=5)
@given(f=raws(*AB, sizes=SIZES), g=raws(*BC, sizes=SIZES))
def test_on_jax(oracle, f, g):
    """The same in single precision on JAX, where min is a minimum too."""
    result = fb.eliminate([f.single, g.single], ("a", "b"), semiring=oracle.semiring)
    assert_factor(result, oracle.total([f, g], ("c",)), ("c",), rtol=1e-4)
    assert isinstance(result.weights, jax.Array)


@oracles
@settings(max_examples=20)
@given(f=raws(*AB, sizes=SIZES))
def test_reduce_of_one_table(oracle, f):
    assert_factor(f.table.reduce(oracle.semiring, "a"), oracle.total([f], ("b",)), ("b",))
    assert_factor(f.table.reduce(oracle.semiring, "b", "a"), oracle.total([f]))


@oracles
@settings(max_examples=20)
@given(f=raws(*AB, sizes=SIZES))
def test_an_absent_variable(oracle, f):
    """⊕ over a Variable that no factor has: n terms alike, which is n·f where ⊕ adds and f where it chooses."""
    z = fb.Variable("z", fb.Bint[4])
    for names in (("a",), ("a", "b")):
        kept = tuple(name for name in AB if name not in names)
        expected = oracle.repeats(oracle.total([f], kept), 4)
        assert_factor(f.table.reduce(oracle.semiring, z, *names), expected, kept, fb.Factor)
        assert_factor(fb.eliminate([f.table], (z, *names), semiring=oracle.semiring), expected, kept, fb.Factor)


PLATED = {"a": (), "b": ("i",), "c": ("i", "j")}
plated_factors = st.tuples(
    raws("a", sizes=SIZES), raws("i", "a", "b", sizes=SIZES), raws("i", "j", "b", "c", sizes={**SIZES, "c": 2, "j": 2})
)


@oracles
@settings(max_examples=15)
@given(factors=plated_factors)
def test_plates(oracle, factors):
    """a | a, b, i | b, c, i, j against the unrolled product."""
    found = fb.eliminate([raw.table for raw in factors], PLATED, ("i", "j"), semiring=oracle.semiring)
    assert_factor(found, oracle.total(unroll(factors, PLATED, ("i", "j"))))


@oracles
@settings(max_examples=15)
@given(factors=st.tuples(raws("a", sizes=SIZES), raws("i", "a", "b", sizes=SIZES)))
def test_scales(oracle, factors):
    """A plate to the power 3 is the plate with each cell three times."""
    scopes = {"a": (), "b": ("i",)}
    found = fb.eliminate([raw.table for raw in factors], scopes, ("i",), semiring=oracle.semiring, scale={"i": 3})
    thrice = [repeated(raw, {"i": 3}) for raw in factors]
    assert_factor(found, oracle.total(unroll(thrice, scopes, ("i",))))


@oracles
def test_plates_and_scales_on_jax(oracle):
    weights = np.array([[[0.5, 2.0], [0.0, 1.5], [1.0, 0.25]], [[3.0, 0.75], [0.125, 0.0], [0.5, 1.0]]])
    factors = [Raw(np.array([0.5, 1.5, 0.75]), A), Raw(weights, ("i", "a", "b"))]
    scopes = {"a": (), "b": ("i",)}
    found = fb.eliminate([raw.single for raw in factors], scopes, ("i",), semiring=oracle.semiring, scale={"i": 2})
    twice = [repeated(raw, {"i": 2}) for raw in factors]
    assert_factor(found, oracle.total(unroll(twice, scopes, ("i",))), rtol=1e-4)


CHOOSING = {name: ORACLES[name] for name in ("sum_product", "max_product", "min_sum")}


@pytest.mark.parametrize("oracle", CHOOSING.values(), ids=CHOOSING)
@settings(max_examples=15)
@given(f=raws(*AB, sizes=SIZES, elements=POSITIVE), g=raws(*BC, sizes=SIZES))
def test_marginals(oracle, f, g):
    """Max-marginals of exp(−cost) whether the semiring multiplies weights or adds costs; each sums to 1."""
    if total([f, g]) == 0:
        return
    found = fb.marginals([f.table, g.table], tuple("abc"), semiring=oracle.semiring)
    for name in "abc":
        weights = oracle.total([f, g], (name,))
        assert_factor(found[name], weights / weights.sum(), (name,))


@pytest.mark.parametrize("oracle", CHOOSING.values(), ids=CHOOSING)
@settings(max_examples=10)
@given(f=raws("a", sizes=SIZES, elements=POSITIVE), g=raws("i", "a", "b", sizes=SIZES, elements=POSITIVE))
def test_plated_marginals(oracle, f, g):
    scopes = {"a": (), "b": ("i",)}
    found = fb.marginals([f.table, g.table], scopes, ("i",), semiring=oracle.semiring)
    ground = unroll([f, g], scopes, ("i",))
    weights = oracle.total(ground, (("a",),))
    assert_factor(found["a"], weights / weights.sum(), ("a",))
    cells = np.stack([oracle.total(ground, (("b", i),)) for i in range(2)])
    assert_factor(found["b"], cells / cells.sum(1, keepdims=True), ("i", "b"))


# -- sliced plans ---------------------------------------------------------------------------------------------------

LIMIT = 200  # bytes: less than the tables of these factors need


def wide_factors(seed: int) -> list[Raw]:
    """Three tables of 64 cells, some of them zero, their axes in random order."""
    generator = np.random.default_rng(seed)
    scopes = [tuple(generator.permutation(list(names)).tolist()) for names in ("abc", "bcd", "cde")]
    return [Raw(generator.uniform(0, 1, (4, 4, 4)).round(1), names) for names in scopes]


@oracles
@pytest.mark.parametrize("kind", ["table", "single"])
def test_sliced_evidence(oracle, kind):
    """A plan run one slice at a time gives the same result."""
    factors = wide_factors(0)
    given = [getattr(raw, kind) for raw in factors]
    found = fb.eliminate(given, NAMES, semiring=oracle.semiring, memory_limit=LIMIT)
    assert_factor(found, oracle.total(factors), rtol=1e-9 if kind == "table" else 1e-4)
    with pytest.raises(fb.FubiniError, match="GiB"):
        fb.eliminate(given, NAMES, semiring=oracle.semiring, memory_limit=8)


@pytest.mark.parametrize("kind", ["table", "single"])
@pytest.mark.parametrize("seed", [1, 2])
def test_sliced_marginals(kind, seed):
    factors = wide_factors(seed)
    given = [getattr(raw, kind) for raw in factors]
    found = fb.marginals(given, NAMES, memory_limit=LIMIT)
    for name in NAMES:
        weights = total(factors, (name,))
        assert_factor(found[name], weights / weights.sum(), (name,), rtol=1e-9 if kind == "table" else 1e-4)


def test_gradient_of_a_sliced_evidence():
    f, g, h = wide_factors(4)

    def evidence(w, limit):
        factors = [fb.Table(w, f.names), g.single, h.single]
        return fb.eliminate(factors, NAMES, memory_limit=limit).log().data

    by_limit = [jax.jit(jax.grad(evidence), static_argnums=1)(f.single.weights, limit) for limit in (None, LIMIT)]
    np.testing.assert_allclose(*by_limit, rtol=1e-4)
    assert np.isfinite(by_limit[1]).all() and np.any(by_limit[1] > 0)


@oracles
@pytest.mark.parametrize("kept", ["k", "km"])
def test_sliced_elimination_with_names_kept(oracle, kept):
    """Terms of the result that the sliced variable does not reach are not added once for each slice."""
    generator = np.random.default_rng(3)
    scopes = [tuple(names) for names in ("abc", "bcd", "dk", "f", "em")[: 3 + len(kept)]]
    sizes = {name: 2 if name in "km" else 4 for name in "abcdefkm"}
    factors = [Raw(generator.uniform(0.5, 1.5, [sizes[name] for name in names]), names) for names in scopes]
    summed = [name for name in names_of(factors) if name not in kept]
    found = fb.eliminate([raw.table for raw in factors], summed, semiring=oracle.semiring, memory_limit=LIMIT)
    assert_factor(found, oracle.total(factors, tuple(kept)), tuple(kept), fb.Factor)


# -- units ----------------------------------------------------------------------------------------------------------

TRUTH = (fb.ops.logical_and, fb.ops.logical_or)


def test_units_of_truth():
    assert fb.ops.UNITS[fb.ops.logical_and] is True
    assert fb.ops.UNITS[fb.ops.logical_or] is False


@pytest.mark.parametrize("op", fb.ops.UNITS, ids=repr)
@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_every_unit_is_neutral(op, xp):
    """op(unit, x) = x = op(x, unit), and folding over an axis with the unit in it changes nothing."""
    unit = fb.ops.UNITS[op]
    given = xp.asarray([True, False]) if op in TRUTH else xp.asarray([-2.5, 0.0, 3.0])
    neutral = xp.full_like(given, unit)
    np.testing.assert_array_equal(op(neutral, given), given)
    np.testing.assert_array_equal(op(given, neutral), given)
    fold = fb.ops.reduction(op)
    np.testing.assert_allclose(fold(xp, xp.stack([given, neutral]), 0), given, rtol=1e-6)


def test_a_minimum_is_a_minimum_on_both_engines():
    for xp in (np, jnp):
        assert fb.ops.reduction(fb.ops.minimum)(xp, xp.asarray([3.0, 1.0, 2.0]), 0) == 1.0
        table = fb.Table(xp.asarray([0.3, 0.1, 0.2]), A)
        assert float(table.reduce(bottleneck, "a")) == pytest.approx(0.1, rel=1e-6)
