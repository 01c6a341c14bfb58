"""Weighted sums of log-densities over data, by a few points: Σ_d c_d log p(y_d) = Σ_r w_r log p(z_r), for every p.

Exact where log p is a polynomial in y of the first or second degree (but for what does not depend on parameters): then
its values at as many points as it has coefficients tell it everywhere. The weights w are the statistics of the data.

Of independent entries each has points of its own. In the first degree these are its least and its greatest number, so
that no weight is negative, and nothing cancels: of events, how often each came and how often not.
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
from fubini.terms.value import Array, Value, Variable, to_value

POINT = fixed_bound("point")
ENTRIES = tuple(fixed_bound(f"entry {axis}") for axis in range(8))


@dataclass(frozen=True, eq=False)
class Summary:
    """The points that stand for data, and what each datum adds to their weights."""

    points: Array
    basis: np.ndarray  # [data, points, … entries]
    names: tuple  # of the data

    def weights(self, counts: Data, factor: Factor) -> Data:
        """w  =  Σ_d c_d L(y_d), over the points, the entries, and the other names of a factor over data."""
        names = tuple(factor.inputs)
        own = [names.index(name) for name in self.names]
        front = jnp.moveaxis(counts, own, range(len(own)))
        rows = front.reshape(len(self.basis), *front.shape[len(own) :])
        return jnp.tensordot(jnp.asarray(np.moveaxis(self.basis, 0, -1), rows.dtype), rows, 1)

    def at_points(self, density: Density) -> Table:
        """The same density of the points, none of them masked, over them, the entries, and then the other names."""
        entries = self.points.names[1:]
        distribution = _unmasked(density.distribution)[0]
        if entries:
            distribution = _of_entries(_base(distribution), [Variable(n, self.points.inputs[n]) for n in entries])
        table = promoted(Density(distribution, self.points))
        assert isinstance(table, Table)
        lead = self.points.names
        return table._ordered((*lead, *(name for name in table.inputs if name not in lead)))  # type: ignore[return-value]


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
    data, shape = np.asarray(term.value.array), term.value.output.shape
    if len(shape) > len(ENTRIES):
        return None
    rows = data.reshape(int(np.prod(data.shape[: len(names)])), *shape).astype(float)
    degree, crosses = known
    seen = counted.reshape(-1, *[1] * len(shape))
    rows = np.where(seen, rows, 0.0)  # a masked datum may be anything
    made = _joint_points(rows, degree) if crosses else _points_of_entries(rows, seen, degree)
    if made is None:
        return None
    values, basis = made
    entries = {} if crosses else {ENTRIES[k]: Bint[size] for k, size in enumerate(shape)}
    output = term.value.output if crosses else term.value.output.with_shape(())
    inputs = {POINT: Bint[len(values)], **entries}
    points = Array._of(values.astype(data.dtype), tuple(inputs), inputs, output)
    return Summary(points, basis * counted.reshape(-1, *[1] * (basis.ndim - 1)), names)


def _points_of_entries(rows: np.ndarray, seen: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Points [point, … entry], and the polynomials [datum, point, … entry] that are 1 at one of them, 0 at others."""
    if 2 * (degree + 1) > len(rows):
        return None
    if degree == 1:
        low, high = (end(rows, axis=0, where=seen, initial=far) for end, far in ((np.min, np.inf), (np.max, -np.inf)))
        low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
        share = np.clip((rows - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
        return np.stack([low, high]), np.stack([1.0 - share, share], axis=1)
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (rows - centre) / scale
    return np.stack([centre - scale, centre, centre + scale]), np.stack([z * (z - 1) / 2, 1 - z**2, z * (z + 1) / 2], 1)


def _joint_points(rows: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The same of vectors, with products of entries: points [point, entry] and polynomials [datum, point]."""
    assert degree == 2, "products of entries are of the second degree"
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    design = _design(rows.shape[1])
    if 2 * len(design) > len(rows):
        return None
    basis = _monomials((rows - centre) / scale) @ np.linalg.inv(_monomials(design))
    return centre + scale * design, basis


def _of_entries(base: Distribution, entries: list[Variable]) -> Distribution:
    """The distribution of one entry of an array of independent ones."""

    def entry(leaf: Value) -> Value:
        sizes = leaf.output.shape
        for size, place in zip(sizes, entries[len(entries) - len(sizes) :], strict=True):
            leaf = leaf[place if size > 1 else 0]
        return leaf

    given = {key: entry(to_value(leaf)) for key, leaf in zip(base.keys, base.args, strict=True)}
    return Distribution(base.family, {**given, **dict(base.statics)})


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


def _design(size: int) -> np.ndarray:
    """0, each unit vector, each turned round, and the sum of each pair: as many as there are monomials."""
    units = np.eye(size)
    pairs = [units[i] + units[j] for i, j in itertools.combinations(range(size), 2)]
    return np.concatenate([np.zeros((1, size)), units, -units, np.array(pairs).reshape(-1, size)])


def _monomials(rows: np.ndarray) -> np.ndarray:
    """1, y, y² and products of pairs."""
    pairs = [rows[:, i] * rows[:, j] for i, j in itertools.combinations(range(rows.shape[1]), 2)]
    return np.concatenate([np.ones((len(rows), 1)), rows, rows**2, np.array(pairs).reshape(-1, len(rows)).T], axis=1)
