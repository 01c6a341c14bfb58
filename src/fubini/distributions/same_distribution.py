"""Distributions that numpyro writes as functions of others, by the family that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as numpyro_families
from numpyro.distributions import transforms as numpyro_transforms

# Families of a location and a scale, symmetric about the location: a + b x is in the family, for every b but 0.
SYMMETRIC = frozenset(("Normal", "StudentT", "Cauchy", "Laplace", "Logistic"))
EXPONENTIAL = {"Normal": "LogNormal"}  # the family of e^x
TRUNCATED = (
    numpyro_families.LeftTruncatedDistribution,
    numpyro_families.RightTruncatedDistribution,
    numpyro_families.TwoSidedTruncatedDistribution,
)

Named = tuple[str, dict[str, Any]]  # a family, and its parameters


def transformed_family(family: str, parameters: Mapping[str, Any], transforms: Sequence[Any]) -> Named | None:
    """The family of a number of a family after transforms, a + b x or e^x; None where it has no name.

    >>> transformed_family("Normal", {"loc": 1.0, "scale": 2.0}, [numpyro_transforms.AffineTransform(1.0, -3.0)])
    ('Normal', {'loc': -2.0, 'scale': 6.0})
    """
    current = dict(parameters)
    for transform in transforms:
        if type(transform) is numpyro_transforms.AffineTransform and family in SYMMETRIC:
            loc, scale = (current.get(key, default) for key, default in (("loc", 0.0), ("scale", 1.0)))
            current |= {"loc": transform.loc + transform.scale * loc, "scale": _size(transform.scale) * scale}
        elif type(transform) is numpyro_transforms.ExpTransform and family in EXPONENTIAL:
            family = EXPONENTIAL[family]
        else:
            return None
    return family, current


def _size(of: Any) -> Any:
    return abs(of) if isinstance(of, (int, float)) else jnp.abs(of)


def named_family(distribution: Any) -> Named | None:
    """A numpyro distribution by the family that it is, for each number; None where it is what its class says."""
    if isinstance(distribution, TRUNCATED):
        normal = distribution.base_dist
        if type(normal) is not numpyro_families.Normal:
            return None
        ends = {key: getattr(distribution, key) for key in ("low", "high") if hasattr(distribution, key)}
        return "TruncatedNormal", {"loc": normal.loc, "scale": normal.scale, **ends}
    if type(distribution) is not numpyro_families.TransformedDistribution:
        return None
    base = distribution.base_dist
    while isinstance(base, (numpyro_families.ExpandedDistribution, numpyro_families.Independent)):
        base = base.base_dist
    if type(base) is not getattr(numpyro_families, type(base).__name__, None):
        return None  # a class of the user's
    keys = type(base).arg_constraints
    parameters = {key: getattr(base, key) for key in keys if hasattr(base, key)}
    return transformed_family(type(base).__name__, parameters, distribution.transforms)
