"""Makers of distributions by name: numpyro's families, and those that users registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpyro.distributions as numpyro_families

_OTHERS = frozenset(("biject_to", "constraints", "kl_divergence", "transforms", "Distribution"))  # no families
_REGISTERED: dict[str, Callable[..., Any]] = {}


def maker_of(name: str) -> Callable[..., Any] | None:
    """The function or class that makes distributions of a family; None where there is no such family."""
    return _REGISTERED.get(name) or getattr(numpyro_families, name, None)


def family_names() -> tuple[str, ...]:
    """The names of numpyro's families.

    >>> family_names()[:3]
    ('AsymmetricLaplace', 'AsymmetricLaplaceQuantile', 'Bernoulli')
    """
    return tuple(name for name in numpyro_families.__all__ if name not in _OTHERS)


def maker_names() -> tuple[str, ...]:
    """The names of all families, those that are registered last."""
    return (*family_names(), *_REGISTERED)


def register_maker(name: str, maker: Callable[..., Any]) -> None:
    """A family that `fubini.distributions` has from now on."""
    assert name not in maker_names(), f"two families {name}"
    _REGISTERED[name] = maker
