"""Contraction of keyed weights against einsum: as matrices, in blocks, in log space, and in a fixed number of slots."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.numerics import keyed_contraction
from fubini.numerics.keyed_contraction import Contracted, Operand, contract_keyed
from fubini.numerics.scaled import Scaled, read_log

K, X, S, Y = 3, 5, 4, 6
RNG = np.random.default_rng(0)
F = RNG.uniform(0.5, 2.0, (K, X, S)) * (RNG.uniform(size=(K, X, S)) < 0.4)
G = RNG.uniform(0.5, 2.0, (K, S, Y)) * (RNG.uniform(size=(K, S, Y)) < 0.4)


def operands(xp: Any, far: float = 0.0) -> tuple[Operand, Operand]:
    """f over (k, x) and (k, s), g over y and (k, s); `far` nats between the weights of neighbouring s."""
    k, x, s = np.nonzero(F)
    j, r, y = np.nonzero(G)
    shift = xp.asarray(far * s) if far else 0.0
    f = Operand(xp.asarray(k * S + s), xp.asarray(k * X + x), Scaled(xp.asarray(F[k, x, s]), shift), (K * S, K * X), X)
    g = Operand(xp.asarray(j * S + r), xp.asarray(y), Scaled(xp.asarray(G[j, r, y]), 0.0), (K * S, Y), Y)
    return f, g


def logs_of(found: Contracted) -> np.ndarray:
    """The logarithms of all cells."""
    keys, pair, end = found.keyed
    every = np.full(end + 1, -np.inf)
    every[np.asarray(keys)] = np.asarray(read_log(pair))
    return every[:end].reshape(K, X, Y)


def expected(semiring: Semiring, far: float = 0.0) -> np.ndarray:
    with np.errstate(divide="ignore"):
        terms = np.log(F)[..., None] + np.log(G)[:, None] + far * np.arange(S)[:, None]
    top = terms.max(2, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(semiring.add(np, np.exp(terms - top), (2,))) + top[:, :, 0]


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("semiring", [sum_product, max_product])
@pytest.mark.parametrize("far", [0.0, 400.0])
def test_contract_keyed(xp: Any, semiring: Semiring, far: float) -> None:
    found = contract_keyed(semiring, *operands(xp, far), 1000)
    np.testing.assert_allclose(logs_of(found), expected(semiring, far), rtol=1e-5)
    assert found.count == np.isfinite(expected(semiring, far)).sum()
    assert np.all(np.diff(np.asarray(found.keyed.keys)[: int(found.count)]) > 0)


@pytest.mark.parametrize("pairs", [1, 5])
@pytest.mark.parametrize("room", [0, 2**16])
@pytest.mark.parametrize("semiring", [sum_product, max_product])
def test_in_blocks(pairs: int, room: int, semiring: Semiring, monkeypatch: Any) -> None:
    """A row or a few at a time, with keys as they are and numbered."""
    monkeypatch.setattr(keyed_contraction, "PAIRS", pairs)
    monkeypatch.setattr(keyed_contraction, "ROOM", room)
    np.testing.assert_allclose(logs_of(contract_keyed(semiring, *operands(np), 1000)), expected(semiring), rtol=1e-12)


def test_too_many_cells_are_counted() -> None:
    needed = np.isfinite(expected(sum_product)).sum()
    found = contract_keyed(sum_product, *operands(np), 3)
    assert found.count == needed > 3


def test_nothing_meets() -> None:
    f, g = operands(np)
    empty = contract_keyed(sum_product, f, Operand(g.inner[:0], g.outer[:0], Scaled(np.zeros(0), 0.0), g.ends, Y), 10)
    assert empty.count == 0 and empty.keyed.slots == 0


def test_slots_that_are_fixed() -> None:
    """Under jit the pairs have as many slots as the shapes allow, the result no more than the capacity."""
    f, g = operands(jnp)
    needed = int(np.isfinite(expected(sum_product)).sum())

    def run(weights: Any, capacity: int) -> Any:
        found = contract_keyed(sum_product, f._replace(pair=Scaled(weights, 0.0)), g, capacity)
        assert found.keyed.slots == min(capacity, K * X * Y)
        return found.keyed.keys, read_log(found.keyed.pair), found.count, found.is_complete

    keys, logs, count, is_complete = jax.jit(run, static_argnums=1)(f.pair.weights, needed)
    assert int(count) == needed and bool(is_complete)
    every = np.full(K * X * Y, -np.inf)
    every[np.asarray(keys)] = logs
    np.testing.assert_allclose(every.reshape(K, X, Y), expected(sum_product), rtol=1e-5)
    assert int(jax.jit(run, static_argnums=1)(f.pair.weights, 3)[2]) == needed
