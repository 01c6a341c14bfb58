"""This version against another: the same questions to both, in turn, in one run.

`python -m benchmarks.versions --old FOLDER`, where FOLDER is the `src` of another version: each version answers in a
process of its own, the processes take turns, and the ratio is that of the medians, ours over theirs. `first` is the
first answer, with all reading, planning and compiling. With `--data`, networks of `bayes_nets/discrete` too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

Question = Callable[[], Any]


def overhead() -> Iterator[tuple[str, Question]]:
    """Small operations, and sums of densities."""
    rng = np.random.default_rng(0)
    f, g = fb.Table(rng.random((2, 2)), ("x", "y")), fb.Table(rng.random((2, 2)), ("x", "z"))
    yield "(f * g).sum('x'), NumPy", lambda: (f * g).sum("x")
    yield "eliminate, NumPy", lambda: fb.eliminate([f, g], ("x", "y"))
    jf, jg = (
        fb.Table(jnp.asarray(rng.random((2, 2))), ("x", "y")),
        fb.Table(jnp.asarray(rng.random((2, 2))), ("x", "z")),
    )
    yield "(f * g).sum('x'), JAX", lambda: jax.block_until_ready((jf * jg).sum("x").log().data)
    wide = np.eye(3) + 0.1
    a, b = (
        fb.Gaussian(mean=np.zeros(3), covariance=wide, inputs={n: fb.Real for n in names}) for names in ("xyz", "yzw")
    )
    yield "two Gaussians fused, one variable integrated out", lambda: (a * b).sum("x")
    mean = fb.Variable("m", fb.Real)
    yield "normal times normal", lambda: fb.eliminate([dist.Normal(0.0, 1.0)("m"), dist.Normal(mean, 1.0)(0.5)], ["m"])


def models() -> Iterator[tuple[str, Question]]:
    """Evidence, marginals, posteriors, densities and draws of models."""

    @fb.model
    def regression(X):
        v = yield dist.InverseGamma(3.0, 2.0)
        w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([X.shape[1]])
        y = yield dist.Normal(X @ w, jnp.sqrt(v))

    @fb.model
    def schools(sigma):
        mu = yield dist.Normal(0.0, 5.0)
        tau = yield dist.HalfCauchy(5.0)
        theta = yield dist.Normal(mu, tau).expand([8])
        y = yield dist.Normal(theta, sigma)

    @fb.model
    def mixture(n, k):
        p = yield dist.Dirichlet(jnp.ones(k))
        m = yield dist.Normal(0.0, 3.0).expand([k])
        z = yield dist.Categorical(p).expand([n])
        x = yield dist.Normal(m[z], 1.0)

    rng = np.random.default_rng(0)
    for rows in (100, 20_000):
        X = rng.normal(size=(rows, 5))
        post = regression(X).condition(y=X @ np.ones(5) + rng.normal(size=rows))
        yield f"regression, {rows:,} rows: evidence", post.log_evidence
        yield f"regression, {rows:,} rows: evidence of new data", partial(of_new_data, regression(X), rng, rows)
        yield f"regression, {rows:,} rows: marginal of weights", partial(post.marginal, "w")
        yield f"regression, {rows:,} rows: posterior", post.posterior
    eight = schools(np.array([15.0, 10, 16, 11, 9, 11, 10, 18])).condition(y=np.array([28.0, 8, -3, 7, -1, 1, 18, 12]))
    small = eight.eliminate("theta", "mu")
    taus = np.abs(rng.normal(size=1000)) + 0.1
    yield "eight schools: 1,000 densities of the scale", lambda: jax.block_until_ready(small.log_prob(tau=taus))
    yield "eight schools: 4 × 1,000 draws", lambda: eight.infer(jax.random.key(0), 1000, 4, progress=False)
    found = mixture(1000, 4).condition(x=rng.normal(size=1000) + 3 * rng.integers(0, 4, 1000))
    sampler = found.eliminate("p", "m").gibbs("z")
    yield (
        "mixture of 1,000: 20 compiled sweeps",
        lambda: sampler.run(jax.random.key(0), sweeps=20, chains=1, progress=False),
    )


def of_new_data(model: Any, rng: np.random.Generator, rows: int) -> Any:
    """Evidence of numbers that were never seen."""
    return model.condition(y=rng.normal(size=rows)).log_evidence()


def sequences() -> Iterator[tuple[str, Question]]:
    """Hidden Markov models and a local level."""

    @fb.model
    def hidden(length):
        start, move = jnp.array([0.5, 0.5]), jnp.array([[0.9, 0.1], [0.3, 0.7]])
        z = yield dist.Markov(dist.Categorical(start), lambda z: dist.Categorical(move[z]), length)
        y = yield dist.Normal(jnp.array([0.0, 2.0])[z], 1.0)

    @fb.model
    def level(length):
        x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(x, 0.5), length)
        y = yield dist.Normal(x, 1.0)

    rng = np.random.default_rng(0)
    for length in (100, 2_000):
        y = rng.normal(size=length)
        yield f"hidden Markov, {length:,} steps: evidence", hidden(length).condition(y=y).log_evidence
        yield f"local level, {length:,} steps: evidence", level(length).condition(y=y).log_evidence
        yield f"hidden Markov, {length:,} steps: marginal", partial(hidden(length).condition(y=y).marginal, "z")


def networks(folder: Path) -> Iterator[tuple[str, Question]]:
    """All marginals of networks."""
    for name in ("asia", "alarm", "hailfinder", "andes"):
        net = fb.io.read_bif(folder / "bayes_nets" / "discrete" / f"{name}.bif.gz")
        factors = list(net.factors)
        names = list(dict.fromkeys(n for f in factors for n in f.inputs))
        yield f"{name}: all {len(names)} marginals", partial(fb.marginals, factors, names)


def questions(data: Path | None) -> dict[str, Question]:
    """All, by name."""
    found = {**dict(overhead()), **dict(models()), **dict(sequences())}
    return found if data is None else {**found, **dict(networks(data))}


def answer(data: Path | None) -> None:
    """Read the name and number of runs of a question, print the seconds of one run; for ever."""
    asked = questions(data)
    print("\n".join(asked), end="\n\n", flush=True)
    for line in sys.stdin:
        name, _, count = line.strip().rpartition("\t")
        began = time.perf_counter()
        for _ in range(int(count)):
            asked[name]()
        print((time.perf_counter() - began) / int(count), flush=True)


class Version:
    """A process that answers with one version."""

    def __init__(self, source: Path, data: Path | None) -> None:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "benchmarks.versions",
            "--answer",
            *(["--data", str(data)] if data else []),
        ]
        self.caches = TemporaryDirectory()  # of compiled code, so that no version finds what the other compiled
        env = {
            **os.environ,
            "XDG_CACHE_HOME": self.caches.name,
            "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]),
        }
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=env)
        assert self.process.stdout is not None
        self.names = list(iter(lambda: self._read(), ""))

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def seconds(self, name: str, count: int = 1) -> float:
        """Of one answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\t{count}\n")
        self.process.stdin.flush()
        return float(self._read() or "nan")


def compare(old: Version, new: Version, rounds: int) -> None:
    """Take turns."""
    width = max(map(len, new.names))
    print(f"{'question'.ljust(width)}  {'first':>9} {'old':>9} {'ratio':>6}   {'again':>9} {'old':>9} {'ratio':>6}")
    for name in [name for name in new.names if name in old.names]:
        first = [version.seconds(name) for version in (new, old)]
        count = max(1, int(0.02 / max(new.seconds(name), 1e-6)))
        times = [[version.seconds(name, count) for version in (new, old)] for _ in range(rounds)]
        again = [median(column) for column in zip(*times, strict=True)]
        cells = [f"{_shown(a)} {_shown(b)} {a / b:6.2f}" for a, b in (first, again)]
        print(f"{name.ljust(width)}  {'   '.join(cells)}", flush=True)


def _shown(seconds: float) -> str:
    return (
        f"{1e6 * seconds:7.0f}µs"
        if seconds < 1e-3
        else f"{1e3 * seconds:7.1f}ms"
        if seconds < 1
        else f"{seconds:8.2f}s"
    )


def main() -> None:
    """Compare two versions, or answer for one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="the src folder of another version")
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    data = None if options.data is None else Path(options.data)
    if options.answer:
        answer(data)
        return
    new = Path(fb.__file__).parents[1]
    compare(Version(options.old, data), Version(new, data), options.rounds)


if __name__ == "__main__":
    main()
