"""Sparse factors in a loop: chains of them give the numbers of chains of tables, with sparse and dense carries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.semirings import max_product, min_sum, sum_product
from fubini.errors import DataError, MemoryLimit
from fubini.factors.carry import Carried, lightened, settled, weighed
from fubini.factors.slices import slices
from fubini.factors.sparse import Sparse
from fubini.factors.sparse_carry import SparseLayout, sparse_layout
from fubini.factors.table_carry import TableLayout
from fubini.terms.name_axis import name_axis

STATES, STEPS = 12, 7
REACHED = 5  # states that have a weight at any time: four before a step, and one more after it
both = pytest.mark.parametrize("xp", [np, jnp])


# Carries that are dense, have a slot for each state, or one for each that is reached.
carries = pytest.mark.parametrize("rep", [fb.rep.Dense(), fb.rep.Sparse(STATES), fb.rep.Sparse(REACHED)], ids=repr)


def tables(xp: Any = np) -> tuple[fb.Table, ...]:
    """A start, a move by one state to the right or none, and weights of the states that are zero for most of them."""
    rng = np.random.default_rng(1)
    init = rng.uniform(0.2, 1.0, STATES) * (np.arange(STATES) < 4)
    move = np.zeros((STATES, STATES))
    for state in range(STATES):
        move[state, [state, (state + 1) % STATES]] = rng.uniform(0.2, 1.0, 2)
    seen = rng.uniform(0.2, 1.0, (STEPS, STATES))
    for t in range(STEPS):
        seen[t, (np.arange(STATES) - t) % STATES >= 4] = 0.0
    names = (("s",), ("s", "s_next"), ("t", "s_next"))
    return tuple(fb.Table(xp.asarray(w), axes) for w, axes in zip((init, move, seen), names, strict=True))


def chain(factors: Any) -> fb.Chain:
    init, move, seen = factors
    return fb.Chain(init=init, factor=move * seen, time="t", step={"s": "s_next"}, method="sequential")


def thin(factors: Any) -> tuple[Sparse, ...]:
    return tuple(Sparse.from_table(f, f.weights.size) for f in factors)


def numbers(factor: fb.Factor, *order: str) -> np.ndarray:
    logs = factor.log()
    for name in reversed(order):
        logs = fb.stack(logs, name)
    return np.exp(np.asarray(logs.data, np.float64))


@both
@carries
@pytest.mark.parametrize("make", [thin, tuple], ids=["sparse", "tables"])
@pytest.mark.one_in(4)
def test_evidence_and_filter(xp: Any, rep: Any, make: Any) -> None:
    """Also of a chain of tables, with more cells in a step than a carry has slots."""
    dense, sparse = chain(tables()), chain(make(tables(xp)))
    rtol = 1e-9 if xp is np else 1e-4
    with fb.represent(s=rep):
        log_evidence, filtered, final = float(sparse.log_evidence()), sparse.filter(), sparse.final()
    np.testing.assert_allclose(log_evidence, float(dense.log_evidence()), rtol=rtol)
    found, expected = numbers(filtered, "t", "s_next"), numbers(dense.filter(), "t", "s_next")
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-30)
    assert filtered.exactness.is_exact
    assert isinstance(filtered, fb.Table if rep == fb.rep.Dense() else Sparse)
    np.testing.assert_allclose(numbers(final, "s"), numbers(dense.final(), "s"), rtol=rtol, atol=1e-30)


@carries
@pytest.mark.parametrize("make", [thin, tuple], ids=["sparse", "tables"])
@pytest.mark.one_in(3)
def test_smooth_argmax_and_sample(rep: Any, make: Any) -> None:
    """The density of later steps is positive for all states: it needs a slot for each."""
    dense, sparse = chain(tables()), chain(make(tables()))
    with fb.represent(s=rep):
        found = None if rep == fb.rep.Sparse(REACHED) else sparse.smooth()
        best, draws = sparse.argmax(), sparse.sample(jax.random.key(0), n=4000)
    if found is not None:
        expected = dense.smooth()
        np.testing.assert_allclose(numbers(found, "t", "s_next"), numbers(expected, "t", "s_next"), rtol=1e-9)
        np.testing.assert_allclose(numbers(found.initial, "s"), numbers(expected.initial, "s"), rtol=1e-9)
    for name, expected in dense.argmax().items():
        np.testing.assert_array_equal(best[name], expected)
    exact = numbers(dense.smooth(), "t", "s_next")
    shares = [np.bincount(draws["s_next"][:, t], minlength=STATES) / 4000 for t in range(STEPS)]
    np.testing.assert_allclose(shares, exact, atol=0.03)


@carries
def test_derivatives(rep: Any) -> None:
    with jax.enable_x64(True), fb.represent(s=rep):
        factors = tables(jnp)

        def log_evidence(scale: Any, change: Any) -> Any:
            init, move, seen = factors
            moved = fb.Table(move.weights**scale, ("s", "s_next"))
            return chain(change((init, moved, seen))).log_evidence().data

        found = jax.grad(log_evidence)(1.0, thin)
        expected = (log_evidence(1.0 + 1e-6, thin) - log_evidence(1.0 - 1e-6, thin)) / 2e-6
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("make", [thin, tuple], ids=["sparse", "tables"])
def test_a_carry_of_too_few_slots(make: Any) -> None:
    """NaN where it is compiled, and the error where that is asked for."""
    with fb.represent(s=fb.rep.Sparse(2)):
        few = chain(make(tables(jnp)))
        assert np.isnan(float(few.evidence().log().data))
        with pytest.raises(DataError, match="in a Sparse of capacity 2"):
            fb.checked(jax.jit(lambda f: chain((f, *make(tables(jnp))[1:])).evidence().log().data))(
                make(tables(jnp))[0]
            )


# -- one rule each --------------------------------------------------------------------------------------------------

W = np.array([[0.5, 0.0, 2.0], [0.0, 0.25, 0.0]])
DOMAINS = (("i", fb.Bint[2]), ("s", fb.Bint[3]))


def layout(capacity: int, **kinds: Any) -> SparseLayout:
    made = sparse_layout(capacity)(Carried(DOMAINS, (), (), {"s": fb.Bint[3]}, sum_product, **kinds))
    assert isinstance(made, SparseLayout)
    return made


@both
def test_slice_sparse(xp: Any) -> None:
    f = Sparse.from_table(fb.Table(xp.asarray(W.T), ("s", "i")), 6)
    cut = slices(f, "i")
    for k in range(2):
        part = cut.at([data[k] for data in cut.stacked])
        assert type(part) is Sparse and part.inputs == {"s": fb.Bint[3]} and part.stored <= 3
        np.testing.assert_allclose(part.weights, W[k], rtol=1e-6)
    whole = name_axis(cut.at(cut.stacked), "i")
    np.testing.assert_allclose(whole.to_table().transposed(("i", "s")).weights, W, rtol=1e-6)
    row = slices(Sparse.from_table(fb.Table(xp.asarray(W[0]), ("s",))), "s")
    np.testing.assert_allclose([float(row.at([data[k] for data in row.stacked])) for k in range(3)], W[0], rtol=1e-6)


def test_a_slice_has_its_share_of_the_capacity() -> None:
    f = Sparse.from_table(fb.Table(jnp.asarray([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), ("i", "s")), 4)

    def first(g: Sparse) -> Any:
        cut = slices(g, "i")
        return cut.at([data[0] for data in cut.stacked]).weights

    with pytest.raises(MemoryLimit, match="the capacity needed is 6"):
        first(f)
    assert np.isnan(jax.jit(first)(f)).all()
    np.testing.assert_allclose(first(f.with_capacity(6)), 1.0)


@pytest.mark.parametrize("make", [fb.Table, lambda w, names: Sparse.from_table(fb.Table(w, names))])
def test_settle_sparse(make: Any) -> None:
    for capacity, slots in ((4, 4), (9, 6)):
        held = settled(make(W.T, ("s", "i")), layout(capacity))
        assert type(held) is Sparse and held.names == ("i", "s") and held.stored == slots
        np.testing.assert_allclose(held.weights, W, rtol=1e-6)
    wide = settled(make(W[0], ("s",)), layout(4))
    np.testing.assert_allclose(wide.weights, np.stack([W[0], W[0]]), rtol=1e-6)
    over = settled(make(W.T, ("s", "i")), layout(3).over("j", fb.Bint[2]))
    np.testing.assert_allclose(over.weights, np.stack([W, W]), rtol=1e-6)
    with pytest.raises(MemoryLimit, match="the capacity needed is 3"):
        settled(make(W.T, ("s", "i")), layout(2))


def test_settle_a_number() -> None:
    np.testing.assert_allclose(settled(fb.Table(2.0), layout(6)).weights, np.full((2, 3), 2.0), rtol=1e-6)


def test_settle_sparse_as_table() -> None:
    dense = TableLayout(DOMAINS, (), np.float32, True)
    held = settled(Sparse.from_table(fb.Table(W.T, ("s", "i"))), dense)
    assert type(held) is fb.Table and held.names == ("i", "s")
    np.testing.assert_allclose(held.weights, W, rtol=1e-6)


def test_a_carry_in_a_semiring_that_does_not_scale_is_a_table() -> None:
    for semiring, kind in ((max_product, SparseLayout), (min_sum, TableLayout)):
        assert type(sparse_layout(2)(Carried(DOMAINS, (), (), {}, semiring))) is kind


def test_lighten_and_weigh_sparse() -> None:
    held = settled(Sparse.from_table(fb.Table(W * 1e-30, ("i", "s"))), layout(4))
    light, logs = lightened(held, ("s",))
    np.testing.assert_allclose(logs, np.log(W.max(1) * 1e-30), rtol=1e-6)
    np.testing.assert_allclose(light.weights, W / W.max(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(weighed(light, logs[:, None]).weights, W * 1e-30, rtol=1e-5)
