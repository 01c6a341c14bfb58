"""Latents with a short axis along which entries are coupled, each a latent: Σ_p x_p w[p] = x₀ w₀ + x₁ w₁ + …"""

from __future__ import annotations

from collections.abc import Sequence

from fubini.algebra.binding import opened, remade, replaced
from fubini.algebra.build import add, const, get, index
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node, children
from fubini.algebra.sums import total

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
    if latent not in of.leaves:
        return of
    if of.kind != "sum":
        return remade(of, lambda part: _spread(part, latent, axis))
    over, body = opened(of)
    body = _spread(body, latent, axis)
    along = next((i for i in over if index(i) in _places(body, latent, axis)), None)
    if along is None:
        return total(over, body)
    rest = [i for i in over if i is not along]
    parts = [total(rest, replaced(body, {index(along): const(float(place))})) for place in range(along.size)]
    return _spread(add((part, 1.0) for part in parts), latent, axis)


def _places(of: Node, latent: Leaf, axis: int) -> set[Node]:
    """Where the latent is read along an axis."""
    if latent not in of.leaves:
        return set()
    own = {of.args[1 + axis]} if of.kind == "get" and of.args[0] is latent else set()
    return own.union(*(_places(part, latent, axis) for part in children(of)))


def _sliced(of: Node, latent: Leaf, axis: int, slices: Sequence[Leaf]) -> Node:
    if latent not in of.leaves:
        return of
    if of.kind == "get" and of.args[0] is latent:
        at = list(of.args[1:])
        place = at.pop(axis)
        if place.kind != "const":
            raise NoClosedForm(latent, of, "entries at places along a short axis that are known")
        return get(slices[int(place.args[0])], *at)
    return remade(of, lambda part: _sliced(part, latent, axis, slices))
