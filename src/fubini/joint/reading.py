"""A joint in index notation: one term of the log-density for each site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, trusting
from fubini.dist.density import Distribution
from fubini.dist.law import parameters
from fubini.domains import Domain
from fubini.index.build import const, index
from fubini.index.lower import Evaluation
from fubini.index.node import Index, Leaf, Node
from fubini.joint.form import Form
from fubini.joint.run import Given, Site
from fubini.read import rules as rules
from fubini.read.law import log_density
from fubini.read.reader import Reader
from fubini.read.symbolic_array import SymbolicArray, of_leaf


@dataclass(frozen=True)
class Reading:
    """The terms of a log-density by site, the leaf that stands for each free site, and how to find the other arrays."""

    terms: Mapping[str, Node]
    sites: Mapping[str, Leaf]
    reader: Reader

    def log_density(self, values: Mapping[str, Data]) -> Data:
        """The log-density at values of the free sites."""
        arrays = self.arrays({self.sites[name]: value for name, value in values.items()})
        found = Evaluation(arrays)
        return sum((found.of(term).data for term in self.terms.values()), start=jnp.zeros(()))

    def arrays(self, given: Mapping[Leaf, Data]) -> dict[Leaf, Data]:
        """All arrays that the terms read, given those of the free sites."""
        return Arrays({**self.reader.known, **given}, self.reader)


class Arrays(dict):
    """The arrays of leaves; what is opaque is computed when it is first read."""

    def __init__(self, given: Mapping[Leaf, Data], reader: Reader) -> None:
        super().__init__(given)
        self.reader = reader

    def __missing__(self, leaf: Leaf) -> Data:
        made = self.reader.opaque[leaf]
        found = self[leaf] = made.function(*(self.whole(part) for part in made.operands))
        return found

    def whole(self, part: SymbolicArray) -> Data:
        """All entries of a symbolic array."""
        order = tuple(Index(size) for size in part.shape)
        axes = Evaluation(self).of(part.at(*map(index, order)))
        kept = [axes.of.index(i) for i in order if i in axes.of]
        shape = [i.size if i in axes.of else 1 for i in order]
        return jnp.broadcast_to(jnp.transpose(axes.data, kept).reshape(shape), part.shape)


def read(joint: Any) -> Reading:
    """The log-density of a joint, site by site, in index notation."""
    form = Form(joint)
    met: list[Site] = []

    def follow(leaves: list[Data], values: dict) -> list[list[Data]]:
        met.extend(form.rebuilt(leaves).run(Given(values)).sites)
        return [_numbers(site) for site in met]

    with jax.enable_x64(True), trusting():
        shapes = {name: _abstract(form, name) for name in form.outline.free}
        given = [jax.ShapeDtypeStruct(np.shape(leaf), np.asarray(leaf).dtype) for leaf in form.leaves]
        traced = jax.make_jaxpr(follow)(given, shapes)
        reader = Reader()
        sites = {name: _leaf(name, form.outline[name].domain) for name in form.outline.free}
        inputs = [*map(reader.constant, form.leaves), *(of_leaf(sites[name]) for name in sorted(sites))]
        outputs = iter(reader.read(traced.jaxpr, traced.consts, inputs))
        terms = {site.name: _term(site, outputs, reader) for site in met if site.log_density is not None}
    return Reading(terms, sites, reader)


def _abstract(form: Form, name: str) -> Any:
    value, domain = form.outline[name].value, form.outline[name].domain
    assert domain is not None
    return jax.ShapeDtypeStruct(value.shape, np.dtype(np.int64 if domain.is_discrete else np.float64))


def _leaf(name: str, domain: Domain | None) -> Leaf:
    assert domain is not None
    low = 0.0 if domain.kind in ("positive", "unit", "simplex", "nat", "bint") else None
    high = 1.0 if domain.kind in ("unit", "simplex") else domain.extent - 1.0 if domain.kind == "bint" else None
    return Leaf(name, domain.shape, low=low, high=high, is_integer=domain.is_discrete, role="site")


def _numbers(site: Site) -> list[Data]:
    """What the term of a site is made of: its value, then its parameters; of what only weighs, the weight."""
    if isinstance(site.source, Distribution):
        return [jnp.asarray(site.value), *parameters(site.source)]
    return [] if site.log_density is None else [site.log_density()]


def _term(site: Site, outputs: Any, reader: Reader) -> Node:
    if not isinstance(site.source, Distribution):
        return next(outputs).at()
    source = site.source
    value = next(outputs)
    leaves = [next(outputs) for _ in source.leaf_values]
    batch = len(source.signature.shape) - source.signature.event_rank
    found = log_density(source.blueprint, iter(leaves), value, batch)
    return found if found is not None else const(0.0)
