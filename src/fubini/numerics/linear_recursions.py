"""Outputs of a linear recursion, (s_t, y_t) = S_t (s_{t−1}, u_t) with s_{−1} = 0: one pass over the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.base.arrays import Data, double_precision
from fubini.numerics.arithmetic import scanned, xp_of

QUICK = 1_000  # steps that NumPy is done with before a compiler would be


def on_xla(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays with one entry a step: of many steps by compiled code, NumPy's in double precision."""
    compiled: Any = jax.jit(function)

    def compute(*arrays: Any) -> Any:
        leaves, tree = cast("tuple[list[Data], Any]", jax.tree_util.tree_flatten(arrays))
        if xp_of(*leaves) is not np or max(len(leaf) for leaf in leaves if np.ndim(leaf)) <= QUICK:
            return function(*arrays)
        with double_precision(), eval_context():
            answer: Any = compiled(*tree.unflatten([jnp.asarray(leaf) for leaf in leaves]))
            parts, tree = cast("tuple[list[Data], Any]", jax.tree_util.tree_flatten(answer))
            return tree.unflatten([np.asarray(part) for part in parts])

    return compute


@on_xla
def outputs(state: Data, transition: Data, inputs: Data) -> Data:
    """All y_t [step, output, column], of inputs [step, input, column]; `state` is 0, in its size."""
    xp, count = xp_of(transition, inputs), len(state)

    def step(s: Data, here: tuple[Data, Data]) -> tuple[Data, Data]:
        S, u = here
        both = S @ xp.concatenate([s, u])
        return both[:count], both[count:]

    start = xp.zeros((count, inputs.shape[-1]), xp.result_type(transition, inputs))
    return scanned(step, start, (transition, inputs))[1]
