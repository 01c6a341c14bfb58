"""Arithmetic of quadratic exponents over named batch axes, in either engine.

Two forms of one function of z. *Canonical*: h·z − ½ z·K z. *White*: −½ |R z − r|², rows R of any number, which is what
densities give. White rows are eliminated by orthogonal reflections, so that nothing cancels however different the
scales are; products stack rows. What has no such form (a quotient, more rows than a traced program can reduce) is
canonical. Vector and matrix each have named leading axes of their own: what does not depend on an index is stored, and
factorised, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast, overload

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, stop_gradient
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import DataError
from fubini.numerics.named_axes import align

Names = tuple[Name, ...]
Reals = tuple[tuple[Name, Domain], ...]
Positions = tuple[int, ...]


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


class EliminatedQuadratic(NamedTuple):
    """A quadratic after some variables are eliminated, the log of what they leave, and where it is sound."""

    rest: Quadratic
    log: Data
    log_names: Names
    ok: Data


# -- layout: where the elements of each variable stand in z ---------------------------------------------------------


@lru_cache(maxsize=4096)
def places(reals: Reals) -> dict[Name, range]:
    """The positions of each variable's elements."""
    ranges: dict[Name, range] = {}
    start = 0
    for name, domain in reals:
        size = math.prod(domain.shape)
        ranges[name] = range(start, start + size)
        start += size
    return ranges


@lru_cache(maxsize=4096)
def positions(reals: Reals, names: frozenset[Name]) -> tuple[Positions, Positions]:
    """The positions of some variables, and those of the others."""
    chosen: list[int] = []
    others: list[int] = []
    for name, place in places(reals).items():
        (chosen if name in names else others).extend(place)
    return tuple(chosen), tuple(others)


@lru_cache(maxsize=4096)
def merged(first: Reals, second: Reals) -> Reals:
    """The variables of both, in order of first appearance; their domains agree."""
    return tuple({**dict(first), **dict(second)}.items())


@lru_cache(maxsize=4096)
def _sources(own: Reals, onto: Reals) -> tuple[int, ...]:
    """List for each position of a larger layout the one in the own layout; its size where it lacks the variable."""
    own_places = places(own)
    size = sum(map(len, own_places.values()))
    return tuple(
        position for name, place in places(onto).items() for position in own_places.get(name, (size,) * len(place))
    )


def padded(quadratic: Quadratic, own: Reals, onto: Reals) -> Quadratic:
    """The same function of more variables, in another order: zeros where it does not depend on them."""
    if own == onto:
        return quadratic
    v, v_names, M, M_names, white = quadratic
    source = np.asarray(_sources(own, onto), int)
    size: int = M.shape[-1]
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
        first, last = int(where[0]), int(where[-1])
        if np.array_equal(where, np.arange(first, last + 1)):
            margin = (first, size - 1 - last)
            return jnp.pad(data, [(0, 0)] * (data.ndim - axes) + [margin] * axes)
        return jnp.zeros(shape, data.dtype).at[index].set(data)
    made = np.zeros(shape, data.dtype)
    made[index] = data
    return made


# -- by name --------------------------------------------------------------------------------------------------------


Part = tuple[Data, Names, int]


@overload
def by_name(function: Callable[[Data, Data], Data], x: Part, y: Part, /) -> tuple[Data, Names]: ...
@overload
def by_name(function: Callable[[Data, Data, Data], Data], x: Part, y: Part, z: Part, /) -> tuple[Data, Names]: ...
@overload
def by_name(function: Callable[..., Data], *parts: Part) -> tuple[Data, Names]: ...
def by_name(function: Callable[..., Data], *parts: Part) -> tuple[Data, Names]:
    """function of arrays with their named axes matched; each comes with its names and the rank of its event."""
    names = parts[0][1]
    if all(part[1] == names for part in parts[1:]):
        return function(*(part[0] for part in parts)), names
    names = tuple(dict.fromkeys(name for part in parts for name in part[1]))
    return function(*(align(data, own, names, event) for data, own, event in parts)), names


def plus(x: Data, y: Data) -> Data:
    """x + y."""
    return x + y


def minus(x: Data, y: Data) -> Data:
    """x − y."""
    return x - y


def times_vector(M: Data, v: Data) -> Data:
    """M v, for each cell."""
    return namespace(M, v).matmul(M, v[..., None])[..., 0]


def transposed(M: Data) -> Data:
    """Mᵀ, for each cell."""
    return namespace(M).swapaxes(M, -1, -2)


def minus_half_square(v: Data) -> Data:
    """−½ |v|², for each cell; one below the least number is refused, and −∞ under JAX."""
    xp = namespace(v)
    if xp is not np:
        return -0.5 * xp.sum(v * v, axis=-1)
    with np.errstate(over="ignore"):
        exponent = -0.5 * np.sum(v * v, axis=-1)
    if not np.isfinite(exponent).all() and np.isfinite(v).all():
        raise DataError(
            f"the exponent −½ |v|² of a Gaussian, where |v| is {float(norms(v, -1).max()):.3g}",
            expected="a logarithm that a double can hold, above −1.8e308",
            nearest="the values are that many standard deviations from their mean",
            advice="check the standard deviations, coefficients and observations, or scale the variables",
        )
    return exponent


def norms(data: Data, axis: int) -> Data:
    """√Σ x² along an axis, of numbers whose squares would overflow or vanish too."""
    xp = namespace(data)
    scale = scale_of(data, axis)
    return xp.sqrt(xp.sum((data / scale) ** 2, axis=axis)) * xp.squeeze(scale, axis)


def scale_of(data: Data, axis: int) -> Data:
    """The power of two at the largest magnitude along an axis, which is kept; 1 where that is zero or infinite.

    Division by it is exact.
    """
    xp = namespace(data)
    top = stop_gradient(xp.max(xp.abs(data), axis=axis, keepdims=True, initial=0.0))
    top = xp.where((top > 0) & (top < np.inf), top, 1.0)
    return np.ldexp(np.ones_like(top), np.frexp(top)[1] - 1) if xp is np else _power_of_two(top)


def _power_of_two(top: Data) -> Data:
    """The greatest power of two up to a positive number: its bits without those of the fraction."""
    kind = cast(Any, jnp).finfo(top.dtype)
    whole = jnp.dtype(f"int{kind.bits}")
    bits = jax.lax.bitcast_convert_type(jnp.maximum(top, kind.tiny), whole)
    return jax.lax.bitcast_convert_type(bits & whole.type(-1 << kind.nmant), top.dtype)


def diagonal(M: Data) -> Data:
    """The entries M_ii of square matrices."""
    if not is_jax(M):
        return np.diagonal(M, axis1=-2, axis2=-1)
    return jnp.sum(jnp.where(np.eye(M.shape[-1], dtype=bool), M, 0), axis=-1)


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


def taken(data: Data, names: Names, order: Data, order_names: Names) -> tuple[Data, Names]:
    """The elements of vectors in another order, which may differ from cell to cell."""
    xp = namespace(data, order)
    return by_name(
        lambda x, places: xp.take_along_axis(*xp.broadcast_arrays(x, places), axis=-1),
        (data, names, 1),
        (order, order_names, 1),
    )


# -- blocks -----------------------------------------------------------------------------------------------------------


def block(data: Data, *where: Positions) -> Data:
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


@lru_cache(maxsize=4096)
def first_positions(count: int) -> Positions:
    """0, 1, … count − 1."""
    return tuple(range(count))


def all_rows(R: Data) -> Positions:
    """The positions of all rows of a matrix."""
    return first_positions(R.shape[-2])


def tolerance(K: Data) -> float:
    """The share of a number that is rounding alone, after operations on matrices of this size and type."""
    if K.dtype == np.float64:
        return 8.0 * K.shape[-1] * 2.0**-52
    return 8.0 * K.shape[-1] * float(cast(Data, jnp.finfo(K.dtype).eps))


def used(quadratic: Quadratic) -> Sequence[Name]:
    """The batch names that the exponent depends on."""
    if quadratic.vector_names == quadratic.matrix_names:
        return quadratic.vector_names
    return tuple(dict.fromkeys((*quadratic.vector_names, *quadratic.matrix_names)))
