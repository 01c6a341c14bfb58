"""The oracle of random models: finite sites enumerated, real numbers integrated on grids; densities are numpyro's.

A model's text runs here with numpyro's distributions in the place of fubini's and with decorators that do nothing. Its
generator is driven site by site, in unconstrained numbers u: values are biject_to(support)(u).
"""

import itertools
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_dist
from numpyro.distributions.transforms import biject_to
from scipy.special import logsumexp

from tests.thorough.programs import LABEL, Program, Site

POINTS = 60_000  # densities evaluated for one grid, over all assignments
REACH = 25.0  # u = sinh(t) for |t| up to this
STAGES = 3  # grids, each on the box where the one before has mass
NEGLIGIBLE = 34.0  # nats below the greatest weight at which a node counts for nothing


def expectations(program: Program) -> dict[str, Any] | None:
    """Log-evidence, means of continuous latents and probabilities of labels; None where two grids disagree."""
    integrals = _integrals(program)
    if integrals is None:
        return None
    assignments, log_mass, means = integrals
    answers: dict[str, Any] = {"log evidence": logsumexp(log_mass)}
    if not np.isfinite(answers["log evidence"]):
        return answers
    weights = np.exp(log_mass - answers["log evidence"])
    for site in program.latents:
        if site.kind == LABEL:
            labels = assignments[site.name]
            answers[site.name] = np.stack([np.tensordot(weights, labels == k, 1) for k in range(site.size)], -1)
        else:
            answers[site.name] = np.tensordot(weights, means[site.name], 1)
    return answers


def assignment_masses(program: Program) -> tuple[dict[str, np.ndarray], np.ndarray] | None:
    """Every assignment of the labels, and the log-mass of each: all else integrated out."""
    integrals = _integrals(program)
    return None if integrals is None else integrals[:2]


def _integrals(program: Program) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, np.ndarray]] | None:
    """Assignments, the log-mass of each, means of continuous latents given each; None where two grids disagree."""
    assignments = _assignments(program)
    log_mass, means = np.zeros(len(assignments[""])), {}
    for latents, terms in _components(program):
        with jax.enable_x64(True):
            density = jax.jit(jax.vmap(jax.vmap(_density(program, latents, terms), (None, 0))))
            dimensions = sum(site.numbers for site in latents)
            fine = _integrate(density, assignments, dimensions)
            if fine is None or (dimensions and not _agree(fine, _integrate(density, assignments, dimensions, 0.75))):
                return None
        log_mass, means = log_mass + fine[0], means | fine[1]
    return assignments, log_mass, means


def _components(program: Program) -> list[tuple[tuple[Site, ...], tuple[Site, ...]]]:
    """Continuous latents independent given labels and data, each group with the sites whose densities have it."""
    touched = {
        site.name: {other.name for other in program.latents if other.kind != LABEL and mentions(site, other)}
        for site in program.sites
    }
    groups: list[set[str]] = []
    for names in touched.values():
        joined = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + [names.union(*joined)] * bool(names)
    groups.append(set())  # terms without continuous latents
    return [
        (
            tuple(site for site in program.latents if site.name in group),
            tuple(site for site in program.sites if (touched[site.name] & group) or not (group or touched[site.name])),
        )
        for group in groups
    ]


def mentions(site: Site, other: Site) -> bool:
    """Whether the density of a site has the value of another."""
    return site.name == other.name or re.search(rf"\b{other.name}\b", site.density) is not None


def _agree(fine: tuple, coarse: tuple) -> bool:
    evidence = [logsumexp(log_mass) for log_mass, _ in (fine, coarse)]
    if not np.isfinite(evidence[0]):
        return evidence[0] == evidence[1]
    if abs(evidence[0] - evidence[1]) > 1e-8:
        return False
    weights = [np.exp(log_mass - total) for (log_mass, _), total in zip((fine, coarse), evidence, strict=True)]
    return all(
        np.allclose(
            np.tensordot(weights[0], fine[1][name], 1), np.tensordot(weights[1], coarse[1][name], 1), 1e-7, 1e-7
        )
        for name in fine[1]
    )


def _assignments(program: Program) -> dict[str, np.ndarray]:
    """Every assignment of the finite latents, an array [assignments, *shape] for each."""
    sites = [site for site in program.latents if site.kind == LABEL]
    entries = [range(site.size) for site in sites for _ in range(int(np.prod(site.shape, dtype=int)))]
    table = np.array(list(itertools.product(*entries)), int)
    columns = (
        np.split(table, np.cumsum([int(np.prod(site.shape, dtype=int)) for site in sites])[:-1], 1) if sites else []
    )
    every = {site.name: column.reshape(-1, *site.shape) for site, column in zip(sites, columns, strict=True)}
    return {"": np.zeros(len(table), int), **every}


def run_text(text: str, **names: Any) -> dict[str, Any]:
    """The names that a text defines, with numpyro's distributions and a model that is the bare generator function."""
    bare = SimpleNamespace(model=lambda function: function)
    space = {"dist": numpyro_dist, "fb": bare, "np": np, "jnp": jnp, **names}
    exec(text, space)
    return space


def _density(program: Program, latents: tuple[Site, ...], terms: tuple[Site, ...]) -> Callable[[Mapping, Any], tuple]:
    """(labels, u) ↦ the log-density of some terms in the unconstrained latents u, and the values of these."""
    make = run_text(program.coroutine().rpartition("\n")[0])
    observed = {name: eval(value, {"np": np}) for name, value in program.observations.items()}
    data = {name: make[name] for name in program.data}

    def density(labels: Mapping[str, Any], u: Any) -> tuple:
        total, values, ends = jnp.zeros(()), {}, np.cumsum([site.numbers for site in latents])
        free = dict(zip([site.name for site in latents], jnp.split(u, ends[:-1]) if latents else [], strict=True))
        generator = make["model"](**data)
        site_density = next(generator)
        for number, site in enumerate(program.sites):
            value, log_scale = _value(site, site_density, labels, free, observed)
            if site in latents:
                values[site.name] = value
            if site in terms:
                total = total + jnp.sum(site_density.log_prob(value)) + log_scale
            if number + 1 < len(program.sites):
                site_density = generator.send(value)
        return total, values

    return density


def _value(site: Site, density: Any, labels: Mapping, free: Mapping, observed: Mapping) -> tuple:
    """The value of a site and the log-Jacobian of its bijector; latents that are not free get any value."""
    if site.name in observed:
        return observed[site.name], 0.0
    if site.kind == LABEL:
        return labels[site.name], 0.0
    bijector = biject_to(density.support)
    u = free.get(site.name, jnp.zeros(site.numbers)).reshape(bijector.inverse_shape(density.shape()))
    value = bijector(u)
    return value, jnp.sum(bijector.log_abs_det_jacobian(u, value))


def _integrate(density: Callable, assignments: Mapping, dimensions: int, fineness: float = 1.0) -> tuple | None:
    """(log-mass [assignments], means), by the trapezoidal rule on u = sinh(t), on boxes that close in on the mass."""
    count = len(assignments[""])
    if not dimensions:
        log_density, means = density(assignments, jnp.zeros((count, 1, 0)))
        return np.asarray(log_density)[:, 0], {name: np.asarray(mean)[:, 0] for name, mean in means.items()}
    nodes = int(fineness * min(400, (POINTS / count) ** (1 / dimensions)))
    if nodes < 30:
        return None
    low = np.full((count, dimensions), -REACH if dimensions == 1 else -8.0)
    high = -low
    for _ in range(STAGES):
        t, log_weights, values = _evaluate(density, assignments, low, high, nodes)
        low, high = _box(t, log_weights, low, high, nodes)
    t, log_weights, values = _evaluate(density, assignments, low, high, nodes)
    log_mass = logsumexp(log_weights, axis=1)
    shares = np.exp(log_weights - np.where(np.isfinite(log_mass), log_mass, 0.0)[:, None])
    means = {
        name: np.einsum("an,an...->a...", shares, np.where(np.isfinite(value), value, 0.0))
        for name, value in values.items()
    }
    return log_mass, means


def _evaluate(density: Callable, assignments: Mapping, low: np.ndarray, high: np.ndarray, nodes: int) -> tuple:
    """Nodes t [assignments, nodes^d, d], log-weights and values there."""
    dimensions = low.shape[1]
    unit = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, nodes)] * dimensions, indexing="ij"), -1).reshape(
        -1, dimensions
    )
    t = low[:, None] + unit * (high - low)[:, None]
    log_density, values = density(assignments, jnp.asarray(np.sinh(t)))
    spacing = np.log((high - low) / (nodes - 1)).sum(-1)
    log_weights = np.asarray(log_density) + np.log(np.cosh(t)).sum(-1) + spacing[:, None]
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)  # far out, where functions overflow
    return t, log_weights, {name: np.asarray(value) for name, value in values.items()}


def _box(t: np.ndarray, log_weights: np.ndarray, low: np.ndarray, high: np.ndarray, nodes: int) -> tuple:
    """The smallest boxes that hold all nodes with weight, and a node more on each side."""
    tallest = log_weights.max(axis=1, keepdims=True)
    counts = (log_weights > tallest - NEGLIGIBLE) & np.isfinite(log_weights)
    empty = ~counts.any(axis=1)
    counts[empty] = True
    step = 1.01 * (high - low) / (nodes - 1)
    smallest = np.where(counts[..., None], t, np.inf).min(axis=1) - step
    largest = np.where(counts[..., None], t, -np.inf).max(axis=1) + step
    return np.maximum(smallest, low), np.minimum(largest, high)
