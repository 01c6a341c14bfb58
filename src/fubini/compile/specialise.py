"""Specialisation: sizes as numbers in the text of loops, for LLVM to know; otherwise they are read from an array.

Where values are fixed too, small arrays of data are constants of the text.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

SMALL = 10_000  # numbers of an array that may stand in the text


def is_small(array: np.ndarray) -> bool:
    """Whether an array is small enough to be a constant of the text."""
    return array.size <= SMALL


def constant_text(arrays: Mapping[str, np.ndarray]) -> str:
    """Write arrays as constants, to the last digit."""
    return "".join(f"{name} = np.array({array.tolist()!r}, np.{array.dtype})\n" for name, array in arrays.items())


class Sizes:
    """The text of each size."""

    def __init__(self, known: bool) -> None:
        self.known = known
        self.read: dict[int, int] = {}  # the place of each size that is read

    def text(self, size: int) -> str:
        """A size as a number, or as an entry of `sizes`."""
        return str(size) if self.known else f"sizes[{self.read.setdefault(size, len(self.read))}]"

    @property
    def array(self) -> np.ndarray:
        """The sizes that are read."""
        return np.array(list(self.read), np.int64)
