"""`fubini infer` on six real data sets, the models under examples/command_line; answers by NumPy alone beside them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from fubini.cli import main

MODELS = Path(__file__).parents[2] / "examples" / "command_line"
DRAWS = ("--draws", "400", "--chains", "2", "--quiet")


class Found:
    """What `fubini infer` printed as JSON."""

    def __init__(self, printed: str) -> None:
        content = json.loads(printed)
        self.log_evidence = content["log_evidence"]
        self.entries = {entry["name"]: entry for entry in content["entries"]}

    def require(self, name: str, mean: float) -> None:
        """A mean within five standard errors."""
        entry = self.entries[name]
        assert entry["mean"] == pytest.approx(mean, abs=5 * entry["sd"] / np.sqrt(entry["effective_draws"])), name
        assert entry["r_hat"] < 1.03


@pytest.fixture
def infer(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable:
    def run(model: str, file: str, *options: str) -> Found:
        monkeypatch.chdir(tmp_path)
        arguments = ["infer", str(MODELS / model), "--data", str(data / file), "--out", "report.html", "--json"]
        assert main([*arguments, *DRAWS, *options]) == 0
        page = Path("report.html").read_text(encoding="utf-8")
        assert all(heading in page for heading in ("The posterior", "How it was integrated", "To make it again"))
        return Found(capsys.readouterr().out)

    return run


def mixed(
    y: np.ndarray, A: np.ndarray, scales: Callable, priors: list[tuple[float, float, float]], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """E[θ | y] and E[b | y] of y ~ N(A b, σ²), b ~ N(0, scales(θ)²), σ the first of θ: by a grid over θ.

    Each of θ is half normal: its scale, and the ends of the grid.
    """
    axes = [np.linspace(low, high, count) for _, low, high in priors]
    points = np.array(list(itertools.product(*axes)))
    logs, means = [], []
    for point in points:
        root = A * scales(point)
        inner = np.eye(root.shape[1]) + root.T @ root / point[0] ** 2
        pull = root.T @ y / point[0] ** 2
        solved = np.linalg.solve(inner, pull)
        logs.append(0.5 * pull @ solved - 0.5 * y @ y / point[0] ** 2 - 0.5 * np.linalg.slogdet(inner)[1])
        logs[-1] -= len(y) * np.log(point[0])
        means.append(scales(point) * solved)
    halves = np.array([stats.halfnorm.logpdf(points[:, k], scale=prior[0]) for k, prior in enumerate(priors)])
    weights = special.softmax(np.array(logs) + halves.sum(axis=0))
    return weights @ points, weights @ np.array(means)


def test_radon(infer: Callable, data: Path) -> None:
    """The column `county` holds numbers of counties, and the model has a site of that name."""
    found = infer("radon.py", "classic/radon_minnesota.csv", "--skip", "county")
    frame = pd.read_csv(data / "classic" / "radon_minnesota.csv")
    labels, codes = np.unique(frame["county.name"], return_inverse=True)
    A = np.column_stack([np.ones(len(frame)), frame.uranium, frame.basement, np.eye(len(labels))[codes]])
    theta, b = mixed(
        frame["log.radon"].to_numpy(),
        A,
        lambda theta: np.r_[2.0, 2.0, 1.0, np.full(len(labels), theta[1])],
        [(1.0, 0.68, 0.85), (1.0, 0.005, 0.4)],
        21,
    )
    for name, mean in zip(["sigma", "tau", "intercept", "slope", "effect"], [*theta, *b[:3]], strict=True):
        found.require(name, mean)
    assert f"county[{labels[0]}]" in found.entries


def test_growth(infer: Callable, data: Path) -> None:
    found = infer("growth.py", "r2/hiv.csv", "--draws", "150")
    frame = pd.read_csv(data / "r2" / "hiv.csv")
    one = np.eye(frame.person.max() + 1)[frame.person]
    A = np.column_stack([np.ones(len(frame)), frame.time, one, one * frame.time.to_numpy()[:, None]])
    count = one.shape[1]
    theta, b = mixed(
        frame.y.to_numpy(),
        A,
        lambda theta: np.r_[10.0, 2.0, np.full(count, theta[1]), np.full(count, theta[2])],
        [(2.0, 0.62, 0.92), (3.0, 0.95, 2.0), (2.0, 0.1, 1.4)],
        9,
    )
    for name, mean in zip(["sigma", "between", "slopes", "mean", "trend"], [*theta, *b[:2]], strict=True):
        found.require(name, mean)


def test_nile(infer: Callable, data: Path) -> None:
    """A site cannot be called `value`: it is `flow`, and --map says which column that is."""
    found = infer("nile.py", "classic/nile.csv", "--map", "flow=value")
    y = pd.read_csv(data / "classic" / "nile.csv").value.to_numpy()
    steps = np.tril(np.ones((len(y), len(y))))
    theta, b = mixed(
        y - 1000.0,
        np.column_stack([np.ones(len(y)), steps]),
        lambda theta: np.r_[300.0, np.full(len(y), theta[1])],
        [(150.0, 80.0, 175.0), (50.0, 2.0, 130.0)],
        33,
    )
    for name, mean in zip(["noise", "step", "start"], [*theta, 1000.0 + b[0]], strict=True):
        found.require(name, mean)


def test_admissions(infer: Callable, data: Path) -> None:
    """Rates by department and sex, with the labels of both."""
    found = infer("admissions.py", "classic/ucb_admissions.csv")
    frame = pd.read_csv(data / "classic" / "ucb_admissions.csv")
    for row in frame.itertuples():
        found.require(f"rate[{row.dept}, {row.gender}]", (1 + row.admit) / (2 + row.applications))
    evidence = special.betaln(1 + frame.admit, 1 + frame.reject) + np.log(special.comb(frame.applications, frame.admit))
    assert found.log_evidence == pytest.approx(evidence.sum(), rel=1e-9)


def test_coal(infer: Callable, data: Path) -> None:
    found = infer("coal.py", "classic/coal_disaster_yearly.csv")
    counts = pd.read_csv(data / "classic" / "coal_disaster_yearly.csv")["count"].to_numpy()

    def log_p(part: np.ndarray) -> float:
        shape, rate = 2 + part.sum(), 1 + len(part)
        return float(special.gammaln(shape) - shape * np.log(rate) - special.gammaln(part + 1).sum())

    logs = np.array([log_p(counts[:k]) + log_p(counts[k:]) for k in range(len(counts))])
    assert found.log_evidence == pytest.approx(special.logsumexp(logs) - np.log(len(counts)), rel=1e-9)
    found.require("change", special.softmax(logs) @ np.arange(len(counts)))


def test_baseball(infer: Callable, data: Path) -> None:
    """The column is called At-Bats, the argument At_Bats."""
    found = infer("baseball.py", "classic/efron_morris_baseball.csv")
    frame = pd.read_csv(data / "classic" / "efron_morris_baseball.csv")
    tries, hits = frame["At-Bats"].to_numpy(), frame.Hits.to_numpy()
    centre, players = np.meshgrid(np.linspace(0.15, 0.4, 101), np.linspace(1.0, 900.0, 400), indexing="ij")
    a, b = (part[..., None] * players[..., None] for part in (centre, 1 - centre))
    log_p = (special.betaln(a + hits, b + tries - hits) - special.betaln(a, b)).sum(axis=-1)
    log_p += stats.beta.logpdf(centre, 2, 5) + stats.gamma.logpdf(players, 2, scale=50)
    weights = special.softmax(log_p)
    found.require("centre", (weights * centre).sum())
    found.require("players", (weights * players).sum())
    rate = (weights[..., None] * (a + hits) / (a + b + tries)).sum(axis=(0, 1))
    found.require("rate[Clemente]", rate[list(frame.LastName).index("Clemente")])
