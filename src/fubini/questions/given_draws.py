"""Draws by name, as users have them: ArviZ data, arrays [chain, draw, …]; checked against the latents of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.errors import DataError, DomainError, UnknownName, closest, listed
from fubini.models.calls import is_inside
from fubini.models.draw_arrays import draw_array, group_of, key_in
from fubini.models.flat_model import FlatModel


class GivenDraws(NamedTuple):
    """Draws of latents by name [draw, …], chains one after another, and the sizes (chains, draws)."""

    values: dict[str, Data]
    lead: tuple[int, int]


def draws_of(model: FlatModel, draws: Any, asked: str = "predictions") -> GivenDraws:
    """Draws of the latents of a model: of ArviZ data, or of arrays [chain, draw, …]."""
    group, domains = group_of(draws), dict(model.outline.free_domains())
    arrays = {name: draw_array(group[_key(name, group, domains, asked)]) for name in domains}
    for name, array in arrays.items():
        _require_shape(name, array, domains[name], asked)
    leads = {array.shape[:2] for array in arrays.values()}
    if len(leads) > 1:
        each = ", ".join(f"{name}: {array.shape[:2]}" for name, array in arrays.items())
        raise DomainError(
            f"{asked} from draws of the shapes {each}", expected="as many chains and draws of each latent"
        )
    for name, array in arrays.items():
        require_values(name, array, domains[name], asked)
    lead = next(iter(leads), (1, 1))
    flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}
    return GivenDraws({n: v.astype(int) if domains[n].is_discrete else v for n, v in flat.items()}, lead)


def _key(name: str, group: Mapping[str, Any], domains: Mapping[str, Domain], asked: str) -> str:
    """The name under which draws of a latent are kept, or the error that there are none."""
    key = key_in(group, name)
    if key is not None:
        return key
    raise UnknownName(
        f"{asked} from draws without the latent {name!r}",
        expected=f"draws of all latents: {listed(domains)}",
        nearest=closest(name, list(group)) or f"the draws are of {listed(sorted(map(str, group)))}",
        advice="those of infer(key) have all; recover(key, draws) draws eliminated ones back; draws of another model"
        " do not fit",
    )


def _require_shape(name: str, array: np.ndarray, domain: Domain, asked: str) -> None:
    if array.ndim < 2 or array.shape[2:] != domain.shape:
        raise DomainError(
            f"{asked} from draws of {name!r} of shape {array.shape}",
            expected=f"the shape (chains, draws{''.join(f', {size}' for size in domain.shape)})",
            nearest=f"in the model that was asked, {name!r} has the shape {domain.shape}",
            advice="draws of another model, or without an axis of chains, do not fit: array[None] is one chain",
        )


def require_values(name: str, array: np.ndarray, domain: Domain, asked: str) -> None:
    """Raise where a draw is not a value of its latent."""
    wrong = ~is_inside(domain, array)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise DataError(
            f"{asked} from draws of {name!r}",
            expected=f"values of domain {domain!r}",
            nearest=f"chain {place[0]}, draw {place[1]} has {array[place]}" + (f" at {place[2:]}" if place[2:] else ""),
            advice="draws that are not numbers are those of a sampler that failed; others may be of another model",
        )
