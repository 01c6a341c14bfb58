"""Naming the axis that `vmap` adds."""

from __future__ import annotations

from typing import TypeVar

from fubini.base.names import Name
from fubini.errors import DomainError, NameClash, listed
from fubini.terms.term import Term

T = TypeVar("T", bound=Term)


def require_added_axis(extra: int, term: Term, name: Name) -> None:
    """Raise unless leaves have one axis more than names, as `vmap` leaves them."""
    if extra != 1:
        raise DomainError(
            f"naming an axis {name!r} of a {type(term).__name__} over {listed(term.inputs)}",
            expected="a term returned from vmap, with one axis that has no name",
            nearest=f"it has {extra}",
        )


def name_axis(term: T, name: Name) -> T:
    """A term returned from `vmap`, with the leading axis of its leaves as an input called `name`.

    >>> import jax, jax.numpy as jnp
    >>> from fubini.terms.value import Array
    >>> name_axis(jax.vmap(lambda x: Array(x, ("j",)))(jnp.ones((3, 2))), "i").inputs
    {'i': Bint[3], 'j': Bint[2]}
    """
    if name in term.inputs:
        raise NameClash(f"naming an axis {name!r} of {term}", expected="a name the term does not have")
    return _named(term, name)


def _named(term: T, name: Name) -> T:
    if hasattr(term, "_with_axis"):
        return term._with_axis(name)  # type: ignore[attr-defined]
    if term._declared.arrays:
        raise DomainError(
            f"naming an axis of a {type(term).__name__}", expected="a term that supplies _with_axis for its leaves"
        )
    if not term.children:
        return term
    new = term._copied(lambda leaf: leaf, lambda child: _named(child, name))
    inputs = {key: domain for child in new.children for key, domain in child.inputs.items() if key == name}
    new.__dict__["inputs"] = {**inputs, **term.inputs}
    return new
