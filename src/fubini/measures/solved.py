"""Equations e(x) = t solved for one draw, with the logarithm of |dx/dt|."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

from fubini.algebra.build import (
    ONE,
    ZERO,
    add,
    as_product,
    call,
    const,
    divide,
    minus,
    multiply,
    plus,
    power,
    scale,
    times,
)
from fubini.algebra.features import NoClosedForm, Slope, linear
from fubini.algebra.node import Leaf, Node
from fubini.algebra.ranges import is_not_negative
from fubini.base.scalar_functions import Bounds, scalar_function
from fubini.measures.inequalities import Limit
from fubini.measures.values import Number, function


class EquationRoot(NamedTuple):
    """x as a function of t, log |dx/dt|, and what t has to satisfy."""

    x: Node
    log_slope: Node
    limits: tuple[Limit, ...] = ()


def solutions(expression: Node, entry: Node, target: Node) -> Iterator[EquationRoot]:
    """All x with e(x) = t; an entry that occurs in a form without an inverse is blocked."""
    leaf = entry.args[0]
    if expression is entry:
        yield EquationRoot(target, ZERO)
    elif expression.kind == "add":
        yield from _of_sum(expression, entry, leaf, target)
    elif expression.kind == "mul":
        yield from _of_product(expression, entry, leaf, target)
    elif expression.kind == "call":
        yield from _of_call(expression, entry, leaf, target)
    else:
        raise _no_inverse(leaf, expression)


def _no_inverse(leaf: Leaf, expression: Node) -> NoClosedForm:
    return NoClosedForm(leaf, expression, "an expression with an inverse in one of its draws")


def _linear(expression: Node, leaf: Leaf) -> tuple[tuple[Slope, ...], Node]:
    try:
        return linear(expression, leaf)
    except NoClosedForm:
        raise _no_inverse(leaf, expression) from None


def log_size(of: Node) -> Node:
    """log |x|, with what is positive taken out"""
    coefficient, parts = as_product(of)
    logs = [(call("log", base if is_not_negative(base) else call("abs", base)), power) for base, power in parts.items()]
    return add(((ONE, math.log(abs(coefficient))), *logs))


def _then(expression: Node, entry: Node, target: Node, log_slope: Node, *limits: Limit) -> Iterator[EquationRoot]:
    """Solutions of an inner equation, whose target has this slope in t."""
    for inner in solutions(expression, entry, target):
        yield EquationRoot(inner.x, plus(inner.log_slope, log_slope), (*limits, *inner.limits))


def _of_sum(expression: Node, entry: Node, leaf: Leaf, target: Node) -> Iterator[EquationRoot]:
    """c e(x) + rest = t"""
    inside = [(part, c) for part, c in expression.args if leaf in part.leaves]
    if len(inside) == 1:
        ((part, c),) = inside
        rest = add(item for item in expression.args if item not in inside)
        yield from _then(part, entry, scale(1 / c, minus(target, rest)), const(-math.log(abs(c))))
        return
    slopes, rest = _linear(expression, leaf)
    if len(slopes) != 1 or slopes[0].over or slopes[0].place != entry.args[1:]:
        raise _no_inverse(leaf, expression)
    slope = slopes[0].coefficient
    yield EquationRoot(divide(minus(target, rest), slope), scale(-1.0, log_size(slope)))


def _of_product(expression: Node, entry: Node, leaf: Leaf, target: Node) -> Iterator[EquationRoot]:
    """c e(x)^p = t"""
    inside = [(base, exponent) for base, exponent in expression.args if leaf in base.leaves]
    outside = multiply([factor for factor in expression.args if factor not in inside])
    scaled = divide(target, outside)
    if len(inside) != 1:
        yield from _of_quotient(inside, entry, leaf, scaled, scale(-1.0, log_size(outside)))
        return
    ((base, exponent),) = inside
    root = power(scaled, 1 / exponent)
    slope = add(((ONE, -math.log(abs(exponent))), (log_size(scaled), 1 / exponent - 1), (log_size(outside), -1.0)))
    if exponent == 1:
        yield from _then(base, entry, scaled, scale(-1.0, log_size(outside)))
    elif exponent == -1:
        yield from _then(base, entry, root, slope)
    elif not is_not_negative(base) and exponent % 2:
        raise _no_inverse(leaf, expression)
    else:
        positive = Limit((), ZERO, scaled)
        yield from _then(base, entry, root, slope, *([] if positive.holds else [positive]))
        if not is_not_negative(base):
            yield from _then(base, entry, scale(-1.0, root), slope, *([] if positive.holds else [positive]))


def _of_quotient(inside: list, entry: Node, leaf: Leaf, target: Node, before: Node) -> Iterator[EquationRoot]:
    """(n₁ x + n₀)/(d₁ x + d₀) = t  ⇔  x = (t d₀ − n₀)/(n₁ − t d₁),  dx/dt = (n₁ d₀ − n₀ d₁)/(n₁ − t d₁)²"""
    above = multiply(factor for factor in inside if factor[1] > 0)
    below = multiply((base, -exponent) for base, exponent in inside if exponent < 0)
    (top, n0), (bottom, d0) = _linear(above, leaf), _linear(below, leaf)
    if any(len(part) > 1 or any(s.over or s.place != entry.args[1:] for s in part) for part in (top, bottom)):
        raise _no_inverse(leaf, divide(above, below))
    n1, d1 = (part[0].coefficient if part else ZERO for part in (top, bottom))
    whole = minus(n1, times(target, d1))
    determinant = minus(times(n1, d0), times(n0, d1))
    slope = add(((log_size(determinant), 1.0), (log_size(whole), -2.0), (before, 1.0)))
    yield EquationRoot(divide(minus(times(target, d0), n0), whole), slope)


def _of_call(expression: Node, entry: Node, leaf: Leaf, target: Node) -> Iterator[EquationRoot]:
    """f(e(x)) = t, where f has an inverse; |e(x)| = t has two solutions"""
    name, inner, *_ = expression.args
    inverse = scalar_function(name).inverse
    if name == "abs":
        guards = _guards(target, (0.0, math.inf))
        yield from _then(inner, entry, target, ZERO, *guards)
        yield from _then(inner, entry, scale(-1.0, target), ZERO, *guards)
    elif inverse is None:
        raise _no_inverse(leaf, expression)
    else:
        argument, log_slope = inverse.solve(NODES, Number(target))
        yield from _then(inner, entry, argument.node, log_slope.node, *_guards(target, inverse.image))


def _guards(target: Node, image: Bounds) -> list[Limit]:
    """What has to hold for a number to be inside an image, without what is certain."""
    limits = Limit((), const(image[0]), target), Limit((), target, const(image[1]))
    return [limit for limit in limits if not limit.holds]


NODES = SimpleNamespace(**{name: partial(function, name) for name in ("exp", "log", "expm1", "log1p")})
