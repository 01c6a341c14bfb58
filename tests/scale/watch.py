"""What a question does with data over devices: the collectives of programs that it compiles, and what it fetches."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from jax._src import compiler
from jax._src.array import ArrayImpl

COLLECTIVE = re.compile(
    r"= (.+?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast)(?:-start)?\("
)


class Seen(NamedTuple):
    """Numbers of the largest part of each collective, by its kind, and shapes of fetched arrays that lie in parts."""

    collectives: list[tuple[str, int]]
    fetched: list[tuple[int, ...]]

    def require_few_numbers(self, rows: int) -> None:
        """No collective is as large as an axis of so many rows, and nothing in parts went to the host."""
        assert not [one for one in self.collectives if one[1] >= rows]
        assert not self.fetched


def collectives(text: str) -> list[tuple[str, int]]:
    """The collectives in a compiled program, with the numbers of the largest array that each makes."""
    return [(kind, max(map(_size, re.findall(r"\[([\d,]*)\]", shape)))) for shape, kind in COLLECTIVE.findall(text)]


def _size(shape: str) -> int:
    return math.prod(map(int, shape.split(","))) if shape else 1


@contextmanager
def watched() -> Iterator[Seen]:
    """See what is compiled and fetched inside."""
    seen = Seen([], [])
    fetch, make = ArrayImpl._value, compiler.compile_or_get_cached

    def value(self: Any) -> np.ndarray:
        if not self.is_fully_replicated:
            seen.fetched.append(self.shape)
        return fetch.fget(self)

    def compile_(*args: Any, **options: Any) -> Any:
        made = make(*args, **options)
        for module in made.hlo_modules():
            seen.collectives.extend(collectives(module.to_string()))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArrayImpl, "_value", property(value))
        patch.setattr(compiler, "compile_or_get_cached", compile_)
        yield seen
