"""Draws of a model before it sees data, as ArviZ data: the groups `prior` and `prior_predictive`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fubini.base.arrays import Data, require_room, within_memory
from fubini.distributions.density import Distribution
from fubini.errors import DomainError, UnknownName, closest, listed
from fubini.models.call_values import FlatJoint
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.options import require_options, whole_number
from fubini.models.paths import flat, flat_sites
from fubini.models.question_heads import exact_prior
from fubini.models.sample import Given
from fubini.numerics.randomness import require_key
from fubini.questions.arviz_groups import observed_values, over_draws, require_axes
from fubini.questions.draw_block import Block
from fubini.questions.draws import arviz_data


@exact_prior.rule
def draw_from_prior(model: FlatModel, key: Any, options: dict) -> Any:
    """θ, y ~ p(θ, y)"""
    require_options("prior", options["options"], ("key", "draws", "observed", "dims", "coords"))
    require_key(key)
    draws = whole_number("draws", options["draws"])
    seen = data_sites(model, options["observed"], "prior(…)")
    values = prior_values(key, model, draws)
    inside = {name for name in values if _is_within(name, seen)}
    groups = {
        "prior": {name: value for name, value in values.items() if name not in inside},
        "prior_predictive": {name: value for name, value in values.items() if name in inside},
    }
    if getattr(model.joint, "observed", {}):
        groups["observed_data"] = _observed(key, model)
    kept = {name: group for name, group in groups.items() if group}
    dims, coords = options["dims"], options["coords"]
    require_axes(dims or {}, coords or {}, {name: value[0, 0] for name, value in values.items()})
    return arviz_data(kept, dims, coords)


def data_sites(model: FlatModel, observed: str | Sequence[str] | None, asked: str) -> tuple[str, ...]:
    """The sites that hold data, by name or path: those that were asked for, or those that are observed."""
    if observed is None:
        return tuple(flat(getattr(model.joint, "observed", {})))
    names = (observed,) if isinstance(observed, str) else tuple(observed)
    known = [site.name for site in model.outline.sites]
    for name in names:
        if name.split(".")[0] not in known:
            raise UnknownName(
                f"{asked} with the observed site {name!r}", expected=listed(known), nearest=closest(name, known)
            )
    if not names:
        raise DomainError(f"{asked} with observed=()", expected=f"a site that holds data: {listed(known)}")
    return names


def prior_values(key: Data, model: FlatJoint, draws: int) -> dict[str, np.ndarray]:
    """Values [1, draw, …] of all sites, by path, drawn from the model without its observations."""
    asked = f"{draws:,} draws of the prior"
    plain = FlatJoint(model.prior)
    domains = [site.domain for site in plain.outline.sites if site.domain is not None]
    require_room(asked, *((draws, *domain.shape) for domain in domains))
    with within_memory(asked), model.precision():
        return over_draws(_drawn, (), plain, key, {}, Block(1, draws))


def _drawn(joint: Flavour, key: Data, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Data]:
    sites = flat_sites(joint.run(Given({}, key)))
    return {name: site.value for name, site in sites.items() if site.value is not None}


def _is_within(path: str, names: Sequence[str]) -> bool:
    """Whether a site is one of these, or of a nested joint that is."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _observed(key: Data, model: FlatModel) -> dict[str, np.ndarray]:
    """What was observed, by path."""
    with model.precision():
        latents = over_draws(_latents, (), model, key, {}, Block(1, 1))
        return observed_values(model, latents)


def _latents(joint: Flavour, key: Data, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Data]:
    """One draw of the latents, observed sites held."""
    sites = flat_sites(joint.run(Given({}, key)))
    return {name: site.value for name, site in sites.items() if site.is_free and isinstance(site.source, Distribution)}
