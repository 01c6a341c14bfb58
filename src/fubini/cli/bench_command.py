"""`fubini bench`: how long some questions take on this machine, asked first and asked again."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from importlib import resources
from typing import Any

import jax
import numpy as np

from fubini import distributions as dist
from fubini.factors.table import Table
from fubini.io.files import read_bif
from fubini.models.coroutine import model
from fubini.sequence.chain import Chain
from fubini.version import __version__

REPEATS = 5


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser("bench", help="how long some questions take on this machine")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """One line for each question: the first time, with planning and compiling, and the best of some more."""
    device = jax.devices()[0]
    head = f"fubini {__version__}, jax {jax.__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    lines = [f"{head}; {platform.machine()}, {device.platform}", f"{'question':<58}{'first':>10}{'again':>10}"]
    for title, question in QUESTIONS.items():
        first = _seconds(ask := question())
        lines.append(f"{title:<58}{_shown(first):>10}{_shown(min(_seconds(ask) for _ in range(REPEATS))):>10}")
    return "\n".join(lines)


def _seconds(ask: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(ask())
    return time.perf_counter() - start


def _shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


# -- questions ------------------------------------------------------------------------------------------------------


def _network() -> Callable[[], Any]:
    with resources.as_file(resources.files("fubini.io") / "commute.bif") as path:
        network = read_bif(path).condition(arrival="late")
    return lambda: [marginal.log().data for marginal in network.marginals().values()]


def _regression() -> Callable[[], Any]:
    @model
    def regression(X: Any) -> Any:
        v = yield dist.InverseGamma(3.0, 2.0)
        w = yield dist.Normal(0.0, v**0.5).expand([10])
        y = yield dist.Normal(X @ w, v**0.5)

    random = np.random.default_rng(0)
    X = random.normal(size=(10_000, 10))
    post = regression(X).condition(y=X.sum(axis=1) + random.normal(size=10_000))
    return lambda: post.log_evidence().data


def _hidden_markov() -> Callable[[], Any]:
    random = np.random.default_rng(0)
    step = Table(random.dirichlet(np.ones(8), 8), ("x", "x_next")) * Table(random.random((10_000, 8)), ("t", "x_next"))
    chain = Chain(init=Table(np.full(8, 1 / 8), ("x",)), factor=step, time="t", step={"x": "x_next"})
    return lambda: chain.smooth().log().data


QUESTIONS: dict[str, Callable[[], Callable[[], Any]]] = {
    "all marginals of a network of 8 variables": _network,
    "evidence of a regression, 10,000 rows and 10 coefficients": _regression,
    "smoothing a hidden Markov model, 10,000 steps, 8 states": _hidden_markov,
}
