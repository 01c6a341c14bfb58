"""Arithmetic of quadratic exponents h·z − ½ z·K z over named batch axes, in either engine.

The information h and the precision K each have named leading axes of their own: what does not depend on an index is
stored, and factorised, once.
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


class Quadratic(NamedTuple):
    """h·z − ½ z·K z: `info` is h over `info_names`, `precision` is K over `precision_names`."""

    info: Data
    info_names: Names
    precision: Data
    precision_names: Names

    @property
    def size(self) -> int:
        """The length of z."""
        return self.info.shape[-1]


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
    h, h_names, K, K_names = quadratic
    source = np.asarray(_sources(own, onto), int)
    size = h.shape[-1]
    order = source[source < size]
    if len(order) == size and not np.array_equal(order, np.arange(size)):
        h, K = h[..., order], K[..., order[:, None], order]
    if len(source) == size:
        return Quadratic(h, h_names, K, K_names)
    where = np.flatnonzero(source < size)
    return Quadratic(_placed(h, where, len(source), 1), h_names, _placed(K, where, len(source), 2), K_names)


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


def added(a: Quadratic, b: Quadratic, sign: float = 1.0) -> Quadratic:
    """The sum, or the difference, of exponents over the same variables."""
    if sign == 1.0:
        info, info_names = by_name(_plus, (a.info, a.info_names, 1), (b.info, b.info_names, 1))
        K, K_names = by_name(_plus, (a.precision, a.precision_names, 2), (b.precision, b.precision_names, 2))
    else:
        info, info_names = by_name(_minus, (a.info, a.info_names, 1), (b.info, b.info_names, 1))
        K, K_names = by_name(_minus, (a.precision, a.precision_names, 2), (b.precision, b.precision_names, 2))
    return Quadratic(info, info_names, K, K_names)


def _plus(x: Data, y: Data) -> Data:
    return x + y


def _minus(x: Data, y: Data) -> Data:
    return x - y


def raised(quadratic: Quadratic, exponent: Data, names: Names) -> Quadratic:
    """The exponent times a number for each cell."""
    h, h_names, K, K_names = quadratic
    info, info_names = by_name(lambda v, a: v * a[..., None], (h, h_names, 1), (exponent, names, 0))
    precision, precision_names = by_name(lambda M, a: M * a[..., None, None], (K, K_names, 2), (exponent, names, 0))
    return Quadratic(info, info_names, precision, precision_names)


def multiplied_out(quadratic: Quadratic, sizes: Mapping[Name, int]) -> Quadratic:
    """The sum over plates; a part that lacks a plate counts once for each of its cells."""
    h, h_names, K, K_names = quadratic
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
    h, h_names, K, K_names = quadratic
    info, info_names = _gathered(h, h_names, inputs, indices)
    precision, precision_names = _gathered(K, K_names, inputs, indices)
    return Quadratic(info, info_names, precision, precision_names)


def _gathered(data: Data, names: Names, inputs: Mapping, indices: Mapping[Name, Index]) -> tuple[Data, Names]:
    mine = {name: index for name, index in indices.items() if name in names}
    if not mine:
        return data, names
    if all(type(index) is np.ndarray and not used for index, used in mine.values()) and not is_jax(data):
        where = tuple(mine[name][0] if name in mine else slice(None) for name in names)
        return data[where], substituted_names(names, mine)
    return gather(data, {name: inputs[name] for name in names}, mine)


# -- linear algebra -------------------------------------------------------------------------------------------------


class Reduced(NamedTuple):
    """What is left of a quadratic after some variables are gone, the log of what they leave, and where it is sound."""

    rest: Quadratic
    log: Data
    log_names: Names
    ok: Data


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
    """∫ (or max) over the elements `gone`: the Schur complement, K_aa − K_ab K_bb⁻¹ K_ba and its kin."""
    h, h_names, K, K_names = quadratic
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
    precision = _clean(A - xp.swapaxes(W, -1, -2) @ W, A)
    info, info_names = by_name(
        lambda v, M, s: v - xp.sum(M * s[..., None], axis=-2),
        (_at(h, kept), h_names, 1),
        (W, K_names, 2),
        (u, u_names, 1),
    )
    return Reduced(Quadratic(info, info_names, precision, K_names), log, names, ok)


def _tolerance(K: Data) -> float:
    return 8.0 * K.shape[-1] * float(jnp.finfo(K.dtype).eps)


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
    bound = _tolerance(K) * xp.abs(xp.diagonal(before, axis1=-2, axis2=-1))
    small = xp.abs(xp.diagonal(K, axis1=-2, axis2=-1)) <= bound
    if xp is np:
        if not small.any():
            return K
        return np.where(small[..., None] | small[..., None, :], 0.0, K)
    return K - stop_gradient(jnp.where(small[..., None] | small[..., None, :], K, 0.0))


def conditioned(quadratic: Quadratic, gone: Positions, kept: Positions, at: Data, at_names: Names) -> Reduced:
    """z_b = v: h_a − K_ab v, K_aa, and log h_b·v − ½ v·K_bb v."""
    h, h_names, K, K_names = quadratic
    xp = namespace(h, K, at)
    point = (at, at_names, 1)
    Kv, Kv_names = by_name(_times_vector, (_at(K, gone, gone), K_names, 2), point)
    log, names = by_name(
        lambda b, v, M: xp.sum(v * (b - 0.5 * M), axis=-1), (_at(h, gone), h_names, 1), point, (Kv, Kv_names, 1)
    )
    info, info_names = by_name(
        lambda a, M, v: a - _times_vector(M, v), (_at(h, kept), h_names, 1), (_at(K, kept, gone), K_names, 2), point
    )
    return Reduced(Quadratic(info, info_names, _at(K, kept, kept), K_names), log, names, True)


def _times_vector(M: Data, v: Data) -> Data:
    return namespace(M, v).matmul(M, v[..., None])[..., 0]


def transformed(quadratic: Quadratic, A: Data, A_names: Names, b: Data, b_names: Names) -> Reduced:
    """z = b + A y: Aᵀ(h − K b), AᵀK A, and log h·b − ½ b·K b."""
    h, h_names, K, K_names = quadratic
    xp = namespace(h, K, A, b)
    Kb, Kb_names = by_name(_times_vector, (K, K_names, 2), (b, b_names, 1))
    log, names = by_name(
        lambda v, c, M: xp.sum(c * (v - 0.5 * M), axis=-1), (h, h_names, 1), (b, b_names, 1), (Kb, Kb_names, 1)
    )
    info, info_names = by_name(
        lambda M, v, c: _times_vector(xp.swapaxes(M, -1, -2), v - c),
        (A, A_names, 2),
        (h, h_names, 1),
        (Kb, Kb_names, 1),
    )
    precision, precision_names = by_name(lambda M, P: xp.swapaxes(M, -1, -2) @ P @ M, (A, A_names, 2), (K, K_names, 2))
    return Reduced(Quadratic(info, info_names, precision, precision_names), log, names, True)


class Moments(NamedTuple):
    """Mean and covariance, each with its names, and where they exist."""

    mean: Data
    mean_names: Names
    covariance: Data
    covariance_names: Names
    ok: Data


def moments(quadratic: Quadratic) -> Moments:
    """K⁻¹h and K⁻¹."""
    h, h_names, K, K_names = quadratic
    L, ok = root(K)
    xp = namespace(K)
    half = _half_solved(L, xp.broadcast_to(xp.eye(K.shape[-1], dtype=K.dtype), K.shape))
    covariance = xp.swapaxes(half, -1, -2) @ half
    mean, names = by_name(_times_vector, (covariance, K_names, 2), (h, h_names, 1))
    return Moments(mean, names, covariance, K_names, ok)


def drawn(quadratic: Quadratic, noise: Data, noise_names: Names) -> tuple[Data, Names]:
    """μ + L⁻ᵀ ε: a draw of covariance K⁻¹ = L⁻ᵀ L⁻¹ for each cell of the noise ε."""
    h, h_names, K, K_names = quadratic
    L, _ = root(K)
    xp = namespace(h, K, noise)
    half = _half_solved(L, xp.broadcast_to(xp.eye(K.shape[-1], dtype=K.dtype), K.shape))
    # K⁻¹h + L⁻ᵀε = L⁻ᵀ(L⁻¹h + ε)
    white, names = by_name(
        lambda M, v, e: _times_vector(M, v) + e, (half, K_names, 2), (h, h_names, 1), (noise, noise_names, 1)
    )
    return by_name(lambda M, v: _times_vector(xp.swapaxes(M, -1, -2), v), (half, K_names, 2), (white, names, 1))


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
    if quadratic.info_names == quadratic.precision_names:
        return quadratic.info_names
    return tuple(dict.fromkeys((*quadratic.info_names, *quadratic.precision_names)))
