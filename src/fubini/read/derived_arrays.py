"""Arrays that densities are written in: what a function makes of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fubini.algebra.build import ONE, index, power, times
from fubini.algebra.node import Index, Node
from fubini.base.distant import is_distant
from fubini.families.parameters import DerivedParameter
from fubini.read.jaxpr_reader import Reader
from fubini.read.scaled_matrix import positive_definite_entries, without_scale
from fubini.read.symbolic_array import SymbolicArray, of_leaf, whole_leaf


def derived_array(derived: DerivedParameter, given: Mapping[str, SymbolicArray], reader: Reader) -> SymbolicArray:
    """What a function makes of parameters; a positive number in front of one stays in front."""
    operands = [given[name] for name in derived.of]
    degree = derived.degree
    if degree is None:
        shape = derived.shape(*(part.shape for part in operands))
        return reader.made_of(derived.label, shape, derived.function, *operands)
    (matrix,) = operands
    front, plain = without_scale(matrix, reader)
    known = _of_each(derived, plain, reader)
    if front is ONE:
        return known
    return SymbolicArray(known.shape, lambda *at: times(power(front, degree), known.at(*at)))


def _root_of_computed(derived: DerivedParameter, matrix: SymbolicArray, reader: Reader) -> SymbolicArray | None:
    """The root of a matrix that latents decide, as one of an array of its own; None of another function or matrix."""
    if derived.root_power is None or matrix.rank != 2 or reader.numbers(matrix) is not None:
        return None
    leaf = whole_leaf(matrix) or whole_leaf(reader.made_of("matrix", matrix.shape, lambda part: part, matrix))
    return None if leaf is None else reader.root(leaf, derived.root_power, derived.function)


def _of_each(derived: DerivedParameter, matrix: SymbolicArray, reader: Reader) -> SymbolicArray:
    """Of matrices that are chosen from several, the function of all of them, and then chosen from."""
    fresh = [Index(size) for size in matrix.shape]
    entry: Any = matrix.at(*map(index, fresh))
    if derived.root_power is not None and (latent := positive_definite_entries(matrix)) is not None:
        roots = reader.root(latent.leaf, derived.root_power, derived.function)
        return SymbolicArray(matrix.shape, lambda *at: roots.at(*latent.places(matrix, at)[:-2], *at[-2:]))
    chosen = entry.kind == "get" and entry.args[-2:] == tuple(map(index, fresh[-2:])) and len(entry.args) > 3
    if not chosen or matrix.constant is not None:
        return _root_of_computed(derived, matrix, reader) or reader.made_of(
            derived.label, derived.shape(matrix.shape), derived.function, matrix
        )
    leaf = entry.args[0]
    is_seen = leaf in reader.known and not is_distant(reader.known[leaf])
    known = reader.constant(reader.known[leaf]) if is_seen else of_leaf(leaf)
    every = reader.made_of(derived.label, derived.shape(leaf.shape), derived.function, known)

    def at(*where_: Node) -> Node:
        return every.at(*matrix.at(*where_).args[1:-2], *where_[-2:])

    return SymbolicArray(matrix.shape, at)
