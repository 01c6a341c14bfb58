"""The Gaussian of the same mass, mean and covariance as boxes of Gaussians and sums of these."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from fubini.approximate.moment_matching import Moments, gaussian_of, match, term_moments
from fubini.base.arrays import Data, namespace
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import Intractable, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Reals
from fubini.terms.factor import Factor, Product, Unit, terms_of


def matched(f: Factor, batch: Mapping[Name, Domain], reals: Reals) -> Gaussian:
    """Σ_c w_c N(m_c, V_c) of all components and boxes  →  w N(m, V), for each cell of the batch."""
    return gaussian_of(match(stacked_moments(f, batch, reals), len(batch)), dict(batch), reals, f)


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
        order = _order(own.reals, reals)
        mean = pieces.mean[..., order], pieces.names
        covariance = pieces.covariance[..., order, :][..., :, order], pieces.names
        return _flat(pieces.mass, mean, covariance, {**bounds, **part.indices}, batch)
    mass, mean, covariance = term_moments(part, reals)
    return _flat(mass, mean, covariance, bounds, batch)


def _order(own: Reals, reals: Reals) -> list[int]:
    """The positions of the elements of some variables, in another order of these."""
    start, places = 0, {}
    for name, domain in own:
        size = math.prod(domain.shape)
        places[name] = range(start, start + size)
        start += size
    return [position for name, _ in reals for position in places[name]]


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


def require_moments(f: Factor, name: str) -> None:
    """Raise where a factor of a product is neither a Gaussian nor a box, and say which."""
    if not isinstance(f, Product):
        return
    opaque = [term for term in terms_of(f) if term.promotes and not isinstance(term, Unit)]
    raise Intractable(
        f"{name} of {f}",
        expected="Gaussians, tables, and factors that jump where a real variable crosses a number",
        nearest=f"{listed(opaque or terms_of(f))}: not read as any of these",
        advice="write the condition by comparisons with numbers, fb.ops.where(x[0] > 0, …), or as fb.Piecewise; "
        "or represent the variable by fb.rep.Particles or fb.rep.Grid, which read any function",
    )
