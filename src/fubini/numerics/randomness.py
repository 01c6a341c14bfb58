"""Random numbers in order of use from one key: NumPy's generator seeded by it, or JAX keys folded out of it."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, as_floats, is_traced, namespace
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound
from fubini.errors import DataError, DomainError

SAMPLES = Bound("sample")  # the axis along which draws stand


class Randomness:
    """n draws at a time, along the axis `SAMPLES`."""

    def __init__(self, key: Data, n: int, xp: Any) -> None:
        self.key = key
        self.domain: Domain = Bint[n]
        self.xp = xp
        self.used = 0
        self._generator = None if xp is jnp else np.random.default_rng(words(key))

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

    def finish(self) -> None:
        """Finish: nothing more is drawn."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain.extent} draws)"


@jax.tree_util.register_pytree_node_class
class WhiteNoise:
    """Standard normal numbers in place of a key: draws of real variables as a smooth function of them.

    The numbers of one draw lie along the last axis, as many as the variables drawn have entries; several draws along an
    axis before it.

    >>> from fubini import dist
    >>> from fubini.eliminate.ask import sample
    >>> sample(WhiteNoise([0.5]), dist.Normal(1.0, 2.0)("x"), ("x",))
    {'x': np.float64(2.0)}
    """

    def __init__(self, numbers: Data) -> None:
        self.numbers = as_floats(numbers)
        if self.numbers.ndim not in (1, 2):
            raise DomainError(
                f"white noise of shape {self.numbers.shape}",
                expected="numbers along one axis, or draws along one before it",
            )

    def __repr__(self) -> str:
        *draws, count = self.numbers.shape
        return f"WhiteNoise({draws[0] if draws else 1} draws of {count} numbers)"

    @property
    def rows(self) -> Data:
        """One row for each draw."""
        return self.numbers if self.numbers.ndim == 2 else self.numbers[None]

    def tree_flatten(self) -> tuple[tuple[Data], None]:
        return (self.numbers,), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple[Data]) -> WhiteNoise:
        new = object.__new__(cls)
        new.numbers = children[0]
        return new


class Prescribed(Randomness):
    """The numbers of white noise, in order of use."""

    def __init__(self, noise: WhiteNoise) -> None:
        self.rows, self.used, self.xp = noise.rows, 0, namespace(noise.numbers)
        self.domain = Bint[self.rows.shape[0]]

    def normal(self, shape: tuple[int, ...]) -> Data:
        count = math.prod(shape[1:])
        taken = self.rows[:, self.used : self.used + count]
        self.used += count
        if taken.shape[1] < count:
            raise self._wrong(f"at least {self.used}")
        return taken.reshape(shape)

    def next_key(self) -> Data:
        raise DomainError("a draw from white noise", expected="Gaussians alone", advice="draw the others with a key")

    def uniform(self, shape: tuple[int, ...]) -> Data:
        return self.next_key()

    def finish(self) -> None:
        if self.used != self.rows.shape[1]:
            raise self._wrong(str(self.used))

    def _wrong(self, expected: str) -> DomainError:
        given = self.rows.shape[1]
        return DomainError(
            f"white noise of {given} numbers for a draw", expected=f"{expected}: one for each entry drawn"
        )


def words(key: Data) -> list[int]:
    """The numbers of a key, which seed a generator of NumPy."""
    raw = key if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.key_data(key)
    return [int(word) for word in np.asarray(raw).ravel()]


def generator_state(generator: np.random.Generator) -> np.ndarray:
    """The state of NumPy's default generator as an array, from which `generator_of` makes it again."""
    state: Any = generator.bit_generator.state
    parts = [*divmod(state["state"]["state"], 2**64), *divmod(state["state"]["inc"], 2**64)]
    return np.array([*parts, state["has_uint32"], state["uinteger"]], np.uint64)


def generator_of(state: np.ndarray) -> np.random.Generator:
    """A generator in the state that `generator_state` wrote down."""
    high, low, inc_high, inc_low, half, rest = map(int, state)
    bits = np.random.PCG64(0)
    numbers: Any = {"state": high * 2**64 + low, "inc": inc_high * 2**64 + inc_low}
    bits.state = {"bit_generator": "PCG64", "state": numbers, "has_uint32": half, "uinteger": rest}
    return np.random.Generator(bits)


def fault_of_generator(state: np.ndarray) -> str | None:
    """Say why an array is no state of a generator: its increment is odd, and half a word is kept or not."""
    known = int(state[3]) % 2 == 1 and int(state[4]) in (0, 1) and int(state[5]) < 2**32
    return None if known else "its random generator is of no state"


def source_of(key: Data, n: int, engine: str) -> Randomness:
    """Randomness on the engine of the data; a traced key is JAX's in any case."""
    if isinstance(key, WhiteNoise):
        return Prescribed(key)
    return Randomness(key, n, np if engine == "numpy" and not is_traced(key) else jnp)


def require_key(key: Data) -> None:
    """A JAX random key, of either style."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = isinstance(key, (jax.Array, np.ndarray)) and key.dtype == np.uint32 and key.shape == (2,)
    if not raw and not (typed and key.shape == ()):
        raise DataError(
            f"a sample with the key {key!r}", expected="a JAX random key", advice="make one: jax.random.key(0)"
        )
