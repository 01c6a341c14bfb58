"""The log-evidence of the quadrant model (examples/quadrants.py) as one would write it by hand, and by other libraries.

Each maker gives a function of no arguments that computes the log-evidence anew. They need JAX's double precision for
the whole process: callbacks of cuthbert do not see less.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from examples.quadrants import Setting, drift, observations

Asked = Callable[[], float]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
SIGNS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
START = 0.5  # the standard deviation of the first position


def quadrant_of(x: Any, y: Any, xp: Any = jnp) -> Any:
    """0 to 3, counter-clockwise."""
    return xp.where(y > 0, xp.where(x > 0, 0, 1), xp.where(x > 0, 3, 2))


def _ask(function: Callable[..., Any], *arguments: Any) -> Asked:
    """A compiled function."""
    compiled = jax.jit(function)
    return lambda: float(compiled(*arguments))


# -- a Gaussian for each quadrant -------------------------------------------------------------------------------------


def quadrant_moments(mean: Any, covariance: Any, sign: Any) -> tuple[Any, Any, Any]:
    """Mass, mean and covariance of N(mean, covariance) within a quadrant, by Plackett's integral."""
    m, C = sign * mean, covariance * jnp.outer(sign, sign)
    s = jnp.sqrt(jnp.diagonal(C))
    r = C[0, 1] / (s[0] * s[1])
    a, w = -m / s, jnp.sqrt(1 - r * r)
    upper, density = (lambda x: jax.scipy.special.ndtr(-x)), (lambda x: jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    angle = 0.5 * jnp.arcsin(r) * (NODES + 1)
    inner = jnp.exp(-(a[0] ** 2 + a[1] ** 2 - 2 * a[0] * a[1] * jnp.sin(angle)) / (2 * jnp.cos(angle) ** 2))
    mass = upper(a[0]) * upper(a[1]) + 0.5 * jnp.arcsin(r) * (inner @ WEIGHTS) / (2 * math.pi)
    mass = jnp.maximum(mass, 1e-300)
    f = density(a) * upper((a[::-1] - r * a) / w)
    both = density(a[0]) * density((a[1] - r * a[0]) / w) / w
    u = (f + r * f[::-1]) / mass
    square = 1 + (a * f + r * r * (a * f)[::-1] + r * w * w * both) / mass
    cross = r + (r * jnp.sum(a * f) + w * w * both) / mass - u[0] * u[1]
    spread = jnp.array([[square[0] - u[0] ** 2, cross], [cross, square[1] - u[1] ** 2]])
    return mass, sign * (m + s * u), spread * jnp.outer(s, s) * jnp.outer(sign, sign)


def gaussians(setting: Setting) -> Asked:
    """A Gaussian in each quadrant, cut and matched by moments after each observation."""
    noise, moved = setting.seen**2 * np.eye(2), setting.moved**2 * np.eye(2)
    moments = jax.vmap(jax.vmap(quadrant_moments, (None, None, 0)), (0, 0, None))

    def correct(w: Any, m: Any, P: Any, y: Any) -> tuple[Any, Any, Any]:
        S = P + noise
        gap = y - m
        solved = jnp.linalg.solve(S, gap[..., None])[..., 0]
        w = w * jnp.exp(-0.5 * jnp.sum(gap * solved, -1)) / (2 * math.pi * jnp.sqrt(jnp.linalg.det(S)))
        return w, m + jnp.einsum("sij,sj->si", P, solved), P - P @ jnp.linalg.solve(S, P)

    def cut(w: Any, m: Any, P: Any) -> tuple[Any, Any, Any, Any]:
        mass, mean, spread = moments(m, P, jnp.asarray(SIGNS, m.dtype))
        share = w[:, None] * mass
        total = share.sum(0)
        share = share / jnp.maximum(total, 1e-300)
        center = jnp.einsum("sq,sqi->qi", share, mean)
        gap = mean - center
        P = jnp.einsum("sq,sqij->qij", share, spread + gap[..., :, None] * gap[..., None, :])
        return total / total.sum(), center, P, jnp.log(total.sum())

    def run(y: Any, b: Any) -> Any:
        def step(now: Any, y: Any) -> Any:
            w, m, P, total = now
            *now, found = cut(*correct(w, m + b, P + moved, y))
            return (*now, total + found), None

        one = jnp.ones((1,), y.dtype)
        *first, found = cut(*correct(one, y[:1], START**2 * jnp.eye(2)[None], y[0]))
        return jax.lax.scan(step, (*first, found), y[1:])[0][-1]

    return _ask(run, jnp.asarray(observations(setting)), jnp.asarray(drift(setting)))


# -- particles --------------------------------------------------------------------------------------------------------


def _density(gap: Any, spread: float) -> Any:
    return -0.5 * jnp.sum(gap**2, -1) / spread**2 - math.log(2 * math.pi * spread**2)


def bootstrap(setting: Setting, count: int, key: Any) -> Asked:
    """A bootstrap filter with systematic resampling where the effective size is below half."""

    def run(key: Any, y: Any, b: Any) -> Any:
        def resample(key: Any, x: Any, logw: Any) -> tuple[Any, Any]:
            places = (jax.random.uniform(key, (), y.dtype) + jnp.arange(count)) / count
            chosen = jnp.searchsorted(jnp.cumsum(jnp.exp(logw)), places).clip(0, count - 1)
            return x[chosen], jnp.full(count, -math.log(count), y.dtype)

        def weigh(x: Any, logw: Any, y: Any) -> tuple[Any, Any]:
            logw = logw + _density(y - x, setting.seen)
            total = jax.nn.logsumexp(logw)
            return logw - total, total

        def step(now: Any, row: Any) -> Any:
            key, x, logw, total = now
            key, first, second = jax.random.split(key, 3)
            few = 1 / jnp.sum(jnp.exp(2 * logw)) < count / 2
            x, logw = jax.lax.cond(few, resample, lambda _, x, logw: (x, logw), first, x, logw)
            x = x + b[quadrant_of(x[:, 0], x[:, 1])] + setting.moved * jax.random.normal(second, x.shape, x.dtype)
            logw, found = weigh(x, logw, row)
            return (key, x, logw, total + found), None

        key, first = jax.random.split(key)
        x = y[0] + START * jax.random.normal(first, (count, 2), y.dtype)
        logw, total = weigh(x, jnp.full(count, -math.log(count), y.dtype), y[0])
        return jax.lax.scan(step, (key, x, logw, total), y[1:])[0][-1]

    return _ask(run, key, jnp.asarray(observations(setting)), jnp.asarray(drift(setting)))


def cuthbert(setting: Setting, count: int, key: Any) -> Asked:
    """The same by cuthbert; the first observation enters as the weight of the first state."""
    particle_filter = importlib.import_module("cuthbert.smc.particle_filter")
    run_filter: Callable[..., Any] = importlib.import_module("cuthbert.filtering").filter
    resampling = importlib.import_module("cuthbertlib.resampling.systematic").resampling
    adaptive = importlib.import_module("cuthbertlib.resampling.adaptive").ess_decorator
    y, b = jnp.asarray(observations(setting)), jnp.asarray(drift(setting))

    def propagate(key: Any, x: Any, row: Any) -> Any:
        moved = x + b[quadrant_of(x[0], x[1])] + setting.moved * jax.random.normal(key, x.shape, x.dtype)
        return jnp.where(row["first"], x, moved)

    built = particle_filter.build_filter(
        lambda key: y[0] + START * jax.random.normal(key, (2,), y.dtype),
        propagate,
        lambda before, x, row: _density(row["y"] - x, setting.seen),
        count,
        adaptive(resampling, 0.5),
    )

    def run(key: Any) -> Any:
        rows = {"y": y, "first": jnp.arange(len(y)) == 0}
        first, second = jax.random.split(key)
        states = run_filter(built, rows, built.init_prepare(key=first), key=second)
        return states.log_normalizing_constant[-1]

    return _ask(run, key)


def particles(setting: Setting, count: int, key: Any) -> Asked:
    """The same by the library `particles`, on NumPy."""
    library = importlib.import_module("particles")
    models = importlib.import_module("particles.state_space_models")
    distributions = importlib.import_module("particles.distributions")
    y, b = observations(setting), drift(setting)

    def normal(center: Any, spread: float) -> Any:
        return distributions.IndepProd(*(distributions.Normal(center[..., axis], spread) for axis in range(2)))

    class Model(models.StateSpaceModel):
        def PX0(self) -> Any:
            return normal(y[0], START)

        def PX(self, t: int, xp: Any) -> Any:
            return normal(xp + b[quadrant_of(xp[:, 0], xp[:, 1], np)], setting.moved)

        def PY(self, t: int, xp: Any, x: Any) -> Any:
            return normal(x, setting.seen)

    def run() -> float:
        filtered = library.SMC(
            fk=models.Bootstrap(ssm=Model(), data=list(y)), N=count, resampling="systematic", ESSrmin=0.5
        )
        filtered.run()
        return float(filtered.logLt)

    return run


# -- a grid -----------------------------------------------------------------------------------------------------------


def grid(setting: Setting, bounds: tuple[float, float], count: int) -> Asked:
    """Sums over square cells in NumPy, a move as one matrix for each axis and quadrant; cut cells count by halves."""
    y, b = observations(setting), drift(setting)
    width = (bounds[1] - bounds[0]) / count
    x = bounds[0] + width * (np.arange(count) + 0.5)
    right = np.clip((x + width / 2) / width, 0, 1)  # the share of a cell that is positive
    sides = {1: right, -1: 1 - right}
    shares = [np.outer(sides[sx], sides[sy]) for sx, sy in SIGNS]

    def run() -> float:
        moves = [[stats.norm.pdf(x[:, None], x + move[axis], setting.moved) * width for axis in range(2)] for move in b]
        belief = np.outer(*(stats.norm.pdf(x, y[0][axis], START) for axis in range(2)))
        total = 0.0
        for t, row in enumerate(y):
            if t:
                parts = zip(shares, moves, strict=True)
                belief = sum(along @ (belief * share) @ across.T for share, (along, across) in parts)
            belief = belief * np.outer(*(stats.norm.pdf(x, row[axis], setting.seen) for axis in range(2)))
            mass = belief.sum() * width**2
            belief, total = belief / mass, total + math.log(mass)
        return total

    return run
