"""The sites of a model as statements: `y ~ Normal(theta, spread)`, in the names of its author."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import jax

from fubini.base.arrays import trusting
from fubini.distributions.array_distribution import parameters
from fubini.distributions.blueprint import FOREIGN
from fubini.distributions.density import Distribution
from fubini.distributions.makers import maker_of
from fubini.distributions.markov_chain import markov_chain
from fubini.models.arguments import named_arrays
from fubini.models.call_values import FlatJoint
from fubini.models.flavour import Flavour
from fubini.models.outline import Outline
from fubini.models.paths import flat, flat_sites
from fubini.models.sample import Given, Site
from fubini.read.formula import UNKNOWN, Formulas, Part
from fubini.show.notation import Call, Infix, Notation, Subscript, Symbol
from fubini.show.styles import text

LONGEST = 80  # characters of a parameter that are written out


def statements(joint: Flavour) -> dict[str, str]:
    """Each site by path, as what follows its name: "~ Normal(mu, 1)", "= exp(x)"."""
    observed = set(flat(getattr(joint, "observed", {})))
    return {
        name: _statement(one, parts, name in observed or one.site.observed)
        for name, (one, parts) in _read(joint).items()
    }


def index_arguments(joint: Flavour) -> dict[str, tuple[str | None, ...]]:
    """The arguments that index the axes of each site, where one alone does: that of `alpha[county]` is county.

    >>> @fb.model
    ... def pooled(group):
    ...     level = yield fb.dist.Normal(0.0, 1.0).expand([3])
    ...     y = yield fb.dist.Normal(level[group], 1.0)
    >>> index_arguments(pooled(np.array([0, 2, 1, 1])))
    {'level': ('group',)}
    """
    known, seen = {name for name, _ in named_arrays(joint)}, set()
    for _, parts in _read(joint).values():
        for part in parts:
            seen |= {(base, indices) for base, indices in _subscripts(part.notation) if known & {*indices}}
    by_site = {base: [indices for other, indices in sorted(seen) if other == base] for base, _ in sorted(seen)}
    return {site: tuple(map(_only, zip_longest(*all_of))) for site, all_of in by_site.items()}


def _only(found: Sequence[str | None]) -> str | None:
    """The one index of an axis, or none."""
    names = set(found)
    return names.pop() if len(names) == 1 else None


def _subscripts(notation: Notation) -> set[tuple[str, tuple[str, ...]]]:
    """The names `base[i, j]` in a formula."""
    match notation:
        case Subscript(Symbol(base), indices):
            return {(base, tuple(index.name if isinstance(index, Symbol) else "" for index in indices))}
        case Infix(_, args):
            parts = args
        case Call(_, args, keywords):
            parts = (*args, *(value for _, value in keywords))
        case Subscript(base, indices):
            parts = (base, *indices)
        case _:
            parts = ()
    return set().union(*map(_subscripts, parts))


class Statement(NamedTuple):
    """A site as it was traced; of a Markov chain the distributions of its first value and of one after another."""

    site: Site
    chain: tuple[Distribution, Distribution, int] | None = None

    @property
    def arrays(self) -> list:
        """The parameters of its distributions, or its value."""
        if self.chain is not None:
            return [*parameters(self.chain[0]), *parameters(self.chain[1])]
        if isinstance(self.site.source, Distribution):
            return parameters(self.site.source)
        is_computed = self.site.log_density is None and self.site.value is not None
        return jax.tree_util.tree_leaves(self.site.value) if is_computed else []


def _statement_of(site: Site, before: Any, time: Any) -> Statement:
    """A site with its chain, whose step is taken from a value that is known by name alone."""
    chain = markov_chain(site.source) if isinstance(site.source, Distribution) else None
    if chain is None or before is None:
        return Statement(site)
    value = before.astype(int) if chain.init.domain.is_discrete else before
    return Statement(site, (chain.init, chain.after(value, time), chain.length))


def _read(joint: Flavour) -> dict[str, tuple[Statement, list[Part]]]:
    """Each site with its arrays as formulas: the parameters of its distribution, or its value."""
    flat_joint = FlatJoint(joint)
    sites: dict[str, Statement] = {}
    counts: list[int] = []

    def follow(leaves: list, values: dict, before: dict, time: Any) -> list:
        seen = flat_sites(flat_joint.rebuilt(leaves).run(Given(values)))
        sites.update((name, _statement_of(site, before.get(name), time)) for name, site in seen.items())
        arrays = [one.arrays for one in sites.values()]
        counts.extend(map(len, arrays))
        return [array for several in arrays for array in several]

    with flat_joint.precision(), trusting():
        values, before = _shapes(flat_joint.outline), _values_before(flat_joint.outline)
        time = jax.ShapeDtypeStruct((), jax.numpy.result_type(int))
        traced = jax.make_jaxpr(follow)(flat_joint.shapes_of_rows, values, before, time)
        writer = Formulas(named_arrays(joint))
        paths = [".".join(str(key.key) for key in path) for path, _ in jax.tree_util.tree_flatten_with_path(values)[0]]
        inputs = [*map(writer.known, flat_joint.leaves), *(Part(Symbol(path)) for path in paths)]
        inputs += [*(Part(Symbol(f"{name}[t−1]")) for name in sorted(before)), Part(Symbol("t"))]
        parts = iter(writer.read(traced.jaxpr, traced.consts, inputs))
    return {
        name: (one, [next(parts) for _ in range(count)])
        for (name, one), count in zip(sites.items(), counts, strict=True)
    }


def _values_before(outline: Outline, path: str = "") -> dict[str, Any]:
    """The value before another, of each site that may be a chain, without numbers."""
    before: dict[str, Any] = {}
    for site in outline.sites:
        if site.inner is not None:
            before |= _values_before(site.inner, f"{path}{site.name}.")
        elif len(getattr(site.value, "shape", ())) > 0:
            before[f"{path}{site.name}"] = jax.ShapeDtypeStruct(site.value.shape[1:], site.value.dtype)
    return before


def _shapes(outline: Outline) -> dict[str, Any]:
    """Values without numbers, those of nested joints as dicts."""
    sites = {name: outline[name] for name in outline.free}
    return {name: site.value if site.inner is None else _shapes(site.inner) for name, site in sites.items()}


def _statement(one: Statement, parts: Sequence[Part], observed: bool) -> str:
    site = one.site
    if one.chain is not None:
        first, later, length = one.chain
        rest = iter(parts)
        shown = f"first {text(_distribution(first, rest))}, then {text(_distribution(later, rest))}, {length:,} values"
        return f"~ Markov({shown}){', observed' if observed else ''}"
    if isinstance(site.source, Distribution):
        return f"~ {text(_distribution(site.source, iter(parts)))}{', observed' if observed else ''}"
    return f"= {', '.join(text(_short(part.notation)) for part in parts)}" if parts else "(weight)"


def _distribution(source: Distribution, parts: Any) -> Notation:
    """Normal(mu, 1).expand([3]), as one would write it."""
    given = {
        key: _distribution(arg, parts) if isinstance(arg, Distribution) else _short(next(parts).notation)
        for key, arg in zip(source.keys, source.args, strict=True)
    }
    if source.family == FOREIGN:
        kind = dict(source.statics)["tree"].node_data()[0]
        return Call(getattr(kind, "written", kind.__name__), (UNKNOWN,))
    fixed = {key: Symbol(repr(value)) for key, value in source.statics}
    base = given.get("base_dist")
    if base is not None and source.family == "ExpandedDistribution":
        return Call(Symbol(f"{text(base)}.expand"), (Symbol(str(list(dict(source.statics)["batch_shape"]))),))
    if base is not None and source.family == "Independent":
        return Call(Symbol(f"{text(base)}.to_event"), (fixed["reinterpreted_batch_ndims"],))
    if base is not None and source.family == "MaskedDistribution":
        return Call(Symbol(f"{text(base)}.mask"), (given.get("mask", UNKNOWN),))
    if base is not None and source.family == "PowerDistribution":
        return Call(Symbol(f"{text(base)}.to_power"), (given["exponent"],))
    return _call(source.family, {**given, **fixed})


def _call(family: str, given: Mapping[str, Notation]) -> Notation:
    """Write parameters by position as long as they are numpyro's first ones, the others by name."""
    maker = maker_of(family)
    if maker is None:  # a user's own distribution, known by its arrays alone
        return Call(family, ())
    known = list(inspect.signature(maker).parameters)
    order = sorted(given, key=lambda key: known.index(key) if key in known else len(known))
    first = [key for key, expected in zip(order, known, strict=False) if key == expected]
    first = first if order[: len(first)] == first else []
    named = tuple((key, given[key]) for key in order if key not in first)
    return Call(family, tuple(given[key] for key in first), named)


def _short(notation: Notation) -> Notation:
    return notation if len(text(notation)) <= LONGEST else UNKNOWN
