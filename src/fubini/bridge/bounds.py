"""What densities say of a variable by their ends: finitely many whole numbers, or a number from 0 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fubini.base.arrays import is_traced
from fubini.base.domains import Domain, Positive, Unit
from fubini.base.names import Name
from fubini.distributions.density import Density, Distribution
from fubini.distributions.supports import POSITIVE
from fubini.families.family import family_of, is_family
from fubini.terms.factor import Factor, terms_of
from fubini.terms.value import Array, Variable

OUTER = ("ExpandedDistribution", "Independent", "PowerDistribution")


class FamilyBounds(NamedTuple):
    """The least value and the greatest, where these are known, and the domain between them."""

    low: float
    high: float | None
    domain: Domain


def base_of(source: Distribution) -> Distribution:
    """A distribution without its expansions and powers."""
    inner = source.args[0] if source.family in OUTER else None
    return base_of(inner) if isinstance(inner, Distribution) else source


def bounds_between(source: Distribution, known: Mapping[str, np.ndarray | None], domain: Domain) -> FamilyBounds | None:
    """The bounds of a variable of this domain, by the known parameters of its distribution."""
    family = base_of(source).family
    if family in POSITIVE:
        return FamilyBounds(0.0, None, Positive.with_shape(domain.shape))
    low, high = known.get("low"), known.get("high")
    if low is None or not is_family(family) or not family_of(family).is_flat:
        return None
    if domain.is_discrete:
        return None if high is None else FamilyBounds(float(np.min(low)), float(np.max(high)), domain)
    if high is not None and np.all(low == 0) and np.all(high == 1):
        return FamilyBounds(0.0, 1.0, Unit.with_shape(domain.shape))
    if np.all(low >= 0):  # the bound above stays a test in its density
        return FamilyBounds(0.0, None, Positive.with_shape(domain.shape))
    return None


def known_bounds(f: Factor) -> dict[Name, FamilyBounds]:
    """Return the bounds of those variables of a product that have a density between known ends."""
    bounds: dict[Name, FamilyBounds] = {}
    for term in terms_of(f):
        if isinstance(term, Density) and isinstance(term.value, Variable) and not term.value.output.is_finite:
            base = base_of(term.distribution)
            parameters = {**dict(base.statics), **dict(zip(base.keys, base.args, strict=True))}
            known = {key: _known(value) for key, value in parameters.items()}
            ends = bounds_between(base, known, term.value.output)
            if ends is not None:
                bounds[term.value.name] = ends
    return bounds


def _known(value: Any) -> np.ndarray | None:
    """Whole numbers, or one number: the range of other numbers is no part of the key of a plan."""
    data = value.array if isinstance(value, Array) else value
    is_number = isinstance(data, (int, float, np.generic, np.ndarray, jax.Array)) and not is_traced(data)
    numbers = np.asarray(data) if is_number else None
    return numbers if numbers is not None and (numbers.dtype.kind in "iu" or not numbers.ndim) else None
