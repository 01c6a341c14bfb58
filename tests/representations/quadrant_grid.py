"""The quadrant model on a grid, in plain NumPy: the forward and backward recursions, written out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from examples.quadrants import Setting, drift, observations


class GridAnswers(NamedTuple):
    """Log-evidence; after each step, the means of the position and the probabilities of the quadrants."""

    log_evidence: float
    filtered: np.ndarray
    filtered_quadrants: np.ndarray
    smoothed: np.ndarray
    smoothed_quadrants: np.ndarray


def normal(x: np.ndarray, mean: np.ndarray | float, scale: float) -> np.ndarray:
    """exp(−½ (x − mean)² / scale²) / (scale √2π)"""
    return np.exp(-0.5 * ((x - mean) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))


def by_grid(setting: Setting, stickiness: float, n: int, most: float = 8.0) -> GridAnswers:
    """Forward and backward over n × n cells between −most and most, no cell of which an axis cuts: n is even."""
    width = 2 * most / n
    x = -most + width * (np.arange(n) + 0.5)
    y, b = observations(setting), drift(setting)
    right, up = x[:, None] > 0, x[None, :] > 0
    quadrant = np.where(up, np.where(right, 0, 1), np.where(right, 3, 2))
    inside = np.stack([quadrant == q for q in range(4)]).astype(float)
    # link[s, s′] over the cells: (1 − ε) [s′ = q(f)] + ε [s′ = s]
    link = (1 - stickiness) * inside[None] + stickiness * np.eye(4)[:, :, None, None]
    move = width * normal(x[None, None, :, None], x[None, None, None, :] + b.T[:, :, None, None], setting.moved)
    seen = [normal(x, point[0], setting.seen)[:, None] * normal(x, point[1], setting.seen) for point in y]
    start = normal(x, y[0, 0], 0.5)[:, None] * normal(x, y[0, 1], 0.5) * width**2
    forward, scales = [start * seen[0] * inside], []
    for t in range(1, setting.steps):
        moved = np.stack([move[0, s] @ forward[-1][s] @ move[1, s].T for s in range(4)])
        after = np.einsum("sab,szab->zab", moved, link) * seen[t]
        scales.append(after.sum())
        forward.append(after / scales[-1])
    backward = [np.ones((4, n, n))]
    for t in range(setting.steps - 1, 0, -1):
        later = np.einsum("zab,szab->sab", backward[0] * seen[t], link)
        before = np.stack([move[0, s].T @ later[s] @ move[1, s] for s in range(4)])
        backward.insert(0, before / before.max())
    every = np.stack(forward[1:])
    return GridAnswers(float(np.sum(np.log(scales))), *summary(every, x), *summary(every * np.stack(backward[1:]), x))


def summary(weights: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of the position and probabilities of the quadrants, of weights over time, quadrant and cells."""
    total = weights.sum(axis=(1, 2, 3))
    means = np.stack([np.einsum("tsab,a->t", weights, x), np.einsum("tsab,b->t", weights, x)], axis=1)
    return means / total[:, None], weights.sum(axis=(2, 3)) / total[:, None]
