"""Files of rows over the variables of a network: labels or positions as text, with missing cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fubini.base.domains import Domain
from fubini.cli.data_file import read_table, require_file
from fubini.errors import FileFormatError

MISSING = ("", "?", "*", "NA", "N/A", "NaN", "nan", "None", "null", "<NA>")  # where no label is written so
READERS = ".csv, .tsv (plain, .gz or .xz) or .parquet"


def read_cases(path: Path, domains: Mapping[str, Domain]) -> Any:
    """The rows of a file as a data frame of labels and positions, None where a cell is missing."""
    require_file(path, "the data file")
    kind = next((s.lower() for s in reversed(path.suffixes) if s not in (".gz", ".xz")), "")
    if kind not in (".csv", ".tsv", ".parquet"):
        raise FileFormatError(f"the data file {path}", expected=f"a file whose name ends in {READERS}")
    frame = read_table(path, kind, as_text=True)
    return frame.apply(lambda column: column.map(lambda cell: _cell(cell, domains.get(str(column.name)))))


def _cell(cell: Any, domain: Domain | None) -> Any:
    """The text of a cell as a label, or as a position where the variable has no labels."""
    labels = () if domain is None or domain.labels is None else domain.labels
    if cell is None or cell != cell or (isinstance(cell, str) and cell in MISSING and cell not in labels):
        return None
    if labels or not isinstance(cell, str) or not cell.lstrip("-").isdigit():
        return str(cell) if labels else cell
    return int(cell)
