"""Circuits in both precisions of JAX, checks inside a trace that are exact, and divergences without a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations as orders
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.factors.circuit import Circuit
from fubini.factors.circuit_constructors import from_clauses, parity, permutations, simple_paths, unconstrained
from fubini.factors.circuit_learning import learn
from fubini.numerics.circuit_models import count_residues, primes_beyond
from tests.factors.circuits import NAMES, circuit, dense, randomized
from tests.factors.test_circuit_plans import permanent

ENGINES = pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])


def moved(f: Any, array: Any = jnp.asarray) -> Any:
    return jax.tree.map(array, f)


# -- precision ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def tolerance(request: pytest.FixtureRequest) -> Iterator[float]:
    """The relative error allowed in each precision, which is in force meanwhile."""
    with jax.enable_x64(request.param):
        yield 1e-9 if request.param else 1e-4


def test_rankings_in_both_precisions(tolerance: float) -> None:
    """Sums, marginals, products and quotients of rankings of six items against permanents; the best one by listing."""
    n = 6
    f = moved(permutations(n))
    odds = np.random.default_rng(0).uniform(0.2, 2.0, (n, n))
    tables = [fb.Table(jnp.asarray([1.0, odd]), (name,)) for odd, name in zip(odds.ravel(), f.variables, strict=True)]
    g = f.multiply(*tables)
    assert isinstance(g, Circuit)
    total = permanent(odds)
    np.testing.assert_allclose(g.sum(*f.variables).log().data, np.log(total), rtol=tolerance)
    minors = [permanent(np.delete(np.delete(odds, k // n, 0), k % n, 1)) for k in range(n * n)]
    np.testing.assert_allclose(g.marginal_probabilities(), odds.ravel() * minors / total, rtol=tolerance)
    np.testing.assert_allclose((g * g).sum(*f.variables).log().data, np.log(permanent(odds**2)), rtol=tolerance)
    quotient = (g / moved(learned(n, 1))).sum(*f.variables)
    rows = rows_of(n)
    logs = rows @ np.log(odds.ravel())
    expected = np.log(np.sum(np.exp(logs - learned(n, 1).log_evidence(rows))))
    np.testing.assert_allclose(quotient.log().data, expected, rtol=tolerance)
    best = g.argmax()
    assert [int(best[name]) for name in f.variables] == rows[np.argmax(logs)].tolist()


def test_parity_and_routes_in_both_precisions(tolerance: float) -> None:
    """2^63 sets of odd size, of 64; P(x = 1) = ½; the 184 routes of a 4 × 4 grid of nodes."""
    names = [f"x{k}" for k in range(64)]
    f = moved(parity(names, is_odd=True))
    np.testing.assert_allclose(f.sum(*names).log().data, 63 * np.log(2.0), rtol=tolerance)
    np.testing.assert_allclose(f.marginal_probabilities(), 0.5, rtol=tolerance)
    tables = [fb.Table(jnp.asarray([0.4, 0.6]), (name,)) for name in names]
    np.testing.assert_allclose(float(fb.eliminate([f, *tables], names)), (1 - (-0.2) ** 64) / 2, rtol=tolerance)
    edges = [((i, j), (i, j + 1)) for i in range(4) for j in range(3)]
    edges += [((j, i), (j + 1, i)) for i in range(4) for j in range(3)]
    routes = moved(simple_paths(edges, (0, 0), (3, 3)))
    np.testing.assert_allclose(routes.sum(*routes.variables).log().data, np.log(184), rtol=tolerance)
    assert routes.log_evidence(-np.ones((1, 24), int)).dtype == (jnp.float64 if tolerance < 1e-6 else jnp.float32)


# -- checks in a trace ----------------------------------------------------------------------------------------------


def test_residues_are_those_of_the_count() -> None:
    for f in (permutations(5), circuit(0, 1), parity([f"x{k}" for k in range(40)], is_odd=True)):
        primes = primes_beyond(2**100)
        weights = f.weights_of_nodes
        found = count_residues(f.diagram, weights.leaves > 0, weights.log_theta > -np.inf, primes)
        assert np.asarray(found).tolist() == [f.count_models() % int(prime) for prime in primes]


def test_a_quotient_by_a_narrower_structure_in_a_trace() -> None:
    """What the divisor's structure excludes, the dividend's weights may exclude too: then there is a quotient."""
    f, g = unconstrained(NAMES), randomized(from_clauses([{"a": True}], NAMES), 1)
    ratio = jax.jit(lambda f, g, w: (f.multiply(fb.Table(w, ("a",))) / g).sum(*NAMES).log().data)
    expected = np.sum(np.where(dense(g) > 0, 3.0 / np.where(dense(g) > 0, dense(g), 1.0), 0.0))
    np.testing.assert_allclose(ratio(moved(f), moved(g), jnp.array([0.0, 3.0])), np.log(expected), rtol=1e-5)
    assert np.isnan(ratio(moved(f), moved(g), jnp.array([1e-30, 3.0])))


def test_one_assignment_among_many_is_seen_in_a_trace() -> None:
    """Of 2^60 assignments one is zero in the divisor: a ratio of masses in floating point would not show it."""
    names = [f"x{k}" for k in range(60)]
    f, g = unconstrained(names), from_clauses([dict.fromkeys(names, True)], names)
    assert g.count_models() == 2**60 - 1
    vtree = f.diagram.vtree
    assert g.diagram.vtree == vtree
    ratio = jax.jit(lambda f, g: (f / g).sum(*names).log().data)
    assert np.isnan(ratio(moved(f), moved(g)))
    np.testing.assert_allclose(ratio(moved(g), moved(f)), 60 * np.log(2.0), rtol=1e-5)
    power = jax.jit(lambda f, a: (f**a).sum(*names).log().data)
    assert np.isnan(power(moved(g), -1.0))
    np.testing.assert_allclose(power(moved(f), -1.0), 60 * np.log(2.0), rtol=1e-5)


def test_checks_of_a_batch_in_a_trace() -> None:
    f, g = unconstrained(NAMES), randomized(from_clauses([{"a": True}], NAMES), 1)
    tables = jnp.array([[0.0, 1.0], [1.0, 1.0]])
    ratio = jax.jit(lambda w: (moved(f).multiply(fb.Table(w, ("i", "a"))) / moved(g)).sum(*NAMES).log().data)
    assert np.isnan(ratio(tables)).tolist() == [False, True]


# -- divergences ----------------------------------------------------------------------------------------------------


def learned(n: int, seed: int) -> Circuit:
    rng = np.random.default_rng(seed)
    rows = np.eye(n, dtype=int)[[rng.permutation(n) for _ in range(30)]].reshape(30, -1)
    return learn(permutations(n), rows, pseudo_count=0.5)


def rows_of(n: int) -> np.ndarray:
    return np.stack([np.eye(n, dtype=int)[list(order)].ravel() for order in orders(range(n))])


@ENGINES
def test_kl_without_a_table(array) -> None:
    """Σ p log(p/q) over the 120 rankings of five items: 2^25 cells would be too many for a table."""
    p, q, rows = learned(5, 0), learned(5, 1), rows_of(5)
    logs = [f.log_evidence(rows) for f in (p, q)]
    expected = np.sum(np.exp(logs[0]) * (logs[0] - logs[1]))
    found = moved(p, array).kl(moved(q, array) * 3.0)
    assert float(found) == pytest.approx(expected, rel=1e-4 if array is jnp.asarray else 1e-9)
    assert float(moved(p, array).kl(moved(p, array))) == pytest.approx(0.0, abs=1e-4 if array is jnp.asarray else 1e-12)


@pytest.mark.parametrize("kind", range(5))
def test_kl_of_circuits_with_zeros(kind) -> None:
    f = circuit(kind, 3)
    for other in range(5):
        g = circuit(other, 4)
        p, q = dense(f) / dense(f).sum(), dense(g) / dense(g).sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.sum(np.where(p > 0, p * (np.log(np.where(p > 0, p, 1.0)) - np.log(q)), 0.0))
        assert float(f.kl(g)) == pytest.approx(expected, rel=1e-9)
        assert float(jax.jit(lambda f, g: f.kl(g).data)(moved(f), moved(g))) == pytest.approx(
            expected, rel=1e-4, abs=1e-6
        )


def test_kl_where_the_divisor_is_not_deterministic() -> None:
    """Marginals of two of four names, as tables."""
    f, g = circuit(4, 3), circuit(4, 4)
    p, q = (dense(h).sum((2, 3)) / dense(h).sum() for h in (f, g))
    assert float(f.kl(g, "a", "b")) == pytest.approx(np.sum(p * np.log(p / q)), rel=1e-9)


def test_the_mean_of_one_of_many() -> None:
    f = learned(5, 0)
    others = f.variables[1:]
    assert float(f.sum(*others).mean(f.variables[0])) == pytest.approx(float(f.marginal_probabilities()[0]))
    with pytest.raises(fb.errors.MemoryLimit, match="marginal_probabilities"):
        f.mean(f.variables[0])
