"""Data files as named columns: CSV, Parquet, JSON, NetCDF. Nothing in such a file is ever executed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fubini.errors import FileFormatError, FubiniError, closest, listed
from fubini.io.json_text import load_json
from fubini.io.text import read_text

READERS = ".csv, .tsv (plain, .gz or .xz), .parquet, .json, .nc"


@dataclass(frozen=True)
class Column:
    """One named array; of labels their codes, in the order of the labels."""

    values: np.ndarray
    labels: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """The number of rows; None of a single number."""
        return len(self.values) if self.values.ndim else None

    @property
    def missing(self) -> np.ndarray:
        """Which rows have no value."""
        empty = self.values < 0 if self.labels else ~np.isfinite(self.values) if self.values.dtype.kind == "f" else None
        if empty is None:
            return np.zeros(self.rows or 0, bool)
        return np.atleast_1d(empty.reshape(self.rows, -1).any(axis=1) if self.rows is not None else empty)

    @property
    def masked(self) -> np.ndarray:
        """The values; an array with a mask where some have none."""
        if not self.missing.any():
            return self.values
        empty = self.values < 0 if self.labels else ~np.isfinite(self.values)
        return np.ma.array(np.where(empty, 0, self.values), mask=empty)

    def recoded(self, labels: tuple[str, ...]) -> Column:
        """The same labels by the codes that some have already; the others come after these.

        >>> Column(np.array([0, 1]), ("east", "north")).recoded(("north", "south"))
        Column(values=array([2, 0]), labels=('north', 'south', 'east'))
        """
        whole = (*labels, *(label for label in self.labels if label not in labels))
        codes = np.array([*(whole.index(label) for label in self.labels), -1])
        return Column(codes[self.values], whole) if self.labels else self

    def __getitem__(self, rows: np.ndarray) -> Column:
        return Column(self.values[rows], self.labels)


def read_data(path: Path) -> dict[str, Column]:
    """The columns of a data file, in order.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("site,y\\nnorth,1.5\\nsouth,2.5\\n")
    ...     read_data(path)
    {'site': Column(values=array([0, 1]), labels=('north', 'south')), 'y': Column(values=array([1.5, 2.5]), labels=())}
    """
    require_file(path, "the data file")
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    kind = suffixes[-1].lower() if suffixes else ""
    reader = {".csv": _frame, ".tsv": _frame, ".parquet": _frame, ".json": _json, ".nc": _netcdf}.get(kind)
    if reader is None:
        raise FileFormatError(f"the data file {path}", expected=f"a file whose name ends in {READERS}")
    columns = reader(path, kind)
    if not columns or all(column.values.size == 0 for column in columns.values()):
        raise FileFormatError(
            f"the data file {path}", expected="at least one row", nearest=f"columns {listed(columns)}"
        )
    return columns


def require_file(path: Path, what: str) -> None:
    """Raise unless there is such a file, with the nearest name of its folder."""
    if path.is_file():
        return
    beside = sorted(other.name for other in path.parent.iterdir()) if path.parent.is_dir() else []
    raise FubiniError(
        f"{what} {path}",
        expected="a file that exists" if path.parent.is_dir() else f"a folder {path.parent}",
        nearest=closest(path.name, beside),
    )


# -- tables ---------------------------------------------------------------------------------------------------------


def _frame(path: Path, kind: str) -> dict[str, Column]:
    """CSV, TSV and Parquet, read by pandas."""
    frame = read_table(path, kind)
    return _columns({str(name): _series(frame[name]) for name in frame.columns})


def read_table(path: Path, kind: str, as_text: bool = False) -> Any:
    """A data frame from CSV, TSV or Parquet; the cells of the first two as they are written, if asked."""
    import pandas as pd

    options = {"dtype": str, "keep_default_na": False} if as_text else {}
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        return _table(path, "\t" if kind == ".tsv" else ",", **options)
    except ImportError as error:
        raise FubiniError(
            f"the data file {path}", expected="pyarrow, which reads Parquet", advice='pip install "fubini[parquet]"'
        ) from error
    except (ValueError, OSError, EOFError, OverflowError) as error:  # parser, encoding, compression
        raise FileFormatError(f"the data file {path}", expected=f"{kind[1:].upper()}", nearest=str(error)) from error


def _table(path: Path, separator: str, **options: Any) -> Any:
    """A table of text, whose rows have the fields of its header and no more."""
    import pandas as pd

    names = list(pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0])
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FileFormatError(
            f"the data file {path}", expected="columns of different names", nearest=f"two are called {twice!r}"
        )
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            return pd.read_csv(path, sep=separator, index_col=False, **options)  # the first field is no name of a row
    except pd.errors.ParserWarning as error:
        raise FileFormatError(
            f"the data file {path}",
            expected=f"rows of {len(names)} fields, as the header has: {listed(names)}",
            nearest="the rows have more",
            advice="name every column",
        ) from error


def _series(series: Any) -> np.ndarray:
    """A column of pandas as an array: numbers, with NaN where one is missing, or objects with None there."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(series.dtype):
        return series.astype(object).where(series.notna(), None).to_numpy()
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    return series.to_numpy(float, na_value=np.nan) if series.isna().any() else series.to_numpy(series.dtype.numpy_dtype)


def _columns(series: Mapping[str, Any]) -> dict[str, Column]:
    return {name: column_of(name, one) for name, one in series.items()}


def column_of(name: str, values: Any) -> Column:
    """Numbers as they are, other values as codes of their sorted labels; what is missing is NaN or the code -1.

    >>> column_of("sex", ["m", "f", None, "m"])
    Column(values=array([ 1,  0, -1,  1]), labels=('f', 'm'))
    """
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return Column(array.astype(np.int64))
    if array.dtype.kind == "f":
        return Column(array.astype(np.float64))
    if array.ndim != 1:
        raise FileFormatError(f"the column {name!r}", expected="numbers, or one label for each row")
    present = np.array([one is not None and one == one for one in array], bool)
    if not present.any():
        return Column(np.full(len(array), np.nan))
    labels, codes = np.unique([str(one) for one in array[present]], return_inverse=True)
    values = np.full(len(array), -1)
    values[present] = codes
    return Column(values, tuple(map(str, labels)))


# -- JSON and NetCDF ------------------------------------------------------------------------------------------------


def _json(path: Path, kind: str) -> dict[str, Column]:
    """An object of arrays and numbers by name, or a list of rows."""
    content = load_json(read_text(path), str(path))
    if isinstance(content, list) and content and all(isinstance(row, dict) for row in content):
        names = dict.fromkeys(name for row in content for name in row)
        content = {name: [row.get(name) for row in content] for name in names}
    if not isinstance(content, dict):
        raise FileFormatError(
            f"the data file {path}", expected="an object of arrays by name, or a list of objects, one for each row"
        )
    return {name: _entry(name, value, path) for name, value in content.items()}


def _entry(name: str, value: Any, path: Path) -> Column:
    try:
        array = np.asarray(value)
        if array.dtype == object and all(one is None or isinstance(one, (int, float)) for one in value):
            array = np.array([np.nan if one is None else one for one in value], float)
    except (ValueError, TypeError) as error:
        raise FileFormatError(
            f"{path}: the entry {name!r}", expected="a number, or lists of equal lengths", nearest=str(error)
        ) from error
    return column_of(name, array)


def _netcdf(path: Path, kind: str) -> dict[str, Column]:
    """The variables and coordinates of a NetCDF file, read by xarray."""
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as data:
            return _columns({str(name): data[name].values for name in (*data.data_vars, *data.coords)})
    except (ValueError, OSError, KeyError) as error:
        raise FileFormatError(f"the data file {path}", expected="NetCDF 4", nearest=str(error)) from error
