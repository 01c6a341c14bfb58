"""What a reader of files accepts at most, and which files it opens."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, fields
from os import PathLike
from typing import BinaryIO

from fubini.errors import FileFormatError

AXES = 64  # that an array of NumPy can have


@dataclass(frozen=True)
class Limits:
    """The largest file that a reader accepts; `limits=fb.io.Limits(cells=10**9)` raises one of them.

    >>> Limits().require("cells", 10**9, "net.bif: a table over 30 variables")
    Traceback (most recent call last):
        ...
    fubini.errors.FileFormatError: net.bif: a table over 30 variables: cells would be 1000000000
      expected: at most 16777216, the limit on cells
      to do:    if the file is meant to be so large, read it with limits=fb.io.Limits(cells=…)
    """

    bytes: int = 2**25  # of the text, after it is decompressed
    variables: int = 100_000
    factors: int = 1_000_000
    states: int = 1_000_000  # of one variable
    scope: int = AXES  # variables of one table
    cells: int = 2**24  # numbers in all tables and regressions together
    depth: int = 80  # of brackets in JSON
    tags: int = 2**21  # of XML

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise FileFormatError(f"Limits({field.name}={value!r})", expected="a whole number, at least 0")
        if self.scope > AXES:
            raise FileFormatError(f"Limits(scope={self.scope})", expected=f"at most {AXES}, the axes of an array")

    def require(self, name: str, count: int, what: str) -> None:
        """Raise where there are more than the limit of this name."""
        most = getattr(self, name)
        if count > most:
            raise FileFormatError(
                f"{what}: {name} would be {count if count < 10**30 else 'more than 10^30'}",
                expected=f"at most {most}, the limit on {name}",
                advice=f"if the file is meant to be so large, read it with limits=fb.io.Limits({name}=…)",
            )


DEFAULT = Limits()


def open_file(path: str | PathLike[str]) -> BinaryIO:
    """A regular file, opened for reading; a device or a pipe, which need not end, is refused."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise FileFormatError(
            f"{os.fspath(path)}: {'a folder' if stat.S_ISDIR(mode) else 'a device or a pipe'}",
            expected="a regular file",
            advice="copy what it holds into a file, and read that",
        )
    return os.fdopen(descriptor, "rb")
