"""Questions under `jit` about arrays whose types say how they lie on a mesh: axes of type Explicit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec

from fubini.base.arrays import is_traced
from fubini.base.auto_axes import explicit_axes
from fubini.base.names import Name
from fubini.terms.array_axes import named_leaves
from fubini.terms.factor import Factor
from fubini.terms.term import Term

of_jax: Any = jax


class TypedAxes(NamedTuple):
    """The axes of a mesh that are Explicit, and along which of them names lie."""

    mesh: Any
    along: dict[Name, Any]

    def spec(self, names: Sequence[Name] | None) -> Any:
        """How an array with these leading axes lies."""
        spec = PartitionSpec(*(self.along.get(name) for name in names or ()))
        return of_jax.sharding.NamedSharding(self.mesh, spec)


def explicit_axes_of(factors: Sequence[Factor]) -> TypedAxes | None:
    """How traced factors lie on a mesh, as their types say; None where they do not."""
    mesh, along = None, {}
    for leaf, names in (pair for factor in factors for pair in named_leaves(factor)):
        if not is_traced(leaf) or not explicit_axes(leaf):
            continue
        sharding = of_jax.typeof(leaf).sharding
        mesh = sharding.mesh
        for name, axes in zip(names or (), sharding.spec, strict=False):
            if axes is not None and axes not in along.values():
                along.setdefault(name, axes)
    return None if mesh is None else TypedAxes(mesh, along)


def over_auto_axes(run: Callable[..., Any], axes: TypedAxes, *given: Any) -> Any:
    """A function of traced arrays that the compiler places as it finds best; results lie as their names do."""
    plain = jax.tree_util.tree_map(_untyped, given)
    shapes = jax.eval_shape(run, *plain)
    leaves, _ = jax.tree_util.tree_flatten(shapes, is_leaf=lambda part: isinstance(part, Term))
    out: list[Any] = []
    for part in leaves:
        each = list(named_leaves(part)) if isinstance(part, Term) else [(part, None)]
        out.extend(axes.spec(names) for _, names in each)
    flat, whole = jax.tree_util.tree_flatten(shapes)
    assert len(flat) == len(out), "an array of a result without a place"
    local = of_jax.sharding.auto_axes(run, axes=axes.mesh.explicit_axes, out_sharding=whole.unflatten(out))
    return local(*given)


def _untyped(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf
