"""Known numbers through an equation: with NumPy where it is plain, since a dispatch by JAX costs a compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import double_precision, is_key
from fubini.base.scalar_functions import FUNCTIONS

Fold = Callable[..., Any]


def _broadcast(params: dict, a: np.ndarray, *_: Any) -> np.ndarray:
    spread = np.ones(len(params["shape"]), int)
    spread[list(params["broadcast_dimensions"])] = a.shape
    return np.broadcast_to(a.reshape(spread), params["shape"])


def _slice(params: dict, a: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * a.ndim
    spans = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return a[tuple(slice(*span) for span in spans)]


def _is_cut(a: np.ndarray, params: dict) -> bool:
    """From real to whole numbers, which NumPy and JAX do not do alike beyond their range."""
    return a.dtype.kind == "f" and np.dtype(params["new_dtype"]).kind in "iu"


FOLDS: dict[str, Fold] = {
    "add": lambda params, a, b: a + b,
    "sub": lambda params, a, b: a - b,
    "mul": lambda params, a, b: a * b,
    "neg": lambda params, a: -a,
    "integer_pow": lambda params, a: a ** float(params["y"]) if a.dtype.kind == "f" else None,
    "lt": lambda params, a, b: a < b,
    "le": lambda params, a, b: a <= b,
    "gt": lambda params, a, b: a > b,
    "ge": lambda params, a, b: a >= b,
    "eq": lambda params, a, b: a == b,
    "ne": lambda params, a, b: a != b,
    "and": lambda params, a, b: a & b,
    "or": lambda params, a, b: a | b,
    "not": lambda params, a: ~a,
    "select_n": lambda params, test, *cases: np.where(test, *cases[::-1]) if len(cases) == 2 else None,
    "convert_element_type": lambda params, a: None if _is_cut(a, params) else a.astype(params["new_dtype"]),
    "stop_gradient": lambda params, a: a,
    "copy": lambda params, a: a,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "transpose": lambda params, a: np.transpose(a, params["permutation"]),
    "squeeze": lambda params, a: np.squeeze(a, tuple(params["dimensions"])),
    "rev": lambda params, a: np.flip(a, params["dimensions"]),
    "reduce_sum": lambda params, a: a.sum(tuple(params["axes"])),
    "reduce_max": lambda params, a: a.max(tuple(params["axes"])),
    "reduce_min": lambda params, a: a.min(tuple(params["axes"])),
    "reduce_and": lambda params, a: a.all(tuple(params["axes"])),
    "reduce_or": lambda params, a: a.any(tuple(params["axes"])),
    "concatenate": lambda params, *parts: np.concatenate(parts, params["dimension"]),
}


def folded(equation: Any, numbers: list[np.ndarray]) -> list[np.ndarray]:
    """The results of an equation over known numbers."""
    name, params = equation.primitive.name, equation.params
    result = None
    with np.errstate(all="ignore"):
        if any(map(is_key, numbers)):
            pass
        elif name in FOLDS:
            result = FOLDS[name](params, *numbers)
        elif name in FUNCTIONS and all(array.dtype.kind in "biuf" for array in numbers):
            result = FUNCTIONS[name].array(np, *numbers)
        elif name == "div" and numbers[0].dtype.kind == "f":
            result = numbers[0] / numbers[1]
        elif name == "reshape" and params.get("dimensions") is None:
            result = numbers[0].reshape(params["new_sizes"])
    if result is not None:
        return [np.asarray(result).astype(equation.outvars[0].aval.dtype, copy=False)]
    with double_precision(), jax.ensure_compile_time_eval():  # numbers keep the types that they were traced in
        result = equation.primitive.bind(*numbers, **params)
    several = result if equation.primitive.multiple_results else [result]
    return [one if is_key(one) else np.asarray(one) for one in several]
