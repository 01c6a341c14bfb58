"""Diagrams: both engines, questions beside tables, diagrams that no table could be, networks."""

from functools import reduce
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import MemoryLimit
from fubini.factors.diagram import Diagram

from .diagrams import KEY, STEP, A, B, assert_is, cells, multiply


@pytest.fixture
def f() -> Diagram:
    return Diagram(A, ("a", "b"))


@pytest.fixture
def g() -> Diagram:
    return Diagram(B, ("b", "c"))


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


def test_a_wide_range_beside_single_precision():
    """Double precision in one factor, JAX in another: what single precision does not hold is in the shift."""
    f = Diagram(np.array([1e-200, 1e200, 1.0]), ("a",))
    total = fb.eliminate([f, fb.Table(jnp.asarray([1.0, 2.0]), ("b",))], sum=("b",))
    logs = np.asarray(total.log().data) if not total.inputs else np.log(cells(total, "a"))
    np.testing.assert_allclose(logs, np.log([1e-200, 1e200, 1.0]) + np.log(3.0), rtol=1e-6)


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
    assert not any(f.argmax().values())  # the first of equals
    draws = f.sample(KEY, n=2000)
    bits = np.stack([draws[name] for name in f.names])
    assert np.all(np.diff(bits, axis=0) >= 0)
    counts = np.bincount(bits.sum(0), minlength=61)
    assert np.all(np.abs(counts - 2000 / 61) <= 5 * np.sqrt(2000 / 61))


def test_a_table_of_it_is_refused():
    with pytest.raises(MemoryLimit, match="cells of Diagram"):
        monotone(60).log()


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
    "mildew": (547_158, (6_540, 11_706), 16_244),
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
