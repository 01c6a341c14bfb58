"""Families by name: numpyro's, and those that are registered. Called with parameters one makes a Distribution."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fubini.distributions.density import STATIC, Distribution, foreign, has_traced_setting, spread
from fubini.distributions.makers import maker_names, maker_of
from fubini.distributions.same_distribution import transformed_family
from fubini.errors import DomainError, UnknownFamily, closest
from fubini.terms.value import to_array


class DistributionMaker:
    """A family by name: called with parameters it makes a Distribution.

    >>> fb.dist.Normal, fb.dist.Normal(loc=0.0, scale=2.0)
    (dist.Normal, Normal(loc=0, scale=2))
    """

    def __init__(self, name: str) -> None:
        self.name = name
        maker = maker_of(name)
        assert maker is not None
        self.maker: Callable = maker
        self.__doc__ = self.maker.__doc__

    def __call__(self, *args: Any, **named: Any) -> Distribution:
        parameters = inspect.signature(self.maker)
        try:
            bound = parameters.bind(*args, **named)
        except TypeError as error:
            raise DomainError(
                f"dist.{self.name} with {len(args)} arguments and {sorted(named)}",
                expected=f"{self.name}({', '.join(key for key in parameters.parameters if key != 'validate_args')})",
                nearest=str(error),
            ) from error
        given = {key: value for key, value in bound.arguments.items() if value is not None and key != "validate_args"}
        if (same := _transformed(self.name, given)) is not None:
            return same
        distribution = Distribution(self.name, {**_defaults(parameters, given), **given})
        if has_traced_setting(dict(distribution.statics)):
            return foreign(distribution.blueprint.build(to_array(value).array for value in distribution.leaf_values))
        return distribution

    def __repr__(self) -> str:
        return f"dist.{self.name}"


def _transformed(name: str, given: Mapping[str, Any]) -> Distribution | None:
    """A distribution after transforms, by the family that it is; None where it has no name."""
    whole, transforms = given.get("base_distribution"), given.get("transforms")
    if name != "TransformedDistribution" or not isinstance(whole, Distribution):
        return None
    base, event = whole, 0
    while base.family in ("ExpandedDistribution", "Independent"):
        event += dict(base.statics).get("reinterpreted_batch_ndims", 0)
        (base,) = (arg for arg in base.args if isinstance(arg, Distribution))
    if base.statics:
        return None
    several = transforms if isinstance(transforms, (list, tuple)) else [transforms]
    same = transformed_family(base.family, dict(zip(base.keys, base.args, strict=True)), several)
    return None if same is None else spread(Distribution(*same), whole.signature.shape, event)


def _defaults(parameters: inspect.Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that a parameter has when it is not given, in numpyro's order."""
    defaults = {}
    for key, parameter in parameters.parameters.items():
        number = isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool)
        if key not in given and number and key not in STATIC:
            defaults[key] = parameter.default
    return defaults


@cache
def family(name: str) -> DistributionMaker:
    """A family by name.

    >>> family("Gamma")(2.0, 3.0)
    Gamma(concentration=2, rate=3)
    """
    names = maker_names()
    if name not in names:
        raise UnknownFamily(
            f"dist.{name}",
            expected="a family of numpyro.distributions, or one that is registered",
            nearest=closest(name, names),
            advice="fb.register_family(…) adds one",
        )
    return DistributionMaker(name)
