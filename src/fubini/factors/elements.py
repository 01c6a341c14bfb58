"""Marginals of array variables as marginals of their elements, for each cell of the plates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fubini.base.arrays import namespace
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.promotion import promoted
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_elimination as elimination
from fubini.terms.heads import ELEMENTS, exact_elements


@exact_elements.rule
def elements_of_mixture(f: Mixture, name: Name, plates: tuple) -> Mixture:
    """(Σ_c f_c) of each element  =  Σ_c of each element"""
    return Mixture(tuple(interpret(ELEMENTS, part, name, plates) for part in f.components), f.bounds)


@exact_elements.rule(when=lambda f, name, plates: len(f.reals) == 1)
def elements_of_gaussian(factor: Gaussian, name: Name, plates: tuple) -> Gaussian:
    """N(x; m, V) of each element  =  N(x[i]; m[i], V[i, i])"""
    domain = factor.inputs[name]
    cells = math.prod(domain.shape[: len(plates)])
    element = domain.with_shape(domain.shape[len(plates) :])
    size = math.prod(element.shape)
    conditional = factor.conditional(name)
    whole = conditional.covariance
    xp = namespace(whole)
    blocks = [whole[..., k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(cells)]
    extents = domain.shape[: len(plates)]
    batch = whole.shape[:-2]
    covariance = xp.stack(blocks, axis=-3).reshape((*batch, *extents, size, size))
    mean = conditional.mean.reshape((*conditional.mean.shape[:-1], *extents, size))
    return _from_moments(factor, name, element, plates, extents, mean, covariance, conditional)


def _from_moments(
    factor: Gaussian,
    name: Name,
    element: Domain,
    plates: Sequence[Name],
    extents: tuple[int, ...],
    mean: object,
    covariance: object,
    conditional: elimination.Conditional,
) -> Gaussian:
    """A normalised Gaussian for each cell, its mass that of the whole."""
    domains: Mapping[Name, Domain] = {
        **factor.inputs,
        **{plate: Bint[size] for plate, size in zip(plates, extents, strict=True)},
    }
    xp = namespace(covariance)
    K, K_names = xp.linalg.inv(covariance), (*conditional.names, *plates)
    h, h_names = numerics.by_name(
        lambda M, v: xp.matmul(M, v[..., None])[..., 0], (K, K_names, 2), (mean, (*conditional.mean_names, *plates), 1)
    )
    quadratic = numerics.Quadratic(h, h_names, K, K_names)
    made = Gaussian._of(factor.scale, quadratic, ((name, element),), domains)
    mass = factor.sum(name)
    one = made.normalize(name)
    return promoted(one * mass)  # type: ignore[return-value]
