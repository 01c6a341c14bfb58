"""The numbers of sums over rows that lie on a mesh: one program for all that are asked for at once."""

from __future__ import annotations

from collections.abc import Iterable

import jax

from fubini.algebra.axes import Axes
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.mesh_sums import mesh_sums
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import Data, double_precision, is_traced
from fubini.read.jaxpr_reader import Reader
from fubini.read.leaf_arrays import LeafArrays


def sums_over_mesh(reader: Reader, roots: Iterable[Node]) -> dict[Node, Axes]:
    """The sums in nodes over rows on a mesh that data alone decide, in double precision; each is computed once."""
    if not reader.placed or is_traced(*reader.known.values()):
        return {}
    wanted = mesh_sums(roots, reader.placed, lambda leaf: _is_unknown(leaf, reader))
    missing = [this for this in wanted if this not in reader.sums]
    if missing:
        orders: list[tuple[Index, ...]] = []

        def compute(known: list[Data]) -> list[Data]:
            evaluation = Evaluation(LeafArrays(dict(zip(reader.known, known, strict=True)), reader))
            axes = [evaluation.of(this) for this in missing]
            orders.extend(one.of for one in axes)
            return [one.data for one in axes]

        with double_precision(), jax.ensure_compile_time_eval():
            numbers = jax.device_get(jax.jit(compute)(list(reader.known.values())))
        reader.sums.update(zip(missing, map(Axes, numbers, orders), strict=True))
    return {this: reader.sums[this] for this in wanted}


def _is_unknown(leaf: Leaf, reader: Reader) -> bool:
    """Neither known nor computed from what is."""
    return leaf not in reader.known and not (leaf in reader.opaque and leaf.of <= set(reader.known))
