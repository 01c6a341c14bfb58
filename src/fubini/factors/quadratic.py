"""Arithmetic of quadratic exponents over named batch axes, in either engine.

Two forms of one function of z. *Canonical*: h·z − ½ z·K z. *White*: −½ |R z − r|², rows R of any number, which is what
densities give. White rows are eliminated by orthogonal reflections, so that nothing cancels however different the
scales are; products stack rows. What has no such form (a quotient, more rows than a traced program can reduce) is
canonical. Vector and matrix each have named leading axes of their own: what does not depend on an index is stored, and
factorised, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, is_jax, namespace, stop_gradient
from fubini.domains import Domain
from fubini.terms.named import Index, align, gather, substituted_names
from fubini.terms.term import Name

Names = tuple[Name, ...]
Reals = tuple[tuple[Name, Domain], ...]
Positions = tuple[int, ...]

# Rows that a traced program keeps for each variable, and besides, before it goes over to canonical form.
ROWS, SPARE_ROWS = 4, 32


class Quadratic(NamedTuple):
    """Canonical: `vector` is h, `matrix` is K. White: `vector` is r, `matrix` is R, one row for each element of r."""

    vector: Data
    vector_names: Names
    matrix: Data
    matrix_names: Names
    white: bool = False

    @property
    def size(self) -> int:
        """The length of z."""
        return self.matrix.shape[-1]

    @property
    def rows(self) -> int:
        """The rows of a white form."""
        return self.matrix.shape[-2]


class Shifted(NamedTuple):
    """A quadratic, and the log of a constant that came off it."""

    rest: Quadratic
    log: Data
    log_names: Names


class Reduced(NamedTuple):
    """What is left of a quadratic after some variables are gone, the log of what they leave, and where it is sound."""

    rest: Quadratic
    log: Data
    log_names: Names
    ok: Data


# -- layout: where the elements of each variable stand in z ---------------------------------------------------------


@lru_cache(maxsize=4096)
def places(reals: Reals) -> dict[Name, range]:
    """The positions of each variable's elements."""
    found, start = {}, 0
    for name, domain in reals:
        size = math.prod(domain.shape)
        found[name] = range(start, start + size)
        start += size
    return found


@lru_cache(maxsize=4096)
def positions(reals: Reals, names: frozenset[Name]) -> tuple[Positions, Positions]:
    """The positions of some variables, and those of the others."""
    mine, others = [], []
    for name, place in places(reals).items():
        (mine if name in names else others).extend(place)
    return tuple(mine), tuple(others)


@lru_cache(maxsize=4096)
def merged(first: Reals, second: Reals) -> Reals:
    """The variables of both, in order of first appearance; their domains agree."""
    return tuple({**dict(first), **dict(second)}.items())


@lru_cache(maxsize=4096)
def _sources(own: Reals, onto: Reals) -> tuple[int, ...]:
    """For each position of a larger layout the one in the own layout; its size where it lacks the variable."""
    mine = places(own)
    size = sum(map(len, mine.values()))
    return tuple(position for name, place in places(onto).items() for position in mine.get(name, (size,) * len(place)))


def padded(quadratic: Quadratic, own: Reals, onto: Reals) -> Quadratic:
    """The same function of more variables, in another order: zeros where it does not depend on them."""
    if own == onto:
        return quadratic
    v, v_names, M, M_names, white = quadratic
    source = np.asarray(_sources(own, onto), int)
    size = M.shape[-1]
    order = source[source < size]
    if not np.array_equal(order, np.arange(size)):
        M = M[..., order] if white else M[..., order[:, None], order]
        v = v if white else v[..., order]
    if len(source) == size:
        return Quadratic(v, v_names, M, M_names, white)
    where = np.flatnonzero(source < size)
    M = _placed(M, where, len(source), 1 if white else 2)
    v = v if white else _placed(v, where, len(source), 1)
    return Quadratic(v, v_names, M, M_names, white)


def _placed(data: Data, where: np.ndarray, size: int, axes: int) -> Data:
    """Zeros of a larger event with the data at some positions of each of its axes."""
    shape = (*data.shape[: data.ndim - axes], *(size,) * axes)
    index = (..., where) if axes == 1 else (..., where[:, None], where)
    if is_jax(data):
        if np.array_equal(where, np.arange(where[0], where[-1] + 1)):
            margin = (int(where[0]), size - 1 - int(where[-1]))
            return jnp.pad(data, [(0, 0)] * (data.ndim - axes) + [margin] * axes)
        return jnp.zeros(shape, data.dtype).at[index].set(data)
    made = np.zeros(shape, data.dtype)
    made[index] = data
    return made


# -- by name --------------------------------------------------------------------------------------------------------


def by_name(function: Callable, *parts: tuple[Data, Names, int]) -> tuple[Data, Names]:
    """function of arrays with their named axes matched; each comes with its names and the rank of its event."""
    names = parts[0][1]
    if all(part[1] == names for part in parts[1:]):
        return function(*(part[0] for part in parts)), names
    names = tuple(dict.fromkeys(name for part in parts for name in part[1]))
    return function(*(align(data, own, names, event) for data, own, event in parts)), names


def _plus(x: Data, y: Data) -> Data:
    return x + y


def _minus(x: Data, y: Data) -> Data:
    return x - y


def _times_vector(M: Data, v: Data) -> Data:
    return namespace(M, v).matmul(M, v[..., None])[..., 0]


def _transposed(M: Data) -> Data:
    return namespace(M).swapaxes(M, -1, -2)


def _square(v: Data) -> Data:
    return -0.5 * namespace(v).sum(v * v, axis=-1)


def stacked(parts: Sequence[tuple[Data, Names]], event: int) -> tuple[Data, Names]:
    """Arrays one after the other along their first event axis, by name."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(dict.fromkeys(name for _, own in parts for name in own))
    aligned = [align(data, own, names, event) for data, own in parts]
    xp = namespace(*aligned)
    if names:
        batch = np.broadcast_shapes(*(data.shape[: len(names)] for data in aligned))
        aligned = [xp.broadcast_to(data, (*batch, *data.shape[len(names) :])) for data in aligned]
    return xp.concatenate(aligned, axis=len(names)), names


# -- forms ------------------------------------------------------------------------------------------------------------


def canonical(quadratic: Quadratic) -> Shifted:
    """−½ |R z − r|²  =  h·z − ½ z·K z − ½ |r|²,  K = RᵀR,  h = Rᵀr"""
    v, v_names, M, M_names, white = quadratic
    if not white:
        return Shifted(quadratic, 0.0, ())
    h, h_names = by_name(lambda R, r: _times_vector(_transposed(R), r), (M, M_names, 2), (v, v_names, 1))
    return Shifted(Quadratic(h, h_names, _transposed(M) @ M, M_names), _square(v), v_names)


def compressed(quadratic: Quadratic) -> Shifted:
    """No more rows than variables, by QR; where derivatives may be asked for, not many more, or canonical form.

    The derivatives of a QR factorisation do not exist where the rows are dependent; those of RᵀR always do.
    """
    v, v_names, M, M_names, white = quadratic
    if not white or M.shape[-2] <= M.shape[-1]:
        return Shifted(quadratic, 0.0, ())
    if is_jax(v) or is_jax(M):
        few = M.shape[-2] <= ROWS * M.shape[-1] + SPARE_ROWS
        return Shifted(quadratic, 0.0, ()) if few else canonical(quadratic)
    v, v_names, M, M_names, _ = _sorted_rows(quadratic)
    Q, U = np.linalg.qr(M)
    r, r_names = by_name(lambda q, x: _times_vector(_transposed(q), x), (Q, M_names, 2), (v, v_names, 1))
    log, names = by_name(
        lambda x, q, y: _square(x - _times_vector(q, y)), (v, v_names, 1), (Q, M_names, 2), (r, r_names, 1)
    )
    return Shifted(Quadratic(r, r_names, U, M_names, True), log, names)


# -- the algebra ------------------------------------------------------------------------------------------------------


def added(a: Quadratic, b: Quadratic) -> Shifted:
    """The sum of exponents over the same variables."""
    if a.white and b.white:
        M, M_names = stacked([(a.matrix, a.matrix_names), (b.matrix, b.matrix_names)], 2)
        v, v_names = stacked([(a.vector, a.vector_names), (b.vector, b.vector_names)], 1)
        return compressed(Quadratic(v, v_names, M, M_names, True))
    return _combined(a, b, _plus)


def subtracted(a: Quadratic, b: Quadratic) -> Shifted:
    """The difference of exponents over the same variables."""
    return _combined(a, b, _minus)


def _combined(a: Quadratic, b: Quadratic, combine: Callable) -> Shifted:
    x, y = canonical(a), canonical(b)
    h, h_names = by_name(combine, (x.rest.vector, x.rest.vector_names, 1), (y.rest.vector, y.rest.vector_names, 1))
    K, K_names = by_name(combine, (x.rest.matrix, x.rest.matrix_names, 2), (y.rest.matrix, y.rest.matrix_names, 2))
    if not (a.white or b.white):
        return Shifted(Quadratic(h, h_names, K, K_names), 0.0, ())
    log, names = by_name(combine, (np.asarray(x.log) if not a.white else x.log, x.log_names, 0),
                         (np.asarray(y.log) if not b.white else y.log, y.log_names, 0))  # fmt: skip
    return Shifted(Quadratic(h, h_names, K, K_names), log, names)


def raised(quadratic: Quadratic, exponent: Data, names: Names) -> Shifted:
    """The exponent times a number for each cell."""
    if quadratic.white and not is_jax(exponent) and np.all(exponent >= 0):
        return Shifted(_scaled(quadratic, np.sqrt(exponent), names), 0.0, ())
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
    found = _averaged(quadratic, alone)
    stacking = {name: size for name, size in sizes.items() if name not in alone}
    if not stacking:
        return found
    log, log_names = _summed(found.log, found.log_names, stacking)
    rows = found.rest.rows * math.prod(stacking.values())
    many = rows > ROWS * found.rest.size + SPARE_ROWS
    if many and (is_jax(found.rest.matrix) or is_jax(found.rest.vector)):
        rest, more, more_names = canonical(found.rest)
        more, more_names = _summed(more, more_names, stacking)
        rest = _summed_out(rest, stacking)
    else:
        rest, more, more_names = compressed(_rows_of_plates(found.rest, stacking))
    return Shifted(rest, *by_name(_plus, (_as_data(log), log_names, 0), (_as_data(more), more_names, 0)))


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
    log: Data = xp.sum(_square(v - mean), axis=axes) * float(absent) if axes else 0.0
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


def _gathered(data: Data, names: Names, inputs: Mapping, indices: Mapping[Name, Index]) -> tuple[Data, Names]:
    mine = {name: index for name, index in indices.items() if name in names}
    if not mine:
        return data, names
    if all(type(index) is np.ndarray and not used for index, used in mine.values()) and not is_jax(data):
        where = tuple(mine[name][0] if name in mine else slice(None) for name in names)
        return data[where], substituted_names(names, mine)
    return gather(data, {name: inputs[name] for name in names}, mine)


# -- linear algebra ---------------------------------------------------------------------------------------------------


def _at(data: Data, *where: Positions) -> Data:
    """A block, by slices where the positions are consecutive."""
    slices = [_slice(place) for place in where]
    if all(part is not None for part in slices):
        return data[(..., *slices)]
    index = [np.asarray(place, int) for place in where]
    return data[..., index[0]] if len(index) == 1 else data[..., index[0][:, None], index[1]]


@lru_cache(maxsize=4096)
def _slice(place: Positions) -> slice | None:
    if not place:
        return slice(0, 0)
    consecutive = place == tuple(range(place[0], place[-1] + 1))
    return slice(place[0], place[-1] + 1) if consecutive else None


def reduced(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> Reduced:
    """∫ (or max) over the elements `gone`."""
    if not quadratic.white:
        return _schur_complement(quadratic, gone, kept, integrate)
    return _reflected(quadratic, gone, kept, integrate)


def _schur_complement(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> Reduced:
    """K_aa − K_ab K_bb⁻¹ K_ba and its kin."""
    h, h_names, K, K_names, _ = quadratic
    if type(K) is np.ndarray and K.ndim == 2 and type(h) is np.ndarray and h.ndim == 1:
        return _schur_complement_of_one(quadratic, gone, kept, integrate)
    B = _at(K, gone, gone)
    C = _at(K, gone, kept)
    L, ok = root(B)
    W = _half_solved(L, C)
    u, u_names = by_name(
        lambda M, v: _half_solved(M, v[..., None])[..., 0], (L, K_names, 2), (_at(h, gone), h_names, 1)
    )
    xp = namespace(h, K)
    log, names = xp.sum(u * u, axis=-1) * 0.5, u_names
    if integrate:
        volume = 0.5 * len(gone) * math.log(2 * math.pi) - _log_diagonal(L)
        log, names = by_name(_plus, (log, names, 0), (volume, K_names, 0))
    A = _at(K, kept, kept)
    precision = _clean(A - _transposed(W) @ W, A)
    info, info_names = by_name(
        lambda v, M, s: v - xp.sum(M * s[..., None], axis=-2),
        (_at(h, kept), h_names, 1),
        (W, K_names, 2),
        (u, u_names, 1),
    )
    return Reduced(Quadratic(info, info_names, precision, K_names), log, names, align(ok, K_names, names))


def _schur_complement_of_one(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> Reduced:
    """The same without a batch, in NumPy: a few array operations are all it is."""
    h, K = quadratic.vector, quadratic.matrix
    A, C, b = _at(K, kept, kept), _at(K, gone, kept), _at(h, gone)
    if len(gone) == 1:
        pivot = float(K[gone[0], gone[0]])
        ok = pivot > 0
        pivot = pivot if ok else 1.0
        W, u, size = C / math.sqrt(pivot), b / math.sqrt(pivot), 0.5 * math.log(pivot)
    else:
        L, ok = root(_at(K, gone, gone))
        both = np.linalg.solve(L, np.concatenate([C, b[:, None]], axis=1))
        W, u, size = both[:, :-1], both[:, -1], float(np.log(L.diagonal()).sum())
    log = 0.5 * float(u @ u) + (0.5 * len(gone) * math.log(2 * math.pi) - size if integrate else 0.0)
    rest = Quadratic(_at(h, kept) - u @ W, (), _clean(A - W.T @ W, A), ())
    return Reduced(rest, np.float64(log), (), ok)


def _reflected(quadratic: Quadratic, gone: Positions, kept: Positions, integrate: bool) -> Reduced:
    """Rows turned by an orthogonal Q until only the first hold what goes; the others are what is left."""
    r, r_names, R, R_names, _ = _sorted_rows(quadratic)
    B, A = _at(R, _all_rows(R), gone), _at(R, _all_rows(R), kept)
    xp = namespace(r, R)
    if R.shape[-2] < len(gone):
        empty = Quadratic(r, r_names, A, R_names, True)
        return Reduced(empty, xp.zeros(()), (), np.zeros(R.shape[:-2], bool))
    norms = xp.sqrt(xp.sum(A * A, axis=-2))
    (A, r, r_names), pivots, ok = _turned(B, A, r, r_names, R_names)
    small = xp.sqrt(xp.sum(A * A, axis=-2)) <= _tolerance(R) * norms  # rounding alone: no information from nothing
    if xp is not np:
        A = A - stop_gradient(xp.where(small[..., None, :], A, 0.0))
    elif small.any():
        A = np.where(small[..., None, :], 0.0, A)
    log, names = xp.zeros(R.shape[:-2]), R_names
    if integrate:
        log = 0.5 * len(gone) * math.log(2 * math.pi) - xp.sum(xp.log(xp.abs(pivots)), axis=-1)
    if not kept:
        log, names = by_name(_plus, (log, names, 0), (_square(r), r_names, 0))
    return Reduced(Quadratic(r, r_names, A, R_names, True), log, names, align(ok, R_names, names))


def _sorted_rows(quadratic: Quadratic) -> Quadratic:
    """The largest rows first: then reflections are stable row by row (Cox & Higham 1998)."""
    r, r_names, R, R_names, white = quadratic
    if is_jax(R) or is_jax(r) or R.shape[-2] < 2 or not R.shape[-1]:
        return quadratic
    order = np.argsort(-np.abs(R).max(axis=-1), axis=-1)
    R = np.take_along_axis(R, order[..., None], axis=-2)
    r, r_names = by_name(
        lambda x, places: np.take_along_axis(*_spread(x, places), axis=-1), (r, r_names, 1), (order, R_names, 1)
    )
    return Quadratic(r, r_names, R, R_names, white)


def _spread(x: Data, y: Data) -> tuple[Data, Data]:
    return np.broadcast_arrays(x, y)  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _range(count: int) -> Positions:
    return tuple(range(count))


def _all_rows(R: Data) -> Positions:
    return _range(R.shape[-2])


def _turned(B: Data, A: Data, r: Data, r_names: Names, R_names: Names) -> tuple[tuple, Data, Data]:
    """QᵀA and Qᵀr without the rows that Q makes of B, its pivots, and where B has full rank beyond rounding."""
    xp = namespace(B, A, r)
    sizes = xp.sqrt(xp.sum(B * B, axis=-2))
    if xp is np and B.shape[-1] > 1:
        Q, U = np.linalg.qr(B, mode="complete")
        rest = _transposed(Q)[..., B.shape[-1] :, :]
        r, r_names = by_name(_times_vector, (rest, R_names, 2), (r, r_names, 1))
        pivots = np.diagonal(U, axis1=-2, axis2=-1)
        ok = np.all(np.abs(pivots) > _tolerance(B) * sizes, axis=-1)
        safe = np.where(ok[..., None], pivots, 1.0)
        return (rest @ A, r, r_names), safe, ok
    if B.shape[-1] > 1:
        return _projected(B, A, r, r_names, R_names, sizes)
    v, beta, pivot = _householder(B[..., 0])
    r, r_names = by_name(
        lambda x, w, b: (x - w * (b * xp.sum(w * x, axis=-1))[..., None])[..., 1:],
        (r, r_names, 1),
        (v, R_names, 1),
        (beta, R_names, 0),
    )
    ok = xp.abs(pivot) > 0
    return (_reflect(A, v, beta)[..., 1:, :], r, r_names), xp.where(ok, pivot, 1.0)[..., None], ok


def _projected(B: Data, A: Data, r: Data, r_names: Names, R_names: Names, sizes: Data) -> tuple[tuple, Data, Data]:
    """(1 − QQᵀ)A and (1 − QQᵀ)r for B = QU: as many rows as before, which a traced program differentiates with ease."""
    Q, U = jnp.linalg.qr(B)
    pivots = jnp.diagonal(U, axis1=-2, axis2=-1)
    ok = jnp.all(jnp.abs(pivots) > _tolerance(B) * sizes, axis=-1)
    A = A - Q @ (_transposed(Q) @ A)
    r, r_names = by_name(
        lambda q, x: x - _times_vector(q, _times_vector(_transposed(q), x)), (Q, R_names, 2), (r, r_names, 1)
    )
    return (A, r, r_names), jnp.where(ok[..., None], pivots, 1.0), ok


def _householder(column: Data) -> tuple[Data, Data, Data]:
    """v and β such that (1 − β v vᵀ) column is ∓|column| in its first place and zero below."""
    xp = namespace(column)
    square = xp.sum(column * column, axis=-1)
    zero = square == 0
    norm = xp.sqrt(xp.where(zero, 1.0, square))
    signed = xp.where(column[..., 0] < 0, -norm, norm)
    first = column[..., 0] + signed
    v = xp.concatenate([first[..., None], column[..., 1:]], axis=-1)
    beta = xp.where(zero, 0.0, 1.0 / xp.where(zero, 1.0, norm * xp.abs(first)))
    return v, beta, xp.where(zero, 0.0, -signed)


def _reflect(M: Data, v: Data, beta: Data) -> Data:
    xp = namespace(M, v)
    return M - v[..., :, None] * (beta[..., None] * xp.sum(v[..., :, None] * M, axis=-2))[..., None, :]


def _tolerance(K: Data) -> float:
    return 8.0 * K.shape[-1] * (2.0**-52 if K.dtype == np.float64 else float(jnp.finfo(K.dtype).eps))


def root(K: Data) -> tuple[Data, Data]:
    """The lower Cholesky factor, and where the matrix is positive definite beyond rounding."""
    xp = namespace(K)
    if K.shape[-1] == 1:
        ok = K[..., 0, 0] > 0
        return xp.sqrt(xp.where(ok[..., None, None], K, 1.0)), ok
    diagonal = xp.diagonal(K, axis1=-2, axis2=-1)
    try:
        L = xp.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        return np.broadcast_to(np.eye(K.shape[-1]), K.shape), _definite_cells(K)
    pivots = xp.diagonal(L, axis1=-2, axis2=-1)
    ok = xp.all(pivots * pivots > _tolerance(K) * diagonal, axis=-1)
    return L, ok


def _definite_cells(K: np.ndarray) -> np.ndarray:
    """NumPy refuses a whole batch for one matrix: which ones are definite."""
    least = np.linalg.eigvalsh(np.where(np.isfinite(K), K, 0.0))[..., 0]
    return (least > _tolerance(K) * np.max(np.abs(K), axis=(-2, -1))) & np.all(np.isfinite(K), axis=(-2, -1))


def _half_solved(L: Data, right: Data) -> Data:
    """L⁻¹ R."""
    if L.shape[-1] == 1:
        return right / L
    if is_jax(L) or is_jax(right):
        batch = jnp.broadcast_shapes(L.shape[:-2], right.shape[:-2])
        L = jnp.broadcast_to(L, batch + L.shape[-2:])
        right = jnp.broadcast_to(right, batch + right.shape[-2:])
        return jax.lax.linalg.triangular_solve(L, right, left_side=True, lower=True)
    return np.linalg.solve(L, right)


def _log_diagonal(L: Data) -> Data:
    xp = namespace(L)
    return xp.sum(xp.log(xp.diagonal(L, axis1=-2, axis2=-1)), axis=-1)


def _clean(K: Data, before: Data) -> Data:
    """A difference of precisions with what is rounding alone set to zero, so that no information appears from nothing.

    Only the value is set: derivatives pass.
    """
    if K.shape[-1] == 0:
        return K
    xp = namespace(K)
    limit = _tolerance(K)
    if xp is np and K.ndim == 2 and (K.diagonal() > limit * before.diagonal()).all():
        return K
    bound = limit * xp.abs(xp.diagonal(before, axis1=-2, axis2=-1))
    small = xp.abs(xp.diagonal(K, axis1=-2, axis2=-1)) <= bound
    if xp is np:
        if not small.any():
            return K
        return np.where(small[..., None] | small[..., None, :], 0.0, K)
    return K - stop_gradient(jnp.where(small[..., None] | small[..., None, :], K, 0.0))


def conditioned(quadratic: Quadratic, gone: Positions, kept: Positions, at: Data, at_names: Names) -> Shifted:
    """z_b = v: h_a − K_ab v, K_aa, and log h_b·v − ½ v·K_bb v; of rows, r − R_b v."""
    point = (at, at_names, 1)
    if quadratic.white:
        r, r_names, R, R_names, _ = quadratic
        left, names = by_name(
            lambda x, M, v: x - _times_vector(M, v), (r, r_names, 1), (_at(R, _all_rows(R), gone), R_names, 2), point
        )
        rest = Quadratic(left, names, _at(R, _all_rows(R), kept), R_names, True)
        return Shifted(rest, 0.0, ()) if kept else Shifted(rest, _square(left), names)
    h, h_names, K, K_names, _ = quadratic
    xp = namespace(h, K, at)
    Kv, Kv_names = by_name(_times_vector, (_at(K, gone, gone), K_names, 2), point)
    log, names = by_name(
        lambda b, v, M: xp.sum(v * (b - 0.5 * M), axis=-1), (_at(h, gone), h_names, 1), point, (Kv, Kv_names, 1)
    )
    info, info_names = by_name(
        lambda a, M, v: a - _times_vector(M, v), (_at(h, kept), h_names, 1), (_at(K, kept, gone), K_names, 2), point
    )
    return Shifted(Quadratic(info, info_names, _at(K, kept, kept), K_names), log, names)


def transformed(quadratic: Quadratic, A: Data, A_names: Names, b: Data, b_names: Names) -> Shifted:
    """z = b + A y: Aᵀ(h − K b), AᵀK A, and log h·b − ½ b·K b; of rows, R A and r − R b."""
    v, v_names, M, M_names, white = quadratic
    xp = namespace(v, M, A, b)
    Mb, Mb_names = by_name(_times_vector, (M, M_names, 2), (b, b_names, 1))
    if white:
        left, names = by_name(_minus, (v, v_names, 1), (Mb, Mb_names, 1))
        rows, row_names = by_name(lambda R, B: R @ B, (M, M_names, 2), (A, A_names, 2))
        return compressed(Quadratic(left, names, rows, row_names, True))
    log, names = by_name(
        lambda h, c, x: xp.sum(c * (h - 0.5 * x), axis=-1), (v, v_names, 1), (b, b_names, 1), (Mb, Mb_names, 1)
    )
    info, info_names = by_name(
        lambda B, h, c: _times_vector(_transposed(B), h - c), (A, A_names, 2), (v, v_names, 1), (Mb, Mb_names, 1)
    )
    precision, precision_names = by_name(lambda B, K: _transposed(B) @ K @ B, (A, A_names, 2), (M, M_names, 2))
    return Shifted(Quadratic(info, info_names, precision, precision_names), log, names)


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
        return self.half @ _transposed(self.half)

    @property
    def log_determinant(self) -> Data:
        """log det of the covariance, from the diagonal of its triangular root."""
        xp = namespace(self.half)
        return 2.0 * xp.sum(xp.log(xp.abs(xp.diagonal(self.half, axis1=-2, axis2=-1))), axis=-1)


def conditional(quadratic: Quadratic, mine: Positions, others: Positions) -> Conditional:
    """The moments of some elements given the others: K_aa⁻¹(h_a − K_ab z_b) and K_aa⁻¹."""
    v, v_names, M, M_names, white = quadratic
    half, ok, turned = _inverse_root(quadratic, mine)
    block = _at(M, _all_rows(M), others) if white else _at(M, mine, others)
    vector = v if white else _at(v, mine)
    mean, mean_names = by_name(
        lambda H, Q, x: _times_vector(H, _times_vector(_transposed(Q), x)),
        (half, M_names, 2),
        (turned, M_names, 2),
        (vector, v_names, 1),
    )
    slope = -(half @ (_transposed(turned) @ block))
    return Conditional(mean, mean_names, slope, half, M_names, ok)


def _inverse_root(quadratic: Quadratic, mine: Positions) -> tuple[Data, Data, Data]:
    """H and Q with Σ = H Hᵀ and mean H Qᵀ v: of rows R = Q U, U⁻¹ and Q; of a precision L Lᵀ, L⁻ᵀ and L⁻ᵀ."""
    M, white = quadratic.matrix, quadratic.white
    xp = namespace(M)
    if not white:
        L, ok = root(_at(M, mine, mine))
        eye = xp.broadcast_to(xp.eye(len(mine), dtype=M.dtype), L.shape)
        half = _transposed(_half_solved(L, eye))
        return half, ok, half
    R = _at(M, _all_rows(M), mine)
    if R.shape[-2] < R.shape[-1]:
        eye = xp.broadcast_to(xp.eye(R.shape[-1], dtype=M.dtype), (*R.shape[:-2], R.shape[-1], R.shape[-1]))
        return eye, np.zeros(R.shape[:-2], bool), xp.zeros_like(R)
    Q, U = xp.linalg.qr(R)
    pivots = xp.diagonal(U, axis1=-2, axis2=-1)
    ok = xp.all(xp.abs(pivots) > _tolerance(R) * xp.sqrt(xp.sum(R * R, axis=-2)), axis=-1)
    eye = xp.broadcast_to(xp.eye(R.shape[-1], dtype=M.dtype), U.shape)
    U = xp.where(ok[..., None, None], U, eye)
    return xp.linalg.solve(U, eye), ok, Q


def drawn(quadratic: Quadratic, noise: Data, noise_names: Names) -> tuple[Data, Names, Data]:
    """A draw H(Qᵀv + ε) of covariance H Hᵀ for each cell of the noise ε, and where there is one."""
    v, v_names, _, M_names, _ = quadratic
    half, ok, turned = _inverse_root(quadratic, _range(quadratic.size))
    data, names = by_name(
        lambda H, Q, x, e: _times_vector(H, _times_vector(_transposed(Q), x) + e),
        (half, M_names, 2),
        (turned, M_names, 2),
        (v, v_names, 1),
        (noise, noise_names, 1),
    )
    return data, names, ok


def is_semidefinite(K: Data) -> Data:
    """No eigenvalue is negative beyond rounding: K + tI, t small, has a Cholesky factor."""
    xp = namespace(K)
    size = K.shape[-1]
    if size == 0:
        return xp.ones(K.shape[:-2], bool)
    top = xp.max(xp.abs(K), axis=(-2, -1), keepdims=True)
    lifted = K + (16 * size * _tolerance(K) * top + (top == 0)) * xp.eye(size, dtype=K.dtype)
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
    return xp.all(xp.abs(K - xp.swapaxes(K, -1, -2)) <= 1e3 * _tolerance(K) * top, axis=(-2, -1))


def used(quadratic: Quadratic) -> Sequence[Name]:
    """The batch names that the exponent depends on."""
    if quadratic.vector_names == quadratic.matrix_names:
        return quadratic.vector_names
    return tuple(dict.fromkeys((*quadratic.vector_names, *quadratic.matrix_names)))
