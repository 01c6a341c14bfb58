"""Expectation–maximisation: the time of a step beside dynamax, and hidden Markov models of the chorales of J. S. Bach.

The models are those of dynamax's examples: a hidden Markov model with normal emissions, and a linear-Gaussian one. A
step is timed within a run of many, without what is compiled. Of the chorales (229 to learn from, 77 held out;
`--data`), notes are independent given the state, and the log-likelihood held out is that of a time step, beside
published figures of these chorales.

    python -m benchmarks.learning --data DATA
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from fubini import dist

HAS_DYNAMAX = importlib.util.find_spec("dynamax") is not None
LOWEST, NOTES = 43, 54
COLUMNS = ("contestant", "   a step", "  first", " first/it", " log-likelihood after")


def hidden_markov(states: int, y: Any) -> fb.Chain:
    """Normal emissions with a mean and a scale for each state."""
    rng = np.random.default_rng(1)
    x, after = fb.Variable("x", fb.Bint[states]), fb.Variable("x_next", fb.Bint[states])
    first = fb.param(jnp.full(states, 1.0 / states), fb.Simplex, name="first")
    moves = fb.param(jnp.asarray(rng.dirichlet(np.full(states, 5.0), size=states), y.dtype), fb.Simplex, name="moves")
    means = fb.param(jnp.asarray(rng.normal(size=(states, y.shape[1])), y.dtype), name="means")
    scales = fb.param(jnp.ones((states, y.shape[1]), y.dtype), fb.Positive, name="scales")
    seen = dist.Normal(means[after], scales[after]).to_event(1)(fb.Array(y, ("t",)))
    step = dist.Categorical(moves[x])("x_next") * seen
    return fb.Chain(init=dist.Categorical(first)("x"), factor=step, time="t", step={"x": "x_next"})


def linear_gaussian(y: Any) -> fb.Chain:
    """A state of two numbers, of which two are seen with noise."""
    A, C = fb.param(0.9 * jnp.eye(2, dtype=y.dtype), name="A"), fb.param(jnp.eye(2, dtype=y.dtype), name="C")
    Q = fb.param(jnp.eye(2, dtype=y.dtype), fb.PositiveDefinite, name="Q")
    R = fb.param(jnp.eye(2, dtype=y.dtype), fb.PositiveDefinite, name="R")
    x, after = fb.Variable("x", fb.Reals[2]), fb.Variable("x_next", fb.Reals[2])
    move = dist.MultivariateNormal(A @ x, covariance_matrix=Q)("x_next")
    seen = dist.MultivariateNormal(C @ after, covariance_matrix=R)(fb.Array(y, ("t",)))
    start = dist.MultivariateNormal(jnp.zeros(2, y.dtype), covariance_matrix=jnp.eye(2, dtype=y.dtype))("x")
    return fb.Chain(init=start, factor=move * seen, time="t", step={"x": "x_next"})


class Learnt(NamedTuple):
    """Seconds of a step, seconds of the first two, with compilation, and the log-likelihood after the last."""

    step: float | None  # none where no run was long enough to tell
    first: float
    last: float


def timed(run: Callable[[int], Any], most: int) -> Learnt:
    """Time runs of so many steps: a step is what a long run takes beyond one of two steps, both compiled anew.

    The long run has four times as many steps until it takes three times as long as the short one, or the most steps.
    """

    def seconds(count: int) -> tuple[float, float]:
        start = time.perf_counter()
        last = float(run(count)[-1])
        return time.perf_counter() - start, last

    first, _ = seconds(2)
    short = statistics.median(seconds(2)[0] for _ in range(3))
    count = min(16, most)
    while True:
        long, last = seconds(2 + count)
        if long > 3 * short or count >= most:
            return Learnt((long - short) / count if long > 1.5 * short else None, first, last)
        count = min(4 * count, most)


def ours(make: Callable[[], fb.Chain], most: int) -> Learnt:
    """Times of `fb.fit`."""
    return timed(lambda count: fb.fit(make(), method="em", steps=count, tolerance=-1.0, progress=False).history, most)


def dynamax(model: Any, y: Any, most: int) -> Learnt:
    """Times of its `fit_em`."""
    params, props = model.initialize(jax.random.key(0))
    return timed(lambda count: model.fit_em(params, props, y, num_iters=count, verbose=False)[1], most)


def compare(title: str, contestants: dict[str, Callable[[], Learnt]]) -> list[Aim]:
    """Print a row for each."""
    table, found = Table(title, COLUMNS, first=12), {name: run() for name, run in contestants.items()}
    own = found["ours"].step
    for name, (step, first, last) in found.items():
        table.row(name, duration(step), duration(first), ratio(own and step and own / step), f"{last:.1f}")
    if "dynamax" not in found:
        return []
    theirs = found["dynamax"].step
    longer = own / theirs if own and theirs else None
    return [Aim(f"{title}: our step over dynamax's", "≤ 1.2", ratio(longer), None if longer is None else longer <= 1.2)]


def beside_dynamax(most: int, dtype: Any) -> list[Aim]:
    """Both models, at one size."""
    rng, aims = np.random.default_rng(0), []
    y = jnp.asarray(np.cumsum(rng.normal(size=(5_000, 2)), axis=0) * 0.05 + rng.normal(size=(5_000, 2)), dtype)
    runs: dict[str, Callable] = {"ours": lambda: ours(lambda: hidden_markov(5, y), most)}
    both: dict[str, Callable] = {"ours": lambda: ours(lambda: linear_gaussian(y), most)}
    if HAS_DYNAMAX:
        from dynamax.hidden_markov_model import DiagonalGaussianHMM
        from dynamax.linear_gaussian_ssm import LinearGaussianSSM

        runs["dynamax"] = lambda: dynamax(DiagonalGaussianHMM(5, 2), y, most)
        both["dynamax"] = lambda: dynamax(LinearGaussianSSM(2, 2), y, most)
    aims += compare("hidden Markov model, 5,000 steps, 5 states", runs)
    aims += compare("linear-Gaussian, 5,000 steps, 2 states", both)
    return aims


PUBLISHED = (  # held-out nats for each time step
    ("hidden Markov model (Obermeyer et al. 2019, table 2)", -8.28),
    ("recurrent network (Boulanger-Lewandowski et al. 2012, table 1)", -8.71),
    ("recurrent network and restricted Boltzmann machine (the same)", -6.27),
    ("recurrent network and autoregression over notes (the same)", -5.56),
)


def chorales(data: Path, states: Sequence[int], steps: int) -> None:
    """Learn from the first part, and say what the last part is worth."""
    with gzip.open(data / "jsb_chorales" / "jsb_chorales.json.gz") as file:
        parts = json.load(file)
    table = Table("chorales", ("states", " seconds", " steps", " train", " held out"), first=8)
    for count in states:
        start = time.perf_counter()
        chain, length = chorale_model(parts["train"], count)
        fitted = fb.fit(chain, method="em", steps=steps, tolerance=1e-6, progress=False)
        held, held_length = chorale_model(parts["test"], count, fitted.params)
        value = float(jnp.sum(held.log_evidence().data)) / held_length
        seconds = time.perf_counter() - start
        table.row(count, f"{seconds:.0f}", len(fitted.history), f"{fitted.history[-1] / length:.2f}", f"{value:.2f}")
    published = Table("chorales, published", ("model", " held out"), first=66)
    for name, figure in PUBLISHED:
        published.row(name, f"{figure:.2f}")


def chorale_model(sequences: list, states: int, learnt: dict | None = None) -> tuple[fb.Chain, int]:
    """Notes are independent given the state; after the end of a piece nothing is seen. And how many times are seen."""
    length, rng = max(map(len, sequences)), np.random.default_rng(2)
    notes = np.zeros((len(sequences), length, NOTES), np.int32)
    present = np.zeros((len(sequences), length), bool)
    for row, piece in enumerate(sequences):
        present[row, : len(piece)] = 1
        for t, chord in enumerate(piece):
            notes[row, t, np.array(chord, int) - LOWEST] = 1
    heard = fb.Array(jnp.asarray(notes), ("b", "t"), fb.Bint[2, NOTES])
    start = learnt or {
        "first": np.full(states, 1.0 / states, np.float32),
        "moves": rng.dirichlet(np.full(states, 5.0), size=states).astype("float32"),
        "logits": (np.log(notes[present].mean(0) + 1e-3) + 0.5 * rng.normal(size=(states, NOTES))).astype("float32"),
    }
    first = fb.param(jnp.asarray(start["first"]), fb.Simplex, name="first")
    moves = fb.param(jnp.asarray(start["moves"]), fb.Simplex, name="moves")
    logits = fb.param(jnp.asarray(start["logits"]), name="logits")
    x, after = fb.Variable("x", fb.Bint[states]), fb.Variable("x_next", fb.Bint[states])
    emission = dist.Bernoulli(logits=logits[after]).to_event(1).mask(fb.Array(jnp.asarray(present), ("b", "t")))
    step = dist.Categorical(moves[x])("x_next") * emission(heard)
    chain = fb.Chain(init=dist.Categorical(first)("x"), factor=step, time="t", step={"x": "x_next"})
    return chain, int(present.sum())


def main(argv: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--states", type=int, nargs="*", default=(16, 32, 64))
    parser.add_argument("--most-steps", type=int, default=4096, help="of a run that is timed")
    parser.add_argument("--quick", action="store_true", help="fewer steps, and 16 states alone")
    asked = parser.parse_args(argv)
    print_header(("jax", "numpy", "dynamax"), f"; {jax.devices()[0]}")
    aims = beside_dynamax(64 if asked.quick else asked.most_steps, jnp.float32)
    if asked.data:
        chorales(asked.data, (16,) if asked.quick else asked.states, 10 if asked.quick else 100)
    print_summary(aims)


if __name__ == "__main__":
    main()
