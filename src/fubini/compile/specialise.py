"""Specialisation: sizes as numbers in the text of loops, for LLVM to know; otherwise they are read from an array."""

from __future__ import annotations

import numpy as np


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
