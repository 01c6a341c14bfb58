"""The values of a call: from the many ways in which they may be given, to names; and back to the user's container."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_double_precision, is_traced, known_stays_known, precision
from fubini.base.distant import flatten, is_of_jax, rebuild
from fubini.base.fingerprints import require_agreement
from fubini.base.sharded_array import mesh_of, on_mesh
from fubini.base.stream import Stream
from fubini.errors import DomainError, listed
from fubini.models.container import is_container, require_site
from fubini.models.flavour import Flavour
from fubini.models.outline import Outline, SiteOutline, outline_of_parts
from fubini.numerics.randomness import require_key


class FlatJoint:
    """A joint flattened, with its outline: what one call needs to know of it."""

    def __init__(self, joint: Flavour) -> None:
        self.joint = joint
        leaves, self.tree = flatten(joint)
        self.mesh = mesh_of(leaves)
        self.leaves: list[Data] = [on_mesh(leaf) for leaf in leaves] if self.mesh is not None else leaves
        self.require_agreement("a question to a model", {"data": self.leaves})
        self.outline: Outline = outline_of_parts(self.tree, self.leaves)

    def require_agreement(self, asked: str, parts: Mapping[str, Any]) -> None:
        """Raise unless all processes that its data are in ask the same."""
        if self.mesh is not None and not is_traced(*self.leaves):
            require_agreement(self.mesh, asked, parts)

    @property
    def is_float64(self) -> bool:
        """Whether its numbers are NumPy's, in double precision."""
        return not any(map(is_of_jax, self.leaves)) or is_double_precision()

    @property
    def is_streamed(self) -> bool:
        """Whether some of its numbers are rows that are read chunk by chunk."""
        return any(isinstance(leaf, Stream) for leaf in self.leaves)

    @property
    def shapes_of_rows(self) -> list[Any]:
        """The leaves, with shapes in place of rows that are read chunk by chunk."""
        return [
            jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) if is_rows else leaf
            for leaf in self.leaves
            for is_rows in (isinstance(leaf, Stream),)
        ]

    @property
    def prior(self) -> Any:
        """The joint without its observations."""
        return prior_of(self.joint)

    def precision(self) -> AbstractContextManager:
        """The precision that its answers are computed in."""
        return precision(self.is_float64)

    def numbers(self, data: Data) -> Data:
        """Known numbers as those of its answers: NumPy's, or JAX's in the precision in force; on a mesh they stay."""
        if self.is_float64 and self.mesh is None:
            return np.asarray(data)
        with known_stays_known(data):
            return jnp.asarray(data)

    def rebuilt(self, leaves: list[Data]) -> Any:
        """The joint over other leaves."""
        return rebuild(self.tree, leaves)

    def seen_as(self, outline: Outline) -> FlatJoint:
        """The same joint as a function of other values."""
        new = copy(self)
        new.outline = outline
        return new

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        """Values by name, in the order of the sites, as users see them."""
        return self.joint.unflatten(
            {site.name: values[site.name] for site in self.outline.sites if site.name in values}
        )

    def partial(self, value: Any, named: Mapping[str, Any], what: str = "a value") -> dict[str, Any]:
        """Values for some of the sites: one structure, or by name."""
        if value is None:
            for name in named:
                require_site(name, self.outline.names, what)
            return self._inner(named, what)
        if named:
            raise DomainError(f"{what} together with {listed(named)}", expected="one structure, or sites by name")
        return self.flat(value, what)

    def complete(self, values: tuple, named: Mapping[str, Any], what: str = "a value") -> dict[str, Any]:
        """Values for all sites: one structure, by position, by name, or some of each."""
        if "value" in named:
            named = dict(named)
            values = (*values, named.pop("value"))
        if len(values) == 1 and not named and (is_container(values[0]) or len(self.outline.free) > 1):
            return self.flat(values[0], what)
        if not values:
            return self.partial(None, named, what)
        given = self.flat(values, what)
        twice = [name for name in given if name in named]
        if twice:
            raise DomainError(f"two values for the site {twice[0]!r}", expected="one, by position or by name")
        return {**given, **self.partial(None, named, what)}

    def flat(self, value: Any, what: str) -> dict[str, Any]:
        """A structure by name, those of nested joints too."""
        whole = isinstance(value, (list, tuple)) and len(value) > len(self.outline.free)
        names = self.outline.names if whole or isinstance(value, Mapping) else self.outline.free
        if hasattr(value, "_fields"):
            names = self.outline.names
        return self._inner(self.joint.flatten(value, names, what), what)

    def _inner(self, given: Mapping[str, Any], what: str) -> dict[str, Any]:
        return {name: _flat_inside(self.outline[name], item, what, name) for name, item in given.items()}


def prior_of(joint: Flavour) -> Any:
    """A joint without its observations."""
    uncondition = getattr(joint, "uncondition", None)
    return joint if uncondition is None else uncondition()


def _flat_inside(site: SiteOutline, item: Any, what: str, path: str) -> Any:
    """The values of a nested joint by name, from any container."""
    outline = site.inner
    if outline is None:
        return item
    positional = isinstance(item, (list, tuple)) and not hasattr(item, "_fields")
    names = outline.free if positional and len(item) <= len(outline.free) else outline.names
    assert site.joint is not None
    values = site.joint.flatten_inside(item, names, f"{what} of {path!r}")
    return {name: _flat_inside(outline[name], value, what, f"{path}.{name}") for name, value in values.items()}


def randomness(key: Data, shape: int | tuple[int, ...]) -> tuple[Data, tuple[int, ...]]:
    """Return a key and a shape, or raise where one is wrong."""
    require_key(key)
    try:
        sizes = tuple(map(operator.index, shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise DomainError(
            f"draws in the shape {shape!r}", expected="a size or a tuple of sizes", advice="values go in as value="
        )
    return key, sizes
