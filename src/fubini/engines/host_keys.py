"""Keys of JAX as numbers and back, and keys split on NumPy: nothing is compiled for another count."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.base.arrays import Data, is_traced
from fubini.engines import host_random as random

THREEFRY = "threefry2x32"


def key_numbers(keys: Data) -> np.ndarray:
    """Keys of threefry with a type of their own, each as one number."""
    return random.joined(np.asarray(jax.random.key_data(keys)))


def is_on_host(key: Data) -> bool:
    """Whether NumPy has the bits of a key: threefry, with each place by itself."""
    if is_traced(key) or not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        return False
    return str(jax.random.key_impl(key)) == THREEFRY


def split(key: Data, count: int) -> Data:
    """`jax.random.split` of one key.

    >>> key = jax.random.key(0)
    >>> bool((split(key, 3) == jax.random.split(key, 3)).all())
    True
    """
    if not is_on_host(key):
        return jax.random.split(key, count)
    with eval_context():  # a key that is known stays known in a trace
        return _as_keys(random.separated(random.split(_numbers(key), (count,))), key)


def split_apart(key: Data, count: int) -> list[Data]:
    """The keys of `jax.random.split`, one by one."""
    if not is_on_host(key):
        return list(jax.random.split(key, count))
    with eval_context():
        return [_as_keys(data, key) for data in random.separated(random.split(_numbers(key), (count,)))]


def _numbers(key: Any) -> np.ndarray:
    return key_numbers(key) if _is_typed(key) else random.joined(np.asarray(key))


def _is_typed(key: Any) -> bool:
    return jnp.issubdtype(key.dtype, jax.dtypes.prng_key)


def _as_keys(data: np.ndarray, like: Any) -> Data:
    """Pairs of numbers as keys of the kind that another has."""
    return jax.random.wrap_key_data(jnp.asarray(data), impl=THREEFRY) if _is_typed(like) else jnp.asarray(data)
