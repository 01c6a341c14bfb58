"""Files of networks read beside pyAgrum, and tables of a network learnt beside NumPy's bincount.

Each file is written by us from a BIF file, and read by both; a time is the median of interleaved reads. Tables are
learnt from complete rows, as positions and as a data frame of labels; the peer is `np.bincount` of the positions of
each family, which are in memory as whole numbers.

    python -m benchmarks.network_files --data DATA --rows 1000000
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import fubini as fb
from fubini.eliminate.ask import sample

HAS_PYAGRUM = importlib.util.find_spec("pyagrum") is not None
FORMATS = {"bif": "bif", "xmlbif": "bifxml", "net": "net", "xdsl": "xdsl", "uai": "uai"}  # with endings of files
NETWORKS = ("alarm", "hailfinder", "pigs", "munin1")
ROUNDS = 5


def medians(*runs: Callable[[], object]) -> list[float]:
    """Median seconds of each, taken in turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, own in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            own.append(time.perf_counter() - start)
    return [statistics.median(each) for each in times]


def readers(folder: Path) -> None:
    """Print seconds to read each format, and how many times as long pyAgrum takes."""
    print(f"{'network':<12}{'format':<8}{'ours':>10}{'pyAgrum':>10}{'ours/theirs':>13}")
    for name in NETWORKS:
        path = folder / "bayes_nets" / "discrete" / f"{name}.bif.gz"
        if not path.exists():
            continue
        network = fb.io.read_network(path)
        with tempfile.TemporaryDirectory() as made:
            for form, ending in FORMATS.items():
                file = Path(made) / f"{name}.{ending}"
                fb.io.write_network(network, file, format=form)
                runs = [lambda file=file, form=form: fb.io.read_network(file, format=form)]
                if HAS_PYAGRUM:
                    runs.append(lambda file=file: _by_pyagrum(file))
                try:
                    ours, *theirs = medians(*runs)
                except Exception as error:  # a format or a name that it does not take
                    (ours,), theirs = medians(runs[0]), []
                    print(f"  pyAgrum: {str(error).splitlines()[0][:100]}")
                shown = f"{theirs[0]:>9.4f}s{ours / theirs[0]:>13.2f}" if theirs else ""
                print(f"{name:<12}{form:<8}{ours:>9.4f}s{shown}", flush=True)


def _by_pyagrum(file: Path) -> object:
    import pyagrum

    return pyagrum.loadBN(str(file))


def tables(folder: Path, rows: int) -> None:
    """Print seconds to learn the tables of alarm from so many rows, and those of bincount."""
    network = fb.io.read_network(folder / "bayes_nets" / "discrete" / "alarm.bif.gz")
    drawn = sample(jax.random.key(0), network.factors, network.hidden_variables, n=rows)
    codes = {name: np.asarray(values) for name, values in drawn.items()}
    frame = pd.DataFrame(
        {name: pd.Categorical.from_codes(each, list(network.variables[name].labels)) for name, each in codes.items()}
    )
    structure = network.structure

    def by_bincount() -> list[np.ndarray]:
        counts = []
        for name in structure:
            family = (*structure[name], name)
            sizes = tuple(len(network.variables[each].labels) for each in family)
            place = np.ravel_multi_index([codes[each] for each in family], sizes)
            counts.append(np.bincount(place, minlength=int(np.prod(sizes))).reshape(sizes))
        return counts

    learn = [
        lambda given=given: fb.Network.learn(given, structure=structure, prior=1.0, progress=False)
        for given in (codes, frame)
    ]
    learnt = learn[0]().learnt
    for name, count in zip(structure, by_bincount(), strict=True):
        assert np.array_equal(learnt.counts[name], count)
    counted, by_codes, by_labels = medians(by_bincount, *learn)
    print(f"tables of alarm from {rows:,} rows: bincount {counted:.3f} s")
    print(f"  learnt from positions {by_codes:.3f} s, {by_codes / counted:.2f} times as long")
    print(f"  learnt from a data frame of labels {by_labels:.3f} s, {by_labels / counted:.2f} times as long")


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    tables(options.data, options.rows)
    readers(options.data)


if __name__ == "__main__":
    main()
