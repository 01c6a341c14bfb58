"""Functions of single numbers that have no algebra here: no integral goes through them, but entries stay entries."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.algebra.node import Node, node
from fubini.base.arrays import double_precision
from fubini.read.symbolic_array import SymbolicArray

# Primitives that compute each entry from those in its place.
ELEMENTWISE = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "sign", "square", "integer_pow", "pow", "div", "rem", "max", "min"),
        *("and", "or", "not", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic", "eq", "ne"),
        *("convert_element_type", "population_count", "clz", "sqrt", "exp", "log", "logistic"),
        *("log1p", "expm1", "rsqrt", "tanh", "sin", "cos", "erf", "lgamma", "digamma"),
    )
)


class Primitive:
    """A primitive of JAX at numbers, in the types that it was traced in."""

    def __init__(self, equation: Any) -> None:
        self.bind, self.params, self.name = equation.primitive.bind, equation.params, equation.primitive.name
        self.kinds = tuple(np.dtype(var.aval.dtype) for var in equation.invars)
        self.is_whole = np.dtype(equation.outvars[0].aval.dtype).kind in "biu"
        self._key = (self.name, str(self.params), self.kinds)

    def __call__(self, *arrays: Any) -> Any:
        if all(kind.kind == "f" and kind.itemsize >= 4 for kind in self.kinds):  # in the precision in force
            return self.bind(*jnp.broadcast_arrays(*(jnp.asarray(array, float) for array in arrays)), **self.params)
        with double_precision():  # the precision that it was traced in
            given = (jnp.asarray(array).astype(kind) for array, kind in zip(arrays, self.kinds, strict=True))
            result = self.bind(*jnp.broadcast_arrays(*given), **self.params)
        return result.astype(jnp.result_type(float))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Primitive) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return self.name


def by_entry(equation: Any, operands: list[SymbolicArray]) -> SymbolicArray | None:
    """The result of a primitive entry by entry; None where it is no function of single entries."""
    if equation.primitive.name not in ELEMENTWISE:
        return None
    function = Primitive(equation)

    def at(*where: Node) -> Node:
        return node("call", function, *(part.at(*where[len(where) - part.rank :]) for part in operands))

    return SymbolicArray(equation.outvars[0].aval.shape, at)
