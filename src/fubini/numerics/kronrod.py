"""An integral over one number by panels that are halved where the rule of fifteen nodes has not converged.

On each panel the difference of Kronrod's rule of fifteen nodes and Gauss's of seven, which it holds, bounds the error
of the first (Piessens et al., QUADPACK, 1983, section 2.2.1). Kinks, jumps and narrow modes are closed in on. A jump
between the end of a panel and its first node is seen by the value at the end, which the polynomial through the nodes
misses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

HALF_NODES = (
    0.991455371120812639206854697526329,
    0.949107912342758524526189684047851,
    0.864864423359769072789712788640926,
    0.741531185599394439863864773280788,
    0.586087235467691130294144691258013,
    0.405845151377397166906606412076961,
    0.207784955007898467600689403773245,
)
HALF_KRONROD = (
    0.022935322010529224963732008058970,
    0.063092092629978553290700663189204,
    0.104790010322250183839876322541518,
    0.140653259715525918745189590510238,
    0.169004726639267902826583426598550,
    0.190350578064785409913256402421014,
    0.204432940075298892414161999234649,
)
HALF_GAUSS = (
    0.0,
    0.129484966168869693270611432679082,
    0.0,
    0.279705391489276667901467771423780,
    0.0,
    0.381830050505118944950369775488975,
    0.0,
)
NODES = np.array([*(-x for x in HALF_NODES), 0.0, *reversed(HALF_NODES)])
KRONROD = np.array([*HALF_KRONROD, 0.209482141084727828012999174891714, *reversed(HALF_KRONROD)])
GAUSS = np.array([*HALF_GAUSS, 0.417959183673469387755102040816327, *reversed(HALF_GAUSS)])
GAP = 1 - HALF_NODES[0]  # from an end to the first node
CAUTION = 4.0  # a difference of two rules counts so many times: at a kink, they may agree by chance
CHANCE = 0.1  # of the tolerance: an error that no difference may show
MOST_PASSES = 64
MOST_PANELS = 2**13


def _at_ends() -> np.ndarray:
    """The values at −1 and 1 of the polynomial through values at the nodes, as weights [end, node] (Lagrange)."""
    differences = NODES[:, None] - NODES + np.eye(len(NODES))
    numerators = np.stack([np.prod(np.where(np.eye(len(NODES)), 1.0, end - NODES), axis=1) for end in (-1.0, 1.0)])
    return numerators / np.prod(differences, axis=1)


AT_ENDS = _at_ends()

LogFunction = Callable[[np.ndarray], np.ndarray]  # of one number each
Evaluated = tuple[np.ndarray, np.ndarray, np.ndarray]


class Panels(NamedTuple):
    """Nodes [panel, node], the log weights at them, and a bound on the error relative to the sum of the weights."""

    nodes: np.ndarray
    log_weights: np.ndarray
    error: float


def sum_panels(log_function: LogFunction, ends: np.ndarray, tolerance: float) -> Panels:
    """∫ exp(f(t)) dt  ≈  Σ exp(log_weights), from the first end to the last, with panels halved to a tolerance."""
    low, high = ends[:-1], ends[1:]
    nodes, values, at_ends = _evaluate(log_function, low, high)
    for _ in range(MOST_PASSES):
        top = float(values.max(initial=-np.inf))
        if not math.isfinite(top):
            break
        heights, halves = np.exp(values - top), (high - low) / 2
        parts = halves * (heights @ KRONROD)
        missed = np.abs(np.exp(np.minimum(at_ends - top, 0.0)) - heights @ AT_ENDS.T).max(axis=1)
        errors = CAUTION * halves * (np.abs(heights @ (KRONROD - GAUSS)) + GAP * missed) + np.finfo(float).eps * parts
        total = parts.sum()
        coarse = (errors > 0.5 * tolerance * total / len(low)) & _is_divisible(low, high)
        if errors.sum() <= tolerance * total or not coarse.any() or len(low) > MOST_PANELS:
            log_weights = values + np.log(halves)[:, None] + np.log(KRONROD)
            return Panels(nodes, log_weights, max(float(errors.sum() / total), CHANCE * tolerance))
        middle = (low[coarse] + high[coarse]) / 2
        new_low, new_high = np.append(low[coarse], middle), np.append(middle, high[coarse])
        new_nodes, new_values, new_at_ends = _evaluate(log_function, new_low, new_high)
        low, high = np.append(low[~coarse], new_low), np.append(high[~coarse], new_high)
        nodes = np.concatenate([nodes[~coarse], new_nodes])
        values = np.concatenate([values[~coarse], new_values])
        at_ends = np.concatenate([at_ends[~coarse], new_at_ends])
    return Panels(nodes, values, math.inf)


def _is_divisible(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Test which panels are wider than the spacing of numbers."""
    return high - low > 256 * np.spacing(np.maximum(np.abs(low), np.abs(high)))


def _evaluate(
    log_function: LogFunction, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of panels [panel, node], the values there, and those at both ends [panel, end]."""
    nodes = ((low + high) / 2)[:, None] + ((high - low) / 2)[:, None] * NODES
    everywhere = np.concatenate([nodes, low[:, None], high[:, None]], axis=1)
    values = log_function(everywhere.ravel()).reshape(everywhere.shape)
    return nodes, values[:, :-2], values[:, -2:]
