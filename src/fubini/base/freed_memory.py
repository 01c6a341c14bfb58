"""Memory that is free, but which the process still holds."""

from __future__ import annotations

import ctypes
import sys


def return_freed_memory() -> None:
    """Return memory that is free to the machine: glibc keeps some 100 MB of what compiling a model took.

    >>> return_freed_memory()
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(ctypes.c_size_t(0))
