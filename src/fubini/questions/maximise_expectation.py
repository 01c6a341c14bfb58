"""Expectation–maximisation: parameters moved to where the expected log-density is greatest, step by step.

A step never lowers the evidence (Dempster, Laird and Rubin 1977, theorem 1). Latents are summed out exactly, so that
there is no noise; what has no closed E-step is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from fubini.base.arrays import Data
from fubini.base.captured_arrays import jit_over
from fubini.base.distant import is_distant
from fubini.base.sharded_array import placed_alike
from fubini.errors import DataError
from fubini.models.learnt import free_of, params, with_values
from fubini.numerics.block_ascent import Block, maximise, separable
from fubini.numerics.in_range import jitted
from fubini.questions.expectation_step import Expectations, OfReals, expectations_of

LogPrior = Callable[[Sequence[Data]], Data]


def fit_by_em(
    model: Any, log_prior: LogPrior, steps: int, tolerance: float, progress: bool
) -> tuple[list[Data], list[float]]:
    """The unconstrained parameters after so many steps, or where one gains less, and the objective before each step."""
    blocks = [Block(param.support.value) for param in params(model)]
    values = [jnp.asarray(param.value) for param in params(model)]
    closed_expectations(model)
    compiled, place = jit_over(model), placed_alike(jax.tree_util.tree_leaves(model))

    @compiled
    def expected(values: Sequence[Data], statistics: Any) -> Data:
        return expectations_of(with_values(model, values)).expected_log_density(statistics) + log_prior(values)

    @partial(jitted, compiled=compiled)
    def know(values: list[Data]) -> tuple[Data, Any]:
        log_evidence, statistics = expectations_of(with_values(model, values)).expect()
        return log_evidence + log_prior(values), jax.tree_util.tree_map(place, statistics)

    @compiled
    def move(values: list[Data], statistics: Any) -> list[Data]:
        return maximise(lambda at: expected(at, statistics), blocks, values)

    history: list[float] = []
    before = values
    with tqdm(total=steps, disable=not progress, desc="fit", unit="step") as bar:
        for _ in range(steps):
            objective, statistics = know(values)
            history.append(_require_finite(float(objective), len(history)))
            if len(history) == 1:
                blocks[:] = separable(lambda own, known=statistics: expected(own, known), blocks, values)
            bar.update(1)
            bar.set_postfix(objective=f"{history[-1]:.6g}")
            if len(history) > 1 and history[-1] - history[-2] <= tolerance * (1 + abs(history[-1])):
                if history[-1] < history[-2]:  # by rounding: what was before the step is better
                    values = before
                    history.pop()
                break
            before, values = values, move(values, statistics)
    return free_of(model, values), history


def closed_expectations(model: Any) -> Expectations:
    """What is asked of a model; raises where it has no closed form. Rows on a mesh are not computed for it."""
    if not is_distant(*jax.tree_util.tree_leaves(model)):
        made = expectations_of(model)
        made.require_closed()
        return made
    seen: list[Expectations] = []

    def look(values: Sequence[Data]) -> None:
        seen.append(expectations_of(with_values(model, values)))
        if not isinstance(seen[0], OfReals):
            seen[0].require_closed()

    jax.eval_shape(look, [jnp.asarray(param.value) for param in params(model)])
    if isinstance(seen[0], OfReals):
        expectations_of(model).require_closed()
    return seen[0]


def _require_finite(objective: float, step: int) -> float:
    if not np.isfinite(objective):
        raise DataError(
            f"fitting by expectation–maximisation, at step {step + 1}: the objective is {objective}",
            expected="a finite objective",
            advice="start elsewhere, or give a prior that keeps scales from zero: on one point a density has no bound",
        )
    return objective
