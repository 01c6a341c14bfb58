"""Random numbers in order of use from one key: NumPy's generator seeded by it, or JAX keys folded out of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, is_traced
from fubini.domains import Bint, Domain
from fubini.errors import DataError
from fubini.terms.term import Bound

SAMPLES = Bound("sample")  # the axis along which draws stand


class Randomness:
    """n draws at a time, along the axis `SAMPLES`."""

    def __init__(self, key: Data, n: int, xp: Any) -> None:
        self.key = key
        self.domain: Domain = Bint[n]
        self.xp = xp
        self.used = 0
        self._generator = None if xp is jnp else np.random.default_rng(_words(key))

    def uniform(self, shape: tuple[int, ...]) -> Data:
        """Numbers in [0, 1)."""
        if self._generator is not None:
            return self._generator.random(shape)
        return jax.random.uniform(self.next_key(), shape)

    def normal(self, shape: tuple[int, ...]) -> Data:
        """Standard normal numbers."""
        if self._generator is not None:
            return self._generator.standard_normal(shape)
        return jax.random.normal(self.next_key(), shape)

    def next_key(self) -> Data:
        """A JAX key of its own."""
        self.used += 1
        return jax.random.fold_in(self.key, self.used)


def _words(key: Data) -> list[int]:
    raw = key if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.key_data(key)
    return [int(word) for word in np.asarray(raw).ravel()]


def source_of(key: Data, n: int, engine: str) -> Randomness:
    """Randomness on the engine of the data; a traced key is JAX's in any case."""
    return Randomness(key, n, np if engine == "numpy" and not is_traced(key) else jnp)


def require_key(key: Data) -> None:
    """A JAX random key, of either style."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = isinstance(key, (jax.Array, np.ndarray)) and key.dtype == np.uint32 and key.shape == (2,)
    if not raw and not (typed and key.shape == ()):
        raise DataError(
            f"a sample with the key {key!r}", expected="a JAX random key", advice="make one: jax.random.key(0)"
        )
