"""Recurrences: a representation's own way through all steps, against the steps one by one and the unrolled model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

import fubini as fb
from fubini.factors.carry import CarryLayout, settled
from fubini.factors.table import Table
from fubini.representations.table_recurrence import TableRecurrence
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.links import links_of
from fubini.sequence.recurrence import (
    InOrder,
    Products,
    Recurrence,
    SmoothedStates,
    Turn,
    backwards,
    forwards,
    recurrence_of,
)
from fubini.sequence.steps import Steps

from .models import assert_same, check_filter, check_smoother, random_model

THREE = fb.Bint[3]
METHODS = ("sequential", "parallel", "chunks")


def steps_of(terms: list[fb.Factor], semiring: fb.Semiring = fb.sum_product) -> Steps:
    """Four steps from x to y."""
    domain = next(term.inputs["x"] for term in terms)
    return SequenceOutline("t", 4, links_of({"x": "y"}), (("x", domain), ("y", domain))).steps(terms, semiring)


def table(*names: str, seed: int = 0) -> fb.Factor:
    sizes = {"t": 4, "b": 2}
    return fb.Table(np.random.default_rng(seed).uniform(0.1, 1.0, [sizes.get(name, 3) for name in names]), names)


@contextmanager
def recurring(function: Any) -> Iterator[None]:
    """An interpretation where this function answers RECURRENCE."""
    rules = fb.RuleSet("own.recurrence", head=fb.heads.RECURRENCE)
    rules.rule(function)
    with fb.Interpretation("own", (rules,), base=fb.exact):
        yield


def none_at_all(layout: CarryLayout, steps: Steps) -> None:
    """one step after another"""


# -- which steps have one -------------------------------------------------------------------------------------------


def test_recur_tables() -> None:
    steps = steps_of([table("x", "y"), table("t", "y")])
    assert isinstance(recurrence_of(steps.layout([]), steps), TableRecurrence)
    assert isinstance(recurrence_of(steps.layout([table("x")]), steps), TableRecurrence)


@pytest.mark.parametrize("semiring", [fb.max_product, fb.counting, fb.min_sum, fb.boolean], ids=lambda s: s.name)
def test_recur_tables_of_weights_that_multiply(semiring: fb.Semiring) -> None:
    steps = steps_of([table("x", "y")], semiring)
    assert (recurrence_of(steps.layout([]), steps) is not None) == semiring.homogeneous


def test_recur_step_by_step() -> None:
    """Gaussian steps, and tables that a real variable of the start is carried along with."""
    reals = {"x": fb.Real, "y": fb.Real}
    gaussian = fb.Gaussian(info=np.zeros(2), precision=np.eye(2), inputs=reals)
    steps = steps_of([gaussian])
    assert recurrence_of(steps.layout([]), steps) is None
    steps = steps_of([table("x", "y")])
    start = fb.Gaussian(info=np.zeros((3, 1)), precision=np.ones((3, 1, 1)), inputs={"x": THREE, "a": fb.Real})
    assert recurrence_of(steps.layout([start]), steps) is None


# -- what it computes -----------------------------------------------------------------------------------------------


def weights(factor: fb.Factor, *names: str) -> np.ndarray:
    assert isinstance(factor, Table)
    found = factor.numbers()
    return np.transpose(found.array, [found.names.index(name) for name in names])


def test_in_order() -> None:
    """α_{t+1}(y) = Σ_x α_t(x) f(x, y) g(t, y), and β backwards"""
    f, g, start = table("x", "y"), table("t", "y", seed=1), table("x", seed=2)
    steps = steps_of([f, g])
    matrices = weights(f, "x", "y") * weights(g, "t", "y")[:, None]
    layout = steps.layout([start])
    own = recurrence_of(layout, steps)
    assert own is not None
    last, every, safe = own.in_order(settled(start, layout), forwards(steps.links), True)
    now = weights(start, "x")
    for t, matrix in enumerate(matrices):
        now = now @ matrix
        np.testing.assert_allclose(weights(every, "t", "x")[t], now, rtol=1e-6)
    np.testing.assert_allclose(weights(last, "x"), now, rtol=1e-6)
    first, every, safe = own.in_order(settled(fb.Table(np.ones(3), ("x",)), layout), backwards(steps.links), True)
    later = np.ones(3)
    for t, matrix in reversed(list(enumerate(matrices))):
        later = matrix @ later
        np.testing.assert_allclose(weights(every, "t", "x")[t], later, rtol=1e-6)
    np.testing.assert_allclose(weights(first, "x"), later, rtol=1e-6)
    assert bool(safe)
    assert own.in_order(settled(start, layout), forwards(steps.links), False).every is None


def test_product_and_running() -> None:
    """Π_t F_t, and Π_{s≤t} F_s or Π_{s≥t} F_s, as products of matrices"""
    f, g = table("x", "y", "b"), table("t", "y", seed=1)
    steps = steps_of([f, g])
    matrices = np.einsum("xyb,ty->tbxy", weights(f, "x", "y", "b"), weights(g, "t", "y"))
    own = recurrence_of(steps.layout([]), steps)
    assert own is not None
    whole = np.linalg.multi_dot
    expected = [whole([m[b] for m in matrices]) for b in range(2)]
    product, safe = own.product()
    np.testing.assert_allclose(weights(product, "b", "x", "y"), expected, rtol=1e-6)
    for reverse in (False, True):
        running, also_safe = own.running(reverse)
        for t in range(4):
            some = matrices[t:, 0] if reverse else matrices[: t + 1, 0]
            expected = whole(list(some)) if len(some) > 1 else some[0]
            np.testing.assert_allclose(weights(running, "t", "b", "x", "y")[t, 0], expected, rtol=1e-6)
        assert bool(safe) and bool(also_safe)


def test_out_of_range() -> None:
    """Weights whose products are below the least number say so; the chain's answer is right all the same."""
    log = np.array([[0.0, -400.0], [-500.0, -300.0]])
    factor = fb.Table.from_log(np.stack([log] * 4), ("t", "x", "y"))
    steps = steps_of([factor])
    own = recurrence_of(steps.layout([]), steps)
    assert own is not None
    assert not bool(own.product().safe)
    chain = fb.Chain(init=fb.Table([0.0, 1.0], ("x",)), factor=factor, time="t", step={"x": "y"})
    paths = np.full((1, 2), -np.inf)
    paths[0, 1] = 0.0
    for _ in range(4):
        paths = np.logaddexp.reduce(paths[0][:, None] + log, axis=0)[None]
    np.testing.assert_allclose(chain.log_evidence().data, np.logaddexp.reduce(paths[0]), rtol=1e-12)


# -- one from outside -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_without_a_recurrence(method: str) -> None:
    """Tables go through their steps one by one too, in order, in pairs and in chunks."""
    model = random_model({"x": THREE}, 4, plates={"i": 2})
    with recurring(none_at_all):
        assert_same(model.chain(method).evidence(), model.evidence())
        if method != "chunks":
            check_filter(model, model.chain(method).filter())
            check_smoother(model, model.chain(method).smooth())


class Counted(Recurrence):
    """Another's, and how often each way was taken."""

    def __init__(self, own: Recurrence, taken: list[str]) -> None:
        self.own, self.taken = own, taken

    def in_order(self, start: fb.Factor, turn: Turn, keep: bool) -> InOrder:
        self.taken.append("backwards" if turn.reverse else "forwards")
        return self.own.in_order(start, turn, keep)

    def product(self) -> Products:
        self.taken.append("product")
        return self.own.product()

    def running(self, reverse: bool) -> Products:
        self.taken.append("from" if reverse else "up to")
        return self.own.running(reverse)

    def evidence(self, start: fb.Factor, kernels: bool) -> fb.Factor | None:
        self.taken.append("evidence")
        return self.own.evidence(start, kernels)

    def smoothed(self, start: fb.Factor, kernels: bool) -> SmoothedStates | None:
        self.taken.append("both ways")
        return self.own.smoothed(start, kernels)


@pytest.mark.parametrize(
    ("method", "question", "expected"),
    [
        ("sequential", "evidence", {"evidence"}),
        ("sequential", "filter", {"forwards"}),
        ("sequential", "smooth", {"both ways"}),
        ("parallel", "evidence", {"product"}),
        ("parallel", "filter", {"up to"}),
        ("parallel", "smooth", {"up to", "from"}),
        ("chunks", "evidence", {"product"}),
    ],
)
def test_a_recurrence_of_ones_own(method: str, question: str, expected: set[str]) -> None:
    """A rule of an interpretation answers before those of the library, and every way is asked of it."""
    taken: list[str] = []

    def counted(layout: CarryLayout, steps: Steps) -> Recurrence:
        """the recurrence of tables"""
        return Counted(TableRecurrence(layout, steps), taken)  # type: ignore[arg-type]

    model = random_model({"x": THREE}, 4, seed=1)
    with recurring(counted):
        answer = getattr(model.chain(method), question)()
    assert expected <= set(taken)
    exact = getattr(model.chain(method), question)()
    for one, other in zip(jax.tree.leaves(answer), jax.tree.leaves(exact), strict=True):
        np.testing.assert_array_equal(one, other)
