"""Where the rows of a stream come from: NumPy files, Zarr arrays, Parquet files, arrays, functions that give chunks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fubini.errors import DataError, DomainError, FileFormatError

ADVICE = "a .npy file, a Zarr array, a .parquet file, an array, or a function that returns an iterator of arrays"


class Source(Protocol):
    """Rows that can be gone over again and again."""

    name: str

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its shape; the number of rows is None where it is not known before they are read."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The kind of its numbers."""
        ...

    @property
    def stretch(self) -> Callable[[int, int], np.ndarray] | None:
        """Reads the rows from one to another; None where rows come in order alone."""
        ...

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        """The rows in order from one to another, about so many at a time."""
        ...


def source_of(source: Any, columns: Sequence[str] | None) -> Source:
    """The rows of a file, by its ending; of an array; of a function."""
    if columns is not None and not (isinstance(source, str | os.PathLike) and Path(source).suffix == ".parquet"):
        raise DomainError("fb.Stream(…, columns=…)", expected="a .parquet file, whose columns have names")
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.exists():
            raise FileFormatError(f"the rows of {path}", expected=ADVICE, nearest="there is no such file")
        if path.suffix == ".parquet":
            return ParquetSource(path, columns)
        if path.suffix == ".npy":
            return NumpySource(path)
        return ArraySource(f"{path}", lambda: _open_zarr(path))
    if isinstance(source, list | tuple):
        source = np.asarray(source)
    require_no_mask("fb.Stream", source)
    if hasattr(source, "shape") and hasattr(source, "dtype") and hasattr(source, "__getitem__"):
        return ArraySource(type(source).__name__, lambda: source)
    if callable(source):
        return FunctionSource(source)
    if hasattr(source, "__next__"):
        raise DomainError(
            f"fb.Stream of a {type(source).__name__}, which can be gone over once",
            expected="rows that can be read again: there may be several passes",
            advice="give the function that makes it: fb.Stream(chunks, rows=n), not fb.Stream(chunks(), rows=n)",
        )
    raise DomainError(f"fb.Stream of a {type(source).__name__}", expected=ADVICE)


def require_no_mask(asked: str, rows: Any) -> None:
    """Raise where entries may be missing, which sums over rows would not leave out."""
    if isinstance(rows, np.ma.MaskedArray):
        raise DomainError(
            f"{asked} of a masked array",
            expected="numbers in every row",
            advice="leave rows with missing entries out: x[~np.ma.getmaskarray(x)], of a table x[~mask.any(axis=1)]",
        )


def _open_zarr(path: Path) -> Any:
    import zarr

    return zarr.open_array(path, mode="r")


class ArraySource:
    """An array that is sliced; a mapped file is opened and copied for each chunk: no page of it stays in memory."""

    def __init__(self, name: str, open_array: Callable[[], Any]) -> None:
        self.name, self._open = name, open_array
        array = reading(name, open_array)
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)

    def stretch(self, start: int, stop: int) -> np.ndarray:
        """The rows from one to another."""
        return reading(self.name, lambda: _in_memory(self._open()[start:stop]))

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        stop = int(self.shape[0]) if stop is None else stop  # type: ignore[arg-type]
        for first in range(start, stop, size):
            yield self.stretch(first, min(first + size, stop))


def _in_memory(part: Any) -> np.ndarray:
    return part if type(part) is np.ndarray else np.array(part)


class NumpySource(ArraySource):
    """A .npy file, which is read from start to end where its rows lie one after another."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}", lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        self.path, array = path, reading(self.name, self._open)
        self._offset = array.offset if array.flags.c_contiguous else None

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        if self._offset is None:
            yield from super().chunks(size, start, stop)
            return
        (count, *rest), width = self.shape, math.prod(self.shape[1:])
        stop = int(count) if stop is None else stop  # type: ignore[arg-type]
        with reading(self.name, lambda: self.path.open("rb")) as file:
            file.seek(self._offset + start * width * self.dtype.itemsize)
            for first in range(start, stop, size):
                rows = min(size, stop - first)
                chunk = reading(self.name, lambda rows=rows: np.fromfile(file, self.dtype, rows * width))
                if len(chunk) < rows * width:
                    raise FileFormatError(
                        f"the rows of {self.name}", expected=f"{count:,} rows", nearest="it ends before"
                    )
                yield chunk.reshape(rows, *rest)


class ParquetSource:
    """The columns of a Parquet file, or those that are named; one column alone has no second axis."""

    stretch = None

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self.name, self.path = f"{path}", path
        file = reading(self.name, self._opened)
        names = list(file.schema_arrow.names)
        unknown = [name for name in columns or () if name not in names]
        if unknown:
            raise DomainError(f"the column {unknown[0]!r} of {path}", expected=f"some of {', '.join(names)}")
        self.columns = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        kinds = [file.schema_arrow.field(name).type.to_pandas_dtype() for name in self.columns]
        self.dtype = (
            np.result_type(*kinds) if all(np.dtype(kind).kind in "biuf" for kind in kinds) else np.dtype(object)
        )
        width = () if len(self.columns) == 1 else (len(self.columns),)
        self.shape = (file.metadata.num_rows, *width)

    def _opened(self) -> Any:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise DomainError(
                f"the rows of {self.path}",
                expected="pyarrow, which reads Parquet",
                advice='pip install "fubini[parquet]"',
            ) from error
        return parquet.ParquetFile(self.path)

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        return between(self._all(size), start, stop)

    def _all(self, size: int) -> Iterator[np.ndarray]:
        batches = reading(self.name, lambda: self._opened().iter_batches(batch_size=size, columns=self.columns))
        while (batch := reading(self.name, lambda: next(batches, None))) is not None:
            parts = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.columns]
            yield parts[0] if len(parts) == 1 else np.stack(parts, axis=1)


class FunctionSource:
    """A function that returns an iterator of chunks, a new one at each call."""

    stretch = None

    def __init__(self, function: Callable[[], Any]) -> None:
        self.name = f"the function {getattr(function, '__name__', function)}"
        self._function = function
        self._last: Any = None
        first = next(self._all(), None)
        if first is None:
            raise DataError(f"the rows of {self.name}", expected="chunks: arrays of some rows", nearest="no chunk came")
        self.shape, self.dtype = (None, *first.shape[1:]), first.dtype

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        return between(self._all(), start, stop)

    def _all(self) -> Iterator[np.ndarray]:
        made = self._function()
        if hasattr(made, "shape") or not (hasattr(made, "__iter__") or hasattr(made, "__next__")):
            raise DomainError(
                f"{self.name} gives {type(made).__name__}",
                expected="an iterator of chunks: arrays of some rows",
                advice="an array of all rows is given itself: fb.Stream(rows)" if hasattr(made, "shape") else "",
            )
        if made is self._last and hasattr(made, "__next__"):
            raise DomainError(
                f"the rows of {self.name}, a second time",
                expected="a new iterator at each call: there may be several passes",
                nearest="it returned the same iterator again, which has been read",
                advice="make the iterator inside of the function",
            )
        self._last = made
        for chunk in made:
            require_no_mask(self.name, chunk)
            yield np.asarray(chunk)


def between(chunks: Iterator[np.ndarray], start: int, stop: int | None) -> Iterator[np.ndarray]:
    """The rows from one to another of rows that can only be gone over from the first."""
    first = 0
    for chunk in chunks:
        if stop is not None and first >= stop:
            return
        after = first + (len(chunk) if chunk.ndim else 1)
        if after > start or first >= start:
            lead, end = max(0, start - first), None if stop is None else stop - first
            yield chunk if not lead and (end is None or after <= stop) else chunk[lead:end]  # type: ignore[operator]
        first = after


def reading(name: str, read: Callable[[], Any]) -> Any:
    """What a file gives, or an error that names the file."""
    try:
        return read()
    except (OSError, ValueError, KeyError, EOFError) as error:
        if isinstance(error, FileFormatError | DataError | DomainError):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"the rows of {name}", expected=ADVICE, nearest=first) from error
