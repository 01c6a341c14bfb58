"""Sums in what is returned, term by term: Σ_i h(x[i]) is a sum of draws where h(x[i]) is a draw of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fubini.algebra.binding import escapes, opened, replaced, transformed
from fubini.algebra.build import add, get, index, plus, scale
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.walk import walk
from fubini.measures.added_draws import with_sums
from fubini.measures.branch import Branch, Items, Returned, count_of_draws, mapped_value
from fubini.measures.state import State, state_of

Over = tuple[Index, ...]


class Split(NamedTuple):
    """A state that returns the terms of a sum, and its value over a name for that sum."""

    state: State
    name: Leaf

    def joined(self, branch: Branch) -> State | None:
        """The sum of the terms that a branch returns, as one draw; None where that is not known."""
        assert isinstance(branch.value, tuple)
        value, *terms = branch.value

        def sum_(*places: Node) -> Node:
            return plus(*(_total(term, places) for term in terms))

        whole = mapped_value(value, lambda node: transformed(node, self.name, sum_))  # type: ignore[arg-type]
        state = state_of(branch._replace(value=whole))
        new = with_sums(state)
        return new if count_of_draws(new.waiting) < count_of_draws(state.waiting) else None


def _total(term: Returned, places: tuple[Node, ...]) -> Node:
    """The sum of a term over the indices that are its own, at places of the others."""
    if isinstance(term, Node):
        return term
    assert isinstance(term, Items)
    names = {index(i): place for i, place in zip(term.over, places, strict=False)}
    return total(term.over[len(places) :], replaced(term.entry, names))


def splits(state: State, expression: Node, over: Over) -> Iterator[Split]:
    """For each sum in an expression, of terms without a draw in common, the state that returns its terms."""
    drawn = {draw.leaf for draw in state.waiting}
    inside = walk(
        expression,
        enter=lambda this: bool(this.leaves & drawn),
        descend=lambda this: this.kind in ("add", "mul", "call"),
    )
    for node in inside:
        terms = [(part, c) for part, c in _summands(node) if part.leaves & drawn]
        if escapes(node) or not _are_sums(terms, drawn):
            continue
        name = Leaf("sum", tuple(i.size for i in over))
        rest = add(item for item in _summands(node) if item not in terms)
        named = {node: plus(get(name, *map(index, over)), rest)}
        value = mapped_value(state.value, lambda of, named=named: replaced(of, named))
        yield Split(state._replace(value=(value, *(_term(part, c, over) for part, c in terms))), name)


def _summands(of: Node) -> tuple[tuple[Node, float], ...]:
    return of.args if of.kind == "add" else ((of, 1.0),)


def _are_sums(terms: list[tuple[Node, float]], drawn: set[Leaf]) -> bool:
    """Several terms of different draws, or a sum over an index."""
    leaves = [leaf for part, _ in terms for leaf in part.leaves & drawn]
    return len(leaves) == len(set(leaves)) and (len(terms) > 1 or any(part.kind == "sum" for part, _ in terms))


def _term(part: Node, coefficient: float, over: Over) -> Returned:
    """A term with its coefficient, or an array of those of a sum over an index."""
    inner, body = opened(part) if part.kind == "sum" else ((), part)
    entry = scale(coefficient, body)
    return Items((*over, *inner), entry) if over or inner else entry
