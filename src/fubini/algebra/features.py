"""What a density says of one latent: each term as Σ_J coefficient(J) · features of its entries.

Rules U1–U4 of docs/array_latents.md: sums are opened, products multiplied out, cases distinguished by tests; a
term that is no such sum is blocked, and says at which node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fubini.algebra.binding import opened, replaced
from fubini.algebra.build import ONE, ZERO, add, call, factors_in, multiply, negate, plus, power, scale, times, where
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.node_notation import written
from fubini.algebra.polynomial import expanded
from fubini.algebra.sums import total
from fubini.algebra.walk import walk
from fubini.errors import DataError, Intractable

Place = tuple[Node, ...]  # the indices of an entry


class NoClosedForm(Intractable):
    """An elimination that has no rule: which latent, and at which node."""

    def __init__(self, latent: Leaf, node: Node, why: str) -> None:
        self.latent, self.node, self.why = latent, node, why
        super().__init__(
            f"the elimination of {latent.name!r}", expected=why, nearest=f"{str(node)[:200]} depends on {latent.name!r}"
        )


class Divergent(NoClosedForm):
    """An integral that is not finite, whatever the other variables are: no order of elimination makes it so."""

    def __init__(self, latent: Leaf, node: Node) -> None:
        super().__init__(latent, node, "a finite integral")


def require_convergent(blocked: Mapping[str, NoClosedForm]) -> None:
    """Raise where an integral that has no closed form is infinite."""
    for name, error in blocked.items():
        if isinstance(error, Divergent):
            raise DataError(
                f"the integral over {name!r}",
                expected="a finite integral",
                nearest=f"the density in {name!r} is improper: exp({written(error.node)[:160]})",
                advice="give it a proper prior, and check weights that grow without bound",
            )


class Feature(NamedTuple):
    """x^power, or log x, or log(1 − x), of an entry."""

    kind: str  # power, log or log1m
    place: Place
    power: float = 1.0


class Monomial(NamedTuple):
    """Σ over some indices of a coefficient without the latent times features of it."""

    over: tuple[Index, ...]
    coefficient: Node
    features: tuple[Feature, ...] = ()


def monomials(of: Node, latent: Leaf) -> list[Monomial]:
    """A node as a sum of monomials in the entries of a latent."""
    if latent not in of.leaves:
        return [Monomial((), of)]
    match of.kind:
        case "get" if of.args[0] is latent:
            return [Monomial((), ONE, (Feature("power", of.args[1:]),))]
        case "add":
            parts = [(part, c, monomials(part, latent)) for part, c in of.args]
            return [m._replace(coefficient=scale(c, m.coefficient)) for _, c, inner in parts for m in inner]
        case "sum":
            over, body = opened(of)
            return [m._replace(over=(*over, *m.over)) for m in monomials(body, latent)]
        case "mul":
            return _product(of, latent)
        case "where" if latent not in of.args[0].leaves:
            test, first, second = of.args
            cases = ((test, first), (negate(test), second))
            return [
                m._replace(coefficient=times(c, m.coefficient)) for c, part in cases for m in monomials(part, latent)
            ]
        case "call" if of.args[0] in ("log", "log1p"):
            whole = _multiplied_out(of)
            return [Monomial((), ONE, (_logarithm(of, latent),))] if whole is None else monomials(whole, latent)
        case _:
            raise NoClosedForm(latent, of, "a density in powers and logarithms of it")


def _multiplied_out(of: Node) -> Node | None:
    """log((1 − x)/x + 1)  =  −log x; None where nothing cancels"""
    inside = plus(ONE, of.args[1]) if of.args[0] == "log1p" else of.args[1]
    whole = expanded(inside)
    return call("log", whole) if whole.kind != "add" and whole is not inside else None


def _logarithm(of: Node, latent: Leaf) -> Feature:
    inside = plus(ONE, of.args[1]) if of.args[0] == "log1p" else of.args[1]
    if inside.kind == "get" and inside.args[0] is latent:
        return Feature("log", inside.args[1:])
    if inside.kind == "add":
        terms = dict(inside.args)
        entry = next((part for part in terms if part.kind == "get" and part.args[0] is latent), None)
        if entry is not None and terms == {ONE: 1.0, entry: -1.0}:
            return Feature("log1m", entry.args[1:])
    raise NoClosedForm(latent, of, "a logarithm of x or of 1 − x alone")


def _product(of: Node, latent: Leaf) -> list[Monomial]:
    outside = [(base, exponent) for base, exponent in of.args if latent not in base.leaves]
    expanded = [Monomial((), multiply(outside))]
    for base, exponent in of.args:
        if latent not in base.leaves:
            continue
        if base.kind == "get" and base.args[0] is latent:
            expanded = [
                _times(latent, m, Monomial((), ONE, (Feature("power", base.args[1:], exponent),))) for m in expanded
            ]
        elif exponent == int(exponent) and 1 <= exponent <= 4:
            for _ in range(int(exponent)):  # fresh indices for every factor of a power
                expanded = [_times(latent, a, b) for b in monomials(base, latent) for a in expanded]
        else:
            raise NoClosedForm(latent, of, "a density in powers and logarithms of it")
    return expanded


def _times(latent: Leaf, a: Monomial, b: Monomial) -> Monomial:
    features = [*a.features]
    for feature in b.features:
        same = next((f for f in features if f.kind == feature.kind == "power" and f.place == feature.place), None)
        if same is not None:
            features[features.index(same)] = same._replace(power=same.power + feature.power)
        else:
            features.append(feature)
    if len(features) > 1 and any(feature.kind != "power" for feature in features):
        raise NoClosedForm(
            latent, times(a.coefficient, b.coefficient), "no logarithm of it times another function of it"
        )
    return Monomial((*a.over, *b.over), times(a.coefficient, b.coefficient), tuple(features))


# -- squares --------------------------------------------------------------------------------------------------------


class Slope(NamedTuple):
    """Σ over some indices of a coefficient times an entry."""

    over: tuple[Index, ...]
    coefficient: Node
    place: Place


class Square(NamedTuple):
    """Σ_J −½ weight · (slopes · x − offset)²"""

    over: tuple[Index, ...]
    weight: Node
    slopes: tuple[Slope, ...]
    offset: Node


def squares(of: Node, latent: Leaf) -> Iterator[Square | Monomial]:
    """The quadratic terms of a node as squares, never multiplied out; what else there is as monomials of degree one."""
    if latent not in of.leaves:
        yield Monomial((), of)
    elif of.kind == "add":
        for part, coefficient in of.args:
            for term in squares(part, latent):
                yield _scaled(term, coefficient)
    elif of.kind == "sum":
        over, body = opened(of)
        for term in squares(body, latent):
            yield term._replace(over=(*over, *term.over))
    elif of.kind == "where" and latent not in of.args[0].leaves:
        test, first, second = of.args
        for case, part in ((test, first), (negate(test), second)):
            for term in squares(part, latent):
                yield _weighed(term, case)
    else:
        yield from _of_product(of, latent)


def _of_product(of: Node, latent: Leaf) -> Iterator[Square | Monomial]:
    factors = list(factors_in(of))
    inside = [(base, exponent) for base, exponent in factors if latent in base.leaves]
    outside = multiply([(base, exponent) for base, exponent in factors if latent not in base.leaves])
    if len(inside) == 1 and inside[0][1] == 1 and _can_be_opened(inside[0][0], latent):
        for term in squares(inside[0][0], latent):
            yield _weighed(term, outside)
        return
    if len(inside) == 1 and inside[0][1] == 2:
        case = _case(inside[0][0], latent)
        if case is not None:  # f(where(c, a, b)) = where(c, f(a), f(b))
            test, first, second = case
            yield from squares(
                where(test, times(outside, power(first, 2.0)), times(outside, power(second, 2.0))), latent
            )
            return
        slopes, offset = linear(inside[0][0], latent)
        yield Square((), scale(-2.0, outside), slopes, scale(-1.0, offset))
        return
    for term in monomials(of, latent):
        features: list[Feature] = list(term.features)
        if features and (len(features) > 1 or features[0].kind != "power" or features[0].power != 1):
            raise NoClosedForm(latent, of, "a quadratic function of it")
        yield term


def _can_be_opened(of: Node, latent: Leaf) -> bool:
    return of.kind in ("sum", "add") or (of.kind == "where" and latent not in of.args[0].leaves)


def _case(of: Node, latent: Leaf) -> tuple[Node, Node, Node] | None:
    """A test inside a linear form, and the form in either case."""
    choice = _first_case(of, latent)
    if choice is None:
        return None
    test, first, second = choice.args
    return test, replaced(of, {choice: first}), replaced(of, {choice: second})


def _first_case(of: Node, latent: Leaf) -> Node | None:
    """A choice between two forms of the latent, outside of sums."""
    nodes = walk(of, enter=lambda this: latent in this.leaves, descend=lambda this: this.kind in ("add", "mul"))
    return next((this for this in nodes if this.kind == "where" and latent not in this.args[0].leaves), None)


def linear(of: Node, latent: Leaf) -> tuple[tuple[Slope, ...], Node]:
    """slopes · x + offset"""
    slopes: list[Slope] = []
    offsets: list[tuple[Node, float]] = []
    for term in monomials(of, latent):
        if not term.features:
            offsets.append((_summed(term), 1.0))
        elif len(term.features) == 1 and term.features[0].kind == "power" and term.features[0].power == 1:
            slopes.append(_slope(term))
        else:
            raise NoClosedForm(latent, of, "a linear form of it inside the square")
    return _joined(slopes), add(offsets)


def _slope(term: Monomial) -> Slope:
    """Indices that say nothing of the place are summed at once."""
    place = term.features[0].place
    kept = tuple(i for i in term.over if any(i in part.free for part in place))
    return Slope(kept, total([i for i in term.over if i not in kept], term.coefficient), place)


def _joined(slopes: list[Slope]) -> tuple[Slope, ...]:
    """Slopes of one and the same entry together."""
    alone = [slope for slope in slopes if slope.over]
    entries: dict[Place, list[Node]] = {}
    for slope in slopes:
        if not slope.over:
            entries.setdefault(slope.place, []).append(slope.coefficient)
    joined = (Slope((), add((part, 1.0) for part in parts), place) for place, parts in entries.items())
    return (*(slope for slope in joined if slope.coefficient is not ZERO), *alone)


def _summed(term: Monomial) -> Node:
    return total(term.over, term.coefficient)


def _scaled(term: Square | Monomial, by: float) -> Square | Monomial:
    if isinstance(term, Square):
        return term._replace(weight=scale(by, term.weight))
    return term._replace(coefficient=scale(by, term.coefficient))


def _weighed(term: Square | Monomial, by: Node) -> Square | Monomial:
    if isinstance(term, Square):
        return term._replace(weight=times(by, term.weight))
    return term._replace(coefficient=times(by, term.coefficient))
