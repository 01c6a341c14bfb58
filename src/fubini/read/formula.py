"""Array programs as formulas on whole arrays: `X @ w + b`, in given names. What has no plain formula is an ellipsis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Literal

from fubini.base.arrays import is_key, is_traced
from fubini.base.distant import distant
from fubini.base.jaxprs import inner_program
from fubini.base.scalar_functions import FUNCTIONS
from fubini.read.fold import folded
from fubini.show.notation import Call, Infix, Notation, Subscript, Symbol
from fubini.show.styles import text
from fubini.terms.numbers import shown_array, shown_number

UNKNOWN = Symbol("…")
OF_JAX_NN = {"softmax", "log_softmax", "logsumexp", "softplus", "relu"}  # written by name
INFIX = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "pow": "**", "and": "&", "or": "|"}
INFIX |= {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
REDUCTIONS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod"}


class Part(NamedTuple):
    """An array of a program: how it is written, and its numbers where they are known."""

    notation: Notation
    numbers: np.ndarray | None = None
    is_named: bool = False  # written by names, not as numbers


class Formulas:
    """The arrays of one program; constants that are equal to an array with a name go by it."""

    def __init__(self, named: Iterable[tuple[str, np.ndarray]]) -> None:
        self.names: dict[tuple, str] = {}
        for name, array in named:
            self.names.setdefault(_content(array), name)

    def known(self, leaf: Any) -> Part:
        """A constant; a tracer or a key is one that is not known."""
        if is_traced(leaf) or is_key(leaf):
            return Part(UNKNOWN)
        if (record := distant(leaf)) is not None:
            return Part(Symbol(repr(record)))
        array = np.asarray(leaf)
        if array.size == 1:
            return Part(Symbol(shown_number(array.item())), array)
        name = self.names.get(_content(array))
        return Part(Symbol(name or shown_array(array)), array, name is not None)

    def read(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Part]) -> list[Part]:
        """The results of a program over these inputs."""
        scope = dict(zip(jaxpr.invars, inputs, strict=True))
        scope.update((var, self.known(value)) for var, value in zip(jaxpr.constvars, consts, strict=True))

        def operand(var: Any) -> Part:
            return self.known(var.val) if isinstance(var, Literal) else scope[var]

        for equation in jaxpr.eqns:
            results = self.equation(equation, [operand(var) for var in equation.invars])
            scope.update(zip(equation.outvars, results, strict=True))
        return [operand(var) for var in jaxpr.outvars]

    def equation(self, equation: Any, operands: list[Part]) -> list[Part]:
        """The results of one operation."""
        params = equation.params
        if (inner := inner_program(equation)) is not None:
            if params.get("name") in OF_JAX_NN and len(operands) == 1 and operands[0].numbers is None:
                return [Part(Call(params["name"], (operands[0].notation,)))]
            return self.read(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands)
        if operands and all(part.numbers is not None for part in operands):
            return self._computed(equation, operands)
        return [Part(_written(equation, [part.notation for part in operands]))] * len(equation.outvars)

    def _computed(self, equation: Any, operands: list[Part]) -> list[Part]:
        """Known numbers, as a formula of the names that they are computed from where it has one."""
        results = [self.known(one) for one in folded(equation, [part.numbers for part in operands])]  # type: ignore[misc]
        if len(results) > 1 or results[0].is_named or not any(part.is_named for part in operands):
            return results
        formula = _written(equation, [part.notation for part in operands])
        return results if formula == UNKNOWN else [Part(formula, results[0].numbers, True)]


def _content(array: np.ndarray) -> tuple:
    """What distinguishes numbers, whatever their precision and axes of one entry."""
    shape = tuple(size for size in array.shape if size != 1)
    kinds = {"f": np.float32, "i": np.int64, "u": np.int64}
    return shape, np.ascontiguousarray(array, kinds.get(array.dtype.kind, array.dtype)).tobytes()


# -- operations -----------------------------------------------------------------------------------------------------


def _written(equation: Any, args: list[Notation]) -> Notation:
    """One operation on arrays that are not all known."""
    name = equation.primitive.name
    if UNKNOWN in args:
        return UNKNOWN
    if name in INFIX:
        return Infix(INFIX[name], tuple(args))
    if name in FUNCTIONS and FUNCTIONS[name].formula:
        return Call(FUNCTIONS[name].formula, tuple(args))
    if name in REDUCTIONS:
        whole = not equation.outvars[0].aval.shape
        axes = equation.params["axes"]
        axis = (("axis", Symbol(str(axes[0] if len(axes) == 1 else tuple(axes)))),)
        return Call(REDUCTIONS[name], tuple(args), () if whole else axis)
    return WRITTEN[name](equation, *args) if name in WRITTEN else UNKNOWN


def _shape(equation: Any) -> tuple[int, ...]:
    return equation.invars[0].aval.shape


def _same(equation: Any, x: Notation) -> Notation:
    return x


def _converted(equation: Any, x: Notation) -> Notation:
    """To a kind that holds all its values, or from whole numbers to whole ones; others round."""
    before, after = (np.dtype(var.aval.dtype) for var in (equation.invars[0], equation.outvars[0]))
    holds = after.kind == "f" or np.can_cast(before, after) or (before.kind in "iu" and after.kind in "iu")
    return x if holds else UNKNOWN


def _axes(equation: Any, x: Notation) -> Notation:
    """Axes of one entry, before the others as NumPy would add them, or written as x[:, None]."""
    new = equation.outvars[0].aval.shape
    old = tuple(size for size in _shape(equation) if size != 1)
    if not old:
        return x
    kept = equation.params.get("broadcast_dimensions")
    at = [axis for axis, size in enumerate(new) if size != 1] if kept is None else list(kept)
    if kept is None and tuple(size for size in new if size != 1) != old:
        return UNKNOWN
    if at == list(range(len(new) - len(at), len(new))):
        return x
    return Subscript(x, tuple(Symbol(":" if axis in at else "None") for axis in range(at[0], len(new))))


def _divided(equation: Any, x: Notation, y: Notation) -> Notation:
    """x / y; exp(x − max x) / Σ exp(x − max x) is softmax(x)."""
    if np.dtype(equation.outvars[0].aval.dtype).kind != "f":
        return UNKNOWN
    match x, y:
        case Call("exp", (Infix("-", (inner, _)),)), Call("sum", (total,)) if total == x:
            return Call("softmax", (inner,))
    return Infix("/", (x, y))


def _negative(equation: Any, x: Notation) -> Notation:
    return Infix("-", (x,))


def _power(equation: Any, x: Notation) -> Notation:
    return Infix("**", (x, Symbol(str(equation.params.get("y", 2)))))


def _where(equation: Any, test: Notation, *cases: Notation) -> Notation:
    """where(test, a, b); an index that counts from the end where it is negative is written as it is."""
    match test, cases:
        case Infix("<", (i, Symbol("0"))), (first, Infix("+", (second, _))) if i == first == second:
            return i
    return Call("where", (test, cases[1], cases[0])) if len(cases) == 2 else UNKNOWN


def _entry(equation: Any, array: Notation, position: Notation) -> Notation:
    """array[i, j, …], along the first axes."""
    numbers, sizes = equation.params["dimension_numbers"], tuple(equation.params["slice_sizes"])
    match position:
        case Call("column_stack", columns):
            at = columns
        case _:
            at = (position,)
    along = tuple(range(len(at)))
    first = tuple(numbers.start_index_map) == tuple(numbers.collapsed_slice_dims) == along
    plain = first and sizes == (*(1 for _ in at), *_shape(equation)[len(at) :]) and not numbers.operand_batching_dims
    return Subscript(array, tuple(map(_without_axis, at))) if plain else UNKNOWN


def _columns(equation: Any, *parts: Notation) -> Notation:
    """Positions along several axes, side by side: the form in which `gather` takes them."""
    shapes = [var.aval.shape for var in equation.invars]
    plain = equation.params["dimension"] == 1 and all(len(shape) == 2 and shape[1] == 1 for shape in shapes)
    return Call("column_stack", tuple(map(_without_axis, parts))) if plain else UNKNOWN


def _without_axis(position: Notation) -> Notation:
    """i for i[:, None], the form in which `gather` takes positions."""
    match position:
        case Subscript(base, (*colons, Symbol("None"))) if all(colon == Symbol(":") for colon in colons):
            return base
    return position


def _product(equation: Any, a: Notation, b: Notation) -> Notation:
    (left, right), (batch, _) = equation.params["dimension_numbers"]
    last = tuple(left) == (len(_shape(equation)) - 1,) and tuple(right) == (0,)
    return Infix("@", (a, b)) if last and not batch and equation.invars[1].aval.ndim <= 2 else UNKNOWN


def _slice(equation: Any, array: Notation) -> Notation:
    params = equation.params
    spans = list(zip(params["start_indices"], params["limit_indices"], _shape(equation), strict=True))
    while spans and spans[-1][:2] == (0, spans[-1][2]):
        spans.pop()
    shown = [str(low) if high == low + 1 else f"{low}:{high}" for low, high, _ in spans]
    return UNKNOWN if params["strides"] else Subscript(array, tuple(map(Symbol, shown))) if shown else array


def _dynamic_slice(equation: Any, array: Notation, *starts: Notation) -> Notation:
    """array[start], along the first axis."""
    whole = tuple(equation.params["slice_sizes"]) == (1, *_shape(equation)[1:])
    return Subscript(array, starts[:1]) if whole else UNKNOWN


def _stack(equation: Any, *parts: Notation) -> Notation:
    plain = equation.outvars[0].aval.ndim == 1
    return Symbol(f"[{', '.join(map(text, parts))}]") if plain else UNKNOWN


WRITTEN: dict[str, Callable[..., Notation]] = {
    **dict.fromkeys(("copy", "stop_gradient", "copy_p"), _same),
    **dict.fromkeys(("broadcast_in_dim", "reshape", "squeeze", "expand_dims"), _axes),
    "convert_element_type": _converted,
    "div": _divided,
    "neg": _negative,
    "integer_pow": _power,
    "square": _power,
    "select_n": _where,
    "gather": _entry,
    "concatenate": _columns,
    "dot_general": _product,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "stack": _stack,
}
