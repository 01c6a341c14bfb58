"""Stochastic expectation–maximisation: Newton steps of the expected log-density of some rows of a plate at a time.

θ ← θ + γ I⁻¹ ∇Q, where ∇Q, of rows drawn by chance, is the slope of their log-evidence, and I is a running mean of the
curvature of Q before these rows (Titterington 1984, eq. 9); γ falls as t^−0.6, and the answer is the mean of the second
half of the way (Polyak and Juditsky 1992), with its standard error from the means of stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to
from tqdm.auto import tqdm

from fubini.base.arrays import Data
from fubini.base.captured_arrays import jit_over
from fubini.errors import DomainError
from fubini.models.learnt import free_of, params, with_values
from fubini.questions.expectation_step import OfTables, expectations_of
from fubini.questions.maximise_expectation import closed_expectations

STRETCHES = 20  # of the second half, whose means tell the error
REPORTS = 20
FARTHEST = 1.0  # that a step moves an unconstrained number, before its rate
MEMORY = 0.05  # the share of the newest rows in the running mean of the curvature


class _State(NamedTuple):
    free: list[Data]
    curvature: list[Data]
    step: Data


def fit_by_stochastic_em(
    model: Any, log_prior: Callable[[Sequence[Data]], Data], steps: int, batch: int, key: Data, progress: bool
) -> tuple[list[Data], list[float], list[Data]]:
    """The unconstrained parameters, estimates of the objective before each step, and standard errors of the values."""
    whole = closed_expectations(model)
    rows = whole.rows if isinstance(whole, OfTables) else 0
    if not rows:
        raise DomainError(
            f"fitting {model} by rows",
            expected="latents of finitely many values over one plate: a mixture",
            advice="leave batch= out: all rows are taken in every step",
        )
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= rows:
        raise DomainError(f"fitting by batch={batch!r} rows", expected=f"a whole number from 1 to {rows:,}")
    maps = [biject_to(param.support.value) for param in params(model)]

    def values_at(free: Sequence[Data]) -> list[Data]:
        return [to_value(each) for to_value, each in zip(maps, free, strict=True)]

    def rows_at(free: Sequence[Data], chosen: Data) -> OfTables:
        own = expectations_of(with_values(model, values_at(free)))
        assert isinstance(own, OfTables)
        return own.at(chosen)

    def look(free: list[Data], chosen: Data) -> tuple[Data, list[Data], list[Data]]:
        """The estimated objective, its slopes, and the curvature of Q, of these rows."""
        log_evidence, statistics = rows_at(free, chosen).expect()
        objective = rows / batch * log_evidence + log_prior(values_at(free))

        def expected(at: list[Data]) -> Data:
            return rows / batch * rows_at(at, chosen).expected_log_density(statistics) + log_prior(values_at(at))

        return objective, jax.grad(expected)(free), _curvatures(expected, free)

    def step(state: _State, chosen: Data) -> tuple[_State, tuple[Data, list[Data]]]:
        objective, slopes, newest = look(state.free, chosen)
        rate = (1.0 + state.step / 20.0) ** -0.6
        free = [x + rate * _direction(h, g) for x, g, h in zip(state.free, slopes, state.curvature, strict=True)]
        curvature = [(1 - MEMORY) * h + MEMORY * new for h, new in zip(state.curvature, newest, strict=True)]
        return _State(free, curvature, state.step + 1), (objective, values_at(free))

    compiled = jit_over(model)
    run = compiled(lambda state, chosen: jax.lax.scan(step, state, chosen))
    free = [to_value.inv(jnp.asarray(param.value)) for to_value, param in zip(maps, params(model), strict=True)]
    chosen = _rows(key, rows, batch, steps + 1)
    state = _State(free, compiled(look)(free, chosen[0])[2], jnp.zeros(()))
    history: list[float] = []
    way: list[list[Data]] = []
    every = max(1, steps // REPORTS)
    with tqdm(total=steps, disable=not progress, desc="fit", unit="step") as bar:
        while len(history) < steps:
            now = chosen[1 + len(history) : 1 + min(steps, len(history) + every)]
            state, (objectives, values) = run(state, now)
            history.extend(np.asarray(objectives).tolist())
            way.append(values)
            bar.update(len(now))
            bar.set_postfix(objective=f"{history[-1]:.6g}")
    means, errors = zip(*(_mean(jnp.concatenate(parts)) for parts in zip(*way, strict=True)), strict=True)
    return free_of(model, means), history, list(errors)


def _rows(key: Data, rows: int, batch: int, steps: int) -> Data:
    """Rows for each step, all of them in turn in an order of chance, and again in another."""
    passes = -(-steps * batch // rows)
    orders = [jax.random.permutation(each, rows) for each in jax.random.split(key, passes)]
    return jnp.concatenate(orders)[: steps * batch].reshape(steps, batch)


def _curvatures(function: Callable[[list[Data]], Data], free: list[Data]) -> list[Data]:
    """−∂²/∂x² of each array, as a matrix."""

    def of(b: int) -> Data:
        slope = jax.grad(lambda own: function([*free[:b], own, *free[b + 1 :]]))
        return -jax.jacfwd(slope)(free[b]).reshape(free[b].size, free[b].size)

    return [of(b) for b in range(len(free))]


def _direction(curvature: Data, slope: Data) -> Data:
    """|H|⁻¹ g, no number moved farther than a bound."""
    values, vectors = jnp.linalg.eigh((curvature + curvature.T) / 2)
    least = 1e-6 * jnp.max(jnp.abs(values))
    along = vectors.T @ slope.ravel() / jnp.maximum(jnp.abs(values), least)
    return jnp.clip((vectors @ along).reshape(slope.shape), -FARTHEST, FARTHEST)


def _mean(way: Data) -> tuple[Data, Data]:
    """The mean of the second half, and its standard error from the means of stretches."""
    half = way[len(way) // 2 :]
    size = max(1, len(half) // STRETCHES)
    stretches = half[: len(half) // size * size].reshape(-1, size, *half.shape[1:]).mean(axis=1)
    return half.mean(axis=0), stretches.std(axis=0, ddof=1) / np.sqrt(len(stretches))
