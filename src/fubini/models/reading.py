"""A joint in index notation: one term of the log-density for each site."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Leaf, Node
from fubini.algebra.row_sums import Passes
from fubini.base.arrays import Data, digest, double_precision, is_key, is_traced, trusting
from fubini.base.digests import constants_of
from fubini.base.distant import distant, is_unread
from fubini.base.domains import Domain
from fubini.bridge.bounds import FamilyBounds
from fubini.bridge.factor_reader import leaf_of
from fubini.bridge.integrand import Integrand
from fubini.distributions.density import Distribution
from fubini.models.arguments import named_arrays
from fubini.models.call_values import FlatJoint
from fubini.models.chain_site import ChainPart
from fubini.models.outline import Outline
from fubini.models.paths import flat, flat_sites
from fubini.models.sample import Factored
from fubini.models.site_terms import LateBounds, SitePart, SiteStatement, SiteTerms, statement_of
from fubini.read import all_rules as all_rules
from fubini.read.jaxpr_reader import Reader
from fubini.read.leaf_arrays import LeafArrays
from fubini.read.row_numbers import sum_rows_in_part, sum_rows_of_sites
from fubini.read.symbolic_array import SymbolicArray, of_leaf


@dataclass(frozen=True)
class Reading:
    """The terms of a log-density by site, the leaf and domain of each free site, and how to find the other arrays.

    Sites of nested joints go by their path: "inner.x".
    """

    terms: Mapping[str, Node]
    sites: Mapping[str, Leaf]
    domains: Mapping[str, Domain]
    reader: Reader
    text: str  # the program that was read, to know it again
    constants: tuple[Data, ...]  # that it captures, as it was given them
    parts: Mapping[str, SitePart]
    partial: Mapping[str, SitePart] = field(default_factory=dict)  # sites with missing entries
    chains: Mapping[str, ChainPart] = field(default_factory=dict)  # sites that are chains
    answers: dict[Any, Any] = field(default_factory=dict)  # to questions that were asked of it
    passes: Passes | None = None  # over rows of streams

    @cached_property
    def integrand(self) -> Integrand:
        """The terms, to be integrated over the free sites."""
        return Integrand(tuple(self.terms.values()), self.sites, self.domains, self.reader)  # type: ignore[arg-type]

    @cached_property
    def in_part(self) -> Reading:
        """The same for what is estimated from some of the rows of streams: sums that no latent enters as numbers."""
        reader = copy(self.reader)
        reader.known, reader.rows = dict(reader.known), dict(reader.rows)
        terms, passes = sum_rows_in_part(self.terms, reader)
        return replace(self, terms=terms, reader=reader, answers={}, passes=passes)

    def log_density(self, values: Mapping[str, Data]) -> Data:
        """The log-density at values of the free sites."""
        evaluation = Evaluation(self.arrays(values))
        return sum((evaluation.of(term).data for term in self.terms.values()), start=jnp.zeros(()))

    def arrays(self, values: Mapping[str, Data], known: Mapping[Leaf, Data] | None = None) -> LeafArrays:
        """All arrays that the terms read, given those of the free sites; `known` in place of the reader's own."""
        given = {self.sites[name]: value for name, value in values.items()}
        return LeafArrays({**(self.reader.known if known is None else known), **given}, self.reader)


_READ: dict[tuple, tuple[Reading, list[Data]]] = {}  # with the arrays that were read, which are the user's own
_KEPT = 64


def read(flat_joint: FlatJoint) -> Reading:
    """The log-density of a model, site by site, in index notation; read once for the same model and numbers."""
    if is_traced(*flat_joint.leaves):
        return _read(flat_joint)
    contents = tuple(map(_content, flat_joint.leaves))
    key = (flat_joint.tree, contents)
    reading, leaves = _READ.pop(key, (None, []))
    if reading is None or not _are_unchanged(leaves, flat_joint.leaves, contents):
        reading, leaves = _read(flat_joint), flat_joint.leaves
    _READ[key] = reading, leaves
    if len(_READ) > _KEPT:
        del _READ[next(iter(_READ))]
    return reading


def _are_unchanged(leaves: Sequence[Data], asked: Sequence[Data], contents: Sequence[tuple]) -> bool:
    """Whether arrays that were read still hold what they did: users may have changed them in place."""
    return all(
        leaf is now or _content(leaf) == content for leaf, now, content in zip(leaves, asked, contents, strict=True)
    )


def _content(leaf: Data) -> tuple:
    if (record := distant(leaf)) is not None:
        return record.shape, record.dtype.str, record.key
    array = np.asarray(leaf)
    return array.shape, array.dtype.str, digest(array)


def _read(flat_joint: FlatJoint) -> Reading:
    statements: list[SiteStatement] = []

    def follow(leaves: list[Data], values: dict) -> list[list[Data]]:
        joint = flat_joint.rebuilt(leaves)
        sites = flat_sites(joint.run(Factored(values)))
        observed = flat(getattr(joint, "observed", {}))
        each = [statement_of(name, site, observed.get(name)) for name, site in sites.items()]
        statements.extend(statement for statement, _ in each)
        return [numbers for _, numbers in each]

    with double_precision(), trusting():
        shapes = _nested(flat_joint.outline)
        given = [jax.ShapeDtypeStruct(np.shape(leaf), _traced_dtype(leaf)) for leaf in flat_joint.leaves]
        traced = jax.make_jaxpr(follow)(given, shapes)
        order = [_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]]
        bounds: dict[str, FamilyBounds] = {}
        while True:
            try:
                return _interpret(flat_joint, traced, order, statements, bounds)
            except LateBounds as late:  # a site was read before its bounds were known: again, with them
                bounds[late.name] = late.bounds


def _interpret(
    flat_joint: FlatJoint,
    traced: Any,
    order: Sequence[str],
    statements: Sequence[SiteStatement],
    bounds: Mapping[str, FamilyBounds],
) -> Reading:
    """The reading of a traced model, some sites of which are known to have bounds."""
    reader, domains = Reader(), dict(flat_joint.outline.free_domains())
    sites = {name: leaf_of(name, domain) for name, domain in domains.items()}
    terms = SiteTerms(reader, sites, domains)
    for name, known in bounds.items():
        terms.set_bounds(name, known)
    named = (*named_arrays(flat_joint.joint), *_constant_parameters(traced, statements))
    for name, array in named:
        if name not in sites and name not in flat_joint.outline.reached:
            reader.name(array.astype(_traced_dtype(array)), name)
    observed = flat(getattr(flat_joint.joint, "observed", {}))
    names = {id(value): name for name, value in observed.items()}
    inputs = [_input(reader, leaf, names.get(id(leaf), "")) for leaf in flat_joint.leaves]
    inputs.extend(of_leaf(sites[name]) for name in order)
    outputs = iter(reader.read(traced.jaxpr, traced.consts, inputs))
    by_site = {one.name: terms.term(one, outputs) for one in statements if one.site.log_density is not None}
    distributions = "\n".join(
        f"{one.name} {one.site.source.blueprint}" for one in statements if isinstance(one.site.source, Distribution)
    )
    by_site, passes = sum_rows_of_sites(by_site, reader)
    text = re.sub(r"0x[0-9a-f]+", "", f"{traced.jaxpr}\n{distributions}")
    constants, parts = constants_of(traced), (terms.parts, terms.partial, terms.chains)
    return Reading(by_site, sites, domains, reader, text, constants, *parts, passes=passes)


def _constant_parameters(traced: Any, statements: Sequence[SiteStatement]) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays that a model writes out as parameters, by site and parameter: `rate_concentration1`."""
    constants = dict(zip(traced.jaxpr.constvars, traced.consts, strict=True))
    outputs = iter(traced.jaxpr.outvars)
    for one in statements:
        for name, output in zip(one.array_names(), outputs, strict=False):
            if name and not isinstance(output, Literal) and output in constants:
                yield name, np.asarray(constants[output])


# -- sites and their values -----------------------------------------------------------------------------------------


def _nested(outline: Outline) -> dict[str, Any]:
    """Shapes in place of the values of free sites."""
    shapes: dict[str, Any] = {}
    for name in outline.free:
        site = outline[name]
        if site.inner is not None:
            shapes[name] = _nested(site.inner)
        else:
            assert site.domain is not None
            kind = np.int64 if site.domain.is_discrete else np.float64
            shapes[name] = jax.ShapeDtypeStruct(site.value.shape, np.dtype(kind))
    return shapes


def _path(keys: Any) -> str:
    return ".".join(str(key.key) for key in keys)


def _traced_dtype(leaf: Data) -> Any:
    if is_key(leaf):
        return leaf.dtype
    kind = np.dtype(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype)
    return np.dtype(np.float64) if kind.kind == "f" else kind


def _input(reader: Reader, leaf: Data, name: str) -> SymbolicArray:
    """Known numbers; of a tracer, an array about which nothing is known; its range if it stays where it is."""
    return reader.constant(leaf if is_unread(leaf) else np.asarray(leaf, _traced_dtype(leaf)), name)
