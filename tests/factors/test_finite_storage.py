"""What the planner is told of sparse factors, diagrams and trains, beside what they hold."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.factors.diagram import Diagram
from fubini.factors.finite_storage import DiagramStorage, SparseStorage, TrainStorage
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train
from fubini.terms.heads import MULTIPLY
from fubini.terms.storage import DENSE, joined_storage

SIZES = {"a": 8, "b": 16, "c": 32, "d": 4}


def function_of(left: str, right: str, seed: int = 0) -> fb.Table:
    """Right as a function of left: one cell for each value of left."""
    values = np.random.default_rng(seed).integers(0, SIZES[right], SIZES[left])
    return fb.Table(np.eye(SIZES[right])[values], (left, right))


def size(storage: object, names: str) -> int:
    return storage.size(tuple(names), SIZES, {})  # type: ignore[attr-defined]


def test_sparse_storage() -> None:
    """Of functions b(a) and c(b): as many cells as a has values, in their product too."""
    f, g = (Sparse.from_table(function_of(*pair)) for pair in ("ab", "bc"))
    assert f.storage == SparseStorage(frozenset({("a", 8), ("b", 16)}), 8, 2**20)
    assert size(f.storage, "ab") == 2 * f.stored == 16
    both = joined_storage([f.storage, g.storage])
    assert size(both, "abc") == 2 * interpret(MULTIPLY, f, g).stored == 16
    assert size(both.summed(("a", "c")), "ac") == 2 * (f * g).sum("b").stored == 16
    assert size(both.summed(("d",)), "d") == 2 * 4 and both.summed(()) is DENSE
    table = fb.Table(np.ones((16, 4)), ("b", "d"))
    assert joined_storage([table.storage, f.storage]) == f.storage
    assert size(f.storage, "abd") == 2 * interpret(MULTIPLY, f, table).stored == 64


def test_slots_of_jax_are_structure() -> None:
    f = Sparse.from_table(fb.Table(jnp.eye(8), ("a", "e")), 20)
    assert f.storage == SparseStorage(frozenset({("a", 8), ("e", 8)}), 32, 20)
    assert f.storage.size(("a", "e"), {"a": 8, "e": 8}, {}) == 40  # at most its capacity


def test_work_of_sparse_factors() -> None:
    few, many = (SparseStorage(frozenset({("x", 2**10), ("y", 2**10)}), count, 2**20) for count in (2**8, 2**19))
    sizes = {"x": 2**10, "y": 2**10}
    assert few.work(("x", "y"), sizes, {}) == 10 * 2**8
    assert many.work(("x", "y"), sizes, {}) == 2**20  # half of the cells: as a table
    assert few.work(("x",), {"x": 64}, {}) == 64


def test_diagram_storage() -> None:
    f = Diagram.from_table(function_of("a", "b"))
    assert f.storage == DiagramStorage(frozenset({("a", 8), ("b", 16)}), 1 << (f.entry_count - 1).bit_length())
    assert f.entry_count <= size(f.storage, "ab") <= 2 * f.entry_count
    constant = Diagram.from_table(fb.Table(np.ones((8, 16)), ("a", "b")))
    assert size(constant.storage, "ab") == constant.entry_count == 1
    assert constant.storage.work(("a", "b"), SIZES, {}) == 64  # one entry of a diagram
    assert size(joined_storage([f.storage, DENSE]).summed(("a",)), "a") <= 2 * 8


def test_train_storage() -> None:
    rng = np.random.default_rng(0)
    f = Train.from_table(fb.Table(rng.uniform(0.5, 1.0, (8, 16, 4)), ("a", "b", "d")), 32)
    assert isinstance(f, Train)
    assert size(f.storage, "abd") == sum(core.array.size for core in f.cores)
    cut = Train.from_table(fb.Table(rng.uniform(0.5, 1.0, (8, 16, 4)), ("a", "b", "d")), 3)
    assert isinstance(cut, Train)
    assert cut.storage == TrainStorage(3, 3, 3)
    assert size(cut.storage, "abd") == sum(core.array.size for core in cut.cores)
    product = joined_storage([cut.storage, cut.storage])
    assert product == TrainStorage(3, 9, 3)
    assert size(product, "abd") == size(cut.storage, "abd")
    assert product.work(("a", "b", "d"), SIZES, {}) == 8 * 8**3 + 16 * 4**3 + 4 * 1  # ranks 8 and 4, of 9
    assert joined_storage([DENSE, cut.storage]) == cut.storage
    assert product.summed(("a", "b")) == TrainStorage(3, 3, 3) and product.summed(("a",)) is DENSE


def test_different_kinds_meet_as_tables() -> None:
    f, g = Sparse.from_table(function_of("a", "b")), Diagram.from_table(function_of("b", "c"))
    assert joined_storage([f.storage, g.storage]) is DENSE
    assert type(interpret(MULTIPLY, f, g)) is fb.Table


def test_beside_real_variables_they_are_dense() -> None:
    for f in (Sparse.from_table(function_of("a", "b")), Diagram.from_table(function_of("a", "b"))):
        sizes, dimensions = {**SIZES, "x": 1}, {"x": 3}
        assert f.storage.size(("a", "x"), sizes, dimensions) == DENSE.size(("a", "x"), sizes, dimensions)
        assert f.storage.work(("a", "x"), sizes, dimensions) == DENSE.work(("a", "x"), sizes, dimensions)
