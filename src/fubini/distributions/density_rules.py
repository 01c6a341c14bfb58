"""Rules of densities: what they become when a sum needs it, and what they sum to."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_jax, is_traced, namespace, require
from fubini.base.interpretations import interpret
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.distributions.density import Density, Distribution
from fubini.distributions.traced_affine import traced_affine
from fubini.errors import DataError
from fubini.factors.delta import Delta, mark_of
from fubini.factors.fallbacks import blocked
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.mixture_rules import sum_lazily
from fubini.factors.promotion import is_joinable
from fubini.factors.represent import represented
from fubini.factors.table import Table
from fubini.factors.table_rules import to_table
from fubini.factors.weight_rules import is_quadratic, real_names
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Names, Quadratic, Reals, by_name, diagonal
from fubini.numerics.quadratic_algebra import compressed
from fubini.numerics.small_matrices import lower_solved
from fubini.numerics.written_out import is_tiny
from fubini.terms.affine import Affine, affine, needs_large_matrix
from fubini.terms.factor import Factor, Unit, Weight, is_tabular, product
from fubini.terms.heads import (
    DISINTEGRATE,
    JOIN,
    MAXIMISE,
    MULTIPLY_OUT,
    SUM,
    exact_join,
    exact_multiply_out,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.indexing import fold
from fubini.terms.value import Array, Value, Variable, to_array

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


@exact_join.rule(when=is_tabular)
def join_density_table(f: Density) -> Table:
    """p(v; θ) over bounded integers  =  the table of its numbers"""
    log = f.log()
    array = to_array(log)
    require(
        ~namespace(array.array).isnan(array.array),
        lambda: DataError(f"the density {f}", expected="parameters for which it is a number"),
    )
    return to_table(f)


def _is_point(f: Density) -> bool:
    if f.distribution.family != "Delta" or not isinstance(f.value, Variable) or is_tabular(f):
        return False
    return f.value.name not in f.distribution.inputs


@exact_join.rule(when=_is_point, overlaps=("join_density_table",))
def join_density_delta(f: Density) -> Factor:
    """Delta(v; w)(x)  =  δ(x = v) w"""
    point, weight = f.distribution["v"], f.distribution["log_density"]
    assert isinstance(f.value, Variable) and isinstance(weight, Value)
    return Delta({f.value.name: point}, Weight(weight))


def _core(f: Density) -> Distribution:
    """The distribution without wrappers that only say which axes are independent or repeated."""
    core = f.distribution
    if f.value.output.shape == core.signature.shape:
        while core.family in ("Independent", "ExpandedDistribution"):
            inner = core["base_dist"]
            assert isinstance(inner, Distribution)
            core = inner
    return core


def _is_normal(f: Density) -> bool:
    """A Normal whose mean is affine in real variables and whose scale does not depend on them."""
    if _core(f).family not in ("Normal", "MultivariateNormal") or is_tabular(f):
        return False
    return _residual(f) is not None


def _residual(f: Density) -> Affine | None:
    """mean − value as an affine function of real variables, if everything else is known; computed once where known."""
    key = "_cached_residual" if represented() is None else "_cached_traced_residual"
    if key in f.__dict__:
        return f.__dict__[key]
    made = _find_residual(f)
    if made is None or not is_traced(made.constant.data, *(slope.data for slope in made.slopes.values())):
        f.__dict__[key] = made  # numbers of one trace are none of another's
    return made


def _find_residual(f: Density) -> Affine | None:
    reals = real_names(f)
    if any(not domain.is_finite for name, domain in f.inputs.items() if name not in reals):
        return None
    core = _core(f)
    shapes = [arg for key, arg in zip(core.keys, core.args, strict=True) if key != "loc"]
    if any(name in arg.inputs for arg in shapes for name in reals):
        return None
    if core.family == "MultivariateNormal" and len(f.distribution.signature.shape) != 1:
        return None
    residual = ops.subtract(core["loc"], f.value)
    if needs_large_matrix(residual, reals):  # index notation may read what the function computes
        return None
    return affine(residual, reals) or (traced_affine(residual, reals) if represented() is not None else None)


@exact_join.rule(when=_is_normal, overlaps=("join_density_table", "join_density_delta"))
def join_density_normal(f: Density) -> Gaussian:
    """N(v; μ, σ), μ − v = b + A z  =  exp(−½ |(b + A z)/σ|² − log σ − ½ log 2π)"""
    residual = _residual(f)
    assert residual is not None
    order = dict.fromkeys((*f.value.inputs, *f.distribution.inputs))  # the variables of the value first
    reals = tuple((name, f.inputs[name]) for name in order if name in residual.slopes)
    A, b = _stacked(residual, reals)
    core = _core(f)
    whiten = _whiten_elements if core.family == "Normal" else _whiten_vector
    (A, b), (log, log_names) = whiten(core, A, b, residual.constant.output.shape)
    return _squared(f, A, b, log, log_names, reals)


Rows = tuple[Data, Names]


def _stacked(residual: Affine, reals: Reals) -> tuple[Rows, Rows]:
    """A as [rows, elements] and b as [rows, 1], rows being the elements of the residual."""
    names = tuple(dict.fromkeys(name for slope in residual.slopes.values() for name in slope.names))
    size = math.prod(residual.constant.output.shape)
    columns = []
    for name, _ in reals:
        slope = residual.slopes[name]
        data = align(slope.array, slope.names, names, len(slope.output.shape))
        columns.append(data.reshape((*data.shape[: len(names)], size, slope.output.shape[-1])))
    xp = namespace(*columns)
    if len(columns) > 1:
        batch = np.broadcast_shapes(*(column.shape[:-2] for column in columns))
        columns = [xp.broadcast_to(column, (*batch, *column.shape[-2:])) for column in columns]
    A = columns[0] if len(columns) == 1 else xp.concatenate(columns, axis=-1)
    b = residual.constant
    return (A, names), (b.array.reshape((*b.array.shape[: len(b.names)], size, 1)), b.names)


def _whiten_elements(normal: Distribution, A: Rows, b: Rows, shape: tuple[int, ...]) -> tuple[tuple[Rows, Rows], Rows]:
    """Each element over its own scale."""
    scale = to_array(normal["scale"])  # type: ignore[arg-type]
    full = np.broadcast_shapes(shape, scale.output.shape)
    size = math.prod(full)
    batch = scale.array.shape[: len(scale.names)]
    padded = (1,) * (len(full) - len(scale.output.shape))
    xp = namespace(scale.array)
    spread = xp.broadcast_to(scale.array.reshape((*batch, *padded, *scale.output.shape)), (*batch, *full))
    sigma = (spread.reshape((*batch, size, 1)), scale.names, 2)
    under = (-sigma[0], *sigma[1:])  # (v − μ)/σ = (μ − v)/(−σ)
    rows = [by_name(_over, (_repeated(part[0], shape, full), part[1], 2), under) for part in (A, b)]
    log = -xp.sum(xp.log(sigma[0][..., 0]), axis=-1) - 0.5 * size * math.log(2 * math.pi)
    return (rows[0], rows[1]), (log, scale.names)


def _over(x: Data, y: Data) -> Data:
    with np.errstate(over="ignore"):
        return x / y


def _repeated(rows: Data, shape: tuple[int, ...], full: tuple[int, ...]) -> Data:
    """Rows for a larger event, as broadcasting repeats them."""
    if shape == full:
        return rows
    batch, width = rows.shape[:-2], rows.shape[-1]
    padded = (1,) * (len(full) - len(shape))
    spread = namespace(rows).broadcast_to(rows.reshape((*batch, *padded, *shape, width)), (*batch, *full, width))
    return spread.reshape((*batch, math.prod(full), width))


def _whiten_vector(normal: Distribution, A: Rows, b: Rows, shape: tuple[int, ...]) -> tuple[tuple[Rows, Rows], Rows]:
    """Whiten by the inverse root of the covariance, or the root of the precision."""
    key = next(key for key in _MATRICES if key in normal.keys)
    matrix = to_array(normal[key])  # type: ignore[arg-type]
    xp = namespace(matrix.array)
    root = matrix.array if key == "scale_tril" else xp.linalg.cholesky(matrix.array)
    sign = 1.0 if key == "precision_matrix" else -1.0
    given = (root, matrix.names, 2)

    def whiten(L: Data, part: Data) -> Data:
        return -(xp.swapaxes(L, -1, -2) @ part) if sign > 0 else _solved(-L, part)

    rows = [by_name(whiten, given, (part[0], part[1], 2)) for part in (A, b)]
    determinant = xp.sum(xp.log(diagonal(root)), axis=-1)
    return (rows[0], rows[1]), (sign * determinant - 0.5 * root.shape[-1] * math.log(2 * math.pi), matrix.names)


def _solved(L: Data, right: Data) -> Data:
    """L⁻¹ R for a lower triangular L."""
    if is_jax(L) or is_jax(right):
        return lower_solved(L, right) if is_tiny(L) else jnp.linalg.solve(L, right)
    return np.linalg.solve(L, right)


def _squared(f: Density, A: Rows, b: Rows, log: Data, log_names: Names, reals: Reals) -> Gaussian:
    """exp(log − ½ |b + A z|²) as a Gaussian."""
    rows, targets = A[0], -b[0][..., 0]
    if not (is_jax(rows) or is_jax(targets)) and not (np.isfinite(rows).all() and np.isfinite(targets).all()):
        raise DataError(
            f"{f} as a Gaussian",
            expected="coefficients and means that a double can hold in units of the standard deviation, below 1.8e308",
            advice="scale the variables",
        )
    rest, more, more_names = compressed(Quadratic(targets, b[1], rows, A[1], True))
    scale = shifted(Table(1.0), log, log_names, f.inputs)._marked(f.exactness)
    scale = shifted(scale, more, more_names, f.inputs)
    return Gaussian._of(scale, rest, reals, f.inputs)


def _is_quadratic(log: Value) -> bool:
    """Whether a log-density is of degree two at most, with a matrix that can be made."""
    return is_quadratic(log) and not needs_large_matrix(log, real_names(log))


@exact_join.rule(
    when=lambda f: not _is_normal(f) and not _is_point(f) and not is_tabular(f) and _is_quadratic(f.log()),
    overlaps=("join_density_table", "join_density_delta", "join_density_normal"),
)
def join_density_quadratic(f: Density) -> Factor:
    """p(v; θ) with a log-density of degree two at most  =  a Gaussian"""
    return interpret(JOIN, Weight(f.log()))


# -- sums -----------------------------------------------------------------------------------------------------------


def _is_summed_over_own(semiring: Semiring, f: Density, names: tuple) -> bool:
    return semiring is sum_product and f.own is not None and f.own in names


@exact_sum.rule(when=_is_summed_over_own)
def sum_density(semiring: Semiring, f: Density, names: tuple) -> Factor:
    """∫ p(x; θ) dx  =  1"""
    rest = {name: domain for name, domain in f.inputs.items() if name != f.own}
    parameters = [value for value in f.distribution.leaf_values if isinstance(value, Array)]
    marks = [Weight(mark_of(value)) for value in parameters if is_traced(value.array) and not value.output.is_discrete]
    others = tuple(name for name in names if name != f.own)
    one = product(Unit(rest), *marks)
    return one.reduce(semiring, *others) if others else one


@exact_sum.rule(when=lambda semiring, f, names: is_joinable(f), overlaps=("sum_density",))
def sum_joined_density(semiring: Semiring, f: Density, names: tuple) -> Factor:
    """⊕_x p after promotion"""
    return interpret(SUM, semiring, interpret(JOIN, f), names)


@exact_sum.rule(overlaps=("sum_promoted",))
def sum_blocked(semiring: Semiring, f: Density | Weight, names: tuple) -> Factor:
    """⊕_x of what is neither a Table nor a Gaussian in x: a Mixture over bounded integers, else no closed form"""
    made = sum_lazily(f, names) if semiring is sum_product else None
    if made is None and semiring is sum_product:
        return interpret(DISINTEGRATE, f, names).remaining
    if made is None and semiring is max_product:
        return interpret(MAXIMISE, f, names).remaining
    if made is None:
        raise blocked(semiring, f, names)
    return made


# -- the rest -------------------------------------------------------------------------------------------------------


@exact_substitute.rule
def substitute_density(f: Density, values: Mapping) -> Factor:
    """p(v; θ) at x = u  =  p(v(x = u); θ(x = u))"""
    return Density(f.distribution.replaced(values), f.value.replaced(values))


@exact_multiply_out.rule
def multiply_out_density(f: Density, names: tuple) -> Factor:
    """Π_i p(v(i); θ(i))"""
    if is_joinable(f):
        return interpret(MULTIPLY_OUT, interpret(JOIN, f), names)
    return Weight(fold(ops.add, f.log(), *names))


@exact_power.rule(when=lambda f, exponent: not is_joinable(f))
def power_density(f: Density, exponent: Value) -> Factor:
    """p^a  =  exp(a log p)"""
    return Weight(f.log() * exponent)
