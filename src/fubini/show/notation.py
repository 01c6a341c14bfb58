"""How an expression is written: a small tree of notation, which a style renders.

Terms, nodes, measures and formulas say what they look like once, as such a tree; `fubini.show.styles` places the
parentheses, and styles say how the pieces look: text, HTML, LaTeX, Python source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Symbol:
    """A name or a number, and perhaps its type."""

    name: str
    type: str = ""


@dataclass(frozen=True)
class Infix:
    """Arguments joined by an operator; a single one follows it."""

    symbol: str
    args: tuple[Notation, ...]


@dataclass(frozen=True)
class Call:
    """head(arguments); keyword arguments are (name, notation) pairs."""

    head: str | Notation
    args: tuple[Notation, ...] = ()
    keywords: tuple[tuple[str, Notation], ...] = ()


@dataclass(frozen=True)
class Subscript:
    """base[indices]."""

    base: Notation
    indices: tuple[Notation, ...]


@dataclass(frozen=True)
class Big:
    """A big operator over indices: Σ_i body."""

    symbol: str
    indices: tuple[str, ...]
    body: Notation


# -- index notation, whose sums and products have no order of their own ----------------------------------------------


@dataclass(frozen=True)
class Numeral:
    """A number."""

    value: float


@dataclass(frozen=True)
class Total:
    """Σ coefficient · term."""

    terms: tuple[tuple[Notation, float], ...]


@dataclass(frozen=True)
class PowerProduct:
    """Π base^exponent."""

    factors: tuple[tuple[Notation, float], ...]


@dataclass(frozen=True)
class Applied:
    """A scalar function, by name or as it is, of arguments."""

    function: Any
    args: tuple[Notation, ...]


@dataclass(frozen=True)
class Relation:
    """[a = b] or [a < b]."""

    symbol: str
    args: tuple[Notation, ...]


@dataclass(frozen=True)
class Cases:
    """One of two, by a test."""

    test: Notation
    first: Notation
    second: Notation


@dataclass(frozen=True)
class Binding:
    """A body over indices that it binds: a sum, or another kind of binder."""

    kind: str
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    body: Notation


@dataclass(frozen=True)
class Lambda:
    """A function of names."""

    names: tuple[str, ...]
    body: Notation


@dataclass(frozen=True)
class Phrase:
    """Words that stand for an expression."""

    words: str


Notation = (
    Symbol
    | Infix
    | Call
    | Subscript
    | Big
    | Numeral
    | Total
    | PowerProduct
    | Applied
    | Relation
    | Cases
    | Binding
    | Lambda
    | Phrase
)
