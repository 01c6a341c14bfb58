"""The numbers of sums over rows that are read chunk by chunk, before a density is integrated and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fubini.algebra.node import Leaf, Node
from fubini.algebra.node_notation import written
from fubini.algebra.row_sums import NeedsRows, Passes, sum_rows
from fubini.base.stream import Stream
from fubini.errors import NoRule
from fubini.read.jaxpr_reader import Reader


def sum_rows_of_sites(terms: Mapping[str, Node], reader: Reader) -> tuple[dict[str, Node], Passes | None]:
    """The terms of sites with their sums over rows as numbers, and how these were read.

    Where the term of some site needs all rows, the reader keeps its streams: what is integrated out may leave sums.
    """
    streams: dict[Leaf, Stream] = {leaf: data for leaf, data in reader.known.items() if isinstance(data, Stream)}  # type: ignore[misc]
    if not streams:
        return dict(terms), None
    new, passes, errors = sum_rows(terms, reader.known, lambda array: reader.constant(array).at)
    for leaf in streams:
        del reader.known[leaf]
    if errors:
        reader.rows, reader.needs_rows = streams, _error_of(errors)
    return new, passes


def sum_rows_in_part(terms: Mapping[str, Node], reader: Reader) -> tuple[dict[str, Node], Passes]:
    """The same as far as rows can be summed, for what is estimated from some of them."""
    known = {**reader.known, **reader.rows}
    new, passes, _ = sum_rows(terms, known, lambda array: reader.constant(array).at, in_part=True)
    reader.needs_rows = None
    return new, passes


def sum_rows_that_remain(terms: Sequence[Node], reader: Reader) -> tuple[Node, ...]:
    """Terms after an integral with their sums over rows as numbers; an error that names the site where rows remain."""
    if not any(term.leaves & set(reader.rows) for term in terms):
        return tuple(terms)
    named, known = {str(place): term for place, term in enumerate(terms)}, {**reader.known, **reader.rows}
    in_part = reader.needs_rows is None
    new, _, errors = sum_rows(named, known, lambda array: reader.constant(array).at, in_part)
    if errors and reader.needs_rows is not None:
        raise reader.needs_rows
    return tuple(new.values())


def _error_of(errors: Mapping[str, NeedsRows]) -> NoRule:
    name, error = next(iter(errors.items()))
    return NoRule(
        f"the term of {name!r}, which needs all rows of a stream",
        expected="a density that sums over rows decide, none of which depends on latents",
        nearest=f"{error.why}: {written(error.node)[:160]}",
        advice='infer(key, method="svi") estimates it from some of the rows at a time',
    )
