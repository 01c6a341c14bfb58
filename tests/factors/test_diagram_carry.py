"""Diagrams in a loop: a chain of them gives the numbers of tables, whatever the carry is."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.semirings import sum_product
from fubini.factors.carry import Carried, settled
from fubini.factors.diagram import Diagram
from fubini.factors.slices import slices
from fubini.factors.sparse import Sparse
from fubini.factors.sparse_carry import sparse_layout
from fubini.factors.table_carry import table_layout
from fubini.factors.train import Train
from fubini.factors.train_carry import train_layout
from fubini.terms.name_axis import name_axis

STEPS = 5
MOVE = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]])
SEEN = np.array([[0.9, 0.1, 0.1], [0.1, 0.1, 0.9], [0.1, 0.9, 0.1], [0.5, 0.5, 0.5], [0.9, 0.1, 0.1]])
KINDS = {"diagram": Diagram.from_table, "sparse": Sparse.from_table, "table": lambda f: f}


def chain(kinds: tuple[str, ...], time: str, xp: Any = np) -> fb.Chain:
    """A start, a move and what is seen, each of a kind."""
    init, move, seen = (
        KINDS[kind](fb.Table(xp.asarray(weights), names))
        for kind, weights, names in zip(
            kinds, ([0.2, 0.8, 0.0], MOVE, SEEN), (("s",), ("s", "s_next"), (time, "s_next")), strict=True
        )
    )
    return fb.Chain(init=init, factor=move * seen, time=time, step={"s": "s_next"}, method="sequential")


def numbers(factor: fb.Factor, *order: str) -> np.ndarray:
    logs = factor.log()
    for name in reversed(order):
        logs = fb.stack(logs, name)
    return np.exp(np.asarray(logs.data, np.float64))


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("kinds", [("diagram",) * 3, ("table", "diagram", "sparse"), ("sparse", "table", "diagram")])
def test_a_chain_of_diagrams(kinds: tuple[str, ...], xp: Any) -> None:
    dense, other = chain(("table",) * 3, "dense"), chain(kinds, "-".join(kinds), xp)
    rtol = 1e-9 if xp is np else 1e-5
    np.testing.assert_allclose(float(other.log_evidence()), float(dense.log_evidence()), rtol=rtol)
    found, expected = numbers(other.smooth(), "-".join(kinds), "s_next"), numbers(dense.smooth(), "dense", "s_next")
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)
    for name, best in dense.argmax().items():
        np.testing.assert_array_equal(other.argmax()[name], best)


@pytest.mark.parametrize("kind", ["diagram", "table"])
@pytest.mark.parametrize("rep", [fb.rep.Sparse(3), fb.rep.Diagram()], ids=repr)
def test_a_represented_chain(kind: str, rep: Any) -> None:
    dense, other = chain(("table",) * 3, "t"), chain((kind,) * 3, "t")
    with fb.represent(s=rep):
        log_evidence, smoothed, best = float(other.log_evidence()), other.smooth(), other.argmax()
    np.testing.assert_allclose(log_evidence, float(dense.log_evidence()), rtol=1e-9)
    np.testing.assert_allclose(numbers(smoothed, "t", "s_next"), numbers(dense.smooth(), "t", "s_next"), rtol=1e-9)
    for name, expected in dense.argmax().items():
        np.testing.assert_array_equal(best[name], expected)


def test_slices_of_a_diagram() -> None:
    f = Diagram(SEEN, ("t", "s"))
    cut = slices(f, "t")
    for k in range(STEPS):
        part = cut.at([data[k] for data in cut.stacked])
        np.testing.assert_allclose(part.weights, SEEN[k], rtol=1e-6)
    np.testing.assert_allclose(name_axis(cut.at(cut.stacked), "t").weights, SEEN, rtol=1e-6)


def test_settle_diagram() -> None:
    names = (("s", fb.Bint[3]), ("s_next", fb.Bint[3]))
    carried = Carried(names, (), (), {}, sum_product)
    for make, kind in ((table_layout, fb.Table), (sparse_layout(9), Sparse), (train_layout(3), Train)):
        for f in (Diagram(MOVE, ("s", "s_next")), Sparse.from_table(fb.Table(MOVE, ("s", "s_next"))),
                  Train.from_table(fb.Table(MOVE, ("s", "s_next")), 3)):  # fmt: skip
            held = settled(f, make(carried))
            assert type(held) is kind
            np.testing.assert_allclose(held.weights, MOVE, rtol=1e-5, atol=1e-6)


def test_a_chain_of_diagrams_under_jit() -> None:
    f = Diagram(jnp.asarray(MOVE), ("s", "s_next"))
    init = fb.Table([0.2, 0.8, 0.0], ("s",))

    @jax.jit
    def log_evidence(move: Diagram) -> Any:
        step = move * fb.Table(SEEN, ("t", "s_next"))
        return fb.Chain(init=init, factor=step, time="t", step={"s": "s_next"}).log_evidence().data

    np.testing.assert_allclose(log_evidence(f), float(chain(("table",) * 3, "dense").log_evidence()), rtol=1e-5)
