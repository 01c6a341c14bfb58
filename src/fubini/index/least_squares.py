"""min |A x − b|² and |AᵀA| by orthogonal steps, with the structure of the unknowns used.

Unknowns are a cell of those that meet, or a chain of cells, whose rows touch neighbours. The normal equations are never
formed: they square the condition number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.arrays import Data
from fubini.factors.small_matrices import orthogonal_triangular


class Frame(NamedTuple):
    """How unknowns lie: the length of a chain of cells (None: there is one cell), and the unknowns of a cell."""

    length: int | None
    cell: int

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
        """How many unknowns there are."""
        return self.cell * (self.length or 1)


class Solution(NamedTuple):
    """log |AᵀA| and min |A x − b|² of each of many problems, and the triangles from which solutions come."""

    logdet: Data
    rss: Data
    triangles: Any
    frame: Frame

    def at(self, noise: Data) -> Data:
        """x with U (x − x̂) = noise, in the order of the frame: a draw, if the noise is standard normal."""
        mapped = _solved_chain if self.frame.length is not None else _solved_cell
        for _ in self.logdet.shape:
            mapped = jax.vmap(mapped)
        return mapped(self.triangles, noise)


def solve(parts: Sequence[tuple[Data, Data]], frame: Frame, outer: tuple[int, ...] = ()) -> Solution:
    """The solution of blocks of rows, each a matrix [outer, frame, row, column] and a right side [outer, frame, row].

    There is one problem for each place of the outer axes. Where they all have the same matrix, it is taken apart once.
    """
    lead = (*outer, *frame.axes)
    if frame.length is None and outer and all(m.shape[: len(lead)] == (1,) * len(lead) for m, _ in parts):
        return _shared(parts, frame, outer)
    rows = []
    for matrix, right in parts:
        count = matrix.shape[-2]
        whole = jnp.broadcast_to(matrix, (*lead, count, matrix.shape[-1]))
        rows.append(jnp.concatenate([whole, jnp.broadcast_to(right, (*lead, count))[..., None]], axis=-1))
    one = _chain if frame.length is not None else _cell
    for _ in outer:
        one = jax.vmap(one)
    logdet, rss, triangles = one(jnp.concatenate(rows, axis=-2))
    return Solution(logdet, rss, triangles, frame)


def _shared(parts: Sequence[tuple[Data, Data]], frame: Frame, outer: tuple[int, ...]) -> Solution:
    """One matrix, many right sides"""
    count, size = math.prod(outer), frame.cell
    matrix = jnp.concatenate([m.reshape(m.shape[-2:]) for m, _ in parts])
    rights = [jnp.broadcast_to(right, (*outer, m.shape[-2])).reshape(count, -1) for m, right in parts]
    U, turned, left = _reduced(matrix, jnp.concatenate(rights, axis=1).T)
    every = Triangle(
        jnp.broadcast_to(U, (*outer, size, size)),
        jnp.zeros((*outer, size, 0), U.dtype),
        turned.T.reshape(*outer, size),
    )
    return Solution(jnp.broadcast_to(_logdet(U), outer), jnp.sum(left**2, axis=0).reshape(outer), every, frame)


class Triangle(NamedTuple):
    """U x + V next = c"""

    U: Data
    V: Data
    c: Data


def _reduced(A: Data, rest: Data) -> tuple[Data, Data, Data]:
    """U, Qᵀ rest and what is left of the rest, for A = Q U"""
    if A.shape[-1] == 1:  # one unknown: its column has a length
        square = jnp.sum(A**2)
        U = jnp.where(square == 0, 0.0, jnp.sqrt(jnp.where(square == 0, 1.0, square)))[None, None]
        Q = A / jnp.where(U == 0, 1.0, U)
    else:
        Q, U = orthogonal_triangular(_tall(A))
        Q = Q[: len(A)]
    turned = Q.T @ rest
    return U, turned, rest - Q @ turned


def _tall(A: Data) -> Data:
    """At least as many rows as columns."""
    lacking = A.shape[1] - A.shape[0]
    return A if lacking <= 0 else jnp.concatenate([A, jnp.zeros((lacking, A.shape[1]), A.dtype)])


def _logdet(U: Data) -> Data:
    sizes = jnp.abs(jnp.diagonal(U))
    if U.dtype == jnp.float64:  # a direction that no row says anything of, but for rounding
        sizes = jnp.where(sizes <= 4 * jnp.finfo(U.dtype).eps * jnp.max(sizes), 0.0, sizes)
    return 2 * jnp.sum(jnp.log(sizes))


def _cell(rows: Data) -> tuple[Data, Data, Triangle]:
    U, c, left = _reduced(rows[:, :-1], rows[:, -1:])
    return _logdet(U), jnp.sum(left**2), Triangle(U, jnp.zeros((U.shape[0], 0), U.dtype), c[:, 0])


def _chain(rows: Data) -> tuple[Data, Data, Any]:
    """Along the chain: each unknown is eliminated against the rows that touch it, what is left falls on the next."""
    size = (rows.shape[-1] - 1) // 2

    def step(carried: Data, here: Data) -> tuple[Data, tuple]:
        both = jnp.concatenate([carried, here])
        U, turned, left = _reduced(both[:, :size], both[:, size:])
        V, c = turned[:, :-1], turned[:, -1]
        U_next, c_next, over = _reduced(left[:, :-1], left[:, -1:])
        new = jnp.concatenate([U_next, jnp.zeros_like(U_next), c_next], axis=1)
        return new, (_logdet(U), jnp.sum(over**2), Triangle(U, V, c))

    empty = jnp.zeros((size, rows.shape[-1]), rows.dtype)
    carried, (logdets, rests, triangles) = jax.lax.scan(step, empty, rows[:-1])
    both = jnp.concatenate([carried, rows[-1]])
    logdet, rss, last = _cell(jnp.concatenate([both[:, :size], both[:, -1:]], axis=1))
    return jnp.sum(logdets) + logdet, jnp.sum(rests) + rss, (triangles, last)


# -- solutions ------------------------------------------------------------------------------------------------------


def _solved_cell(triangle: Triangle, noise: Data) -> Data:
    return jax.scipy.linalg.solve_triangular(triangle.U, triangle.c + noise)


def _solved_chain(triangles: tuple[Triangle, Triangle], noise: Data) -> Data:
    steps, last = triangles
    end = _solved_cell(last, noise[-1])

    def back(following: Data, here: tuple[Triangle, Data]) -> tuple[Data, Data]:
        triangle, mine = here
        x = _solved_cell(Triangle(triangle.U, triangle.V, triangle.c - triangle.V @ following), mine)
        return x, x

    _, others = jax.lax.scan(back, end, (steps, noise[:-1]), reverse=True)
    return jnp.concatenate([others, end[None]])
