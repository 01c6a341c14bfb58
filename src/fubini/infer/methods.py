"""The methods of `infer`: for each a function that makes the sampler of a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fubini.errors import DomainError, closest, listed
from fubini.infer.grid import GridSampler
from fubini.infer.normal_approximation import laplace, svi
from fubini.infer.nuts import NutsOptions, nuts
from fubini.infer.sampler import Sampler
from fubini.infer.target import Target


class Settings(NamedTuple):
    """What a method may read: options of the no-U-turn sampler, and whether to show progress."""

    nuts: NutsOptions = NutsOptions()
    progress: bool = True


Method = Callable[[Target, Settings], Sampler]

METHODS: dict[str, Method] = {
    "grid": lambda target, settings: GridSampler(target, settings.progress),
    "nuts": lambda target, settings: nuts(target, settings.nuts),
    "svi": lambda target, settings: svi(target, progress=settings.progress),
    "laplace": lambda target, settings: laplace(target),
}


def require_method(name: str | None) -> None:
    """Raise unless a method is known, or None, which chooses."""
    if name is not None and name not in METHODS:
        raise DomainError(
            f"method={name!r}", expected=f"one of {listed(METHODS)}, or None to choose", nearest=closest(name, METHODS)
        )
