"""The outline of a joint, made without running it on numbers: its sites, their domains, which depend on which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from fubini.base.arrays import Data, double_precision, is_double_precision
from fubini.base.distant import flatten, is_of_jax
from fubini.base.domains import Domain
from fubini.distributions.array_distribution import parameters
from fubini.distributions.density import Distribution
from fubini.models.sample import Blank, Given, Run, Runnable


@dataclass(frozen=True)
class SiteOutline:
    """A site before it has a value; `value` has shapes and dtypes in place of arrays."""

    name: str
    kind: str  # random, observed, deterministic, weight or joint
    value: Any = None
    domain: Domain | None = None
    inner: Outline | None = None
    joint: Runnable | None = None  # a nested joint, without its numbers
    event_rank: int = 0  # the last axes of its value whose entries are not independent

    @cached_property
    def shape(self) -> Any:
        """The shape of its value, or a structure of shapes."""
        return jax.tree_util.tree_map(lambda leaf: leaf.shape, self.value)

    @cached_property
    def dtype(self) -> Any:
        """The dtype of its value, or a structure of dtypes."""
        return jax.tree_util.tree_map(lambda leaf: leaf.dtype, self.value)


@dataclass(frozen=True)
class Outline:
    """The sites of a joint in order, and which of them the parameters of each are computed from (`reached`)."""

    sites: tuple[SiteOutline, ...]
    reached: Mapping[str, tuple[str, ...]]  # a nested joint reaches itself where its sites depend on each other

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """The sites that each depends on, the nearest first."""
        return {name: tuple(other for other in reached if other != name) for name, reached in self.reached.items()}

    def __getitem__(self, name: str) -> SiteOutline:
        return next(site for site in self.sites if site.name == name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The sites that are part of a sample."""
        return tuple(site.name for site in self.sites if site.kind not in ("weight", "observed"))

    @cached_property
    def free(self) -> tuple[str, ...]:
        """The sites whose values a density needs."""
        return tuple(site.name for site in self.sites if site.kind in ("random", "joint"))

    def free_domains(self, path: str = "") -> Iterator[tuple[str, Domain]]:
        """Yield the domain of each of these sites; those of nested joints go by their path, "inner.x"."""
        for name in self.free:
            site = self[name]
            if site.inner is not None:
                yield from site.inner.free_domains(f"{path}{name}.")
            else:
                assert site.domain is not None
                yield f"{path}{name}", site.domain


def outline_of(joint: Runnable) -> Outline:
    """The outline, made once for joints that are alike."""
    leaves, tree = flatten(joint)
    return outline_of_parts(tree, leaves)


def outline_of_parts(tree: Any, leaves: list[Data]) -> Outline:
    """Return the outline of a flattened joint."""
    float64 = not any(map(is_of_jax, leaves))
    if not float64:
        return _outlined(tree, tuple(map(signature, leaves)), is_double_precision())
    with double_precision():
        return _outlined(tree, tuple(map(signature, leaves)), True)


def signature(leaf: Data) -> tuple:
    """The shape of a leaf, and its dtype in the precision in force."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return np.shape(leaf), jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


@lru_cache(maxsize=1024)
def _outlined(tree: Any, leaves: tuple, float64: bool) -> Outline:
    runs: list[Run] = []

    def look(leaves: list[Data]) -> tuple[dict, dict]:
        runs.append(jax.tree_util.tree_unflatten(tree, leaves).run(Blank()))
        return runs[0].values, runs[0].flat

    given = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves]
    values, flat = jax.eval_shape(look, given)
    return _read(runs[0], values, flat, _reach(tree, given, flat))


def _read(run: Run, values: Mapping[str, Any], flat: Mapping[str, Any], reached: Mapping) -> Outline:
    sites = []
    for site in run.sites:
        value = values.get(site.name)
        if site.observed:
            sites.append(SiteOutline(site.name, "observed"))
        elif site.inner is not None:
            inner = _read(site.inner, flat[site.name], flat[site.name], {})
            shell = jax.tree_util.tree_map(lambda leaf: None, site.joint)
            sites.append(SiteOutline(site.name, "joint", value, inner=inner, joint=shell))
        elif site.value is None:
            sites.append(SiteOutline(site.name, "weight"))
        elif isinstance(site.source, Distribution):
            sites.append(
                SiteOutline(site.name, "random", value, site.source.domain, event_rank=site.source.signature.event_rank)
            )
        else:
            sites.append(SiteOutline(site.name, "deterministic", value))
    return Outline(tuple(sites), reached)


def _reach(tree: Any, leaves: list, values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Find which site's values reach which site's distribution, from the equations between them."""
    counts: list[tuple[str, int]] = []

    def follow(leaves: list[Data], values: dict) -> list[Data]:
        outputs: list[Data] = []
        for site in jax.tree_util.tree_unflatten(tree, leaves).run(Given(values)).sites:
            arrays = _arrays(site)
            counts.append((site.name, len(arrays)))
            outputs.extend(arrays)
        return outputs

    jaxpr = jax.make_jaxpr(follow)(leaves, values).jaxpr
    reach = dict(zip(jaxpr.invars[len(leaves) :], ({name} for name in _flattened_names(values)), strict=True))
    for equation in jaxpr.eqns:
        union = _reached(reach, equation.invars)
        reach.update(dict.fromkeys(equation.outvars, union))
    outputs = iter(jaxpr.outvars)
    nearest_first = [name for name, _ in reversed(counts)]
    reached = {name: _reached(reach, islice(outputs, count)) for name, count in counts}
    return {name: tuple(other for other in nearest_first if other in reached[name]) for name, _ in counts}


def _reached(reach: Mapping[Any, set[str]], variables: Iterable[Any]) -> set[str]:
    return set().union(*(reach.get(var, set()) for var in variables if not isinstance(var, Literal)))


def _flattened_names(values: Mapping[str, Any]) -> list[str]:
    """The site of each leaf, in the order in which JAX flattens a dict."""
    return [name for name in sorted(values) for _ in jax.tree_util.tree_leaves(values[name])]


def _arrays(site: Any) -> list[Data]:
    """The arrays that the distribution of a site is made of."""
    if site.inner is not None:
        return [array for inner in site.inner.sites for array in _arrays(inner)]
    if isinstance(site.source, Distribution):
        return parameters(site.source)
    if site.log_density is not None:
        return [site.log_density()]
    return jax.tree_util.tree_leaves(site.value)
