"""Normal approximations over unconstrained numbers: at the mode (Laplace), or the nearest by KL (mean-field SVI)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import scipy
from numpyro.distributions import ImproperUniform, constraints
from numpyro.handlers import seed
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from tqdm import tqdm

from fubini.base.arrays import Data
from fubini.errors import DataError
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_numbers
from fubini.infer.target import Free, FreeDensity, Shapes, Target
from fubini.infer.target_points import by_name, flattened
from fubini.infer.transitions import Transition, Transitions

STEPS = 5000  # of a stochastic optimisation
STRETCHES = 20  # of an optimisation, between which progress is shown
MOST_NUMBERS = 1 << 21  # of the data of a stretch
RATE = 0.05  # of Adam, at the start
NARROW = float(np.exp(-2.0))  # scales at the start
PARAMETERS = ("free_auto_loc", "free_auto_scale")  # as numpyro calls them


# -- the mode ---------------------------------------------------------------------------------------------------------


class Climb(NamedTuple):
    """Where a search for the greatest density ended, after how many steps, and the slope there."""

    point: np.ndarray
    log_density: float
    slope: float
    steps: int


def climb(target: Target, start: Free) -> Climb:
    """Follow the slope of a density from a starting point, in unconstrained numbers end to end."""
    flat, (value_and_slope, _) = flattened(start, target.shapes), _derivatives(target.log_density, _shapes(target))

    def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_slope(jnp.asarray(at, flat.dtype), target.numbers)
        return float(value), np.asarray(gradient, np.float64)

    end: Any = scipy.optimize.minimize(
        objective, np.asarray(flat, np.float64), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    _, gradient = objective(end.x)
    return Climb(end.x, -float(end.fun), float(np.max(np.abs(gradient), initial=0.0)), end.nit)


def highest(target: Target, start: Free) -> Free:
    """Find the unconstrained numbers at which a density is greatest, from a starting point."""
    end, dtype = climb(target, start), flattened(start, target.shapes).dtype
    tolerance = (1e-5 if dtype == jnp.float64 else 3e-2) * (1.0 + abs(end.log_density))
    if not np.all(np.isfinite(end.point)) or end.slope > tolerance:
        raise DataError(
            "the greatest density",
            expected="a density that is bounded and smooth",
            nearest=f"after {end.steps} steps its slope is still {end.slope:.3g}",
            advice="a density can be unbounded where a scale goes to 0: integrate the latents out that it scales",
        )
    return by_name(jnp.asarray(end.point, dtype), target.shapes)


@lru_cache(maxsize=64)
def _derivatives(log_density: FreeDensity, shapes: Shapes) -> tuple[Callable, Callable]:
    """−log p and its gradient, and its curvature, at unconstrained numbers end to end; compiled once for a density."""

    def energy(at: Data, numbers: Any) -> Data:
        return -log_density(by_name(at, dict(shapes)), numbers)

    return jax.jit(jax.value_and_grad(energy)), jax.jit(jax.hessian(energy))


# -- samplers ---------------------------------------------------------------------------------------------------------


def laplace(target: Target) -> Transitions:
    """Make the sampler of the normal with the mode and the curvature of a density."""

    def fit(key: Data) -> tuple[Data, Data]:
        mode = flattened(highest(target, _start(key, target)), target.shapes)
        curvature = _derivatives(target.log_density, _shapes(target))[1](mode, target.numbers)
        root = jnp.linalg.cholesky(curvature)
        if not bool(jnp.all(jnp.isfinite(root))):
            raise DataError(
                "the curvature at the mode", expected="a positive definite matrix", advice='use method="nuts"'
            )
        return mode, jax.scipy.linalg.solve_triangular(root.T, jnp.eye(len(mode), dtype=mode.dtype), lower=False)

    return _independent_draws("laplace", target, fit)


def svi(target: Target, steps: int = STEPS, particles: int = 16, progress: bool = True) -> Transitions:
    """Make the sampler of the independent normals nearest to a density, by numpyro's stochastic optimisation.

    A density that is estimated from some of the data at a time is so in each step from others.
    """

    def fit(key: Data) -> tuple[Data, Data]:
        fitted, _ = fit_independent_normals(key, target, steps, particles, progress)
        return fitted

    return _independent_draws("svi", target, fit)


def fit_independent_normals(
    key: Data, target: Target, steps: int, particles: int, progress: bool
) -> tuple[tuple[Data, Data], np.ndarray]:
    """Find means and scales that raise the ELBO; also, the ELBO along the way."""
    first, second = jax.random.split(key)
    start = flattened(_start(first, target), target.shapes)
    if target.samples is None:
        return _climb_elbo(second, target, start, steps, particles, progress)
    (at, scale), before = _climb_elbo(first, target, start, steps // 2, particles, progress)
    slope = _whole_slope(first, target, at)
    anchored = Target(
        {"steps": (target.size,)},
        _anchored(target.log_density, _shapes(target)),
        (*target.numbers[:-1], (at, scale, slope), target.numbers[-1]),
        samples=target.samples,
    )
    (moved, wider), elbos = _climb_elbo(second, anchored, jnp.zeros_like(at), steps // 2, particles, progress)
    return (at + scale * moved, scale * wider), np.concatenate([before, elbos])


def _climb_elbo(
    key: Data, target: Target, start: Data, steps: int, particles: int, progress: bool
) -> tuple[tuple[Data, Data], np.ndarray]:
    """Means and scales from a start, and the ELBO along the way."""
    init, update, update_by_samples, parameters = _optimisation(target.log_density, _shapes(target), steps, particles)
    state, elbos = init(key, start, target.numbers), []
    made = STRETCHES * max(steps // STRETCHES, 1)
    with tqdm(total=made, disable=not progress, desc="svi: fitting", unit="iteration") as bar:
        for samples in _samples(key, target, made):
            if samples is None:
                state, elbo = update(state, target.numbers)
            else:
                state, elbo = update_by_samples(state, target.numbers[:-1], samples)
            elbos.append(np.asarray(elbo))
            bar.update(len(elbo))
    return parameters(state), np.concatenate(elbos)


@lru_cache(maxsize=64)
def _anchored(log_density: FreeDensity, shapes: Shapes) -> FreeDensity:
    """log p(θ) up to a constant, at θ = θ₀ + s u, from some of the data: f(θ) − f(θ₀) − ∇f(θ₀)·s u + ∇log p(θ₀)·s u.

    f is its estimate from these data; what it is wrong by at θ₀ cancels, and little is left near there (Johnson and
    Zhang, 2013).
    """

    def density(free: Free, numbers: Any) -> Data:
        *own, (at, scale, slope), samples = numbers
        change = scale * free["steps"]

        def estimate(point: Data) -> Data:
            return log_density(by_name(point, dict(shapes)), (*own, samples))

        value, along = jax.jvp(estimate, (at,), (change,))
        return estimate(at + change) - value - along + jnp.vdot(slope, change)

    return density


def _whole_slope(key: Data, target: Target, at: Data) -> Data:
    """The slope of log p at a point, from about all data: the mean over the samples of one round."""
    of_samples = _mean_slope(target.log_density, _shapes(target))
    slopes, count = jnp.zeros_like(at), 0
    for samples in _samples(key, target, target.rounds):
        here = len(samples[0])
        slopes = slopes + here * of_samples(at, target.numbers[:-1], samples)
        count += here
    return slopes / count


@lru_cache(maxsize=64)
def _mean_slope(log_density: FreeDensity, shapes: Shapes) -> Callable[..., Data]:
    """The mean slope at a point over samples [step, …], compiled once for a density."""

    def mean(at: Data, numbers: Any, samples: Any) -> Data:
        def slope(own: Any) -> Data:
            return jax.grad(lambda point: log_density(by_name(point, dict(shapes)), (*numbers, own)))(at)

        return jnp.mean(jax.lax.map(slope, samples), axis=0)

    return jax.jit(mean)


def _samples(key: Data, target: Target, steps: int) -> Iterator[Any]:
    """For each stretch of an optimisation the data of its steps, where a density is estimated from some; else None."""
    if target.samples is None:
        yield from [None] * STRETCHES
        return
    size = sum(array.size for array in target.numbers[-1])
    count = max(1, min(steps // STRETCHES, MOST_NUMBERS // max(1, size)))
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    yield from islice(target.samples(seed, count), -(-steps // count))


@lru_cache(maxsize=64)
def _optimisation(
    log_density: FreeDensity, shapes: Shapes, steps: int, particles: int
) -> tuple[Callable, Callable, Callable, Callable]:
    """The start and stretches of numpyro's mean-field optimisation, and what it fitted; compiled once for a density."""
    size = sum(math.prod(shape) for _, shape in shapes)

    import optax

    def flat(numbers: Any) -> Data:
        return numpyro.sample("free", ImproperUniform(constraints.real_vector, (), (size,)))

    def model(numbers: Any) -> None:
        numpyro.factor("density", log_density(by_name(flat(numbers), dict(shapes)), numbers))

    guide = AutoNormal(flat)
    guide.scale_constraint = constraints.positive  # of log-scales, which reach large scales as fast as small ones
    seed(guide, 0)(())  # it looks at the model once
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, steps))
    method: Any = SVI(model, guide, optimiser, Trace_ELBO(num_particles=particles))

    def init(key: Data, start: Data, numbers: Any) -> Any:
        begin = dict(zip(PARAMETERS, (start, jnp.full_like(start, NARROW)), strict=True))
        return method.init(key, numbers, init_params=begin)

    def update(state: Any, numbers: Any) -> tuple[Any, Data]:
        count = max(steps // STRETCHES, 1)
        state, losses = jax.lax.scan(lambda state, _: method.update(state, numbers), state, length=count)
        return state, -losses

    def update_by_samples(state: Any, numbers: Any, samples: Any) -> tuple[Any, Data]:
        state, losses = jax.lax.scan(lambda state, own: method.update(state, (*numbers, own)), state, samples)
        return state, -losses

    def parameters(state: Any) -> tuple[Any, ...]:
        return tuple(map(method.get_params(state).get, PARAMETERS))

    return jax.jit(init), jax.jit(update), jax.jit(update_by_samples), parameters


def _start(key: Data, target: Target) -> Free:
    return {name: value[0] for name, value in target.start(key, 1).items()}


def _shapes(target: Target) -> Shapes:
    return tuple(target.shapes.items())


def _independent_draws(name: str, target: Target, fit: Callable[[Data], tuple[Data, Data]]) -> Transitions:
    """A sampler of loc + scale · noise, whose chains begin with what was fitted."""

    def starts(key: Data, chains: int) -> tuple[Data, Data]:
        loc, scale = map(jnp.asarray, jax.device_get(fit(key)))  # which the chains need on no mesh
        return jnp.stack([loc] * chains), jnp.stack([scale] * chains)

    return Transitions(name, _normal_transition(_shapes(target)), starts=starts)


class NormalState(NamedTuple):
    """Mean and scale (a matrix, or one number for each of independent ones), and the last draw."""

    key: Data
    loc: Data
    scale: Data
    point: Data


@lru_cache(maxsize=64)
def _normal_transition(shapes: Shapes) -> Transition:
    def init(key: Data, start: tuple[Data, Data], numbers: Any) -> NormalState:
        return NormalState(key, *start, start[0])

    def step(state: NormalState, numbers: Any) -> NormalState:
        key, noise_key = jax.random.split(state.key)
        noise = jax.random.normal(noise_key, state.loc.shape, state.loc.dtype)
        change = state.scale @ noise if state.scale.ndim == 2 else state.scale * noise
        return NormalState(key, state.loc, state.scale, state.loc + change)

    return Transition(init, step, partial(_normal_draw, shapes), _normal_fault)


def _normal_draw(shapes: Shapes, state: NormalState, numbers: Any) -> Draw:
    return Draw(by_name(state.point, dict(shapes)), {})


def _normal_fault(state: NormalState, drawn: Draw, transitions: int) -> str | None:
    return fault_of_numbers((state.loc, state.scale, state.point))
