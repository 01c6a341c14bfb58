"""Weighted points of real variables of a factor, for each value of its finite ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from fubini.approximate.open_integral import OpenDensity, OpenIntegral, WeightedPoints
from fubini.base.arrays import Data, double_precision, is_jax, is_traced
from fubini.base.domains import Domain
from fubini.base.names import Bound, Name
from fubini.errors import DomainError, Intractable, listed
from fubini.factors.promotion import promoted
from fubini.numerics.named_axes import align
from fubini.terms.exactness import Exactness, combined
from fubini.terms.factor import Factor, Weight
from fubini.terms.value import Array, Value, to_array

SUPPORTS: dict[str, Any] = {
    "real": constraints.real,
    "positive": constraints.positive,
    "unit": constraints.unit_interval,
    "simplex": constraints.simplex,
    "positive_definite": constraints.positive_definite,
}
BLOCK = 1024  # points at which the density is computed at once
MOST_CELLS = 1024  # values of the finite variables together


class FactorPoints(NamedTuple):
    """Weights over the finite names and the index `along` the points, and the points of each real name."""

    weights: Factor
    values: dict[Name, Value]
    along: Name
    exactness: Exactness


def factor_points(f: Factor, names: Sequence[Name], reason: Exception) -> FactorPoints:
    """∫ f(x, k) g(x) dx  ≈  Σ_s w_ks g(x_ks), as the interpretation in force has it; the reason where it cannot."""
    cells = {name: domain for name, domain in f.inputs.items() if name not in names}
    if any(not domain.is_finite or domain.shape for domain in cells.values()) or f.pins:
        raise reason
    if any(f.inputs[name].kind not in SUPPORTS for name in names):
        raise reason
    if math.prod(domain.extent for domain in cells.values()) > MOST_CELLS:
        raise Intractable(
            f"an integral over {listed(names)} for each value of {listed(cells)}",
            expected=f"at most {MOST_CELLS:,} values",
            nearest=str(reason).splitlines()[0],
        )
    leaves, tree = jax.tree_util.tree_flatten(f)
    if is_traced(*leaves):
        raise DomainError(
            f"an approximate integral over {listed(names)} under jit, vmap or grad",
            expected="numbers that are known",
            advice="ask outside of jit, vmap and grad",
        )
    plain = jax.tree_util.tree_unflatten(tree, [_double(leaf) for leaf in leaves])
    maps = {name: _Unconstrained(f.inputs[name]) for name in names}
    per_cell = [
        _cell_points(plain.log(), dict(zip(cells, cell, strict=True)), cells, maps, reason)
        for cell in itertools.product(*(range(domain.extent) for domain in cells.values()))
    ]
    return _stacked(per_cell, cells, maps, jnp.asarray if any(map(is_jax, leaves)) else np.asarray)


def _double(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


class _Unconstrained:
    """Values of a domain as images of unconstrained numbers."""

    def __init__(self, domain: Domain) -> None:
        self.domain, self.transform = domain, biject_to(SUPPORTS[domain.kind])
        self.shape = self.transform.inverse_shape(domain.shape)
        self.size = math.prod(self.shape)

    def values(self, free: Data) -> tuple[Data, Data]:
        """Map numbers [point, number] to values [point, …] and log |∂ value / ∂ number|."""
        numbers = jnp.asarray(free).reshape(-1, *self.shape)
        values = self.transform(numbers)
        log_det = self.transform.log_abs_det_jacobian(numbers, values)
        return values, log_det.reshape(len(free), -1).sum(axis=1)


Maps = Mapping[Name, _Unconstrained]


def _values(points: Data, maps: Maps) -> tuple[dict[Name, Data], Data]:
    """Values of the names, and the logarithm of the Jacobian, at points [point, number]."""
    ends = np.cumsum([each.size for each in maps.values()])
    parts = jnp.split(points, ends[:-1], axis=1)
    pairs = {name: each.values(part) for (name, each), part in zip(maps.items(), parts, strict=True)}
    return {name: value for name, (value, _) in pairs.items()}, sum(log_det for _, log_det in pairs.values())  # type: ignore[return-value]


def _cell_points(
    log: Value, cell: Mapping[Name, int], cells: Mapping[Name, Domain], maps: Maps, reason: Exception
) -> WeightedPoints:
    """Return the weighted points at one value of the finite variables."""
    here = log.replaced({name: Array(np.asarray(k), (), cells[name]) for name, k in cell.items()})
    index = Bound("point")

    @jax.jit
    def block(points: Data) -> Data:
        values, log_det = _values(points, maps)
        at: dict[Name, Value] = {name: Array(value, (index,), maps[name].domain) for name, value in values.items()}
        density = to_array(here.replaced(at))
        total = align(density.array, density.names, [index], 0) + log_det
        return jnp.where(jnp.isfinite(total), total, -jnp.inf)

    def log_density(points: np.ndarray) -> np.ndarray:
        count = -(-len(points) // BLOCK)
        filled = np.resize(points, (count * BLOCK, points.shape[1])).reshape(count, BLOCK, -1)
        with double_precision(), jax.ensure_compile_time_eval():
            return np.concatenate([np.asarray(block(jnp.asarray(part))) for part in filled])[: len(points)]

    def unknown() -> NoReturn:
        raise reason

    def error() -> Intractable:
        return reason if isinstance(reason, Intractable) else Intractable(str(reason))

    density = OpenDensity(sum(each.size for each in maps.values()), log_density, lambda: None, unknown, unknown)
    return OpenIntegral(tuple(maps), error, lambda: density).points()


def _stacked(
    per_cell: Sequence[WeightedPoints], cells: Mapping[Name, Domain], maps: Maps, numbers: Callable[[Any], Any]
) -> FactorPoints:
    """The points of all cells along one index; those with fewer points have some of weight 0."""
    count, index = max(len(each.points) for each in per_cell), Bound("point")
    shape = tuple(domain.extent for domain in cells.values())
    names = (*cells, index)
    logs = np.stack([np.pad(e.log_weights, (0, count - len(e.points)), constant_values=-np.inf) for e in per_cell])
    points = np.concatenate([np.pad(e.points, ((0, count - len(e.points)), (0, 0)), mode="edge") for e in per_cell])
    with double_precision(), jax.ensure_compile_time_eval():
        values = {name: np.asarray(value) for name, value in _values(jnp.asarray(points), maps)[0].items()}
    logs = numbers(logs.reshape(*shape, count))
    return FactorPoints(
        promoted(Weight(Array(logs, names))),
        {n: Array(numbers(v.reshape(*shape, count, *v.shape[1:])), names, maps[n].domain) for n, v in values.items()},
        index,
        _greatest_error(per_cell, float(np.finfo(logs.dtype).eps)),
    )


def _greatest_error(per_cell: Sequence[WeightedPoints], rounding: float) -> Exactness:
    """Return the error of all cells together, or none where one of them has none."""
    errors = [each.exactness.error for each in per_cell]
    known = [error for error in errors if error is not None]
    mark = combined(per_cell)
    return mark.with_error(max(known) + rounding) if len(known) == len(errors) else mark
