"""Containers of values: from what the user writes to names in order, and back.

Inside the library the values of a joint are a dict by name; a nested joint's are a dict in it.
"""

from __future__ import annotations

import textwrap
from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from fubini.errors import DomainError, UnknownName, closest, listed
from fubini.show.printed_form import LINES, bounded
from fubini.terms.numbers import shown_value

SHAPES = ("num_samples", "sample_shape", "n", "size", "draws", "n_samples")


class Struct:
    """The base of tuples of values: printed on several lines, joined by `+`."""

    __slots__ = ()
    _fields: tuple[str, ...]

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Struct):
            return NotImplemented
        return struct(self._fields + other._fields)(*self, *other)  # type: ignore[misc]

    def __repr__(self) -> str:
        return print_fields(self)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple:
        return _restored, (self._fields, tuple(self))  # type: ignore[arg-type]


def print_fields(values: Any) -> str:
    """Print a tuple with names on several lines, an item on each; large arrays by their shape and some numbers."""
    lines = [
        textwrap.indent(f"{name}={shown_value(value)},", "  ").splitlines()
        for name, value in zip(values._fields, values, strict=True)
    ]
    inside = bounded((line for several in lines for line in several), LINES - 2)
    return "\n".join([f"{type(values).__name__}(", *inside, ")"])


@lru_cache(maxsize=1024)
def struct(fields: tuple[str, ...]) -> type:
    """The type of tuples with these fields: one type for equal fields.

    >>> struct(("a", "b"))(1, 2) + struct(("c",))(3)
    Struct(
      a=1,
      b=2,
      c=3,
    )
    """
    return type("Struct", (Struct, namedtuple("Struct", fields)), {"__slots__": ()})


def _restored(fields: tuple[str, ...], values: tuple) -> Any:
    return struct(fields)(*values)


def is_namedtuple(value: Any) -> bool:
    """Whether a value is a tuple whose items have names."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_container(value: Any) -> bool:
    """Whether a value is a container of the values of sites, a known one or one of a flavour's own."""
    return not isinstance(value, (int, float, str)) and not hasattr(value, "__array__")


def by_name(value: Any, names: Sequence[str], what: str, *, ordered: bool = True) -> dict[str, Any]:
    """The items of any container by site name; None and what is absent are dropped.

    >>> by_name((1.0, None), ("a", "b", "c"), "a value")
    {'a': 1.0}
    """
    if isinstance(value, Mapping) or is_namedtuple(value):
        items = dict(value) if isinstance(value, Mapping) else value._asdict()
        for name in items:
            require_site(name, names, what)
        return {name: items[name] for name in names if items.get(name) is not None}
    if not isinstance(value, (list, tuple)):
        raise DomainError(f"{what} as a {type(value).__name__}", expected=_shape(names, ordered))
    if not ordered:
        raise DomainError(
            f"{what} as a {type(value).__name__}",
            expected=_shape(names, ordered),
            advice="a dict has no positions: name the values",
        )
    if len(value) > len(names):
        raise DomainError(f"{what} with {len(value)} items", expected=f"at most {len(names)}: {listed(names)}")
    return {name: item for name, item in zip(names, value, strict=False) if item is not None}


def _shape(names: Sequence[str], ordered: bool) -> str:
    return f"a dict{', or a list or tuple in this order' if ordered else ''}, of the sites {listed(names)}"


def require_site(name: Any, names: Sequence[str], what: str) -> None:
    """Raise unless a name is that of a site."""
    if name not in names:
        raise UnknownName(
            f"{what} for {name!r}",
            expected=f"one of the sites {listed(names)}",
            nearest=closest(name, names) or "no site has a similar name",
            advice="the number of draws is `shape`: sample(key, (1000,))"
            if name in SHAPES
            else "give the name of a site as the model has it: joint.names lists them all",
        )
