"""Making nodes: each function returns the simplest node it can tell, by local algebra and known ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.ranges import bounds, exceeds_zero, is_not_negative, is_whole
from fubini.base.scalar_functions import FUNCTIONS, ScalarFunction


def const(value: float) -> Node:
    """A number."""
    return node("const", float(value))


ZERO, ONE = const(0.0), const(1.0)


def index(of: Index) -> Node:
    """An index variable."""
    return node("index", of)


def bound(level: int, place: int, size: int) -> Node:
    """A bound index."""
    return node("index", level, place, size)


def get(leaf: Leaf, *at: Node) -> Node:
    """An entry of an array; axes of one entry are read at 0."""
    assert len(at) == len(leaf.shape), f"{leaf} of shape {leaf.shape} at {at}"
    return node("get", leaf, *(ZERO if size == 1 else part for part, size in zip(at, leaf.shape, strict=True)))


# -- sums and products of few ---------------------------------------------------------------------------------------


def add(terms: Iterable[tuple[Node, float]]) -> Node:
    """Σ coefficient · term, like terms together."""
    coefficients: dict[Node, float] = {}
    for term, coefficient in terms:
        for part, more in _as_sum(term):
            coefficients[part] = coefficients.get(part, 0.0) + coefficient * more
    kept = sorted(((part, c) for part, c in coefficients.items() if c != 0), key=lambda item: item[0].serial)
    if not kept:
        return ZERO
    if len(kept) == 1 and (kept[0][1] == 1 or kept[0][0] is ONE):
        return const(kept[0][1]) if kept[0][0] is ONE else kept[0][0]
    return node("add", *kept)


def _as_sum(term: Node) -> tuple[tuple[Node, float], ...]:
    if term.kind == "add":
        return term.args
    return ((ONE, term.args[0]),) if term.kind == "const" else ((term, 1.0),)


def plus(*terms: Node) -> Node:
    """a + b + …"""
    return add((term, 1.0) for term in terms)


def minus(a: Node, b: Node) -> Node:
    """a − b"""
    return add(((a, 1.0), (b, -1.0)))


def scale(coefficient: float, term: Node) -> Node:
    """coefficient · term"""
    return add(((term, coefficient),))


def multiply(factors: Iterable[tuple[Node, float]]) -> Node:
    """Π base^exponent, like bases together, numbers in front."""
    coefficient, exponents = 1.0, dict[Node, float]()
    for base, power in factors:
        if power != 1 and base.kind == "where" and not is_test(base):  # 1 / where(c, a, b)
            test, first, second = base.args
            base, power = where(test, multiply([(first, power)]), multiply([(second, power)])), 1.0
        more, parts = as_product(base)
        if power != 1 and base.kind == "add":  # (a v + b v)^p = v^p (a + b)^p
            common, rest = content(base)
            if common:
                more, parts = as_product(rest)
                parts = {**parts, **{part: inner + parts.get(part, 0.0) for part, inner in common.items()}}
        if more == 0 and power > 0:
            return ZERO
        if more == 0 and power < 0:
            more, parts = 1.0, {base: 1.0}  # infinite, as its numbers will show
        if power != int(power):
            more, parts = _sure(base, more, parts)
        if more != 1:
            number = _raised(more, power)
            if number is None:
                more, parts = 1.0, {base: 1.0}
            else:
                coefficient *= number
        for part, inner in parts.items():
            exponents[part] = exponents.get(part, 0.0) + inner * power
    exponents = _flat(exponents)
    kept = {part: 1.0 if is_test(part) and power > 0 else power for part, power in exponents.items() if power != 0}
    if _excludes(kept):
        return ZERO
    items = sorted(kept.items(), key=lambda item: item[0].serial)
    if not items:
        return const(coefficient)
    plain = len(items) == 1 and items[0][1] == 1
    return scale(coefficient, items[0][0] if plain else node("mul", *items))


def _raised(base: float, exponent: float) -> float | None:
    """base^exponent; None where it is beyond all numbers"""
    try:
        return base**exponent
    except (OverflowError, ZeroDivisionError):
        return None


def _flat(exponents: dict[Node, float]) -> dict[Node, float]:
    """A product to a whole power, which a root had kept together, split into its factors."""
    flat: dict[Node, float] = {}
    for part, power in exponents.items():
        inner = part.args if part.kind == "mul" and power == int(power) else ((part, 1.0),)
        for base, exponent in inner:
            flat[base] = flat.get(base, 0.0) + exponent * power
    return flat


def _sure(base: Node, coefficient: float, parts: dict[Node, float]) -> tuple[float, dict[Node, float]]:
    """What may be taken out of a root: positive parts. √(x²) is no x."""
    if coefficient < 0:
        return 1.0, {base: 1.0}
    sure = {part: power for part, power in parts.items() if is_not_negative(part)}
    rest = [(part, power) for part, power in parts.items() if part not in sure]
    if not rest:
        return coefficient, parts
    whole = rest[0][0] if len(rest) == 1 and rest[0][1] == 1 else node("mul", *rest)
    return coefficient, {**sure, whole: 1.0}


def factors_in(of: Node) -> tuple[tuple[Node, float], ...]:
    """Bases and exponents: those of a product, or the node itself."""
    return of.args if of.kind == "mul" else ((of, 1.0),)


def as_product(base: Node) -> tuple[float, dict[Node, float]]:
    """A number, and the powers of factors."""
    match base.kind:
        case "const":
            return base.args[0], {}
        case "mul":
            return 1.0, dict(base.args)
        case "add" if len(base.args) == 1:
            (part, coefficient), *_ = base.args
            return coefficient, dict(factors_in(part))
        case _:
            return 1.0, {base: 1.0}


def content(of: Node) -> tuple[dict[Node, float], Node]:
    """The positive factors that all terms of a sum share, and the sum without them; choices do not cancel."""
    if of.kind != "add" or len(of.args) < 2:
        return {}, of
    products = [as_product(part)[1] for part, _ in of.args]
    shared = {base: power for base, power in products[0].items() if exceeds_zero(base) and base.kind != "where"}
    for product in products[1:]:
        shared = {base: power for base, power in shared.items() if product.get(base) == power}
    if not shared:
        return {}, of
    inverse = [(base, -power) for base, power in shared.items()]
    return shared, add((multiply([(part, 1.0), *inverse]), c) for part, c in of.args)


def _excludes(factors: Mapping[Node, float]) -> bool:
    """Two tests that cannot hold together: [a = 1] [a = 2]."""
    seen: dict[Node, Node] = {}
    for factor in factors:
        if factor.kind == "eq":
            for this, other in (factor.args, factor.args[::-1]):
                if other.kind == "const" and seen.setdefault(this, other) is not other:
                    return True
    return False


def times(*factors: Node) -> Node:
    """a · b · …"""
    return multiply((factor, 1.0) for factor in factors)


def power(base: Node, exponent: float) -> Node:
    """base^exponent"""
    if base.kind == "const" and (base.args[0] > 0 or exponent == int(exponent)) and not (base is ZERO and exponent < 0):
        value = _raised(base.args[0], exponent)
        return const(value) if value is not None else node("mul", (base, exponent))
    return multiply(((base, exponent),))


def divide(a: Node, b: Node) -> Node:
    """a / b"""
    return multiply(((a, 1.0), (b, -1.0)))


# -- functions and tests --------------------------------------------------------------------------------------------


def call(name: str, *args: Node) -> Node:
    """A function of numbers."""
    (arg,) = args if len(args) == 1 else (None,)
    if name == "quotient":
        return _quotient(*args)
    if name == "pow":
        return _pow(*args)
    if name in ("max", "min"):
        return _extreme(name, *args)
    if arg is not None and (simple := _known(name, arg)) is not None:
        return simple
    if name == "log" and arg is not None:
        return _log(arg)
    if name == "abs" and arg is not None and bounds(arg)[0] >= 0:
        return arg
    if name == "exp" and arg is not None and arg.kind == "call" and arg.args[0] == "log":
        return arg.args[1]
    if arg is not None and (case := _case(arg)) is not None:
        test, first, second = case
        return where(test, call(name, first), call(name, second))
    return node("call", name, *args)


def _known(name: str | ScalarFunction, arg: Node) -> Node | None:
    """A function that is a power, or the number that it takes at a number; None where it is neither."""
    function = FUNCTIONS.get(name) if isinstance(name, str) else name
    if not isinstance(function, ScalarFunction):
        return None
    if function.exponent is not None:
        return power(arg, function.exponent)
    if arg.kind != "const" or function.number is None:
        return None
    try:
        return const(function.number(arg.args[0]))
    except (ValueError, OverflowError):
        return node("call", name, arg)


def _pow(base: Node, exponent: Node) -> Node:
    """base^exponent, by the rules for powers where the exponent is a number"""
    return power(base, exponent.args[0]) if exponent.kind == "const" else node("call", "pow", base, exponent)


def _extreme(name: str, a: Node, b: Node) -> Node:
    """max(a, b) or min(a, b); one of the two, where their ranges decide"""
    for one, other in ((a, b), (b, a)):
        if one is other or (
            bounds(one)[0] >= bounds(other)[1] if name == "max" else bounds(one)[1] <= bounds(other)[0]
        ):
            return one
    return node("call", name, a, b)


def _quotient(a: Node, b: Node) -> Node:
    """a // b of whole numbers that are not negative"""
    if b is ONE:
        return a
    if b.kind == "const" and b.args[0] > bounds(a)[1]:
        return ZERO
    if a.kind == b.kind == "const":
        return const(a.args[0] // b.args[0])
    if a.kind == "add" and b.kind == "const" and (parts := _whole_turns(a, b.args[0])) is not None:
        return parts
    return node("call", "quotient", a, b)


def _whole_turns(of: Node, size: float) -> Node | None:
    """q of size · q + r, whole numbers with 0 ≤ r < size; None where they are not seen to be such"""
    turns = [(term, c / size) for term, c in of.args if c % size == 0 and is_whole(term)]
    rest = add((term, c) for term, c in of.args if not (c % size == 0 and is_whole(term)))
    low, high = bounds(rest)
    quotient = add(turns)
    return quotient if turns and is_whole(rest) and low >= 0 and high < size and bounds(quotient)[0] >= 0 else None


def _case(arg: Node) -> tuple[Node, Node, Node] | None:
    """A choice, or a sum with one choice in it: the test, and what is chosen."""
    if arg.kind == "where":
        return arg.args  # type: ignore[return-value]
    choices = [part for part, _ in arg.args if part.kind == "where"] if arg.kind == "add" else []
    if len(choices) != 1:
        return None
    (choice,) = choices
    test, first, second = choice.args
    rest = [(part, c) for part, c in arg.args if part is not choice]
    (coefficient,) = (c for part, c in arg.args if part is choice)
    return test, add([*rest, (first, coefficient)]), add([*rest, (second, coefficient)])


def _log(arg: Node) -> Node:
    """log Π base^power  =  Σ power log base, for positive bases"""
    if arg.kind == "call" and arg.args[0] == "exp":
        return arg.args[1]
    if (case := _case(arg)) is not None:
        test, first, second = case
        return where(test, call("log", first), call("log", second))
    common, rest = content(arg)
    if common:  # log(a v + b v) = log v + log(a + b)
        return add((*((call("log", base), power) for base, power in common.items()), (call("log", rest), 1.0)))
    coefficient, parts = as_product(arg)
    plain = coefficient == 1 and list(parts.values()) == [1.0]
    if coefficient <= 0 or plain:
        return node("call", "log", arg)
    alone = len(parts) == 1 and all(power % 2 != 0 for power in parts.values())  # log x² is no 2 log x
    sure = {part: power for part, power in parts.items() if is_not_negative(part) or alone}
    rest = multiply((part, power) for part, power in parts.items() if part not in sure)
    logs = [(_log(part), power) for part, power in sure.items()]
    if rest is not ONE:
        logs.append((node("call", "log", rest), 1.0))
    return add(((const(math.log(coefficient)), 1.0), *logs))


def equal(a: Node, b: Node) -> Node:
    """[a = b], for whole numbers"""
    if a is b:
        return ONE
    (low, high), (other_low, other_high) = bounds(a), bounds(b)
    if high < other_low or other_high < low:
        return ZERO
    if low == high == other_low == other_high:
        return ONE
    if (decided := _decided(equal, a, b)) is not None:
        return decided
    return node("eq", *sorted((a, b), key=lambda part: part.serial))


def less(a: Node, b: Node) -> Node:
    """[a < b]"""
    (low, high), (other_low, other_high) = bounds(a), bounds(b)
    if high < other_low:
        return ONE
    if low >= other_high:
        return ZERO
    decided = _decided(less, a, b)
    return node("lt", a, b) if decided is None else decided


def _decided(compare: Callable[[Node, Node], Node], a: Node, b: Node) -> Node | None:
    """[c + d [t] < e], of numbers c, d and e, is the test t, its negation, 0 or 1"""
    for this, other, swapped in ((a, b, False), (b, a, True)):
        choice = _number_by_test(this) if other.kind == "const" else None
        if choice is not None:
            test, *cases = choice
            return where(test, *(compare(other, case) if swapped else compare(case, other) for case in cases))
    return None


def _number_by_test(of: Node) -> tuple[Node, Node, Node] | None:
    """The test, and the two numbers, of a number that one test decides."""
    if of.kind in ("eq", "lt"):
        return of, ONE, ZERO
    if of.kind == "where" and of.args[1].kind == of.args[2].kind == "const":
        return of.args  # type: ignore[return-value]
    parts = [(part, c) for part, c in of.args if part is not ONE] if of.kind == "add" else []
    choice = _number_by_test(parts[0][0]) if len(parts) == 1 else None
    if choice is None:
        return None
    rest = [(part, c) for part, c in of.args if part is ONE]
    test, first, second = choice
    return test, *(add([*rest, (case, parts[0][1])]) for case in (first, second))  # type: ignore[return-value]


def where(test: Node, first: Node, second: Node) -> Node:
    """first where the test holds, else second"""
    if first is second:
        return first
    if test.kind == "const":
        return first if test.args[0] else second
    if first is ONE and second is ZERO and is_test(test):
        return test
    if test.kind == "where" and test.args[1:] == (ZERO, ONE) and (first, second) != (ZERO, ONE):
        return where(test.args[0], second, first)
    return node("where", test, first, second)


def make(kind: str, *args: Any) -> Node:
    """The node of a kind with these arguments, by the rules of the kind."""
    maker = MAKERS.get(kind)
    return node(kind, *args) if maker is None else maker(*args)


MAKERS: dict[str, Callable[..., Node]] = {
    "add": lambda *terms: add(terms),
    "mul": lambda *factors: multiply(factors),
    "get": get,
    "call": call,
    "eq": equal,
    "lt": less,
    "where": where,
}


def negate(test: Node) -> Node:
    """[not test]"""
    return where(test, ZERO, ONE)


def is_test(of: Node) -> bool:
    """It is 0 or 1."""
    if of.kind == "get":
        return of.args[0].is_test
    return of.kind in ("eq", "lt") or of in (ZERO, ONE) or (of.kind == "where" and all(map(is_test, of.args[1:])))
