"""Digests that tell numbers from others wherever they lie: on any mesh, at any padding, or in memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import NamedSharding, PartitionSpec

from fubini.base.arrays import Data, double_precision, is_key
from fubini.base.distant import distant
from fubini.base.sharded_array import ShardedArray
from fubini.base.stream import Stream

STRETCH = 1 << 16  # words that NumPy mixes at a time


def bytes_of(data: Any) -> bytes:
    """Bytes that tell an array from others: its dtype, its shape, and a digest of its entries.

    >>> mesh = jax.make_mesh((1,), ("rows",))
    >>> bytes_of(fb.shard(np.arange(3), mesh, "rows")) == bytes_of(jnp.arange(3))
    True
    """
    if isinstance(data, Stream):
        return f"rows {data.shape}".encode() + data.digest()
    if is_key(data):
        data = jax.random.key_data(data)
    record = distant(data)
    own = record if isinstance(record, ShardedArray) else np.asarray(data)
    words = _digest_where_it_is(own) if isinstance(own, ShardedArray) else _digest_of(own)
    return f"{own.dtype.str} {tuple(own.shape)}".encode() + words.tobytes()


def constants_of(program: ClosedJaxpr) -> tuple[Data, ...]:
    """The arrays that a program captures, and the programs inside it."""
    return (*program.consts, *_constants_inside(program.jaxpr))


def _constants_inside(jaxpr: Jaxpr) -> Iterable[Data]:
    for equation in jaxpr.eqns:
        for part in jax.tree_util.tree_leaves(list(equation.params.values()), is_leaf=_is_program):
            if isinstance(part, ClosedJaxpr):
                yield from constants_of(part)
            elif isinstance(part, Jaxpr):
                yield from _constants_inside(part)


def _is_program(part: Any) -> bool:
    return isinstance(part, ClosedJaxpr | Jaxpr)


# -- two sums modulo 2³² over the words of all entries, each mixed with its place ------------------------------------


def _mix(words: Any) -> Any:
    """Murmur's finaliser."""
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        words = (words ^ (words >> 15)) * np.uint32(factor)
    return words ^ (words >> 16)


def _sums(words: Any, place: Any, xp: Any) -> Any:
    place = _mix(place)
    return xp.stack([xp.sum(_mix(words ^ place), dtype=np.uint32), xp.sum(_mix(words + place), dtype=np.uint32)])


def _digest_of(array: np.ndarray) -> np.ndarray:
    """Of an array of NumPy."""
    if array.dtype.itemsize < 4:
        array = array.astype(_wider(array.dtype))
    words, total = np.ascontiguousarray(array).reshape(-1).view(np.uint32), np.zeros(2, np.uint32)
    for start in range(0, words.size, STRETCH):
        part = words[start : start + STRETCH]
        total += _sums(part, np.arange(start, start + part.size).astype(np.uint32), np)
    return total


def _digest_where_it_is(record: ShardedArray) -> np.ndarray:
    """Of an array over devices, by them."""
    everywhere = NamedSharding(record.sharding.mesh, PartitionSpec())
    with double_precision(), eval_context():
        return np.asarray(_program(record.shape, everywhere)(record.data))


@lru_cache(maxsize=256)
def _program(shape: tuple[int, ...], out: NamedSharding) -> Any:
    def compute(data: Data) -> Data:
        here = data[tuple(map(slice, shape))]
        if here.dtype.itemsize < 4:
            here = here.astype(_wider(here.dtype))
        words = jax.lax.bitcast_convert_type(here, np.uint32)
        return _sums(words, jax.lax.iota(np.uint32, words.size).reshape(words.shape), jnp)

    return jax.jit(compute, out_shardings=out)


def _wider(dtype: Any) -> Any:
    """A dtype of words that holds every entry."""
    return np.float32 if jnp.issubdtype(dtype, jnp.floating) else np.int32
