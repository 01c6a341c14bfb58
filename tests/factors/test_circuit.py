"""Circuits: every rule against enumeration, for value, type and exactness; both engines; errors."""

from itertools import permutations as orders
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.errors import DataError, DomainError, Intractable, MemoryLimit, NameClash, UnknownName
from fubini.factors.circuit import Circuit, to_table
from fubini.factors.circuit_constructors import (
    exactly_one,
    from_clauses,
    from_formula,
    parity,
    permutations,
    simple_paths,
    unconstrained,
)
from fubini.factors.circuit_learning import learn, normalize_locally
from fubini.numerics.vtree import balanced, right_linear
from fubini.terms.heads import CHOOSE, DIVIDE, MULTIPLY

from .circuits import CLAUSES, NAMES, circuit, count, dense, randomized

KINDS = range(5)
each = pytest.mark.parametrize("kind", KINDS)
A, B, C, D = (fb.Variable(name, fb.Bint[2]) for name in NAMES)


def close(left: Any, right: Any) -> None:
    np.testing.assert_allclose(np.asarray(left, float), np.asarray(right, float), rtol=1e-9, atol=1e-12)


def product_of(f: fb.Factor, g: fb.Factor) -> fb.Factor:
    return interpret(MULTIPLY, f, g)


def on_jax(f: Circuit) -> Circuit:
    return jax.tree.map(jnp.asarray, f)


def table(names: str, seed: int) -> fb.Table:
    return fb.Table(np.random.default_rng(seed).uniform(0.1, 2.0, [2] * len(names)), tuple(names))


# -- constructors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clauses", CLAUSES)
@pytest.mark.parametrize("shape", [balanced, right_linear])
def test_from_clauses(clauses: list, shape: Any) -> None:
    f = from_clauses(clauses, NAMES, vtree=shape(range(4)))

    def holds(cell: tuple[int, ...]) -> bool:
        at = dict(zip(NAMES, cell, strict=True))
        return all(any(at[name] == value for name, value in clause.items()) for clause in clauses)

    expected = np.reshape([holds(cell) for cell in product((0, 1), repeat=4)], [2] * 4)
    close(dense(f), expected)
    assert f.count_models() == expected.sum() and f.is_deterministic and f.exactness.is_exact


def test_from_formula() -> None:
    f = from_formula(((A == 1) & ~B) | (C != D), NAMES)
    cells = product((0, 1), repeat=4)
    close(dense(f), np.reshape([(a == 1 and not b) or c != d for a, b, c, d in cells], [2] * 4))


def test_exactly_one() -> None:
    assert exactly_one([f"x{k}" for k in range(7)]).count_models() == 7
    close(dense(exactly_one(NAMES)), np.reshape([sum(c) == 1 for c in product((0, 1), repeat=4)], [2] * 4))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 8, 9, 10))])
def test_permutations(n: int) -> None:
    f = permutations(n)
    assert f.count_models() == np.prod(np.arange(1, n + 1))
    close(float(f.sum(*f.variables).log()), np.log(np.arange(1.0, n + 1)).sum())
    close(f.normalize(*f.variables).marginal_probabilities(), np.full(n * n, 1 / n))
    few = list(orders(range(n)))[:200] if n < 8 else [tuple(range(n))]
    rows = np.stack([np.eye(n, dtype=int)[list(order)].ravel() for order in few])
    close(f.log_evidence(rows), 0.0)
    if n > 1:
        rows[:, 0] = 1 - rows[:, 0]
        assert (f.log_evidence(rows) == -np.inf).all()


def test_parity_of_64_bits() -> None:
    names = [f"x{k}" for k in range(64)]
    f = parity(names, is_odd=True)
    assert f.count_models() == 2**63 and f.size < 300
    p = f.normalize(*names)
    close(p.marginal_probabilities(), 0.5)
    rows = np.random.default_rng(0).integers(0, 2, (20, 64))
    close(np.isfinite(p.log_evidence(rows)), rows.sum(1) % 2 == 1)


def test_simple_paths_of_a_grid() -> None:
    """Paths of an n by n grid of nodes from corner to corner: 2, 12, 184, 8512 (OEIS A007764)."""
    for n, paths in ((2, 2), (3, 12), (4, 184), (5, 8512)):
        edges = [((i, j), (i, j + 1)) for i in range(n) for j in range(n - 1)]
        edges += [((i, j), (i + 1, j)) for i in range(n - 1) for j in range(n)]
        f = simple_paths(sorted(edges), (0, 0), (n - 1, n - 1))
        assert f.count_models() == paths
        draws = f.sample(jax.random.key(n), n=3) if n == 3 else {}
        for k in range(3 if draws else 0):
            chosen = [edge for edge in sorted(edges) if draws[f"{edge[0]}-{edge[1]}"][k]]
            degree = {node: sum(node in edge for edge in chosen) for edge in chosen for node in edge}
            assert degree.pop((0, 0)) == degree.pop((2, 2)) == 1 and set(degree.values()) == {2}


# -- G9 -------------------------------------------------------------------------------------------------------------


def test_g9() -> None:
    f = parity(NAMES, is_odd=True).normalize(*NAMES)
    assert isinstance(f, Circuit) and f.count_models() == 8
    close(dense(f)[dense(f) > 0], np.full(8, 1 / 8))
    close(f.marginal_probabilities(), 0.5)
    close(float((f * fb.Table([0.9, 0.1], ("a",))).sum(*NAMES)), 0.5)
    assert permutations(3).count_models() == 6
    rest = f.sum("a")
    assert isinstance(rest, Circuit) and rest.nodes == "sum" and not rest.is_deterministic
    assert rest.exactness.is_exact and "not deterministic" in repr(rest)
    close(float(rest.sum("b", "c", "d")), 1.0)


def test_g1_and_g2_on_booleans() -> None:
    """Products and quotients of tables, one of them as a circuit: 0/0 is 0, and x/0 an error."""
    f, g = table("ab", 0), table("bc", 1)
    ones = unconstrained(("a", "b", "c"))
    h = product_of(product_of(ones, f), g)
    assert isinstance(h, Circuit)
    close(dense(h), np.einsum("ab,bc->abc", f.weights, g.weights))
    zero = product_of(ones, fb.Table([[0.5, 0.0], [0.1, 0.0]], ("a", "b")))
    marginal = fb.Table([0.6, 0.0], ("b",))
    close(dense(interpret(DIVIDE, zero, marginal))[..., 0], [[5 / 6, 0.0], [1 / 6, 0.0]])
    close(dense(interpret(DIVIDE, zero, zero))[..., 0], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(DataError, match="a positive number over zero"):
        interpret(DIVIDE, ones, marginal)
    with pytest.raises(DataError, match="a positive number over zero"):
        interpret(DIVIDE, ones, zero)


# -- rules ----------------------------------------------------------------------------------------------------------


@each
def test_to_table(kind: int) -> None:
    f = circuit(kind, 7)
    close(to_table(f).weights, dense(f))


@pytest.mark.parametrize("kinds", [(0, 1), (1, 2), (3, 0), (4, 3), (2, 2)])
def test_multiply_circuits(kinds: tuple[int, int]) -> None:
    f, g = circuit(kinds[0], 1), circuit(kinds[1], 2)
    h = product_of(f, g)
    assert isinstance(h, Circuit) and h.is_deterministic and h.exactness.is_exact
    close(dense(h), dense(f) * dense(g))
    assert h.count_models() == np.sum((dense(f) > 0) & (dense(g) > 0))


def test_multiply_circuits_without_a_common_model() -> None:
    h = product_of(parity(NAMES, is_odd=True), parity(NAMES, is_odd=False))
    assert isinstance(h, Circuit)
    close(dense(h), np.zeros([2] * 4))
    with pytest.raises(DataError, match="zero everywhere"):
        h.normalize(*NAMES)


def test_multiply_circuits_over_other_variables() -> None:
    f, g = circuit(0, 1), circuit(3, 2, ("e", "f", "g", "h"))
    h = product_of(f, g)
    assert isinstance(h, Circuit) and set(h.variables) == set("abcdefgh")
    close(dense(h, "abcdefgh"), np.multiply.outer(dense(f), dense(g)))


def test_multiply_circuits_over_another_vtree() -> None:
    f, g = circuit(0, 1), randomized(parity(("d", "b", "a", "e"), is_odd=True), 3)
    h = product_of(f, g)
    assert isinstance(h, Circuit)
    expected = np.einsum("abcd,dbae->abcde", dense(f), dense(g))
    close(to_table(h).transposed(tuple("abcde")).weights, expected)


@pytest.mark.parametrize("names", ["a", "d", "ac", "bd", "abc", "dcba"])
def test_multiply_circuit_table(names: str) -> None:
    f, g = circuit(0, 3), table(names, 4)
    h = product_of(f, g)
    assert isinstance(h, Circuit) and h.is_deterministic and h.exactness.is_exact
    close(dense(h, NAMES), dense(f) * dense(g, NAMES))
    close(dense(product_of(g, f), NAMES), dense(h, NAMES))


def test_weights_batch_over_other_names() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 1.0, (3, 2, 2))
    f = circuit(1, 3)
    h = product_of(f, fb.Table(weights, ("i", "a", "c")))
    assert isinstance(h, Circuit) and h.inputs["i"] == fb.Bint[3]
    for i in range(3):
        close(dense(h(i=i), NAMES), np.einsum("abcd,ac->abcd", dense(f), weights[i]))
    close(h.sum(*NAMES).weights, np.einsum("abcd,iac->i", dense(f), weights))
    close(dense(h.sum("i"), NAMES), np.einsum("abcd,iac->abcd", dense(f), weights))
    close(dense(h.max("i"), NAMES), np.einsum("abcd,iac->iabcd", dense(f), weights).max(0))
    close(dense(h.product("i"), NAMES), np.einsum("abcd,iac->iabcd", dense(f), weights).prod(0))
    marginals = h.marginal_probabilities()
    joint = np.einsum("abcd,iac->iabcd", dense(f), weights)
    close(marginals[:, 1], joint[:, :, 1].sum((1, 2, 3)) / joint.sum((1, 2, 3, 4)))


@each
def test_sum_circuit(kind: int) -> None:
    f = circuit(kind, 5)
    for gone in ("a", "bd", "abc"):
        h, axes = f.sum(*gone), tuple(map(NAMES.index, gone))
        assert type(h) is (Circuit if len(gone) < 3 else fb.Table) and h.exactness.is_exact
        close(dense(h), dense(f).sum(axes))
        top = f.max(*gone)
        close(dense(top), dense(f).max(axes))
    close(float(f.sum(*NAMES)), dense(f).sum())
    close(float(f.max(*NAMES)), dense(f).max())
    close(float(f.sum("a").sum("b", "c", "d")), float(f.sum("d", "c").sum("b", "a")))
    close(dense(f.sum("a").max("b")), dense(f).sum(0).max(0))


@pytest.mark.parametrize("kinds", [(0, 1), (3, 2)])
def test_sum_of_eliminated_circuits(kinds: tuple[int, int]) -> None:
    """A circuit without a variable times one with it, and with another one eliminated."""
    f, g = circuit(kinds[0], 1), circuit(kinds[1], 2)
    h = product_of(f.sum("a"), g.sum("c"))
    assert isinstance(h, Circuit) and h.nodes == "sum"
    close(dense(h, NAMES), dense(f).sum(0)[None] * dense(g).sum(2)[:, :, None])
    close(float(h.sum(*NAMES)), dense(h, NAMES).sum())
    mixed = product_of(f.sum("a"), g.max("c"))
    close(dense(mixed, NAMES), dense(f).sum(0)[None] * dense(g).max(2)[:, :, None])


def test_add_circuits() -> None:
    f, g = circuit(0, 1), circuit(3, 2)
    h = f + g
    assert isinstance(h, Circuit) and not h.is_deterministic and h.exactness.is_exact
    close(dense(h), dense(f) + dense(g))
    close(dense(f + g.sum("b"), NAMES), dense(f) + dense(g).sum(1)[:, None])
    other = randomized(exactly_one(("a", "z")), 0)
    close(float((f + other).sum(*NAMES, "z")), 2 * dense(f).sum() + 8 * dense(other).sum())


@pytest.mark.parametrize("power", [0.5, 2.0, 0.0, -1.0])
@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_power_circuit(power: float, engine: str) -> None:
    f, g = circuit(4, 6), circuit(0, 6)
    if engine == "jax":
        f, g = on_jax(f), on_jax(g)
    near = {"rtol": 1e-9 if engine == "numpy" else 1e-4}
    assert isinstance(f**power, Circuit)
    np.testing.assert_allclose(dense(f**power), dense(f) ** power, **near)
    if power >= 0:
        assert isinstance(g**power, Circuit) and (g**power).is_deterministic
        np.testing.assert_allclose(dense(g**power), dense(g) ** power, **near)
        np.testing.assert_allclose(dense(g.sum("a") ** power), dense(g).sum(0) ** power, **near)
    else:
        with pytest.raises(DataError, match="negative exponent"):
            g**power
    sides = g(a=1)  # positive weights of a circuit with constants
    if power > 0 or (dense(sides) > 0).all():
        np.testing.assert_allclose(dense(sides**power), dense(sides) ** power, **near)


def test_power_circuit_of_a_batch() -> None:
    powers = np.array([2.0, 1.0, 0.5])
    f, at = circuit(0, 6), fb.Array(powers, ("i",))
    h = f**at
    assert isinstance(h, Circuit)
    for i, power in enumerate(powers):
        close(dense(h(i=i), NAMES), dense(f) ** power)
    some = f ** fb.Array(np.array([0.0, 1.0]), ("i",))
    close(some.transposed(("i", *NAMES)).weights, [np.ones([2] * 4), dense(f)])


@pytest.mark.parametrize("power", [0.0, -1.0])
def test_power_circuit_in_a_trace(power: float) -> None:
    """Where f has zeros NaN in place of a number; where it has none the power."""
    log_mass = jax.jit(lambda f, a: (f**a).sum(*NAMES).log().data)
    assert np.isnan(log_mass(on_jax(circuit(0, 6)), power)) and np.isnan(log_mass(on_jax(circuit(3, 6)), power))
    f = circuit(4, 6)
    np.testing.assert_allclose(log_mass(on_jax(f), power), np.log(np.sum(dense(f) ** power)), rtol=1e-5)
    with pytest.raises(DataError, match="negative exponent"):
        fb.checked(lambda f, a: (f**a).sum(*NAMES).log().data)(on_jax(circuit(0, 6)), jnp.asarray(power))


@pytest.mark.parametrize("kinds", [(0, 0), (0, 4), (3, 4), (1, 1)])
def test_divide_circuits(kinds: tuple[int, int]) -> None:
    f, g = circuit(kinds[0], 1), circuit(kinds[1], 2)
    h = interpret(DIVIDE, f, g)
    assert isinstance(h, Circuit) and h.is_deterministic and h.exactness.is_exact
    close(dense(h), dense(f) / np.where(dense(g) == 0, 1.0, dense(g)))
    close(dense(product_of(h, g)), dense(f))


def test_divide_by_a_circuit_with_other_zeros() -> None:
    for one, two in ((0, 1), (4, 3), (3, 0)):
        with pytest.raises(DataError, match="a positive number over zero"):
            interpret(DIVIDE, circuit(one, 1), circuit(two, 2))
    zero = product_of(circuit(4, 0), fb.Table([1.0, 0.0], ("b",)))
    with pytest.raises(DataError, match="a positive number over zero"):
        interpret(DIVIDE, circuit(4, 0), zero)
    close(dense(interpret(DIVIDE, zero, zero)), (dense(zero) > 0) * 1.0)


def test_divide_eliminated_circuit() -> None:
    """Dividing a structured circuit by a PSDD stays in circuits; by a structured one it takes few variables."""
    f, g = circuit(0, 1), circuit(4, 2)
    h = interpret(DIVIDE, f.sum("a"), g)
    assert isinstance(h, Circuit)
    close(dense(h, NAMES), dense(f).sum(0)[None] / dense(g))
    close(dense(interpret(DIVIDE, f, g.sum("a")), NAMES), dense(f) / dense(g).sum(0)[None])


def test_normalize_circuit() -> None:
    f = circuit(2, 4)
    p = f.normalize(*NAMES)
    assert isinstance(p, Circuit)
    close(dense(p), dense(f) / dense(f).sum())
    q = f.normalize("a", "b")
    close(dense(q, NAMES), dense(f) / np.where(dense(f).sum((0, 1)) == 0, 1.0, dense(f).sum((0, 1))))


def test_normalize_locally() -> None:
    f = circuit(1, 4)
    mass, p = normalize_locally(f)
    close(float(mass), dense(f).sum())
    close(dense(p) * float(mass), dense(f))
    theta = np.exp(p.weights_of_nodes.log_theta)
    close([theta[p.diagram.owner == node].sum() for node in np.unique(p.diagram.owner)], 1.0)
    close(p.weights_of_nodes.leaves.sum(1), 1.0)


@each
def test_substitute_circuit(kind: int) -> None:
    f = circuit(kind, 8)
    h = f(a=1, c=0)
    assert isinstance(h, Circuit) and h.inputs == {"b": fb.Bint[2], "d": fb.Bint[2]}
    close(dense(h), dense(f)[1, :, 0])
    close(float(f(a=1, b=0, c=1, d=1)), dense(f)[1, 0, 1, 1])
    rows = fb.Array(np.array([0, 1, 1]), ("j",), fb.Bint[2])
    close(to_table(f(b=rows)).transposed(("j", "a", "c", "d")).weights, np.moveaxis(dense(f)[:, [0, 1, 1]], 1, 0))
    close(f(a=rows, b=1, c=rows, d=0).weights, dense(f)[[0, 1, 1], 1, [0, 1, 1], 0])
    close(dense(f(a="b", b="a"), ("b", "a", "c", "d")), dense(f))
    close(to_table(f(a="b")).transposed(("b", "c", "d")).weights, np.einsum("bbcd->bcd", dense(f)))
    with pytest.raises(DataError, match="out of range"):
        f(a=2)


@each
def test_multiply_out_variables(kind: int) -> None:
    """Which element has weight changes along a variable: the product is not that of the elements one by one."""
    f = circuit(kind, 3)
    for axis, name in enumerate(NAMES):
        rest = tuple(other for other in NAMES if other != name)
        close(dense(f.product(name), rest), dense(f).prod(axis))
    close(dense(f.product("a", "c"), ("b", "d")), dense(f).prod((0, 2)))
    close(dense(f.sum("a").product("b"), ("c", "d")), dense(f).sum(0).prod(0))


@each
def test_multiply_out_evidence(kind: int) -> None:
    """Π_j f(a = v(j)) w(j, b) f, eagerly and in a trace: the evidence is another for each cell of the plate."""
    f, values = circuit(kind, 5), np.array([0, 1, 1, 0, 1])
    rows, weights = fb.Array(values, ("j",), fb.Bint[2]), np.random.default_rng(kind).uniform(0.2, 1.0, (5, 2))
    weights[1, 0] = 0.0
    close(dense(f(a=rows).product("j"), NAMES[1:]), dense(f)[values].prod(0))
    expected = (dense(f)[values][:, None] * dense(f) * weights[:, None, :, None, None]).prod(0)

    def whole(w: Any) -> fb.Factor:
        return (f(a=rows) * f * fb.Table(w, ("j", "b"))).product("j")

    close(dense(whole(weights), NAMES), expected)
    with jax.enable_x64(True):
        close(jax.jit(lambda w: whole(w).sum(*NAMES).weights)(jnp.asarray(weights)), expected.sum())


@each
def test_choose_circuit(kind: int) -> None:
    f = circuit(kind, 9)
    best = {name: int(at) for name, at in f.argmax().items()}
    assert tuple(best[name] for name in NAMES) == np.unravel_index(dense(f).argmax(), [2] * 4)
    chosen = interpret(CHOOSE, f, NAMES)
    assert {name: int(chosen[name].array) for name in NAMES} == best
    given_b = f.argmax("a", "c", "d")
    for b in range(2):
        cell = tuple(int(given_b[name][b]) for name in ("a", "c", "d"))
        assert cell == np.unravel_index(dense(f)[:, b].argmax(), [2] * 3)


@pytest.mark.parametrize("kind", [0, 3, 4])
def test_draw_circuit(kind: int) -> None:
    f = circuit(kind, 10)
    draws = f.sample(jax.random.key(3), n=20_000)
    cells = np.zeros([2] * 4)
    np.add.at(cells, tuple(np.asarray(draws[name]) for name in NAMES), 1 / 20_000)
    p = dense(f) / dense(f).sum()
    assert np.abs(cells - p).max() < 5 * np.sqrt(0.25 / 20_000) and (cells[p == 0] == 0).all()
    rest = f.sum("a").sample(jax.random.key(4), "b", "c", n=20_000)
    share = np.mean((np.asarray(rest["b"]) == 1) & (np.asarray(rest["c"]) == 0), 0)
    q = p.sum(0)[1, 0] / p.sum(0).sum((0, 1))
    assert share.shape == q.shape and np.abs(share - q).max() < 5 * np.sqrt(0.25 / 20_000)


@each
def test_marginals_and_evidence(kind: int) -> None:
    f = circuit(kind, 11)
    p = dense(f)
    close(f.marginal_probabilities(), [np.moveaxis(p, k, 0)[1].sum() / p.sum() for k in range(4)])
    rows = np.array([[1, -1, -1, -1], [-1, 1, -1, 0], [-1, -1, -1, -1], [1, 0, 1, 0]])
    expected = [p[1].sum(), p[:, 1, :, 0].sum(), p.sum(), p[1, 0, 1, 0]]
    with np.errstate(divide="ignore"):
        close(np.exp(f.log_evidence(rows)), expected)
    some = f.marginal_probabilities(rows[:3])
    close(some[0], [1.0, *(np.moveaxis(p[1], k, 0)[1].sum() / p[1].sum() for k in range(3))])
    close(some[1, 2], p[:, 1, 1, 0].sum() / p[:, 1, :, 0].sum())


def test_complete_rows_are_evaluated_along_one_path() -> None:
    f = circuit(0, 12)
    rows = np.array(list(product((0, 1), repeat=4)))
    with np.errstate(divide="ignore"):
        close(np.exp(f.log_evidence(rows)), dense(f).ravel())
    zero = product_of(f, fb.Table([1.0, 0.0], ("b",)))
    assert isinstance(zero, Circuit)
    assert (zero.log_evidence(rows[rows[:, 1] == 1]) == -np.inf).all()


@each
def test_entropy_and_kl(kind: int) -> None:
    f = circuit(kind, 13)
    p = dense(f) / dense(f).sum()
    close(float(f.entropy()), -np.sum(p * np.log(np.where(p > 0, p, 1.0))))
    g = circuit(4, 14)
    q = dense(g) / dense(g).sum()
    close(float(f.kl(g)), np.sum(p * np.log(np.where(p > 0, p, 1.0) / q)))
    if kind >= 3:  # some a is possible for all values of the others
        assert float(f.mean("a")(b=1, c=1, d=0)) == pytest.approx(dense(f)[1, 1, 1, 0] / dense(f)[:, 1, 1, 0].sum())


# -- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pseudo_count", [0.0, 1.0])
def test_learn(pseudo_count: float) -> None:
    """Over all models: relative frequencies where one row reaches one leaf of a full tree; a maximum otherwise."""
    rng = np.random.default_rng(0)
    f = exactly_one(("a", "b", "c"))
    models = np.eye(3, dtype=int)
    counts = np.array([5, 2, 3])
    p = learn(f, np.repeat(models, counts, 0), pseudo_count=pseudo_count)
    close(np.exp(p.log_evidence(models)).sum(), 1.0)
    if pseudo_count == 0:
        close(np.exp(p.log_evidence(models)), counts / 10)
    close(dense(learn(f, models, row_weights=counts, pseudo_count=pseudo_count)), dense(p))
    rows = rng.integers(0, 2, (300, 4))
    g = from_clauses(CLAUSES[0], NAMES)
    rows = rows[np.isfinite(g.log_evidence(rows))]
    q = learn(g, rows)
    best = q.log_evidence(rows).sum()
    for seed in range(20):
        _, other = normalize_locally(randomized(q, seed))
        assert other.log_evidence(rows).sum() < best


def test_learn_errors() -> None:
    f = exactly_one(("a", "b", "c"))
    with pytest.raises(DataError, match=r"rows that its constraints exclude \(row 1\)"):
        learn(f, [[1, 0, 0], [1, 1, 0]])
    with pytest.raises(DataError, match="complete rows"):
        learn(f, [[1, 0, -1]])
    with pytest.raises(DomainError, match="a column for each variable"):
        learn(f, [[1, 0]])
    with pytest.raises(DomainError, match="learn before variables are eliminated"):
        learn(f.sum("a"), [[1, 0]])


# -- laws -----------------------------------------------------------------------------------------------------------

seeds = st.integers(0, 10**6)
kinds = st.sampled_from(KINDS)
few = settings(max_examples=15, deadline=None)


@few
@given(kinds, kinds, kinds, seeds)
def test_products_commute_and_associate(i: int, j: int, k: int, seed: int) -> None:
    f, g, h = circuit(i, seed), circuit(j, seed + 1), circuit(k, seed + 2)
    expected = dense(f) * dense(g) * dense(h)
    close(dense(product_of(product_of(f, g), h)), expected)
    close(dense(product_of(f, product_of(h, g))), expected)


@few
@given(kinds, seeds, st.permutations(NAMES))
def test_sums_in_any_order(kind: int, seed: int, order: list[str]) -> None:
    f: fb.Factor = circuit(kind, seed)
    expected = dense(f).sum()
    for name in order:
        f = f.sum(name)
    close(float(f), expected)


@few
@given(kinds, seeds)
def test_a_sum_passes_a_factor_without_its_variable(kind: int, seed: int) -> None:
    f, t = circuit(kind, seed), table("bd", seed)
    close(dense(product_of(f, t).sum("a")), dense(product_of(f.sum("a"), t)))
    close(dense((f * t).sum("a", "c"), ("b", "d")), dense(f).sum((0, 2)) * t.weights)


@few
@given(kinds, kinds, seeds)
def test_quotient_times_divisor(i: int, j: int, seed: int) -> None:
    f, g = circuit(i, seed), circuit(j, seed + 1)
    both = product_of(f, g)
    close(dense(product_of(interpret(DIVIDE, both, g), g)), dense(both))
    close(dense(interpret(DIVIDE, both, g)), np.where(dense(g) > 0, dense(f), 0.0))


@few
@given(kinds, kinds, seeds, st.integers(0, 1))
def test_substitution_commutes(i: int, j: int, seed: int, at: int) -> None:
    f, g = circuit(i, seed), circuit(j, seed + 1)
    close(dense(product_of(f, g)(b=at)), dense(product_of(f(b=at), g(b=at))))
    close(dense(f.sum("c")(b=at)), dense(f(b=at).sum("c")))
    close(dense((f + g)(b=at)), dense(f(b=at) + g(b=at)))


def test_nothing_underflows() -> None:
    """Weights that disagree by 2000 nats, over 64 variables."""
    names = [f"x{k}" for k in range(64)]
    f: fb.Factor = parity(names, is_odd=True)
    for name in names:
        f = product_of(f, fb.Table.from_log([-1000.0, -1100.0], (name,)))
    ones = np.arange(1, 64, 2)
    choose = np.array([np.sum(np.log(np.arange(64 - k + 1, 65))) - np.sum(np.log(np.arange(1, k + 1))) for k in ones])
    assert float(f.sum(*names).log()) == pytest.approx(np.logaddexp.reduce(choose - 64_000 - 100 * ones), rel=1e-12)


# -- through plans --------------------------------------------------------------------------------------------------


@each
def test_plans_with_tables(kind: int) -> None:
    f, t, u = circuit(kind, 15), table("bd", 16), fb.Table(np.random.default_rng(1).uniform(0.1, 1, (2, 3)), ("c", "k"))
    joint = np.einsum("abcd,bd,ck->abcdk", dense(f), t.weights, u.weights)
    close(float(fb.eliminate([f, t, u], (*NAMES, "k"))), joint.sum())
    close(fb.eliminate([f, t, u], NAMES).weights, joint.sum((0, 1, 2, 3)))
    close(float(fb.eliminate([f, t, u], (*NAMES, "k"), semiring=fb.max_product)), joint.max())
    found = fb.marginals([f, t, u], (*NAMES, "k"))
    for axis, name in enumerate((*NAMES, "k")):
        others = tuple(k for k in range(5) if k != axis)
        close(found[name].weights, joint.sum(others) / joint.sum())
    best = fb.argmax([f, t, u], (*NAMES, "k"))
    assert tuple(int(best[name]) for name in (*NAMES, "k")) == np.unravel_index(joint.argmax(), joint.shape)
    draws = fb.sample(jax.random.key(0), [f, t, u], (*NAMES, "k"), n=4000)
    cells = np.zeros(joint.shape)
    np.add.at(cells, tuple(np.asarray(draws[name]) for name in (*NAMES, "k")), 1 / 4000)
    assert np.abs(cells - joint / joint.sum()).max() < 5 * np.sqrt(0.25 / 4000)


def test_explain_and_print() -> None:
    f = circuit(0, 1)
    assert "Σ" in str(fb.explain([f, table("bd", 0)], sum=NAMES))
    assert f"{f}" == "Circuit(a: Bint[2], b: Bint[2], c: Bint[2], d: Bint[2])"
    assert "elements in 2 layers, a PSDD" in repr(f)
    assert "… 4 more" in f"{permutations(4)}"


# -- engines --------------------------------------------------------------------------------------------------------


def test_numpy_stays_numpy_and_jax_stays_jax() -> None:
    f = circuit(0, 1)
    assert product_of(f, table("bd", 0)).is_on_numpy
    h = product_of(on_jax(f), table("bd", 0))
    assert not h.is_on_numpy and isinstance(h.sum(*NAMES).pair.weights, jax.Array)
    np.testing.assert_allclose(np.asarray(to_table(h).weights), dense(product_of(f, table("bd", 0))), rtol=1e-5)


@pytest.mark.parametrize("kind", [0, 3])
def test_jit_vmap_and_grad(kind: int) -> None:
    f, t = circuit(kind, 2), table("bd", 0)
    p = dense(f)

    def log_mass(weights: Any, g: Circuit) -> Any:
        return product_of(g, fb.Table(weights, ("b", "d"))).sum(*NAMES).log().data

    weights = jnp.asarray(t.weights)
    expected = np.einsum("abcd,bd->", p, t.weights)
    found = jax.jit(log_mass)(weights, on_jax(f))
    np.testing.assert_allclose(found, np.log(expected), rtol=1e-5)
    gradient = jax.jit(jax.grad(log_mass))(weights, on_jax(f))
    np.testing.assert_allclose(gradient, p.sum((0, 2)) / expected, rtol=1e-4)
    many = jax.vmap(log_mass, (0, None))(jnp.stack([weights, 2 * weights]), on_jax(f))
    np.testing.assert_allclose(many, np.log(expected) + np.array([0.0, np.log(2)]), rtol=1e-5)
    rows = jnp.asarray(list(product((0, 1), repeat=4)))
    by_theta = jax.grad(lambda g: jnp.sum(jnp.exp(g.log_evidence(rows))))(on_jax(f))
    shares = f.diagram.owner == f.diagram.count - 1
    np.testing.assert_allclose(np.asarray(by_theta._log_theta)[shares].sum(), p.sum(), rtol=1e-4)
    marginals = jax.jit(lambda g: g.marginal_probabilities())(on_jax(f))
    np.testing.assert_allclose(marginals, f.marginal_probabilities(), rtol=1e-5)
    best = jax.jit(lambda g: {name: value.array for name, value in interpret(CHOOSE, g, NAMES).items()})(on_jax(f))
    assert {name: int(at) for name, at in best.items()} == {name: int(at) for name, at in f.argmax().items()}
    draws = jax.jit(lambda key, g: g.sample(key, n=50))(jax.random.key(0), on_jax(f))
    assert (p[tuple(np.asarray(draws[name]) for name in NAMES)] > 0).all()


def test_derivative_at_a_zero_weight() -> None:
    f = circuit(0, 2)
    p = dense(f)

    def mass(weights: Any) -> Any:
        return product_of(on_jax(f), fb.Table(weights, ("b",))).sum(*NAMES).numbers().data

    np.testing.assert_allclose(jax.grad(mass)(jnp.array([0.0, 1.0])), p.sum((0, 2, 3)), rtol=1e-5)


def test_vmap_returns_a_circuit_whose_axis_is_named() -> None:
    f = circuit(0, 2)
    scales = jnp.array([1.0, 3.0])
    many = jax.vmap(lambda s: product_of(on_jax(f), fb.Table(s)))(scales)
    with pytest.raises(DomainError, match="name_axis"):
        many.sum(*NAMES)
    named = fb.name_axis(many, "i")
    np.testing.assert_allclose(named.sum(*NAMES).weights, dense(f).sum() * np.asarray(scales), rtol=1e-5)


def test_learning_on_jax() -> None:
    rows = np.eye(4, dtype=int)[[0, 0, 1, 3]]
    f = exactly_one(NAMES)
    p, q = learn(f, rows, pseudo_count=1.0), learn(f, jnp.asarray(rows), pseudo_count=1.0)
    assert not q.is_on_numpy
    np.testing.assert_allclose(np.exp(np.asarray(q._log_theta)), np.exp(p._log_theta), rtol=1e-5)


def test_data_errors_under_tracing_are_nan() -> None:
    f, g = on_jax(circuit(4, 1)), on_jax(circuit(0, 2))
    assert np.isnan(jax.jit(lambda f, g: interpret(DIVIDE, f, g).sum(*NAMES).log().data)(f, g))
    zero = jax.jit(lambda w: interpret(DIVIDE, f, fb.Table(w, ("b",))).sum(*NAMES).log().data)
    assert np.isnan(zero(jnp.array([1.0, 0.0]))) and np.isfinite(zero(jnp.array([1.0, 2.0])))
    at = jax.jit(lambda k: f(a=k, b=0, c=0, d=0).log().data)
    assert np.isnan(at(5)) and np.isfinite(at(1))


def test_pickle_and_structural_key() -> None:
    import pickle

    f = circuit(0, 1)
    g = pickle.loads(pickle.dumps(f))
    close(dense(g), dense(f))
    assert f.structure == circuit(0, 5).structure != circuit(1, 1).structure


# -- errors ---------------------------------------------------------------------------------------------------------


def test_errors() -> None:
    with pytest.raises(DataError, match="contradict each other"):
        from_clauses([{"a": True}, {"a": False}])
    with pytest.raises(UnknownName, match="'c'"):
        from_clauses([{"c": True}], ("a", "b"))
    with pytest.raises(NameClash, match="all different"):
        unconstrained(("a", "a"))
    with pytest.raises(DomainError, match="once"):
        unconstrained(("a", "b"), vtree=(0, 0))
    with pytest.raises(DomainError, match="Bint"):
        from_formula(fb.Variable("n", fb.Bint[3]) == 1)
    with pytest.raises(DomainError, match="in the formula"):
        from_formula((A + B) == 1)
    with pytest.raises(UnknownName, match="'z'"):
        circuit(0, 1).sum("z")
    with pytest.raises(DataError, match="0, 1, or −1"):
        circuit(0, 1).log_evidence([[0, 1, 2, 0]])
    with pytest.raises(DataError, match="in which there is one"):
        simple_paths([(0, 1), (2, 3)], 0, 3)


def test_errors_of_large_circuits() -> None:
    names = [f"x{k}" for k in range(30)]
    f, g = parity(names, is_odd=True), parity(names[::-1], is_odd=True)
    with pytest.raises(Intractable, match="vtrees differ"):
        product_of(f, g)
    with pytest.raises(Intractable, match="vtrees differ"):
        interpret(DIVIDE, f, g)
    with pytest.raises(Intractable, match="deterministic"):
        interpret(DIVIDE, f, parity(names, is_odd=False).sum("x0"))
    with pytest.raises(MemoryLimit, match="as a Table"):
        f.log()


def test_without_mass() -> None:
    f = product_of(circuit(0, 1), fb.Table([0.0, 0.0], ("a",)))
    with pytest.raises(DataError, match="zero everywhere"):
        f.marginal_probabilities()  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="zero everywhere"):
        f.argmax()
    with pytest.raises(DataError, match="zero everywhere"):
        f.sample(jax.random.key(0))


def test_counts_by_enumeration() -> None:
    assert parity(NAMES, is_odd=False).count_models() == count(lambda cell: sum(cell) % 2 == 0, 4)
    assert circuit(2, 0).count_models() == count(lambda cell: bool(cell[2] or cell[3]), 4)
