"""Chains of Gaussians in order, by means and covariances: filter, smoother, evidence and its slopes.

A step is rows |A x + B x′ − r|². Solved for x′ it is x′ = F x + b + noise of covariance C, and rows E x − s about x.
Then P⁺ = (1 + P J)⁻¹ P with J = EᵀE, and P′ = F P⁺ Fᵀ + C: few multiplications for each step, one division, no roots;
all else is done for all steps at once. Covariances that are close to singular lose digits that rows keep: `safe` says
whether none was. The slopes of the evidence are the smoother's expectations of those of the log-density (Fisher).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, stop_gradient
from fubini.numerics.matrix_entries import (
    Matrix,
    Vector,
    add,
    apply,
    congruent,
    correlation_inverse,
    dot,
    from_lower_half,
    inverse,
    inverse_root,
    lower_half,
    matrix_of,
    multiply,
    plus,
    stack_matrix,
    stack_vector,
    symmetric,
    transpose,
    vector_of,
)
from fubini.numerics.quadratic import diagonal, norms, times_vector, tolerance, transposed
from fubini.numerics.small_matrices import orthogonal_triangular, over

LOG_TWO_PI = math.log(2 * math.pi)


class ChainRows(NamedTuple):
    """Rows of the start over (*batch), and of the steps over (time, *batch); axes are 1 where nothing depends on them.

    The start is |first x − first_vector|², a step |before x + after x′ − vector|².
    """

    first: Data
    first_vector: Data
    before: Data
    after: Data
    vector: Data

    @property
    def size(self) -> int:
        """The length of a state."""
        return self.first.shape[-1]


class Moments(NamedTuple):
    """Means and covariances of states, as entries."""

    mean: Vector
    covariance: Matrix


class Solved(NamedTuple):
    """Rows solved for a state: its moments given others, the rows that remain of those, and its log-volume."""

    slope: Data  # F
    bias: Data  # b
    covariance: Data  # C
    rows: Data  # E
    vector: Data  # s
    log: Data
    ok: Data


def solved(before: Data, after: Data, vector: Data) -> Solved:
    """A x + B x′ − r with B = Q U: F = −U⁻¹QᵀA, b = U⁻¹Qᵀr, C = U⁻¹U⁻ᵀ, E = (1 − QQᵀ)A, s = (1 − QQᵀ)r."""
    Q, U = orthogonal_triangular(after)
    pivots = diagonal(U)
    ok = jnp.all(jnp.abs(pivots) > tolerance(after) * norms(after, -2), axis=-1)
    U = jnp.where(ok[..., None, None], U, jnp.eye(U.shape[-1], dtype=U.dtype))
    half = over(jnp.broadcast_to(jnp.eye(U.shape[-1], dtype=U.dtype), U.shape), U)
    both = half @ transposed(Q)
    rows = before - Q @ (transposed(Q) @ before)
    small = norms(rows, -2) <= tolerance(after) * norms(before, -2)  # rounding alone: no information from nothing
    rows = rows - stop_gradient(jnp.where(small[..., None, :], rows, 0.0))
    rest = vector - times_vector(Q, times_vector(transposed(Q), vector))
    volume = 0.5 * U.shape[-1] * LOG_TWO_PI - jnp.sum(jnp.log(jnp.abs(diagonal(U))), axis=-1)
    return Solved(-both @ before, times_vector(both, vector), half @ transposed(half), rows, rest, volume, ok)


class Passed(NamedTuple):
    """What the filter found: moments before, within and after each step, with time in front.

    Within a step are the moments given what it says of the state before it. `log` is the logarithm of each step's part
    of the evidence, and of the start's in front; `safe` says whether no covariance was close to singular.
    """

    steps: Solved
    before: Moments
    within: Moments
    after: Moments
    log: Data
    first_log: Data
    safe: Data


def passed(rows: ChainRows, length: int) -> Passed:
    """The filter: one step after another, and once more for all steps at once what need not be handed on."""
    size, batch = rows.size, _batch_of(rows)
    steps = solved(rows.before, rows.after, rows.vector)
    J, g = transposed(steps.rows) @ steps.rows, times_vector(transposed(steps.rows), steps.vector)
    start = solved(jnp.zeros_like(rows.first[..., :0]), rows.first, rows.first_vector)
    begin = _packed(Moments(vector_of(start.bias), matrix_of(start.covariance)), batch)
    fixed, moving = _split([steps.slope, steps.bias, steps.covariance, J, g])

    def body(carry: Data, now: list[Data]) -> tuple[Data, Data]:
        F, b, C, information, vector = _joined(fixed, now)
        within = _updated(_unpacked(carry, size), matrix_of(information), vector_of(vector))[0]
        after = _packed(_moved(within, matrix_of(F), vector_of(b), matrix_of(C)), batch)
        return after, after

    _, every = lax_loops.scan(body, begin, moving, length=length)
    before = _unpacked(jnp.concatenate([begin[None], every[:-1]]), size)
    after = _unpacked(every, size)
    within, surprise, determinant = _updated(before, matrix_of(J), vector_of(g))
    residual = [s - dot(E, within.mean) for E, s in zip(matrix_of(steps.rows), vector_of(steps.vector), strict=True)]
    square = dot(residual, residual) + dot(surprise, apply(before.covariance, surprise))
    log = steps.log - 0.5 * (square + jnp.log(determinant))
    unexplained = vector_of(start.vector)
    first_log = jnp.broadcast_to(start.log - 0.5 * dot(unexplained, unexplained), batch)
    safe = jnp.all(steps.ok) & jnp.all(start.ok) & _is_regular(_unpacked(jnp.concatenate([begin[None], every]), size))
    return Passed(steps, before, within, after, log, first_log, safe & jnp.all(jnp.isfinite(log)))


def _updated(now: Moments, J: Matrix, g: Vector) -> tuple[Moments, Vector, Data]:
    """The moments given exp(g·x − ½ x·J x), P⁻¹ times the change of the mean, and det(1 + P J)."""
    m, P = now
    size = len(m)
    PJ = multiply(P, J)
    M, determinant = inverse([[PJ[i][j] + 1.0 if i == j else PJ[i][j] for j in range(size)] for i in range(size)])
    MP = multiply(M, P)
    X = symmetric(size, lambda i, j: MP[i][j])
    away = [x - dot(row, m) for x, row in zip(g, J, strict=True)]
    return Moments(add(m, apply(X, away)), X), apply(transpose(M), away), determinant


def _moved(now: Moments, F: Matrix, b: Vector, C: Matrix) -> Moments:
    """The moments of F x + b + noise of covariance C."""
    return Moments(add(apply(F, now.mean), b), plus(congruent(F, now.covariance), C))


def _is_regular(moments: Moments) -> Data:
    """Whether correlations keep half of their digits."""
    *_, determinant = correlation_inverse(moments.covariance)
    return jnp.all(determinant >= float(np.finfo(np.dtype(determinant.dtype)).eps) ** 0.5)


# -- the smoother ---------------------------------------------------------------------------------------------------


class SmoothedPairs(NamedTuple):
    """Moments given everything: of the states before and after each step, and their covariances; time in front."""

    before: Moments
    after: Moments
    cross: Matrix


def smoothed(found: Passed) -> SmoothedPairs:
    """x given x′ and the past is G x′ + c + noise of covariance L: the last states first.

    Rauch, Tung and Striebel, Maximum likelihood estimates of linear dynamic systems, 1965.
    """
    _, _, within, after, *_ = found
    size, batch = len(within.mean), found.first_log.shape
    F, C = matrix_of(found.steps.slope), matrix_of(found.steps.covariance)
    R, scales, _ = correlation_inverse(after.covariance)
    half = multiply(within.covariance, transpose(F))
    inverted = [[R[i][j] / (scales[i] * scales[j]) for j in range(size)] for i in range(size)]
    G = multiply(half, inverted)
    GF = multiply(G, F)
    kept = [[(1.0 if i == j else 0.0) - GF[i][j] for j in range(size)] for i in range(size)]
    L = plus(congruent(kept, within.covariance), congruent(G, C))
    c = [m - x for m, x in zip(within.mean, apply(G, after.mean), strict=True)]
    length = after.mean[0].shape[0]
    slopes_back, noise = (jnp.broadcast_to(part, (length, *part.shape[1:])) for part in map(stack_matrix, (G, L)))

    def body(later: Data, now: tuple[Data, Data, Data]) -> tuple[Data, Data]:
        slope, covariance, bias = now
        earlier = _moved(_unpacked(later, size), matrix_of(slope), vector_of(bias), matrix_of(covariance))
        return (packed := _packed(earlier, batch)), packed

    end = _packed(Moments(_at(after.mean, -1), _at_matrix(after.covariance, -1)), batch)
    _, every = lax_loops.scan(body, end, (slopes_back, noise, stack_vector(c)), reverse=True)
    later = _unpacked(jnp.concatenate([every[1:], end[None]]), size)
    return SmoothedPairs(_unpacked(every, size), later, multiply(G, later.covariance))


# -- the evidence ---------------------------------------------------------------------------------------------------


def log_evidence(found: Passed) -> Data:
    """The logarithm of ∫ over all states."""
    return found.first_log + jnp.sum(found.log, axis=0)


def slopes(rows: ChainRows, found: Passed) -> ChainRows:
    """The derivatives of the log-evidence in the rows: R z − r in r, and −(R z − r) zᵀ in R, expected given all."""
    pairs = smoothed(found)
    (m, P), (m_after, P_after), cross = pairs
    first, first_vector = _slope(rows.first, rows.first_vector, _at(m, 0), [_at_matrix(P, 0)])
    z = [*m, *m_after]
    blocks = [[*own, *other] for own, other in zip(P, cross, strict=True)]
    blocks += [[*own, *other] for own, other in zip(transpose(cross), P_after, strict=True)]
    both = jnp.concatenate(jnp.broadcast_arrays(rows.before, rows.after), axis=-1)
    steps, vector = _slope(both, rows.vector, z, [blocks])
    return ChainRows(first, first_vector, steps[..., : rows.size], steps[..., rows.size :], vector)


def _at(v: Vector, place: int) -> Vector:
    return [entry[place] for entry in v]


def _at_matrix(A: Matrix, place: int) -> Matrix:
    return [_at(row, place) for row in A]


def _slope(R: Data, r: Data, mean: Vector, covariance: list[Matrix]) -> tuple[Data, Data]:
    entries, values = matrix_of(R), vector_of(r)
    away = [dot(row, mean) - value for row, value in zip(entries, values, strict=True)]
    (P,) = covariance
    spread = multiply(entries, P)
    in_rows = [[-(a * m + s) for m, s in zip(mean, row, strict=True)] for a, row in zip(away, spread, strict=True)]
    return stack_matrix(in_rows), stack_vector(away)


# -- as rows --------------------------------------------------------------------------------------------------------


def to_rows(moments: Moments) -> tuple[Data, Data, Data]:
    """R and r with N(m, P) ∝ exp(−½|R x − r|²), and the logarithm of the constant."""
    W = inverse_root(moments.covariance)
    volume = sum(jnp.log(W[i][i]) for i in range(len(W))) - 0.5 * len(W) * LOG_TWO_PI
    return stack_matrix(W), stack_vector(apply(W, moments.mean)), volume


# -- layout ---------------------------------------------------------------------------------------------------------


def _batch_of(rows: ChainRows) -> tuple[int, ...]:
    """The axes that any of the rows depends on."""
    own = [data.shape[1:-2] for data in (rows.before, rows.after)]
    return np.broadcast_shapes(rows.first.shape[:-2], rows.first_vector.shape[:-1], rows.vector.shape[1:-1], *own)


def _packed(moments: Moments, batch: tuple[int, ...]) -> Data:
    entries = [*moments.mean, *lower_half(moments.covariance)]
    return jnp.stack([jnp.broadcast_to(entry, batch) for entry in entries], axis=-1)


def _unpacked(data: Data, size: int) -> Moments:
    entries = vector_of(data)
    return Moments(entries[:size], from_lower_half(size, entries[size:]))


def _split(arrays: list[Data]) -> tuple[list[Data | None], list[Data]]:
    """What is the same at all times, without the axis of time, and what a scan runs over."""
    fixed = [data[0] if data.shape[0] == 1 else None for data in arrays]
    return fixed, [data for data, same in zip(arrays, fixed, strict=True) if same is None]


def _joined(fixed: list[Data | None], moving: list[Data]) -> list[Data]:
    rest = iter(moving)
    return [next(rest) if data is None else data for data in fixed]
