"""A program made to run: compiled once in memory and on disk, with room for its statistics."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from copy import copy
from types import ModuleType
from typing import Any

import numpy as np

from fubini.algebra.node import Leaf
from fubini.compile.array_names import Evaluate
from fubini.compile.difference import Derived
from fubini.compile.program import Program
from fubini.engines.code_cache import loaded
from fubini.errors import DataError, DomainError, listed

ENGINES = ("numba", "python")


def require_engine(name: str) -> None:
    """Raise unless the engine is known."""
    if name not in ENGINES:
        raise DomainError(f"engine={name!r}", expected=f"one of {listed(ENGINES)}")


def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a user's function."""
    import numba

    return function if hasattr(function, "py_func") else numba.njit(function)


def interpreted(source: str) -> ModuleType:
    """Return the functions of a source as plain Python: the same, and slower."""
    module = ModuleType("loops")
    plain = source.replace("from numba import njit", "def njit(*args, **options): return lambda function: function")
    module.__dict__["divided"] = np.divide  # as compiled: infinite where the divisor is 0
    tree = ast.fix_missing_locations(_Divisions().visit(ast.parse(plain)))
    exec(compile(tree, "loops", "exec"), module.__dict__)
    return module


class _Divisions(ast.NodeTransformer):
    """a / b as divided(a, b)"""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        return ast.Call(ast.Name("divided", ast.Load()), [node.left, node.right], [])


class Machine:
    """Sweeps of a program, on arrays of its own."""

    def __init__(
        self,
        program: Program,
        empty: Callable[[Derived, Mapping[Leaf, np.ndarray]], np.ndarray],
        engine: str = "numba",
        proposal: Callable[..., Any] | None = None,
    ) -> None:
        self.program, self.proposal, self.engine = program, proposal, engine
        if proposal is not None and engine == "numba":
            self.proposal = jitted(proposal)
        self.functions = loaded(program.source) if engine == "numba" else interpreted(program.source)
        self.empty = empty  # the value of what is derived, at given statistics and latents
        self.arrays: dict[str, np.ndarray] = dict(program.numbers)
        for name, (leaf, order) in program.states.items():
            kind = np.int32 if name in program.counts and engine == "numba" else float  # half of what a sweep reads
            self.arrays[name] = np.zeros([leaf.shape[axis] for axis in order], kind)
        for name, leaf in program.latents.items():
            self.arrays[name] = np.zeros(leaf.shape, np.int64 if leaf.is_integer else float)

    def twin(self) -> Machine:
        """The same loops on arrays of their own, for another thread."""
        new = copy(self)
        new.arrays = {name: array.copy() for name, array in self.arrays.items()}
        return new

    def refill(self, evaluate: Evaluate) -> None:
        """Compute every array that the data decide anew, for other data."""
        for recipe in self.program.recipes:
            self.arrays.update(recipe(evaluate))

    def set(self, values: Mapping[str, np.ndarray]) -> None:
        """Set latents to these values, and compute their statistics."""
        for name, leaf in self.program.latents.items():
            self.arrays[name][...] = values[leaf.name]
        self.restart()

    def restart(self) -> None:
        """Compute the statistics anew, without the rounding that added up."""
        latents = {leaf: self.arrays[name] for name, leaf in self.program.latents.items()}
        for name, (_, _) in self.program.states.items():
            self.arrays[name][...] = 0.0
        if self.program.derives_last:
            self._call("start", np.empty(0), np.empty(0, np.int64))
        derived = self.program.derived
        states = {leaf: self._plain(name) for name, (leaf, _) in self.program.states.items()} if derived else {}
        for one in derived:
            name = next((name for name, (leaf, _) in self.program.states.items() if leaf is one.leaf), None)
            if name is not None:
                none = {leaf: np.zeros(leaf.shape) for leaf in one.value.leaves if leaf.role == "state"}
                value = np.broadcast_to(self.empty(one, {**none, **latents, **states}), one.leaf.shape)
                self.arrays[name][...] = np.transpose(value, self.program.states[name][1])
                states[one.leaf] = self._plain(name)
        if not self.program.derives_last:
            self._call("start", np.empty(0), np.empty(0, np.int64))

    def _plain(self, name: str) -> np.ndarray:
        """Transpose statistics to the order of axes of their leaf; counts become floating-point numbers."""
        order, array = self.program.states[name][1], np.asarray(self.arrays[name], float)
        return np.transpose(array, np.argsort(order)) if order else array

    def sweep(self, label: str, uniforms: np.ndarray, items: np.ndarray) -> None:
        """Draw some entries of a label, one after another, each from one uniform number."""
        failed = self._call(f"sweep_{self.program.labels[label]}", uniforms, items)
        if failed < 0:
            raise DataError(
                f"a proposal for {label!r} at entry {int(items[-failed - 1])}",
                expected="one of the candidates, counted from 0",
            )
        if failed:
            raise DataError(
                f"the conditional of {label!r} at entry {int(items[failed - 1])}",
                expected="a candidate of positive weight, and weights that are finite",
                nearest="all candidates have weight 0, or one is infinite or not a number",
                advice="check the data, and give proper priors: a class without items has no density else",
            )

    def weights(self, size: int) -> np.ndarray:
        """Return the normalised weights of the candidates at the entry that was last drawn."""
        weights = self.arrays["w"][:size]
        return weights / weights.sum()

    def uniforms(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Draw the uniform numbers of so many updates."""
        return generator.random(self.program.uniforms * count)

    def values(self, label: str) -> np.ndarray:
        """The present entries, counted from 0."""
        return self.arrays[self.program.labels[label]]

    def _call(self, name: str, uniforms: np.ndarray, items: np.ndarray) -> Any:
        given = {"propose": self.proposal, "uniforms": uniforms, "items": items, **self.arrays}
        with np.errstate(all="ignore"):  # as compiled: what overflows is detected by the sum of the weights
            return getattr(self.functions, name)(*(given[argument] for argument in self.program.arguments))
