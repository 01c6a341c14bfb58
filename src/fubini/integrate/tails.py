"""Tails that are powers: of a quadratic in a real number (Student, Cauchy), of a sum in a positive one (Beta prime).

∫ (s + w (x − m)²)^(−p) dx  =  √(π/w) · Γ(p − ½)/Γ(p) · s^(½ − p)
∫ x^(a−1) (c + d x)^(−a−b) dx  =  B(a, b) / (d^a c^b)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, add, call, divide, factors_in, get, minus, multiply, plus, power, scale, times
from fubini.algebra.features import NoClosedForm, Square, linear, squares
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import exceeds_zero
from fubini.algebra.sums import total
from fubini.families.family import recognise
from fubini.families.signature import Recognised
from fubini.integrate.elimination import Bump, Eliminated, joined
from fubini.integrate.finite import bodies, solving

UNNAMED = "a distribution without a name"


def eliminated_tail(terms: Sequence[Node], latent: Leaf) -> Eliminated:
    """log ∫ exp(Σ terms) d latent, where each entry is in one term, −p log(quadratic)."""
    rest = tuple(term for term in terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in terms if latent in term.leaves)
    at = tuple(Index(size, "i") for size in latent.shape)
    outside: list[Node] = []
    powers: list[tuple[Node, Node]] = []
    for over, body, coefficient in bodies(with_latent, latent):
        if latent not in body.leaves:
            outside.append(scale(coefficient, total(over, body)))
            continue
        exponent, form = _power_of(body, latent)
        powers.append(_at_entry(scale(-coefficient, exponent), form, over, latent, at))
    distribution = _distribution(powers, latent, with_latent)
    remaining = add((part, 1.0) for part in (*outside, total(at, distribution.log_normaliser)))
    return Eliminated((*rest, remaining), at, distribution)


def _distribution(powers: Sequence[tuple[Node, Node]], latent: Leaf, with_latent: Node) -> Recognised:
    forms = [(exponent, *_quadratic(form, latent)) for exponent, form in powers]
    if len(forms) == 1:
        exponent, bump, least = forms[0]
        distribution = recognise("quadratic", exponent, bump.weight, bump.mean, least)
        assert distribution is not None
        return distribution
    if len(forms) == 2 and all(exponent is ONE for exponent, _, _ in forms):
        return _two_cauchys(*((bump, least) for _, bump, least in forms))
    raise NoClosedForm(latent, with_latent, "one power of a quadratic form of it, or two that are inverse")


def _two_cauchys(one: tuple[Bump, Node], two: tuple[Bump, Node]) -> Recognised:
    """∫ dx / ((x − m)² + r²)((x − n)² + q²)  =  π (r + q) / (r q ((m − n)² + (r + q)²)), which names no family"""
    a, b = one[0], two[0]
    r, q = (power(divide(least, bump.weight), 0.5) for bump, least in (one, two))
    both = plus(r, q)
    far = plus(power(minus(a.mean, b.mean), 2.0), power(both, 2.0))
    value = plus(scale(math.log(math.pi), ONE), call("log", both))
    for part in (r, q, far, a.weight, b.weight):
        value = minus(value, call("log", part))
    return Recognised(UNNAMED, {}, value)


def _power_of(body: Node, latent: Leaf) -> tuple[Node, Node]:
    """p and Q of p log Q"""
    factors = list(factors_in(body))
    inside = [(base, exponent) for base, exponent in factors if latent in base.leaves]
    if len(inside) != 1 or inside[0][1] != 1 or inside[0][0].kind != "call" or inside[0][0].args[0] != "log":
        raise NoClosedForm(latent, body, "a power of a quadratic form of it")
    return multiply(factor for factor in factors if factor not in inside), inside[0][0].args[1]


def _at_entry(
    exponent: Node, form: Node, over: tuple[Index, ...], latent: Leaf, at: tuple[Index, ...]
) -> tuple[Node, Node]:
    """The term of one entry, where each is read once."""
    places = {part.slopes[0].place for part in squares(form, latent) if isinstance(part, Square)}
    names = solving(next(iter(places)), over, at) if len(places) == 1 else None
    if names is None:
        raise NoClosedForm(latent, form, "each of its entries in one term")
    return replaced(exponent, names), replaced(form, names)


def _quadratic(form: Node, latent: Leaf) -> tuple[Bump, Node]:
    """w (x − m)² + s"""
    whole: Bump | None = None
    least: list[tuple[Node, float]] = []
    for part in squares(form, latent):
        if not isinstance(part, Square):
            if part.features:
                raise NoClosedForm(latent, form, "squares alone inside the power")
            least.append((total(part.over, part.coefficient), 1.0))
            continue
        if part.over or len(part.slopes) != 1 or part.slopes[0].over:
            raise NoClosedForm(latent, form, "squares of one entry inside the power")
        slope = part.slopes[0].coefficient
        bump = Bump(scale(-0.5, times(part.weight, power(slope, 2.0))), divide(part.offset, slope))
        if whole is None:
            whole = bump
        else:
            whole, excess = joined(whole, bump)
            least.append((excess, -2.0))
    if whole is None or not least:
        raise NoClosedForm(latent, form, "a quadratic form of it, and something beside the square")
    return whole, add(least)


# -- positive numbers -----------------------------------------------------------------------------------------------


def eliminated_prime(terms: Sequence[Node], latent: Leaf) -> tuple[Eliminated, Node]:
    """log ∫ exp(Σ terms) d latent for powers of x and of c + d x, with the distribution of x d/c, and c/d."""
    rest = tuple(term for term in terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in terms if latent in term.leaves)
    if latent.shape:
        raise NoClosedForm(latent, with_latent, "one number with powers of x and of c + d x")
    outside: list[Node] = []
    powers: dict[Node, list[tuple[Node, float]]] = {}
    for over, body, coefficient in bodies(with_latent, latent):
        if latent not in body.leaves:
            outside.append(scale(coefficient, total(over, body)))
            continue
        exponent, form = _power_of(body, latent)
        if over:
            raise NoClosedForm(latent, body, "one number with powers of x and of c + d x")
        powers.setdefault(form, []).append((exponent, coefficient))
    x = get(latent)
    up = add(powers.pop(x, []))
    if len(powers) != 1:
        raise NoClosedForm(latent, with_latent, "powers of x and of one c + d x")
    ((form, parts),) = powers.items()
    slopes, c = linear(form, latent)
    if len(slopes) != 1 or not exceeds_zero(c) or not exceeds_zero(slopes[0].coefficient):
        raise NoClosedForm(latent, form, "c + d x with positive c and d")
    a, d = plus(up, ONE), slopes[0].coefficient
    b = minus(scale(-1.0, add(parts)), a)
    distribution = recognise("sum", a, b, c, d)
    assert distribution is not None
    remaining = add((part, 1.0) for part in (*outside, distribution.log_normaliser))
    return Eliminated((*rest, remaining), (), distribution), divide(c, d)
