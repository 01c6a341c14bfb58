"""What an explanation says of data on a mesh: which axes lie along it, what is exchanged how often, bytes a device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fubini.algebra.mesh_sums import mesh_sums, without_rows
from fubini.algebra.node import Leaf, Node
from fubini.models.eliminated_model import EliminatedModel


def mesh_lines(eliminated_model: EliminatedModel) -> Iterator[str]:
    """Each array by its axes on the mesh, then sums that are computed once, and those of each density."""
    reader = eliminated_model.reading.reader
    if not reader.placed:
        return
    mesh = next(iter(reader.placed.values())).mesh
    sizes = ", ".join(f"{name} {size}" for name, size in mesh.shape.items())
    yield f"on a mesh ({sizes}): " + "; ".join(_lies(leaf, reader) for leaf in reader.placed)
    terms = eliminated_model.plan.terms
    sums = mesh_sums(terms, reader.placed, lambda leaf: leaf not in reader.known)
    if sums:
        yield f"exchanged once: {_counted(sums, math.prod(mesh.shape.values()))}"
    if without_rows(terms, sums, reader.placed):
        return
    if not eliminated_model.kept:
        yield "exchanged for the evidence: its sums over rows, and a few rows of each stretch of time"
    else:
        numbers = sum(math.prod(eliminated_model.reading.sites[name].shape) for name in eliminated_model.kept)
        yield (
            f"exchanged for each density of {', '.join(eliminated_model.kept)}: its sums over rows; for each slope "
            f"{numbers:,} number{'s' * (numbers != 1)} more; rows stay where they are"
        )


def _lies(leaf: Leaf, reader: object) -> str:
    """An array, its axes on the mesh, and what a device holds of it."""
    data = reader.known[leaf]  # type: ignore[attr-defined]
    held = data.sharding.shard_shape(data.shape)
    along = ", ".join(
        f"axis {axis} along {named if isinstance(named, str) else ' and '.join(named)}"
        for axis, named in enumerate(data.sharding.spec)
        if named is not None
    )
    size = math.prod(held) * data.dtype.itemsize
    return f"{leaf.name}[{', '.join(f'{n:,}' for n in leaf.shape)}], {along}, {size:,} bytes a device"


def _counted(sums: Sequence[Node], devices: int) -> str:
    """How many sums and triangles, and their numbers."""
    plain = [math.prod(i.size for i in one.free) for one in sums if one.kind != "triangle"]
    triangles = [one.args[0].width ** 2 * devices for one in sums if one.kind == "triangle"]
    parts = [
        f"{len(sizes)} {what}{'s' * (len(sizes) != 1)} of {sum(sizes):,} numbers {how}"
        for sizes, what, how in ((plain, "sum", "all-reduced"), (triangles, "triangle", "gathered"))
        if sizes
    ]
    return " and ".join(parts)
