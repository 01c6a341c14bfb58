"""Trains in a loop: chains of several states give the numbers of chains of tables, where no rank is cut."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.base.semirings import min_sum, sum_product
from fubini.factors.carry import Carried, lightened, settled, weighed
from fubini.factors.slices import slices
from fubini.factors.table_carry import TableLayout
from fubini.factors.train import Train
from fubini.factors.train_carry import TrainLayout, train_layout
from fubini.terms.name_axis import name_axis

SIZES = {"a": 3, "b": 2, "c": 2}
STEPS = 6
both = pytest.mark.parametrize("xp", [np, jnp])


def tables(time: str, xp: Any = np) -> tuple[list[fb.Table], list[fb.Table]]:
    """A start, and for each of three states a move of its own; what is seen couples neighbours."""
    rng = np.random.default_rng(2)

    def table(*names: str) -> fb.Table:
        sizes = [STEPS if name == time else SIZES[name[0]] for name in names]
        return fb.Table(xp.asarray(rng.uniform(0.2, 1.0, sizes)), names)

    start = [table("a", "b"), table("b", "c")]
    moves = [table(name, f"{name}_next") for name in SIZES]
    return start, [*moves, table(time, "a_next", "b_next"), table(time, "b_next", "c_next")]


def chain(start: Any, terms: Any, time: str) -> fb.Chain:
    factor = terms[0]
    for term in terms[1:]:
        factor = factor * term
    step = {name: f"{name}_next" for name in SIZES}
    return fb.Chain(init=start, factor=factor, time=time, step=step, method="sequential")


def train_of(factors: Any, rank: int) -> fb.Factor:
    return Train.from_table(interpret(fb.heads.JOIN, factors[0] * factors[1]), rank)


def numbers(factor: fb.Factor, *order: str) -> np.ndarray:
    logs = factor.log()
    for name in reversed(order):
        logs = fb.stack(logs, name)
    return np.exp(np.asarray(logs.data, np.float64))


def represented(rep: Any) -> Any:
    """All states so represented."""
    return fb.represent(**dict.fromkeys(SIZES, rep))


@both
@pytest.mark.parametrize("as_train", [True, False], ids=["train", "tables"])
@pytest.mark.parametrize("rep", [fb.rep.Dense(), fb.rep.Train(4), fb.rep.Train(2)], ids=repr)
@pytest.mark.one_in(4)
def test_evidence_filter_and_smoother(xp: Any, rep: Any, as_train: bool) -> None:
    start, terms = tables("t")
    dense = chain(start[0] * start[1], terms, "t")
    start, terms = tables("t", xp)
    is_cut = rep == fb.rep.Train(2)
    trains = chain(train_of(start, 2 if is_cut else 4) if as_train else start[0] * start[1], terms, "t")
    rtol = 1e-3 if xp is jnp or is_cut else 1e-8  # rank 2 cuts a little
    with represented(rep):
        evidence, filtered, smoothed = trains.evidence(), trains.filter(), trains.smooth()
    np.testing.assert_allclose(float(evidence.log()), float(dense.log_evidence()), rtol=rtol)
    order = ("t", "a_next", "b_next", "c_next")
    assert type(filtered) is (fb.Table if rep == fb.rep.Dense() else Train)
    np.testing.assert_allclose(numbers(filtered, *order), numbers(dense.filter(), *order), rtol=10 * rtol)
    np.testing.assert_allclose(numbers(smoothed, *order), numbers(dense.smooth(), *order), rtol=10 * rtol)
    for answer in (evidence, filtered, smoothed):
        assert answer.exactness.marks == (("projected(train)",) if is_cut else ())


def test_a_rank_that_is_cut() -> None:
    """Rank 1 keeps the states apart: an approximation, which says so, and how far it is from the truth."""
    with represented(fb.rep.Train(1)):
        start, terms = tables("cut")
        cut = chain(train_of(start, 1), terms, "cut")
        found = cut.filter()
    assert isinstance(found, Train) and found.exactness.marks == ("projected(train)",)
    assert max(found.ranks) == 1 and np.all(found.rounding_error > 0) and np.all(np.diff(found.rounding_error) > 0)
    start, terms = tables("dense")
    expected = numbers(chain(start[0] * start[1], terms, "dense").filter(), "dense", "a_next", "b_next", "c_next")
    np.testing.assert_allclose(numbers(found, "cut", "a_next", "b_next", "c_next"), expected, atol=0.1)


# -- one rule each --------------------------------------------------------------------------------------------------

W = np.random.default_rng(0).uniform(0.2, 1.0, (3, 2, 2))
NAMES = tuple((name, fb.Bint[size]) for name, size in SIZES.items())


def layout(rank: int) -> TrainLayout:
    made = train_layout(rank)(Carried(NAMES, (), (), {}, sum_product))
    assert isinstance(made, TrainLayout)
    return made


@pytest.mark.parametrize("make", [lambda f: f, lambda f: Train.from_table(f, 4)])
def test_settle_train(make: Any) -> None:
    held = settled(make(fb.Table(W.transpose(2, 0, 1), ("c", "a", "b"))), layout(4))
    assert type(held) is Train and held.order == ("a", "b", "c") and held.ranks == (3, 2)
    assert held.exactness.is_exact
    np.testing.assert_allclose(held.weights, W, rtol=1e-5)
    wide = settled(make(fb.Table(W[0], ("b", "c"))), layout(4))
    assert wide.ranks == (3, 2)
    np.testing.assert_allclose(wide.weights, np.broadcast_to(W[0], W.shape), rtol=1e-5)
    over = settled(make(fb.Table(W, ("a", "b", "c"))), layout(4).over("i", fb.Bint[2]))
    assert over.order == ("a", "b", "c") and tuple(over.batch) == ("i",)
    np.testing.assert_allclose(over.weights, np.stack([W, W]), rtol=1e-5)
    cut = settled(make(fb.Table(W, ("a", "b", "c"))), layout(2))
    assert cut.ranks == (2, 2) and cut.exactness.marks == ("projected(train)",)
    u, s, v = np.linalg.svd(W.reshape(3, 4), full_matrices=False)
    np.testing.assert_allclose(cut.weights.reshape(3, 4), u[:, :2] * s[:2] @ v[:2], rtol=1e-4)
    assert float(cut.rounding_error) == pytest.approx(s[2] / np.linalg.norm(s), rel=1e-3)


def test_settle_a_number_and_a_table_over_time() -> None:
    np.testing.assert_allclose(settled(fb.Table(2.0), layout(2)).weights, np.full(W.shape, 2.0), rtol=1e-6)
    over_time = layout(4).over("i", fb.Bint[3])
    for names, expected in ((("i", "b", "c"), W[:, None]), (("i", "b"), W[:, None, :, :1])):
        f = fb.Table(W if len(names) == 3 else W[:, :, 0], names)
        held = settled(f, over_time)
        assert type(held) is Train and tuple(held.batch) == ("i",)
        np.testing.assert_allclose(held.weights, np.broadcast_to(expected, (3, 3, 2, 2)), rtol=1e-5)


def test_settle_train_as_table() -> None:
    held = settled(Train.from_table(fb.Table(W, ("a", "b", "c")), 4), TableLayout(NAMES, (), np.float32, True))
    assert type(held) is fb.Table
    np.testing.assert_allclose(held.weights, W, rtol=1e-5)


def test_carries_that_are_no_trains() -> None:
    for names, semiring in ((NAMES[:1], sum_product), (NAMES, min_sum)):
        assert type(train_layout(2)(Carried(names, (), (), {}, semiring))) is TableLayout


def test_slices_of_a_train() -> None:
    f = Train.from_table(fb.Table(W, ("a", "b", "c")), 4)
    cut = slices(f, "a")
    for k in range(3):
        np.testing.assert_allclose(cut.at([data[k] for data in cut.stacked]).weights, W[k], rtol=1e-5)
    over = settled(fb.Table(W, ("a", "b", "c")), layout(4).over("i", fb.Bint[2]))
    again = slices(over, "i")
    whole = name_axis(again.at(again.stacked), "i")
    np.testing.assert_allclose(whole.weights, np.stack([W, W]), rtol=1e-5)


def test_lighten_and_weigh_train() -> None:
    held = settled(fb.Table(W * 1e-30, ("a", "b", "c")), layout(4))
    light, logs = lightened(held, ("a", "b", "c"))
    assert np.shape(logs) == () and 0.05 < light.weights.max() < 20
    np.testing.assert_allclose(weighed(light, logs.reshape(1, 1, 1)).weights, W * 1e-30, rtol=1e-4)
    some, logs = lightened(held, ("a",))
    assert np.shape(logs) == (1, 1)
    np.testing.assert_allclose(weighed(some, logs[None]).weights, W * 1e-30, rtol=1e-4)


def test_a_chain_of_trains_under_jit() -> None:
    start, terms = tables("traced", jnp)
    with represented(fb.rep.Train(4)):
        found = jax.jit(lambda f: chain(f, terms, "traced").log_evidence().data)(train_of(start, 4))
    start, terms = tables("dense")
    expected = chain(start[0] * start[1], terms, "dense").log_evidence()
    np.testing.assert_allclose(found, float(expected), rtol=1e-3)
