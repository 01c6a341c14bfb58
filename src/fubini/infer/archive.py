"""Arrays in one file, as `np.savez` writes them, read strictly: every size is checked before anything is made of it.

Members are stored without compression, none is pickled, and their sizes add up to no more than the file.
"""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Mapping
from typing import BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

MOST_MEMBERS = 4096
LONGEST_DIRECTORY = MOST_MEMBERS * 300  # bytes, of all names and attributes
_MAGIC = b"\x93NUMPY\x01\x00"
_NUMBER = re.compile(r"[<|][biuf][1248]")


class Damaged(Exception):
    """An archive that `write_archive` did not write."""


def write_archive(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """All arrays into a file."""
    np.savez(file, **{name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in arrays.items()})  # type: ignore[arg-type]


class Archive:
    """The members of an open file, by name."""

    def __init__(self, file: BinaryIO) -> None:
        size = _require_small_directory(file)
        try:
            self._zip = ZipFile(file)
        except (BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
            raise Damaged("it has no list of arrays") from error
        self.members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
        if len(self.members) != len(self._zip.infolist()):
            raise Damaged("an array occurs twice")
        if sum(info.file_size for info in self.members.values()) > size:
            raise Damaged("its arrays are larger than the file")

    def layout(self, name: str) -> tuple[np.dtype, tuple[int, ...]]:
        """Type and shape of an array, as its header says."""
        with self._opened(name) as stream:
            return _read_header(stream)[:2]

    def read(self, name: str) -> np.ndarray:
        """An array of numbers, of exactly the bytes that its header announces."""
        info = self.members[name]
        with self._opened(name) as stream:
            dtype, shape, start = _read_header(stream)
            if start + math.prod(shape) * dtype.itemsize != info.file_size:
                raise Damaged(f"{name!r} is not as long as it says")
            try:
                content = stream.read()
            except (BadZipFile, EOFError, OSError) as error:
                raise Damaged(f"{name!r} is changed") from error
        return np.frombuffer(content, dtype).reshape(shape)

    def _opened(self, name: str) -> BinaryIO:
        info: ZipInfo = self.members[name]
        if info.compress_type != ZIP_STORED or info.flag_bits & 0x1 or info.file_size != info.compress_size:
            raise Damaged(f"{name!r} is compressed or locked")
        try:
            return self._zip.open(info)  # type: ignore[return-value]
        except (BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, struct.error) as error:
            raise Damaged(f"{name!r} cannot be opened") from error


def _require_small_directory(file: BinaryIO) -> int:
    """The size of the file, whose list of members is short: it is read as a whole."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 98))
    end = file.read()
    if len(end) < 22 or end[-22:-18] != b"PK\5\6" or end[-2:] != b"\0\0":
        raise Damaged("its end is missing")
    members, length = struct.unpack("<HI", end[-12:-6])
    if len(end) == 98 and end[:4] == b"PK\6\6":  # of a file beyond 4 GB
        members, length = struct.unpack("<QQ", end[32:48])
    elif b"PK\6\7" in end[:-22]:
        raise Damaged("its end is changed")
    if members > MOST_MEMBERS or length > LONGEST_DIRECTORY:
        raise Damaged(f"it lists {members} arrays in {length} bytes, more than the {MOST_MEMBERS} that a run can have")
    file.seek(0)
    return size


def _read_header(stream: BinaryIO) -> tuple[np.dtype, tuple[int, ...], int]:
    """Type, shape and length of the header of one array: version 1.0 of NumPy's format, numbers in C order."""
    try:
        start = stream.read(10)
        if start[:8] != _MAGIC:
            raise Damaged("an array is of another format")
        length = struct.unpack("<H", start[8:])[0]
        header = ast.literal_eval(stream.read(length).decode("latin1"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, EOFError, OSError, BadZipFile) as error:
        raise Damaged("the header of an array is changed") from error
    except struct.error as error:
        raise Damaged("an array is cut short") from error
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Damaged("the header of an array is changed")
    dtype, order, shape = header["descr"], header["fortran_order"], header["shape"]
    is_shape = isinstance(shape, tuple) and all(type(axis) is int and 0 <= axis < 2**62 for axis in shape)
    if not isinstance(dtype, str) or not _NUMBER.fullmatch(dtype) or order is not False or not is_shape:
        raise Damaged("an array is not one of numbers")
    try:
        return np.dtype(dtype), shape, 10 + length
    except TypeError as error:
        raise Damaged("an array is of an unknown type") from error
