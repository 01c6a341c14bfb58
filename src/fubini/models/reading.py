"""A joint in index notation: one term of the log-density for each site."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, index, plus
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data, digest, double_precision, is_key, is_traced, trusting
from fubini.base.domains import Domain
from fubini.bridge.bounds import FamilyBounds, base_of, bounds_between
from fubini.bridge.factor_reader import leaf_of
from fubini.bridge.integrand import Integrand
from fubini.distributions.array_distribution import parameters, spread
from fubini.distributions.blueprint import Constant, LogProbability
from fubini.distributions.density import Distribution
from fubini.distributions.markov_chain import MarkovChain, markov_chain
from fubini.models.arguments import named_arrays
from fubini.models.call_values import FlatJoint
from fubini.models.observed import Partly, log_density_of_present
from fubini.models.outline import Outline
from fubini.models.paths import flat, flat_sites
from fubini.models.sample import Factored, Site
from fubini.read import all_rules as all_rules
from fubini.read.jaxpr_reader import Reader
from fubini.read.leaf_arrays import LeafArrays
from fubini.read.log_density import log_density
from fubini.read.symbolic_array import SymbolicArray, of_leaf


class SitePart(NamedTuple):
    """A site that is one density: its distribution, the parameters of that, its value, and its leaf if it is free."""

    source: Distribution
    leaves: Sequence[SymbolicArray]
    value: SymbolicArray
    site: Leaf | None


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
    parts: Mapping[str, SitePart]
    answers: dict[Any, Any] = field(default_factory=dict)  # to questions that were asked of it

    @cached_property
    def integrand(self) -> Integrand:
        """The terms, to be integrated over the free sites."""
        return Integrand(tuple(self.terms.values()), self.sites, self.domains, self.reader)  # type: ignore[arg-type]

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
    array = np.asarray(leaf)
    return array.shape, array.dtype.str, digest(array)


def _read(flat_joint: FlatJoint) -> Reading:
    met: list[tuple[str, Site]] = []
    chains: dict[str, ChainSite] = {}

    def follow(leaves: list[Data], values: dict) -> list[list[Data]]:
        joint = flat_joint.rebuilt(leaves)
        met.extend(flat_sites(joint.run(Factored(values))).items())
        observed = flat(getattr(joint, "observed", {}))
        return [_numbers(name, site, observed.get(name), chains) for name, site in met]

    with double_precision(), trusting():
        shapes = _nested(flat_joint.outline)
        given = [jax.ShapeDtypeStruct(np.shape(leaf), _wide(leaf)) for leaf in flat_joint.leaves]
        traced = jax.make_jaxpr(follow)(given, shapes)
        order = [_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]]
        bounds: dict[str, FamilyBounds] = {}
        while True:
            try:
                return _interpret(flat_joint, traced, order, met, chains, bounds)
            except _LateBounds as late:  # a site was read before its bounds were known: again, with them
                bounds[late.name] = late.bounds


class _LateBounds(Exception):
    """Bounds of a site that nodes have read already."""

    def __init__(self, name: str, bounds: FamilyBounds) -> None:
        self.name, self.bounds = name, bounds


def _interpret(
    flat_joint: FlatJoint,
    traced: Any,
    order: Sequence[str],
    met: Sequence[tuple[str, Site]],
    chains: Mapping[str, ChainSite],
    bounds: Mapping[str, FamilyBounds],
) -> Reading:
    """The reading of a traced model, some sites of which are known to have bounds."""
    reader, domains = Reader(), dict(_free(flat_joint.outline, ""))
    sites = {name: leaf_of(name, domain) for name, domain in domains.items()}
    for name, known in bounds.items():
        _set_bounds(name, known, sites, domains)
    for name, array in named_arrays(flat_joint.joint):
        if name not in sites and name not in flat_joint.outline.reached:
            reader.name(array.astype(_wide(array)), name)
    observed = flat(getattr(flat_joint.joint, "observed", {}))
    names = {id(value): name for name, value in observed.items()}
    inputs = [_input(reader, leaf, names.get(id(leaf), "")) for leaf in flat_joint.leaves]
    inputs.extend(of_leaf(sites[name]) for name in order)
    outputs = iter(reader.read(traced.jaxpr, traced.consts, inputs))
    parts: dict[str, SitePart] = {}
    terms = {
        name: _term(
            name,
            site,
            outputs,
            reader,
            isinstance(observed.get(name), Partly),
            chains.get(name),
            sites,
            domains,
            parts,
        )
        for name, site in met
        if site.log_density is not None
    }
    distributions = "\n".join(
        f"{name} {site.source.blueprint}" for name, site in met if isinstance(site.source, Distribution)
    )
    text = re.sub(r"0x[0-9a-f]+", "", f"{traced.jaxpr}\n{distributions}")
    return Reading(terms, sites, domains, reader, text, parts)


# -- sites and their values -----------------------------------------------------------------------------------------


def _free(outline: Outline, path: str) -> Iterator[tuple[str, Domain]]:
    for name in outline.free:
        site = outline[name]
        if site.inner is not None:
            yield from _free(site.inner, f"{path}{name}.")
        else:
            assert site.domain is not None
            yield f"{path}{name}", site.domain


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


def _wide(leaf: Data) -> Any:
    if is_key(leaf):
        return leaf.dtype
    kind = np.dtype(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype)
    return np.dtype(np.float64) if kind.kind == "f" else kind


def _input(reader: Reader, leaf: Data, name: str) -> SymbolicArray:
    """Known numbers; of a tracer, an array about which nothing is known."""
    return reader.constant(leaf if is_traced(leaf) else np.asarray(leaf, _wide(leaf)), name)


# -- terms ----------------------------------------------------------------------------------------------------------


class ChainSite(NamedTuple):
    """A site that is a chain: the distribution of its first value, and that of the others, at an index of time."""

    init: Distribution
    step: Distribution | None
    lead: int  # axes before that of time: an array of chains


def _numbers(name: str, site: Site, observed: Any, chains: dict[str, ChainSite]) -> list[Data]:
    """The arrays in the term of a site: its value, the mask of those observed, then its parameters; or its weight."""
    if site.log_density is None:
        return []
    if not isinstance(site.source, Distribution):
        return [site.log_density()]
    chain = None if isinstance(observed, Partly) else markov_chain(site.source)
    if chain is not None:
        return _chain_numbers(name, chain, jnp.asarray(site.value), chains)
    mask = [jnp.asarray(observed.present)] if isinstance(observed, Partly) else []
    return [spread(site.source, site.value), *mask, *parameters(site.source)]


def _chain_numbers(name: str, chain: MarkovChain, value: Data, chains: dict[str, ChainSite]) -> list[Data]:
    """The value, the parameters of the first, and those of the others along an axis of time."""
    steps: list[Distribution] = []

    def after(before: Data, t: Data) -> list[Data]:
        steps.append(chain.after(before, t))
        return parameters(steps[-1])

    several, lead = chain.length > 1, value.ndim - chain.event_dim
    times = jnp.arange(1, chain.length)
    every = lambda value: jax.vmap(after)(value[:-1], times)  # noqa: E731
    for _ in range(lead):
        every = jax.vmap(every)
    later = every(value) if several else []
    chains[name] = ChainSite(chain.init, steps[-1] if several else None, lead)
    return [value, *parameters(chain.init), *later]


def _chain_term(chain: ChainSite, outputs: Iterator[SymbolicArray], reader: Reader) -> Node | None:
    """log p(x₀) + Σ_t log p(x_t | x_(t−1))"""
    value = next(outputs)
    first = [next(outputs) for _ in chain.init.leaf_values]
    leaves = [next(outputs) for _ in chain.step.leaf_values] if chain.step is not None else []
    which = [Index(size) for size in value.shape[: chain.lead]]
    for i in which:
        value = _slice(value, index(i))
        leaves = [_slice(leaf, index(i)) for leaf in leaves]
    initial = _density_at(chain.init, first, _slice(value, ZERO), reader)
    if initial is None:
        return None
    if chain.step is None:
        return total(which, initial)
    t = Index(value.shape[0] - 1, "t")
    here = ZERO if t.size == 1 else index(t)
    later = [_slice(leaf, here) for leaf in leaves]
    step = _density_at(chain.step, later, _slice(value, plus(here, ONE)), reader)
    return None if step is None else total(which, plus(initial, total([t], step)))


def _slice(array: SymbolicArray, t: Node) -> SymbolicArray:
    numbers = array.constant
    alike = numbers is not None and len(numbers) and bool(np.all(numbers == numbers[0]))
    return SymbolicArray(array.shape[1:], lambda *at: array.at(t, *at), numbers[0] if alike else None)  # type: ignore[index]


def _density_at(source: Distribution, leaves: list[SymbolicArray], value: SymbolicArray, reader: Reader) -> Node | None:
    batch = len(source.signature.shape) - source.signature.event_rank
    return log_density(source.blueprint, leaves, value, batch, None, reader)


def _bounded(
    name: str, source: Distribution, leaves: list[SymbolicArray], sites: dict[str, Leaf], domains: dict[str, Domain]
) -> None:
    """Apply known bounds to a latent: from 0 to 1 it is a probability; of whole numbers there are finitely many."""
    if name not in sites:
        return
    base = base_of(source)
    known: dict[str, Any] = {key: leaf.constant for key, leaf in zip(base.keys, leaves, strict=False)}
    known.update((key, np.asarray(value)) for key, value in base.statics)
    bounds = bounds_between(source, known, domains[name])
    if bounds is not None:
        _set_bounds(name, bounds, sites, domains)


def _set_bounds(name: str, bounds: FamilyBounds, sites: dict[str, Leaf], domains: dict[str, Domain]) -> None:
    """Set the bounds of a site; raise where nodes have read it without them."""
    leaf, domains[name] = sites[name], bounds.domain
    high = leaf.high if bounds.high is None else bounds.high
    if (leaf.low, leaf.high) == (bounds.low, high):
        return
    if leaf.is_read:
        raise _LateBounds(name, bounds)
    leaf.low, leaf.high = bounds.low, high


def _mark(domain: Domain, value: SymbolicArray, reader: Reader) -> Node:
    """0, or not a number where data that were not known when they were given are outside of their domain."""
    fresh = [index(Index(size)) for size in value.shape]
    traced = [leaf for leaf in value.at(*fresh).leaves if is_traced(reader.known.get(leaf))]
    if not traced or domain.kind == "real":
        return ZERO

    def mark(data: Data) -> Data:
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


def _term(
    name: str,
    site: Site,
    outputs: Iterator[SymbolicArray],
    reader: Reader,
    partly: bool,
    chain: ChainSite | None,
    sites: dict[str, Leaf],
    domains: dict[str, Domain],
    parts: dict[str, SitePart],
) -> Node:
    if not isinstance(site.source, Distribution):
        return next(outputs).at()
    if chain is not None:
        count = 1 + len(chain.init.leaf_values) + (0 if chain.step is None else len(chain.step.leaf_values))
        numbers = [next(outputs) for _ in range(count)]
        term = _chain_term(chain, iter(numbers), reader)
        return term if term is not None else _opaque_chain(chain, numbers, reader)
    source: Distribution = site.source
    value = next(outputs)
    present = next(outputs) if partly else None
    leaves = [next(outputs) for _ in source.leaf_values]
    _bounded(name, source, leaves, sites, domains)
    batch = len(source.signature.shape) - source.signature.event_rank
    term = log_density(source.blueprint, leaves, value, batch, present, reader, _is_whole(source))
    if term is not None and present is None and not _is_whole(source):
        parts[name] = SitePart(source, leaves, value, sites.get(name))
    if term is not None:
        return plus(term, _mark(source.domain, value, reader)) if site.observed and present is None else term
    operands = (value, *([] if present is None else [present]), *leaves)
    return reader.opaque_array(f"log p({site.name})", (), _whole_density(source, partly), operands).at()


def _whole_density(source: Distribution, partly: bool) -> Callable[..., Data]:
    """The log-density of a site as one function of its value and parameters."""
    plain = LogProbability(source.blueprint)

    def of_present(value: Data, present: Data, *leaves: Data) -> Data:
        return log_density_of_present(_over(source, leaves), Partly(value, present != 0))

    return of_present if partly else plain


def _opaque_chain(chain: ChainSite, parts: list[SymbolicArray], reader: Reader) -> Node:
    """A chain of a family that is not read, as one function of its numbers."""
    count = len(chain.init.leaf_values)
    first = LogProbability(chain.init.blueprint)
    later = None if chain.step is None else jax.vmap(LogProbability(chain.step.blueprint))

    def one(value: Data, init: tuple[Data, ...], steps: tuple[Data, ...]) -> Data:
        log_p = first(value[0], *init)
        return log_p if later is None else log_p + jnp.sum(later(value[1:], *steps))

    def whole(value: Data, *leaves: Data) -> Data:
        every = one
        for _ in range(chain.lead):
            every = jax.vmap(every, in_axes=(0, None, 0))
        return jnp.sum(every(value, leaves[:count], leaves[count:]))

    return reader.opaque_array("log p(chain)", (), whole, tuple(parts)).at()


def _over(source: Distribution, leaves: tuple[Data, ...]) -> Distribution:
    """The same distribution over other arrays."""
    _, tree = jax.tree_util.tree_flatten(source)
    return jax.tree_util.tree_unflatten(tree, list(leaves))
