"""The algebra of quadratic exponents in either form: sums, differences, multiples, plates, substitution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, namespace, stop_gradient
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import DataError
from fubini.numerics.named_axes import Index, align, gather, substituted_names
from fubini.numerics.quadratic import (
    Names,
    Part,
    Positions,
    Quadratic,
    Shifted,
    all_rows,
    block,
    by_name,
    minus,
    minus_half_square,
    plus,
    stacked,
    taken,
    times_vector,
    tolerance,
    transposed,
)

# Rows that are kept for each variable, and besides, before they are made fewer.
ROWS, SPARE_ROWS = 4, 32

# Rows that are made fewer at a time, so that no copy is taken of many.
PART_ROWS = 8192

# A traced program keeps this many, since it can only go over to canonical form, which loses digits.
TRACED_ROWS = 4096


# -- forms ------------------------------------------------------------------------------------------------------------


def canonical(quadratic: Quadratic) -> Shifted:
    """−½ |R z − r|²  =  h·z − ½ z·K z − ½ |r|²,  K = RᵀR,  h = Rᵀr"""
    v, v_names, M, M_names, white = quadratic
    if not white:
        return Shifted(quadratic, 0.0, ())
    with np.errstate(over="ignore", invalid="ignore"):
        h, h_names = by_name(lambda R, r: times_vector(transposed(R), r), (M, M_names, 2), (v, v_names, 1))
        K = transposed(M) @ M
    if not (is_jax(h) or is_jax(K)) and not (np.isfinite(h).all() and np.isfinite(K).all()):
        raise DataError(
            f"the precision of a Gaussian with a standard deviation near {1 / float(np.abs(M).max()):.3g}",
            expected="precisions that a double can hold, below 1.8e308",
            advice="scale the variables, so that their standard deviations are above 1e-150",
        )
    return Shifted(Quadratic(h, h_names, K, M_names), minus_half_square(v), v_names)


def most_rows(v: Data, M: Data) -> int:
    """The number of white rows that are kept as they are."""
    few = ROWS * M.shape[-1] + SPARE_ROWS
    return max(few, TRACED_ROWS) if is_jax(v) or is_jax(M) else few


def compressed(quadratic: Quadratic) -> Shifted:
    """Compress to few more rows than variables: by QR, or, where derivatives may be asked for, in canonical form.

    The derivatives of a QR factorisation do not exist where the rows are dependent; those of RᵀR always do.
    """
    v, v_names, M, M_names, white = quadratic
    if not white or M.shape[-2] <= most_rows(v, M):
        return Shifted(quadratic, 0.0, ())
    if is_jax(v) or is_jax(M):
        return canonical(quadratic)
    size = max(PART_ROWS, most_rows(v, M))
    if M.shape[-2] > size:
        return _compressed_in_parts(quadratic, size)
    v, v_names, M, M_names, _ = _sorted_rows(quadratic)
    Q, U = np.linalg.qr(M)
    r, r_names = by_name(lambda q, x: times_vector(transposed(q), x), (Q, M_names, 2), (v, v_names, 1))
    log, names = by_name(
        lambda x, q, y: minus_half_square(x - times_vector(q, y)), (v, v_names, 1), (Q, M_names, 2), (r, r_names, 1)
    )
    return Shifted(Quadratic(r, r_names, U, M_names, True), log, names)


def _compressed_in_parts(quadratic: Quadratic, size: int) -> Shifted:
    """The triangle of the first rows, then of that and the next rows, and so on; NumPy alone."""
    r, r_names, R, R_names, _ = quadratic
    done: Quadratic | None = None
    logs: list[Part] = []
    for start in range(0, R.shape[-2], size):
        part = Quadratic(r[..., start : start + size], r_names, R[..., start : start + size, :], R_names, True)
        done, log, names = compressed(part) if done is None else added(done, part)
        logs.append((_as_data(log), names, 0))
    assert done is not None
    return Shifted(done, *by_name(_sum_of, *logs))


def _sum_of(*logs: Data) -> Data:
    return sum(logs)


def _sorted_rows(quadratic: Quadratic) -> Quadratic:
    """The largest rows first: then a QR factorisation is stable row by row (Cox & Higham 1998); NumPy alone."""
    r, r_names, R, R_names, white = quadratic
    order = np.argsort(-np.abs(R).max(axis=-1), axis=-1)
    vector, vector_names = taken(r, r_names, order, R_names)
    return Quadratic(vector, vector_names, np.take_along_axis(R, order[..., None], axis=-2), R_names, white)


# -- the algebra ------------------------------------------------------------------------------------------------------


def added(a: Quadratic, b: Quadratic) -> Shifted:
    """The sum of exponents over the same variables."""
    if a.white and b.white:
        M, M_names = stacked([(a.matrix, a.matrix_names), (b.matrix, b.matrix_names)], 2)
        v, v_names = stacked([(a.vector, a.vector_names), (b.vector, b.vector_names)], 1)
        return compressed(Quadratic(v, v_names, M, M_names, True))
    return _combined(a, b, plus)


def subtracted(a: Quadratic, b: Quadratic) -> Shifted:
    """The difference of exponents over the same variables; what is rounding alone is nought."""
    return _combined(a, b, _cleared_difference)


def _cleared_difference(x: Data, y: Data) -> Data:
    xp = namespace(x, y)
    gap = x - y
    small = xp.abs(gap) <= 64 * tolerance(gap) * xp.maximum(xp.abs(x), xp.abs(y))
    return xp.where(small, 0.0, gap) if xp is np else gap - stop_gradient(xp.where(small, gap, 0.0))


def _combined(a: Quadratic, b: Quadratic, combine: Callable[[Data, Data], Data]) -> Shifted:
    x, y = canonical(a), canonical(b)
    h, h_names = by_name(combine, (x.rest.vector, x.rest.vector_names, 1), (y.rest.vector, y.rest.vector_names, 1))
    K, K_names = by_name(combine, (x.rest.matrix, x.rest.matrix_names, 2), (y.rest.matrix, y.rest.matrix_names, 2))
    if not (a.white or b.white):
        return Shifted(Quadratic(h, h_names, K, K_names), 0.0, ())
    logs = by_name(
        plus if combine is plus else minus, (_as_data(x.log), x.log_names, 0), (_as_data(y.log), y.log_names, 0)
    )
    return Shifted(Quadratic(h, h_names, K, K_names), *logs)


def raised(quadratic: Quadratic, exponent: Data, names: Names) -> Shifted:
    """The exponent times a number for each cell.

    White rows stay white, times the root of the number. Of a traced number nobody knows that it is not negative: then
    it is NaN, and so is its derivative where it is nought.
    """
    if quadratic.white and (is_traced(exponent) or (exponent >= 0).all()):
        return Shifted(_scaled(quadratic, namespace(exponent).sqrt(exponent), names), 0.0, ())
    form, log, log_names = canonical(quadratic)
    scaled = _scaled(form, exponent, names)
    if not quadratic.white:
        return Shifted(scaled, 0.0, ())
    return Shifted(scaled, *by_name(lambda x, a: x * a, (log, log_names, 0), (exponent, names, 0)))


def _scaled(quadratic: Quadratic, factor: Data, names: Names) -> Quadratic:
    v, v_names, M, M_names, white = quadratic
    vector, vector_names = by_name(lambda x, a: x * a[..., None], (v, v_names, 1), (factor, names, 0))
    matrix, matrix_names = by_name(lambda X, a: X * a[..., None, None], (M, M_names, 2), (factor, names, 0))
    return Quadratic(vector, vector_names, matrix, matrix_names, white)


def multiplied_out(quadratic: Quadratic, sizes: Mapping[Name, int]) -> Shifted:
    """The sum over plates; a part that lacks a plate counts once for each of its cells."""
    if not quadratic.white:
        return Shifted(_summed_out(quadratic, sizes), 0.0, ())
    alone = {name: size for name, size in sizes.items() if name not in quadratic.matrix_names}
    averaged = _averaged(quadratic, alone)
    stacking = {name: size for name, size in sizes.items() if name not in alone}
    if not stacking:
        return averaged
    log, log_names = _summed(averaged.log, averaged.log_names, stacking)
    rows = averaged.rest.rows * math.prod(stacking.values())
    v, _, M, *_ = averaged.rest
    is_many = rows > most_rows(v, M) and (is_jax(v) or is_jax(M))
    rest, more, more_names = (canonical if is_many else compressed)(_rows_of_plates(averaged.rest, stacking))
    return Shifted(rest, *by_name(plus, (_as_data(log), log_names, 0), (_as_data(more), more_names, 0)))


def _as_data(log: Data) -> Data:
    return log if is_jax(log) else np.asarray(log)


def _averaged(quadratic: Quadratic, sizes: Mapping[Name, int]) -> Shifted:
    """Σ_i |R z − r_i|²  =  n |R z − r̄|² + Σ_i |r_i − r̄|²"""
    v, v_names, M, M_names, _ = quadratic
    if not sizes:
        return Shifted(quadratic, 0.0, ())
    axes = tuple(axis for axis, name in enumerate(v_names) if name in sizes)
    count = math.prod(sizes.values())
    xp = namespace(v)
    mean = xp.mean(v, axis=axes, keepdims=True) if axes else v
    absent = math.prod(size for name, size in sizes.items() if name not in v_names)
    names = tuple(name for name in v_names if name not in sizes)
    log: Data = xp.sum(minus_half_square(v - mean), axis=axes) * float(absent) if axes else 0.0
    mean = xp.squeeze(mean, axes) if axes else mean
    root = math.sqrt(count)
    return Shifted(Quadratic(mean * root, names, M * root, M_names, True), log, names if axes else ())


def _rows_of_plates(quadratic: Quadratic, sizes: Mapping[Name, int]) -> Quadratic:
    """The rows of all cells of plates, one under the other."""
    v, v_names, M, M_names, _ = quadratic
    matrix, matrix_names = _merged_rows(M, M_names, sizes, 2)
    vector, vector_names = _merged_rows(v, v_names, sizes, 1)
    return Quadratic(vector, vector_names, matrix, matrix_names, True)


def _merged_rows(data: Data, names: Names, sizes: Mapping[Name, int], event: int) -> tuple[Data, Names]:
    rest = tuple(name for name in names if name not in sizes)
    ordered = align(data, names, (*rest, *sizes), event)
    batch = ordered.shape[: len(rest)]
    spread = namespace(ordered).broadcast_to(
        ordered, (*batch, *sizes.values(), *ordered.shape[len(rest) + len(sizes) :])
    )
    return spread.reshape((*batch, -1, *spread.shape[len(rest) + len(sizes) + 1 :])), rest


def _summed_out(quadratic: Quadratic, sizes: Mapping[Name, int]) -> Quadratic:
    h, h_names, K, K_names, _ = quadratic
    info, info_names = _summed(h, h_names, sizes)
    precision, precision_names = _summed(K, K_names, sizes)
    return Quadratic(info, info_names, precision, precision_names)


def _summed(data: Data, names: Names, sizes: Mapping[Name, int]) -> tuple[Data, Names]:
    axes = tuple(axis for axis, name in enumerate(names) if name in sizes)
    times = math.prod(size for name, size in sizes.items() if name not in names)
    data = namespace(data).sum(data, axis=axes) if axes else data
    return (data * float(times) if times != 1 else data), tuple(name for name in names if name not in sizes)


def gathered(quadratic: Quadratic, inputs: Mapping[Name, Domain], indices: Mapping[Name, Index]) -> Quadratic:
    """The exponent at positions of batch names."""
    v, v_names, M, M_names, white = quadratic
    vector, vector_names = _gathered(v, v_names, inputs, indices)
    matrix, matrix_names = _gathered(M, M_names, inputs, indices)
    return Quadratic(vector, vector_names, matrix, matrix_names, white)


def _gathered(
    data: Data, names: Names, inputs: Mapping[Name, Domain], indices: Mapping[Name, Index]
) -> tuple[Data, Names]:
    own_indices = {name: index for name, index in indices.items() if name in names}
    if not own_indices:
        return data, names
    if all(type(index) is np.ndarray and not used for index, used in own_indices.values()) and not is_jax(data):
        where = tuple(own_indices[name][0] if name in own_indices else slice(None) for name in names)
        return data[where], substituted_names(names, own_indices)
    return gather(data, {name: inputs[name] for name in names}, own_indices)


def conditioned(quadratic: Quadratic, gone: Positions, kept: Positions, at: Data, at_names: Names) -> Shifted:
    """z_b = v: h_a − K_ab v, K_aa, and log h_b·v − ½ v·K_bb v; of rows, r − R_b v."""
    point = (at, at_names, 1)
    if quadratic.white:
        r, r_names, R, R_names, _ = quadratic
        residual, names = by_name(
            lambda x, M, v: x - times_vector(M, v), (r, r_names, 1), (block(R, all_rows(R), gone), R_names, 2), point
        )
        rest = Quadratic(residual, names, block(R, all_rows(R), kept), R_names, True)
        return Shifted(rest, 0.0, ()) if kept else Shifted(rest, minus_half_square(residual), names)
    h, h_names, K, K_names, _ = quadratic
    xp = namespace(h, K, at)
    Kv, Kv_names = by_name(times_vector, (block(K, gone, gone), K_names, 2), point)
    log, names = by_name(
        lambda b, v, M: xp.sum(v * (b - 0.5 * M), axis=-1), (block(h, gone), h_names, 1), point, (Kv, Kv_names, 1)
    )
    info, info_names = by_name(
        lambda a, M, v: a - times_vector(M, v), (block(h, kept), h_names, 1), (block(K, kept, gone), K_names, 2), point
    )
    return Shifted(Quadratic(info, info_names, block(K, kept, kept), K_names), log, names)


def transformed(quadratic: Quadratic, A: Data, A_names: Names, b: Data, b_names: Names) -> Shifted:
    """z = b + A y: Aᵀ(h − K b), AᵀK A, and log h·b − ½ b·K b; of rows, R A and r − R b."""
    v, v_names, M, M_names, white = quadratic
    xp = namespace(v, M, A, b)
    Mb, Mb_names = by_name(times_vector, (M, M_names, 2), (b, b_names, 1))
    if white:
        residual, names = by_name(minus, (v, v_names, 1), (Mb, Mb_names, 1))
        rows, row_names = by_name(lambda R, B: R @ B, (M, M_names, 2), (A, A_names, 2))
        return compressed(Quadratic(residual, names, rows, row_names, True))
    log, names = by_name(
        lambda h, c, x: xp.sum(c * (h - 0.5 * x), axis=-1), (v, v_names, 1), (b, b_names, 1), (Mb, Mb_names, 1)
    )
    info, info_names = by_name(
        lambda B, h, c: times_vector(transposed(B), h - c), (A, A_names, 2), (v, v_names, 1), (Mb, Mb_names, 1)
    )
    precision, precision_names = by_name(lambda B, K: transposed(B) @ K @ B, (A, A_names, 2), (M, M_names, 2))
    return Shifted(Quadratic(info, info_names, precision, precision_names), log, names)
