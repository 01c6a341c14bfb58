"""Moment matching: a mixture becomes the Gaussian of the same mass, mean and covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, require, stop_gradient
from fubini.base.domains import Domain
from fubini.base.interpretations import Interpretation, current
from fubini.base.names import Name
from fubini.base.rules import RuleSet
from fubini.errors import DataError, DomainError, Intractable
from fubini.factors.delta import Delta
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.mixture import Mixture
from fubini.factors.mixture_rules import multiply_mixture
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, Reals
from fubini.numerics.quadratic_elimination import root
from fubini.numerics.scaled import LOG_GREATEST, Scaled, positive_log
from fubini.numerics.small_matrices import lower_solved
from fubini.terms.factor import Factor, Product
from fubini.terms.heads import MULTIPLY, MULTIPLY_OUT
from fubini.terms.value import to_array

# Rules that a projecting interpretation has before those of its base.
matches_multiply = RuleSet("moment_matching.multiply", head=MULTIPLY)
matches_multiply_out = RuleSet("moment_matching.multiply_out", head=MULTIPLY_OUT)


class MomentMatching(Interpretation):
    """After every sum a mixture is projected; chains keep their last `window` switches separate."""

    window: int


def moment_matching(window: int = 1) -> MomentMatching:
    """The interpretation in force, with mixtures of Gaussians projected onto one Gaussian after every sum.

    In a chain with discrete and real states the last `window` values of the discrete ones stay separate: a window as
    long as the chain is exact.

    >>> wide = fb.Gaussian(mean=[[-2.0], [2.0]], precision=[[1.0]], inputs={"k": fb.Bint[2], "x": fb.Real})
    >>> with moment_matching():
    ...     g = (wide * fb.Table([0.2, 0.8], ("k",))).sum("k")
    >>> type(g).__name__, g.exactness
    ('Gaussian', projected(moment_matching(window=1)))
    """
    if isinstance(window, bool) or not isinstance(window, (int, np.integer)) or window < 1:
        raise DomainError(
            f"moment_matching(window={window!r})",
            expected="a whole number of switches to keep, at least 1: an empty window would forget the current one",
        )
    base = current()
    rules = (matches_multiply, matches_multiply_out)
    made = MomentMatching(f"moment_matching(window={window})", rules, base=base, project=project)
    made.window = int(window)
    return made


def window_of(interpretation: Interpretation | None) -> int:
    """The number of switches that a chain keeps separate."""
    while interpretation is not None:
        if isinstance(interpretation, MomentMatching):
            return interpretation.window
        interpretation = interpretation.base
    return 1


def project(factor: Factor, names: Sequence[Name]) -> Factor | None:
    """Σ_c w_c N(m_c, V_c)  →  w N(m, V),  m = Σ_c p_c m_c,  V = Σ_c p_c (V_c + (m_c − m)(m_c − m)ᵀ),  p_c = w_c / w"""
    mixtures = [term for term in factor.terms if isinstance(term, Mixture)] if isinstance(factor, Product) else []
    if len(mixtures) == 1:
        others = [term for term in factor.terms if term is not mixtures[0]]  # type: ignore[attr-defined]
        joined = multiply_mixture(mixtures[0], combined(others))
        factor = joined if isinstance(joined, Mixture) else factor
    return matched(factor) if isinstance(factor, Mixture) and not _waits(factor) else None


def _waits(f: Mixture) -> bool:
    """A term says nothing of some direction, whatever its numbers are: it has no moments before a prior joins it."""
    return any(
        isinstance(term, Gaussian) and term.white and term.quadratic.rows < term.quadratic.size for term in f.components
    )


class Moments(NamedTuple):
    """Mass w·exp(s), mean and covariance of each term of a mixture; the terms along the axis after the batch."""

    weight: Data
    shift: Data
    mean: Data
    covariance: Data


def matched(f: Mixture) -> Gaussian:
    """The Gaussian of the same mass, mean and covariance, for each cell of the batch."""
    batch = {name: domain for name, domain in f.inputs.items() if domain.is_finite}
    reals = tuple((name, domain) for name, domain in f.inputs.items() if not domain.is_finite)
    parts = [_moments(component, f, batch, reals) for component in f.components]
    xp = namespace(*(data for part in parts for data in part))
    axis = len(batch)
    whole = Moments(*(xp.concatenate(list(pieces), axis=axis) for pieces in zip(*parts, strict=True)))
    return gaussian_of(match(whole, axis), batch, reals, f)


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
    volume = xp.sum(xp.log(xp.diagonal(L, axis1=-2, axis2=-1)), axis=-1) + 0.5 * size * math.log(2 * math.pi)
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


def _moments(component: Factor, f: Mixture, batch: dict[Name, Domain], reals: Reals) -> Moments:
    """Return the moments of one component, its bound indices flattened into one axis."""
    bounds = f.bound_in(component)
    names = (*batch, *bounds)
    shape = tuple(domain.extent for domain in (*batch.values(), *bounds.values()))
    mass, (mean_data, mean_names), (covariance_data, covariance_names) = term_moments(promoted(component), reals)
    weight, shift, *_ = mass.pair
    shift = shift if np.ndim(shift) else namespace(weight).full(weight.shape, shift, weight.dtype)
    weight, shift = (_spread(part, mass.names, names, shape, 0) for part in (weight, shift))
    data = (
        weight,
        shift,
        _spread(mean_data, mean_names, names, shape, 1),
        _spread(covariance_data, covariance_names, names, shape, 2),
    )
    width = math.prod(domain.extent for domain in bounds.values())
    axis = len(batch)
    return Moments(*(x.reshape((*x.shape[:axis], width, *x.shape[len(names) :])) for x in data))


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


def _spread(data: Data, own: tuple, names: tuple, shape: tuple, event: int) -> Data:
    aligned = align(data, own, names, event)
    return namespace(aligned).broadcast_to(aligned, (*shape, *aligned.shape[aligned.ndim - event :]))
