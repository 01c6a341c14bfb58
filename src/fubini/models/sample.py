"""One run of a model: its sites in order, each with what it was drawn from, its value and its log-density.

Every question to a joint is a run. What differs is the choice of values: given, drawn, or mapped from unconstrained
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import blank, draw, draw_and_log_density, log_density
from fubini.distributions.density import Distribution
from fubini.errors import DataError, NoRule, listed
from fubini.terms.numbers import shown_value


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Deterministic:
    """A value computed from others: it is part of a sample, and need not be given back."""

    value: Any

    def __repr__(self) -> str:
        return f"Deterministic(value={shown_value(self.value)})"

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple) -> Deterministic:
        return cls(*children)


def deterministic(value: Any) -> Deterministic:
    """A site that holds a computed value: `rate = yield fb.deterministic(jnp.exp(z))`.

    >>> deterministic(2.0)
    Deterministic(value=2.0)
    """
    return Deterministic(value)


class Runnable(Protocol):
    """A joint, as far as a run and an outline need it."""

    def run(self, choice: Choice) -> Run:
        """The sites with their values, chosen one after the other."""
        ...

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        """Values by name in the container that users see."""
        ...

    def flatten_inside(self, value: Any, names: Sequence[str], what: str) -> dict[str, Any]:
        """The items of a container by name, as a part of another joint."""
        ...


@dataclass(frozen=True)
class Site:
    """One site of a run. Those of a nested joint are in `inner`; source and value are structures then."""

    name: str
    source: Any
    value: Any
    log_density: Callable[[], Data] | None = None  # asked for when it is needed
    inner: Run | None = None
    observed: bool = False
    joint: Runnable | None = None  # the nested joint

    @property
    def is_free(self) -> bool:
        """Whether its value is neither computed from others nor observed."""
        return not self.observed and (self.inner is not None or isinstance(self.source, Distribution))

    @property
    def log_prob(self) -> Data:
        """The log-density at the value; 0 for what is computed."""
        if self.inner is not None:
            return self.inner.log_prob
        return jnp.zeros(()) if self.log_density is None else self.log_density()


@dataclass(frozen=True)
class Run:
    """The sites in order."""

    sites: tuple[Site, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The values by name; sites that are observed, or only weigh, are not among them."""
        return {site.name: site.value for site in self.sites if site.value is not None and not site.observed}

    @property
    def flat(self) -> dict[str, Any]:
        """The values that a density needs, those of nested joints as dicts."""
        return {site.name: site.value if site.inner is None else site.inner.flat for site in self.sites if site.is_free}

    @property
    def complete(self) -> dict[str, Any]:
        """The values of all sites that have one, those of nested joints as dicts."""
        return {
            site.name: site.value if site.inner is None else site.inner.complete
            for site in self.sites
            if site.value is not None
        }

    @property
    def sources(self) -> dict[str, Any]:
        """The distribution that each site with a value of its own was drawn from."""
        return {site.name: site.source for site in self.sites if site.is_free}

    @property
    def parts(self) -> dict[str, Data]:
        """The log-density of each site that has one; those of a nested joint are added up."""
        return {site.name: site.log_prob for site in self.sites if site.inner is not None or site.log_density}

    @property
    def log_weight(self) -> Data:
        """The log-density of the observed sites, and of what only weighs."""
        weighed = [site.log_density() for site in self.sites if site.log_density and not site.is_free]
        inner = [site.inner.log_weight for site in self.sites if site.inner is not None]
        return sum((*weighed, *inner), start=jnp.zeros(()))

    @property
    def log_prob(self) -> Data:
        """The log-density of the whole."""
        return sum(self.parts.values(), start=jnp.zeros(()))


class Chosen(NamedTuple):
    """The value of a site, and its log-density when asked for; entries of it that are missing are a site themselves."""

    value: Any
    log_density: Callable[[], Any]
    observed: bool = False
    missing: Site | None = None


def sites_of(name: str, source: Distribution, chosen: Chosen) -> tuple[Site, ...]:
    """A random site, after the entries of it that are missing."""
    site = Site(name, source, chosen.value, chosen.log_density, observed=chosen.observed)
    return (site,) if chosen.missing is None else (chosen.missing, site)


class Choice(Protocol):
    """A rule that chooses the value of each site."""

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        """The value of a site."""
        ...

    def within(self, place: int, name: str) -> Choice:
        """The choice for the sites of a nested joint."""
        ...

    def beside(self, place: int) -> Choice:
        """The choice for one of several joints with the same sites."""
        ...

    def pick(self, place: int, index: Distribution) -> Data:
        """Choose which of several joints the values are taken from."""
        ...

    def again(self, values: Mapping[str, Any]) -> Choice:
        """The same observations, the other sites at these values."""
        ...

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        """Return a key and the known series for sites inside a scan, which chooses their values itself."""
        ...

    def with_value(self, name: str, source: Distribution, value: Data) -> Chosen:
        """A site whose value was chosen elsewhere."""
        ...


@dataclass(frozen=True)
class Given:
    """Values as given; the others are drawn, each with a key of its own that does not depend on what is given."""

    values: Mapping[str, Any]
    key: Data | None = None
    path: str = ""

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        if name in self.values:
            value = self.values[name]
        elif self.key is None:
            raise missing(f"{self.path}{name}", self.values)
        else:
            value = self._drawn(jax.random.fold_in(self.key, place), source)
        return Chosen(value, lambda: log_density(source, value))

    def _drawn(self, key: Data, source: Distribution) -> Data:
        return draw(source, key)

    def within(self, place: int, name: str) -> Given:
        key = None if self.key is None else jax.random.fold_in(self.key, place)
        return type(self)(self.values.get(name, {}), key, f"{self.path}{name}.")

    def beside(self, place: int) -> Given:
        key = None if self.key is None else jax.random.fold_in(self.key, place)
        return type(self)(self.values, key, self.path)

    def pick(self, place: int, index: Distribution) -> Data:
        return 0 if self.key is None else draw(index, jax.random.fold_in(self.key, place))

    def again(self, values: Mapping[str, Any]) -> Given:
        return Given(values)

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        key = None if self.key is None else jax.random.fold_in(self.key, place)
        return key, lambda site: self.values.get(site["name"])

    def with_value(self, name: str, source: Distribution, value: Data) -> Chosen:
        return Chosen(value, lambda: log_density(source, value))


class Factored(Given):
    """Values as given, of a joint whose density is a product over its sites."""

    def beside(self, place: int) -> Factored:
        raise NoRule(
            "the factors of a mixture of joints",
            expected="a joint whose density is a product of the densities of its sites",
            advice="ask each component, and add up weight times evidence",
        )


class Flowing(Given):
    """Draws whose log-density comes with them, so that no transform is inverted."""

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        if name in self.values or self.key is None:
            return super().at(place, name, source)
        value, log_prob = draw_and_log_density(source, jax.random.fold_in(self.key, place))
        return Chosen(value, lambda: log_prob)


class Alike:
    """A choice that is the same for each of several joints."""

    def beside(self, place: int) -> Self:
        return self

    def pick(self, place: int, index: Distribution) -> Data:
        return 0

    def again(self, values: Mapping[str, Any]) -> Given:
        return Given(values)

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        return jax.random.key(0), lambda site: None

    def with_value(self, name: str, source: Distribution, value: Data) -> Chosen:
        return Chosen(value, lambda: log_density(source, value))


class Blank(Alike):
    """Zeros: for runs that only look at shapes."""

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        return Chosen(blank(source), lambda: jnp.zeros(()))

    def within(self, place: int, name: str) -> Blank:
        return self


def missing(name: str, given: Iterable[str]) -> DataError:
    """The error of a value that is needed."""
    return DataError(
        f"no value for the site {name!r}",
        expected=f"a value for every site; given were {listed(given)}",
        advice="log_prob needs them all; `condition` fixes some, `sample` draws the others",
    )
