"""What can be told of a node's values without numbers: bounds, signs, whether they are whole."""

from __future__ import annotations

import math

from fubini.algebra.node import Index, Node
from fubini.base.scalar_functions import Bounds, scalar_function


def bounds(of: Node) -> Bounds:
    """The least and greatest value it can take."""
    match of.kind:
        case "const":
            return of.args[0], of.args[0]
        case "index":
            return 0.0, (of.args[0].size if isinstance(of.args[0], Index) else of.args[2]) - 1.0
        case "get":
            leaf = of.args[0]
            return (-math.inf if leaf.low is None else leaf.low), (math.inf if leaf.high is None else leaf.high)
        case "add":
            ranges = [_scaled(bounds(part), coefficient) for part, coefficient in of.args]
            return sum(low for low, _ in ranges), sum(high for _, high in ranges)
        case "mul":
            return _product_bounds([_power_bounds(bounds(base), exponent) for base, exponent in of.args])
        case "call":
            return scalar_function(of.args[0]).bounds(*map(bounds, of.args[1:]))
        case "where":
            (low, high), (other_low, other_high) = _case_bounds(*of.args)
            return min(low, other_low), max(high, other_high)
        case "eq" | "lt":
            return 0.0, 1.0
        case "sum":
            low, high = bounds(of.args[1])
            count = math.prod(of.args[0])
            return (low * count if low else 0.0), (high * count if high else 0.0)
        case "greatest":
            return bounds(of.args[1])
        case _:
            return -math.inf, math.inf


def _case_bounds(test: Node, first: Node, second: Node) -> tuple[Bounds, Bounds]:
    """Of either case, with what the test says of it."""
    (low, high), (other_low, other_high) = bounds(first), bounds(second)
    if test.kind == "lt":
        a, b = test.args
        if first is a:
            high = min(high, bounds(b)[1])
        if second is a:
            other_low = max(other_low, bounds(b)[0])
        if first is b:
            low = max(low, bounds(a)[0])
        if second is b:
            other_high = min(other_high, bounds(a)[1])
    return (low, high), (other_low, other_high)


def _scaled(of: Bounds, coefficient: float) -> Bounds:
    ends = [coefficient * end if end or not math.isinf(coefficient) else 0.0 for end in of]
    return min(ends), max(ends)


def _power_bounds(of: Bounds, exponent: float) -> Bounds:
    low, high = of
    if exponent == int(exponent) and int(exponent) % 2 == 0 and low < 0:
        return 0.0, math.inf
    if low < 0:
        return (low, high) if exponent == 1 else (-math.inf, math.inf)
    ends = [_raised(end, exponent) for end in of]
    return min(ends), max(ends)


def _raised(base: float, exponent: float) -> float:
    try:
        return base**exponent
    except (ZeroDivisionError, OverflowError):
        return math.inf


def _product_bounds(ranges: list[Bounds]) -> Bounds:
    low, high = 1.0, 1.0
    for first, second in ranges:
        ends = [0.0 if 0.0 in (a, b) else a * b for a in (low, high) for b in (first, second)]
        low, high = min(ends), max(ends)
    return low, high


def is_not_negative(of: Node) -> bool:
    """It is at least 0, and not the number 0."""
    return bounds(of)[0] >= 0 and not (of.kind == "const" and of.args[0] == 0)


def exceeds_zero(of: Node) -> bool:
    """It is greater than 0 for certain; a sum under tests, which may have no terms, is not."""
    match of.kind:
        case "const":
            return of.args[0] > 0
        case "get":
            leaf = of.args[0]
            return leaf.low is not None and (
                leaf.low > 0 or (leaf.low == 0 and leaf.role == "site" and not leaf.is_integer)
            )
        case "add":
            parts = [(part, c) for part, c in of.args]
            return all(c > 0 and is_not_negative(part) for part, c in parts) and any(
                exceeds_zero(part) for part, _ in parts
            )
        case "mul":
            return all(exceeds_zero(base) for base, _ in of.args)
        case "call":
            return scalar_function(of.args[0]).is_positive
        case "sum" | "greatest":
            return exceeds_zero(of.args[1])
        case "where":
            return exceeds_zero(of.args[1]) and exceeds_zero(of.args[2])
        case _:
            return False


def is_surely_positive(of: Node) -> bool:
    """It is greater than 0, as far as bounds tell: a number that is drawn does not reach its ends, a count may."""
    low = bounds(of)[0]
    if low > 0 or exceeds_zero(of) or (low == 0 and not _reaches(of, False)):
        return True
    return of.kind == "mul" and all(is_surely_positive(base) for base, _ in of.args)


def _reaches(of: Node, up: bool) -> bool:
    """Its greatest or least value may be taken."""
    match of.kind:
        case "get":
            return of.args[0].is_integer or of.args[0].role != "site"
        case "add":
            return all(_reaches(part, up == (c > 0)) for part, c in of.args)
        case "mul":
            return _product_reaches(of, up)
        case "call" if scalar_function(of.args[0]).is_increasing:
            return _reaches(of.args[1], up)
        case "where" if of.args[0].kind != "lt":  # of which `bounds` uses the test
            return any(_reaches(case, up) for case in of.args[1:])
        case _:
            return True


def _product_reaches(of: Node, up: bool) -> bool:
    (base, exponent), *others = of.args
    if not others and bounds(base)[0] >= 0:
        return _reaches(base, up == (exponent > 0))
    return up or not exceeds_zero(of)


def is_whole(of: Node) -> bool:
    """It takes whole numbers only."""
    match of.kind:
        case "const":
            return float(of.args[0]).is_integer()
        case "index" | "eq" | "lt":
            return True
        case "get":
            return of.args[0].is_integer
        case "add":
            return all(c == int(c) and is_whole(part) for part, c in of.args)
        case "mul":
            return all(power >= 0 and power == int(power) and is_whole(part) for part, power in of.args)
        case "where":
            return all(map(is_whole, of.args[1:]))
        case "sum" | "greatest":
            return is_whole(of.args[1])
        case "call":
            return scalar_function(of.args[0]).is_whole
        case _:
            return False
