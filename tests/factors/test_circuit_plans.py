"""Plans with circuits: 100 Booleans and a table of each are summed, chosen from and drawn from within seconds.

Rankings of ten items: the sum is a permanent, the best one an assignment problem.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import fubini as fb
from fubini.eliminate.forward import find_plan
from fubini.eliminate.prepare import problem_of
from fubini.factors.circuit import Circuit
from fubini.factors.circuit_constructors import parity, permutations, unconstrained
from fubini.factors.circuit_storage import CircuitStorage
from fubini.terms.storage import DENSE, joined_storage
from tests.factors.circuits import NAMES, circuit, dense

ENGINES = pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
N = 10


def moved(f: Circuit, array: Any) -> Circuit:
    return jax.tree.map(array, f)


def rankings(array: Any = np.asarray, n: int = N) -> tuple[Circuit, list[fb.Table], np.ndarray]:
    """The circuit of rankings, a table of each Boolean, and the odds of these as a matrix."""
    f = moved(permutations(n), array)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, (n * n, 2))
    tables = [fb.Table(array(row), (name,)) for row, name in zip(weights, f.variables, strict=True)]
    return f, tables, (weights[:, 1] / weights[:, 0]).reshape(n, n)


def permanent(matrix: np.ndarray) -> float:
    """Ryser's formula, Σ_S (−1)^(n−|S|) Π_i Σ_{j ∈ S} a_ij"""
    n = len(matrix)
    subsets = np.arange(1, 2**n)[:, None] >> np.arange(n) & 1
    signs = (-1.0) ** (n - subsets.sum(1))
    return float(signs @ np.prod(matrix @ subsets.T, axis=0))


def base(tables: list[fb.Table]) -> float:
    """log Π t(0)"""
    return sum(float(np.log(table.weights[0])) for table in tables)


# -- 100 Booleans ---------------------------------------------------------------------------------------------------


@ENGINES
def test_sum(array):
    f, tables, odds = rankings(array)
    names = f.variables
    start = time.perf_counter()
    plan = find_plan(problem_of([f, *tables], [(name, None) for name in names]), True)
    assert time.perf_counter() - start < 3.0
    assert plan.largest == 1 and plan.work == 2 * f.diagram.leaves + f.size
    expected = base(tables) + np.log(permanent(odds))
    whole = fb.eliminate([f, *tables], names)
    assert type(whole) is fb.Table and whole.exactness.is_exact
    assert float(whole.log()) == pytest.approx(expected, rel=1e-5 if array is jnp.asarray else 1e-9)
    product = f
    for table in tables:
        product = product * table
    assert float(product.sum(*names).log()) == pytest.approx(float(whole.log()))


@ENGINES
def test_marginals(array):
    f, tables, odds = rankings(array)
    found = fb.marginals([f, *tables], f.variables)
    total = permanent(odds)
    for i, j in [(0, 0), (3, 7), (9, 9)]:
        minor = np.delete(np.delete(odds, i, 0), j, 1)
        one = odds[i, j] * permanent(minor) / total
        name = f.variables[i * N + j]
        assert type(found[name]) is fb.Table and tuple(found[name].inputs) == (name,)
        np.testing.assert_allclose(found[name].weights, [1 - one, one], rtol=1e-4 if array is jnp.asarray else 1e-9)


def test_argmax():
    f, tables, odds = rankings()
    rows, columns = linear_sum_assignment(np.log(odds), maximize=True)
    best = fb.argmax([f, *tables], f.variables)
    ranking = np.reshape([best[name] for name in f.variables], (N, N))
    assert (ranking[rows, columns] == 1).all() and ranking.sum() == N
    alone = fb.argmax([f], f.variables)  # without a table any ranking is best
    assert sum(int(value) for value in alone.values()) == N


def test_sample():
    f, tables, _ = rankings()
    draws = fb.sample(jax.random.key(0), [f, *tables], f.variables, n=4000)
    drawn = np.stack([draws[name] for name in f.variables], -1).reshape(-1, N, N)
    assert (drawn.sum(1) == 1).all() and (drawn.sum(2) == 1).all()
    shares = fb.marginals([f, *tables], f.variables)
    expected = np.reshape([shares[name].weights[1] for name in f.variables], (N, N))
    np.testing.assert_array_less(abs(drawn.mean(0) - expected), 4.5 * np.sqrt(expected * (1 - expected) / 4000))


@pytest.mark.parametrize("method", ["shafer-shenoy", "hugin", "belief propagation"])
def test_propagate(method):
    f, tables, odds = rankings()
    result = fb.propagate([f, *tables], method=method)
    assert float(result.log_evidence) == pytest.approx(base(tables) + np.log(permanent(odds)), rel=1e-9)
    expected = fb.marginals([f, *tables], f.variables)
    for name in f.variables[::9]:
        np.testing.assert_allclose(result.marginals[name].weights, expected[name].weights, rtol=1e-9)
    best = fb.propagate([f, *tables], method=method, semiring=fb.max_product).assignment
    assert best is not None and best == fb.argmax([f, *tables], f.variables)


def test_propagate_on_jax():
    f, tables, odds = rankings(jnp.asarray, 4)
    result = fb.propagate([f, *tables], method="shafer-shenoy")
    assert float(result.log_evidence) == pytest.approx(base(tables) + np.log(permanent(odds)), rel=1e-5)


def test_under_jit_and_new_numbers_compile_nothing():
    f, tables, odds = rankings(jnp.asarray, 4)
    traced = []

    @jax.jit
    def evidence(f, tables):
        traced.append(1)
        return fb.eliminate([f, *tables], f.variables).log().data

    expected = base(tables) + np.log(permanent(odds))
    np.testing.assert_allclose(evidence(f, tables), expected, rtol=1e-5)
    doubled = [table * 2.0 for table in tables]
    np.testing.assert_allclose(
        evidence(f, [t._joined() for t in doubled]), expected + len(tables) * np.log(2.0), rtol=1e-5
    )
    assert len(traced) == 1


# -- beside other factors, against enumeration ----------------------------------------------------------------------


@ENGINES
@pytest.mark.parametrize("kind", range(5))
def test_beside_tables_and_other_variables(kind, array):
    f = moved(circuit(kind, 1), array)
    rng = np.random.default_rng(kind)
    scopes = [("z", "a", "u"), ("b", "d"), ("c",), ("c",), ("d",), ("z",)]
    sizes = {"z": 3, "u": 2, **dict.fromkeys(NAMES, 2)}
    tables = [fb.Table(array(rng.uniform(0.5, 1.5, [sizes[n] for n in scope])), scope) for scope in scopes]
    axes = {name: k for k, name in enumerate((*NAMES, "z", "u"))}
    operands: list[Any] = [np.asarray(dense(circuit(kind, 1), NAMES)), [axes[name] for name in NAMES]]
    for table, scope in zip(tables, scopes, strict=True):
        operands += [np.asarray(table.weights, float), [axes[name] for name in scope]]
    cells = np.einsum(*operands, list(range(6)))
    precision = 1e-5 if array is jnp.asarray else 1e-9
    assert float(fb.eliminate([f, *tables], tuple(axes))) == pytest.approx(cells.sum(), rel=precision)
    for semiring, reduce in ((fb.sum_product, np.sum), (fb.max_product, np.max)):
        found = fb.marginals([f, *tables], tuple(axes), semiring=semiring)
        for name, axis in axes.items():
            expected = reduce(cells, tuple(other for other in range(6) if other != axis))
            np.testing.assert_allclose(found[name].weights, expected / expected.sum(), rtol=precision)
    given = fb.marginals([f, *tables], NAMES, batch=("z",))
    for name in NAMES:
        expected = cells.sum(tuple(other for other in range(6) if other not in (axes[name], axes["z"])))
        share = given[name].transposed((name, "z")).weights
        np.testing.assert_allclose(share, expected / expected.sum(0), rtol=precision)
    best = fb.argmax([f, *tables], tuple(axes))
    assert cells[tuple(int(best[name]) for name in axes)] == pytest.approx(cells.max(), rel=precision)


def test_two_circuits():
    f, g = circuit(0, 1), circuit(3, 2)
    cells = dense(f, NAMES) * dense(g, NAMES)
    assert float(fb.eliminate([f, g], NAMES)) == pytest.approx(cells.sum())
    shares = fb.marginals([f, g], NAMES)
    for axis, name in enumerate(NAMES):
        expected = cells.sum(tuple(other for other in range(4) if other != axis)) / cells.sum()
        np.testing.assert_allclose(shares[name].weights, expected)


def test_circuits_side_by_side():
    f, g = circuit(0, 1), circuit(3, 2, ("e", "f", "g", "h"))
    link = fb.Table([[1.0, 0.5], [0.25, 2.0]], ("a", "e"))
    cells = np.einsum("abcd,efgh,ae->abcdefgh", dense(f), dense(g), link.weights)
    names = (*NAMES, "e", "f", "g", "h")
    assert float(fb.eliminate([f, link, g], names)) == pytest.approx(cells.sum())
    shares = fb.marginals([f, link, g], names)
    for axis, name in enumerate(names):
        expected = cells.sum(tuple(other for other in range(8) if other != axis)) / cells.sum()
        np.testing.assert_allclose(shares[name].weights, expected)


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0)])
def test_tables_with_zeros(shares):
    f, names = parity(NAMES, is_odd=True), NAMES
    tables = [fb.Table([0.3, 0.7], (name,)) for name in names[1:]]
    found = fb.marginals([f, *tables, fb.Table(shares, ("a",))], names)
    np.testing.assert_allclose(found["a"].weights, shares)
    cells = [c for c in itertools.product((0, 1), repeat=3) if (sum(c) + shares[1]) % 2 == 1]
    weights = np.array([np.prod([0.7 if x else 0.3 for x in c]) for c in cells])
    one = weights[[c[0] == 1 for c in cells]].sum() / weights.sum()
    np.testing.assert_allclose(found["b"].weights, [1 - one, one])


def test_without_mass():
    f = parity(NAMES, is_odd=True)
    zero = [fb.Table([1.0, 0.0], (name,)) for name in NAMES]
    with pytest.raises(fb.errors.DataError, match="mass"):
        fb.marginals([f, *zero], NAMES)
    with pytest.raises(fb.errors.DataError):
        fb.marginals([moved(f, jnp.asarray), *zero], NAMES)


# -- storages -------------------------------------------------------------------------------------------------------


def test_storage():
    f = permutations(4)
    own = f.storage
    assert own == permutations(4).storage and hash(own) == hash(permutations(4).storage)
    sizes = {**dict.fromkeys(f.variables, 2), "z": 3}
    numbers = 2 * f.diagram.leaves + f.size
    assert own.size(f.variables, sizes, {}) == numbers
    assert own.size((*f.variables, "z"), sizes, {}) == 3 * numbers
    assert own.joined(DENSE) is own and joined_storage([DENSE, own]) is own
    assert joined_storage([own, own]).size(f.variables, sizes, {}) == numbers**2
    assert own.summed(f.variables[:2]) is own and own.summed(f.variables[:1]) is DENSE and own.summed(("z",)) is DENSE


def test_storage_over_other_vtrees():
    names = ("a", "b", "c")
    f, g = unconstrained(names), unconstrained(names, vtree=(0, (1, 2)))
    assert f.storage.joined(g.storage) is None
    beside = f.storage.joined(unconstrained(("d", "e")).storage)
    assert isinstance(beside, CircuitStorage) and beside.size(("a", "d"), {"a": 2, "d": 2}, {}) == (
        f.storage.size(names, dict.fromkeys(names, 2), {}) + unconstrained(("d", "e")).storage.size((), {}, {})
    )


def test_explain_names_the_rule():
    f, tables, _ = rankings(n=4)
    shown = fb.explain([f, *tables], sum=f.variables)
    assert shown.lines[0].rule == "multiply_circuit_many" and shown.lines[0].work == f.storage.size((), {}, {})
