"""Rows with outputs of linear recursions in them, as rows in the inputs and states of each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fubini.base.arrays import Data
from fubini.numerics.arithmetic import xp_of
from fubini.numerics.least_squares import LinearRecursions
from fubini.numerics.linear_recursions import outputs


class StepRows(NamedTuple):
    """What is known of each step, along the first axis, in the order of the recursion."""

    F: Data
    G: Data
    E: Data
    S: Data
    B: Data
    b: Data


class RecursionRows(NamedTuple):
    """The rows of all steps, and the matrix and the right side of those of the other unknowns alone."""

    steps: StepRows
    others: tuple[Data, Data]


def recursion_rows(
    sizes: LinearRecursions,
    blocks: Sequence[tuple[Data, Sequence[Data]]],
    rows: Sequence[tuple[Data, Data]],
    others: Sequence[tuple[Data, Data]],
) -> RecursionRows:
    """The rows of a problem: the matrices and inputs of each recursion, rows [step, row, column], and other rows."""
    inputs, count, _ = sizes.counts
    xp = xp_of(*(part for pair in (*rows, *others) for part in pair), *(S for S, _ in blocks))

    def of_steps(part: Data) -> Data:
        whole = xp.broadcast_to(part, (sizes.length, *part.shape[1:]))
        return whole[::-1] if sizes.is_reversed else whole

    F: list[Data] = []
    G: list[Data] = []
    H: list[Data] = []
    D: list[Data] = []
    for (S, parts), block in zip(blocks, sizes.blocks, strict=True):
        taken = xp.concatenate([of_steps(part)[..., :inputs] for part in parts], axis=1)
        S, states = of_steps(S), block.states
        F.append(S[:, :states, :states])
        H.append(S[:, states:, :states])
        pushed = S[:, :, states:] @ taken
        G.append(pushed[:, :states])
        D.append(pushed[:, states:])
    matrix = xp.concatenate([of_steps(part) for part, _ in rows], axis=1)
    b = xp.concatenate([of_steps(right) for _, right in rows], axis=1)
    outputs, along = matrix[..., inputs + count :], xp.concatenate(D, axis=1)
    E, S = matrix[..., :inputs] + outputs @ along, outputs @ _diagonal(H)
    known = StepRows(_diagonal(F), xp.concatenate(G, axis=1), E, S, matrix[..., inputs : inputs + count], b)
    alone = [(part[:, inputs : inputs + count], right) for part, right in others]
    empty = (xp.zeros((0, count), b.dtype), xp.zeros(0, b.dtype))
    matrix, right = (xp.concatenate(parts) for parts in zip(empty, *alone, strict=True))
    return RecursionRows(known, (matrix, right))


def scaled_rows(rows: RecursionRows, weight: Data) -> RecursionRows:
    """The rows of the same unknowns with the precision times a weight."""
    root = xp_of(weight, *rows.steps).sqrt(weight)
    (F, G, E, S, B, b), (matrix, right) = rows
    return RecursionRows(StepRows(F, G, root * E, root * S, root * B, root * b), (root * matrix, root * right))


def rows_around_zero(sizes: LinearRecursions, transition: Data, rows: Data, alone: Data) -> RecursionRows:
    """Rows of [F G] and [E S B] of each step, and of the other unknowns alone, with 0 on the right."""
    xp, inputs, others = xp_of(transition, rows, alone), *sizes.counts[:2]
    states, width = transition.shape[-2], rows.shape[-1]
    E, S, B = rows[..., :inputs], rows[..., inputs : inputs + states], rows[..., width - others :]
    steps = StepRows(transition[..., :states], transition[..., states:], E, S, B, xp.zeros(rows.shape[:-1], rows.dtype))
    return RecursionRows(steps, (alone, xp.zeros(alone.shape[:-1], alone.dtype)))


def residuals(sizes: LinearRecursions, rows: RecursionRows, unknowns: Data) -> tuple[Data, Data]:
    """A x − b of the steps [step, row], and of the other unknowns alone."""
    (F, G, E, S, B, b), (matrix, right) = rows
    xp = xp_of(*rows.steps, unknowns)
    u, z = by_step(sizes, unknowns[:, None])
    states = F.shape[-1]
    before = xp.broadcast_to(
        xp.eye(states, states + G.shape[-1], dtype=b.dtype), (len(F), states, states + G.shape[-1])
    )
    s = outputs(xp.zeros(states, b.dtype), xp.concatenate([xp.concatenate([F, G], axis=-1), before], axis=1), u)
    return (E @ u + S @ s + B @ z)[..., 0] - b, (matrix @ z)[:, 0] - right


def _diagonal(parts: Sequence[Data]) -> Data:
    """Matrices [step, row, column] beside each other on a diagonal."""
    xp, columns = xp_of(*parts), [part.shape[-1] for part in parts]
    padded, before = [], 0
    for part in parts:
        lead, after = part.shape[:-1], sum(columns) - before - part.shape[-1]
        zeros = xp.zeros((*lead, before), part.dtype), xp.zeros((*lead, after), part.dtype)
        padded.append(xp.concatenate([zeros[0], part, zeros[1]], axis=-1))
        before += part.shape[-1]
    return xp.concatenate(padded, axis=1)


def count_unknowns(sizes: LinearRecursions) -> int:
    """How many unknowns there are."""
    inputs, others, _ = sizes.counts
    return sizes.length * inputs + others


def by_step(sizes: LinearRecursions, flat: Data) -> tuple[Data, Data]:
    """Numbers [unknown, column] as those of the steps [step, input, column], and of the others."""
    xp, columns = xp_of(flat), flat.shape[-1]
    steps = []
    for start, shape, axis in sizes.inputs:
        part = flat[start : start + math.prod(shape)].reshape(*shape, columns)
        steps.append(xp.moveaxis(part, axis, 0).reshape(sizes.length, -1, columns))
    others = [flat[:0], *(flat[start : start + count] for start, count in sizes.others)]
    whole = xp.concatenate(steps, axis=1)
    return (whole[::-1] if sizes.is_reversed else whole), xp.concatenate(others)


def end_to_end(sizes: LinearRecursions, steps: Data, others: Data) -> Data:
    """Numbers of the steps [step, input, column] and of the others, in the order of the unknowns."""
    xp, columns = xp_of(steps, others), steps.shape[-1]
    steps = steps[::-1] if sizes.is_reversed else steps
    parts: dict[int, Data] = {}
    first = 0
    for start, shape, axis in sizes.inputs:
        width = math.prod(shape) // sizes.length
        left = [size for place, size in enumerate(shape) if place != axis]
        part = steps[:, first : first + width].reshape(sizes.length, *left, columns)
        parts[start] = xp.moveaxis(part, 0, axis).reshape(-1, columns)
        first += width
    first = 0
    for start, count in sizes.others:
        parts[start] = others[first : first + count]
        first += count
    return xp.concatenate([parts[start] for start in sorted(parts)])
