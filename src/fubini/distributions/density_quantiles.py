"""Distribution functions and quantiles of densities: on the host where numbers are known, else compiled."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced
from fubini.base.domains import Real
from fubini.base.names import Name
from fubini.distributions.cumulative_probability import lift_probability, lift_quantile
from fubini.distributions.density import Density
from fubini.distributions.family_summaries import Summary, summary_at
from fubini.errors import NoRule
from fubini.numerics.cdf_inversion import invert
from fubini.numerics.named_axes import align
from fubini.terms.factor import is_tabular
from fubini.terms.heads import exact_cumulate, exact_quantile
from fubini.terms.value import Array, Value, apply, to_array


@exact_cumulate.rule(when=lambda f, name, at: not is_tabular(f), overlaps=("cumulate_finite",))
def cumulate_density(f: Density, name: Name, at: Value) -> Value:
    """P(x ≤ t; parameters)"""
    summary = _summary(f, name, at)
    if summary is not None and summary.cdf is not None:
        return _on_host(f, name, to_array(at), summary.cdf)
    try:
        return apply(lift_probability(f.distribution.blueprint), at, *f.distribution.leaf_values)
    except NotImplementedError as error:
        raise _unknown(f, name) from error


@exact_quantile.rule(
    when=lambda f, name, levels: not is_tabular(f), overlaps=("quantile_of_finite", "quantile_by_bisection")
)
def quantile_of_density(f: Density, name: Name, levels: Value) -> Value:
    """the root of P(x ≤ t; parameters) = q"""
    domain, level = f.inputs[name], to_array(levels)
    spread = level.array.reshape(level.array.shape + (1,) * len(domain.shape))
    summary = _summary(f, name, level)
    inverse = None if summary is None else _inverse(summary, domain.is_discrete)
    if inverse is not None:
        column = Array._of(spread, level.names, level.inputs, Real.with_shape(spread.shape[len(level.names) :]))
        root = to_array(_on_host(f, name, column, inverse))
    else:
        kind = "unit" if domain.kind == "simplex" else domain.kind
        op = lift_quantile(f.distribution.blueprint, kind, domain.shape, domain.is_discrete)
        try:
            root = to_array(apply(op, level, *f.distribution.leaf_values))
        except NotImplementedError as error:
            raise _unknown(f, name) from error
    output = domain.with_shape(root.array.shape[len(root.names) :])
    data = root.array.astype(int) if domain.is_discrete else root.array
    return Array._of(data, root.names, root.inputs, output, f.exactness)


def _inverse(summary: Summary, is_whole: bool) -> Callable[[Data], Data] | None:
    """The quantiles of a summary; of counts, those of their distribution function."""
    cdf = summary.cdf
    if summary.quantile is not None or cdf is None or not is_whole:
        return summary.quantile
    size = np.shape(summary.mean)
    return lambda levels: invert(
        cdf, np.array(np.broadcast_to(levels, np.broadcast_shapes(levels.shape, size))), "", True
    )


def _summary(f: Density, name: Name, asked: Value) -> Summary | None:
    """The summary of the family where all numbers are known."""
    if name != f.own:
        raise NoRule(
            f"the distribution function of {name!r} under {f}",
            expected=f"a normalised density of {name!r}, whatever other variables are",
            advice="sum variables out until one remains",
        )
    if is_traced(*asked.leaves()):
        return None
    batch = tuple(own for own in f.inputs if own != name)
    return summary_at(f.distribution, batch, len(f.inputs[name].shape))


def _on_host(f: Density, name: Name, at: Array, function: Callable[[Data], Data]) -> Value:
    """A function of numbers by SciPy: their own axes go first, then the named ones, then those of the variable."""
    batch = {own: domain for own, domain in f.inputs.items() if own != name}
    names, shape = tuple(batch) + tuple(own for own in at.names if own not in batch), f.inputs[name].shape
    data = align(np.asarray(at.array, np.float64), at.names, names, len(at.output.shape))
    lead = max(len(at.output.shape) - len(shape), 0)
    missing = (1,) * (len(shape) - len(at.output.shape))
    data = data.reshape(data.shape[: len(names)] + missing + data.shape[len(names) :])
    front = tuple(range(lead))
    moved = np.moveaxis(data, [len(names) + axis for axis in front], front)
    sizes = [{**batch, **at.inputs}[own].extent for own in names]
    whole = (*moved.shape[:lead], *sizes, *shape)
    with np.errstate(all="ignore"):
        numbers = np.moveaxis(np.broadcast_to(function(moved), whole), front, [len(names) + axis for axis in front])
    on_jax = any(map(is_jax, [*f.leaves(), at.array]))
    result = jnp.asarray(numbers) if on_jax else np.array(numbers)
    return Array._of(result, names, {**batch, **at.inputs}, Real.with_shape(result.shape[len(names) :]), f.exactness)


def _unknown(f: Density, name: Name) -> NoRule:
    return NoRule(
        f"the distribution function of {name!r} under {f}",
        expected="a family of numbers whose distribution function is known, or one of vectors whose entries have one",
        nearest=f"{f.distribution.family} has none that numpyro knows",
        advice=f"draws have quantiles: np.quantile(f.sample(key, {name!r}, n=10_000)[{name!r}], level, axis=0)",
    )
