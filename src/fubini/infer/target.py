"""What an inference algorithm is given: a density over unconstrained numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from fubini.arrays import Data
from fubini.errors import DataError

Free = dict[str, Data]
TRIES = 100  # starting points looked at for each chain
RADIUS = 2.0  # starting points are uniform between −2 and 2


@dataclass(frozen=True)
class Target:
    """log p of unconstrained numbers by name, of these shapes; `numbers` are the data that it reads.

    `prior`, where there is one, makes draws of them for each of some keys.
    """

    shapes: Mapping[str, tuple[int, ...]]
    log_density: Callable[[Free, Any], Data]
    numbers: Any
    prior: Callable[[Data], Free | None] | None = None

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, key: Data, chains: int) -> Free:
        """A starting point for each chain: the first of random ones at which the density is positive."""
        found, fine = _starter(self.log_density, tuple(self.shapes.items()))(
            jax.random.split(key, chains), self.numbers
        )
        require_start(fine)
        return found


def require_start(fine: Data) -> None:
    """For every chain a starting point was found."""
    if not bool(jnp.all(fine)):
        raise DataError(
            f"{TRIES} starting points between {-RADIUS:g} and {RADIUS:g}",
            expected="one at which the density is positive",
            nearest="at all of them the density is 0, infinite or not a number",
            advice="check that the observations are possible under the model, and the scale of the data",
        )


Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@lru_cache(maxsize=64)
def _starter(log_density: Callable[[Free, Any], Data], shapes: Shapes) -> Callable:
    """Compiled once for each density."""
    return jax.jit(jax.vmap(starting_point(log_density, shapes), in_axes=(0, None)))


def starting_point(log_density: Callable[[Free, Any], Data], shapes: Shapes) -> Callable[[Data, Any], tuple]:
    """A function of a key and numbers: a point, and whether the density is positive there."""

    def one(key: Data, numbers: Any) -> tuple[Free, Data]:
        def point(number: Data) -> Free:
            keys = jax.random.split(jax.random.fold_in(key, number), len(shapes))
            return {
                name: jax.random.uniform(mine, shape, minval=-RADIUS, maxval=RADIUS)
                for mine, (name, shape) in zip(keys, shapes, strict=True)
            }

        def is_bad(number: Data) -> Data:
            return ~jnp.isfinite(log_density(point(number), numbers))

        number, bad = jax.lax.while_loop(
            lambda state: state[1] & (state[0] < TRIES - 1),
            lambda state: (state[0] + 1, is_bad(state[0] + 1)),
            (jnp.asarray(-1), jnp.asarray(True)),
        )
        return point(number), ~bad

    return one
