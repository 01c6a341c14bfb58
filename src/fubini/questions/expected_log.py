"""E[log f] of a Table or a Gaussian f, under a distribution of its variables: a function of the numbers of f.

The statistics are what is known of the distribution: probabilities of cells, or means and covariances. Summed over the
axes that f does not have, they are kept as counts, means and scatter about these, so that nothing cancels.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.terms.factor import Factor

Names = tuple[Name, ...]


@partial(jax.tree_util.register_dataclass, data_fields=["cells"], meta_fields=["is_of_points"])
@dataclass(frozen=True)
class Counts:
    """Expected counts of the cells of a table, in the order of its names; or weights of points that stand for data."""

    cells: Data
    is_of_points: bool = False

    def expected_log(self, factor: Factor) -> Data:
        """Σ c log f, where a cell that is never met may be impossible."""
        met = self.cells != 0
        return jnp.sum(jnp.where(met, self.cells * jnp.where(met, log_cells(factor), 0.0), 0.0))


@partial(jax.tree_util.register_dataclass, data_fields=["count", "mean", "scatter"], meta_fields=["names", "has_data"])
@dataclass(frozen=True)
class Moments:
    """Of the reals of a Gaussian, end to end, over some names: how often they are met, their means, their scatter.

    Data may be among them, as real numbers that are known.
    """

    count: Data
    mean: Data
    scatter: Data
    names: Names
    has_data: bool = False

    def expected_log(self, factor: Factor) -> Data:
        """Σ n (g + h·m − ½ (m·K m)) − ½ tr(K S), or of white rows  Σ n (g − ½ |R m − r|²) − ½ tr(R S Rᵀ)"""
        assert isinstance(factor, Gaussian), "moments are of a Gaussian"
        v, v_names, M, M_names, is_white = factor.quadratic
        vector, matrix = align(v, v_names, self.names, 1), align(M, M_names, self.names, 2)
        scale = align(log_cells(factor.scale), tuple(factor.scale.inputs), self.names)
        if is_white:
            residual = jnp.einsum("...rd,...d->...r", matrix, self.mean) - vector
            square = jnp.sum(residual**2, axis=-1)
            spread = jnp.einsum("...rd,...de,...re->...", matrix, self.scatter, matrix)
        else:
            at_mean = jnp.einsum("...de,...e->...d", matrix, self.mean)
            square = jnp.sum((at_mean - 2 * vector) * self.mean, axis=-1)
            spread = jnp.einsum("...de,...de->...", matrix, self.scatter)
        return jnp.sum(self.count * (scale - square / 2) - spread / 2)


Statistics = Counts | Moments


def log_cells(factor: Factor) -> Data:
    """The logarithms of the weights of a table, in the order of its names."""
    assert isinstance(factor, Table), "logarithms of cells are of a table"
    pair = factor.pair
    weights = jnp.asarray(pair.weights)
    logs = jnp.log(jnp.where(weights > 0, weights, 1.0)) + pair.shift
    return jnp.where(weights > 0, logs, -jnp.inf)


def shifted_by(factor: Factor, logs: Data) -> Factor:
    """The table times exp of an array over its names."""
    return factor * Table.from_log(logs, dict(factor.inputs))


@dataclass(frozen=True)
class Reals:
    """The moments of real numbers, end to end, over named axes in front."""

    mean: Data
    covariance: Data
    sizes: tuple[tuple[Name, int], ...]  # of the numbers
    axes: Names

    def with_data(self, name: Name, data: Data, names: Names) -> Reals:
        """The same with known numbers beside them."""
        size = data.shape[-1]
        known = jnp.broadcast_to(align(data, names, self.axes, 1), (*self.mean.shape[:-1], size))
        covariance = jnp.pad(self.covariance, [(0, 0)] * len(self.axes) + [(0, size)] * 2)
        return Reals(jnp.concatenate([self.mean, known], -1), covariance, (*self.sizes, (name, size)), self.axes)

    def under(self, factor: Gaussian) -> Moments:
        """The moments of the reals of a factor, summed over the axes that it does not have."""
        starts = dict(zip(dict(self.sizes), itertools.accumulate((n for _, n in self.sizes), initial=0), strict=False))
        sizes = dict(self.sizes)
        own = np.array([starts[name] + k for name, _ in factor.reals for k in range(sizes[name])], int)
        mean, covariance = self.mean[..., own], self.covariance[..., own[:, None], own]
        return _summed(mean, covariance, self.axes, tuple(name for name in self.axes if name in factor.inputs))


def _summed(mean: Data, covariance: Data, names: Names, kept: Names) -> Moments:
    """Σ over the names that are not kept: n = their number, m = the mean of means, S = Σ (C + (m_i − m)(m_i − m)ᵀ)."""
    gone = tuple(axis for axis, name in enumerate(names) if name not in kept)
    count = math.prod(mean.shape[axis] for axis in gone)
    centre = jnp.mean(mean, axis=gone, keepdims=True)
    off = mean - centre
    scatter = jnp.sum(covariance + off[..., :, None] * off[..., None, :], axis=gone)
    return Moments(jnp.asarray(count, mean.dtype), jnp.squeeze(centre, axis=gone), scatter, kept)
