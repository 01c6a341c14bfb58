"""Normal approximations over unconstrained numbers: at the mode (Laplace), or the nearest by KL (mean-field SVI)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize
from tqdm import tqdm

from fubini.base.arrays import Data
from fubini.errors import DataError
from fubini.infer.target import Free, Target


class Climb(NamedTuple):
    """Where a search for the greatest density ended, after how many steps, and the slope there."""

    point: np.ndarray
    log_density: float
    slope: float
    steps: int


def climb(target: Target, start: Free) -> Climb:
    """Follow the slope of a density from a starting point, in unconstrained numbers end to end."""
    flat, unravel = ravel_pytree(start)
    numbers = target.numbers
    value_and_slope = jax.jit(jax.value_and_grad(lambda at, data: -target.log_density(unravel(at), data)))

    def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_slope(jnp.asarray(at, flat.dtype), numbers)
        return float(value), np.asarray(gradient, np.float64)

    end: Any = minimize(objective, np.asarray(flat, np.float64), jac=True, method="BFGS", options={"gtol": 1e-9})
    _, gradient = objective(end.x)
    return Climb(end.x, -float(end.fun), float(np.max(np.abs(gradient), initial=0.0)), end.nit)


def highest(target: Target, start: Free) -> Free:
    """The unconstrained numbers at which a density is greatest, from a starting point."""
    flat, unravel = ravel_pytree(start)
    end = climb(target, start)
    tolerance = (1e-5 if flat.dtype == jnp.float64 else 3e-2) * (1.0 + abs(end.log_density))
    if not np.all(np.isfinite(end.point)) or end.slope > tolerance:
        raise DataError(
            "the greatest density",
            expected="a density that is bounded and smooth",
            nearest=f"after {end.steps} steps its slope is still {end.slope:.3g}",
            advice="a density can be unbounded where a scale goes to 0: integrate the latents out that it scales",
        )
    return unravel(jnp.asarray(end.point, flat.dtype))


def laplace(key: Data, target: Target, draws: int) -> dict[str, np.ndarray]:
    """Draws of the normal with the mode and the curvature of a density."""
    first, second = jax.random.split(key)
    start = {name: value[0] for name, value in target.start(first, 1).items()}
    mode = highest(target, start)
    flat, unravel = ravel_pytree(mode)
    curvature = jax.jit(jax.hessian(lambda at: -target.log_density(unravel(at), target.numbers)))(flat)
    root = jnp.linalg.cholesky(curvature)
    if not bool(jnp.all(jnp.isfinite(root))):
        raise DataError("the curvature at the mode", expected="a positive definite matrix", advice='use method="nuts"')
    noise = jax.random.normal(second, (len(flat), draws), flat.dtype)
    points = flat[:, None] + jax.scipy.linalg.solve_triangular(root.T, noise, lower=False)
    return jax.tree_util.tree_map(np.asarray, jax.vmap(unravel)(points.T))


def svi(
    key: Data, target: Target, draws: int, steps: int = 5000, particles: int = 16, progress: bool = True
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws of the independent normals nearest to a density, and the ELBO along the way."""
    first, second, third = jax.random.split(key, 3)
    start = {name: value[0] for name, value in target.start(first, 1).items()}
    flat, unravel = ravel_pytree(start)
    parameters = (flat, jnp.full_like(flat, -2.0))
    optimiser = optax.adam(optax.cosine_decay_schedule(0.05, steps))

    def negative_elbo(parameters: tuple[Data, Data], key: Data) -> Data:
        loc, log_scale = parameters
        noise = jax.random.normal(key, (particles, len(flat)), flat.dtype)
        points = loc + jnp.exp(log_scale) * noise
        density: Callable[[Data], Data] = lambda at: target.log_density(unravel(at), target.numbers)  # noqa: E731
        return -jnp.mean(jax.vmap(density)(points)) - jnp.sum(log_scale)

    @jax.jit
    def stretch(carried: tuple, keys: Data) -> tuple[tuple, Data]:
        def one(carried: tuple, key: Data) -> tuple[tuple, Data]:
            parameters, state = carried
            loss, slope = jax.value_and_grad(negative_elbo)(parameters, key)
            updates, state = optimiser.update(slope, state)
            return (optax.apply_updates(parameters, updates), state), -loss

        return jax.lax.scan(one, carried, keys)

    carried: tuple = (parameters, optimiser.init(parameters))
    elbos = []
    count = max(steps // 20, 1)
    for keys in tqdm(jax.random.split(second, (20, count)), disable=not progress, desc="svi", unit="stretch"):
        carried, elbo = stretch(carried, keys)
        elbos.append(np.asarray(elbo))
    loc, log_scale = carried[0]
    points = loc + jnp.exp(log_scale) * jax.random.normal(third, (draws, len(flat)), flat.dtype)
    constant = 0.5 * len(flat) * (1 + np.log(2 * np.pi))
    return jax.tree_util.tree_map(np.asarray, jax.vmap(unravel)(points)), np.concatenate(elbos) + constant
