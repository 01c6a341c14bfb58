"""Fit the four variants, and print their criteria and timings beside the paper's.

python -m examples.harbour_seals --quick
python -m examples.harbour_seals --full --data FOLDER --out FOLDER
"""

import argparse
import os
import sys
from collections.abc import Sequence
from math import nan
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import jax

from examples.harbour_seals.data import FILE, Tracks, fake, read
from examples.harbour_seals.fit import evidence_and_gradient, fitted_aic
from examples.harbour_seals.model import VARIANTS, Variant, draw_parameters
from examples.harbour_seals.plots import draw_scaling
from examples.harbour_seals.scaling import METHODS, Timing, grid, seconds

# Table 1: AIC in thousands; seconds for evidence and gradient, sequential and parallel, on a GPU of 2018.
PAPER = {
    "No RE": (299.3, 3.21, 0.033),
    "Individual RE": (288.2, 3.54, 0.033),
    "Group RE": (288.8, 3.70, 0.042),
    "Individual+Group RE": (288.0, 4.01, 0.052),
}


class Size(NamedTuple):
    """How much is done."""

    length: int
    steps: int
    seeds: int
    trials: int
    individuals: tuple[int, ...]
    lengths: tuple[int, ...]


QUICK = Size(length=30, steps=10, seeds=1, trials=3, individuals=(4,), lengths=(64,))
FULL = Size(length=1789, steps=1000, seeds=3, trials=20, individuals=(1, 10, 100), lengths=(100, 1000, 10000))


def main(argv: Sequence[str] | None = None) -> int:
    """Everything, in the order of the paper."""
    asked = parse(argv)
    if asked.full and not has_data(asked.data):
        print(f"--full needs the seals: give --data FOLDER, or set FUBINI_DATA, so that FOLDER/{FILE} is there.")
        return 2
    size = (FULL if asked.full else QUICK)._replace(**{k: v for k, v in asked_sizes(asked).items() if v is not None})
    tracks = load(asked.data, size.length)
    methods = METHODS if asked.full else METHODS[:1]
    variants = asked.variants or (range(4) if asked.full else [3])
    print_variants(tracks, [VARIANTS[at] for at in variants], size, asked.values, methods)
    timings = print_scaling(size, asked.values)
    if asked.out is not None:
        print(f"\nwrote {draw_scaling(timings, asked.out)}")
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.harbour_seals", description=__doc__)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="one variant, short tracks, a tiny grid (the default)")
    mode.add_argument("--full", action="store_true", help="whole tracks, several seeds, the whole grid")
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--out", type=Path, help="folder for the picture of the grid")
    parser.add_argument("--steps", type=int, help="of Adam")
    parser.add_argument("--seeds", type=int, help="random starts of each variant")
    parser.add_argument("--values", type=int, default=3, help="of each random effect (the paper's program: 4)")
    names = ", ".join(f"{at} {variant.name}" for at, variant in enumerate(VARIANTS))
    parser.add_argument(
        "--variants", type=int, nargs="+", choices=range(4), help=f"{names}; all, or 3 in the quick mode"
    )
    return parser.parse_args(argv)


def asked_sizes(asked: argparse.Namespace) -> dict[str, int | None]:
    """The sizes that the command line may change."""
    return {"steps": asked.steps, "seeds": asked.seeds}


def has_data(folder: Path | str | None) -> bool:
    """Whether the tracks are there."""
    return folder is not None and Path(folder, FILE).exists()


def load(folder: Path | str | None, length: int) -> Tracks:
    """The seals' tracks, or where there are none, others of their number made up."""
    if folder is not None and has_data(folder):
        tracks = read(folder).shortened(length)
        print(f"{int(tracks.exists.sum())} seals, {length} steps of 2 h at most")
        return tracks
    print("no data given: made-up tracks, whose criteria mean nothing")
    return fake(jax.random.key(0), 10, length)


def print_variants(
    tracks: Tracks, variants: Sequence[Variant], size: Size, values: int, methods: Sequence[str]
) -> None:
    """Table 1: ours, and the paper's.

    The paper's series were smoothed from the same tracks by another program, and its program writes zeros as 1e-6 and
    gives them a density beside their mass; here they have a mass alone. So the levels differ; compare the differences.
    """
    print(f"{size.steps} steps of Adam, random starts: {size.seeds}; seconds for evidence and gradient")
    columns = ("best", "paper", "sequential", "paper", "parallel", "paper")
    print(f"{'':20}{'AIC/1000 mean ± sd':>19}" + "".join(f"{column:>11}" for column in columns))
    for variant in variants:
        keys = [jax.random.key(seed) for seed in range(size.seeds)]
        found = [fitted_aic(key, tracks, variant, values, size.steps) / 1000 for key in keys]
        print(f"{variant.name:20}{with_spread(found):>19}{min(found):11.3f}", end="")
        taken = times(tracks, variant, values, size.trials, methods)
        aic, *paper = PAPER[variant.name]
        print(
            f"{aic:11.1f}" + "".join(f"{ours:11.4f}{theirs:11.3f}" for ours, theirs in zip(taken, paper, strict=True))
        )


def with_spread(found: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return f"{mean(found):.3f} ± " + (f"{stdev(found):.3f}" if len(found) > 1 else "-")


def times(tracks: Tracks, variant: Variant, values: int, trials: int, methods: Sequence[str]) -> list[float]:
    """Seconds for evidence and gradient by each method; NaN for those that are not asked for."""
    parameters = draw_parameters(jax.random.key(0), variant, values, len(tracks.step))
    return [
        seconds(evidence_and_gradient, parameters, tracks, method, trials=trials) if method in methods else nan
        for method in METHODS
    ]


def print_scaling(size: Size, values: int) -> list[Timing]:
    """Figure 19: sizes against seconds."""
    print(f"\n{'individuals':>12}{'steps':>8}{'sequential':>12}{'parallel':>12}{'speedup':>9}")
    timings = []
    for timing in grid(jax.random.key(1), size.individuals, size.lengths, values, size.trials):
        timings.append(timing)
        ratio = timing.sequential / timing.parallel
        print(f"{timing.individuals:12}{timing.length:8}{timing.sequential:12.5f}{timing.parallel:12.5f}{ratio:8.1f}×")
    return timings


if __name__ == "__main__":
    sys.exit(main())
