"""Functions of NumPy inside JAX programs, in double precision where the program is.

A callback runs in a thread of its own, where JAX may have single precision: float64 travels as pairs of int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data


def host_call(
    function: Callable[..., Sequence[np.ndarray]],
    shapes: Sequence[tuple[int, ...]],
    dtype: Any,
    *arrays: Data,
    vmap_method: str = "sequential",
) -> tuple[Data, ...]:
    """The arrays of these shapes and this type that a function of NumPy arrays returns; integers fit in 32 bits."""
    is_wide = np.dtype(dtype) == np.float64
    wide = [array.dtype == jnp.float64 for array in arrays]

    def run(*packed: Data) -> tuple[np.ndarray, ...]:
        known = [
            _from_pairs(np.asarray(part)) if two else np.asarray(part) for part, two in zip(packed, wide, strict=True)
        ]
        made = (np.asarray(part, dtype) for part in function(*known))
        return tuple(_to_pairs(part) if is_wide else part for part in made)

    structs = [
        jax.ShapeDtypeStruct((*shape, 2) if is_wide else shape, np.int32 if is_wide else dtype) for shape in shapes
    ]
    packed = [
        jax.lax.bitcast_convert_type(array, jnp.int32) if two else _narrow(array)
        for array, two in zip(arrays, wide, strict=True)
    ]
    made = jax.pure_callback(run, tuple(structs), *packed, vmap_method=vmap_method)
    return tuple(jax.lax.bitcast_convert_type(part, jnp.float64) if is_wide else part for part in made)


def _narrow(array: Data) -> Data:
    return array.astype(jnp.int32) if jnp.issubdtype(array.dtype, jnp.integer) else array


def _from_pairs(pairs: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pairs).reshape(-1).view(np.float64).reshape(pairs.shape[:-1])


def _to_pairs(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers).reshape(-1).view(np.int32).reshape((*numbers.shape, 2))
