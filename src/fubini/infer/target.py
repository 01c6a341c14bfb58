"""What an inference algorithm is given: a density over unconstrained numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """log p of unconstrained numbers by name, of these shapes; `numbers` are the data that it reads."""

    shapes: Mapping[str, tuple[int, ...]]
    log_density: Callable[[Free, Any], Data]
    numbers: Any

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, key: Data, chains: int) -> Free:
        """A starting point for each chain: the first of random ones at which density and derivatives are finite."""

        def one(key: Data) -> tuple[Free, Data]:
            points = {
                name: jax.random.uniform(jax.random.fold_in(key, place), (TRIES, *shape), minval=-RADIUS, maxval=RADIUS)
                for place, (name, shape) in enumerate(self.shapes.items())
            }
            value, slopes = jax.lax.map(lambda at: jax.value_and_grad(self.log_density)(at, self.numbers), points)
            flat = jax.tree_util.tree_leaves(jax.tree_util.tree_map(lambda x: x.reshape(TRIES, -1), slopes))
            fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(jnp.concatenate(flat, axis=1)), axis=1)
            place = jnp.argmax(fine)
            return {name: point[place] for name, point in points.items()}, fine[place]

        found, fine = jax.jit(jax.vmap(one))(jax.random.split(key, chains))
        if not bool(jnp.all(fine)):
            raise DataError(
                f"{TRIES} starting points between {-RADIUS:g} and {RADIUS:g}",
                expected="one at which the density is positive and has finite derivatives",
                nearest="at all of them the density is 0, infinite or not a number",
                advice="check that the observations are possible under the model, and the scale of the data",
            )
        return found
