"""Nodes as trees of notation, with letters for their indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fubini.show.notation import (
    Applied,
    Binding,
    Cases,
    Notation,
    Numeral,
    Phrase,
    PowerProduct,
    Relation,
    Subscript,
    Symbol,
    Total,
)
from fubini.show.styles import text


def written(of: Any, names: Mapping[Any, str] | None = None) -> str:
    """A node with its indices as letters.

    >>> from fubini.algebra.build import get, index, power
    >>> from fubini.algebra.node import Index, Leaf
    >>> from fubini.algebra.sums import total
    >>> i = Index(3)
    >>> written(total([i], power(get(Leaf("x", (3,)), index(i)), 2.0)))
    'Σ_j x[j]²'
    """
    return text(notation_of(of, names))


def notation_of(of: Any, names: Mapping[Any, str] | None = None) -> Notation:
    """The notation of a node with its indices as letters."""
    notation = NodeNotation(dict(names or {}))
    for i in sorted(of.free, key=lambda i: i.serial):
        notation.letter(i)  # before those of sums, which end with them
    return notation.tree(of)


class NodeNotation:
    """How nodes are written; indices get the first letters that are not taken."""

    alphabet = "jklmnopqrstuvw"

    def __init__(self, letters: dict[Any, str], taken: set[str] | frozenset[str] = frozenset()) -> None:
        self.letters, self.taken = letters, taken

    def tree(self, this: Any) -> Notation:
        """The notation of a node."""
        tree = getattr(self, f"_{this.kind}")(this)
        return Phrase(tree) if isinstance(tree, str) else tree

    def letter(self, key: Any) -> str:
        """The letter of an index."""
        if key not in self.letters:
            used = self.taken | set(self.letters.values())
            self.letters[key] = next((c for c in self.alphabet if c not in used), f"i{len(used)}")
        return self.letters[key]

    def entry(self, leaf: Any, at: tuple[Any, ...]) -> Notation:
        """An entry of an array; axes of one entry are left out."""
        places = tuple(self.tree(part) for part, size in zip(at, leaf.shape, strict=True) if size != 1)
        return Subscript(Symbol(leaf.name), places) if places else Symbol(leaf.name)

    def _const(self, this: Any) -> Notation:
        return Numeral(this.args[0])

    def _index(self, this: Any) -> Notation:
        return Symbol(self.letter(this.args[0] if len(this.args) == 1 else this.args[:2]))

    def _get(self, this: Any) -> Notation:
        return self.entry(this.args[0], this.args[1:])

    def _add(self, this: Any) -> Notation:
        terms = [(part, coefficient) for part, coefficient in this.args if not _is_check(part)] or this.args
        return Total(tuple((self.tree(part), coefficient) for part, coefficient in terms))

    def _mul(self, this: Any) -> Notation:
        above_first = sorted(this.args, key=lambda factor: factor[1] < 0)
        return PowerProduct(tuple((self.tree(base), exponent) for base, exponent in above_first))

    def _call(self, this: Any) -> Notation:
        return Applied(this.args[0], tuple(map(self.tree, this.children)))

    def _eq(self, this: Any) -> Notation:
        return Relation("=", tuple(map(self.tree, this.args)))

    def _lt(self, this: Any) -> Notation:
        return Relation("<", tuple(map(self.tree, this.args)))

    def _where(self, this: Any) -> Notation:
        return Cases(*map(self.tree, this.args))

    def _binder(self, this: Any) -> Notation:
        sizes, body = this.args
        before = dict(self.letters)
        letters: list[str] = []
        for place in range(len(sizes)):
            self.letters.pop((this.height, place), None)
            letters.append(self.letter((this.height, place)))
        tree = Binding(this.kind, sizes, tuple(letters), self.tree(body))
        self.letters = before
        return tree

    _sum = _lse = _greatest = _chain = _rows = _slopes = _binder

    def _logdet(self, this: Any) -> Notation | str:
        return f"log|AᵀA| of {this.args[0].size} unknowns"

    def _rss(self, this: Any) -> Notation | str:
        return f"min|A x − b|² of {this.args[0].size} unknowns"


def _is_check(this: Any) -> bool:
    """Whether a node is zero, or not a number where a parameter is not allowed: no part of a formula."""
    return this.kind == "call" and getattr(this.args[0], "is_check", False)
