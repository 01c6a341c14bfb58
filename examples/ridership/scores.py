"""How well draws of all trips fit the trips that came."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

Days = Iterator[np.ndarray]  # draws for one day at a time: [draw, hour, origin, destination]

LOW, HIGH = 0.1, 0.9
IN_SERVICE = np.arange(24) >= 5  # at night nearly all is zero, and every interval covers it

VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "pairs": lambda trips: trips,
    "departures": lambda trips: trips.sum(-1),
    "arrivals": lambda trips: trips.sum(-2),
}


class Scores(NamedTuple):
    """The mean absolute error of the median, the continuous ranked probability score, and what 80 % intervals cover."""

    error: float
    crps: float
    covered: float
    covered_in_service: float


def score(days: Days, truth: np.ndarray) -> dict[str, Scores]:
    """Scores of single pairs of stations, and of all departures from and arrivals at a station."""
    found: dict[str, list] = {name: [] for name in VIEWS}
    for draws, seen in zip(days, truth.reshape(-1, 24, *truth.shape[1:]), strict=True):
        for name, view in VIEWS.items():
            found[name].append(score_day(view(draws), view(seen)))
    return {name: averaged(*map(np.stack, zip(*parts, strict=True))) for name, parts in found.items()}


def score_day(draws: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, ...]:
    """Error, score and cover: each [hour, …]."""
    ordered = np.sort(draws.astype(np.float32), axis=0)
    inside = (quantile(ordered, LOW) <= truth) & (truth <= quantile(ordered, HIGH))
    return np.abs(quantile(ordered, 0.5) - truth), crps(ordered, truth), inside


def crps(ordered: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """E|X − y| − ½ E|X − X′| under the draws, which are in order along the first axis."""
    draws = len(ordered)
    ranks = (2.0 * np.arange(draws) + 1.0 - draws) / draws**2
    return np.abs(ordered - truth).mean(0) - np.tensordot(ranks.astype(ordered.dtype), ordered, 1)


def quantile(ordered: np.ndarray, level: float) -> np.ndarray:
    """The least draw that at least this share of all does not exceed."""
    return ordered[max(int(np.ceil(level * len(ordered))) - 1, 0)]


def averaged(error: np.ndarray, ranked: np.ndarray, inside: np.ndarray) -> Scores:
    """The means over days, hours and places."""
    return Scores(*(float(part.mean()) for part in (error, ranked, inside, inside[:, IN_SERVICE])))


def bands(days: Days, station: int) -> dict[str, np.ndarray]:
    """Limits of the 80 % intervals of departures and arrivals at one station: [2, hour]."""
    found: dict[str, list] = {"departures": [], "arrivals": []}
    for draws in days:
        for name, limits in found.items():
            ordered = np.sort(VIEWS[name](draws)[..., station], axis=0)
            limits.append(np.stack([quantile(ordered, LOW), quantile(ordered, HIGH)]))
    return {name: np.concatenate(limits, axis=1) for name, limits in found.items()}
