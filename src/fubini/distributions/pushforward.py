"""The distribution of a function of variables, where it has a closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data, is_jax, is_traced, namespace, precision, require
from fubini.base.domains import Domain, Real
from fubini.base.names import Bound, Name
from fubini.distributions.convert import arguments_of
from fubini.distributions.cumulative_probability import single_numbers
from fubini.distributions.density import Density, Distribution, density
from fubini.distributions.family_summaries import WRAPPERS
from fubini.distributions.monotone_transform import read_function_of_entry
from fubini.distributions.to_numpyro import distribution_along
from fubini.distributions.traced_affine import traced_affine
from fubini.errors import DataError
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture, mixture
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.terms.affine import Affine, affine
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.value import Array, Value, is_enumerable, to_array

ENDS = {"real": (-math.inf, math.inf), "positive": (0.0, math.inf), "unit": (0.0, 1.0)}
POINT = Bound("point")


def push_forward(f: Factor, value: Value, name: Name) -> Factor | None:
    """p(v) of v = value(x, …) under a normalised factor of x, …; None where no rule gives it."""
    joined = f._joined()
    if is_enumerable(value) and all(domain.is_finite for domain in joined.inputs.values()):
        return _of_cells(joined, to_array(value), name)
    parts = joined.components if isinstance(joined, Mixture) else (joined,)
    pushed = [_of_part(part._joined(), value, name) for part in parts]
    if any(part is None for part in pushed):
        return None
    whole = mixture(pushed, joined.bounds if isinstance(joined, Mixture) else ())  # type: ignore[arg-type]
    finite = [own for own, domain in whole.inputs.items() if own != name and domain.is_finite]
    return whole.sum(*finite) if finite else whole


def _of_part(part: Factor, value: Value, name: Name) -> Factor | None:
    """The one term with real variables, pushed forward; the others are weights."""
    own = [term for term in terms_of(part) if any(not domain.is_finite for domain in term.inputs.values())]
    weights = [term for term in terms_of(part) if all(domain.is_finite for domain in term.inputs.values())]
    if len(own) != 1:
        return None
    reals = tuple(n for n, domain in own[0].inputs.items() if not domain.is_finite and n in value.inputs)
    pushed = _of_affine(own[0], value, reals, name) or _of_monotone(own[0], value, reals, name)
    return None if pushed is None else product(*weights, pushed)


# -- finite variables -------------------------------------------------------------------------------------------------


def _of_cells(f: Factor, values: Array, name: Name) -> Factor:
    """p(v)  =  Σ_x p(x) [v(x) = v]"""
    logs = to_array(f.log())
    names = tuple(f.inputs)
    weights = Table.from_log(align(logs.array, logs.names, names), dict(f.inputs)).normalized(names).weights
    shape = tuple(domain.extent for domain in f.inputs.values())
    event = values.output.shape
    full = np.broadcast_to(align(np.asarray(values.array), values.names, names, len(event)), (*shape, *event))
    return table_of_values(full.reshape(-1, *event), weights.reshape(-1), name, f.exactness)


def table_of_values(values: np.ndarray, weights: Data, name: Name, mark: Exactness) -> Factor:
    """Σ_s w(s) δ(v = values(s)): a Table of whole numbers that are not negative, else weighted points."""
    rows, place = np.unique(values.reshape(len(values), -1), axis=0, return_inverse=True)
    hits = (place.reshape(-1)[:, None] == np.arange(len(rows))).astype(float)
    totals = namespace(weights).tensordot(weights, hits, axes=1)
    if values.ndim == 1 and values.dtype.kind in "bui" and rows.min() >= 0:
        spread = np.eye(int(rows.max()) + 1)[rows[:, 0].astype(int)]
        return Table(namespace(totals).tensordot(totals, spread, axes=1), (name,))._marked(mark)
    points = Array(rows.reshape(-1, *values.shape[1:]) * 1.0, (POINT,))
    return (Table(totals, (POINT,)) * Delta({name: points})).sum(POINT)._marked(mark)


# -- affine functions -------------------------------------------------------------------------------------------------


def _of_affine(f: Factor, value: Value, reals: Sequence[Name], name: Name) -> Factor | None:
    """c + A x of normal or Student's x"""
    is_normal = isinstance(f, Gaussian)
    student = None if is_normal else _student(f)
    if not is_normal and student is None:
        return None
    coefficients = traced_affine(value, reals) or affine(value, reals)
    if coefficients is None:
        return None
    if isinstance(f, Gaussian):
        return _of_gaussian(f, coefficients, reals, name)
    assert student is not None
    return _of_student(f, student, coefficients, reals[0], name)


def _student(f: Factor) -> Distribution | None:
    """Student's t over a number or a vector; independent ones have no joint t."""
    if not isinstance(f, Density) or f.own is None:
        return None
    distribution, shape = f.distribution, f.inputs[f.own].shape
    if distribution.family in WRAPPERS or distribution.family not in ("StudentT", "MultivariateStudentT"):
        return None
    is_joint = distribution.family == "MultivariateStudentT" and len(shape) == 1
    return distribution if is_joint or not shape else None


def _of_gaussian(f: Gaussian, coefficients: Affine, reals: Sequence[Name], name: Name) -> Factor:
    """N(c + A m, A V Aᵀ)"""
    others = [own for own, _ in f.reals if own not in reals]
    alone = f.sum(*others) if others else f
    assert isinstance(alone, Gaussian)
    conditional = alone.conditional(*reals)
    mean = conditional.mean, conditional.mean_names
    moments = _moved(coefficients, reals, mean, (conditional.covariance, conditional.names), alone.inputs)
    loc, covariance, batch = moments
    shape = coefficients.constant.output.shape
    weight = alone.sum(*reals)
    inputs = {**batch, name: Real.with_shape(shape)}
    made = Gaussian(mean=loc, covariance=_proper(covariance, name), inputs=inputs).normalize(name)
    return product(weight, made)._joined()


def _of_student(f: Factor, student: Distribution, coefficients: Affine, own: Name, name: Name) -> Factor:
    """t_ν(c + A m, A S Aᵀ)"""
    df, loc, scale = (to_array(value) for value in student.leaf_values)
    is_vector = bool(f.inputs[own].shape)
    xp = namespace(df.array, loc.array, scale.array)
    spread = scale.array @ xp.swapaxes(scale.array, -1, -2) if is_vector else scale.array[..., None, None] ** 2
    mean = (loc.array if is_vector else loc.array[..., None], loc.names)
    moved, covariance, batch = _moved(coefficients, (own,), mean, (spread, scale.names), f.inputs)
    shape = coefficients.constant.output.shape
    named = tuple(batch)
    if not shape:
        root = Array(xp.sqrt(_proper(covariance, name)[..., 0, 0]), named)
        made = Distribution("StudentT", {"df": df, "loc": Array(moved[..., 0], named), "scale": root})
    else:
        root = Array(xp.linalg.cholesky(_proper(covariance, name)), named)
        made = Distribution("MultivariateStudentT", {"df": df, "loc": Array(moved, named), "scale_tril": root})
    return density(made, name)


def _moved(
    coefficients: Affine,
    reals: Sequence[Name],
    mean: tuple[Data, Sequence[Name]],
    covariance: tuple[Data, Sequence[Name]],
    inputs: Mapping[Name, Domain],
) -> tuple[Data, Data, dict[Name, Domain]]:
    """c + A m and A V Aᵀ along all names of coefficients and moments."""
    slopes = [coefficients.slopes[own] for own in reals]
    held = {own for part in (coefficients.constant, *slopes) for own in part.names} | {*mean[1], *covariance[1]}
    domains = {**inputs, **coefficients.constant.inputs, **{n: d for part in slopes for n, d in part.inputs.items()}}
    batch = {own: domain for own, domain in domains.items() if own in held}
    names, sizes = tuple(batch), [domain.extent for domain in batch.values()]
    size = math.prod(coefficients.constant.output.shape)
    xp = namespace(mean[0], covariance[0], coefficients.constant.array, *(slope.array for slope in slopes))

    def full(data: Data, own: Sequence[Name], *event: int) -> Data:
        flat = data.reshape((*data.shape[: len(own)], *event))
        return xp.broadcast_to(align(flat, own, names, len(event)), (*sizes, *event))

    count = mean[0].shape[-1]
    widths = [slope.array.shape[-1] for slope in slopes]
    parts = [full(s.array, s.names, size, width) for s, width in zip(slopes, widths, strict=True)]
    matrix = xp.concatenate(parts, axis=-1)
    loc = full(coefficients.constant.array, coefficients.constant.names, size)
    loc = loc + (matrix @ full(mean[0], mean[1], count)[..., None])[..., 0]
    spread = full(covariance[0], covariance[1], count, count)
    return loc, matrix @ spread @ xp.swapaxes(matrix, -1, -2), batch


def _proper(covariance: Data, name: Name) -> Data:
    """The covariance, or the error of numbers that depend on each other."""
    if is_traced(covariance):
        return covariance
    size = covariance.shape[-1]
    roots = np.sqrt(np.maximum(np.diagonal(np.asarray(covariance), axis1=-2, axis2=-1), 1e-300))
    scaled = np.asarray(covariance) / roots[..., :, None] / roots[..., None, :]
    least = np.linalg.eigvalsh(scaled).min() if np.all(np.diagonal(scaled, axis1=-2, axis2=-1) > 0.5) else 0.0

    def error() -> DataError:
        return DataError(
            f"the marginal of {name!r}, of {size} numbers",
            expected="numbers of which none is a combination of the others: they have a density together",
            nearest="their covariance is singular",
            advice="leave out what follows from the others, or what is the same whatever the sites are",
        )

    (ok,) = require(np.asarray(least > 1e-12), error, covariance)
    return ok


# -- monotone functions of one number ---------------------------------------------------------------------------------


def _of_monotone(f: Factor, value: Value, reals: Sequence[Name], name: Name) -> Factor | None:
    """p(x_i) |dx_i/dv| of a function of one entry of a variable"""
    if len(reals) != 1 or value.output.shape or set(value.inputs) != set(reals):
        return None
    (own,), domain = reals, f.inputs[reals[0]]
    kind = "unit" if domain.kind == "simplex" else domain.kind
    if kind not in ENDS:
        return None

    def function(x: Data) -> Data:
        return to_array(value.replaced({own: Array._of(x, (), {}, domain)})).array

    with precision(is_double=True), jax.ensure_compile_time_eval():
        read = read_function_of_entry(function, domain.shape, ENDS[kind])
    base = None if read is None else entry_distribution(f, own, read.entry)
    if read is None or base is None:
        return None
    if read.transform is not None:
        given = {"base_distribution": base, "transforms": (read.transform,)}
        base = Distribution("TransformedDistribution", given)
    return density(base, str(name))


def entry_distribution(f: Factor, own: Name, entry: tuple[int, ...]) -> Distribution | None:
    """The distribution of one number of a variable; None where it is not known."""
    batch = {n: domain for n, domain in f.inputs.items() if n != own and domain.is_finite}
    if isinstance(f, Density) and f.own == own:
        if not entry and f.distribution.family not in WRAPPERS:
            return f.distribution
        made = single_numbers(distribution_along(f, own, batch))
    elif isinstance(f, Gaussian) and len(f.reals) == 1:
        mean, variance = to_array(f.mean(own)), to_array(f.variance(own))
        made = numpyro_families.Normal(mean.array, namespace(variance.array).sqrt(variance.array))
        batch = {n: f.inputs[n] for n in variance.names}
    else:
        return None
    given = None if made.event_shape else arguments_of(made)
    if given is None:
        return None
    at = (..., *entry)
    numbers = {
        key: Array(jnp.broadcast_to(part, made.batch_shape)[at], tuple(batch)) if np.ndim(part) or batch else part
        for key, part in given.items()
    }
    on_host = not any(map(is_jax, f.leaves()))
    plain = {k: _to_host(v) if on_host and isinstance(v, Array) else v for k, v in numbers.items()}
    return Distribution(type(made).__name__, plain)


def _to_host(value: Array) -> Array:
    return Array(np.asarray(value.array, np.float64), value.names)
