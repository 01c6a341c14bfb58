"""The methods of `infer`: for each a function that makes the sampler of a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jax.sharding import Mesh

from fubini.errors import DomainError, closest, listed
from fubini.infer.grid import GridSampler
from fubini.infer.normal_approximation import laplace, svi
from fubini.infer.nuts import NutsOptions, nuts
from fubini.infer.sampler import Sampler
from fubini.infer.target import Target
from fubini.infer.tempered import TemperedSampler


class Settings(NamedTuple):
    """What a method may read: options of the no-U-turn sampler, whether to show progress, how many draws to make.

    With a mesh, chains lie along its axis `chains`.
    """

    nuts: NutsOptions = NutsOptions()
    progress: bool = True
    draws: int = 1000  # of each chain, for methods that draw all at once
    mesh: Mesh | None = None

    @property
    def warmup(self) -> int:
        """How many transitions come before the first draw, whatever the method."""
        return self.nuts.warmup


LABELS = "gibbs"  # draws labels; made of a model and not of a target
Method = Callable[[Target, Settings], Sampler]

METHODS: dict[str, Method] = {
    "grid": lambda target, settings: GridSampler(target, settings.progress),
    "nuts": lambda target, settings: nuts(target, settings.nuts, settings.mesh),
    "smc": lambda target, settings: TemperedSampler(target, settings.draws),
    "svi": lambda target, settings: svi(target, progress=settings.progress),
    "laplace": lambda target, settings: laplace(target),
}


def register_method(name: str, method: Method) -> None:
    """Add a method to `infer(key, method=name)`, made of a target and settings."""
    if name in (*METHODS, LABELS):
        raise DomainError(f"a method {name!r}", expected=f"a new name: there are {listed(METHODS)}")
    METHODS[name] = method


def require_method(name: str | None) -> None:
    """Raise unless a method is known, or None, which chooses."""
    known = (*METHODS, LABELS)
    if name is not None and name not in known:
        raise DomainError(
            f"method={name!r}", expected=f"one of {listed(known)}, or None to choose", nearest=closest(name, known)
        )
