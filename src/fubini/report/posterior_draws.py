"""Draws from ArviZ data: the numbers of each site, those that are shown, and the groups beside them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fubini.errors import DomainError
from fubini.questions.draws import Draws

SHOWN = 12  # numbers of a site that are shown, at most
FIGURES = 160  # numbers of all sites that have figures, at most
CHECKED = 100  # numbers of a site whose diagnostics are computed, at most


@dataclass(frozen=True)
class Quantity:
    """One number of a site: its draws [chain, draw]."""

    site: str
    label: str
    draws: np.ndarray

    @property
    def name(self) -> str:
        """The site with the place of the number in it: theta[3]."""
        return f"{self.site}{self.label}"

    @property
    def is_discrete(self) -> bool:
        """Whether its values are whole numbers."""
        return self.draws.dtype.kind in "biu"

    @property
    def finite(self) -> np.ndarray:
        """Its draws in one row, without those that are not finite."""
        flat = self.draws.astype(np.float64).reshape(-1)
        return flat[np.isfinite(flat)]


@dataclass(frozen=True)
class SiteDraws:
    """The draws of one site: an array [chain, draw, …], and labels along its axes where there are any."""

    name: str
    draws: np.ndarray
    labels: tuple[Sequence[Any], ...]

    @property
    def size(self) -> int:
        """How many numbers the site has."""
        return int(np.prod(self.draws.shape[2:], dtype=np.int64))

    def quantities(self, most: int = SHOWN) -> list[Quantity]:
        """The first numbers of the site."""
        return [self._quantity(entry) for entry in itertools.islice(np.ndindex(self.draws.shape[2:]), most)]

    def _quantity(self, entry: tuple[int, ...]) -> Quantity:
        places = [str(labels[place]) for labels, place in zip(self.labels, entry, strict=True)]
        return Quantity(self.name, f"[{', '.join(places)}]" if places else "", self.draws[:, :, *entry])

    def checked(self) -> np.ndarray:
        """Draws [chain, draw, number] of the numbers whose diagnostics are computed, spread evenly."""
        flat = self.draws.reshape(*self.draws.shape[:2], -1)
        return flat[..., :: -(-flat.shape[-1] // CHECKED) or 1]


@dataclass(frozen=True)
class PosteriorDraws:
    """What `infer` gave: draws by site, how they were made, and what was observed and predicted."""

    sites: Mapping[str, SiteDraws]
    method: str
    eliminated: tuple[str, ...]
    predictive: Mapping[str, np.ndarray]  # [chain, draw, …]
    observed: Mapping[str, np.ndarray]
    diverging: int | None

    @property
    def shape(self) -> tuple[int, int]:
        """How many chains, and how many draws of each."""
        return next((site.draws.shape[:2] for site in self.sites.values()), (0, 0))

    @property
    def shown(self) -> int:
        """How many numbers of each site are shown: fewer where there are many sites."""
        return max(1, min(SHOWN, FIGURES // max(len(self.sites), 1)))

    def quantities(self) -> Iterator[Quantity]:
        """The numbers that are shown."""
        for site in self.sites.values():
            yield from site.quantities(self.shown)

    def of_site(self, name: str) -> list[SiteDraws]:
        """The draws of a site, or of the sites of a nested joint; ArviZ has dots for slashes."""
        names = (name, name.replace("/", "."))
        return [
            site for key, site in self.sites.items() if key in names or key.startswith(tuple(f"{n}." for n in names))
        ]


def read_draws(draws: Any) -> PosteriorDraws:
    """Read ArviZ data (InferenceData, or from version 1 on DataTree), or what a label sampler drew."""
    data = draws.to_arviz() if isinstance(draws, Draws) else draws
    if not hasattr(data, "posterior") or not hasattr(data.posterior, "data_vars"):
        raise DomainError(
            f"draws of type {type(draws).__name__}",
            expected="ArviZ data with a posterior, as post.infer(key) gives, or the draws of a label sampler",
            advice="draws = post.infer(key)",
        )
    posterior = data.posterior
    sites = {str(name): _site(str(name), posterior[name]) for name in posterior.data_vars}
    stats = _arrays(data, "sample_stats")
    return PosteriorDraws(
        sites={name: site for name, site in sites.items() if site.draws.dtype.kind in "biuf" and site.size},
        method=str(posterior.attrs.get("method", "")),
        eliminated=_names(posterior.attrs.get("eliminated", ())),
        predictive=_arrays(data, "posterior_predictive"),
        observed=_arrays(data, "observed_data"),
        diverging=int(stats["diverging"].sum()) if "diverging" in stats else None,
    )


def _names(names: Any) -> tuple[str, ...]:
    """Names of an attribute, which a file turns from a list into an array, or into a string where there is one."""
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def _site(name: str, array: Any) -> SiteDraws:
    values = np.asarray(array.transpose("chain", "draw", ...).values)
    dims = [dim for dim in array.dims if dim not in ("chain", "draw")]
    labels = [array.coords[dim].values if dim in array.coords else range(array.sizes[dim]) for dim in dims]
    return SiteDraws(name, values, tuple(labels))


def _arrays(data: Any, group: str) -> dict[str, np.ndarray]:
    if not hasattr(data, group):
        return {}
    found = getattr(data, group)
    return {str(name): np.asarray(found[name].values) for name in found.data_vars}
