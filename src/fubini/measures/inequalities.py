"""Supports as inequalities between nodes, solved for one latent at a time (Fourier and Motzkin's elimination)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import (
    ONE,
    ZERO,
    add,
    call,
    const,
    content,
    divide,
    get,
    index,
    less,
    minus,
    multiply,
    negate,
    plus,
    power,
)
from fubini.algebra.build import scale as scaled
from fubini.algebra.features import Monomial, NoClosedForm, Square, linear, squares
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, exceeds_zero, is_not_negative, is_surely_positive, is_whole
from fubini.algebra.tidy import together
from fubini.families.functions import exponential
from fubini.families.parameters import Support
from fubini.integrate.finite import solving
from fubini.measures.branch import DrawStatement, Test


class Limit(NamedTuple):
    """low < high, or low ≤ high, for all indices; `of` is the draw whose support says so."""

    over: tuple[Index, ...]
    low: Node
    high: Node
    is_strict: bool = True
    of: Leaf | None = None

    @property
    def leaves(self) -> frozenset[Leaf]:
        """What it depends on."""
        return self.low.leaves | self.high.leaves

    @property
    def test(self) -> Test:
        """As a test."""
        return Test(self.over, less(self.low, self.high) if self.is_strict else negate(less(self.high, self.low)))

    @property
    def holds(self) -> bool:
        """It is certain."""
        if self.low.kind == "const" and self.low.args[0] == -math.inf:
            return True
        if self.high.kind == "const" and self.high.args[0] == math.inf:
            return True
        gap = minus(self.high, self.low)
        return is_surely_positive(gap) if self.is_strict else bounds(gap)[0] >= 0

    @property
    def fails(self) -> bool:
        """It is certain that it does not hold."""
        if self.holds:
            return False
        high = bounds(minus(self.high, self.low))[1]
        return high < 0 or (high == 0 and self.is_strict)

    def contradicts(self, other: Limit) -> bool:
        """0 < gap and 0 < −gap − c"""
        if self.leaves.isdisjoint(other.leaves):
            return False
        whole = add(((self.high, 1.0), (self.low, -1.0), (other.high, 1.0), (other.low, -1.0)))
        if whole.kind != "const":
            return False
        return whole.args[0] < 0 or (whole.args[0] == 0 and (self.is_strict or other.is_strict))


def limits_of(test: Test, drawn: Collection[Leaf]) -> list[Limit] | None:
    """A test as inequalities; None where it is none. Two numbers of which one is drawn are equal where both ≤ hold."""
    node = test.node
    if node.kind == "mul":
        parts = [limits_of(Test(test.over, base), drawn) for base, _ in node.args]
        return None if any(part is None for part in parts) else [limit for part in parts for limit in part or ()]
    if node.kind == "lt":
        return [Limit(test.over, *node.args)]
    if node.kind == "eq" and not node.leaves.isdisjoint(drawn):
        a, b = node.args
        return [Limit(test.over, a, b, False), Limit(test.over, b, a, False)]
    if node.kind == "where" and node.args[0].kind == "lt" and node.args[1:] == (ZERO, ONE):
        b, a = node.args[0].args  # not b < a
        return [Limit(test.over, a, b, False)]
    return None


def limits_of_support(draw: DrawStatement, support: Support | None) -> list[Limit]:
    """low < x < high, and the numbers that x is between, which stay when what the ends depend on is gone"""
    if support is None:
        return []
    leaf, x = draw.leaf, draw.entry()
    numbers = numbers_around(leaf)
    pairs = dict.fromkeys([(support.low, x), (x, support.high), (numbers[0], x), (x, numbers[1])])
    limits = [Limit(draw.at, low, high, not support.is_whole, leaf) for low, high in pairs]
    return [limit for limit in limits if not _is_endless(limit)]


def numbers_around(leaf: Leaf) -> Support:
    """The numbers that a leaf is known to be between."""
    low, high = -math.inf if leaf.low is None else leaf.low, math.inf if leaf.high is None else leaf.high
    return Support(const(low), const(high), leaf.is_integer)


def _is_endless(limit: Limit) -> bool:
    ends = (limit.low, limit.high)
    return any(end.kind == "const" and math.isinf(end.args[0]) for end in ends)


class Ends(NamedTuple):
    """Where a latent lies, at indices of its entries: above all lows and below all highs."""

    at: tuple[Index, ...]
    lows: tuple[Node, ...]
    highs: tuple[Node, ...]
    limits: tuple[Limit, ...] = ()  # without which there is no such interval


def ends_of(leaf: Leaf, at: tuple[Index, ...], limits: Iterable[Limit]) -> Ends:
    """The inequalities solved for a latent; of several ends that are comparable, the tighter ones."""
    lows: list[Node] = []
    highs: list[Node] = []
    others: list[Limit] = []
    for limit in limits:
        if leaf not in limit.leaves:
            continue
        try:
            end, is_low = _solved(limit, leaf, at)
            (lows if is_low else highs).append(end)
        except NoClosedForm as error:
            low, high, other = _around(limit, leaf, error)
            lows.append(low)
            highs.append(high)
            others.append(other)
    return Ends(at, _tightest(lows, 1.0), _tightest(highs, -1.0), tuple(others))


def _around(limit: Limit, leaf: Leaf, error: NoClosedForm) -> tuple[Node, Node, Limit]:
    """0 < r − w (x − m)²  ⇔  |x − m| < √(r/w), where r is positive"""
    gap = simplified(limit).high
    if leaf.shape or leaf.is_integer or limit.over:
        raise error
    parts = list(squares(gap, leaf))
    forms = [part for part in parts if isinstance(part, Square)]
    rest = add((part.coefficient, 1.0) for part in parts if isinstance(part, Monomial) and not part.features)
    if len(forms) != 1 or len(forms[0].slopes) != 1 or any(isinstance(p, Monomial) and p.features for p in parts):
        raise error
    slope = forms[0].slopes[0].coefficient
    weight = scaled(0.5, multiply([(forms[0].weight, 1.0), (slope, 2.0)]))
    if not exceeds_zero(weight):
        raise error
    middle, radius = divide(forms[0].offset, slope), power(divide(rest, weight), 0.5)
    return minus(middle, radius), plus(middle, radius), Limit((), ZERO, rest)


def _solved(limit: Limit, leaf: Leaf, at: tuple[Index, ...]) -> tuple[Node, bool]:
    """x > end or x < end"""
    gap = simplified(limit).high
    try:
        slopes, offset = linear(gap, leaf)
    except NoClosedForm:
        gap = _without_quotient(gap, leaf)
        slopes, offset = linear(gap, leaf)
    if len(slopes) != 1 or slopes[0].over:
        raise NoClosedForm(leaf, gap, "an inequality in one of its entries")
    names = solving(slopes[0].place, limit.over, at)
    if names is None:
        raise NoClosedForm(leaf, gap, "an inequality for each of its entries")
    slope, rest = replaced(slopes[0].coefficient, names), replaced(offset, names)
    is_low = exceeds_zero(slope)
    if not is_low and not exceeds_zero(scaled(-1.0, slope)):
        raise NoClosedForm(leaf, slope, "a factor whose sign is known")
    end = divide(scaled(-1.0, rest), slope)
    return (_whole_end(end, is_low, limit.is_strict, leaf) if leaf.is_integer else end), is_low


def _whole_end(end: Node, is_low: bool, is_strict: bool, leaf: Leaf) -> Node:
    """The last whole number on this side of an end."""
    if end.kind == "const" and math.isinf(end.args[0]):
        return end
    if end.kind == "const":
        value = end.args[0]
        if is_low:
            return const(math.floor(value) + 1.0 if is_strict else math.ceil(value))
        return const(math.ceil(value) - 1.0 if is_strict else math.floor(value))
    if not is_whole(end):
        raise NoClosedForm(leaf, end, "an end that is a whole number")
    return plus(end, const((1.0 if is_low else -1.0) if is_strict else 0.0))


def simplified(limit: Limit) -> Limit:
    """0 < gap, with what does not decide the sign of the gap dropped."""
    gap = minus(limit.high, limit.low)
    while (new := simpler_gap(gap)) is not gap:
        gap = new
    return limit._replace(low=ZERO, high=gap)


def simpler_gap(gap: Node) -> Node:
    """A node of the same sign: without positive factors and denominators, and with what a logarithm is of."""
    above, below = together(gap)
    if below and all(map(is_surely_positive, below)):
        return above
    common, rest = content(gap)
    if common:
        return rest
    parts = gap.args if gap.kind == "mul" else gap.args[0][0].args if _is_scaled_product(gap) else ()
    of_any_sign = [(base, power) for base, power in parts if not is_surely_positive(base)]
    if len(of_any_sign) == 1 and abs(of_any_sign[0][1]) == 1:
        return of_any_sign[0][0] if gap.kind == "mul" or gap.args[0][1] > 0 else scaled(-1.0, of_any_sign[0][0])
    return _without_exp(_without_log(gap))


def _without_exp(gap: Node) -> Node:
    """a e^u + b > 0  ⇔  ± (u − log(−b/a)) > 0, where b/a is negative"""
    terms = gap.args if gap.kind == "add" else ()
    exps = [(part, c) for part, c in terms if part.kind == "call" and part.args[0] == "exp"]
    if len(exps) != 1:
        return gap
    ((part, c),) = exps
    end = add((other, -d / c) for other, d in terms if other is not part)
    if not is_not_negative(end):
        return gap
    return scaled(math.copysign(1.0, c), minus(part.args[1], call("log", end)))


def _without_log(gap: Node) -> Node:
    """a log u + b > 0  ⇔  ± (u − e^(−b/a)) > 0, where u is not negative"""
    terms = gap.args if gap.kind == "add" else ((gap, 1.0),)
    logs = [(part, c) for part, c in terms if part.kind == "call" and part.args[0] == "log"]
    if len(logs) != 1:
        return gap
    ((part, c),) = logs
    if not is_not_negative(part.args[1]):
        return gap
    end = exponential(add((other, -d / c) for other, d in terms if other is not part))
    return scaled(math.copysign(1.0, c), minus(part.args[1], end))


def _is_scaled_product(of: Node) -> bool:
    return of.kind == "add" and len(of.args) == 1 and of.args[0][0].kind == "mul"


def _without_quotient(gap: Node, leaf: Leaf) -> Node:
    """Times the positive parts that a sum is divided by."""
    terms = gap.args if gap.kind == "add" else ((gap, 1.0),)
    below: dict[Node, float] = {}
    for part, _ in terms:
        for base, exponent in part.args if part.kind == "mul" else ():
            if exponent < 0 and leaf in base.leaves and is_surely_positive(base):
                below[base] = max(below.get(base, 0.0), -exponent)
    return add((multiply([(part, 1.0), *below.items()]), c) for part, c in terms)


def _tightest(ends: Sequence[Node], sign: float) -> tuple[Node, ...]:
    """Those that no other one is beyond for certain."""
    kept: list[Node] = []
    for end in dict.fromkeys(ends):
        if any(_is_beyond(other, end, sign) for other in kept):
            continue
        kept = [other for other in kept if not _is_beyond(end, other, sign)]
        kept.append(end)
    return tuple(kept)


def _is_beyond(a: Node, b: Node, sign: float) -> bool:
    return bounds(scaled(sign, minus(a, b)))[0] >= 0


def entry_of(leaf: Leaf, at: Sequence[Index]) -> Node:
    """x[at]"""
    return get(leaf, *map(index, at))
