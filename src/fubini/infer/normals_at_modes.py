"""Normal approximations of a target at its modes."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fubini.errors import DataError
from fubini.infer.normal_approximation import climb
from fubini.infer.target import Target
from fubini.numerics.frame import LogDensity
from fubini.numerics.normal_at_mode import Normal

STARTS = 6  # searches for modes
SMALLEST = 1e-10  # curvature, of the greatest, that is not flat
AT_REST = 1e-2  # standard deviations from where a search ended to the mode


def normals_at_modes(target: Target, log_density: LogDensity) -> list[Normal]:
    """Normal approximations where searches for modes from several points end."""
    starts = target.start(jax.random.key(0), STARTS)
    _, unravel = ravel_pytree({name: value[0] for name, value in starts.items()})
    hessian = jax.jit(jax.hessian(lambda at: -target.log_density(unravel(at), target.numbers)))
    normals: list[Normal] = []
    for chain in range(STARTS):
        end = climb(target, {name: value[chain] for name, value in starts.items()})
        mode = end.point
        if not np.all(np.isfinite(mode)) or any(normal.is_at(mode) for normal in normals):
            continue
        root, curves_down = _root_of_inverse(np.asarray(hessian(jnp.asarray(mode)), np.float64))
        log_mass = float(log_density(mode[None])[0]) + float(np.linalg.slogdet(root)[1])
        is_at_rest = end.slope * float(np.linalg.norm(root, 2)) < AT_REST
        if math.isfinite(log_mass):
            normals.append(Normal(mode, root, log_mass, curves_down and is_at_rest))
    if not normals:
        raise DataError("the modes of a density", expected="a density that is finite at its greatest")
    return normals


def _root_of_inverse(curvature: np.ndarray) -> tuple[np.ndarray, bool]:
    """A root of the covariance, and whether it is one: where the density does not curve down it is given a wide one."""
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    least = max(1e-2, 1e-8 * float(np.max(np.abs(values))))
    return vectors / np.sqrt(np.maximum(values, least)), bool(np.all(values > SMALLEST * np.max(np.abs(values))))
