"""The register of instances, by the names of their stored texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

import fubini as fb

INSTANCES: dict[str, Callable[[], Any]] = {}

KEY = jax.random.key(0)
WEATHER, LAWN = fb.Bint.labelled("dry", "wet"), fb.Bint.labelled("brown", "green")


def instance(make: Callable[[], Any]) -> Callable[[], Any]:
    """Register the maker of an instance under its name, which is that of the stored text."""
    assert make.__name__ not in INSTANCES, make.__name__
    INSTANCES[make.__name__] = cache(make)
    return INSTANCES[make.__name__]
