"""Weighted sums of log-densities over data, by a few points: Σ_d c_d log p(y_d) = Σ_r w_r log p(z_r), for every p.

Exact where log p is a polynomial in y of the first or second degree (but for what does not depend on parameters): then
its values at as many points as it has coefficients tell it everywhere. The weights w are the statistics of the data.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.base.domains import Bint
from fubini.distributions.density import Density, Distribution
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.families.family import read_family
from fubini.numerics.named_axes import align
from fubini.sequence.links import fixed_bound
from fubini.terms.factor import Factor
from fubini.terms.value import Array, Value, to_value

POINT = fixed_bound("point")


@dataclass(frozen=True, eq=False)
class Summary:
    """The points that stand for data, and what each datum adds to their weights."""

    points: Array
    basis: np.ndarray  # [data, points]
    names: tuple  # of the data

    def weights(self, counts: Data, factor: Factor) -> Data:
        """w  =  Σ_d c_d L(y_d), over the points and the other names of a factor over data."""
        names = tuple(factor.inputs)
        own = [names.index(name) for name in self.names]
        front = jnp.moveaxis(counts, own, range(len(own)))
        rows = front.reshape(len(self.basis), *front.shape[len(own) :])
        return jnp.tensordot(jnp.asarray(self.basis.T, rows.dtype), rows, 1)

    def at_points(self, density: Density) -> Table:
        """The same density of the points, none of them masked, over them and then the other names."""
        table = promoted(Density(_unmasked(density.distribution)[0], self.points))
        assert isinstance(table, Table)
        return table._ordered((POINT, *(name for name in table.inputs if name != POINT)))  # type: ignore[return-value]


def summary_of(term: Factor) -> Summary | None:
    """The points that stand for the data of a density; None where log p is no such polynomial, or nothing is won."""
    if not isinstance(term, Density) or not isinstance(term.value, Array) or is_traced(term.value.data):
        return None
    names = tuple(term.value.inputs)
    distribution, mask = _unmasked(term.distribution)
    record = read_family(_base(distribution).family)
    known = None if record is None else record.degree
    if known is None or not names or set(names) & set(distribution.inputs):
        return None
    counted = _over_data(mask, term.value)
    if counted is None:
        return None
    data = np.asarray(term.value.array)
    rows = data.reshape(int(np.prod(data.shape[: len(names)])), -1).astype(float)
    degree, crosses = known
    rows = np.where(counted[:, None], rows, 0.0)  # a masked datum may be anything
    centre, scale = (rows.mean(axis=0), rows.std(axis=0)) if degree == 2 else (0.0, 1.0)
    scale = np.where(scale > 0, scale, 1.0)
    design = _design(rows.shape[1], degree, crosses)
    if 2 * len(design) > len(rows):
        return None
    inverse = np.linalg.inv(_monomials(design, degree, crosses))
    basis = _monomials((rows - centre) / scale, degree, crosses) @ inverse
    values = (centre + scale * design).reshape(len(design), *data.shape[len(names) :]).astype(data.dtype)
    points = Array._of(values, (POINT,), {POINT: Bint[len(design)]}, term.value.output)
    return Summary(points, basis * counted[:, None], names)


def _unmasked(distribution: Distribution) -> tuple[Distribution, Value | None]:
    """The distribution without its mask, and the mask."""
    if distribution.family != "MaskedDistribution":
        return distribution, None
    base, mask = distribution["base_dist"], distribution["mask"]
    assert isinstance(base, Distribution)
    return base, to_value(mask)


def _over_data(mask: Value | None, data: Array) -> np.ndarray | None:
    """Which data are counted, in rows; None where a mask is not known, or is of single entries."""
    names = tuple(data.inputs)
    sizes = tuple(domain.extent for domain in data.inputs.values())
    if mask is None:
        return np.ones(int(np.prod(sizes)), bool)
    if not isinstance(mask, Array) or is_traced(mask.data) or mask.output.shape or set(mask.inputs) - set(names):
        return None
    return np.broadcast_to(align(np.asarray(mask.array), tuple(mask.inputs), names), sizes).ravel().astype(bool)


def _base(distribution: Distribution) -> Distribution:
    while distribution.family in ("Independent", "ExpandedDistribution"):
        distribution = distribution["base_dist"]  # type: ignore[assignment]
    return distribution


def _design(size: int, degree: int, crosses: bool) -> np.ndarray:
    """0, each unit vector, each turned round, and the sum of each pair: as many as there are monomials."""
    units = np.eye(size)
    rows = [np.zeros((1, size)), units]
    if degree == 2:
        rows.append(-units)
    if crosses:
        rows.append(
            np.array([units[i] + units[j] for i, j in itertools.combinations(range(size), 2)]).reshape(-1, size)
        )
    return np.concatenate(rows)


def _monomials(rows: np.ndarray, degree: int, crosses: bool) -> np.ndarray:
    """1, y, y² and products of pairs."""
    columns = [np.ones((len(rows), 1)), rows]
    if degree == 2:
        columns.append(rows**2)
    if crosses:
        pairs = list(itertools.combinations(range(rows.shape[1]), 2))
        columns.append(np.stack([rows[:, i] * rows[:, j] for i, j in pairs], axis=1) if pairs else rows[:, :0])
    return np.concatenate(columns, axis=1)
