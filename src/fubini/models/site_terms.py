"""The term of the log density of each site, in index notation, and the bounds of each latent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.build import ZERO, index, plus
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import Data, is_traced
from fubini.base.domains import Domain
from fubini.bridge.bounds import FamilyBounds, base_of, bounds_between
from fubini.distributions.array_distribution import parameter_keys, parameters, spread
from fubini.distributions.blueprint import Constant, LogProbability
from fubini.distributions.density import Distribution
from fubini.distributions.markov_chain import markov_chain
from fubini.distributions.parameter_checks import satisfied
from fubini.models.chain_site import ChainPart, ChainSite, chain_numbers, chain_term
from fubini.models.missing_entries import Partly, log_density_of_present
from fubini.models.sample import Site
from fubini.read.jaxpr_reader import Reader
from fubini.read.log_density import log_density
from fubini.read.symbolic_array import SymbolicArray


class LateBounds(Exception):
    """Bounds of a site that nodes have read already."""

    def __init__(self, name: str, bounds: FamilyBounds) -> None:
        self.name, self.bounds = name, bounds


class SitePart(NamedTuple):
    """A site that is one density: its distribution, the parameters of that, its value, and its leaf if it is free.

    `present` says which entries of the value are there, where some are missing.
    """

    source: Distribution
    leaves: Sequence[SymbolicArray]
    value: SymbolicArray
    site: Leaf | None
    present: SymbolicArray | None = None


class SiteStatement(NamedTuple):
    """A site as it was traced: whether a part of it was observed, and its distributions if it is a chain."""

    name: str
    site: Site
    is_partly_observed: bool
    chain: ChainSite | None

    def array_names(self) -> list[str]:
        """A name for each array in its term: of parameters the site and the parameter, of others none."""
        if self.site.log_density is None:
            return []
        if not isinstance(self.site.source, Distribution):
            return [""]
        if self.chain is not None:
            return [""] * self.chain.arrays
        keys = parameter_keys(self.site.source)
        return ["", *[""] * self.is_partly_observed, *(f"{self.name}_{key}".replace(".", "_") for key in keys)]


def statement_of(name: str, site: Site, observed: Any) -> tuple[SiteStatement, list[Data]]:
    """A site, and the arrays in its term: its value, the mask of those observed, then its parameters; or its weight."""
    partly = isinstance(observed, Partly)
    plain = SiteStatement(name, site, partly, None)
    if site.log_density is None:
        return plain, []
    if not isinstance(site.source, Distribution):
        return plain, [site.log_density()]
    chain = None if partly else markov_chain(site.source)
    if chain is not None:
        distributions, numbers = chain_numbers(chain, jnp.asarray(site.value))
        return plain._replace(chain=distributions), numbers
    value, mask = (observed.value, [jnp.asarray(observed.present)]) if partly else (site.value, [])
    return plain, [spread(site.source, value), *mask, *parameters(site.source)]


@dataclass
class SiteTerms:
    """Reads terms one after another, and learns the bounds of latents on the way."""

    reader: Reader
    sites: dict[str, Leaf]
    domains: dict[str, Domain]
    parts: dict[str, SitePart] = field(default_factory=dict)
    partial: dict[str, SitePart] = field(default_factory=dict)  # with missing entries
    chains: dict[str, ChainPart] = field(default_factory=dict)

    def term(self, statement: SiteStatement, outputs: Iterator[SymbolicArray]) -> Node:
        """log p of a site, which takes its arrays from `outputs`."""
        name, site, partly, chain = statement
        if not isinstance(site.source, Distribution):
            return next(outputs).at()
        if chain is not None:
            numbers = [next(outputs) for _ in range(chain.arrays)]
            if not chain.lead:
                self.chains[name] = ChainPart(chain, numbers)
            return chain_term(chain, numbers, self.reader)
        source: Distribution = site.source
        value = next(outputs)
        present = next(outputs) if partly else None
        leaves = [next(outputs) for _ in source.leaf_values]
        self._learn_bounds(name, source, leaves)
        batch = len(source.signature.shape) - source.signature.event_rank
        whole = _is_whole(source)
        term = log_density(source.blueprint, leaves, value, batch, present, self.reader, whole)
        if term is None:
            operands = (value, *([] if present is None else [present]), *leaves)
            return self.reader.opaque_array(f"log p({site.name})", (), _whole_density(source, partly), operands).at()
        if present is None and not whole:
            self.parts[name] = SitePart(source, leaves, value, self.sites.get(name))
        elif present is not None and not source.signature.event_rank:
            self.partial[name] = SitePart(source, leaves, value, None, present)
        return plus(term, _mark(source.domain, value, self.reader)) if site.observed and present is None else term

    def _learn_bounds(self, name: str, source: Distribution, leaves: list[SymbolicArray]) -> None:
        """Apply known bounds to a latent: from 0 to 1 it is a probability; of whole numbers there are finitely many."""
        if name not in self.sites:
            return
        base = base_of(source)
        known: dict[str, Any] = {key: leaf.constant for key, leaf in zip(base.keys, leaves, strict=False)}
        known.update((key, np.asarray(value)) for key, value in base.statics)
        bounds = bounds_between(source, known, self.domains[name])
        if bounds is not None:
            self.set_bounds(name, bounds)

    def set_bounds(self, name: str, bounds: FamilyBounds) -> None:
        """Set the bounds of a site; raise where nodes have read it without them."""
        leaf, self.domains[name] = self.sites[name], bounds.domain
        high = leaf.high if bounds.high is None else bounds.high
        if (leaf.low, leaf.high) == (bounds.low, high):
            return
        if leaf.is_read:
            raise LateBounds(name, bounds)
        leaf.low, leaf.high = bounds.low, high


def _mark(domain: Domain, value: SymbolicArray, reader: Reader) -> Node:
    """0, or not a number where data that were not known when they were given are outside of their domain."""
    fresh = [index(Index(size)) for size in value.shape]
    traced = [leaf for leaf in value.at(*fresh).leaves if is_traced(reader.known.get(leaf))]
    if not traced or domain.kind == "real":
        return ZERO

    def mark(data: Data) -> Data:
        if domain.kind == "positive_definite":
            return jnp.where(jnp.all(satisfied(constraints.positive_definite, data)), 0.0, jnp.nan)
        inside = (data >= 0) & ((data == jnp.floor(data)) | (not domain.is_discrete))
        if domain.kind in ("unit", "simplex"):
            inside &= data <= 1
        elif domain.size is not None:
            inside &= data < domain.size
        return jnp.where(jnp.all(inside), 0.0, jnp.nan)

    return ZERO if domain.kind == "integer" else reader.opaque_array("domain", (), mark, (value,)).at()


def _is_whole(source: Distribution) -> bool:
    """An improper density on a support that its domain says in full: an interval has bounds that it does not say."""
    base = base_of(source)
    held = dict(base.statics).get("support")
    support: Any = held.value if isinstance(held, Constant) else held
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    whole = (constraints.real, constraints.positive, constraints.unit_interval, constraints.simplex)
    return base.family == "ImproperUniform" and any(support == one for one in whole)


def _whole_density(source: Distribution, partly: bool) -> Callable[..., Data]:
    """The log-density of a site as one function of its value and parameters."""
    plain = LogProbability(source.blueprint)

    def of_present(value: Data, present: Data, *leaves: Data) -> Data:
        return log_density_of_present(_over(source, leaves), Partly(value, present != 0))

    return of_present if partly else plain


def _over(source: Distribution, leaves: tuple[Data, ...]) -> Distribution:
    """The same distribution over other arrays."""
    _, tree = jax.tree_util.tree_flatten(source)
    return jax.tree_util.tree_unflatten(tree, list(leaves))
