"""One model, several representations: a point that moves around a circle, driven by the quadrant it is in.

    python -m examples.quadrants                    # tables of errors and times, for three settings
    python -m examples.quadrants --stickiness 0.1   # the same where the driving quadrant may stay what it was
    python -m examples.quadrants --seeds 5          # errors of particles as means over keys
    python -m examples.quadrants --figure out.png   # and the paths of filter and smoother

F is the position, S the quadrant that drives it: F moves along the tangent of S with some noise, S follows the quadrant
that F is in, and Y is F with noise. The model is written once; `fb.represent` says how F is stored.

Why more components alone do not reach the grid (HARD, `Mixture(8)` stops at -35.44, the grid has -35.16): each Gaussian
that an axis cuts is replaced by one Gaussian of the same moments, which leaks over the cut again. More components keep
apart what is apart already; they do not follow the edge within one component. `Mixture(8, split=3)` first splits what
an axis cuts into three narrower Gaussians along it, and reaches -35.165.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import fubini as fb
from fubini import dist


class Setting(NamedTuple):
    """Radius of the circle, number of steps, noise of the observations and of the moves."""

    radius: float
    steps: int
    seen: float
    moved: float


SETTINGS = {
    "EASY": Setting(4.0, 64, 0.5, 0.15),
    "MEDIUM": Setting(2.0, 32, 1.0, 0.3),
    "HARD": Setting(1.0, 16, 1.0, 0.3),
}


def observations(setting: Setting) -> np.ndarray:
    """Points on a circle, without noise."""
    angle = 2 * np.pi * np.arange(setting.steps) / setting.steps + np.pi / 8
    return setting.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def drift(setting: Setting) -> np.ndarray:
    """The move along the tangent in each quadrant, of the length of a step along the circle."""
    angle = np.pi / 4 + np.arange(4) * np.pi / 2
    length = 2 * np.pi * setting.radius / setting.steps
    return length * np.stack([-np.sin(angle), np.cos(angle)], axis=1)


def quadrant(point: fb.Value) -> fb.Value:
    """0 to 3, counter-clockwise from x > 0, y > 0."""
    x, y = point[0], point[1]
    return fb.ops.where(y > 0, fb.ops.where(x > 0, 0, 1), fb.ops.where(x > 0, 3, 2))


def quadrants(setting: Setting, stickiness: float = 0.0) -> fb.Chain:
    """The chain: with probability `stickiness` the driving quadrant stays what it was."""
    F, F_next = fb.Variable("F", fb.Reals[2]), fb.Variable("F_next", fb.Reals[2])
    y = observations(setting)
    follows, stays = np.eye(4)[:, None, :], np.eye(4)[None, :, :]
    table = fb.Array((1 - stickiness) * follows + stickiness * stays, ("q", "S"))
    move = dist.MultivariateNormal(F + fb.Array(drift(setting), ("S",)), setting.moved**2 * np.eye(2))("F_next")
    link = dist.Categorical(probs=table(q=quadrant(F_next)))("S_next")
    seen = dist.MultivariateNormal(F_next, setting.seen**2 * np.eye(2))(fb.Array(y[1:], ("t",)))
    first = dist.MultivariateNormal(y[0], 0.25 * np.eye(2))("F")
    first_link = dist.Categorical(probs=fb.Array(np.eye(4), ("q",))(q=quadrant(F)))("S")
    first_seen = dist.MultivariateNormal(F, setting.seen**2 * np.eye(2))(y[0])
    step = {"S": "S_next", "F": "F_next"}
    return fb.Chain(init=first * first_link * first_seen, factor=move * link * seen, time="t", step=step)


def representations(seed: int = 0) -> dict[str, dict[str, Any]]:
    """The representations that are compared."""
    key = jax.random.key(seed)
    return {
        "Grid 160": {"F": fb.rep.Grid((-8, 8), 160)},
        "Grid 161": {"F": fb.rep.Grid((-8, 8), 161)},
        "Truncated": {"F": fb.rep.Truncated()},
        "Mixture(8)": {"F": fb.rep.Mixture(8)},
        "Mixture(8, split=3)": {"F": fb.rep.Mixture(8, split=3)},
        "Particles(1000)": {"F": fb.rep.Particles(1000, key)},
        "Particles of S, Gaussian F": {"S": fb.rep.Particles(1000, key), "F": fb.rep.Truncated()},
    }


class Answers(NamedTuple):
    """Log-evidence, and the means of the position by filter and smoother; the seconds of a second asking."""

    log_evidence: float
    filtered: np.ndarray
    smoothed: np.ndarray | None
    seconds: float


def ask(chain: fb.Chain, named: dict[str, Any]) -> Answers:
    """Ask the same questions under a representation."""
    with fb.represent(**named):
        chain.log_evidence()
        start = time.perf_counter()
        log_evidence = float(chain.log_evidence())
        seconds = time.perf_counter() - start
        filtered = mean_path(chain.filter())
        try:
            smoothed = mean_path(chain.smooth())
        except fb.FubiniError as error:
            print(str(error).splitlines()[0])
            smoothed = None
    return Answers(log_evidence, filtered, smoothed, seconds)


def mean_path(answer: fb.Factor) -> np.ndarray:
    """The mean of the position after each step."""
    return np.asarray(answer.sum("S_next").mean("F_next").data)


def distance(path: np.ndarray | None, other: np.ndarray | None) -> float:
    """The root of the mean squared distance between two paths."""
    return float("nan") if path is None or other is None else float(np.sqrt(((path - other) ** 2).sum(axis=1).mean()))


class Row(NamedTuple):
    """Log-evidence with its standard error, the distances to the grid, and the seconds, each a mean over keys."""

    name: str
    log_evidence: float
    error: float
    filtered: float
    smoothed: float
    seconds: float


def rows(setting: Setting, stickiness: float = 0.0, seeds: int = 1) -> Iterator[Row]:
    """Each representation against the grid; what is drawn, with each of some keys."""
    chain = quadrants(setting, stickiness)
    reference: Answers | None = None
    for name in representations():
        runs = [ask(chain, representations(seed)[name]) for seed in range(seeds if "Particles" in name else 1)]
        reference = reference or runs[0]
        evidence = np.array([answers.log_evidence for answers in runs])
        yield Row(
            name,
            float(evidence.mean()),
            float(evidence.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else float("nan"),
            float(np.mean([distance(answers.filtered, reference.filtered) for answers in runs])),
            float(np.mean([distance(answers.smoothed, reference.smoothed) for answers in runs])),
            min(answers.seconds for answers in runs),
        )


def draw(path: str, setting: Setting) -> None:
    """Draw the observations and the paths of filter and smoother (figure 2 of the paper)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4))
    chain, y = quadrants(setting), observations(setting)
    shown = {
        name: named for name, named in representations().items() if name in ("Grid 160", "Truncated", "Mixture(8)")
    }
    for place, (name, named) in enumerate(shown.items(), 1):
        answers = ask(chain, named)
        axes = figure.add_subplot(1, len(shown), place, aspect="equal", title=name)
        axes.plot(*y.T, "k.", label="observed")
        axes.plot(*answers.filtered.T, "C1-", label="filter")
        if answers.smoothed is not None:
            axes.plot(*answers.smoothed.T, "C0-", label="smoother")
        axes.axhline(0, color="0.8")
        axes.axvline(0, color="0.8")
        axes.legend()
    figure.savefig(path)


def main() -> None:
    """Print a table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--stickiness", type=float, default=0.0, help="how likely the driving quadrant stays")
    parser.add_argument("--seeds", type=int, default=1, help="keys of the particles")
    parser.add_argument("--figure", help="a file for the paths, in EASY; needs matplotlib")
    options = parser.parse_args()
    print(quadrants(SETTINGS["EASY"]), "\n")
    for name in options.settings:
        print(f"{name:30} log-evidence       ±   filter  smoother  seconds")
        for row in rows(SETTINGS[name], options.stickiness, options.seeds):
            print(
                f"{row.name:30} {row.log_evidence:12.4f} {row.error:7.4f} {row.filtered:8.4f} {row.smoothed:9.4f} "
                f"{row.seconds:8.3f}",
                flush=True,
            )
        print()
    if options.figure:
        draw(options.figure, SETTINGS["EASY"])


if __name__ == "__main__":
    main()
