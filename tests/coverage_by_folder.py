"""Prints which share of the statements in each folder of src/fubini the tests ran: `make coverage`.

Statements inside compiled functions count when they are traced.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.test_layers import LAYERS


def folder_of(path: str) -> str:
    """The folder under fubini, or the module that stands alone there."""
    parts = Path(path).parts
    return Path(parts[parts.index("fubini") + 1]).stem


def table(files: Mapping[str, Any]) -> Iterator[str]:
    """A line for each folder in the order of the layers, and one for all."""
    statements: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for path, report in files.items():
        for name in (folder_of(path), "all"):
            statements[name] += report["summary"]["num_statements"]
            covered[name] += report["summary"]["covered_lines"]
    for name in (*LAYERS, "__init__", "all"):
        if statements[name]:
            yield f"{name:<14} {statements[name]:>10,} {100 * covered[name] / statements[name]:>6.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the JSON of `coverage json`")
    report = json.loads(parser.parse_args().report.read_text(encoding="utf-8"))
    print(f"{'folder':<14} {'statements':>10} {'run':>8}")
    print("\n".join(table(report["files"])))


if __name__ == "__main__":
    main()
