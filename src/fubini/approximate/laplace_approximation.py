"""Laplace's approximation: the Gaussian with the value, mode and curvature of a factor at its mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, double_precision, is_jax, require
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import DataError, DomainError, UnknownName, closest, listed
from fubini.factors.mode_expansion import expanded_at_mode
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Reals, places
from fubini.numerics.quadratic_elimination import root
from fubini.terms.exactness import projected
from fubini.terms.factor import Factor
from fubini.terms.value import Array, Value, to_array

# Newton steps at most, and how small one must be to be the last.
MOST_STEPS, SMALL = 200, 1e-3

# Where the search begins unless it is told: not at zero, where some log-densities have a kink in floating point.
NEAR_ZERO = 0.01


class Point(NamedTuple):
    """A place in the search: where, the log there, how much the curvature is raised, and how far the last step went."""

    at: Data
    log: Data
    damping: Data
    moved: Data
    count: Data


def laplace_factor(factor: Factor, *names: Name, start: Mapping[Name, Any] | None = None) -> Factor:
    """The Gaussian that has the factor's value, mode and curvature at its mode, over the real names or all of them."""
    reals, batch = _asked(factor, names)
    begin = _start(start or {}, reals, batch, factor)
    given = factor.log()
    shape = tuple(domain.extent for domain in batch.values())

    def evaluated(log: Value, z: Data) -> Data:
        """log f at a point for each cell."""
        values = {
            name: Array._of(
                z[..., place.start : place.stop].reshape((*shape, *domain.shape)), tuple(batch), batch, domain
            )
            for (name, domain), place in zip(reals, places(reals).values(), strict=True)
        }
        value = to_array(log.replaced(values))  # type: ignore[arg-type]
        return jnp.broadcast_to(align(jnp.asarray(value.array), value.names, tuple(batch)), shape)

    @jax.jit
    def expanded(leaves: list[Data], start: Data) -> tuple[Data, Data, Data, Data]:
        return _expanded(partial(evaluated, given.rebuilt(iter(leaves))), start)

    leaves = list(given.leaves())
    if any(map(is_jax, leaves)):
        mean, curvature, top, at_rest = expanded(leaves, begin)
    else:
        with double_precision():  # JAX would remember NumPy's arrays, once traced, in the precision of that time
            doubles = [jnp.asarray(leaf) for leaf in leaves]
            mean, curvature, top, at_rest = map(np.asarray, expanded(doubles, begin.astype(np.float64)))
    L, ok = root(curvature)
    top, mean = require(ok & at_rest & (top == top), lambda: _no_mode(factor, reals), top, mean)
    return expanded_at_mode(top, mean, L.swapaxes(-1, -2), reals, batch, factor.exactness | projected("laplace"))


def _asked(factor: Factor, names: tuple[Name, ...]) -> tuple[Reals, dict[Name, Domain]]:
    for name in names:
        if name not in factor.inputs:
            raise UnknownName(
                f"the mode over {name!r} of {factor}",
                expected=f"a free name: {listed(factor.inputs)}",
                nearest=closest(name, factor.inputs),
            )
    reals = tuple((name, domain) for name, domain in factor.inputs.items() if not domain.is_finite)
    strange = [name for name, domain in reals if domain.kind != "real" or (names and name not in names)]
    if strange or not reals or any(factor.inputs[name].is_finite for name in names):
        raise DomainError(
            f"Laplace's approximation of {factor}",
            expected="a factor over real variables, all of them named, and bounded integers",
            nearest=f"{strange[0]!r} is {factor.inputs[strange[0]]!r}" if strange else f"named {listed(names)}",
            advice="substitute a function of a real variable for a bounded one: f(x=fb.ops.exp(u))",
        )
    return reals, {name: domain for name, domain in factor.inputs.items() if domain.is_finite}


def _start(start: Mapping[Name, Any], reals: Reals, batch: Mapping[Name, Domain], factor: Factor) -> Data:
    for name in start:
        if name not in dict(reals):
            raise UnknownName(
                f"a search that starts at {name!r}",
                expected=f"a real variable of {factor}: {listed(name for name, _ in reals)}",
                nearest=closest(name, dict(reals)),
            )
    shape = tuple(domain.extent for domain in batch.values())
    parts = []
    for name, domain in reals:
        given = jnp.asarray(start.get(name, NEAR_ZERO), float)
        size = math.prod(domain.shape)
        parts.append(jnp.broadcast_to(jnp.broadcast_to(given, domain.shape).reshape(size), (*shape, size)))
    return jnp.concatenate(parts, axis=-1)


def _expanded(log: Callable[[Data], Data], begin: Data) -> tuple[Data, Data, Data, Data]:
    """The mode, the curvature −∂²log there, the log itself, and whether the search came to rest.

    Derivatives in a parameter pass through one last step.
    """

    def slope(z: Data) -> Data:
        return jax.grad(lambda point: jnp.sum(log(point)))(z)

    def curvature(z: Data) -> Data:
        return -jax.jacfwd(lambda shift: slope(z + shift))(jnp.zeros(z.shape[-1], z.dtype))

    end = jax.lax.stop_gradient(_searched(log, slope, curvature, jax.lax.stop_gradient(begin)))
    step = _solved(jax.lax.stop_gradient(curvature(end)), slope(end))
    mode = end + step
    rest = jnp.max(jnp.abs(step), axis=-1) <= SMALL * (1 + jnp.max(jnp.abs(end), axis=-1))
    K, top = curvature(mode), log(mode)
    return mode, K, top, rest & _falls(log, jax.lax.stop_gradient(mode), jax.lax.stop_gradient(K), top)


def _falls(log: Callable[[Data], Data], mode: Data, K: Data, top: Data) -> Data:
    """A deviation away in either direction of every element the logarithm is less than at the mode."""
    spread = jnp.diagonal(K, axis1=-2, axis2=-1) ** -0.5
    offsets = jnp.concatenate([jnp.eye(mode.shape[-1], dtype=mode.dtype), -jnp.eye(mode.shape[-1], dtype=mode.dtype)])
    around = jax.vmap(lambda offset: log(mode + offset * spread))(offsets)
    return jnp.all(around < top, axis=0)


def _solved(K: Data, right: Data) -> Data:
    return jnp.linalg.solve(K, right[..., None])[..., 0]


def _searched(log: Callable, slope: Callable, curvature: Callable, begin: Data) -> Data:
    """Newton's method; where a step would not go up, the curvature is raised until it does (Levenberg)."""
    eye = jnp.eye(begin.shape[-1], dtype=begin.dtype)
    floor = math.sqrt(float(jnp.finfo(begin.dtype).eps)) * SMALL

    def going_on(now: Point) -> Data:
        return (now.count < MOST_STEPS) & jnp.any(now.moved > floor * (1 + jnp.max(jnp.abs(now.at), axis=-1)))

    def step(now: Point) -> Point:
        K = curvature(now.at)
        scale = jnp.maximum(jnp.max(jnp.abs(K), axis=(-2, -1)), 1e-6)
        move = _solved(K + (now.damping * scale)[..., None, None] * eye, slope(now.at))
        there = now.at + move
        value = log(there)
        better = (value >= now.log) & jnp.all(jnp.isfinite(there), axis=-1)
        at = jnp.where(better[..., None], there, now.at)
        damping = jnp.where(
            better, jnp.where(now.damping < 1e-4, 0.0, now.damping / 8), jnp.maximum(8 * now.damping, 1e-3)
        )
        stuck = ~better & (damping > 1e12)
        far = jnp.max(jnp.abs(move), axis=-1)
        moved = jnp.where(better, far, jnp.where(stuck, 0.0, jnp.inf))
        return Point(at, jnp.where(better, value, now.log), damping, moved, now.count + 1)

    first = log(begin)
    start = Point(begin, first, jnp.zeros_like(first), jnp.full_like(first, jnp.inf), jnp.asarray(0))
    return lax_loops.while_loop(going_on, step, start).at


def _no_mode(factor: Factor, reals: Reals) -> DataError:
    return DataError(
        f"Laplace's approximation of {factor}",
        expected=f"a mode, where the logarithm curves down in every direction of {listed(name for name, _ in reals)}",
        advice="multiply by a prior, or begin the search elsewhere: start={…}",
    )
