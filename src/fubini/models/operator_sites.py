"""Models written in operators and `fb.ops`: the sites of a run as variables, their densities as factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fubini.base.domains import Domain
from fubini.bridge.disintegration import arrays_of
from fubini.distributions.density import Distribution
from fubini.errors import DomainError, FailedLine, FubiniError, listed
from fubini.factors.table import Table
from fubini.models.flavour import Flavour
from fubini.models.missing_entries import Partly
from fubini.models.outline import Outline
from fubini.models.sample import Alike, Chosen, Factored, Run
from fubini.terms.factor import Factor
from fubini.terms.value import Variable


@dataclass
class Symbols(Alike):
    """Each site as a variable, the observed ones at their values; their densities are collected."""

    observed: Mapping[str, Any]
    path: str
    factors: list[Factor]
    variables: list[Variable]
    read: dict[str, set[str]]  # by the first part of a site's path, the first parts of what its factors read

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        return self.with_value(name, source, self.symbol(name, source.domain))

    def with_value(self, name: str, source: Distribution, value: Any) -> Chosen:
        factor = source(value)
        self.factors.append(factor)
        self.read.setdefault(_first(f"{self.path}{name}"), set()).update(map(_first, factor.inputs))
        return Chosen(value, lambda: 0.0)

    def symbol(self, name: str, domain: Domain) -> Any:
        """The value of an observed site, a variable for one that is not."""
        value = self.observed.get(name)
        if isinstance(value, Partly):
            raise DomainError(
                f"the factors of {name!r}, which has missing entries", expected="a site observed as a whole"
            )
        if value is None:
            value = Variable(f"{self.path}{name}", domain)
            self.variables.append(value)
        return value

    def beside(self, place: int) -> Any:
        return Factored({}).beside(place)

    def within(self, place: int, name: str) -> Symbols:
        return Symbols(self.observed.get(name, {}), f"{self.path}{name}.", self.factors, self.variables, self.read)


def _first(path: Any) -> str:
    return str(path).split(".")[0]


def factors_of(joint: Flavour, outline: Outline) -> tuple[list[Factor], list[Variable]]:
    """The densities of a model whose parameters are written in operators and `fb.ops`, and its free variables."""
    symbols = Symbols(getattr(joint, "observed", {}), "", [], [], {})
    try:
        run = getattr(joint, "joint", joint).run(symbols)
        symbols.factors.extend(_weights(run))
    except (TypeError, IndexError, AttributeError) as error:  # of functions and methods of arrays
        if isinstance(error, FubiniError) and not isinstance(error, FailedLine):
            raise
        raise DomainError(
            "the factors of a model",
            expected="parameters written in operators and fb.ops",
            nearest=str(error.__cause__ or error).splitlines()[0],
            advice="fb.ops.exp(x) in place of jnp.exp(x), or fb.lift(function)(x)",
        ) from error
    for factor in symbols.factors:
        _require_whole(factor)
    _require_all_read(symbols.read, outline)
    return symbols.factors, symbols.variables


def _require_all_read(read: Mapping[str, set[str]], outline: Outline) -> None:
    """Raise if a site has lost a latent: JAX's functions of trees take a Value for the numbers that it holds."""
    free = set(outline.free)

    def latents(site: str) -> set[str]:
        parents = [other for other in outline.reached.get(site, ()) if other != site]
        return {name for other in parents for name in ({other} if other in free else latents(other))}

    for site, seen in read.items():
        if lost := sorted(latents(site) - seen):
            raise DomainError(
                f"the factor of {site!r}",
                expected=f"a function of {listed(lost)}",
                nearest=f"of {listed(sorted(seen))} alone" if seen else "a number",
                advice="the model is read in plain JAX",
            )


def _require_whole(factor: Factor) -> None:
    """Raise if an array has axes that its domain does not have, as one that came out of `jax.vmap` has."""
    for array in arrays_of(factor):
        rank = len(array.names) + len(array.output.shape)
        if np.ndim(array.array) != rank:
            raise DomainError(
                f"a parameter with an array of shape {np.shape(array.array)}",
                expected=f"{rank} axes",
                nearest="a function of a site that jax.vmap maps",
                advice="the model is read in plain JAX",
            )


def _weights(run: Run) -> Iterator[Factor]:
    """The factors among the sites, and the numbers that only weigh."""
    for site in run.sites:
        if site.inner is not None:
            yield from _weights(site.inner)
        elif isinstance(site.source, Factor):
            yield site.source
        elif site.log_density is not None and not isinstance(site.source, Distribution):
            yield Table.from_log(site.log_density(), ())
