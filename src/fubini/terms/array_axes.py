"""The axes of the arrays in terms by name, and terms over other extents of their names: a part of each array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.terms.term import Term

Axes = tuple[Name, ...] | None


def named_leaves(term: Term) -> Iterator[tuple[Data, Axes]]:
    """The arrays in a term in order, each with the names of its leading axes; None where the term does not tell."""
    for field in term._declared.arrays:
        yield term.__dict__[field], term._leading_names(field)
    for child in term.children:
        yield from named_leaves(child)


def extents(term: Term) -> Iterator[tuple[Name, Domain]]:
    """The domains of all names in a term and its parts."""
    yield from term.inputs.items()
    for child in term.children:
        yield from extents(child)


def counts(term: Term, name: Name) -> bool:
    """Whether the number of a name enters a term as a value: then it differs from part to part of the arrays."""
    is_value = term._statics().get("name") == name and not term._declared.arrays
    return is_value or any(counts(child, name) for child in term.children)


def resized(term: Term, of_leaf: Callable[[Data, Axes], Data], domains: Mapping[Name, Domain]) -> Any:
    """The term over other arrays, some of its names with other domains."""
    arrays = iter([of_leaf(leaf, term._leading_names(field)) for field, leaf in _own(term)])
    new = term._copied(lambda _: next(arrays), lambda child: resized(child, of_leaf, domains))
    new.__dict__["inputs"] = {name: domains.get(name, domain) for name, domain in term.inputs.items()}
    return new


def _own(term: Term) -> Iterator[tuple[str, Data]]:
    for field in term._declared.arrays:
        yield field, term.__dict__[field]
