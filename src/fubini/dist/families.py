"""Families: numpyro's, by name. Called with parameters one makes a Distribution."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import numpyro.distributions as numpyro_families

from fubini.dist.density import STATIC, Distribution, foreign, has_traced_setting
from fubini.errors import DomainError, UnknownFamily, closest
from fubini.terms.value import to_array


class Family:
    """A family by name: called with parameters it makes a Distribution."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.maker: Callable = getattr(numpyro_families, name)
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
        found = Distribution(self.name, {**_defaults(parameters, given), **given})
        if has_traced_setting(dict(found.statics)):
            return foreign(found.blueprint.build(to_array(value).array for value in found.leaf_values))
        return found

    def __repr__(self) -> str:
        return f"dist.{self.name}"


def _defaults(parameters: inspect.Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that a parameter has when it is not given, in numpyro's order."""
    found = {}
    for key, parameter in parameters.parameters.items():
        number = isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool)
        if key not in given and number and key not in STATIC:
            found[key] = parameter.default
    return found


@cache
def family(name: str) -> Family:
    """One of numpyro's families by name."""
    names = family_names()
    if name not in names:
        raise UnknownFamily(
            f"dist.{name}",
            expected="a family of numpyro.distributions",
            nearest=closest(name, names),
        )
    return Family(name)


@lru_cache(maxsize=1)
def family_names() -> tuple[str, ...]:
    """The names of all families."""
    other = {"biject_to", "constraints", "kl_divergence", "transforms", "Distribution"}
    return tuple(name for name in numpyro_families.__all__ if name not in other)
