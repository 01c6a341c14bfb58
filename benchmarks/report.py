"""Aligned plain-text tables, printed row by row, and the list of aims met and missed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata

SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True)
class Aim:
    """What was wanted of something, and what was found; `met` is None where nothing could be said."""

    what: str
    wanted: str
    found: str
    met: bool | None


RECORD = "FUBINI_BENCHMARK_RECORD"  # a file to which rows are appended, a line of JSON each


def record(**what: object) -> None:
    """Append a line to the record, where one is kept."""
    if path := os.environ.get(RECORD):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(what, ensure_ascii=False) + "\n")


class Table:
    """Columns as wide as their heads; the first, and those at the positions `left`, are flush left."""

    def __init__(self, title: str, columns: Sequence[str], first: int = 16, left: Sequence[int] = ()) -> None:
        self.title, self.columns, self.has_head = title, [column.strip() for column in columns], False
        self.widths = [max(len(column), 0 if position else first) for position, column in enumerate(columns)]
        self.left = {0, *left}
        print(f"\n{title}\n", flush=True)
        self.row(*columns)
        self.has_head = True
        print("  ".join("-" * width for width in self.widths), flush=True)

    def row(self, *cells: object) -> None:
        """Print one row."""
        padded = [
            str(cell).ljust(width) if position in self.left else str(cell).rjust(width)
            for position, (cell, width) in enumerate(zip(cells, self.widths, strict=True))
        ]
        print("  ".join(padded).rstrip(), flush=True)
        if self.has_head:
            record(table=self.title, columns=self.columns, cells=[str(cell).strip() for cell in cells])


def duration(seconds: float | None) -> str:
    """A time to three digits.

    >>> duration(0.01234), duration(None)
    ('12.3 ms', '-')
    """
    if seconds is None:
        return "-"
    scale, unit = next((pair for pair in SCALES if seconds >= pair[0]), SCALES[-1])
    return f"{_three_digits(seconds / scale)} {unit}"


def ratio(value: float | None) -> str:
    """How many times, to three digits."""
    return "-" if value is None else f"{_three_digits(value)}×"


def difference(value: float | None) -> str:
    """An error to two digits."""
    return "-" if value is None else f"{value:.1e}"


def mebibytes(size: int | None) -> str:
    """Bytes in MiB."""
    return "-" if size is None else f"{size / 2**20:,.1f}"


def verdict(met: bool | None) -> str:
    """Yes, no, or nothing to say."""
    return "-" if met is None else "yes" if met else "NO"


def _three_digits(value: float) -> str:
    if value < 0.0995:
        return f"{value:.3f}"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def version(package: str) -> str:
    """The version of a package, or that it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def print_header(packages: Iterable[str], more: str = "") -> None:
    """Versions, machine and load: what the figures depend on."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load}"
    print(f"{machine}; Python {platform.python_version()}, {versions}{more}")
    record(machine=machine, python=platform.python_version(), versions=versions)


def print_summary(aims: Sequence[Aim], notes: Sequence[str] = ()) -> None:
    """The aims, then what went wrong."""
    print()
    for note in notes:
        print(f"note: {note}")
    if not aims:  # without the peers that they speak of
        return
    widest = max(len(aim.what) for aim in aims)
    table = Table("aims", ("aim", "      wanted", "met", "found"), first=widest, left=(3,))
    for aim in aims:
        table.row(aim.what, aim.wanted, verdict(aim.met), aim.found)
    met = sum(aim.met is True for aim in aims)
    missed = sum(aim.met is False for aim in aims)
    print(f"\n{met} aims met, {missed} missed, {len(aims) - met - missed} without a figure")
