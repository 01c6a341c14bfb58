"""Sequences over the devices of a mesh: each device answers for its own, and nothing is communicated on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from fubini.base.arrays import Data, is_traced
from fubini.base.domains import Bint, Domain
from fubini.base.names import Name
from fubini.base.sharded_array import mesh_of, on_mesh
from fubini.numerics.in_range import as_if_in_range, if_in_range, is_open
from fubini.terms.array_axes import Axes, counts, extents, named_leaves, resized
from fubini.terms.factor import Factor
from fubini.terms.term import Term

Groups = Sequence[Sequence[Factor]]


class Along(NamedTuple):
    """The axes of a mesh along which time lies, the devices along them, and how many steps the last lacks."""

    axes: tuple[str, ...]
    devices: int
    lacking: int


class Split(NamedTuple):
    """Names whose values lie on different devices, each along axes of a mesh; `time` is one of them, or None."""

    mesh: Any
    names: tuple[tuple[Name, tuple[str, ...]], ...]
    time: Name | None = None
    length: int = 1

    @property
    def along(self) -> Along | None:
        """How time is split, if it is."""
        if self.time is None:
            return None
        parts = self.parts(self.time)
        return Along(dict(self.names)[self.time], parts, -self.length % parts)

    @property
    def others(self) -> tuple[str, ...]:
        """The axes along which all else lies."""
        return tuple(axis for name, axes in self.names if name != self.time for axis in axes)

    def parts(self, name: Name) -> int:
        """The number of devices along the axes of a name."""
        count = 1
        for axis in dict(self.names)[name]:
            count *= self.mesh.shape[axis]
        return count

    def spec(self, axes: Axes) -> PartitionSpec:
        """How an array with these leading axes is split."""
        along = dict(self.names)
        return PartitionSpec(*(along.get(name) for name in axes or ()))


def split_of(groups: Groups, unsplit: Sequence[Name], time: Name | None = None, length: int = 1) -> Split | None:
    """The names along which factors lie on a mesh; None where none does, or a factor cannot be cut along them."""
    found: dict[Name, tuple[str, ...]] = {}
    terms = [term for group in groups for term in group]
    mesh: Any = mesh_of(leaf for term in terms for leaf in term.leaves() if not is_traced(leaf))
    for leaf, names in (pair for term in terms for pair in named_leaves(term)):
        sharding = sharding_of(leaf)
        if sharding is None or names is None:
            continue
        for name, axes in zip(names, tuple(sharding.spec), strict=False):
            own = axes if isinstance(axes, tuple) else (axes,)
            used = {axis for other, taken in found.items() if other != name for axis in taken}
            if axes is not None and (name == time or name not in unsplit) and not used & set(own):
                mesh = sharding.mesh
                found.setdefault(name, own)
    kept = {name: axes for name, axes in found.items() if all(can_cut(term, name) for term in terms)}
    if time in kept and -length % (parts := Split(mesh, tuple(kept.items())).parts(time)) >= -(-length // parts):
        del kept[time]  # too few steps for each device to have some
    return Split(mesh, tuple(kept.items()), time if time in kept else None, length) if kept else None


def mesh_notes(split: Split | None) -> list[str]:
    """What is on which devices, and what is communicated how often, in words."""
    if split is None:
        return []
    notes = []
    for name, axes in split.names:
        parts, along = split.parts(name), " and ".join(map(repr, axes))
        where = f"{name} along {along} of the mesh, on {parts} device{'s' * (parts != 1)}"
        if name == split.time:
            notes.append(f"{where}: products of stretches are gathered, once a question; each device sweeps its own")
        else:
            notes.append(f"{where}: each answers for its own; nothing is communicated but sums of gradients, once")
    return notes


def sharding_of(leaf: Any) -> NamedSharding | None:
    """How an array lies on a mesh, as far as that is known: of tracers, on axes of type Explicit."""
    sharding: Any = jax.typeof(leaf).sharding if is_traced(leaf) else getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding) or all(axes is None for axes in sharding.spec):
        return None
    return sharding


def on_auto_axes(factor: Factor) -> Factor:
    """The factor over the same parts of its arrays, on axes of type Auto where their numbers are known."""
    return factor.rebuilt(iter([on_mesh(leaf) for leaf in factor.leaves()]))


def can_cut(term: Term, name: Name) -> bool:
    """Whether parts of the arrays of a term are a term for a part of the values of a name."""
    if name not in term.inputs:
        return True
    return not counts(term, name) and all(names is not None for _, names in named_leaves(term))


def answer_on_each(answer: Callable[..., Any], split: Split, groups: Groups, *keys: Any) -> Any:
    """answer(groups, *keys), where each device has its own values of the names, and answers for them.

    A key is another one on each device.
    """
    here = _Parts(split, groups)
    if is_open():
        result, safe = here.run(as_if_in_range(answer), keys)
        return if_in_range(jnp.all(safe), lambda: result, lambda: result)
    result, _ = here.run(lambda *given: (answer(*given), jnp.asarray(True)), keys)
    return result


class _Parts:
    """Factors in parts, and answers made of those of each part."""

    def __init__(self, split: Split, groups: Groups) -> None:
        self.split, self.groups = split, groups
        self.domains: dict[Name, Domain] = dict(
            pair for group in groups for term in group for pair in extents(term) if pair[0] in dict(split.names)
        )
        self.shape: Any = None

    @property
    def names(self) -> tuple[Name, ...]:
        """The names that are split."""
        return tuple(self.domains)

    def run(self, answer: Callable[..., Any], keys: tuple) -> Any:
        """The answer with the parts put together, and the flag of each part."""
        leaves = [self._filled(leaf, names) for leaf, names in self._leaves()]
        specs = [self.split.spec(names) for _, names in self._leaves()]
        every = PartitionSpec(tuple(self.split.mesh.axis_names))
        out = {subset: self.split.spec(subset) for subset in self._subsets()}

        def local(own: list[Data], keys: tuple) -> tuple[dict, Data]:
            if self.split.others:
                device = jax.lax.axis_index(self.split.others)
                keys = tuple(jax.random.fold_in(key, device) for key in keys)
            result, safe = answer(self._local(own), *keys)
            return self._parts(result), safe[None]

        on_each = jax.shard_map(
            local,
            mesh=self.split.mesh,
            in_specs=(specs, PartitionSpec()),
            out_specs=(out, every),
            check_vma=False,
        )
        found, safe = on_each(leaves, keys)
        return self._whole(found), safe

    def _leaves(self) -> list[tuple[Data, Axes]]:
        return [pair for group in self.groups for term in group for pair in named_leaves(term)]

    def _subsets(self) -> list[tuple[Name, ...]]:
        return [subset for size in range(len(self.names) + 1) for subset in combinations(self.names, size)]

    # -- factors ------------------------------------------------------------------------------------------------------

    def _held(self, name: Name) -> int:
        """How many values of a name a device has, at most."""
        return -(-self.domains[name].extent // self.split.parts(name))  # type: ignore[operator]

    def _filled(self, leaf: Data, names: Axes) -> Data:
        """With its last values once more, so that each device has as many."""
        axes = {name: axis for axis, name in enumerate(names or ()) if name in self.domains}
        lacking = {axis: self._held(name) * self.split.parts(name) - leaf.shape[axis] for name, axis in axes.items()}
        if not any(lacking.values()):
            return leaf
        return jnp.pad(leaf, [(0, lacking.get(axis, 0)) for axis in range(leaf.ndim)], mode="edge")

    def _local(self, own: list[Data]) -> Groups:
        parts = iter(own)
        domains: Mapping[Name, Domain] = {name: Bint[self._held(name)] for name in self.names}
        return [[resized(term, lambda *_: next(parts), domains) for term in group] for group in self.groups]

    # -- answers ------------------------------------------------------------------------------------------------------

    def _parts(self, result: Any) -> dict[tuple[Name, ...], list[Data]]:
        """The arrays of an answer with the axes that are split in front, by these axes."""
        terms, self.shape = jax.tree.flatten(result, is_leaf=is_term)
        self.terms, self.order = terms, []
        found: dict[tuple[Name, ...], list[Data]] = {subset: [] for subset in self._subsets()}
        for leaf, names in (pair for term in terms for pair in named_leaves(term)):
            assert names is not None, "answers tell the names of their axes"
            subset = tuple(name for name in self.names if name in names)
            axes = [names.index(name) for name in subset]
            found[subset].append(jnp.moveaxis(leaf, axes, range(len(axes))))
            self.order.append((subset, axes))
        return found

    def _whole(self, found: dict[tuple[Name, ...], list[Data]]) -> Any:
        given = {subset: iter(leaves) for subset, leaves in found.items()}

        def back(subset: tuple[Name, ...], axes: list[int]) -> Data:
            data = next(given[subset])
            data = data[tuple(slice(self.domains[name].extent) for name in subset)]
            return jnp.moveaxis(data, range(len(axes)), axes)

        leaves = iter([back(*each) for each in self.order])
        terms = [resized(term, lambda *_: next(leaves), self.domains) for term in self.terms]
        return jax.tree.unflatten(self.shape, terms)


def is_term(item: Any) -> bool:
    """Whether it is a term, which is taken as one leaf."""
    return isinstance(item, Term)
