"""Operations on values: one record each, applied to numbers, arrays or Values alike.

`fb.ops.exp(x)` computes where x is a number and builds a Value where x is one. An op is written once against the
array namespace; `lift` makes one of any JAX function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from fubini.base import scalar_functions as f
from fubini.base.arrays import Data, double_precision, is_jax, namespace
from fubini.base.domains import Bint, Domain, Integer, Real
from fubini.base.interpretations import uninterpreted
from fubini.base.own_arrays import with_own_arrays
from fubini.base.scalar_functions import ScalarFunction, of_numpy
from fubini.errors import DomainError


def _no_polynomial(degrees: Sequence[float]) -> float:
    return math.inf


def _degree_of_quotient(degrees: Sequence[float]) -> float:
    return math.inf if degrees[1] else degrees[0]


def _degree_of_choice(degrees: Sequence[float]) -> float:
    return math.inf if degrees[0] else max(degrees[1:])


@dataclass(frozen=True)
class Op:
    """A function of arrays with a typing rule.

    `function(xp, *arrays)` computes; `infer(*domains)` gives the domain of the result or raises; `degree(degrees)` is
    that of the result as a polynomial, infinity where it is none. An elementwise op broadcasts by itself; any other is
    mapped over named axes.

    >>> exp(0.0), maximum(2, 3)
    (np.float64(1.0), np.int64(3))
    """

    name: str
    function: Callable[..., Any]
    infer: Callable[..., Domain] = field(compare=False)
    symbol: str = ""
    elementwise: bool = True
    scalar: ScalarFunction | None = field(default=None, compare=False)  # of the table, where it is one
    degree: Callable[[Sequence[float]], float] = field(default=_no_polynomial, compare=False)

    def __call__(self, *args: Any) -> Any:
        for arg in args:
            if hasattr(arg, "_apply_op"):
                return arg._apply_op(self, args)
        return self.compute(*args)

    def compute(self, *arrays: Data) -> Data:
        """The op on plain arrays.

        >>> exp.compute(np.zeros(2))
        array([1., 1.])
        """
        return self.function(namespace(*arrays), *arrays)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...] | str:
        if isinstance(self.function, Lifted):
            return (lift, (self.function.function,))
        return self.name  # ours are module-level names


def _broadcast(op: str, domains: tuple[Domain, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(domain.shape for domain in domains))
    except ValueError:
        shapes = ", ".join(map(repr, domains))
        raise DomainError(f"{op} of {shapes}", expected="shapes that broadcast") from None


def _real(op: str) -> Callable[..., Domain]:
    return lambda *domains: Real.with_shape(_broadcast(op, domains))


def _truth(op: str) -> Callable[..., Domain]:
    return lambda *domains: Bint[2].with_shape(_broadcast(op, domains))


def _arithmetic(op: str, bound: Callable[[int, int], int] | None) -> Callable[..., Domain]:
    def infer(*domains: Domain) -> Domain:
        shape = _broadcast(op, domains)
        if not all(domain.is_discrete for domain in domains):
            return Real.with_shape(shape)
        sizes = [domain.size for domain in domains]
        if bound is None or None in sizes:
            return Integer.with_shape(shape)
        return Bint[bound(*sizes)].with_shape(shape)  # type: ignore[arg-type]

    return infer


def _choice(condition: Domain, first: Domain, second: Domain) -> Domain:
    return _arithmetic("where", max)(first, second).with_shape(_broadcast("where", (condition, first, second)))


def _elementwise(
    name: str, infer: Callable[..., Domain], symbol: str = "", degree: Callable[..., Any] = _no_polynomial
) -> Op:
    return Op(name, of_numpy(name), infer, symbol, degree=degree)


def _scalar(
    function: ScalarFunction, name: str = "", infer: Callable[..., Domain] | None = None, symbol: str = ""
) -> Op:
    """The op of a scalar function."""
    name, exponent = name or function.name, function.exponent or 0.5
    is_polynomial = exponent > 0 and exponent == int(exponent)
    degree = (lambda degrees: int(exponent) * degrees[0]) if is_polynomial else _no_polynomial
    return Op(name, function.array, infer or _real(name), symbol, scalar=function, degree=degree)


exp, log, log1p, expm1, sqrt, square, sin, cos, tan, tanh, floor, softplus = map(
    _scalar, (f.EXP, f.LOG, f.LOG1P, f.EXPM1, f.SQRT, f.SQUARE, f.SIN, f.COS, f.TAN, f.TANH, f.FLOOR, f.SOFTPLUS)
)
sigmoid = _scalar(f.LOGISTIC, "sigmoid")
absolute = _scalar(f.ABS, "absolute", _arithmetic("absolute", None))
maximum = _scalar(f.MAXIMUM, "maximum", _arithmetic("maximum", max))
minimum = _scalar(f.MINIMUM, "minimum", _arithmetic("minimum", min))
power = _scalar(f.POWER, "power", _arithmetic("power", None), "**")

negative = _elementwise("negative", _arithmetic("negative", None), "-", max)
logaddexp = _elementwise("logaddexp", _real("logaddexp"))

add = _elementwise("add", _arithmetic("add", lambda n, m: n + m - 1), "+", max)
subtract = _elementwise("subtract", _arithmetic("subtract", None), "-", max)
multiply = _elementwise("multiply", _arithmetic("multiply", lambda n, m: (n - 1) * (m - 1) + 1), "*", sum)
divide = _elementwise("divide", _real("divide"), "/", _degree_of_quotient)
floor_divide = _elementwise("floor_divide", _arithmetic("floor_divide", lambda n, m: n), "//")
remainder = _elementwise("remainder", _arithmetic("remainder", lambda n, m: min(n, max(m - 1, 1))), "%")

equal = _elementwise("equal", _truth("equal"), "==")
not_equal = _elementwise("not_equal", _truth("not_equal"), "!=")
less = _elementwise("less", _truth("less"), "<")
less_equal = _elementwise("less_equal", _truth("less_equal"), "<=")
greater = _elementwise("greater", _truth("greater"), ">")
greater_equal = _elementwise("greater_equal", _truth("greater_equal"), ">=")
logical_and = _elementwise("logical_and", _truth("logical_and"), "&")
logical_or = _elementwise("logical_or", _truth("logical_or"), "|")
logical_not = _elementwise("logical_not", _truth("logical_not"), "~")
where = _elementwise("where", _choice, degree=_degree_of_choice)

# The unit of each associative op: op(unit, x) = x. What an empty reduction gives.
UNITS: dict[Op, float | bool] = {
    add: 0,
    multiply: 1,
    maximum: -math.inf,
    minimum: math.inf,
    logaddexp: -math.inf,
    logical_and: True,
    logical_or: False,
}


def reduction(op: Op) -> Callable[..., Any]:
    """The numerics that fold an associative op over one axis: `fold(xp, array, axis)`."""
    if op is logaddexp:
        return _logsumexp
    names = {add: "sum", multiply: "prod", maximum: "max", minimum: "min", logical_and: "all", logical_or: "any"}
    if op not in names:
        raise DomainError(f"a reduction by {op}", expected=f"one of {', '.join(map(repr, UNITS))}")

    def fold(xp: Any, array: Data, axis: int) -> Data:
        return getattr(xp, names[op])(array, axis=axis)

    return fold


def _logsumexp(xp: Any, array: Data, axis: int) -> Data:
    top = xp.max(array, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.sum(xp.exp(array - top), axis=axis)
    zero = total == 0
    return xp.where(zero, -xp.inf, xp.log(xp.where(zero, 1.0, total))) + xp.squeeze(top, axis)


def _shaped(function: Callable[..., Any]) -> Callable[..., Domain]:
    """The typing rule of an arbitrary JAX function: trace it on abstract arrays.

    One that `reads_arguments_alone`, so that no captured array can change, is traced once for the same domains.
    """

    def infer(*domains: Domain) -> Domain:
        kinds = [jnp.result_type(int if domain.is_discrete else float) for domain in domains]
        given = [jax.ShapeDtypeStruct(domain.shape, kind) for domain, kind in zip(domains, kinds, strict=True)]
        try:
            result = jax.eval_shape(with_own_arrays(function), *given)
        except (TypeError, ValueError) as error:
            name = getattr(function, "__name__", "the function")
            asked = f"{name} of {', '.join(map(repr, domains))}"
            raise DomainError(asked, expected=str(error).splitlines()[0]) from error
        if not isinstance(result, jax.ShapeDtypeStruct):
            asked = f"{getattr(function, '__name__', 'the function')} as an op"
            raise DomainError(asked, expected="a function that returns one array", nearest=f"it returns {result!r}")
        if jnp.issubdtype(result.dtype, jnp.floating):
            return Real.with_shape(result.shape)
        return (Bint[2] if result.dtype == jnp.bool_ else Integer).with_shape(result.shape)

    return lru_cache(maxsize=64)(infer) if getattr(function, "reads_arguments_alone", False) else infer


@dataclass(frozen=True)
class Lifted:
    """A JAX function as the numerics of an op: NumPy data go through double precision and come back as NumPy.

    One that is `compiled` has been passed to `jax.jit`, and knows no interpretation.
    """

    function: Callable[..., Any]
    compiled: bool = False

    def __call__(self, xp: Any, *arrays: Data) -> Data:
        if any(map(is_jax, arrays)):
            return self._run(tuple(map(jnp.asarray, arrays)))  # NumPy's would be refused where they are traced
        with double_precision(), jax.ensure_compile_time_eval(), uninterpreted() if self.compiled else nullcontext():
            result = self._run(tuple(map(jnp.asarray, arrays)))
        if isinstance(result, Tracer):  # the function closes over a tracer, which decides the engine too
            return self._run(tuple(map(jnp.asarray, arrays)))
        return np.asarray(result)

    def _run(self, arrays: tuple[Data, ...]) -> Data:
        """Its numbers; compiled where it reads a NumPy array, of an object say, that JAX saw in the other precision."""
        function = with_own_arrays(self.function)
        try:
            return function(*arrays)
        except jax.errors.JaxRuntimeError as error:
            if "INVALID_ARGUMENT" not in str(error):
                raise
            return jax.jit(function)(*arrays)


def at_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its arrays captured anew at each call: what is mapped or differentiated before it is run."""

    def run(*args: Data) -> Data:
        return with_own_arrays(function)(*args)

    return run


def lift(function: Callable[..., Any]) -> Op:
    """Any JAX function as an op on Values: written for one sample, mapped over named axes.

    >>> lift(jnp.tanh)
    tanh
    """
    name = getattr(function, "__name__", type(function).__name__)
    return Op(name, Lifted(function), _shaped(function), elementwise=False)
