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
from fubini.sequence.links import fixed_bound
from fubini.terms.factor import Factor
from fubini.terms.value import Array

POINT = fixed_bound("point")

# The degree of log p in y, and whether products of different entries of y occur in it.
DEGREES = {
    "Normal": (2, False),
    "MultivariateNormal": (2, True),
    "Bernoulli": (1, False),
    "BernoulliProbs": (1, False),
    "BernoulliLogits": (1, False),
    "Poisson": (1, False),  # but for log y!
}


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
        """The same density of the points, over them and then the other names."""
        table = promoted(Density(density.distribution, self.points))
        assert isinstance(table, Table)
        return table._ordered((POINT, *(name for name in table.inputs if name != POINT)))  # type: ignore[return-value]


def summary_of(term: Factor) -> Summary | None:
    """The points that stand for the data of a density; None where log p is no such polynomial, or nothing is won."""
    if not isinstance(term, Density) or not isinstance(term.value, Array) or is_traced(term.value.data):
        return None
    names = tuple(term.value.inputs)
    known = DEGREES.get(_base(term.distribution).family)
    if known is None or not names or set(names) & set(term.distribution.inputs):
        return None
    data = np.asarray(term.value.array)
    rows = data.reshape(int(np.prod(data.shape[: len(names)])), -1).astype(float)
    degree, crosses = known
    centre, scale = (rows.mean(axis=0), rows.std(axis=0)) if degree == 2 else (0.0, 1.0)
    scale = np.where(scale > 0, scale, 1.0)
    design = _design(rows.shape[1], degree, crosses)
    if 2 * len(design) > len(rows):
        return None
    inverse = np.linalg.inv(_monomials(design, degree, crosses))
    basis = _monomials((rows - centre) / scale, degree, crosses) @ inverse
    values = (centre + scale * design).reshape(len(design), *data.shape[len(names) :]).astype(data.dtype)
    points = Array._of(values, (POINT,), {POINT: Bint[len(design)]}, term.value.output)
    return Summary(points, basis, names)


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
