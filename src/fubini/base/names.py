"""Names of variables: strings that users choose, and those of bound variables, which nothing can capture."""

from __future__ import annotations

from fubini.errors import DomainError


class Bound:
    """The name of a bound variable: a fresh object, so that nothing can capture it. Printed as what it was called."""

    __slots__ = ("label",)

    def __init__(self, label: object) -> None:
        self.label = str(label)

    def __repr__(self) -> str:
        return self.label

    __str__ = __repr__


Name = str | Bound


def as_names(names: object, what: str) -> tuple[Name, ...]:
    """Names as a tuple; a string is not a tuple of its letters."""
    if isinstance(names, str):
        raise DomainError(f"{what} {names!r}", expected="a tuple of names", advice=f"write ({names!r},)")
    return tuple(names)  # type: ignore[arg-type]
