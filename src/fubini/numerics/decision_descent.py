"""One pass from the root of a decision diagram: the values of all levels, chosen given those above.

`logs` are the log-weights of the terminals, along the last axis; the axes before it are a batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.numerics.decision_nodes import Nodes
from fubini.numerics.scaled import positive_log


def greatest_below(nodes: Nodes, logs: Data) -> Data:
    """The greatest log-weight below each reference, from the last level to the first."""
    xp = namespace(logs)
    for rows in reversed(nodes.children):
        logs = xp.concatenate([logs, xp.max(logs[..., rows], axis=-1)], axis=-1)
    return logs


def mass_below(nodes: Nodes, logs: Data) -> Data:
    """log Σ of all cells below each reference; a level that is passed over counts with all its values."""
    xp = namespace(logs)
    for level in reversed(range(len(nodes.children))):
        rows = nodes.children[level]
        terms = logs[..., rows] + log_cells_between(nodes, level)[rows]
        top = xp.max(terms, axis=-1, keepdims=True)
        top = xp.where(top == -np.inf, 0.0, top)
        total = positive_log(xp.sum(xp.exp(terms - top), axis=-1)) + top[..., 0]
        logs = xp.concatenate([logs, total], axis=-1)
    return logs


def log_cells_between(nodes: Nodes, level: int) -> np.ndarray:
    """The logarithm of the number of values of the levels between one and each reference."""
    sums = np.concatenate([[0.0], np.cumsum(np.log(nodes.sizes))])
    return sums[nodes.levels] - sums[level + 1]


def descend(
    nodes: Nodes, scores: Callable[[int, Data], Data], pick: Callable[[Data], Data], shape: tuple[int, ...]
) -> list[Data]:
    """A value for each level and each cell of the batch: `pick` one by the scores of the children.

    Where the path passes over a level all its values have the same score.
    """
    reference: Data = np.full(shape, nodes.root)
    values: list[Data] = []
    for level, rows in enumerate(nodes.children):
        if not len(rows):
            values.append(pick(np.zeros((*shape, rows.shape[1]))))
            continue
        xp = namespace(reference)
        is_here = xp.asarray(nodes.levels)[reference] == level
        kids = xp.asarray(rows)[xp.clip(reference - nodes.starts[level], 0, len(rows) - 1)]
        found = scores(level, kids)
        xp = namespace(found)
        value = pick(xp.where(is_here[..., None], found, xp.zeros_like(found)))
        values.append(value)
        xp = namespace(kids, value)
        chosen = xp.take_along_axis(xp.asarray(kids), xp.maximum(value, 0)[..., None], axis=-1)[..., 0]
        reference = xp.where(is_here, chosen, reference)
    return values
