"""Observations: values held at their sites, without entries that are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced
from fubini.base.distant import is_distant
from fubini.distributions.array_distribution import log_density
from fubini.distributions.density import Distribution
from fubini.errors import DataError, DomainError, NoRule, UnknownName, closest, listed
from fubini.models.call_values import FlatJoint
from fubini.models.calls import require_in_domain, shaped
from fubini.models.missing_entries import Partly, log_density_of_present, name_of_missing, partly_observed
from fubini.models.outline import Outline
from fubini.models.sample import Choice, Chosen, Site


@dataclass(frozen=True)
class Held:
    """Observed sites at their values; the others as another choice has them."""

    observed: Mapping[str, Any]
    choice: Choice

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        if name not in self.observed:
            return self.choice.at(place, name, source)
        value = self.observed[name]
        if isinstance(value, Partly):
            return self._partly(place, name, source, value)
        return Chosen(value, lambda: log_density(source, value), True)

    def _partly(self, place: int, name: str, source: Distribution, value: Partly) -> Chosen:
        """An array with missing entries, which are a latent beside it where other sites read them."""
        if value.gaps is None:
            return Chosen(value.value, lambda: log_density_of_present(source, value), True)
        gap = value.gap(source)
        chosen = self.choice.at(place, name_of_missing(name), gap)
        missing = Site(name_of_missing(name), gap, chosen.value, chosen.log_density)
        return Chosen(
            value.filled(chosen.value, gap.domain), lambda: log_density_of_present(source, value), True, missing
        )

    def within(self, place: int, name: str) -> Choice:
        inner = self.choice.within(place, name)
        return Held(self.observed[name], inner) if name in self.observed else inner

    def beside(self, place: int) -> Held:
        return Held(self.observed, self.choice.beside(place))

    def pick(self, place: int, index: Distribution) -> Data:
        return self.choice.pick(place, index)

    def again(self, values: Mapping[str, Any]) -> Held:
        return Held(self.observed, self.choice.again(values))

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        key, find = self.choice.series(place)

        def known(site: Any) -> Data | None:
            name = site["name"]
            if name not in self.observed:
                return find(site)
            value = self.observed[name]
            if isinstance(value, Partly) and value.gaps is not None:
                raise NoRule(
                    f"missing entries of {name!r}, which later steps of a scan depend on",
                    expected="a series observed at all steps",
                    advice="write the steps one by one, or observe a latent series with noise: that may have gaps",
                )
            return value

        return key, known

    def with_value(self, name: str, source: Distribution, value: Data) -> Chosen:
        return self.at(0, name, source) if name in self.observed else self.choice.with_value(name, source, value)


def observations(flat_joint: FlatJoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """Observed values by name, checked: shapes and domains; what is missing and read by others is latent."""
    read = {name for reached in flat_joint.outline.reached.values() for name in reached}
    return {name: _observed(flat_joint.outline, name, value, name, name in read) for name, value in given.items()}


def interventions(flat_joint: FlatJoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values that are set by name, checked: shapes, domains, and that none is missing, observed or computed."""
    return {name: _intervention(flat_joint.outline, name, value, name) for name, value in given.items()}


def _intervention(outline: Outline, name: str, value: Any, path: str) -> Any:
    site = outline[name]
    if site.inner is not None:
        return {inner: _intervention(site.inner, inner, item, f"{path}.{inner}") for inner, item in value.items()}
    if site.kind != "random":
        raise DomainError(
            f"do({path}=…), a site that is computed from others",
            expected="a site that is random, which is then set from outside",
            advice="set what it is computed from",
        )
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DomainError(f"do({path}=…) with missing entries", expected="a value of the whole site")
    return _observed(outline, name, value, path, False)


def _observed(outline: Outline, name: str, value: Any, path: str, is_read: bool) -> Any:
    site = outline[name]
    if site.kind == "deterministic":
        raise DomainError(
            f"an observation of {path!r}, which is computed from other sites",
            expected="a random site",
            advice="observe what it is computed from, or give it a distribution of its own",
        )
    if site.inner is not None:
        return {inner: _observed(site.inner, inner, item, f"{path}.{inner}", is_read) for inner, item in value.items()}
    missing = isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value)
    array = shaped(np.ma.getdata(value) if isinstance(value, np.ma.MaskedArray) else value, site, path, batch=False)
    if is_distant(array):
        require_in_domain(site.domain, array, path)
        return array
    if missing:
        present = ~np.ma.getmaskarray(value)
        filled = np.where(present, array, 0)
        require_in_domain(site.domain, filled, path, present)
        return partly_observed(filled, present, site, path, is_read)
    if not is_traced(array):
        require_in_domain(site.domain, np.asarray(array), path)
    return array if is_jax(array) else np.array(array)


def merged(first: Mapping[str, Any], second: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """The observations of both; one site may not be observed as two values."""
    observed = dict(first)
    for name, value in second.items():
        here = (*path, name)
        if isinstance(value, dict) and isinstance(observed.get(name), dict):
            observed[name] = merged(observed[name], value, here)
        elif name in observed:
            raise DataError(
                f"an observation of {'.'.join(here)!r}, which is observed already",
                expected="each site once",
                advice=f"uncondition({here[0]!r}) takes the first one back",
            )
        else:
            observed[name] = value
    return observed


def without(observed: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The observations of the other sites."""
    for name in names:
        if name not in observed:
            raise UnknownName(
                f"uncondition({name!r})",
                expected=f"an observed site: {listed(observed)}",
                nearest=closest(name, observed),
            )
    return {name: value for name, value in observed.items() if name not in names}
