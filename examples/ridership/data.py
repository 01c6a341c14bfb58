"""Trips by hour, origin and destination, and what the calendar says about an hour."""

import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROW = np.dtype([("date", "datetime64[D]"), ("hour", "i4"), ("origin", "i4"), ("destination", "i4"), ("trips", "i4")])
KINDS = 72  # the hours of a working day, of a Saturday and of a Sunday
TRAINING_DAYS = 11


class Ridership(NamedTuple):
    """Trips [hour, origin, destination] from midnight of the first day, and the stations they are between."""

    trips: np.ndarray
    first: np.datetime64
    stations: np.ndarray

    def days(self, start: int, end: int) -> "Ridership":
        """The days from `start` to `end`, as a series of its own."""
        return Ridership(self.trips[24 * start : 24 * end], self.first + np.timedelta64(start, "D"), self.stations)

    def busiest(self, count: int) -> "Ridership":
        """The stations with most trips from and to others."""
        mine = np.sort(np.argsort(self.trips.sum((0, 1)) + self.trips.sum((0, 2)))[-count:])
        return Ridership(self.trips[:, mine[:, None], mine], self.first, self.stations[mine])

    @property
    def kinds(self) -> np.ndarray:
        """The kind of each hour, from 0 to KINDS − 1."""
        hour = np.arange(len(self.trips))
        weekday = (self.first.astype(int) + 3 + hour // 24) % 7  # day 0 of the calendar, 1 January 1970, is a Thursday
        return 24 * np.maximum(weekday - 4, 0) + hour % 24


def usual_rates(past: Ridership, strength: float = 2.0) -> np.ndarray:
    """Mean trips by kind of hour, shrunk: [kind, origin, destination].

    To each kind are added `strength` hours with trips in proportion to those of the pair at all times, those from its
    origin in such hours and those to its destination in such hours.
    """
    counts = np.bincount(past.kinds, minlength=KINDS)[:, None, None]
    sums = np.stack([past.trips[past.kinds == kind].sum(0) for kind in range(KINDS)])
    means, pair = sums / np.maximum(counts, 1) + 1e-3, past.trips.mean(0) + 1e-3
    share = means / pair.mean()
    shape = share.mean(2, keepdims=True) * share.mean(1, keepdims=True) / share.mean((1, 2), keepdims=True)
    size = pair * pair.mean() / (pair.mean(1, keepdims=True) * pair.mean(0)) * pair.mean()
    return (sums + strength * size * shape) / (counts + strength)


def load(folder: Path) -> Ridership:
    """August 2025 in Bengaluru, at the stations where people depart and arrive on each of its days."""
    with lzma.open(folder / "namma_metro" / "od_hourly_2025-08.csv.xz", "rt") as file:
        rows = np.loadtxt(file, ROW, delimiter=",", skiprows=1)
    first = rows["date"].min()
    hour = 24 * (rows["date"] - first).astype(int) + rows["hour"]
    days, stations = hour.max() // 24 + 1, max(rows["origin"].max(), rows["destination"].max()) + 1
    trips = np.zeros((24 * days, stations, stations), np.int32)
    np.add.at(trips, (hour, rows["origin"], rows["destination"]), rows["trips"])
    daily = trips.reshape(days, 24, stations, stations).sum(1)
    present = np.flatnonzero((daily.any(2) & daily.any(1)).all(0))
    return Ridership(trips[:, present[:, None], present], first, present)


def simulated(stations: int = 5, days: int = 18, seed: int = 0) -> Ridership:
    """Two peaks on working days, one on others, nothing at night; a level that wanders, the same for all pairs."""
    random = np.random.default_rng(seed)
    empty = Ridership(np.zeros((24 * days, stations, stations)), np.datetime64("2025-08-01"), np.arange(stations))
    hour, kind = empty.kinds % 24, empty.kinds // 24
    peaks = np.exp(-(((hour - 9) / 2) ** 2)) + np.exp(-(((hour - 18) / 2.5) ** 2))
    season = np.where(kind == 0, 0.2 + peaks, 0.2 + 0.8 * np.exp(-(((hour - 14) / 5) ** 2))) * (hour >= 5)
    level = np.zeros(24 * days)
    for t in range(1, len(level)):
        level[t] = 0.9 * level[t - 1] + 0.1 * random.normal()
    size = random.gamma(2.0, size=(2, stations))
    rates = 5.0 * (season * np.exp(level))[:, None, None] * size[0][:, None] * size[1]
    return empty._replace(trips=random.poisson(rates) * (random.uniform(size=rates.shape) > 0.05))
