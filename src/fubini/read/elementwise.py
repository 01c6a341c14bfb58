"""Rules of the reader: functions of each entry."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fubini.algebra.build import (
    ONE,
    ZERO,
    call,
    divide,
    equal,
    index,
    less,
    minus,
    negate,
    plus,
    power,
    scale,
    times,
    where,
)
from fubini.algebra.node import Index, Node, node
from fubini.algebra.ranges import bounds, is_whole
from fubini.base.scalar_functions import FUNCTIONS
from fubini.read.jaxpr_reader import Reader, rule
from fubini.read.primitive import Primitive
from fubini.read.symbolic_array import SymbolicArray


def _elementwise(name: str, of: Any) -> None:
    @rule(name)
    def read(reader: Reader, equation: Any, *operands: SymbolicArray) -> SymbolicArray:
        shape = equation.outvars[0].aval.shape
        return SymbolicArray(shape, lambda *at: of(*(part.at(*at[len(at) - part.rank :]) for part in operands)))


def _not_equal(a: Node, b: Node) -> Node:
    return negate(equal(a, b))


for _name, _of in {
    "add": plus,
    "add_any": plus,
    "sub": minus,
    "mul": times,
    "neg": lambda a: scale(-1.0, a),
    **{name: partial(call, name) for name, function in FUNCTIONS.items() if function.is_primitive},
    "floor": lambda a: a if is_whole(a) else call("floor", a),
    "max": lambda a, b: _greater(a, b),
    "min": lambda a, b: _smaller(a, b),
    "lt": less,
    "gt": lambda a, b: less(b, a),
    "le": lambda a, b: negate(less(b, a)),
    "ge": lambda a, b: negate(less(a, b)),
    "stop_gradient": lambda a: a,
    "copy": lambda a: a,
    "copy_p": lambda a: a,
    "real": lambda a: a,
    "optimization_barrier": lambda a: a,
}.items():
    _elementwise(_name, _of)

OTHERS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "cosh"),
    *("erf_inv", "erfc", "exp2", "igamma", "igammac", "is_finite", "polygamma", "round", "sinh", "tan", "zeta"),
)


@rule(*OTHERS)
def read_function(reader: Reader, equation: Any, *operands: SymbolicArray) -> SymbolicArray:
    """A function of each entry"""
    function = Primitive(equation)
    shape = equation.outvars[0].aval.shape
    return SymbolicArray(shape, lambda *at: node("call", function, *(same_shape(part, at) for part in operands)))


@rule("div", "rem")
def read_division(reader: Reader, equation: Any, a: SymbolicArray, b: SymbolicArray) -> SymbolicArray | None:
    """a / b; of whole numbers the quotient, or what it leaves, where neither is negative"""
    shape, name = equation.outvars[0].aval.shape, equation.primitive.name
    if np.issubdtype(equation.outvars[0].aval.dtype, np.floating):
        if name == "rem":
            function = Primitive(equation)
            return SymbolicArray(shape, lambda *at: node("call", function, *(same_shape(x, at) for x in (a, b))))
        return SymbolicArray(shape, lambda *at: divide(same_shape(a, at), same_shape(b, at)))
    fresh = [index(Index(size)) for size in shape]
    if bounds(same_shape(a, tuple(fresh)))[0] < 0 or bounds(same_shape(b, tuple(fresh)))[0] < 1:
        return None

    def at(*where_: Node) -> Node:
        over, under = same_shape(a, where_), same_shape(b, where_)
        quotient = call("quotient", over, under)
        return quotient if name == "div" else minus(over, times(under, quotient))

    return SymbolicArray(shape, at)


@rule("and", "or", "not", "xor")
def read_logic(reader: Reader, equation: Any, *operands: SymbolicArray) -> SymbolicArray | None:
    """Of truth values; the bits of whole numbers are none"""
    if equation.outvars[0].aval.dtype != np.bool_:
        return None
    of = {"and": times, "or": lambda a, b: where(a, ONE, b), "not": negate, "xor": _not_equal}[equation.primitive.name]
    shape = equation.outvars[0].aval.shape
    return SymbolicArray(shape, lambda *at: of(*(same_shape(part, at) for part in operands)))


def _greater(a: Node, b: Node) -> Node:
    (low, high), (other_low, other_high) = bounds(a), bounds(b)
    return a if low >= other_high else b if other_low >= high else call("max", a, b)


def _smaller(a: Node, b: Node) -> Node:
    (low, high), (other_low, other_high) = bounds(a), bounds(b)
    return a if high <= other_low else b if other_high <= low else call("min", a, b)


def same_shape(part: SymbolicArray, at: tuple[Node, ...]) -> Node:
    """The entry of an operand that has the last of these axes."""
    return part.at(*at[len(at) - part.rank :])


@rule("eq", "ne")
def read_equality(reader: Reader, equation: Any, a: SymbolicArray, b: SymbolicArray) -> SymbolicArray | None:
    """[a = b] of whole numbers; of others it is opaque"""
    if any(np.issubdtype(var.aval.dtype, np.floating) for var in equation.invars):
        return None
    of = equal if equation.primitive.name == "eq" else _not_equal
    shape = equation.outvars[0].aval.shape
    return SymbolicArray(shape, lambda *at: of(same_shape(a, at), same_shape(b, at)))


@rule("integer_pow")
def read_integer_pow(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """a^n"""
    return SymbolicArray(a.shape, lambda *at: power(a.at(*at), float(equation.params["y"])))


@rule("convert_element_type")
def read_convert(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray | None:
    """The same number; from real to whole ones it is cut"""
    new, old = equation.params["new_dtype"], equation.invars[0].aval.dtype
    if np.issubdtype(old, np.floating) and not np.issubdtype(new, np.floating):
        return None
    if new == np.bool_ and old != np.bool_:
        return SymbolicArray(a.shape, lambda *at: _not_equal(a.at(*at), ZERO))
    return SymbolicArray(a.shape, a.at)


@rule("select_n")
def read_select(reader: Reader, equation: Any, test: SymbolicArray, *cases: SymbolicArray) -> SymbolicArray | None:
    """cases[test]"""
    if len(cases) != 2:
        return None
    second, first = cases
    if test.constant is not None and test.constant.shape == first.shape:
        first, second = _only(reader, first, test.constant), _only(reader, second, ~test.constant)
    return SymbolicArray(first.shape, lambda *at: where(same_shape(test, at), first.at(*at), second.at(*at)))


def _only(reader: Reader, case: SymbolicArray, where_: np.ndarray) -> SymbolicArray:
    """Known numbers where they are chosen; elsewhere one of those, so that their bounds are what is chosen."""
    if case.constant is None or not where_.any():
        return case
    return reader.constant(np.where(where_, case.constant, case.constant[where_].flat[0]))


@rule("clamp")
def read_clamp(
    reader: Reader, equation: Any, low: SymbolicArray, a: SymbolicArray, high: SymbolicArray
) -> SymbolicArray:
    """min(max(a, low), high)"""
    return SymbolicArray(a.shape, lambda *at: _smaller(_greater(a.at(*at), same_shape(low, at)), same_shape(high, at)))
