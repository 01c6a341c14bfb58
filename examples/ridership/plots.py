"""A week of forecasts at the busiest station, as in the paper's Figure 22."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from .data import Ridership
from .scores import VIEWS

COLOURS = ("tab:pink", "tab:blue")


def busiest(future: Ridership) -> int:
    """The place of the station with most trips."""
    return int(np.argmax(VIEWS["departures"](future.trips).sum(0) + VIEWS["arrivals"](future.trips).sum(0)))


def draw(future: Ridership, found: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """80 % intervals by each guide, and the truth."""
    station, hours = busiest(future), np.arange(len(future.trips))
    figure = Figure(figsize=(10, 5), layout="constrained")
    for axes, view in zip(figure.subplots(2, sharex=True), ("departures", "arrivals"), strict=True):
        for (guide, limits), colour in zip(found.items(), COLOURS, strict=False):
            axes.fill_between(hours, *limits[view], color=colour, alpha=0.4, lw=0, label=guide)
        axes.plot(hours, VIEWS[view](future.trips)[:, station], "k-", lw=1, label="truth")
        axes.set(ylabel=f"{view}, station {future.stations[station]}", xticks=hours[::24])
    axes.set(xlabel=f"hours from {future.first}")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
