"""Flavours of joints: what each supplies, and the run that every question is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import jax
import numpyro.distributions as numpyro_families

from fubini.distributions.convert import from_numpyro_distribution
from fubini.distributions.density import Distribution
from fubini.distributions.named_site import Named
from fubini.errors import DomainError, FailedLine, FubiniError, NameClash, listed
from fubini.models.container import by_name
from fubini.models.outline import Outline, outline_of
from fubini.models.sample import Choice, Deterministic, Run, Site, sites_of
from fubini.terms.factor import Factor

RESERVED = ("key", "shape", "value", "name")

UNKNOWN_WHEN_TRACED = (
    jax.errors.ConcretizationTypeError,  # control flow on a value, a value as a size
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.NonConcreteBooleanIndexError,  # x[x > 0]
)

Sites = Generator[tuple[str, Any], Any, None]


class Flavour(ABC):
    """A model of named sites."""

    ordered = True  # values may be given by position

    # -- what a flavour supplies -------------------------------------------------------------------------------------

    @abstractmethod
    def sites(self) -> Sites:
        """The sites in order: yields (name, component) and is sent the value."""

    @abstractmethod
    def unflatten(self, values: Mapping[str, Any]) -> Any:
        """Values by name in the container that users see."""

    def flatten(self, value: Any, names: Sequence[str], what: str = "a value") -> dict[str, Any]:
        """The items of a container by name; what is absent or None is dropped."""
        return by_name(value, names, what, ordered=self.ordered)

    def flatten_inside(self, value: Any, names: Sequence[str], what: str) -> dict[str, Any]:
        """The same of a part of another joint, where any container will do unless the flavour has one of its own."""
        own = type(self).flatten is not Flavour.flatten
        return self.flatten(value, names, what) if own else by_name(value, names, what)

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, choice: Choice) -> Run:
        """The sites with their values, chosen one after the other."""
        visited_sites: list[Site] = []
        sites, sent = self.sites(), None
        for place in range(1_000_000):
            try:
                name, component = sites.send(sent)
                found, sent = visited(place, name, component, choice)
            except StopIteration:
                break
            except FubiniError:
                raise
            except (TypeError, ValueError, IndexError, AssertionError) as error:
                raise failed_inside(type(self).__name__, visited_sites, error) from error
            for site in found:
                self._require_name(site.name, visited_sites)
                visited_sites.append(site)
        return Run(tuple(visited_sites))

    def _require_name(self, name: str, visited_sites: list[Site]) -> None:
        require_not_reserved(name)
        if any(site.name == name for site in visited_sites):
            raise NameClash(f"two sites called {name!r}", expected="a name of its own for each site")

    @property
    def outline(self) -> Outline:
        """The sites with their domains, read without running the model on numbers."""
        return outline_of(self)


def require_not_reserved(name: str) -> None:
    """Raise where a name is an argument of `sample` or `log_prob`."""
    if name in RESERVED:
        raise NameClash(
            f"a site called {name!r}",
            expected=f"a name other than {listed(RESERVED)}, which are arguments of `sample` and `log_prob`",
            advice="give the site another name",
        )


def visited(place: int, name: str, component: Any, choice: Choice) -> tuple[tuple[Site, ...], Any]:
    """A component with its value, after entries of it that are missing, and what the model is sent for it."""
    if isinstance(component, Named):
        component = component.component
    if isinstance(component, numpyro_families.Distribution):
        component = from_numpyro_distribution(component)
    if isinstance(component, Distribution):
        chosen = choice.at(place, name, component)
        return sites_of(name, component, chosen), chosen.value
    if isinstance(component, Flavour):
        inner = component.run(choice.within(place, name))
        complete = {site.name: site.value for site in inner.sites if site.value is not None}
        value, sources = component.unflatten(inner.values), component.unflatten(inner.sources)
        observed = not inner.flat and any(site.observed for site in inner.sites)
        site = Site(name, sources, value, inner=inner, observed=observed, joint=component)
        return (site,), component.unflatten(complete)
    if isinstance(component, Deterministic):
        return (Site(name, component, component.value),), component.value
    if isinstance(component, Factor) and not component.inputs:
        return (Site(name, component, None, lambda: component.log().data),), None
    raise not_a_component(name, component)


def not_a_component(name: str, component: Any) -> DomainError:
    """The error of a site that is nothing a joint can have."""
    return DomainError(
        f"the component {component!r} of the site {name!r}",
        expected="a distribution, a joint, fb.deterministic(value) or a closed factor",
    )


def is_unknown_when_traced(error: Exception) -> bool:
    """The error is JAX's, of a number that is needed while a model is traced; as a shape it has no class of its own."""
    return isinstance(error, UNKNOWN_WHEN_TRACED) or "concrete values of integer type" in str(error)


def failed_inside(what: str, visited_sites: list[Site], error: Exception) -> FubiniError:
    """The error of a model whose own lines fail: what kind of mistake that usually is."""
    after = f"after the site {visited_sites[-1].name!r}" if visited_sites else "before its first site"
    first = (str(error).splitlines() or [type(error).__name__])[0]
    if is_unknown_when_traced(error):
        return _decided_by_value(f"{after} of {what}", first, error)
    return FailedLine(
        f"a line of {what} that fails, {after}",
        expected="functions of arrays: sites and arguments are JAX arrays, and each site is drawn with `yield`",
        nearest=f"{type(error).__name__}: {first}",
        advice=_advice_of(first),
    )


def _advice_of(message: str) -> str:
    if any(f"'{kind}'" in message for kind in ("list", "tuple")):
        return "lists do not compute: pass np.array(…)"
    if "only integers, slices" in message:
        return "an array has no columns by name: pass those of a data frame one by one, frame['x']"
    if "plate" in message:
        return "leave a plate of no rows out of the model"
    return "run the line on plain arrays to see what it needs; the traceback above has its place"


def _decided_by_value(where: str, first: str, error: Exception) -> DomainError:
    """A model that must know a number while it is traced: by a function of NumPy, of pandas, or by a branch."""
    traced = "a model of JAX arrays: sites are traced, and their numbers are not known"
    if _is_from(error, "pandas"):
        return DomainError(
            f"pandas on a random value or a parameter, {where}",
            expected=traced,
            nearest=first,
            advice="take the numbers first: x = jnp.asarray(frame['x'].to_numpy()), and pass x to the model",
        )
    if isinstance(error, jax.errors.TracerArrayConversionError) or "`float`" in str(error):
        return DomainError(
            f"a function of NumPy or math on a random value or a parameter, {where}",
            expected=traced,
            nearest=first,
            advice="use jax.numpy: jnp.exp(x) in place of np.exp(x) or math.exp(x), jnp.asarray(table)[x] for table[x]",
        )
    return DomainError(
        f"control flow on a random value or a parameter, {where}",
        expected="a model that runs the same way for all values: sites are traced, and their numbers are not known",
        nearest=first,
        advice="choose with jnp.where or jax.lax.cond; sizes and flags go in as int or bool arguments",
    )


def _is_from(error: Exception, package: str) -> bool:
    """Whether some line of the traceback is of this package."""
    place = error.__traceback__
    while place is not None:
        if f"/{package}/" in place.tb_frame.f_code.co_filename.replace("\\", "/"):
            return True
        place = place.tb_next
    return False
