"""Functions of draws as polynomials under weights: a choice case by case, factors that are not negative as weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, add, call, factors_in, less, minus, multiply, scale, times, where
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.polynomial import expanded
from fubini.algebra.ranges import bounds, is_not_negative
from fubini.algebra.walk import walk
from fubini.measures.finite_draws import drawn_in
from fubini.measures.pieces import pieces
from fubini.measures.state import State


class WeightedPolynomial(NamedTuple):
    """A state under a weight, and a polynomial of its draws."""

    state: State
    log_weight: Node
    polynomial: Node


def unless_zero(term: Node) -> tuple[Node, ...]:
    """A term, unless it is zero."""
    return () if term is ZERO else (term,)


def weighted_polynomials(state: State, value: Node) -> Iterator[WeightedPolynomial]:
    """Case by case of the choices in a value, with factors that are no polynomials as weights."""
    for one, chosen in pieces(state, _without_sizes(value, drawn_in(state))):
        rest, weight = _polynomial_weight(one)
        for log_weight, polynomial in _grouped(times(chosen, weight), drawn_in(one)).items():
            yield WeightedPolynomial(rest, log_weight, polynomial)


def _without_sizes(value: Node, drawn: set[Leaf]) -> Node:
    """With max(a, −a) in place of |a|."""
    for node in walk(value, enter=lambda this: bool(this.leaves & drawn)):
        if node.kind == "call" and node.args[0] == "abs":
            inside = node.args[1]
            chosen = where(less(inside, ZERO), scale(-1.0, inside), inside)
            return _without_sizes(replaced(value, {node: chosen}), drawn)
    return value


def _polynomial_weight(state: State) -> tuple[State, Node]:
    """Without the weights that are polynomials of the draws, and these."""
    drawn, terms, weights = drawn_in(state), [], []
    for term in state.terms:
        parts = term.args if term.kind == "add" else ((term, 1.0),)
        own = [(part, c) for part, c in parts if _is_polynomial_weight(part, c, drawn)]
        weights.extend((part.args[1], c) for part, c in own)
        terms.extend(unless_zero(add(item for item in parts if item not in own)) if own else (term,))
    return state._replace(terms=tuple(terms)), multiply(weights)


def _is_polynomial_weight(part: Node, power: float, drawn: set[Leaf]) -> bool:
    if part.kind != "call" or part.args[0] != "log" or power != int(power) or power < 1:
        return False
    inside = part.args[1]
    is_sum = inside.kind == "add" and bool(inside.leaves & drawn)
    return is_sum and bounds(inside)[0] >= 0 and _is_polynomial(inside, drawn)


def _grouped(value: Node, drawn: set[Leaf]) -> dict[Node, Node]:
    """Σ e^w P as polynomials P of draws by w."""
    whole = expanded(value)
    groups: dict[Node, list[tuple[Node, float]]] = {}
    for product, c in whole.args if whole.kind == "add" else ((whole, 1.0),):
        logs: list[tuple[Node, float]] = []
        factors: list[tuple[Node, float]] = []
        for base, exponent in factors_in(product):
            if not base.leaves & drawn or _is_power(base, exponent, drawn):
                factors.append((base, exponent))
            elif is_not_negative(base):
                logs.append((call("log", base), exponent))
            else:
                leaf = next(iter(base.leaves & drawn))
                raise NoClosedForm(leaf, base, "a polynomial, or a function that is not negative")
        groups.setdefault(add(logs), []).append((multiply(factors), c))
    return {log_weight: add(terms) for log_weight, terms in groups.items()}


def _is_polynomial(of: Node, drawn: set[Leaf]) -> bool:
    """Sums and products of entries of draws, and of anything in which no draw is."""
    if not of.leaves & drawn:
        return True
    match of.kind:
        case "call" if of.args[0] == "log":
            return _is_entry(of.args[1], drawn) or _is_entry(minus(ONE, of.args[1]), drawn)
        case "get":
            return not any(part.leaves & drawn for part in of.children)
        case "mul":
            return all(
                not base.leaves & drawn or (e == int(e) and e > 0 and _is_polynomial(base, drawn))
                for base, e in of.args
            )
        case "add" | "sum":
            return all(_is_polynomial(part, drawn) for part in of.children)
        case "where":
            return not of.args[0].leaves & drawn and all(_is_polynomial(part, drawn) for part in of.args[1:])
        case _:
            return False


def _is_power(base: Node, exponent: float, drawn: set[Leaf]) -> bool:
    """A whole power of a polynomial; of a logarithm, the first."""
    is_whole = exponent == int(exponent) and exponent > 0 and (base.kind != "call" or exponent == 1)
    return is_whole and _is_polynomial(base, drawn)


def _is_entry(of: Node, drawn: set[Leaf]) -> bool:
    return of.kind == "get" and of.args[0] in drawn and _is_polynomial(of, drawn)
