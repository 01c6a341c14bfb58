"""Extended and unscented Kalman filters and smoothers of a pendulum, beside dynamax.

Each is one compiled function of the observations; the first call, which compiles, is timed apart. Both begin from the
state at the first observation, so that the evidences, which are printed, agree.

    python -m benchmarks.nonlinear_sequences --steps 5000
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from benchmarks.timing import interleaved
from fubini import dist

HAS_DYNAMAX = importlib.util.find_spec("dynamax") is not None
DT, NOISE = 0.0125, 0.3
MEAN, SPREAD = np.array([1.5, 0.0], np.float32), 0.1 * np.eye(2, dtype=np.float32)
WANDER = 0.1 * np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]]) + 1e-6 * np.eye(2)
COLUMNS = ("contestant", "  evidence", "  a call", "  first", " first/it")
METHODS = {"extended": fb.linearize, "unscented": lambda: fb.unscented(alpha=np.sqrt(3), beta=2.0, kappa=1.0)}


def swing(x: Any) -> Any:
    """The angle and its speed after a step."""
    return jnp.stack([x[0] + DT * x[1], x[1] - 9.8 * DT * jnp.sin(x[0])])


def observations(steps: int) -> np.ndarray:
    """Sines of the angle, with noise."""
    rng, x, seen = np.random.default_rng(0), np.array([1.3, 0.2]), []
    for _ in range(steps):
        x = np.asarray([x[0] + DT * x[1], x[1] - 9.8 * DT * np.sin(x[0])]) + np.linalg.cholesky(WANDER) @ rng.normal(
            size=2
        )
        seen.append(np.sin(x[0]) + NOISE * rng.normal())
    return np.asarray(seen, np.float32)


def chain(y: Any) -> fb.Chain:
    """The start with the first observation, and a step for each other."""
    x, x_next = fb.Variable("x", fb.Reals[2]), fb.Variable("x_next", fb.Reals[2])
    move = dist.MultivariateNormal(fb.lift(swing)(x), jnp.asarray(WANDER, jnp.float32))("x_next")
    seen = dist.Normal(fb.ops.sin(x_next[0]), NOISE)(fb.Array(y[1:], ("t",)))
    start = dist.MultivariateNormal(MEAN, SPREAD)("x") * dist.Normal(fb.ops.sin(x[0]), NOISE)(y[0])
    return fb.Chain(init=start, factor=move * seen, time="t", step={"x": "x_next"})


def ours(method: str, question: str) -> Callable[[Any], Any]:
    """The evidence, and the smoothed means or none."""

    def ask(y: Any) -> tuple[Any, Any]:
        with METHODS[method]():
            own = chain(y)
            if question == "evidence":
                return own.log_evidence().data, None
            smooth = own.smooth()
            return smooth.initial.mean("x").data[0], smooth.mean("x_next").data

    return jax.jit(ask)


def theirs(method: str, question: str) -> Callable[[Any], Any]:
    """The same by dynamax."""
    from dynamax.nonlinear_gaussian_ssm import models
    from dynamax.nonlinear_gaussian_ssm.inference_ekf import extended_kalman_filter, extended_kalman_smoother
    from dynamax.nonlinear_gaussian_ssm.inference_ukf import (
        UKFHyperParams,
        unscented_kalman_filter,
        unscented_kalman_smoother,
    )

    parts = (MEAN, SPREAD, swing, jnp.asarray(WANDER, jnp.float32), lambda x: jnp.sin(x[:1]), jnp.array([[NOISE**2]]))
    params = models.ParamsNLGSSM(*parts)
    run: Callable = {
        ("extended", "evidence"): extended_kalman_filter,
        ("extended", "smoother"): extended_kalman_smoother,
        ("unscented", "evidence"): lambda p, y: unscented_kalman_filter(p, y, UKFHyperParams()),
        ("unscented", "smoother"): lambda p, y: unscented_kalman_smoother(p, y, UKFHyperParams()),
    }[method, question]

    def ask(y: Any) -> tuple[Any, Any]:
        found = run(params, y[:, None])
        if question == "evidence":
            return found.marginal_loglik, None
        return found.smoothed_means[0, 0], found.smoothed_means[1:]

    return jax.jit(ask)


def compare(method: str, question: str, y: Any, rounds: int) -> Aim | None:
    """Print a row for each."""
    contestants = {"ours": ours(method, question)} | ({"dynamax": theirs(method, question)} if HAS_DYNAMAX else {})
    table = Table(f"{method}, {question}, {len(y):,} steps", COLUMNS, first=12)
    first, values = {}, {}
    for name, ask in contestants.items():
        start = time.perf_counter()
        values[name] = jax.block_until_ready(ask(y))[0]
        first[name] = time.perf_counter() - start
    times = interleaved({n: lambda ask=ask: jax.block_until_ready(ask(y)) for n, ask in contestants.items()}, rounds)
    own = times["ours"].median
    for name in contestants:
        took = times[name].median
        table.row(name, f"{float(values[name]):.3f}", duration(took), duration(first[name]), ratio(own / took))
    if "dynamax" not in times:
        return None
    longer = own / times["dynamax"].median
    return Aim(f"{method} {question}: our time over dynamax's", "≤ 1.2", ratio(longer), longer <= 1.2)


def main(argv: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args(argv)
    print_header(("jax", "numpy", "dynamax"), f"; {jax.devices()[0]}")
    y = jnp.asarray(observations(asked.steps))
    pairs = [(method, question) for method in METHODS for question in ("evidence", "smoother")]
    print_summary([aim for pair in pairs if (aim := compare(*pair, y, asked.rounds)) is not None])


if __name__ == "__main__":
    main()
