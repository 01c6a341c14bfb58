"""Programs that JAX traced, run on NumPy: an answer that is asked for once comes before a compiler is done.

The numbers are those of the compiled program up to rounding, random ones too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from fubini.base.distant import is_distant
from fubini.base.jaxprs import inner_program, scan_counts
from fubini.base.sharded_array import sharding_on_mesh
from fubini.engines import host_random as random
from fubini.engines.host_functions import FUNCTIONS, Function
from fubini.engines.host_indexing import dynamic_slice, dynamic_update_slice, gather, scatter, scatter_add
from fubini.engines.host_keys import key_numbers

MOST_WORK = 3e8  # operations on numbers: some half a second
MOST_STEPS = 40_000  # calls of NumPy
MOST_KINDS = 64  # of arguments, for one function
TURNS = 16  # of a loop whose length the numbers decide
WORK = {"random_bits": 100, "random_split": 100, "random_fold_in": 100, "random_gamma": 1000, "sort": 20, "gather": 5}
WORK |= dict.fromkeys(
    ("erf_inv", "lgamma", "digamma", "log", "exp", "log1p", "expm1", "pow", "tanh", "scatter-add"), 10
)
WORK |= dict.fromkeys(("igamma", "igammac", "regularized_incomplete_beta", "polygamma", "zeta"), 200)
KEYS = "key<fry>"  # the type of a key of threefry

_INDEXED: dict[str, Function] = {
    "gather": gather,
    "scatter": scatter,
    "scatter-add": scatter_add,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
}
_RANDOM: dict[str, Function] = {
    "random_seed": lambda x, **_: random.seed(x),
    "random_wrap": lambda x, **_: random.joined(x),
    "random_unwrap": lambda x, **_: random.separated(x),
    "random_clone": lambda x, **_: x,
    "random_split": lambda x, *, shape, **_: random.split(x, tuple(shape)),
    "random_fold_in": lambda x, data, **_: random.fold_in(x, data),
    "random_bits": lambda x, *, bit_width, shape, **_: (random.bits64 if bit_width == 64 else random.bits32)(
        x, tuple(shape)
    ),
    "random_gamma": lambda x, a, *, log_space, **_: random.gamma(x, a, log_space),
}
_FUNCTIONS: dict[str, Function] = {**FUNCTIONS, **_INDEXED, **_RANDOM}


class Unsupported(Exception):
    """A program that NumPy does not run, or not soon."""


class HostPrograms:
    """The programs of a function that JAX compiles, one for each kind of arguments."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self._kept: dict[Any, HostProgram | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The answer, by NumPy where that is soon done, else compiled, as it is where arrays lie on a mesh."""
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        if any(sharding_on_mesh(leaf) is not None for leaf in leaves):
            return self.compiled(*arguments)
        kind = (tree, *((np.shape(leaf), str(jax.dtypes.result_type(leaf))) for leaf in leaves))
        if kind not in self._kept:
            if len(self._kept) >= MOST_KINDS:
                self._kept.clear()
            self._kept[kind] = self._program(*arguments)
        program = self._kept[kind]
        if program is None or any(read and is_distant(leaf) for leaf, read in zip(leaves, program.reads, strict=True)):
            return self.compiled(*arguments)
        return program(*arguments)

    def _program(self, *arguments: Any) -> HostProgram | None:
        try:
            return HostProgram(self.compiled.trace(*arguments))
        except Unsupported:
            return None


class HostProgram:
    """A traced function of arrays that runs on NumPy."""

    def __init__(self, traced: Any) -> None:
        closed = traced.jaxpr
        if closed.effects:
            raise Unsupported("effects, as printing has")
        self.structure = jax.tree_util.tree_structure(traced.out_info)
        _require_keys(closed.jaxpr)
        self.program, self.constants = closed.jaxpr, _numbers(closed.jaxpr.constvars, closed.consts)
        work, steps = _cost(self.program)
        if work > MOST_WORK or steps > MOST_STEPS:
            raise Unsupported(f"{work:.0f} operations, {steps:.0f} calls")
        inputs = {v for equation in _needed(self.program) for v in equation.invars if not hasattr(v, "val")}
        inputs |= {v for v in self.program.outvars if not hasattr(v, "val")}
        self.reads = [v in inputs for v in self.program.invars]  # which of the arguments

    def __call__(self, *arguments: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(arguments)
        given = [leaf if read else np.zeros(()) for leaf, read in zip(leaves, self.reads, strict=True)]
        with np.errstate(all="ignore"):
            results = _run(self.program, self.constants, _numbers(self.program.invars, given))
        return self.structure.unflatten([np.array(result) for result in results])  # none is an argument, or part of one


def _is_key(aval: Any) -> bool:
    return not isinstance(aval.dtype, np.dtype)


def _numbers(variables: Sequence[Any], arrays: Sequence[Any]) -> list[np.ndarray]:
    """What variables stand for, on NumPy; keys as numbers, where they are not that already."""
    return [
        key_numbers(array)
        if _is_key(v.aval) and isinstance(array, jax.Array)
        else np.asarray(array, None if _is_key(v.aval) else v.aval.dtype)
        for v, array in zip(variables, arrays, strict=True)
    ]


# -- what it takes --------------------------------------------------------------------------------------------------


def _require_keys(program: Any) -> None:
    """Refuse keys that are not of threefry, and results that are keys."""
    if any(_is_key(v.aval) for v in program.outvars):
        raise Unsupported("results that are keys")
    if any(_is_key(v.aval) and str(v.aval.dtype) != KEYS for v in (*program.constvars, *program.invars)):
        raise Unsupported("keys that are not of threefry")


def _cost(program: Any) -> tuple[float, float]:
    """Operations on numbers, and calls of NumPy, that a program takes; refused where some primitive is unknown."""
    work, steps = 0.0, 0.0
    for equation in _needed(program):
        more, calls = _cost_of(equation)
        work, steps = work + more, steps + calls
    return work, steps


def _cost_of(equation: Any) -> tuple[float, float]:
    name, given = equation.primitive.name, equation.params
    inner = inner_program(equation)
    if inner is not None:
        return _cost(_opened(inner)[0])
    if name == "scan":
        work, steps = _cost(given["jaxpr"].jaxpr)
        return work * given["length"], (steps + 2) * given["length"]
    if name == "while":
        parts = [_cost(given[part].jaxpr) for part in ("cond_jaxpr", "body_jaxpr")]
        return TURNS * sum(work for work, _ in parts), TURNS * sum(steps for _, steps in parts)
    if name == "cond":
        parts = [_cost(branch.jaxpr) for branch in given["branches"]]
        return max(work for work, _ in parts), max(steps for _, steps in parts)
    if name == "platform_index":
        return 0.0, 1.0
    if name not in _FUNCTIONS or (name in _RANDOM and not _is_threefry(equation)):
        raise Unsupported(name)
    avals = [v.aval for v in (*equation.invars, *equation.outvars)]
    if any(np.issubdtype(a.dtype, np.complexfloating) for a in avals if not _is_key(a)):
        raise Unsupported(name)
    size = sum(math.prod(v.aval.shape) for v in equation.outvars)
    if name == "dot_general":
        (of_a, _), _ = given["dimension_numbers"]
        return size * math.prod(equation.invars[0].aval.shape[axis] for axis in of_a) / 4, 2.0
    if name in ("cholesky", "triangular_solve"):
        return size * equation.invars[0].aval.shape[-1], 10.0
    return size * WORK.get(name, 1.0), 1.0


def _is_threefry(equation: Any) -> bool:
    """Whether NumPy has the same bits: of threefry, each place by itself, in double precision."""
    if not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        return False
    keys = [v.aval for v in (*equation.invars, *equation.outvars) if _is_key(v.aval)]
    is_wide = equation.primitive.name != "random_gamma" or equation.outvars[0].aval.dtype == np.float64
    has_width = equation.params.get("bit_width", 64) in (32, 64)
    return is_wide and has_width and all(str(aval.dtype) == KEYS for aval in keys)


# -- running --------------------------------------------------------------------------------------------------------


def _opened(inner: Any) -> tuple[Any, Sequence[Any]]:
    """A program and its constants, closed over them or not."""
    return (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())


@lru_cache(maxsize=4096)
def _needed(program: Any) -> tuple[Any, ...]:
    """The equations that its results need: a compiler would leave out the others too."""
    wanted = {v for v in program.outvars if not hasattr(v, "val")}
    kept = []
    for equation in reversed(program.eqns):
        if wanted.intersection(equation.outvars):
            kept.append(equation)
            wanted.update(v for v in equation.invars if not hasattr(v, "val"))
    return tuple(reversed(kept))


def _run(program: Any, constants: Sequence[Any], given: Sequence[np.ndarray]) -> list[np.ndarray]:
    values: dict[Any, np.ndarray] = dict(zip(program.constvars, _numbers(program.constvars, constants), strict=True))
    values |= zip(program.invars, given, strict=True)

    def read(variable: Any) -> np.ndarray:
        if hasattr(variable, "val"):  # a literal
            return np.asarray(variable.val, variable.aval.dtype)
        return values[variable]

    for equation in _needed(program):
        results = _results(equation, [read(v) for v in equation.invars])
        for v, result in zip(equation.outvars, results, strict=True):
            values[v] = result if _is_key(v.aval) else np.asarray(result, v.aval.dtype)
    return [read(v) for v in program.outvars]


def _results(equation: Any, given: list[np.ndarray]) -> Sequence[np.ndarray]:
    name, params = equation.primitive.name, equation.params
    if name in _FUNCTIONS:
        result = _FUNCTIONS[name](*given, **params)
        return result if isinstance(result, tuple) else (result,)
    inner = inner_program(equation)
    if inner is not None:
        return _run(*_opened(inner), given)
    return _CONTROL[name](params, given)


def _scan(params: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    """State and constants in, state and one row of each result out, for each row"""
    program, (fixed, carried) = params["jaxpr"], scan_counts(params)
    constants, state, rows = given[:fixed], given[fixed : fixed + carried], given[fixed + carried :]
    kept: list[list[np.ndarray]] = []
    order = range(params["length"])
    for place in reversed(order) if params["reverse"] else order:
        results = _run(program.jaxpr, program.consts, [*constants, *state, *(row[place] for row in rows)])
        state = results[:carried]
        kept.append(results[carried:])
    if params["reverse"]:
        kept.reverse()
    shapes = [v.aval for v in program.jaxpr.outvars[carried:]]
    stacks = zip(*kept, strict=True) if kept else [()] * len(shapes)
    return [
        *state,
        *(
            np.stack(stack) if stack else np.zeros((0, *aval.shape), aval.dtype)
            for stack, aval in zip(stacks, shapes, strict=True)
        ),
    ]


def _while(params: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
    for_test, for_body, state = given[:of_test], given[of_test : of_test + of_body], given[of_test + of_body :]
    while (holds := _run(test.jaxpr, test.consts, [*for_test, *state])[0]).any():
        following = _run(body.jaxpr, body.consts, [*for_body, *state])
        # Of many loops side by side, those that have ended stay where they are.
        state = (
            following if holds.all() else [_where(holds, new, old) for new, old in zip(following, state, strict=True)]
        )
    return state


def _where(holds: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(holds.reshape(holds.shape + (1,) * (new.ndim - holds.ndim)), new, old)


def _cond(params: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    branches = params["branches"]
    chosen = branches[min(max(int(given[0]), 0), len(branches) - 1)]
    return _run(chosen.jaxpr, chosen.consts, given[1:])


def _platform(params: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    platforms = params["platforms"]
    return [np.asarray(next(place for place, names in enumerate(platforms) if names is None or "cpu" in names))]


_CONTROL = {"scan": _scan, "while": _while, "cond": _cond, "platform_index": _platform}
