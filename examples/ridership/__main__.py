"""Hourly trips between all stations of a metro, forecast for a week by a neural variational Kalman filter.

    python -m examples.ridership                          # few stations, one guide, few steps, or a metro made up
    python -m examples.ridership --full --dimension 2     # minutes: all stations that were open throughout

The table has the figures of the paper beside ours (Functional tensors for probabilistic programming, Table 3): it is of
another metro, with hundreds of times as many hours.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from .data import TRAINING_DAYS, Ridership, load, simulated, usual_rates
from .forecast import by_model, by_season, last_by_chain, last_by_mean_field, paths
from .model import collapsed_bound, mean_field_bound
from .plots import busiest, draw
from .scores import Days, Scores, bands, score
from .train import learn, series_of

GUIDES = {"mean field": (mean_field_bound, last_by_mean_field), "collapsed": (collapsed_bound, last_by_chain)}
PAPER = {  # by dimension: mean absolute error and CRPS of pairs; the print leaves the order of the collapsed ones open
    "mean field": {2: (2.39, 1.78), 4: (2.35, 1.76), 8: (2.33, 1.74)},
    "collapsed": {2: (2.76, 2.06), 4: (2.59, 1.93), 8: (2.65, 1.95)},
}
HEADER = """\
                           |    single pairs of stations    |     paper's    |     departures     |      arrivals
forecast                   |  error   CRPS   cover  all day |  error / CRPS  |    CRPS   cover    |    CRPS   cover"""
FOOTER = """\
error: mean absolute error of the median. cover: how many truths lie in 80 % intervals from 5 to 24 h; all day: in all
hours, where nights are zeros. Trips are zero-inflated Poisson, independent given a state that all stations share: this
is for single pairs; intervals of sums over pairs (departures, arrivals) know nothing of what befalls one station."""


class Data(NamedTuple):
    """The days to learn from and the days to forecast."""

    past: Ridership
    future: Ridership


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.full and options.data is None:
        print("The full mode needs the trips: --data FOLDER, or the variable FUBINI_DATA.", file=sys.stderr)
        return 2
    whole = load(options.data) if options.data else simulated()
    stations = options.stations or (None if options.full else 6)
    ridership = whole.busiest(stations) if stations else whole
    data = Data(ridership.days(0, TRAINING_DAYS), ridership.days(TRAINING_DAYS, len(ridership.trips) // 24))
    print(
        f"{len(ridership.stations)} stations, {len(data.past.trips)} hours from {data.past.first} to learn from, ",
        end="",
    )
    print(f"{len(data.future.trips)} to forecast; {options.draws} draws.\n{HEADER}")
    print(row("seasonal mean", [score(by_season(*data, options.draws, 0), data.future.trips)], None), flush=True)
    guides = list(GUIDES) if options.full else ["collapsed"]
    limits = {name: compare(name, data, options) for name in guides}
    print(FOOTER)
    if options.out:
        draw(data.future, limits, options.out / f"ridership_{options.dimension}.png")
    return 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m examples.ridership", description=__doc__.split("\n")[0])
    mode = found.add_mutually_exclusive_group()
    mode.add_argument(
        "--quick", dest="full", action="store_false", help="few stations, one guide, few steps (the default)"
    )
    mode.add_argument("--full", action="store_true", help="all stations")
    folder = os.environ.get("FUBINI_DATA")
    found.add_argument("--data", type=Path, default=Path(folder) if folder else None, help="default: FUBINI_DATA")
    found.add_argument("--out", type=Path, help="a folder for the picture")
    found.add_argument("--dimension", type=int, default=2, help="of the state; the paper has 2, 4 and 8")
    found.add_argument("--steps", type=int, help="of Adam; 300, or 20 in the quick mode")
    found.add_argument("--seeds", type=int, default=1, help="how often to start anew")
    found.add_argument("--draws", type=int, default=100, help="of the week to come")
    found.add_argument("--stations", type=int, help="only the busiest")
    found.set_defaults(full=False)
    return found


def compare(name: str, data: Data, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """One line of the table, printed; the intervals for the picture if one is wanted."""
    steps = options.steps or (300 if options.full else 20)
    began, found, limits = time.perf_counter(), [], {}
    for seed in range(options.seeds):
        days = forecast(name, data, options, seed, steps)
        found.append(score(days[0], data.future.trips))
        if options.out and seed == 0:
            limits = bands(days[1], busiest(data.future))
    paper = PAPER[name].get(options.dimension) if options.data else None
    print(row(f"{name}, dimension {options.dimension}", found, paper), end="")
    print(f"   ({(time.perf_counter() - began) / options.seeds:.0f} s a seed)", flush=True)
    return limits


def forecast(name: str, data: Data, options: argparse.Namespace, seed: int, steps: int) -> tuple[Days, Days]:
    """A guide learnt, and its forecast, twice to go through."""
    bound, last = GUIDES[name]
    usual = usual_rates(data.past)
    past, future = (series_of(days, usual) for days in data)
    key, walk = jax.random.split(jax.random.key(seed))
    p, _ = learn(bound, past, key, options.dimension, steps)
    states = paths(p, past, walk, last=last, hours=len(future.trips), draws=options.draws)
    first, second = (by_model(p, states, future.calendar, seed) for _ in range(2))
    return first, second


def row(name: str, found: list[dict[str, Scores]], paper: tuple[float, float] | None) -> str:
    """One line of the table: means over seeds."""
    mean = {view: Scores(*np.mean([scores[view] for scores in found], axis=0)) for view in found[0]}
    pairs = mean["pairs"]
    theirs = "{:.2f} / {:.2f}".format(*paper) if paper else ""
    text = f"{name:<26} | {pairs.error:6.3f} {pairs.crps:6.3f}  {pairs.covered_in_service:6.1%} {pairs.covered:7.1%} "
    totals = (f" {mean[view].crps:7.2f}  {mean[view].covered_in_service:6.1%}  " for view in ("departures", "arrivals"))
    return f"{text} | {theirs:<14} |" + "  |".join(totals)


if __name__ == "__main__":
    sys.exit(main())
