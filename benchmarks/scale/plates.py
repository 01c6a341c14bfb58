"""Memory of a regression whose rows lie over eight devices: `python -m benchmarks.scale.plates`.

Each question is asked in a process of its own, by as many simulated devices of this machine. Memory is the most that
the process held above what it held when Fubini had been imported, the data included, against the bytes of the data.
`--rows 0.01` takes a hundredth of the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

import fubini as fb
from benchmarks.models_of_rows import regression
from benchmarks.scale.streams import held

ROWS, COLUMNS, DEVICES = 10_000_000, 5, 8


class Drawn:
    """Rows that are drawn when a device asks for its own."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.dtype = shape, np.dtype(np.float32)

    def __getitem__(self, where: tuple[slice, ...]) -> np.ndarray:
        start, stop, _ = where[0].indices(self.shape[0])
        return np.random.default_rng(start).standard_normal((stop - start, *self.shape[1:]), np.float32)


def evidence(X: Any, y: Any) -> Any:
    """log p(y | X)"""
    return regression(X).condition(y=y).log_evidence().data


QUESTIONS = {
    "evidence": evidence,
    "evidence, data traced": jax.jit(evidence),
    "slope of the evidence in y": jax.jit(jax.grad(evidence, argnums=1)),
}


def ask(question: str, rows: int) -> dict[str, float]:
    """Seconds and memory of one question, in this process."""
    mesh = jax.make_mesh((DEVICES,), ("rows",), axis_types=(AxisType.Auto,))
    jax.block_until_ready(jnp.zeros(3) + 1)
    before, _ = held()
    data = fb.shard(Drawn(rows, COLUMNS), mesh, "rows"), fb.shard(Drawn(rows), mesh, "rows")
    begun = time.perf_counter()
    jax.block_until_ready(QUESTIONS[question](*data))
    size = 4 * rows * (COLUMNS + 1) / 2**20
    most = held()[1] - before
    return {"seconds": time.perf_counter() - begun, "MB": most, "data MB": size, "times the data": most / size}


def answer(question: str, rows: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale.plates", "--ask", question, str(rows)]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1.0, help="a part of the rows")
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(ask(options.ask[0], int(options.ask[1]))))
        return
    rows = max(int(options.rows * ROWS), 1000)
    print(f"regression, {rows:,} × {COLUMNS} rows over {DEVICES} devices")
    for question in QUESTIONS:
        print(f"  {question:28s}", "  ".join(f"{name} {value:.4g}" for name, value in answer(question, rows).items()))


if __name__ == "__main__":
    main()
