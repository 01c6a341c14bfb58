"""Distribution functions and quantiles of factors: P(x ≤ t) of each element of a variable, and its inverse."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from fubini.base import ops
from fubini.base.arrays import Data, is_jax, namespace
from fubini.base.domains import Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.large_gaussian import LargeGaussian
from fubini.factors.mixture import Mixture
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quantile_search import invert
from fubini.terms.factor import Factor, Product, is_tabular
from fubini.terms.heads import CUMULATE, QUANTILE, exact_cumulate, exact_quantile
from fubini.terms.value import Array, Value, to_array

# -- finite variables -------------------------------------------------------------------------------------------------


@exact_cumulate.rule
def cumulate_table(f: Table, name: Name, at: Value) -> Value:
    """P(x ≤ t)  =  Σ_{k ≤ t} p(k)"""
    others, weights = _cells(f, name)
    given = to_array(at)
    xp, rank = namespace(weights, given.array), len(given.output.shape)
    point = align(given.array, given.names, others, rank)
    below = xp.arange(weights.shape[-1]) <= point[..., None]
    cells = weights.reshape((*weights.shape[:-1], *(1,) * rank, weights.shape[-1]))
    total = xp.sum(xp.where(below, cells, 0.0), axis=-1)
    return Array._of(total, others, f.inputs, Real.with_shape(given.output.shape), f.exactness)


@exact_quantile.rule
def quantile_of_table(f: Table, name: Name, levels: Value) -> Value:
    """min {k : Σ_{j ≤ k} p(j) ≥ q}"""
    others, weights = _cells(f, name)
    level = to_array(levels).array
    xp, rank, size = namespace(weights, level), np.ndim(level), weights.shape[-1]
    reached = xp.cumsum(weights, axis=-1).reshape((*weights.shape[:-1], *(1,) * rank, size))
    enough = (level * (1 - 8 * np.finfo(weights.dtype).eps))[..., None]  # but for rounding
    count = xp.minimum(xp.sum(reached < enough, axis=-1), size - 1)
    known = ~xp.isnan(reached[..., -1] + level)
    return Array._of(xp.where(known, count, -1), others, f.inputs, f.inputs[name].with_shape(level.shape), f.exactness)


def _cells(f: Table, name: Name) -> tuple[tuple[Name, ...], Data]:
    """The other names, and the probabilities along them and, last, along the name."""
    others = tuple(other for other in f.names if other != name)
    return others, f.transposed((*others, name)).normalized((name,)).weights


@exact_cumulate.rule(when=lambda f, name, at: is_tabular(f) and not isinstance(f, Table))
def cumulate_finite(f: Factor, name: Name, at: Value) -> Value:
    """the same of the table of all cells"""
    return cumulate_table(_table(f), name, at)


@exact_quantile.rule(when=lambda f, name, levels: is_tabular(f) and not isinstance(f, Table))
def quantile_of_finite(f: Factor, name: Name, levels: Value) -> Value:
    """the same of the table of all cells"""
    return quantile_of_table(_table(f), name, levels)


def _table(f: Factor) -> Table:
    logs = to_array(f.log())
    return Table.from_log(logs.array, {name: f.inputs[name] for name in logs.names})._marked(f.exactness)


# -- normal variables and points --------------------------------------------------------------------------------------


@exact_cumulate.rule(when=lambda f, name, at: not f.inputs[name].is_finite)
def cumulate_gaussian(f: Gaussian | LargeGaussian, name: Name, at: Value) -> Value:
    """Φ((t − m)/s)"""
    return _PROBABILITY((at - f.mean(name)) / ops.sqrt(f.variance(name)))


@exact_quantile.rule(when=lambda f, name, levels: not f.inputs[name].is_finite)
def quantile_of_gaussian(f: Gaussian | LargeGaussian, name: Name, levels: Value) -> Value:
    """m + s Φ⁻¹(q)"""
    level = to_array(levels).array
    edges = (jax.scipy.special.ndtri if is_jax(level) else special.ndtri)(level)
    column = edges.reshape(edges.shape + (1,) * len(f.inputs[name].shape))
    edge = Array._of(column, (), {}, Real.with_shape(column.shape))
    return f.mean(name) + ops.sqrt(f.variance(name)) * edge


@exact_cumulate.rule(when=lambda f, name, at: name in f.names)
def cumulate_delta(f: Delta, name: Name, at: Value) -> Value:
    """[a ≤ t]"""
    point = f.point(name)
    return ops.where(ops.less_equal(point, at), 1.0, 0.0) + 0.0 * point


def _normal_probability(xp: Any, z: Data) -> Data:
    return (jax.scipy.special.ndtr if xp is jnp else special.ndtr)(z)


_PROBABILITY = ops.Op("Φ", _normal_probability, lambda domain: Real.with_shape(domain.shape))


# -- sums and products ------------------------------------------------------------------------------------------------


@exact_cumulate.rule(when=lambda f, name, at: not is_tabular(f), overlaps=("cumulate_finite",))
def cumulate_product(f: Product, name: Name, at: Value) -> Value:
    """that of the one term with the variable"""
    return interpret(CUMULATE, f._only(name, "the distribution function")._joined(), name, at)


@exact_quantile.rule(when=lambda f, name, levels: not is_tabular(f), overlaps=("quantile_of_finite",))
def quantile_of_product(f: Product, name: Name, levels: Value) -> Value:
    """that of the one term with the variable"""
    return interpret(QUANTILE, f._only(name, "quantiles")._joined(), name, levels)


@exact_cumulate.rule(when=lambda f, name, at: not is_tabular(f), overlaps=("cumulate_finite",))
def cumulate_mixture(f: Mixture, name: Name, at: Value) -> Value:
    """Σ_c share_c P_c(x ≤ t)"""
    terms = [f._averaged(share, interpret(CUMULATE, part, name, at)) for part, share in f._shares(name)]
    return reduce(ops.add, terms)


@exact_quantile.rule(
    when=lambda f, name, levels: not is_tabular(f), overlaps=("quantile_of_finite", "quantile_by_bisection")
)
def quantile_of_mixture(f: Mixture, name: Name, levels: Value) -> Value:
    """the root of Σ_c share_c P_c(x ≤ t) = q"""
    shares = f._shares(name)

    def cdf(at: Value) -> Value:
        return reduce(ops.add, [f._averaged(share, interpret(CUMULATE, part, name, at)) for part, share in shares])

    return _root(f, name, levels, cdf)


@exact_quantile.rule(when=lambda f, name, levels: not is_tabular(f), overlaps=("quantile_of_finite",))
def quantile_by_bisection(f: Factor, name: Name, levels: Value) -> Value:
    """the root of P(x ≤ t) = q"""
    return _root(f, name, levels, lambda at: interpret(CUMULATE, f, name, at))


def _root(f: Factor, name: Name, levels: Value, cdf: Callable[[Value], Value]) -> Value:
    """inf {t : F(t) ≥ q} of each element, for each cell of the batch."""
    domain = f.inputs[name]
    batch = {n: d for n, d in f.inputs.items() if n != name}
    level = to_array(levels)
    shape = (*level.output.shape, *domain.shape)
    output = domain.with_shape(shape)

    def at_numbers(numbers: Data) -> Data:
        found = to_array(cdf(Array._of(numbers, tuple(batch), batch, Real.with_shape(shape))))
        return align(found.array, found.names, tuple(batch), len(shape))

    xp = namespace(level.array, *f.leaves())
    given = xp.asarray(level.array, xp.result_type(float)).reshape(level.array.shape + (1,) * len(domain.shape))
    full = xp.broadcast_to(given, (*(d.extent for d in batch.values()), *shape))
    root = invert(at_numbers, full, "unit" if domain.kind == "simplex" else domain.kind, domain.is_discrete)
    whole = xp.where(xp.isnan(root), -1, root).astype(int) if domain.is_discrete else root
    return Array._of(whole, tuple(batch), batch, output, f.exactness)
