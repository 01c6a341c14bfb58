"""Draws that go into a store, against the same draws in memory: `python -m benchmarks.scale.draws`.

Four chains of 2,000 draws of 20,000 effects of groups: their mean and scale are drawn by the no-U-turn sampler, the
effects are integrated out and drawn back. Each run is in a process of its own, and stores its draws in this machine's
temporary folder, which is removed. Memory is the most that the process held above what it held when Fubini had been
imported. A part of it is the import of ArviZ and Zarr, which Fubini imports when they are needed, ArviZ when all draws
are stored: what that import alone takes is printed too. `--groups 2000 --draws 500` is smaller.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fubini as fb
from benchmarks.scale.streams import held
from fubini.questions.draw_diagnostics import arviz

CHAINS = 4


@fb.model
def effects(groups: int) -> Any:
    """Numbers of groups, each with an effect."""
    m = yield fb.dist.Normal(0.0, 10.0).named("m")
    s = yield fb.dist.HalfNormal(2.0).named("s")
    a = yield fb.dist.Normal(m, s).expand([groups]).named("a")
    yield fb.dist.Normal(a, 1.0).named("y")


def draw(how: str, groups: int, draws: int, folder: Path) -> dict[str, Any]:
    """Seconds, MB and the mean of one run, in this process."""
    before, _ = held()
    random = np.random.default_rng(0)
    post = effects(groups).condition(y=random.normal(0.5, 1.5, groups))
    begun = time.perf_counter()
    data = post.infer(
        jax.random.key(0),
        draws,
        CHAINS,
        warmup=300,
        method="nuts",
        store=folder / "draws.zarr" if how == "stored" else None,
        progress=False,
        log_likelihood=False,
        predictive=False,
    )
    seconds, most = time.perf_counter() - begun, held()[1] - before
    on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    last = float(np.asarray(data.posterior["a"][-1, -1]).mean())
    return {"seconds": seconds, "MB": most, "disk": on_disk / 1e6, "last": last}


def imported() -> dict[str, Any]:
    """MB that the import of ArviZ and Zarr takes in this process."""
    before, _ = held()
    arviz()
    import_module("zarr")
    return {"MB": held()[0] - before}


def in_its_own_process(*arguments: str) -> dict[str, Any]:
    """What this program prints of one run, or why it failed."""
    command = [sys.executable, "-m", "benchmarks.scale.draws", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return {"error": f"exit status {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}"}
    return json.loads(ended.stdout.strip().splitlines()[-1])


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--only", choices=("stored", "in memory"), action="append")
    parser.add_argument("--draw", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--import", dest="is_import", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.is_import:
        print(json.dumps(imported()))
        return
    if options.draw:
        print(json.dumps(draw(options.draw[0], options.groups, options.draws, Path(options.draw[1]))))
        return
    numbers = CHAINS * options.draws * options.groups
    print(f"{CHAINS} x {options.draws:,} draws of {options.groups:,} numbers, {8 * numbers / 1e6:,.0f} MB in float64")
    print(f"The import of ArviZ and Zarr alone: {in_its_own_process('--import')['MB']:,.0f} MB")
    print(f"{'draws':<12}{'seconds':>10}{'MB above import':>18}{'MB on disk':>13}{'mean of the last':>19}")
    for how in options.only or ("stored", "in memory"):
        with tempfile.TemporaryDirectory() as folder:
            one = in_its_own_process(
                "--groups", str(options.groups), "--draws", str(options.draws), "--draw", how, folder
            )
        if "error" in one:
            print(f"{how:<12}{one['error']}")
            continue
        print(
            f"{how:<12}{one['seconds']:>10.1f}{one['MB']:>18,.0f}{one['disk']:>13,.0f}{one['last']:>19.12f}", flush=True
        )


if __name__ == "__main__":
    main()
