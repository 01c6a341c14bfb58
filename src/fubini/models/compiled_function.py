"""A function of values and of the numbers of a model, compiled once for each precision, for one point and for many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import jax

from fubini.base.arrays import is_double_precision

Answer = TypeVar("Answer")


class CompiledFunction(Generic[Answer]):
    """f(*arguments, numbers), where the numbers are those of the data, the same for all points."""

    def __init__(self, name: str, function: Callable[..., Answer], arguments: int) -> None:
        self.name, self.function, self.arguments = name, function, arguments
        self._jitted: dict[tuple[bool, bool], Callable[..., Answer]] = {}

    def trace(self, *arguments: Any, numbers: Any, many: bool) -> Answer:
        """Call the function as it stands, along the leading axes of the arguments if many."""
        function = partial(self.function, numbers=numbers)
        return (jax.vmap(function) if many else function)(*arguments)

    def run(self, *arguments: Any, numbers: Any, many: bool) -> Answer:
        """Call the compiled function in the precision in force."""
        key = (is_double_precision(), many)
        if key not in self._jitted:
            axes = (*(0,) * self.arguments, None)
            self._jitted[key] = jax.jit(jax.vmap(self.function, in_axes=axes) if many else self.function)
        return self._jitted[key](*arguments, numbers)
