"""The moments of mixtures: the Gaussian of the same mass, mean and covariance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, require, stop_gradient
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import DataError, Intractable
from fubini.factors.delta import Delta
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.mixture import Mixture
from fubini.factors.mixture_rules import multiply_mixture
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import is_open, promoted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, Reals, diagonal, places
from fubini.numerics.quadratic_elimination import root
from fubini.numerics.scaled import LOG_GREATEST, Scaled, positive_log
from fubini.numerics.small_matrices import lower_solved
from fubini.terms.exactness import projected
from fubini.terms.factor import Factor, Product
from fubini.terms.heads import MOMENTS, exact_match, exact_moments
from fubini.terms.value import to_array


@exact_match.rule
def match_mixture(f: Mixture) -> Factor | None:
    """Σ_c w_c N(m_c, V_c)  →  w N(m, V),  m = Σ_c p_c m_c,  V = Σ_c p_c (V_c + (m_c − m)(m_c − m)ᵀ),  p_c = w_c / w"""
    return None if _waits(f) else matched(f)


@exact_match.rule
def match_product(f: Product) -> Factor | None:
    """(Σ_c f_c)·g  =  Σ_c f_c·g, then matched"""
    mixtures = [term for term in f.terms if isinstance(term, Mixture)]
    if len(mixtures) != 1:
        return None
    joined = multiply_mixture(mixtures[0], combined([term for term in f.terms if term is not mixtures[0]]))
    return match_mixture(joined) if isinstance(joined, Mixture) else None


@exact_match.rule
def match_other(f: Factor) -> None:
    """f is no sum of several"""
    return None


@exact_moments.rule
def moments_of_mixture(f: Mixture | Piecewise, names: tuple) -> Factor:
    """Σ_c w_c N(m_c, V_c), in boxes or not  →  w N(m, V)"""
    batch = {name: domain for name, domain in f.inputs.items() if domain.is_finite}
    reals = tuple((name, domain) for name, domain in f.inputs.items() if not domain.is_finite)
    if isinstance(f, Mixture) and _waits(f):
        return f
    return matched_over(f, batch, reals)._marked(projected("Gaussian"))


@exact_moments.rule(when=lambda f, names: not any(map(is_open, f.terms)), overlaps=("match_tilted_gaussian",))
def moments_of_product(f: Product, names: tuple) -> Factor:
    """the projection of the product, multiplied out"""
    joined = combined(f.terms)
    return joined if isinstance(joined, Product) else interpret(MOMENTS, joined, names)


def _waits(f: Mixture) -> bool:
    """A term says nothing of some direction, whatever its numbers are: it has no moments before a prior joins it."""
    return any(
        isinstance(term, Gaussian) and term.white and term.quadratic.rows < term.quadratic.size for term in f.components
    )


class Moments(NamedTuple):
    """Mass w·exp(s), mean and covariance of each term of a sum; the terms along the axis after the batch."""

    weight: Data
    shift: Data
    mean: Data
    covariance: Data


def matched(f: Mixture) -> Gaussian:
    """The Gaussian of the same mass, mean and covariance, for each cell of the batch."""
    batch = {name: domain for name, domain in f.inputs.items() if domain.is_finite}
    reals = tuple((name, domain) for name, domain in f.inputs.items() if not domain.is_finite)
    return matched_over(f, batch, reals)


def matched_over(f: Factor, batch: Mapping[Name, Domain], reals: Reals) -> Gaussian:
    """Σ_c w_c N(m_c, V_c) of all components and boxes  →  w N(m, V), for each cell of the batch."""
    return gaussian_of(match(stacked_moments(f, batch, reals), len(batch)), dict(batch), reals, f)


def gaussian_of(moments: Moments, batch: dict[Name, Domain], reals: Reals, f: Factor) -> Gaussian:
    """The Gaussian of these moments, for each cell of the batch; they are those of f."""
    weight, shift, mean, covariance = moments
    xp = namespace(mean, covariance)
    size = mean.shape[-1]
    _, ok = root(covariance)
    L, _ = root(xp.where(ok[..., None, None], covariance, xp.eye(size, dtype=covariance.dtype)))
    (weight,) = require(ok | (weight == 0), lambda: _no_moments(f), weight)
    eye = xp.broadcast_to(xp.eye(size, dtype=L.dtype), L.shape)
    white = lower_solved(L, eye) if is_jax(L) else np.linalg.solve(L, eye)
    names = tuple(batch)
    volume = xp.sum(xp.log(diagonal(L)), axis=-1) + 0.5 * size * math.log(2 * math.pi)
    quadratic = Quadratic((white @ mean[..., None])[..., 0], names, white, names, True)
    scale = shifted(Table._of(Scaled(weight, shift), batch), -volume, names, batch)
    return Gaussian._of(scale._marked(f.exactness), quadratic, reals, batch)  # type: ignore[arg-type]


def _no_moments(f: Factor) -> DataError:
    return DataError(
        f"the Gaussian of the mean and covariance of {f}",
        expected="terms that together spread in every direction",
        nearest="their covariance is singular: they agree in some direction, or some are improper",
        advice="give the points some noise, or sum and observe variables until the mixture has moments",
    )


def match(terms: Moments, axis: int) -> Moments:
    """The moments of the sum."""
    weights, shifts, means, covariances = terms
    xp = namespace(weights, shifts)
    logs = stop_gradient(positive_log(weights) + shifts)
    top = xp.max(logs, axis=axis, keepdims=True)
    empty = ~xp.isfinite(top)
    top = xp.where(empty, 0.0, top)
    masses = weights * xp.exp(xp.minimum(shifts - top, LOG_GREATEST[np.dtype(weights.dtype).name]))
    total = xp.sum(masses, axis=axis)
    gone = xp.squeeze(empty, axis)
    # A cell without mass gets the moments of its terms all alike, so that they are numbers.
    shares = xp.where(empty, 1.0 / weights.shape[axis], masses / xp.expand_dims(xp.where(gone, 1.0, total), axis))
    mean = xp.sum(shares[..., None] * means, axis=axis)
    gap = means - xp.expand_dims(mean, axis)
    spread = covariances + gap[..., :, None] * gap[..., None, :]
    covariance = xp.sum(shares[..., None, None] * spread, axis=axis)
    return Moments(total, xp.squeeze(top, axis), mean, covariance)


def stacked_moments(f: Factor, batch: Mapping[Name, Domain], reals: Reals) -> Moments:
    """The moments of every component and box along one axis after those of the batch."""
    parts = [component_moments(part, bounds, batch, reals) for part, bounds in components(promoted(f))]
    xp = namespace(*(data for part in parts for data in part))
    return Moments(*(xp.concatenate(list(pieces), axis=len(batch)) for pieces in zip(*parts, strict=True)))


def components(f: Factor) -> Iterator[tuple[Factor, dict[Name, Domain]]]:
    """Each term of a sum, with the bound indices that it is summed over."""
    if isinstance(f, Piecewise) and isinstance(mixed := promoted(f.parts), Mixture):
        for part, bounds in components(mixed):
            yield f.with_parts(part), bounds
    elif isinstance(f, Mixture):
        for component in f.components:
            for part, bounds in components(promoted(component)):
                yield part, {**f.bound_in(component), **bounds}
    else:
        yield f, {}


def component_moments(
    part: Factor, bounds: Mapping[Name, Domain], batch: Mapping[Name, Domain], reals: Reals
) -> Moments:
    """The moments of one component, its bound indices and boxes flattened into one axis after those of the batch."""
    if isinstance(part, Piecewise):
        pieces = part.moments()
        own = promoted(part.parts)
        assert isinstance(own, Gaussian), "a box has moments where its parts are Gaussian"
        order = [position for name, _ in reals for position in places(own.reals)[name]]
        mean = pieces.mean[..., order], pieces.names
        covariance = pieces.covariance[..., order, :][..., :, order], pieces.names
        return _flat(pieces.mass, mean, covariance, {**bounds, **part.indices}, batch)
    mass, mean, covariance = term_moments(part, reals)
    return _flat(mass, mean, covariance, bounds, batch)


def _flat(
    mass: Table,
    mean: tuple[Data, tuple],
    covariance: tuple[Data, tuple],
    bounds: Mapping[Name, Domain],
    batch: Mapping[Name, Domain],
) -> Moments:
    names = (*batch, *bounds)
    shape = tuple(domain.extent for domain in (*batch.values(), *bounds.values()))
    weight, shift, *_ = mass.pair
    shift = shift if np.ndim(shift) else namespace(weight).full(weight.shape, shift, weight.dtype)
    each = ((weight, mass.names, 0), (shift, mass.names, 0), (*mean, 1), (*covariance, 2))
    count, axis = math.prod(domain.extent for domain in bounds.values()), len(batch)
    return Moments(*(_spread(*one, names, shape, axis, count) for one in each))


def _spread(data: Data, own: tuple, event: int, names: tuple, shape: tuple, axis: int, count: int) -> Data:
    aligned = align(data, own, names, event)
    full = namespace(aligned).broadcast_to(aligned, (*shape, *aligned.shape[aligned.ndim - event :]))
    return full.reshape((*full.shape[:axis], count, *full.shape[len(names) :]))


Named = tuple[Data, tuple[Name, ...]]


def term_moments(term: Factor, reals: Reals) -> tuple[Table, Named, Named]:
    """Mass, mean and covariance of one Gaussian or point."""
    real_names = tuple(name for name, _ in reals)
    if isinstance(term, Gaussian) and set(real_names) == {name for name, _ in term.reals}:
        mass = term.reduced(frozenset(real_names))
        conditional = term.conditional(*real_names)
        mean, covariance = (conditional.mean, conditional.mean_names), (conditional.covariance, conditional.names)
    elif isinstance(term, Delta) and set(term.names) == set(real_names) and isinstance(term.weight, Table):
        mass = term.weight
        mean, covariance = _of_point(term, tuple(n for n, d in term.inputs.items() if d.is_finite), reals)
    else:
        raise Intractable(
            f"the moments of {term}",
            expected=f"Gaussians, or points, over {', '.join(map(repr, real_names))}",
            advice="sum or observe variables until each term of the mixture is one of these",
        )
    assert isinstance(mass, Table)
    return mass, mean, covariance


def _of_point(delta: Delta, names: tuple, reals: Reals) -> tuple[Any, Any]:
    points = [to_array(delta.point(name)) for name, _ in reals]
    flat = [(point.array.reshape((*point.array.shape[: len(point.names)], -1)), point.names) for point in points]
    xp = namespace(*(data for data, _ in flat))
    shape = np.broadcast_shapes(*(align(data, own, names, 1).shape[:-1] for data, own in flat))
    mean = xp.concatenate([xp.broadcast_to(a := align(d, o, names, 1), (*shape, a.shape[-1])) for d, o in flat], -1)
    return (mean, names), (xp.zeros((mean.shape[-1],) * 2), ())
