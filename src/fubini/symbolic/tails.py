"""Powers of a quadratic in one number: Student's t, and Cauchy's with one degree of freedom.

∫ (s + w (x − m)²)^(−p) dx  =  √(π/w) · Γ(p − ½)/Γ(p) · s^(½ − p)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.index.build import ONE, add, call, divide, minus, multiply, power, replaced, scale, times
from fubini.index.node import Index, Leaf, Node
from fubini.index.sums import total
from fubini.symbolic.collect import Blocked, Square, squares
from fubini.symbolic.elimination import Bump, Eliminated, joined
from fubini.symbolic.families import Recognised, log_gamma
from fubini.symbolic.finite import bodies, solving


def eliminated_tail(terms: Sequence[Node], latent: Leaf) -> Eliminated:
    """log ∫ exp(Σ terms) d latent, where each entry is in one term, −p log(quadratic)."""
    rest = tuple(term for term in terms if latent not in term.leaves)
    mine = add((term, 1.0) for term in terms if latent in term.leaves)
    at = tuple(Index(size, "i") for size in latent.shape)
    outside: list[Node] = []
    found: list[tuple[Node, Node]] = []
    for over, body, coefficient in bodies(mine, latent):
        if latent not in body.leaves:
            outside.append(scale(coefficient, total(over, body)))
            continue
        exponent, form = _power_of(body, latent)
        found.append(_at_entry(scale(-coefficient, exponent), form, over, latent, at))
    if len(found) != 1:
        raise Blocked(latent, mine, "one power of a quadratic form of it")
    ((exponent, form),) = found
    bump, least = _quadratic(form, latent)
    law = _student(exponent, bump, least)
    left = add((part, 1.0) for part in (*outside, total(at, law.log_normaliser)))
    return Eliminated((*rest, left), at, law)


def _power_of(body: Node, latent: Leaf) -> tuple[Node, Node]:
    """p and Q of p log Q"""
    factors = list(body.args) if body.kind == "mul" else [(body, 1.0)]
    inside = [(base, exponent) for base, exponent in factors if latent in base.leaves]
    if len(inside) != 1 or inside[0][1] != 1 or inside[0][0].kind != "call" or inside[0][0].args[0] != "log":
        raise Blocked(latent, body, "a power of a quadratic form of it")
    return multiply(factor for factor in factors if factor not in inside), inside[0][0].args[1]


def _at_entry(
    exponent: Node, form: Node, over: tuple[Index, ...], latent: Leaf, at: tuple[Index, ...]
) -> tuple[Node, Node]:
    """The term of one entry, where each is met once."""
    places = {part.slopes[0].place for part in squares(form, latent) if isinstance(part, Square)}
    names = solving(next(iter(places)), over, at) if len(places) == 1 else None
    if names is None:
        raise Blocked(latent, form, "each of its entries in one term")
    return replaced(exponent, names), replaced(form, names)


def _quadratic(form: Node, latent: Leaf) -> tuple[Bump, Node]:
    """w (x − m)² + s"""
    whole: Bump | None = None
    least: list[tuple[Node, float]] = []
    for part in squares(form, latent):
        if not isinstance(part, Square):
            if part.features:
                raise Blocked(latent, form, "squares alone inside the power")
            least.append((total(part.over, part.coefficient), 1.0))
            continue
        if part.over or len(part.slopes) != 1 or part.slopes[0].over:
            raise Blocked(latent, form, "squares of one entry inside the power")
        slope = part.slopes[0].coefficient
        bump = Bump(scale(-0.5, times(part.weight, power(slope, 2.0))), divide(part.offset, slope))
        if whole is None:
            whole = bump
        else:
            whole, left = joined(whole, bump)
            least.append((left, -2.0))
    if whole is None or not least:
        raise Blocked(latent, form, "a quadratic form of it, and something beside the square")
    return whole, add(least)


def _student(p: Node, bump: Bump, least: Node) -> Recognised:
    lower = minus(p, scale(0.5, ONE))
    value = add(
        (
            (ONE, 0.5 * math.log(math.pi)),
            (call("log", bump.weight), -0.5),
            (log_gamma(lower), 1.0),
            (call("lgamma", p), -1.0),
            (times(lower, call("log", least)), -1.0),
        )
    )
    df = scale(2.0, lower)
    spread = power(divide(least, times(bump.weight, df)), 0.5)
    if df is ONE:
        return Recognised("Cauchy", {"loc": bump.mean, "scale": spread}, value)
    return Recognised("StudentT", {"df": df, "loc": bump.mean, "scale": spread}, value)
