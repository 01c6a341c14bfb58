"""min |A x − b|² and |AᵀA| by orthogonal steps, with the structure of the unknowns used.

Unknowns are a cell of coupled ones, or a chain of cells, whose rows touch neighbours. The normal equations are never
formed: they square the condition number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data
from fubini.numerics.arithmetic import constant, qr, repeated, scanned, triangle, upper_solved, xp_of
from fubini.numerics.small_matrices import lower_solved

FEW_ROWS = 32
DENSE = 2_000  # more unknowns than this are not solved for together by dense matrices


class Inputs(NamedTuple):
    """An array of unknowns that a recursion takes step by step: its first place among all, and its axis of steps."""

    start: int
    shape: tuple[int, ...]
    axis: int


class RecursionBlock(NamedTuple):
    """Numbers of the states and outputs of a recursion, and the arrays that its inputs are taken from."""

    states: int
    outputs: int
    parts: int


class LinearRecursions(NamedTuple):
    """A problem whose rows have outputs of linear recursions in them, and inputs of the same step, and other unknowns.

    Its nodes are, for each recursion, the matrices of its steps and the rows of its inputs; `rows` blocks of rows along
    the steps; and rows of the other unknowns alone. Columns are the inputs of a step, the others, and the outputs.
    """

    length: int
    inputs: tuple[Inputs, ...]
    others: tuple[tuple[int, int], ...]  # the first place of each, and how many
    blocks: tuple[RecursionBlock, ...]
    rows: int
    is_reversed: bool

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis that each row has a place on."""
        return (self.length,)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Inputs of a step, other unknowns, and outputs of a step."""
        inputs = sum(math.prod(part.shape) // self.length for part in self.inputs)
        return inputs, sum(count for _, count in self.others), sum(block.outputs for block in self.blocks)

    @property
    def width(self) -> int:
        """Columns of a row, and the right side."""
        return sum(self.counts) + 1

    @property
    def work(self) -> float:
        """Operations, about."""
        inputs, others, outputs = self.counts
        states = sum(block.states for block in self.blocks)
        return self.length * float(inputs + others + outputs + states) ** 3


class Unknowns(NamedTuple):
    """The layout of unknowns: the length of a chain of cells (None: there is one cell), and the unknowns of a cell."""

    length: int | None
    cell: int
    is_sparse: bool = False  # few of them stand in each row, of one cell
    kronecker: tuple[int, int] | None = None  # rows and columns, where a cell is a matrix with a Kronecker precision
    is_whitened: bool = False  # the covariance of a cell is known, and each row has one entry
    recursions: LinearRecursions | None = None  # of one cell, whose rows have outputs of them

    @property
    def is_dense(self) -> bool:
        """Whether the unknowns of a cell are solved for by dense matrices."""
        return not self.is_sparse and self.kronecker is None and self.recursions is None

    @property
    def steps(self) -> int:
        """The steps that a solution goes through one after another."""
        return self.length or (self.recursions.length if self.recursions is not None else 1)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that each row has a place on."""
        return () if self.length is None else (self.length,)

    @property
    def width(self) -> int:
        """Columns of a row: of a cell, in a chain of the next one too, and the right side."""
        return self.cell * (1 if self.length is None else 2) + 1

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return self.cell * (self.length or 1)


class LeastSquaresSolution(NamedTuple):
    """log |AᵀA| and min |A x − b|² of each of many problems, and the triangles from which solutions come."""

    logdet: Data
    rss: Data
    triangles: Any
    frame: Unknowns

    @property
    def variances(self) -> Data:
        """The diagonal of (AᵀA)⁻¹ of one cell."""
        return xp_of(self.logdet).sum(self.roots() ** 2, axis=-1)

    def at(self, noise: Data) -> Data:
        """x with U (x − x̂) = noise, in the order of the frame: a draw, if the noise is standard normal."""
        return self._solved(noise[..., None], 1.0)[..., 0]

    def roots(self) -> Data:
        """Columns whose products with themselves add up to the covariance (AᵀA)⁻¹: [outer, frame, cell, column]."""
        xp, outer = xp_of(self.logdet), self.logdet.shape
        every = xp.eye(self.frame.size).reshape(*self.frame.axes, self.frame.cell, self.frame.size)
        return self._solved(xp.broadcast_to(every, (*outer, *every.shape)), 0.0)

    def _solved(self, noise: Data, centre: float) -> Data:
        solved = _solved_cell if self.frame.length is None else _solved_chain
        return solved(self.triangles, noise, centre)


def solve(parts: Sequence[tuple[Data, Data]], frame: Unknowns, outer: tuple[int, ...] = ()) -> LeastSquaresSolution:
    """The solution of blocks of rows, each a matrix [outer, frame, row, column] and a right side [outer, frame, row].

    There is one problem for each place of the outer axes. Where they all have the same matrix, it is factorised once.
    """
    lead = (*outer, *frame.axes)
    if frame.length is None and outer and all(m.shape[: len(lead)] == (1,) * len(lead) for m, _ in parts):
        return _shared(parts, frame, outer)
    return solve_rows(joined(parts, lead), frame)


def joined(parts: Sequence[tuple[Data, Data]], lead: tuple[int, ...]) -> Data:
    """Blocks of rows as one [… lead, row, column], whose last column is the right side."""
    xp, rows = xp_of(*(array for part in parts for array in part)), list[Data]()
    for matrix, right in parts:
        count = matrix.shape[-2]
        whole = xp.broadcast_to(matrix, (*lead, count, matrix.shape[-1]))
        rows.append(xp.concatenate([whole, xp.broadcast_to(right, (*lead, count))[..., None]], axis=-1))
    return xp.concatenate(rows, axis=-2)


def solve_rows(rows: Data, frame: Unknowns) -> LeastSquaresSolution:
    """The solution of rows [… frame, row, column], whose last column is the right side."""
    logdet, rss, triangles = (_chain if frame.length is not None else _cell)(rows)
    return LeastSquaresSolution(logdet, rss, triangles, frame)


def _shared(parts: Sequence[tuple[Data, Data]], frame: Unknowns, outer: tuple[int, ...]) -> LeastSquaresSolution:
    """One matrix, many right sides"""
    xp = xp_of(*(array for part in parts for array in part))
    count, size = math.prod(outer), frame.cell
    matrix = xp.concatenate([m.reshape(m.shape[-2:]) for m, _ in parts])
    rights = [xp.broadcast_to(right, (*outer, m.shape[-2])).reshape(count, -1) for m, right in parts]
    U, turned, residual, logdet = reduce_rows(matrix, xp.concatenate(rights, axis=1).T)
    every = Triangle(
        xp.broadcast_to(U, (*outer, size, size)),
        xp.zeros((*outer, size, 0), U.dtype),
        turned.T.reshape(*outer, size),
    )
    return LeastSquaresSolution(
        xp.broadcast_to(logdet, outer), xp.sum(residual**2, axis=0).reshape(outer), every, frame
    )


class Triangle(NamedTuple):
    """U x + V next = c, of many problems"""

    U: Data
    V: Data
    c: Data


class PartialQR(NamedTuple):
    """U, Qᵀ rest and the residual of the rest, for A = Q U in the last two axes, and log |UᵀU|"""

    U: Data
    turned: Data
    residual: Data
    logdet: Data


def reduce_rows(A: Data, rest: Data) -> PartialQR:
    """The unknowns of A eliminated from rows, whose right sides and other columns are `rest`."""
    xp = xp_of(A, rest)
    if A.shape[-1] == 1:
        return _reduced_column(A, rest)
    A, rest = move_rows(pivots_first(constant(A)), A, rest)
    Q, U = qr(_tall(A))
    Q = Q[..., : A.shape[-2], :]
    turned = xp.swapaxes(Q, -1, -2) @ rest
    residual = _without_rounding(A, rest, _solution(constant(U), constant(turned)))
    residual = residual - Q @ (xp.swapaxes(Q, -1, -2) @ residual)
    return PartialQR(U, turned, residual, _logdet(constant(A), constant(Q), U))


def _solution(U: Data, right: Data) -> Data:
    """U⁻¹ R; on JAX written out, as all that may run in several threads at once."""
    if xp_of(U, right) is np:
        return upper_solved(U, right)
    return lower_solved(U[..., ::-1, ::-1], right[..., ::-1, :])[..., ::-1, :]


def _without_rounding(A: Data, rest: Data, x: Data) -> Data:
    """rest − A x for a solution x; 0 where it is of the size of rounding, which is large in large rows"""
    xp = xp_of(A, rest)
    x = xp.where(xp.isfinite(x), x, 0.0)
    residual, size = rest - A @ x, xp.abs(rest) + xp.abs(A) @ xp.abs(x)
    return residual - constant(xp.where(xp.abs(residual) <= 8 * xp.finfo(A.dtype).eps * size, residual, 0.0))


def _reduced_column(A: Data, rest: Data) -> PartialQR:
    """One unknown: its column has a length. First x = rest/A of the largest row is taken off, which then has nothing"""
    xp = xp_of(A, rest)
    sizes = constant(xp.abs(A))
    largest = xp.arange(A.shape[-2])[:, None] == xp.argmax(sizes, axis=-2, keepdims=True)
    pivot = xp.sum(xp.where(largest, A, 0.0), axis=-2, keepdims=True)
    x = xp.sum(xp.where(largest, rest, 0.0), axis=-2, keepdims=True) / xp.where(pivot == 0, 1.0, pivot)
    rest = xp.where(largest & (pivot != 0), 0.0, rest - A * x)
    ratio = xp.where(largest, 1.0, A / xp.where(pivot == 0, 1.0, pivot))
    length = xp.sqrt(xp.sum(ratio**2, axis=-2, keepdims=True))
    U, Q = pivot * length, xp.where(pivot == 0, 0.0, ratio / length)
    turned = xp.sum(Q * rest, axis=-2, keepdims=True)
    return PartialQR(U, turned + U * x, rest - Q * turned, _logdet(constant(A), constant(Q), U))


def pivots_first(A: Data) -> Data:
    """Places for rows in which reflections are accurate in every row, be some of them much larger than others.

    The pivots of Gaussian elimination, then the others (Cox and Higham 1998, section 2). Rows of about one size may
    come in any order.
    """
    xp, (count, width) = xp_of(A), A.shape[-2:]
    sizes = xp.max(xp.abs(A), axis=-1)
    least = xp.min(xp.where(sizes > 0, sizes, xp.inf), axis=-1)
    graded = xp.any(xp.max(sizes, axis=-1) > least * xp.finfo(A.dtype).eps ** -0.25)
    rows, columns = xp.arange(count), xp.arange(width)

    def choose(now: tuple[Data, Data], place: Data) -> tuple[Data, Data]:
        """The largest of a column that is free, and the column eliminated from all others."""
        A, chosen = now
        column = xp.sum(xp.where(columns == place, A, 0.0), axis=-1)
        free = chosen == width
        pivot = (rows == xp.argmax(xp.where(free, xp.abs(column), -1.0), axis=-1)[..., None]) & free
        row = xp.sum(xp.where(pivot[..., None], A, 0.0), axis=-2)
        head = xp.sum(xp.where(pivot, column, 0.0), axis=-1, keepdims=True)
        ratio = xp.where(head == 0, 0.0, column / xp.where(head == 0, 1.0, head))
        return A - ratio[..., None] * row[..., None, :], xp.where(pivot, place, chosen)

    start = A, xp.full(A.shape[:-1], width)
    _, chosen = repeated(choose, start, xp.where(graded, min(count, width), 0))
    others = chosen == width
    after = xp.sum(~others, axis=-1, keepdims=True) + xp.cumsum(others, axis=-1) - 1
    return xp.where(others, after, chosen)


def move_rows(places: Data, *arrays: Data) -> tuple[Data, ...]:
    """Rows moved to their places; few of them by sums, which cost a loop on JAX less than sorting."""
    xp, count = xp_of(places, *arrays), places.shape[-1]
    if xp is np or count > FEW_ROWS:
        order = xp.argsort(places, axis=-1)[..., None]
        return tuple(xp.take_along_axis(rows, order, axis=-2) for rows in arrays)
    moves = (places[..., None, :] == xp.arange(count)[:, None])[..., None]
    return tuple(xp.sum(xp.where(moves, rows[..., None, :, :], 0.0), axis=-2) for rows in arrays)


def reduced(rows: Data) -> Data:
    """U of rows = Q U: as many rows as columns with the same squares, the largest rows turned first."""
    rows = _tall(rows)
    return triangle(move_rows(pivots_first(constant(rows)), rows)[0])


def _tall(A: Data) -> Data:
    """Padded with zeros to at least as many rows as columns."""
    xp, lacking = xp_of(A), A.shape[-1] - A.shape[-2]
    return A if lacking <= 0 else xp.concatenate([A, xp.zeros((*A.shape[:-2], lacking, A.shape[-1]), A.dtype)], axis=-2)


def _logdet(A: Data, Q: Data, U: Data) -> Data:
    """log |UᵀU|; −∞ where a direction has only the rounding of rows in it: Σ_i |Q_ij| max_k |A_ik|"""
    xp = xp_of(U)
    sizes = xp.abs(xp.diagonal(U, axis1=-2, axis2=-1))
    if U.dtype == xp.float64:
        rounding = xp.sum(xp.abs(Q) * xp.max(xp.abs(A), axis=-1, keepdims=True, initial=0.0), axis=-2)
        sizes = xp.where(sizes <= 4 * xp.finfo(U.dtype).eps * rounding, 0.0, sizes)
    return 2 * xp.sum(xp.log(sizes), axis=-1)


def _squared(residual: Data) -> Data:
    return xp_of(residual).sum(residual**2, axis=(-2, -1))


def _cell(rows: Data) -> tuple[Data, Data, Triangle]:
    U, c, residual, logdet = reduce_rows(rows[..., :-1], rows[..., -1:])
    return logdet, _squared(residual), Triangle(U, xp_of(U).zeros((*U.shape[:-1], 0), U.dtype), c[..., 0])


def _chain(rows: Data) -> tuple[Data, Data, Any]:
    """Eliminate each unknown of the chain against the rows that have it; the others go on to the next."""
    xp, size = xp_of(rows), (rows.shape[-1] - 1) // 2
    rows = xp.moveaxis(rows, -3, 0)

    def step(carried: Data, here: Data) -> tuple[Data, tuple[Data, Data, Triangle]]:
        both = xp.concatenate([carried, here], axis=-2)
        U, turned, remaining, logdet = reduce_rows(both[..., :size], both[..., size:])
        V, c = turned[..., :-1], turned[..., -1]
        U_next, c_next, residual, _ = reduce_rows(remaining[..., :-1], remaining[..., -1:])
        new = xp.concatenate([U_next, xp.zeros_like(U_next), c_next], axis=-1)
        return new, (logdet, _squared(residual), Triangle(U, V, c))

    empty = xp.zeros((*rows.shape[1:-2], size, rows.shape[-1]), rows.dtype)
    carried, steps = scanned(step, empty, rows[:-1])
    both = xp.concatenate([carried, rows[-1]], axis=-2)
    logdet, rss, last = _cell(xp.concatenate([both[..., :size], both[..., -1:]], axis=-1))
    if steps is None:
        return logdet, rss, (None, last)
    logdets, rests, triangles = steps
    return xp.sum(logdets, axis=0) + logdet, xp.sum(rests, axis=0) + rss, (triangles, last)


# -- solutions ------------------------------------------------------------------------------------------------------


def _solved_cell(triangle: Triangle, noise: Data, centre: float) -> Data:
    """x with U x = centre · c + noise, for every column of the noise"""
    return upper_solved(triangle.U, centre * triangle.c[..., None] + noise)


def _solved_chain(triangles: tuple[Triangle | None, Triangle], noise: Data, centre: float) -> Data:
    steps, last = triangles
    xp = xp_of(last.U, noise)
    noise = xp.moveaxis(noise, -3, 0)
    end = _solved_cell(last, noise[-1], centre)

    def back(following: Data, here: tuple[Triangle, Data]) -> tuple[Data, Data]:
        triangle, own_noise = here
        x = _solved_cell(triangle, own_noise - triangle.V @ following, centre)
        return x, x

    others = None if steps is None else scanned(back, end, (steps, noise[:-1]), reverse=True)[1]
    return xp.moveaxis(end[None] if others is None else xp.concatenate([others, end[None]]), 0, -3)
