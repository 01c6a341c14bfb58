"""Latents with a short axis along which entries are coupled, each a latent: Σ_p x_p w[p] = x₀ w₀ + x₁ w₁ + …"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fubini.algebra.binding import opened, remade, replaced
from fubini.algebra.build import add, const, get, index
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite, walk

SHORT = 8  # entries of an axis that is written out


def short_axes(latent: Leaf) -> list[int]:
    """Axes that can be written out, the last one first."""
    return [axis for axis in reversed(range(len(latent.shape))) if 1 < latent.shape[axis] <= SHORT]


def unrolled(terms: Sequence[Node], latent: Leaf, axis: int) -> tuple[tuple[Node, ...], list[Leaf]]:
    """Terms in latents that are the slices of this one along an axis; blocked where it is read at other places."""
    shape = latent.shape[:axis] + latent.shape[axis + 1 :]
    slices = [
        Leaf(f"{latent.name}{place}", shape, low=latent.low, high=latent.high, role=latent.role)
        for place in range(latent.shape[axis])
    ]
    return tuple(_sliced(_spread(term, latent, axis), latent, axis, slices) for term in terms), slices


def _spread(of: Node, latent: Leaf, axis: int) -> Node:
    """Write sums over the axis out."""

    def spread(this: Node, visit: Callable[[Node], Node]) -> Node:
        if latent not in this.leaves:
            return this
        if this.kind != "sum":
            return remade(this, visit)
        over, body = opened(this)
        body = visit(body)
        along = next((i for i in over if index(i) in _places(body, latent, axis)), None)
        if along is None:
            return total(over, body)
        rest = [i for i in over if i is not along]
        parts = [total(rest, replaced(body, {index(along): const(float(place))})) for place in range(along.size)]
        return visit(add((part, 1.0) for part in parts))

    return rewrite(of, spread)


def _places(of: Node, latent: Leaf, axis: int) -> set[Node]:
    """Where the latent is read along an axis."""
    nodes = walk(of, enter=lambda this: latent in this.leaves)
    return {this.args[1 + axis] for this in nodes if this.kind == "get" and this.args[0] is latent}


def _sliced(of: Node, latent: Leaf, axis: int, slices: Sequence[Leaf]) -> Node:
    def slice_entry(this: Node, visit: Callable[[Node], Node]) -> Node:
        if latent not in this.leaves:
            return this
        if this.kind != "get" or this.args[0] is not latent:
            return remade(this, visit)
        at = list(this.children)
        place = at.pop(axis)
        if place.kind != "const":
            raise NoClosedForm(latent, this, "entries at places along a short axis that are known")
        return get(slices[int(place.args[0])], *at)

    return rewrite(of, slice_entry)
