"""A function of values and of the numbers of a model, compiled once for each precision, for one point and for many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import jax

from fubini.base.arrays import is_double_precision
from fubini.base.distant import is_distant
from fubini.engines.host_program import HostPrograms

Answer = TypeVar("Answer")


class CompiledFunction(Generic[Answer]):
    """f(*arguments, numbers), where the numbers are those of the data, the same for all points.

    What is asked for once, `on_host`, is computed by NumPy where that is soon done.
    """

    def __init__(self, name: str, function: Callable[..., Answer], arguments: int, on_host: bool = False) -> None:
        self.name, self.function, self.arguments, self.on_host = name, function, arguments, on_host
        self._jitted: dict[tuple[bool, bool], Callable[..., Answer]] = {}
        self._differentiable: dict[tuple[bool, bool], Callable[..., Answer]] = {}

    def trace(self, *arguments: Any, numbers: Any, many: bool) -> Answer:
        """Call the function as it stands, along the leading axes of the arguments if many.

        Over numbers on a mesh as one program, whose derivatives keep nothing but its arguments: rows that were computed
        would be exchanged where devices do not divide them.
        """
        if is_distant(*jax.tree_util.tree_leaves(numbers)):
            return self._whole(many)(*arguments, numbers)
        function = partial(self.function, numbers=numbers)
        return (jax.vmap(function) if many else function)(*arguments)

    def _whole(self, many: bool) -> Callable[..., Answer]:
        key = (is_double_precision(), many)
        if key not in self._differentiable:
            function = jax.vmap(self.function, in_axes=(*(0,) * self.arguments, None)) if many else self.function
            self._differentiable[key] = jax.jit(jax.checkpoint(function))
        return self._differentiable[key]

    def run(self, *arguments: Any, numbers: Any, many: bool) -> Answer:
        """Call the compiled function in the precision in force."""
        key = (is_double_precision(), many)
        if key not in self._jitted:
            axes = (*(0,) * self.arguments, None)
            compiled = jax.jit(jax.vmap(self.function, in_axes=axes) if many else self.function)
            self._jitted[key] = HostPrograms(compiled) if self.on_host and is_double_precision() else compiled
        return self._jitted[key](*arguments, numbers)
