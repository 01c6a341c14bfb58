"""Values of an old model at the sites of a new one: arrays that are longer there go on from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import draw, log_density, parameters
from fubini.distributions.continuation import draw_continued, is_independent_along, longer_axis
from fubini.distributions.density import Distribution
from fubini.errors import DomainError
from fubini.models.missing_entries import Partly
from fubini.models.sample import Chosen, Given

DRAWS = 64  # by which the distributions of some entries are compared


@dataclass(frozen=True)
class Continued(Given):
    """Values as given, the others drawn; where a site is longer than its value, its other entries given the first.

    `observed` are values that are shorter than their sites: used where later entries depend on the first ones.
    """

    observed: Mapping[str, Any] = field(default_factory=dict)

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        value, shape = self.values.get(name), source.domain.shape
        if value is None and name in self.observed:
            axis = longer_axis(shape, _shape(self.observed[name]))
            if axis is not None and not is_independent_along(source, axis):
                value = self._complete(name)
        if value is None or jnp.shape(value) == shape or self.key is None:
            return super().at(place, name, source)
        axis = longer_axis(shape, jnp.shape(value))
        if axis is None:
            raise does_not_fit(f"{self.path}{name}", shape, jnp.shape(value))
        value = draw_continued(source, jax.random.fold_in(self.key, place), jnp.asarray(value), axis)
        return Chosen(value, lambda: log_density(source, value))

    def within(self, place: int, name: str) -> Continued:
        inner = super().within(place, name)
        return Continued(inner.values, inner.key, inner.path, self.observed.get(name, {}))

    def beside(self, place: int) -> Continued:
        inner = super().beside(place)
        return Continued(inner.values, inner.key, inner.path, self.observed)

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        key, _ = super().series(place)

        def known(site: Any) -> Data | None:
            name, shape = site["name"], site["fn"].shape() if site["type"] == "sample" else ()
            value = self.values[name] if name in self.values else self._complete(name)
            if value is not None and jnp.shape(value)[1:] != tuple(shape):
                raise does_not_fit(f"{self.path}{name}", ("steps", *shape), jnp.shape(value))
            return value

        return key, known

    def _complete(self, name: str) -> Data | None:
        """The observed values of a site, of which none may be missing."""
        value = self.observed.get(name)
        if isinstance(value, Partly):
            raise DomainError(
                f"predictions of {self.path}{name}, a series that was observed with missing entries",
                expected="observed values at all of the first places, from which it goes on",
                advice=f"new={name!r} draws it from its beginning; a latent series, observed with noise, may have gaps",
            )
        return value


def _shape(value: Any) -> tuple[int, ...]:
    return jnp.shape(value.value if isinstance(value, Partly) else value)


def does_not_fit(name: str, shape: tuple, given: tuple[int, ...]) -> DomainError:
    """The error of draws whose shape no site of the new model continues."""
    sizes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    return DomainError(
        f"predictions from draws of {name!r}, which have the shape {given}, by a model where it has ({sizes})",
        expected="the same shape, or one axis that is longer: its first entries are those of the draws",
        advice=f"make the new model with the old entries first; new={name!r} draws all of {name!r} from it anew",
    )


def traits_of_first(source: Distribution, first: tuple[int, ...], key: Data) -> list[Data]:
    """Numbers that differ where the distributions of the first entries of a value do: parameters, or a few draws."""
    if source.domain.shape == first:
        return parameters(source)
    draws = jax.vmap(lambda key: draw(source, key))(jax.random.split(key, DRAWS))
    return [draws[(slice(None), *map(slice, first))]]
