"""What an inference algorithm is given: a density over unconstrained numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.processes import on_host
from fubini.base.sharded_array import sharding_on_mesh
from fubini.errors import DataError

Free = dict[str, Data]
FreeDensity = Callable[[Free, Any], Data]  # log p of unconstrained numbers, and of the data that it reads
CANDIDATES = 16  # starting points looked at for each chain, of which the best is taken
ROUNDS = 7  # of them, where the density is 0 at all
RADIUS = 2.0  # starting points are uniform between −2 and 2
FAR = 1000.0, 10.0  # nats below the best chain, and times its own, at which a chain starts from another point


@dataclass(frozen=True)
class Target:
    """log p of unconstrained numbers by name, of these shapes; `numbers` are the data that it reads.

    `prior`, where there is one, makes draws of them for each of some keys. Where the density is estimated from some of
    the data at a time, these are the last of the numbers, and `samples` of a seed and a count gives others [step, …];
    `rounds` of them are about all data.
    """

    shapes: Mapping[str, tuple[int, ...]]
    log_density: FreeDensity
    numbers: Any
    prior: Callable[[Data], Free | None] | None = None
    samples: Callable[[int, int], Iterator[Any]] | None = None
    rounds: int = 1

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, key: Data, chains: int) -> Free:
        """A starting point for each chain: the best of some random ones, none far below the best of all."""
        points, log_p = _starter(self.log_density, tuple(self.shapes.items()))(
            jax.random.split(key, chains), self.numbers
        )
        chosen = choose_starts(on_host(log_p).astype(np.float64))
        return {name: value.reshape(-1, *value.shape[2:])[chosen] for name, value in points.items()}


def choose_starts(log_p: np.ndarray) -> np.ndarray:
    """For each chain the number of its best candidate [chain, candidate], or of the best unused one where it is far."""
    best = log_p.argmax(axis=1) + np.arange(len(log_p)) * log_p.shape[1]
    flat, top = log_p.ravel(), float(log_p.max())
    if not math.isfinite(top):
        raise DataError(
            f"{CANDIDATES * ROUNDS} starting points between {-RADIUS:g} and {RADIUS:g}",
            expected="one at which the density is positive",
            nearest="at all of them the density is 0, infinite or not a number",
            advice="check that the observations are possible under the model, and the scale of the data",
        )
    far = flat[best] < top - FAR[0] - FAR[1] * abs(top)
    others = [place for place in np.argsort(-flat) if place not in best[~far]]
    best[far] = [place if flat[place] >= flat[best[~far]].min() else flat.argmax() for place in others[: far.sum()]]
    return best


def impossible_if_not_finite(log_p: Data) -> Data:
    """A log density as samplers read it: where it is infinite or not a number, there is nothing."""
    return jnp.where(jnp.isfinite(log_p), log_p, -jnp.inf)


Shapes = tuple[tuple[str, tuple[int, ...]], ...]
Abstract = tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]  # a structure of arrays, and their shapes and types


def abstract(values: Any) -> Abstract:
    """What code for such values is compiled for; on a mesh, also how they lie there."""
    leaves, tree = jax.tree_util.tree_flatten(values)
    return tree, tuple(
        jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=jax.typeof(x).weak_type, sharding=sharding_on_mesh(x))
        for x in leaves
    )


@lru_cache(maxsize=64)
def _starter(log_density: FreeDensity, shapes: Shapes) -> Callable:
    """Candidates of each chain and their log densities, compiled once for each density."""
    candidates = starting_points(log_density, shapes)
    return jax.jit(lambda keys, numbers: jax.lax.map(lambda key: candidates(key, numbers), keys))


def starting_points(log_density: FreeDensity, shapes: Shapes) -> Callable[[Data, Any], tuple]:
    """A function of a key and numbers: random points, and the log density at each of them."""

    def one(key: Data, numbers: Any) -> tuple[Free, Data]:
        def candidates(number: Data) -> tuple[Free, Data]:
            keys = jax.random.split(jax.random.fold_in(key, number), len(shapes))
            points = {
                name: jax.random.uniform(site_key, (CANDIDATES, *shape), minval=-RADIUS, maxval=RADIUS)
                for site_key, (name, shape) in zip(keys, shapes, strict=True)
            }
            # One after another: side by side they would need so many times the memory.
            return points, jax.lax.map(lambda point: impossible_if_not_finite(log_density(point, numbers)), points)

        start = jax.tree_util.tree_map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(candidates, 0))
        _, points, log_p = jax.lax.while_loop(
            lambda state: jnp.all(jnp.isneginf(state[2])) & (state[0] < ROUNDS),
            lambda state: (state[0] + 1, *candidates(state[0])),
            (jnp.asarray(0), start[0], start[1] - jnp.inf),
        )
        return points, log_p

    return one
