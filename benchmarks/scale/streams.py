"""Rows that are read chunk by chunk, against the same rows in memory: `python -m benchmarks.scale.streams`.

Each question is asked in a process of its own, of files of this machine's temporary folder, which are removed.
In memory the clock starts when the rows have been loaded. Memory is the most that the process held above what it held
when Fubini had been imported. `--rows 0.01` takes a hundredth of the rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fubini as fb
from benchmarks.models_of_rows import grouped, normal, regression

ROWS = {"normal": 100_000_000, "regression": 10_000_000, "groups": 10_000_000}
FILES = {"normal": ("y",), "regression": ("X", "y"), "groups": ("g", "y")}
MODELS: dict[str, Callable[..., Any]] = {
    "normal": lambda y: normal(y.shape[0]).condition(y=y),
    "regression": lambda X, y: regression(X).condition(y=y),
    "groups": lambda g, y: grouped(g).condition(y=y),
}
COLUMNS, GROUPS, CHUNK = 5, 10_000, 1 << 20


def write(name: str, rows: int, folder: Path) -> None:
    """Write the rows of a model to files, a part at a time."""
    rng = np.random.default_rng(0)
    shapes = {"X": (rows, COLUMNS), "y": (rows,), "g": (rows,)}
    kinds = {"X": np.float64, "y": np.float64, "g": np.int64}
    files = {
        file: np.lib.format.open_memmap(folder / f"{file}.npy", mode="w+", dtype=kinds[file], shape=shapes[file])
        for file in FILES[name]
    }
    effects = rng.normal(size=GROUPS)
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        count = part.stop - part.start
        mean: Any = 0.5
        if "X" in files:
            files["X"][part] = X = rng.normal(size=(count, COLUMNS))
            mean = X.sum(1)
        if "g" in files:
            files["g"][part] = g = rng.integers(0, GROUPS, count)
            mean = effects[g]
        files["y"][part] = mean + rng.normal(size=count)


def held() -> tuple[float, float]:
    """MB that this process holds, and the most that it held."""
    status = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in status if line.startswith(("VmRSS", "VmHWM"))}
    return int(sizes["VmRSS"]) / 1024, int(sizes["VmHWM"]) / 1024


def ask(name: str, how: str, folder: Path) -> dict[str, Any]:
    """The evidence, seconds and MB of one question, in this process."""
    before, _ = held()
    paths = [folder / f"{file}.npy" for file in FILES[name]]
    data = [fb.Stream(path) if how == "stream" else np.load(path) for path in paths]
    begun = time.perf_counter()
    try:
        evidence = float(MODELS[name](*data).log_evidence())
    except (fb.FubiniError, MemoryError) as error:
        return {"error": str(error).splitlines()[0]}
    return {"evidence": evidence, "seconds": time.perf_counter() - begun, "MB": held()[1] - before}


def answer(name: str, how: str, folder: Path) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale.streams", "--ask", name, how, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = ended.stdout.strip().splitlines()
    return json.loads(lines[-1]) if ended.returncode == 0 else {"error": f"exit status {ended.returncode}"}


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1.0, help="the share of the rows")
    parser.add_argument("--only", default=",".join(ROWS), help="some of the models")
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        name, how, folder = options.ask
        print(json.dumps(ask(name, how, Path(folder))))
        return
    print(f"{'model':<12}{'rows':>14}{'stream':>10}{'MB':>8}{'in memory':>12}{'MB':>8}{'ratio':>8}{'equal to':>11}")
    for name in options.only.split(","):
        rows = int(ROWS[name] * options.rows)
        with tempfile.TemporaryDirectory() as folder:
            write(name, rows, Path(folder))
            streamed, in_memory = (answer(name, how, Path(folder)) for how in ("stream", "memory"))
        compared = _compared(streamed, in_memory)
        print(f"{name:<12}{rows:>14,}{_shown(streamed)}{_shown(in_memory, 12)}{compared}", flush=True)


def _shown(one: dict[str, Any], width: int = 10) -> str:
    return f"{one['error'][:60]:>{width}}" if "error" in one else f"{one['seconds']:>{width - 2}.2f} s{one['MB']:>8.0f}"


def _compared(streamed: dict[str, Any], in_memory: dict[str, Any]) -> str:
    if "error" in streamed or "error" in in_memory:
        return ""
    gap = abs(streamed["evidence"] / in_memory["evidence"] - 1)
    return f"{streamed['seconds'] / in_memory['seconds']:>8.2f}{gap:>11.1e}"


if __name__ == "__main__":
    main()
