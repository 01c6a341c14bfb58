"""The degree of a Value as a polynomial in some of its variables: 0, 1, 2 …, or infinity where it is not one.

Decided from structure: ops by what they say of it, binders by what they are linear in, lifted functions by their jaxpr.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from fubini.base import ops
from fubini.base.arrays import is_traced
from fubini.base.domains import Domain
from fubini.base.jaxprs import scan_counts
from fubini.base.names import Name
from fubini.base.ops import Lifted, Op
from fubini.base.own_arrays import with_own_arrays
from fubini.terms.value import Apply, Array, Value, Variable

Degree = float  # a whole number or infinity


def degree(value: Value, names: Collection[Name]) -> Degree:
    """The total degree of the value in the names given.

    >>> from fubini.base.domains import Real
    >>> x, y = Variable("x", Real), Variable("y", Real)
    >>> degree(2.0 * x + 1.0 - y, {"x", "y"}), degree(x * y, {"x", "y"}), degree(ops.exp(x), {"x"})
    (1, 2, inf)
    """
    memo: dict[int, Degree] = {}

    def visit(term: Value) -> Degree:
        if not any(name in term.inputs for name in names):
            return 0
        if id(term) not in memo:
            memo[id(term)] = _of_node(term, [visit(child) for child in term.value_children])
        return memo[id(term)]

    return visit(value)


def _of_node(term: Value, degrees: list[Degree]) -> Degree:
    if isinstance(term, Variable):
        return 1
    if isinstance(term, Apply):
        return _of_op(term, degrees)
    linear = term.linear_children
    rest = [degree for position, degree in enumerate(degrees) if position not in linear]
    return math.inf if any(rest) else max((degrees[position] for position in linear), default=math.inf)


def _of_op(term: Apply, degrees: list[Degree]) -> Degree:
    op, args = term.op, term.args
    if isinstance(op.function, Lifted):
        return _of_lifted(op, tuple(arg.output for arg in args), tuple(degrees))
    if op is ops.power:
        return _of_power(args[1], degrees)
    return op.degree(degrees)


def _of_power(exponent: Value, degrees: list[Degree]) -> Degree:
    if degrees[1] or not isinstance(exponent, Array) or exponent.inputs or is_traced(exponent.array):
        return math.inf
    times = np.unique(np.asarray(exponent.array))
    whole = len(times) == 1 and times[0] >= 0 and times[0] == int(times[0])
    return degrees[0] * int(times[0]) if whole else math.inf


# -- lifted functions -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _of_lifted(op: Op, domains: tuple[Domain, ...], degrees: tuple[Degree, ...]) -> Degree:
    kinds = [jnp.result_type(int if domain.is_discrete else float) for domain in domains]
    given = [jax.ShapeDtypeStruct(domain.shape, kind) for domain, kind in zip(domains, kinds, strict=True)]
    closed = jax.make_jaxpr(with_own_arrays(op.function.function))(*given)  # type: ignore[union-attr]
    return max(_of_jaxpr(closed.jaxpr, degrees), default=0)


def _of_jaxpr(jaxpr: Jaxpr, degrees: Sequence[Degree]) -> list[Degree]:
    known: dict[Any, Degree] = dict(zip(jaxpr.invars, degrees, strict=True))

    def read(atom: Any) -> Degree:
        return 0 if isinstance(atom, Literal) else known.get(atom, 0)

    for equation in jaxpr.eqns:
        given: list[Degree] = [0] if _asks_if_finite(equation) else [read(atom) for atom in equation.invars]
        results = _of_equation(equation.primitive.name, equation.params, given)
        known.update(zip(equation.outvars, results * len(equation.outvars), strict=False))  # one for all, or one each
    return [read(atom) for atom in jaxpr.outvars]


_LINEAR = frozenset(
    (
        *("copy", "copy_p", "reduce_sum", "cumsum", "real", "reduce_precision"),
        *("reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "rev", "pad"),
        *("slice", "split", "concatenate", "stack", "dynamic_update_slice"),
    )
)
_BILINEAR = frozenset(("dot_general", "conv_general_dilated"))
_LINEAR_IN_FIRST = frozenset(("gather", "dynamic_slice"))

# Primitives that are ops.
_OPS = {
    **{"add": ops.add, "add_any": ops.add, "sub": ops.subtract, "neg": ops.negative, "mul": ops.multiply},
    **{"div": ops.divide, "select_n": ops.where, "square": ops.square},
}


def _of_scan(params: Mapping[str, Any], given: list[Degree]) -> list[Degree]:
    """The degrees of a loop: those of its state until they no longer grow."""
    start, carry = scan_counts(params)
    end = start + carry
    results: list[Degree] = []
    for _ in range(4):
        results = _of_jaxpr(params["jaxpr"].jaxpr, given)
        state = list(map(max, given[start:end], results))
        if state == given[start:end]:
            return results
        given = [*given[:start], *state, *given[end:]]
    return [math.inf] * len(results)


def _asks_if_finite(equation: Any) -> bool:
    """x == x or x != ±inf, which a check of real numbers asks: true of all of them."""
    name = equation.primitive.name
    if name not in ("eq", "ne"):
        return False
    first, second = equation.invars
    if name == "eq":
        return first is second
    return isinstance(second, Literal) and bool(np.all(np.isinf(second.val)))


# A function with a derivative of its own is not among them: what it computes need not be what it differentiates to.
_CALLS = frozenset(("pjit", "jit", "closed_call", "core_call", "remat", "checkpoint"))


def _of_equation(name: str, params: Mapping[str, Any], given: list[Degree]) -> list[Degree]:
    if not any(given):
        return [0]
    inner = _inner(params) if name in _CALLS else None
    if inner is not None and len(inner.invars) == len(given):
        return _of_jaxpr(inner, given)
    if name == "scan":
        return _of_scan(params, given)
    if name == "convert_element_type":
        return [given[0] if jnp.issubdtype(params["new_dtype"], jnp.floating) else math.inf]
    if name in _OPS:
        return [_OPS[name].degree(given)]
    if name in _LINEAR:
        return [max(given)]
    if name in _BILINEAR:
        return [sum(given)]
    if name in _LINEAR_IN_FIRST:
        return [math.inf if any(given[1:]) else given[0]]
    if name in ("scatter", "scatter-add"):
        return [math.inf if given[1] else max(given[0], given[2])]
    if name == "integer_pow" and params["y"] >= 0:
        return [params["y"] * given[0]]
    if name == "triangular_solve":
        return [math.inf if given[0] else given[1]]
    return [math.inf]


def _inner(params: Mapping[str, Any]) -> Jaxpr | None:
    """The body of a call: `jit`, a function with its own derivative, a checkpoint."""
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        body = params.get(key)
        if isinstance(body, (Jaxpr, ClosedJaxpr)):
            return body.jaxpr if isinstance(body, ClosedJaxpr) else body
    return None
