"""Circuits of permutations, parity and routes against permanents, closed forms, and enumeration, to 1e-9."""

from itertools import permutations as orders
from typing import Any

import numba
import numpy as np
import pytest
from pysdd.sdd import SddManager
from scipy.optimize import linear_sum_assignment

import fubini as fb
from fubini.factors.circuit import Circuit
from fubini.factors.circuit_constructors import parity, permutations, simple_paths
from fubini.numerics import sdd

from .circuits import randomized

SIZES = range(3, 11)


def close(left: Any, right: Any) -> None:
    np.testing.assert_allclose(np.asarray(left, float), np.asarray(right, float), rtol=1e-9)


def weighted(f: Circuit, ones: np.ndarray, zeros: np.ndarray | None = None) -> Circuit:
    """f times a weight of each variable at 1, and at 0."""
    zeros = np.ones(len(ones)) if zeros is None else zeros
    tables = [fb.Table([b, a], (name,)) for name, a, b in zip(f.variables, ones, zeros, strict=True)]
    result = f.multiply(*tables)
    assert isinstance(result, Circuit) and result.is_deterministic and result.exactness.is_exact
    return result


def quotient(f: Circuit, g: Circuit) -> Circuit:
    result = f / g
    assert isinstance(result, Circuit) and result.is_deterministic and result.exactness.is_exact
    return result


def mass(f: fb.Factor) -> float:
    return float(f.sum(*f.inputs).log().data)


# -- permutations ---------------------------------------------------------------------------------------------------


def permanent(matrix: np.ndarray) -> float:
    """Σ_σ Π_i a[i, σ(i)], a row at a time over sets of columns: no subtraction."""
    n = len(matrix)
    total = np.zeros(2**n)
    total[0] = 1.0
    for row in matrix:
        new = np.zeros(2**n)
        for column in range(n):
            sets = np.flatnonzero(np.arange(2**n) >> column & 1 == 0)
            new[sets | 1 << column] += total[sets] * row[column]
        total = new
    return float(total[-1])


def minor(matrix: np.ndarray, i: int, j: int) -> np.ndarray:
    return np.delete(np.delete(matrix, i, 0), j, 1)


@pytest.mark.parametrize("n", SIZES)
def test_permutations(n: int) -> None:
    """The number of models, the mass, marginals, most probable permutation, product and quotient of weighted ones."""
    rng = np.random.default_rng(n)
    a, b = rng.uniform(0.2, 2.0, (2, n, n))
    base = permutations(n)
    assert base.count_models() == np.prod(np.arange(1, n + 1, dtype=object))
    f, g = (weighted(base, part.ravel()) for part in (a, b))
    close(mass(f), np.log(permanent(a)))
    close(mass(f.multiply(g)), np.log(permanent(a * b)))
    close(mass(quotient(f, g)), np.log(permanent(a / b)))
    expected = [a[i, j] * permanent(minor(a, i, j)) / permanent(a) for i in range(n) for j in range(n)]
    close(f.marginal_probabilities(), expected)
    best = f.argmax()
    assert np.reshape([best[name] for name in f.variables], (n, n)).argmax(1).tolist() == (
        linear_sum_assignment(np.log(a), maximize=True)[1].tolist()
    )
    first = f(**{"x[0,1]": 1})
    close(mass(first), np.log(a[0, 1] * permanent(minor(a, 0, 1))))
    rest = f.sum(*f.variables[:n])
    assert isinstance(rest, Circuit) and rest.nodes == "sum" and rest.exactness.is_exact
    close(mass(rest), np.log(permanent(a)))


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_permutations_with_weights_of_elements(n: int) -> None:
    """Circuits whose elements have weights of their own, at every permutation; the excluded rows are zero."""
    base = permutations(n)
    f, g = randomized(base, 1), randomized(base, 2)
    rows = np.stack([np.eye(n, dtype=int)[list(order)].ravel() for order in orders(range(n))])
    p, q = (circuit.log_evidence(rows) for circuit in (f, g))
    close(mass(f), np.logaddexp.reduce(p))
    close(f.multiply(g).log_evidence(rows), p + q)
    close(quotient(f, g).log_evidence(rows), p - q)
    shares = np.exp(p - np.logaddexp.reduce(p))
    close(f.marginal_probabilities(), shares @ rows)
    best = f.argmax()
    assert [best[name] for name in f.variables] == rows[p.argmax()].tolist()
    wrong = rows.copy()
    wrong[:, 0] = 1 - wrong[:, 0]
    assert (f.log_evidence(wrong) == -np.inf).all()


# -- parity ---------------------------------------------------------------------------------------------------------


def odd(ones: np.ndarray, zeros: np.ndarray) -> float:
    """Σ over an odd number of ones:  ½ (Π (w₀ + w₁) − Π (w₀ − w₁))"""
    return float(np.prod(zeros + ones) - np.prod(zeros - ones)) / 2


def test_parity_of_64_bits() -> None:
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(64)]
    base = parity(names, is_odd=True)
    assert base.count_models() == 2**63
    a, b, c, d = rng.uniform(0.2, 1.0, (4, 64))
    f, g = weighted(base, a, b), weighted(base, c, d)
    close(mass(f), np.log(odd(a, b)))
    close(mass(f.multiply(g)), np.log(odd(a * c, b * d)))
    close(mass(quotient(f, g)), np.log(odd(a / c, b / d)))
    even = [a[k] * (np.prod(np.delete(a + b, k)) + np.prod(np.delete(b - a, k))) / 2 for k in range(64)]
    close(f.marginal_probabilities(), np.asarray(even) / odd(a, b))
    best = (a > b).astype(int)
    if best.sum() % 2 == 0:
        best[np.abs(np.log(a / b)).argmin()] ^= 1
    chosen = f.argmax()
    assert [chosen[name] for name in names] == best.tolist()


def test_parity_as_pysdd_has_it() -> None:
    rng = np.random.default_rng(1)
    ones, zeros = rng.uniform(0.2, 1.0, (2, 64))
    manager = SddManager(var_count=64)
    diagram = sdd.parity(range(64), True)(manager)
    counter = diagram.wmc(log_mode=True)
    for variable in range(64):
        counter.set_literal_weight(manager.literal(variable + 1), np.log(ones[variable]))
        counter.set_literal_weight(manager.literal(-variable - 1), np.log(zeros[variable]))
    f = weighted(parity([f"x{k}" for k in range(64)], is_odd=True), ones, zeros)
    close(mass(f), counter.propagate())


# -- routes ---------------------------------------------------------------------------------------------------------


def grid(n: int) -> list[tuple[int, int]]:
    """The edges of n by n nodes, numbered row by row."""
    across = [(n * i + j, n * i + j + 1) for i in range(n) for j in range(n - 1)]
    return sorted(across + [(n * i + j, n * i + j + n) for i in range(n - 1) for j in range(n)])


@numba.njit
def walk(starts, targets, numbers, end, weights):
    """Every simple path from node 0 to the last, depth first: how many, their weight, through each edge, the best."""
    nodes = len(starts) - 1
    path, edges, at = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    value = np.ones(nodes)
    seen = np.zeros(nodes, np.bool_)
    through, best = np.zeros(len(weights)), np.zeros(len(weights), np.bool_)
    count, total, top, depth = 0, 0.0, 0.0, 0
    seen[0] = True
    at[0] = starts[0]
    while depth >= 0:
        node = path[depth]
        if node == end or at[depth] == starts[node + 1]:
            if node == end:
                count += 1
                total += value[depth]
                for k in range(1, depth + 1):
                    through[edges[k]] += value[depth]
                if value[depth] > top:
                    top = value[depth]
                    best[:] = False
                    for k in range(1, depth + 1):
                        best[edges[k]] = True
            seen[node] = False
            depth -= 1
            continue
        step = at[depth]
        at[depth] += 1
        if not seen[targets[step]]:
            depth += 1
            path[depth], edges[depth], at[depth] = targets[step], numbers[step], starts[targets[step]]
            value[depth] = value[depth - 1] * weights[numbers[step]]
            seen[targets[step]] = True
    return count, total, through, best


def enumerate_paths(n: int, weights: np.ndarray) -> tuple:
    both = [(u, v, k) for k, (u, v) in enumerate(grid(n))]
    both = sorted(both + [(v, u, k) for u, v, k in both])
    starts = np.searchsorted([u for u, _, _ in both], np.arange(n * n + 1))
    targets, numbers = (np.asarray([row[column] for row in both]) for column in (1, 2))
    return walk(starts, targets, numbers, n * n - 1, weights)


@pytest.mark.parametrize(("n", "paths"), [(2, 2), (3, 12), (4, 184), (5, 8512), (6, 1_262_816)])
def test_routes(n: int, paths: int) -> None:
    """Simple paths from corner to corner of n by n nodes, 1,262,816 for six (OEIS A007764), one after another."""
    rng = np.random.default_rng(n)
    a, b = rng.uniform(0.3, 1.5, (2, len(grid(n))))
    base = simple_paths(grid(n), 0, n * n - 1)
    count, total, through, best = enumerate_paths(n, a)
    assert base.count_models() == count == paths
    f, g = weighted(base, a), weighted(base, b)
    close(mass(f), np.log(total))
    close(f.marginal_probabilities(), through / total)
    chosen = f.argmax()
    assert [chosen[name] for name in f.variables] == best.tolist()
    close(mass(f.multiply(g)), np.log(enumerate_paths(n, a * b)[1]))
    close(mass(quotient(f, g)), np.log(enumerate_paths(n, a / b)[1]))


def test_routes_of_six_by_six_cells() -> None:
    """Counted by cells instead of nodes there are 575,780,564 (OEIS A007764, seven nodes a side)."""
    assert simple_paths(grid(7), 0, 48).count_models() == 575_780_564
