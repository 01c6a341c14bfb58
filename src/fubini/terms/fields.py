"""Fields of terms, declared on the class with their kind.

    class Substituted(Factor):
        factor: Factor = term_field()
        names: tuple[Name, ...] = static_field()

Traversal, pytrees, structural keys, equality and pickling follow from the declaration (`fubini.terms.term`).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class Kind(Enum):
    """What a field of a term holds."""

    ARRAY = "array"  # a leaf of the pytree
    TERM = "term"  # a term, or a tuple of terms
    STATIC = "static"  # hashable; may contain names


class Field:
    """A field of one kind; its value is in the `__dict__` of each term."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: Kind) -> None:
        self.kind, self.name = kind, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Field:
        if instance is None:
            return self
        raise AttributeError(f"{type(instance).__name__} without {self.name!r}")

    def __repr__(self) -> str:
        return f"{self.kind.value}_field()"


def array_field() -> Any:
    """Declare a field that holds an array."""
    return Field(Kind.ARRAY)


def term_field() -> Any:
    """Declare a field that holds a term, or a tuple of terms."""
    return Field(Kind.TERM)


def static_field() -> Any:
    """Declare a field that holds static data: hashable, compared by `==`."""
    return Field(Kind.STATIC)


class Fields(NamedTuple):
    """The names of the fields of a class by kind, in order of declaration, those of its bases first."""

    arrays: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    statics: tuple[str, ...] = ()


def collect_fields(cls: type) -> Fields:
    """The fields that a class and its bases declare.

    >>> class Pair:
    ...     first: object = term_field()
    ...     names: tuple = static_field()
    >>> collect_fields(Pair)
    Fields(arrays=(), terms=('first',), statics=('names',))
    """
    declared: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        declared.update(vars(base))
    fields = [field for field in declared.values() if isinstance(field, Field)]
    return Fields(*(tuple(field.name for field in fields if field.kind is kind) for kind in Kind))
