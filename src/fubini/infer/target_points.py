"""The density of a target at many points, and the box in which its prior puts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_double_precision
from fubini.infer.target import Abstract, FreeDensity, Shapes, Target, abstract
from fubini.numerics.frame import Frame, LogDensity, NoGrid

PRIOR_DRAWS = 256  # that say how far away other modes may be
BLOCK = 128  # points at which the density is computed at once, where there is memory for it
MEMORY = 2**29  # bytes that the evaluation of a block may take


def plausible_box(target: Target) -> Frame | None:
    """The box in which the prior puts the numbers, and half as much again."""
    draws = None if target.prior is None else target.prior(jax.random.split(jax.random.key(0), PRIOR_DRAWS))
    if draws is None:
        return None
    flat = np.concatenate([np.asarray(draws[n], float).reshape(PRIOR_DRAWS, -1) for n in target.shapes], axis=1)
    low, high = np.nanquantile(np.where(np.isfinite(flat), flat, np.nan), [0.01, 0.99], axis=0)
    return Frame(np.eye(target.size), low, high).widened(1.5)


def by_name(points: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Points […, number] as arrays […, *shape]."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    return {
        name: points[..., end - math.prod(shape) : end].reshape(*points.shape[:-1], *shape)
        for (name, shape), end in zip(shapes.items(), ends, strict=True)
    }


def flattened(values: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Arrays by name as one of all their numbers, end to end."""
    return jnp.concatenate([jnp.reshape(values[name], -1) for name in shapes])


def flat_density(target: Target) -> Callable[[Data, Any], Data]:
    """The log density as a function of all numbers of one point, and of the data: the same for the same density."""
    return _flat_density(target.log_density, tuple(target.shapes.items()))


@lru_cache(maxsize=64)
def _flat_density(log_density: FreeDensity, shapes: Shapes) -> Callable[[Data, Any], Data]:
    return lambda point, numbers: log_density(by_name(point, dict(shapes)), numbers)


def evaluation(target: Target, progress: Callable[[int], Any] = lambda _: None) -> LogDensity:
    """The log density of a target at points, computed a block at a time; what is not finite is no density."""
    block, compiled = _compiled(
        target.log_density,
        tuple(target.shapes.items()),
        abstract(target.numbers),
        is_double_precision(),
    )

    def log_density(points: np.ndarray) -> np.ndarray:
        blocks = -(-len(points) // block)
        filled = np.resize(points, (blocks * block, points.shape[1])).reshape(blocks, block, -1)
        values = []
        for part in filled:
            values.append(compiled(jnp.asarray(part), target.numbers))
            progress(block)
        log_p = np.concatenate([np.asarray(value, np.float64) for value in values])[: len(points)]
        return np.where(np.isfinite(log_p), log_p, -np.inf)

    return log_density


def operations(target: Target) -> float:
    """About how many operations the density takes at one point; nothing is compiled."""
    lowered = _lowered(
        target.log_density, tuple(target.shapes.items()), abstract(target.numbers), is_double_precision(), BLOCK
    )
    cost = lowered.cost_analysis()
    return float(cost.get("flops", 0.0)) / BLOCK if isinstance(cost, dict) else 0.0


@lru_cache(maxsize=64)
def _lowered(log_density: FreeDensity, shapes: Shapes, given: Abstract, float64: bool, block: int) -> Any:
    """The density at points [point, number], traced, in one precision."""
    numbers = jax.tree_util.tree_unflatten(*given)
    size = sum(math.prod(shape) for _, shape in shapes)
    many = jax.jit(
        lambda points, numbers: jax.vmap(lambda point: log_density(by_name(point, dict(shapes)), numbers))(points)
    )
    return many.lower(jax.ShapeDtypeStruct((block, size), float if float64 else np.float32), numbers)


@lru_cache(maxsize=64)
def _compiled(
    log_density: FreeDensity, shapes: Shapes, given: Abstract, float64: bool
) -> tuple[int, Callable[..., Data]]:
    """How many points at once, and the density at so many [point, number]: compiled once, in one precision."""

    def compiled(block: int) -> tuple[Any, int]:
        executable = _lowered(log_density, shapes, given, float64, block).compile()
        memory = executable.memory_analysis()
        return executable, 0 if memory is None else int(memory.temp_size_in_bytes)

    executable, used = compiled(BLOCK)
    block = BLOCK
    while used > MEMORY:
        if block == 1:
            raise NoGrid(f"one evaluation of the density takes {used / 2**30:.1f} GiB, more than {MEMORY / 2**30:g}")
        block = max(1, min(block // 2, int(block * MEMORY / used)))
        executable, used = compiled(block)
    return block, executable
