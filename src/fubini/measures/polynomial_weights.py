"""Polynomial weights: ∫ P(x) f(x) dx is Σ_j c_j E[x^j] times ∫ f, for families f whose moments are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fubini.algebra.build import ONE, ZERO, add, call, plus, power, scale, times
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.algebra.tidy import tidied
from fubini.families.family import family_of, is_family
from fubini.families.signature import Recognised
from fubini.integrate.elimination import Eliminated
from fubini.integrate.tails import UNNAMED

DEGREE = 8  # at most
Polynomial = Mapping[int, Node]  # coefficients by power


def with_polynomial(terms: Sequence[Node], leaf: Leaf, rule: Callable[[Sequence[Node]], Eliminated]) -> Eliminated:
    """log ∫ P(x) f(x) dx, with a rule for log ∫ f"""
    parts = [item for term in terms for item in (term.args if term.kind == "add" else ((term, 1.0),))]
    logs = [(part, c) for part, c in parts if leaf in part.leaves and _is_weight(part, c, leaf)]
    if leaf.shape or not logs:
        raise NoClosedForm(leaf, add(parts), "a polynomial of it as a weight")
    polynomial = {0: ONE}
    for part, c in logs:
        polynomial = _raised(polynomial, _polynomial(part.args[1], leaf), c, leaf)
    result = rule([add(item for item in parts if item not in logs)])
    moments = _moments(result.distribution, leaf, max(polynomial))
    mean = call("log", tidied(add((times(c, moments[j]), 1.0) for j, c in polynomial.items())))
    distribution = Recognised(UNNAMED, {}, plus(result.distribution.log_normaliser, mean))
    return Eliminated((*result.terms, mean), result.at, distribution)


def _is_weight(part: Node, coefficient: float, leaf: Leaf) -> bool:
    """A whole power of something beside the latent itself, powers of which families have."""
    is_log = part.kind == "call" and part.args[0] == "log" and coefficient == int(coefficient)
    return is_log and (leaf.is_integer or part.args[1].kind != "get")


def _raised(first: Polynomial, second: Polynomial, exponent: float, leaf: Leaf) -> Polynomial:
    """first · second^exponent"""
    if exponent != int(exponent) or exponent < 0 or max(first) + exponent * max(second) > DEGREE:
        raise NoClosedForm(leaf, ONE, f"a polynomial of degree {DEGREE} at most")
    for _ in range(int(exponent)):
        first = _product(first, second)
    return first


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    by_degree: dict[int, list[tuple[Node, float]]] = {}
    for i, a in first.items():
        for j, b in second.items():
            by_degree.setdefault(i + j, []).append((times(a, b), 1.0))
    return {degree: add(parts) for degree, parts in by_degree.items()}


def _polynomial(of: Node, leaf: Leaf) -> Polynomial:
    """The coefficients of a polynomial that is not negative."""
    if bounds(of)[0] < 0:
        raise NoClosedForm(leaf, of, "a weight that is not negative")
    return _coefficients(of, leaf)


def _coefficients(of: Node, leaf: Leaf) -> Polynomial:
    if leaf not in of.leaves:
        return {0: of}
    if of.kind == "get" and of.args[0] is leaf:
        return {1: ONE}
    if of.kind == "add":
        by_degree: dict[int, Node] = {}
        for part, c in of.args:
            for degree, coefficient in _coefficients(part, leaf).items():
                by_degree[degree] = plus(by_degree.get(degree, ZERO), scale(c, coefficient))
        return by_degree
    if of.kind == "mul":
        whole: Polynomial = {0: ONE}
        for base, exponent in of.args:
            inside = _coefficients(base, leaf) if leaf in base.leaves else None
            whole = (
                {degree: times(c, power(base, exponent)) for degree, c in whole.items()}
                if inside is None
                else _raised(whole, inside, exponent, leaf)
            )
        return whole
    raise NoClosedForm(leaf, of, "a polynomial of it")


def _moments(distribution: Recognised, leaf: Leaf, most: int) -> list[Node]:
    """E[x^j] for j = 0 … most"""
    if not is_family(distribution.family):
        raise NoClosedForm(leaf, distribution.log_normaliser, "a family whose moments are known")
    given = {name: tidied(part) for name, part in distribution.parameters.items()}
    moments = family_of(distribution.family).moments_up_to(given, most)
    if moments is None:
        raise NoClosedForm(leaf, distribution.log_normaliser, "a family whose moments are known")
    return moments
