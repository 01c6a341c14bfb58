"""Two records of `python -m benchmarks --json`: what takes longer in the second.

    python -m benchmarks.compare old.json new.json

Times in the same cell of the same table are compared. A machine may be slower as a whole: growth is taken relative to
the median of its table. What grew by more than a factor (1.3) is listed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.report import Table, duration, ratio

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
TIME = re.compile(r"([\d.,]+) (s|ms|µs)")


class Growth(NamedTuple):
    """A time in two records."""

    program: str
    table: str
    row: str
    column: str
    old: float
    new: float


def seconds(cell: str) -> float | None:
    """A time as it is printed; None for anything else.

    >>> seconds("12.5 ms"), seconds("1.3×")
    (0.0125, None)
    """
    found = TIME.fullmatch(cell)
    return float(found[1].replace(",", "")) * UNITS[found[2]] if found else None


def times(record: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    """All times of a record by program, table, row and column; rows of the same name are numbered."""
    for program, one in record.items():
        seen: dict[tuple[str, str], int] = {}
        for row in one["rows"]:
            if "cells" not in row:
                continue
            name = row["cells"][0]
            place = seen[row["table"], name] = seen.get((row["table"], name), 0) + 1
            for column, cell in zip(row["columns"], row["cells"], strict=True):
                if (value := seconds(cell)) is not None:
                    yield (program, row["table"], name if place == 1 else f"{name} ({place})", column), value


def growths(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[Growth, float]]:
    """What is in both, with its growth relative to that of its table, the greatest first."""
    before = dict(times(old))
    both = [Growth(*key, before[key], value) for key, value in times(new) if key in before and before[key] > 0]
    by_table: dict[tuple[str, str], list[float]] = {}
    for one in both:
        by_table.setdefault((one.program, one.table), []).append(one.new / one.old)
    middle = {table: median(each) if len(each) > 2 else 1.0 for table, each in by_table.items()}
    relative = [(one, one.new / one.old / middle[one.program, one.table]) for one in both]
    return sorted(relative, key=lambda pair: -pair[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--factor", type=float, default=1.3, help="growth that is listed")
    given = parser.parse_args()
    found = growths(*(json.loads(path.read_text(encoding="utf-8")) for path in (given.old, given.new)))
    slower = [(one, grown) for one, grown in found if grown > given.factor]
    if slower:
        table = Table(f"slower by more than {given.factor:g}×", ("what", "     old", "     new", "relative"), first=60)
        for one, grown in slower:
            what = f"{one.program}: {one.row}, {one.column}"
            table.row(what, duration(one.old), duration(one.new), ratio(grown))
    print(f"\n{len(slower)} of {len(found)} times grew by more than {given.factor:g}×, relative to their tables")
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())
