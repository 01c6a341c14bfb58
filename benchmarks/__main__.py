"""All benchmarks in one go: `python -m benchmarks`, or some: `python -m benchmarks --only bayes_nets,sequences`.

Each runs in a process of its own; peers that are not installed are left out. What they print is also written as JSON,
and as a page, where asked: `--json out.json --page page.md`. `python -m benchmarks.compare old.json new.json` compares.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import RECORD, duration

PROGRAMS: dict[str, tuple[str, ...]] = {  # with what makes each of them quick
    "bayes_nets": ("--quick", "--no-memory", "--no-growth"),
    "gaussian_nets": ("--rounds", "3"),
    "sequences": ("--quick",),
    "sparse_fields": ("--rounds", "1"),
    "overhead": ("--rounds", "5"),
    "orders": (),
    "propagation": ("--quick",),
    "joint": ("--rounds", "3"),
    "circuits": ("--rounds", "2", "--rows", "1000"),
    "measures": (),
    "first_answers": ("--rounds", "1"),
    "repeated": ("--rows", "1000000"),
    "infer": (),
    "answers": ("--only", "coin,schools", "--alone"),
    "array_compiler": ("--quick",),
    "calibration": ("--simulations", "20"),
    "chain_kernels": ("--rounds", "1", "--shapes", "8x64x3"),
    "learning": ("--quick",),
    "nonlinear_sequences": ("--rounds", "1"),
    "scale": ("--quick",),
}
SLOW = ("infer", "answers", "array_compiler", "calibration", "learning", "scale")  # left out where it should be quick


def run(name: str, arguments: Sequence[str], patience: float) -> dict[str, Any]:
    """Run a program; its rows, how long it took, and how it ended."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        begun = time.perf_counter()
        try:
            ended = subprocess.run(command, env={**os.environ, RECORD: str(path)}, timeout=patience, check=False)
            how = "finished" if ended.returncode == 0 else f"failed with exit status {ended.returncode}"
        except subprocess.TimeoutExpired:
            how = f"stopped after {duration(patience)}"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    shown = " ".join(["python", "-m", f"benchmarks.{name}", *arguments])
    return {"command": shown, "ended": how, "seconds": time.perf_counter() - begun, "rows": rows}


def page(found: dict[str, dict[str, Any]]) -> Iterable[str]:
    """The lines of a page: for each program its command, the machine, and its tables."""
    for name, one in found.items():
        yield f"## {name}\n\n`{one['command']}`: {one['ended']}, {duration(one['seconds'])}.\n"
        title = None
        for row in one["rows"]:
            if "machine" in row:
                yield f"{row['machine']}; Python {row['python']}, {row['versions']}.\n"
                continue
            if row["table"] != title:
                title = row["table"]
                yield f"\n**{title}**\n\n| {' | '.join(row['columns'])} |\n|{'---|' * len(row['columns'])}"
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row['cells'])} |"
        yield ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, and without the programs that take long")
    parser.add_argument("--only", help="names with commas between")
    parser.add_argument("--json", type=Path, help="where to write all rows")
    parser.add_argument("--page", type=Path, help="where to write a page")
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds for one program")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else [n for n in PROGRAMS if not (given.quick and n in SLOW)]
    if unknown := [name for name in chosen if name not in PROGRAMS]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    found: dict[str, dict[str, Any]] = {}
    for name in chosen:
        print(f"\n=== {name} ===", flush=True)
        found[name] = run(name, PROGRAMS[name] if given.quick else (), given.patience)
        if given.json:
            given.json.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        if given.page:
            given.page.write_text("# Measured\n\n" + "\n".join(page(found)) + "\n", encoding="utf-8")
    failed = [name for name, one in found.items() if one["ended"] != "finished"]
    print(f"\n{len(found) - len(failed)} of {len(found)} finished" + (f", not {', '.join(failed)}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
