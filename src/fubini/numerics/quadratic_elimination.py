"""Elimination from quadratic exponents: integrals and maxima, conditional moments, draws.

Canonical forms by Schur complements of Cholesky factors, white rows by reflections or QR. Whatever has no more
information than rounding leaves is detected, and reported.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from fubini.base.arrays import Data, is_jax, namespace, stop_gradient
from fubini.numerics.arithmetic import numpy_solve
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import (
    EliminatedQuadratic,
    Names,
    Positions,
    Quadratic,
    all_rows,
    block,
    by_name,
    diagonal,
    first_positions,
    minus_half_square,
    norms,
    plus,
    scale_of,
    taken,
    times_vector,
    tolerance,
    transposed,
)
from fubini.numerics.small_matrices import lower_root, lower_solved, orthogonal_triangular, over

MANY = 64  # columns that are turned one after another: rows of very different scales keep more digits


def reduced(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> EliminatedQuadratic:
    """∫ (or max) over the elements at the positions `gone`."""
    if not quadratic.white:
        return _schur_complement(quadratic, gone, kept, integrate)
    return _reflected(quadratic, gone, kept, integrate)


def _schur_complement(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> EliminatedQuadratic:
    """K_aa − K_ab K_bb⁻¹ K_ba and its kin."""
    h, h_names, K, K_names, _ = quadratic
    if type(K) is np.ndarray and K.ndim == 2 and type(h) is np.ndarray and h.ndim == 1:
        return _schur_complement_of_one(quadratic, gone, kept, integrate)
    B = block(K, gone, gone)
    C = block(K, gone, kept)
    L, ok = root(B)
    W = _half_solved(L, C)
    u, u_names = by_name(
        lambda M, v: _half_solved(M, v[..., None])[..., 0], (L, K_names, 2), (block(h, gone), h_names, 1)
    )
    xp = namespace(h, K)
    log, names = xp.sum(u * u, axis=-1) * 0.5, u_names
    if integrate:
        volume = 0.5 * len(gone) * math.log(2 * math.pi) - _log_diagonal(L)
        log, names = by_name(plus, (log, names, 0), (volume, K_names, 0))
    A = block(K, kept, kept)
    precision = _clean(A - transposed(W) @ W, A)
    info, info_names = by_name(
        lambda v, M, s: v - xp.sum(M * s[..., None], axis=-2),
        (block(h, kept), h_names, 1),
        (W, K_names, 2),
        (u, u_names, 1),
    )
    return EliminatedQuadratic(Quadratic(info, info_names, precision, K_names), log, names, align(ok, K_names, names))


def _schur_complement_of_one(
    quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool
) -> EliminatedQuadratic:
    """The same without a batch, in NumPy: a few array operations are all it is."""
    h, K = quadratic.vector, quadratic.matrix
    A, C, b = block(K, kept, kept), block(K, gone, kept), block(h, gone)
    if len(gone) == 1:
        pivot = float(K[gone[0], gone[0]])
        ok = pivot > 0
        pivot = pivot if ok else 1.0
        W, u, size = C / math.sqrt(pivot), b / math.sqrt(pivot), 0.5 * math.log(pivot)
    else:
        L, ok = root(block(K, gone, gone))
        both = numpy_solve(L, np.concatenate([C, b[:, None]], axis=1))
        W, u, size = both[:, :-1], both[:, -1], float(np.log(L.diagonal()).sum())
    log = 0.5 * float(u @ u) + (0.5 * len(gone) * math.log(2 * math.pi) - size if integrate else 0.0)
    rest = Quadratic(block(h, kept) - u @ W, (), _clean(A - W.T @ W, A), ())
    return EliminatedQuadratic(rest, np.float64(log), (), ok)


def _reflected(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> EliminatedQuadratic:
    """Rows turned by an orthogonal Q until only the first hold what goes; the others remain."""
    r, r_names, R, R_names, _ = quadratic
    B, A = block(R, all_rows(R), gone), block(R, all_rows(R), kept)
    xp = namespace(r, R)
    if R.shape[-2] < len(gone):
        empty = Quadratic(r, r_names, A, R_names, True)
        return EliminatedQuadratic(empty, xp.zeros(()), (), np.zeros(R.shape[:-2], bool))
    before = norms(A, -2)
    (A, r, r_names), pivots, ok = _turned(B, A, r, r_names, R_names)
    small = norms(A, -2) <= tolerance(R) * before  # rounding alone: no information from nothing
    if xp is not np:
        A = A - stop_gradient(xp.where(small[..., None, :], A, 0.0))
    elif small.any():
        A = np.where(small[..., None, :], 0.0, A)
    log, names = xp.zeros(R.shape[:-2]), R_names
    if integrate:
        log = 0.5 * len(gone) * math.log(2 * math.pi) - xp.sum(xp.log(xp.abs(pivots)), axis=-1)
    if not kept:
        log, names = by_name(plus, (log, names, 0), (minus_half_square(r), r_names, 0))
    return EliminatedQuadratic(Quadratic(r, r_names, A, R_names, True), log, names, align(ok, R_names, names))


def _turned(B: Data, A: Data, r: Data, r_names: Names, R_names: Names) -> tuple[tuple[Data, Data, Names], Data, Data]:
    """QᵀA and Qᵀr without the rows that Q makes of B, its pivots, and where B has full rank beyond rounding."""
    xp = namespace(B, A, r)
    sizes = norms(B, -2)
    if xp is not np and B.shape[-1] > 1:
        return _projected(B, A, r, r_names, R_names, sizes)
    if B.ndim == 2 and r.ndim == 1 and B.shape[-1] > MANY and all(np.isfinite(part).all() for part in (B, A, r)):
        return _turned_at_once(B, A, r, sizes)
    pivots: list[Data] = []
    oks: list[Data] = []
    limit = tolerance(B)
    for place in range(B.shape[-1]):
        B, A, r, r_names = _with_pivot_first(B, A, r, r_names, R_names)
        v, beta, pivot = _householder(B[..., 0])
        r, r_names = by_name(
            lambda x, w, b: (x - w * (b * xp.sum(w * x, axis=-1))[..., None])[..., 1:],
            (r, r_names, 1),
            (v, R_names, 1),
            (beta, R_names, 0),
        )
        B, A = _reflect(B[..., 1:], v, beta)[..., 1:, :], _reflect(A, v, beta)[..., 1:, :]
        oks.append(xp.abs(pivot) > (limit * sizes[..., place] if sizes.shape[-1] > 1 else 0.0))
        pivots.append(xp.where(oks[-1], pivot, 1.0))
    return (A, r, r_names), xp.stack(pivots, axis=-1), xp.all(xp.stack(oks, axis=-1), axis=-1)


def _turned_at_once(B: Data, A: Data, r: Data, sizes: Data) -> tuple[tuple[Data, Data, Names], Data, Data]:
    """The same by LAPACK, for many columns in NumPy: rows with the largest entries first."""
    order = np.argsort(-np.abs(B).max(axis=1), kind="stable")
    (packed, factors), U = scipy.linalg.qr(B[order], mode="raw")
    both, count = np.column_stack([A, r])[order], B.shape[1]
    apply = scipy.linalg.lapack.get_lapack_funcs("ormqr", (packed, both))
    _, work, _ = apply("L", "T", packed, factors, both, -1)
    turned, _, _ = apply("L", "T", packed, factors, both, int(work[0]))
    pivots = U.diagonal()
    ok = np.abs(pivots) > tolerance(B) * sizes
    return (turned[count:, :-1], turned[count:, -1], ()), np.where(ok, pivots, 1.0), ok.all()


def _with_pivot_first(B: Data, A: Data, r: Data, r_names: Names, R_names: Names) -> tuple[Data, Data, Data, Names]:
    """The row with the largest first entry of B on top.

    Then a row is changed in proportion to its own entry, and rows of very different scales keep their digits (Cox and
    Higham, Stability of Householder QR factorization for weighted least squares problems, 1998).
    """
    if B.shape[-2] < 2:
        return B, A, r, r_names
    if is_jax(B) or is_jax(A) or is_jax(r):
        top = jnp.argmax(jnp.abs(B[..., :1]), axis=-2)
        place = jnp.arange(B.shape[-2])
        order = jnp.where(place == 0, top, jnp.where(place == top, 0, place))
    elif B.ndim == 2 and r.ndim == 1:
        top = int(np.abs(B[:, 0]).argmax())
        if top == 0:
            return B, A, r, r_names
        count: int = B.shape[0]
        order = np.arange(count)
        order[0], order[top] = top, 0
        return B[order], A[order], r[order], r_names
    else:
        order = np.argsort(-np.abs(B[..., 0]), axis=-1)
    xp, rows = namespace(order), order[..., None]
    r, r_names = taken(r, r_names, order, R_names)
    return xp.take_along_axis(B, rows, axis=-2), xp.take_along_axis(A, rows, axis=-2), r, r_names


def _projected(
    B: Data, A: Data, r: Data, r_names: Names, R_names: Names, sizes: Data
) -> tuple[tuple[Data, Data, Names], Data, Data]:
    """(1 − QQᵀ)A and (1 − QQᵀ)r for B = QU: as many rows as before, which a traced program differentiates with ease."""
    Q, U = orthogonal_triangular(B)
    pivots = diagonal(U)
    ok = jnp.all(jnp.abs(pivots) > tolerance(B) * sizes, axis=-1)
    A = A - Q @ (transposed(Q) @ A)
    r, r_names = by_name(
        lambda q, x: x - times_vector(q, times_vector(transposed(q), x)), (Q, R_names, 2), (r, r_names, 1)
    )
    return (A, r, r_names), jnp.where(ok[..., None], pivots, 1.0), ok


def _householder(column: Data) -> tuple[Data, Data, Data]:
    """v and β such that (1 − β v vᵀ) column is ∓|column| in its first place and zero below; v is scaled."""
    xp = namespace(column)
    scale = scale_of(column, -1)
    column = column / scale
    square = xp.sum(column * column, axis=-1)
    zero = square == 0
    norm = xp.sqrt(xp.where(zero, 1.0, square))
    signed = xp.where(column[..., 0] < 0, -norm, norm)
    first = column[..., 0] + signed
    v = xp.concatenate([first[..., None], column[..., 1:]], axis=-1)
    beta = xp.where(zero, 0.0, 1.0 / xp.where(zero, 1.0, norm * xp.abs(first)))
    return v, beta, xp.where(zero, 0.0, -signed) * scale[..., 0]


def _reflect(M: Data, v: Data, beta: Data) -> Data:
    xp = namespace(M, v)
    return M - v[..., :, None] * (beta[..., None] * xp.sum(v[..., :, None] * M, axis=-2))[..., None, :]


def root(K: Data) -> tuple[Data, Data]:
    """The lower Cholesky factor, and where the matrix is positive definite beyond rounding."""
    xp = namespace(K)
    if K.shape[-1] == 1:
        ok = K[..., 0, 0] > 0
        return xp.sqrt(xp.where(ok[..., None, None], K, 1.0)), ok
    sizes = diagonal(K)
    try:
        L = lower_root(K) if xp is jnp else xp.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        return np.broadcast_to(np.eye(K.shape[-1]), K.shape), _definite_cells(K)
    pivots = diagonal(L)
    ok = xp.all(pivots * pivots > tolerance(K) * sizes, axis=-1)
    return L, ok


def _definite_cells(K: np.ndarray) -> np.ndarray:
    """NumPy refuses a whole batch for one matrix: which ones are definite."""
    least = np.linalg.eigvalsh(np.where(np.isfinite(K), K, 0.0))[..., 0]
    return (least > tolerance(K) * np.max(np.abs(K), axis=(-2, -1))) & np.all(np.isfinite(K), axis=(-2, -1))


def _half_solved(L: Data, right: Data) -> Data:
    """L⁻¹ R."""
    if L.shape[-1] == 1:
        return right / L
    if is_jax(L) or is_jax(right):
        return lower_solved(jnp.asarray(L), jnp.asarray(right))
    return numpy_solve(L, right)


def _log_diagonal(L: Data) -> Data:
    xp = namespace(L)
    return xp.sum(xp.log(diagonal(L)), axis=-1)


def _clean(K: Data, before: Data) -> Data:
    """A difference of precisions with what is rounding alone set to zero, so that no information appears from nothing.

    Only the value is set: derivatives pass.
    """
    if K.shape[-1] == 0:
        return K
    xp = namespace(K)
    limit = tolerance(K)
    if xp is np and K.ndim == 2 and (K.diagonal() > limit * before.diagonal()).all():
        return K
    bound = limit * xp.abs(diagonal(before))
    small = xp.abs(diagonal(K)) <= bound
    if xp is np:
        if not small.any():
            return K
        return np.where(small[..., None] | small[..., None, :], 0.0, K)
    return K - stop_gradient(jnp.where(small[..., None] | small[..., None, :], K, 0.0))


class Conditional(NamedTuple):
    """z_a given z_b: mean + slope · z_b, and covariance H Hᵀ, each with its names, and where they exist."""

    mean: Data
    mean_names: Names
    slope: Data
    half: Data
    names: Names
    ok: Data

    @property
    def covariance(self) -> Data:
        """H Hᵀ."""
        return self.half @ transposed(self.half)

    @property
    def log_determinant(self) -> Data:
        """log det of the covariance, from the diagonal of its triangular root."""
        xp = namespace(self.half)
        return 2.0 * xp.sum(xp.log(xp.abs(diagonal(self.half))), axis=-1)


def conditional(quadratic: Quadratic, elements: Positions, others: Positions) -> Conditional:
    """The moments of some elements given the others: K_aa⁻¹(h_a − K_ab z_b) and K_aa⁻¹."""
    v, v_names, M, M_names, white = quadratic
    half, ok, turned = _inverse_root(quadratic, elements)
    coupling = block(M, all_rows(M), others) if white else block(M, elements, others)
    vector = v if white else block(v, elements)
    mean, mean_names = by_name(
        lambda H, Q, x: times_vector(H, times_vector(transposed(Q), x)),
        (half, M_names, 2),
        (turned, M_names, 2),
        (vector, v_names, 1),
    )
    slope = -(half @ (transposed(turned) @ coupling))
    return Conditional(mean, mean_names, slope, half, M_names, ok)


def _inverse_root(quadratic: Quadratic, elements: Positions) -> tuple[Data, Data, Data]:
    """H and Q with Σ = H Hᵀ and mean H Qᵀ v: of rows R = Q U, U⁻¹ and Q; of a precision L Lᵀ, L⁻ᵀ and L⁻ᵀ."""
    M, white = quadratic.matrix, quadratic.white
    xp = namespace(M)
    if not white:
        L, ok = root(block(M, elements, elements))
        eye = xp.broadcast_to(xp.eye(len(elements), dtype=M.dtype), L.shape)
        half = transposed(_half_solved(L, eye))
        return half, ok, half
    R = block(M, all_rows(M), elements)
    if R.shape[-2] < R.shape[-1]:
        eye = xp.broadcast_to(xp.eye(R.shape[-1], dtype=M.dtype), (*R.shape[:-2], R.shape[-1], R.shape[-1]))
        return eye, np.zeros(R.shape[:-2], bool), xp.zeros_like(R)
    Q, U = orthogonal_triangular(R) if xp is jnp else np.linalg.qr(R)
    pivots = diagonal(U)
    ok = xp.all(xp.abs(pivots) > tolerance(R) * norms(R, -2), axis=-1)
    eye = xp.broadcast_to(xp.eye(R.shape[-1], dtype=M.dtype), U.shape)
    U = xp.where(ok[..., None, None], U, eye)
    return (over(eye, U) if xp is jnp else numpy_solve(U, eye)), ok, Q


def given_rest(quadratic: Quadratic, elements: Positions) -> EliminatedQuadratic:
    """The density of some elements given the others: as many white rows as there are elements, and its log-constant.

    Rows R = Q U: Qᵀ(R z − r), log |det U|; of a precision L Lᵀ: Lᵀz_a + L⁻¹K_ab z_b − L⁻¹h_a, log |det L|.
    """
    v, v_names, M, M_names, white = quadratic
    if white:
        B = block(M, all_rows(M), elements)
        Q, U = orthogonal_triangular(B) if is_jax(B) else np.linalg.qr(B)
        pivots = diagonal(U)
        ok = namespace(M).all(abs(pivots) > tolerance(B) * norms(B, -2), axis=-1)
        rows = transposed(Q) @ M
        vector, names = by_name(lambda q, x: times_vector(transposed(q), x), (Q, M_names, 2), (v, v_names, 1))
    else:
        L, ok = root(block(M, elements, elements))
        pivots = diagonal(L)
        rows = _half_solved(L, block(M, elements, first_positions(M.shape[-1])))
        vector, names = by_name(
            lambda m, x: _half_solved(m, x[..., None])[..., 0], (L, M_names, 2), (block(v, elements), v_names, 1)
        )
    xp = namespace(M)
    log = xp.sum(xp.log(xp.abs(xp.where(ok[..., None], pivots, 1.0))), axis=-1) - 0.5 * len(elements) * math.log(
        2 * math.pi
    )
    return EliminatedQuadratic(Quadratic(vector, names, rows, M_names, True), log, M_names, ok)


def drawn(quadratic: Quadratic, noise: Data, noise_names: Names) -> tuple[Data, Names, Data]:
    """A draw H(Qᵀv + sε) of covariance H Hᵀ for each cell of the noise ε, and where there is one.

    H is triangular. With the signs s of its diagonal, H s is the one root of the covariance whose diagonal is positive:
    the draw is the same however the rows are stored, in a trace and outside of it.
    """
    v, v_names, _, M_names, _ = quadratic
    half, ok, turned = _inverse_root(quadratic, first_positions(quadratic.size))

    def draw(H: Data, Q: Data, x: Data, e: Data) -> Data:
        return times_vector(H, times_vector(transposed(Q), x) + namespace(H).sign(diagonal(H)) * e)

    data, names = by_name(
        draw,
        (half, M_names, 2),
        (turned, M_names, 2),
        (v, v_names, 1),
        (noise, noise_names, 1),
    )
    return data, names, ok


def is_semidefinite(K: Data) -> Data:
    """Whether no eigenvalue is negative beyond rounding: K + tI, t small, has a Cholesky factor."""
    xp = namespace(K)
    size = K.shape[-1]
    if size == 0:
        return xp.ones(K.shape[:-2], bool)
    top = xp.max(xp.abs(K), axis=(-2, -1), keepdims=True)
    lifted = K + (16 * size * tolerance(K) * top + (top == 0)) * xp.eye(size, dtype=K.dtype)
    try:
        L = xp.linalg.cholesky(lifted)
    except np.linalg.LinAlgError:
        return _definite_cells(lifted)
    return xp.all(xp.isfinite(L), axis=(-2, -1))


def is_symmetric(K: Data) -> Data:
    """Equal to its transpose up to rounding."""
    xp = namespace(K)
    if K.shape[-1] == 0:
        return xp.ones(K.shape[:-2], bool)
    top = xp.max(xp.abs(K), axis=(-2, -1), keepdims=True)
    return xp.all(xp.abs(K - xp.swapaxes(K, -1, -2)) <= 1e3 * tolerance(K) * top, axis=(-2, -1))
