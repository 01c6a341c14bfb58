"""Arrays with named leading axes: alignment, gathering and scattering by name.

`data` has one axis for each name, then the axes of the event, which these functions leave alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, namespace, require
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import DataError

Index = tuple[Data, tuple[Name, ...]]


def align(data: Data, names: Sequence[Name], onto: Sequence[Name], event: int = 0) -> Data:
    """The data with axes in the order `onto`, of extent 1 where a name is missing, then the event's.

    >>> align(np.ones((2, 3)), ("a", "b"), ("b", "c", "a")).shape
    (3, 1, 2)
    """
    names = tuple(names)
    if names == tuple(onto):
        return data
    xp = namespace(data)
    kept = [names.index(name) for name in onto if name in names]
    axes = [*kept, *range(len(names), len(names) + event)]
    if axes != list(range(len(axes))):
        data = xp.transpose(data, axes)
    shape = iter(data.shape)
    return data.reshape([next(shape) if name in names else 1 for name in onto] + list(shape))


def substituted_names(names: Sequence[Name], indices: Mapping[Name, Index]) -> tuple[Name, ...]:
    """The canonical order: each name stays or gives way to the names of its index; the first mention counts."""
    order: dict[Name, None] = {}
    for name in names:
        order.update(dict.fromkeys(indices[name][1] if name in indices else (name,)))
    return tuple(order)


def gather(data: Data, inputs: Mapping[Name, Domain], indices: Mapping[Name, Index]) -> tuple[Data, tuple[Name, ...]]:
    """data(name = index, …), simultaneously; an index may share names with the data.

    >>> from fubini.base.domains import Bint
    >>> index = (np.array([2, 0]), ("a",))
    >>> gather(np.arange(6).reshape(2, 3), {"a": Bint[2], "b": Bint[3]}, {"b": index})
    (array([2, 3]), ('a',))
    """
    names = tuple(inputs)
    fresh = tuple(dict.fromkeys(name for _, used in indices.values() for name in used))
    shared = [name for name in names if name in fresh and name not in indices]
    indexed = [name for name in names if name in indices]
    rest = [name for name in names if name not in (*shared, *indexed)]
    xp = namespace(data, *(index for index, _ in indices.values()))
    lead = [*shared, *indexed]
    front = xp.moveaxis(xp.asarray(data), [names.index(name) for name in lead], range(len(lead)))
    for name in indexed:
        require_in_range(name, indices[name][0], inputs[name])
    current = [*shared, *(name for name in fresh if name not in shared), *rest]
    positions = [align(*indices[name], current[: len(fresh)]) for name in indexed]
    taken = _take(front, positions, len(shared))
    order = substituted_names(names, indices)
    event = range(len(current), taken.ndim)
    return xp.transpose(taken, [current.index(name) for name in order] + list(event)), order


def _take(data: Data, positions: list[Data], shared: int) -> Data:
    """data[a, …, i, …] for each cell of the first axes, which positions share.

    In JAX by `vmap`, so that a compiler knows that cells, which may lie on several devices, take from their own alone.
    """
    own = data.shape[:shared]
    if not is_jax(data):
        dims = max(map(np.ndim, positions), default=shared)
        cells: list[Data] = [np.arange(size).reshape([-1] + [1] * (dims - 1 - k)) for k, size in enumerate(own)]
        return data[(*cells, *positions)]
    positions = [_beyond_where_negative(at, size) for at, size in zip(positions, data.shape[shared:], strict=False)]
    positions = [jnp.broadcast_to(at, (*own, *at.shape[shared:])) for at in positions]
    fill = jnp.nan if jnp.issubdtype(data.dtype, jnp.floating) else -1

    def take(data: Data, *positions: Data) -> Data:
        return data.at[positions].get(mode="fill", fill_value=fill)

    for _ in own:
        take = jax.vmap(take)
    return take(data, *positions)


def _beyond_where_negative(at: Data, size: int) -> Data:
    """A negative index out of range instead; one that is known has been checked. One dtype for both precisions."""
    return jnp.where(at < 0, jnp.asarray(size, at.dtype), at) if is_jax(at) else np.asarray(at, np.int32)


def require_in_range(name: Name, index: Data, domain: Domain) -> Data:
    """An index of the domain; −1 where it is not, when traced."""

    def error() -> DataError:
        shown = "" if is_traced(index) else f" (got {np.asarray(index)[~np.asarray(ok)].flat[0]})"
        return DataError(
            f"an index out of range for {name!r}{shown}",
            expected=f"0 to {domain.extent - 1}, the domain being {domain!r}",
            advice="indices do not wrap around: count from 0",
        )

    ok = (index >= 0) & (index < domain.size)
    return require(ok, error, index)[0]


def scatter(
    data: Data, names: Sequence[Name], indices: Mapping[Name, Index], sizes: Mapping[Name, Domain]
) -> tuple[Data, tuple[Name, ...]]:
    """out(i, rest) = Σ over cells c with index(c) = i of data(c, rest): sources of one cell add.

    >>> from fubini.base.domains import Bint
    >>> scatter(np.array([1.0, 2.0, 4.0]), ("j",), {"i": (np.array([0, 1, 1]), ("j",))}, {"i": Bint[3]})
    (array([1., 6., 0.]), ('i',))
    """
    consumed = tuple(dict.fromkeys(name for _, used in indices.values() for name in used))
    rest = tuple(name for name in names if name not in consumed)
    event = data.ndim - len(names)
    xp = namespace(data, *(index for index, _ in indices.values()))
    source = align(data, names, (*consumed, *rest), event)
    extents = {name: size for index, used in indices.values() for name, size in zip(used, index.shape, strict=True)}
    source = xp.broadcast_to(source, [extents[name] for name in consumed] + list(source.shape[len(consumed) :]))
    for name, (index, _) in indices.items():
        require_in_range(name, index, sizes[name])
    positions = tuple(align(index, used, consumed) for index, used in indices.values())
    shape = [sizes[name].size for name in indices] + list(source.shape[len(consumed) :])
    return _scatter_add(xp, shape, positions, source, [sizes[name].size for name in indices]), (*indices, *rest)


def _scatter_add(
    xp: object, shape: list[Any], positions: tuple[Data, ...], source: Data, sizes: list[int | None]
) -> Data:
    if xp is np:
        out = np.zeros(shape, source.dtype)
        np.add.at(out, positions, source)
        return out
    ok = jnp.asarray(True)
    for position, size in zip(positions, sizes, strict=True):
        ok &= jnp.all((position >= 0) & (position < size))
    out = jnp.zeros(shape, source.dtype).at[positions].add(source, mode="drop")
    return jnp.where(ok, out, jnp.nan if jnp.issubdtype(out.dtype, jnp.floating) else -1)
