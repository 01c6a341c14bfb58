"""Numbers and arrays that are not known yet: nodes of index notation under Python's operators."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import (
    ZERO,
    call,
    const,
    divide,
    equal,
    get,
    index,
    is_test,
    less,
    minus,
    negate,
    plus,
    power,
    scale,
    times,
)
from fubini.algebra.build import where as chosen
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, is_surely_positive, is_whole
from fubini.algebra.sums import total as summed
from fubini.base.arrays import Data, is_traced
from fubini.base.ops import Op
from fubini.errors import DomainError, UnknownName, listed
from fubini.families import incomplete_functions as masses
from fubini.measures.known_values import Check, known_value, traced_value
from fubini.show.printed_form import COLUMNS, cut


class Number:
    """A scalar of index notation; `==` and `<` make tests, which are 0 or 1.

    >>> x = symbol("x")
    >>> 2 * x + x
    3 x
    """

    __slots__ = ("checks", "node")
    __hash__ = object.__hash__

    def __init__(self, node: Node, checks: Sequence[Check] = ()) -> None:
        self.node, self.checks = node, tuple(dict.fromkeys(checks))

    def __repr__(self) -> str:
        return cut(repr(self.node), COLUMNS)

    def _apply_op(self, op: Op, args: Sequence[Any]) -> Number:
        """An op of `fb.ops`, on numbers of which some are not known."""
        if op.name in OPERATIONS:
            return OPERATIONS[op.name](*args)
        if op.scalar is None:
            known = f"one of {', '.join(OPERATIONS)}, or a scalar function"
            raise DomainError(f"{op.name} of {listed(args)}", expected=known, advice="see fb.measures")
        return function(op.scalar.name, *args)

    def __call__(self, **values: Data) -> Data:
        """Its value given those of the symbols in it: in double precision, or JAX's under `jit`, `vmap` and `grad`."""
        leaves = {leaf.name: leaf for leaf in self.node.leaves}
        if twice := sorted({leaf.name for leaf in self.node.leaves if leaves[leaf.name] is not leaf}):
            raise DomainError(
                f"the value of {self}",
                expected="one symbol of each name",
                nearest=f"two symbols {listed(twice)}",
            )
        if missing := sorted(set(leaves) - set(values)):
            raise UnknownName(
                f"the value of {self} at {listed(values)}",
                expected=f"a value of {listed(leaves)}",
                nearest=f"none of {listed(missing)}",
            )
        evaluate = traced_value if is_traced(*values.values()) else known_value
        return evaluate(self.node, self.checks, values)

    def __float__(self) -> float:
        """Its value, where no symbol is in it."""
        return self()

    def __bool__(self) -> bool:
        if self.node.kind == "const":
            return bool(self.node.args[0])
        raise DomainError(
            f"the truth of {self}", expected="a number that is known", advice="use where(test, a, b) or condition(test)"
        )

    def __add__(self, other: Any) -> Number:
        return combined(plus, self, other)

    def __sub__(self, other: Any) -> Number:
        return combined(minus, self, other)

    def __rsub__(self, other: Any) -> Number:
        return combined(minus, other, self)

    def __mul__(self, other: Any) -> Number:
        return combined(times, self, other)

    def __truediv__(self, other: Any) -> Number:
        return combined(divide, self, other)

    def __rtruediv__(self, other: Any) -> Number:
        return combined(divide, other, self)

    def __pow__(self, exponent: Any) -> Number:
        return combined(raised, self, exponent)

    def __rpow__(self, base: Any) -> Number:
        return combined(raised, base, self)

    def __floordiv__(self, other: Any) -> Number:
        return combined(quotient, self, other)

    def __rfloordiv__(self, other: Any) -> Number:
        return combined(quotient, other, self)

    def __mod__(self, other: Any) -> Number:
        return self - (self // other) * other

    def __rmod__(self, other: Any) -> Number:
        return as_number(other) % self

    def __neg__(self) -> Number:
        return combined(partial(scale, -1.0), self)

    def __abs__(self) -> Number:
        return combined(partial(call, "abs"), self)

    def __lt__(self, other: Any) -> Number:
        return combined(less, self, other)

    def __gt__(self, other: Any) -> Number:
        return combined(less, other, self)

    def __le__(self, other: Any) -> Number:
        return ~(self > other)

    def __ge__(self, other: Any) -> Number:
        return ~(self < other)

    def __eq__(self, other: Any) -> Number:  # type: ignore[override]
        return combined(equal, self, other)

    def __ne__(self, other: Any) -> Number:  # type: ignore[override]
        return ~(self == other)

    def __and__(self, other: Any) -> Number:
        return combined(lambda a, b: times(truth(a), truth(b)), self, other)

    def __or__(self, other: Any) -> Number:
        return ~(~self & ~as_number(other))

    def __invert__(self) -> Number:
        return combined(lambda a: negate(truth(a)), self)

    __radd__, __rmul__, __rand__, __ror__ = __add__, __mul__, __and__, __or__


class Entries:
    """An array of index notation: a shape, and the number at given indices."""

    __slots__ = ("at", "shape")

    def __init__(self, shape: tuple[int, ...], at: Callable[..., Node]) -> None:
        self.shape, self.at = shape, at

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, where: Any) -> Any:
        places = tuple(map(node_of, where if isinstance(where, tuple) else (where,)))
        if len(places) > len(self.shape):
            raise DomainError(f"an entry at {len(places)} indices", expected=f"at most {len(self.shape)}")
        for place, size in zip(places, self.shape, strict=False):
            if place.kind == "const" and not 0 <= place.args[0] < size:
                raise DomainError(f"entry {place}", expected=f"0 … {size - 1}")
        rest = self.shape[len(places) :]
        return entries(rest, lambda *more: self.at(*places, *more))

    def __repr__(self) -> str:
        return cut(f"array {self.shape} of {self.at(*(index(Index(size)) for size in self.shape))}", COLUMNS)


def entries(shape: tuple[int, ...], at: Callable[..., Node]) -> Number | Entries:
    """An array, or a number where there are no axes."""
    return Entries(shape, at) if shape else Number(at())


def as_number(value: Any) -> Number:
    """A number, known or not."""
    return value if isinstance(value, Number) else Number(node_of(value))


def combined(function: Callable[..., Node], *operands: Any) -> Number:
    """A function of numbers; what is checked of each is checked of the result."""
    checks = [check for part in operands if isinstance(part, Number) for check in part.checks]
    return Number(function(*map(node_of, operands)), checks)


def node_of(value: Any) -> Node:
    """The node of a number, known or not."""
    if isinstance(value, Number):
        return value.node
    try:
        return const(float(value))
    except (TypeError, ValueError):
        raise DomainError(
            f"{value!r} as a number", expected="a number or a symbol", advice="index an array to get an entry"
        ) from None


def truth(of: Node) -> Node:
    """[x ≠ 0], which a test is already"""
    return of if is_test(of) else negate(equal(of, ZERO))


def quotient(over: Node, under: Node) -> Node:
    """⌊a/b⌋; of whole numbers from −m b on, (a + m b)//b − m"""
    low = bounds(over)[0]
    size = under.args[0] if under.kind == "const" else math.nan
    if not size > 0:
        raise DomainError(f"{over} // {under}", expected="a positive number to divide by")
    if not (is_whole(over) and is_whole(under)):
        return call("floor", divide(over, under))
    if math.isinf(low):
        raise DomainError(f"{over} // {under}", expected="a whole number with a least value")
    turns = max(0.0, math.ceil(-low / size))
    return minus(call("quotient", plus(over, const(turns * size)), under), const(turns))


def raised(base: Node, exponent: Node) -> Node:
    """base^exponent; e^(exponent log base) where the exponent is not known and the base is positive"""
    if exponent.kind == "const":
        return _require_root(power(base, exponent.args[0]), base, exponent)
    if is_surely_positive(base):
        return call("exp", times(exponent, log_of(base)))
    if base is ZERO and bounds(exponent)[0] >= 0:
        return equal(exponent, ZERO)
    if bounds(base)[0] < 0 and not is_whole(exponent):
        raise DomainError(
            f"({base}) ** ({exponent})",
            expected="a base that is not negative, or a whole exponent",
            advice='symbol("x", kind="positive") says that a parameter is positive',
        )
    return call("pow", base, exponent)


def _require_root(root: Node, base: Node, exponent: Node) -> Node:
    """No root of what is certain to be negative."""
    if bounds(base)[1] < 0 and not is_whole(exponent):
        raise DomainError(f"({base}) ** {exponent}", expected="a base that is not negative")
    return root


def log_of(of: Node) -> Node:
    """log x"""
    if bounds(of)[1] < 0:
        raise DomainError(f"log({of})", expected="a number that is not negative")
    return call("log", of)


def exp(of: Any) -> Number:
    """e^x

    >>> exp(symbol("x")), float(exp(0))
    (exp(x), 1.0)
    """
    return combined(partial(call, "exp"), of)


def log(of: Any) -> Number:
    """log x

    >>> log(symbol("x", kind="positive")), float(log(1))
    (log(x), 0.0)
    """
    return combined(log_of, of)


def sqrt(of: Any) -> Number:
    """√x

    >>> sqrt(symbol("x", kind="positive")), float(sqrt(4))
    (√x, 2.0)
    """
    return combined(raised, of, 0.5)


def lgamma(of: Any) -> Number:
    """log Γ(x)

    >>> lgamma(symbol("x", kind="positive")), round(float(lgamma(5)), 6)
    (lgamma(x), 3.178054)
    """
    return combined(partial(call, "lgamma"), of)


def gamma(of: Any) -> Number:
    """Γ(x)

    >>> round(float(gamma(5)), 6)
    24.0
    """
    return exp(lgamma(of))


def function(name: str, *args: Any) -> Number:
    """A function that index notation knows by name.

    >>> function("tanh", symbol("x"))
    tanh(x)
    """
    return combined(partial(call, name), *args)


def minimum(a: Any, b: Any) -> Number:
    """min(a, b)

    >>> minimum(symbol("x"), 0), float(minimum(2, 3))
    (min(x, 0), 2.0)
    """
    return combined(partial(call, "min"), a, b)


def maximum(a: Any, b: Any) -> Number:
    """max(a, b)

    >>> maximum(symbol("x"), 0), float(maximum(2, 3))
    (max(x, 0), 3.0)
    """
    return combined(partial(call, "max"), a, b)


def where(test: Any, first: Any, second: Any) -> Number:
    """first where the test holds, else second

    >>> where(symbol("x") > 0, 1, 2)
    1 if [0 < x] else 2
    """
    return combined(lambda test, a, b: chosen(truth(test), a, b), test, first, second)


def total(*sizes_and_body: Any) -> Number:
    """Σ over indices: `total(n, lambda i: x[i])`, `total(n, m, lambda i, j: x[i, j])`.

    >>> total(3, lambda i: symbol("x", 3)[i] ** 2)
    Σ_j x[j]²
    """
    *sizes, body = sizes_and_body
    over = tuple(Index(size) for size in sizes)
    return combined(partial(summed, over), body(*(Number(index(i)) for i in over)))


def product(*sizes_and_body: Any) -> Number:
    """Π over indices of a positive body: e^(Σ log).

    >>> round(float(product(3, lambda i: i + 1)), 6)
    6.0
    """
    *sizes, body = sizes_and_body
    return exp(total(*sizes, lambda *at: log(body(*at))))


def log_total(*sizes_and_body: Any) -> Number:
    """log Σ e^body over indices

    >>> round(float(log_total(3, lambda i: log(i + 1))), 6)
    1.791759
    """
    *sizes, body = sizes_and_body
    over = tuple(Index(size) for size in sizes)
    return combined(partial(log_sum, over), body(*(Number(index(i)) for i in over)))


def log_sum(over: tuple[Index, ...], body: Node) -> Node:
    """log Σ e^body over indices; those that the body lacks only count"""
    unused = math.prod(i.size for i in over if i not in body.free)
    used = tuple(i for i in over if i in body.free)
    return plus(const(math.log(unused)), closed("lse", used, body) if used else body)


def greatest(*sizes_and_body: Any) -> Number:
    """The greatest of a body over indices

    >>> float(greatest(3, lambda i: 2 * i))
    4.0
    """
    *sizes, body = sizes_and_body
    over = tuple(Index(size) for size in sizes)
    return combined(partial(closed, "greatest", over), body(*(Number(index(i)) for i in over)))


def array(*sizes_and_body: Any) -> Entries:
    """An array by its entries: `array(n, lambda i: 2 * i)`; rows that are arrays make further axes.

    >>> double = array(3, lambda i: 2 * i)
    >>> double.shape, float(double[2])
    ((3,), 4.0)
    """
    *sizes, body = sizes_and_body
    over = tuple(Index(size) for size in sizes)
    inner = body(*(Number(index(i)) for i in over))
    rest = inner.shape if isinstance(inner, Entries) else ()
    free = tuple(Index(size) for size in rest)
    entry = inner.at(*map(index, free)) if isinstance(inner, Entries) else node_of(inner)
    every = (*over, *free)

    def at(*where_: Node) -> Node:
        return replaced(entry, {index(i): place for i, place in zip(every, where_, strict=True)})

    return Entries((*sizes, *rest), at)


def normal_mass(low: Any, high: Any) -> Number:
    """log(Φ(high) − Φ(low)), of the standard normal

    >>> round(float(normal_mass(-1, 1)), 6)
    -0.381715
    """
    return combined(masses.normal_mass, low, high)


FACTS: dict[str, Mapping[str, Any]] = {
    "real": {},
    "positive": {"low": 0.0},
    "unit": {"low": 0.0, "high": 1.0},
    "whole": {"low": 0.0, "is_integer": True},
    "simplex": {"low": 0.0, "high": 1.0, "is_simplex": True},
}


def symbol(name: str, *shape: int, kind: str = "real", low: float | None = None, high: float | None = None) -> Any:
    """A parameter: a number or an array that is real, positive, unit, whole or simplex, with bounds if there are.

    >>> symbol("mu"), symbol("label", 5, kind="whole", high=2)[3]
    (mu, label[3])
    """
    if kind not in FACTS:
        raise DomainError(f"a symbol that is {kind!r}", expected=", ".join(FACTS))
    facts = dict(FACTS[kind])
    facts.update({key: float(value) for key, value in (("low", low), ("high", high)) if value is not None})
    leaf = Leaf(name, shape, role="site" if kind != "whole" else "data", **facts)
    return entries(shape, lambda *at: get(leaf, *at))


# What ops of `fb.ops` are on numbers that are not known; those that are not here are functions of index notation.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "negative": operator.neg,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "logical_and": operator.and_,
    "logical_or": operator.or_,
    "logical_not": operator.invert,
    "where": where,
    "log": log,
    "sqrt": sqrt,
}
