"""The models at their data, what is expected to be left of each, and what is compared."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.twelve import models, peers

Draws = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One model: `post` at its data, the same for NumPyro, the sites left, and quantities of draws [chain, draw, …].

    `method` is how the sites left are drawn.
    """

    name: str
    post: Callable[[], Any]
    peer: Callable[[], tuple[Callable[..., None], tuple]]
    left: tuple[str, ...]
    method: str
    quantities: Callable[[Draws], dict[str, np.ndarray]]
    data: str = ""  # the file that it needs


def column(folder: Path, file: str, name: str, kind: type = float) -> np.ndarray:
    """One column of a table."""
    with (folder / "classic" / file).open(newline="") as rows:
        return np.array([kind(row[name]) for row in csv.DictReader(rows)])


def plain(*names: str) -> Callable[[Draws], dict[str, np.ndarray]]:
    """Sites as they are; NumPyro does not draw those that it enumerates."""
    return lambda draws: {name: draws[name] for name in names if name in draws}


def by_mean(*names: str) -> Callable[[Draws], dict[str, np.ndarray]]:
    """Sites with an entry for each component, which is known by the order of the means."""

    def of(draws: Draws) -> dict[str, np.ndarray]:
        order = np.argsort(draws["mean"], axis=-1)
        return {name: np.take_along_axis(draws[name], order, axis=-1) for name in names}

    return of


def _covariance(draws: Draws) -> dict[str, np.ndarray]:
    """What loadings say of the data, whatever their signs and rotation."""
    loading = draws["loading"]
    return {"covariance": np.einsum("...ik,...jk->...ij", loading, loading), "noise": draws["noise"]}


def _staying(draws: Draws) -> dict[str, np.ndarray]:
    """Components by the order of their means; how long each stays."""
    order = np.argsort(draws["mean"], axis=-1)
    stay = np.diagonal(draws["move"], axis1=-2, axis2=-1)
    found = {"mean": draws["mean"], "stay": stay}
    return {**{k: np.take_along_axis(v, order, axis=-1) for k, v in found.items()}, "sigma": draws["sigma"]}


SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SPREAD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def cases(folder: Path | None) -> list[Case]:
    """All twelve; those that need a file of `folder` are left out where it is None."""
    random = np.random.default_rng(20261115)
    pupils = SCHOOLS[:, None] + random.normal(0.0, 15.0, (8, 5))
    x = random.normal(size=(100, 5))
    y = x @ np.array([1.0, -2.0, 0.5, 0.0, 3.0]) + 0.7 + random.normal(0.0, 1.5, 100)
    loading = np.array([[1.0, 0.0], [0.8, 0.3], [0.6, -0.5], [0.0, 0.9], [-0.4, 0.7], [0.5, 0.5]])
    measured = random.normal(size=(80, 2)) @ loading.T + random.normal(0.0, 0.5, (80, 6))
    states = np.cumsum(random.uniform(size=120) < 0.1) % 2
    emitted = np.array([-1.0, 2.0])[states] + random.normal(0.0, 0.8, 120)
    counts = random.poisson(3.0, 60) * (random.uniform(size=60) < 0.6)
    ability, difficulty = random.normal(size=40), np.linspace(-1.5, 1.5, 8)
    answers = (random.uniform(size=(40, 8)) < 1 / (1 + np.exp(difficulty - ability[:, None]))).astype(int)
    found = [
        Case(
            "eight schools",
            lambda: models.eight_schools(SPREAD).condition(y=SCHOOLS),
            lambda: (peers.eight_schools, (SPREAD, SCHOOLS)),
            ("tau",),
            "grid",
            plain("mu", "tau", "theta"),
        ),
        Case(
            "eight schools, variance unknown",
            lambda: models.eight_schools_unknown(8, 5).condition(y=pupils),
            lambda: (peers.eight_schools_unknown, (pupils,)),
            ("tau", "sigma"),
            "grid",
            plain("mu", "tau", "sigma", "theta"),
        ),
        Case(
            "linear regression",
            lambda: models.regression(x).condition(y=y),
            lambda: (peers.regression, (x, y)),
            ("sigma",),
            "grid",
            plain("w", "b", "sigma"),
        ),
        Case(
            "factor analysis",
            lambda: models.factor_analysis(80, 6, 2).condition(x=measured),
            lambda: (peers.factor_analysis, (measured, 2)),
            ("loading", "noise"),
            "nuts",
            _covariance,
        ),
        Case(
            "hidden Markov model",
            lambda: models.hidden_markov(120, 2).condition(y=emitted),
            lambda: (peers.hidden_markov, (emitted, 2)),
            ("move", "mean", "sigma"),
            "nuts",
            _staying,
        ),
        Case(
            "zero-inflated counts",
            lambda: models.zero_inflated(60).condition(y=counts),
            lambda: (peers.zero_inflated, (counts,)),
            ("present", "rate"),
            "grid",
            plain("present", "rate"),
        ),
        Case(
            "item response",
            lambda: models.item_response(40, 8).condition(y=answers),
            lambda: (peers.item_response, (answers,)),
            ("ability", "difficulty", "sharpness"),
            "nuts",
            plain("ability", "difficulty", "sharpness"),
        ),
    ]
    return found if folder is None else [*found, *_with_files(folder)]


def _with_files(folder: Path) -> list[Case]:
    county = column(folder, "radon_minnesota.csv", "county", int) - 1
    basement = column(folder, "radon_minnesota.csv", "basement")
    log_radon = column(folder, "radon_minnesota.csv", "log.radon")
    counties = int(county.max()) + 1
    nile = column(folder, "nile.csv", "value")
    coal = column(folder, "coal_disaster_yearly.csv", "count", int)
    at_bats = column(folder, "efron_morris_baseball.csv", "At-Bats", int)
    hits = column(folder, "efron_morris_baseball.csv", "Hits", int)
    eruptions = column(folder, "old_faithful.csv", "eruptions")
    return [
        Case(
            "radon",
            lambda: models.radon(county, basement, counties).condition(y=log_radon),
            lambda: (peers.radon, (county, basement, counties, log_radon)),
            ("between", "within"),
            "grid",
            plain("mu", "slope", "between", "within", "alpha"),
            "radon_minnesota.csv",
        ),
        Case(
            "Gaussian mixture",
            lambda: models.mixture(len(eruptions), 2).condition(x=eruptions),
            lambda: (peers.mixture, (eruptions, 2)),
            ("weight", "mean", "spread"),
            "nuts",
            by_mean("weight", "mean", "spread"),
            "old_faithful.csv",
        ),
        Case(
            "local level",
            lambda: models.local_level(len(nile)).condition(y=nile),
            lambda: (peers.local_level, (nile,)),
            ("wander", "noise"),
            "grid",
            plain("start", "wander", "noise", "level"),
            "nile.csv",
        ),
        Case(
            "change point",
            lambda: models.change_point(len(coal)).condition(y=coal),
            lambda: (peers.change_point, (coal,)),
            (),
            "exact",
            plain("early", "late", "change"),
            "coal_disaster_yearly.csv",
        ),
        Case(
            "batting",
            lambda: models.batting(at_bats).condition(hits=hits),
            lambda: (peers.batting, (at_bats, hits)),
            ("mean", "log_kappa"),
            "grid",
            plain("mean", "log_kappa", "theta"),
            "efron_morris_baseball.csv",
        ),
    ]
