"""Arrays that runs of flat programs give back, for runs that come later: what is kept is bounded for all programs."""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

import numpy as np

MOST_KEPT = 2**26  # numbers in all arrays that wait


class ReusedArrays:
    """Arrays of double precision by their size, which is a power of two; pages that are not written take no memory."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.most, self.kept = most, 0
        self._lock = Lock()
        self._waiting: defaultdict[int, list[np.ndarray]] = defaultdict(list)

    def take(self, size: int) -> np.ndarray:
        """Return an array of at least this size, with any numbers in it."""
        capacity = 1 << max(0, size - 1).bit_length()
        with self._lock:
            if self._waiting[capacity]:
                self.kept -= capacity
                return self._waiting[capacity].pop()
        return np.empty(capacity)

    def give(self, array: np.ndarray) -> None:
        """Keep an array that was taken; the largest others go where there is no room."""
        if len(array) > self.most:
            return
        with self._lock:
            while self.kept + len(array) > self.most:
                largest = max(size for size, arrays in self._waiting.items() if arrays)
                self._waiting[largest].pop(0)
                self.kept -= largest
            self._waiting[len(array)].append(array)
            self.kept += len(array)


reused_arrays = ReusedArrays()
