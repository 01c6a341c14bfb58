"""First answers: what a new process waits for, with nothing compiled yet and with the cache of an earlier one.

Each figure is of a fresh process: importing, then the first answers to questions, the same again, and to others of the
same shape. Imports take turns with those of JAX and NumPyro alone, which are part of ours. The start of the process is
left out. On a machine that others use, read the time of the processor beside that on the clock.

    python -m benchmarks.first_answers [--rounds 5] [--source FOLDER]

Aims: imported in 1.2 s, the first 4,000 draws of an exact regression in 1.5 s, 4,000 predictions in 1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio

Stages = dict[str, tuple[float, float]]  # seconds on the clock, and of the processor

IMPORT = """
import json, time
begun = time.perf_counter(), time.process_time()
import {module}
print(json.dumps({{"import": (time.perf_counter() - begun[0], time.process_time() - begun[1])}}))
"""

ANSWERS = """
import json, time
STAGES, BEGUN = {}, [time.perf_counter(), time.process_time()]

def done(stage):
    now = time.perf_counter(), time.process_time()
    STAGES[stage] = (now[0] - BEGUN[0], now[1] - BEGUN[1])
    BEGUN[:] = time.perf_counter(), time.process_time()

import fubini as fb
done("import fubini")
import jax
import jax.numpy as jnp
import numpy as np
from fubini import dist

@fb.model
def regression(X):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([X.shape[1]])
    y = yield dist.Normal(X @ w, jnp.sqrt(v))

@fb.model
def logistic(X):
    w = yield dist.Normal(0.0, 1.0).expand([X.shape[1]])
    y = yield dist.Bernoulli(logits=X @ w)

RNG = np.random.default_rng(0)

def posterior(rows=100, columns=4):
    X = RNG.normal(size=(rows, columns))
    return regression(X).condition(y=X @ np.arange(columns) + RNG.normal(size=rows))

post, others = posterior(), [posterior() for _ in range(7)]
draw = lambda post, key: post.infer(jax.random.key(key), draws=1000, chains=4, progress=False)
BEGUN[:] = time.perf_counter(), time.process_time()
post.log_evidence()
done("evidence")
import arviz
done("import arviz, for draws")
data = draw(post, 0)
done("4,000 draws")
draw(post, 1)
done("again, another key")
for one in others:
    draw(one, 0)
done("seven more regressions of the shape")
draw(posterior(80, 3), 0)
done("one of another shape")
post.predict(jax.random.key(2), "y", draws=4000)
done("4,000 predictions")
X = RNG.normal(size=(100, 3))
logistic(X).condition(y=(X[:, 0] > 0).astype(int)).infer(jax.random.key(0), draws=200, warmup=200, progress=False)
done("logistic regression by NUTS")
print(json.dumps(STAGES))
"""


def run(program: str, source: Path, more: Mapping[str, str]) -> Stages:
    """The stages of a program in a process of its own, which writes bytecode."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    given.pop("JAX_COMPILATION_CACHE_DIR", None)
    given |= {"PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore", "JAX_PLATFORMS": "cpu", **more}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=given, check=True, stdout=subprocess.PIPE, text=True, cwd=source
    )
    return {stage: (wall, cpu) for stage, (wall, cpu) in json.loads(ended.stdout.splitlines()[-1]).items()}


def medians(rounds: list[Stages]) -> Stages:
    """For each stage the medians over the rounds."""
    return {
        stage: (statistics.median(r[stage][0] for r in rounds), statistics.median(r[stage][1] for r in rounds))
        for stage in rounds[0]
    }


def imports(source: Path, rounds: int, more: Mapping[str, str]) -> Stages:
    """Imports in turns: ours, and the parts of it that are others'."""
    modules = ("jax", "numpyro", "fubini")
    found: list[Stages] = []
    for number in range(rounds + 1):
        one = {module: run(IMPORT.format(module=module), source, more)["import"] for module in modules}
        if number:  # the first writes bytecode
            found.append(one)
    return medians(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_answers", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src", help="of the version timed")
    given = parser.parse_args()
    print_header(("fubini", "jax", "jaxlib", "numpyro", "arviz", "numba"))
    source = given.source.resolve()
    with tempfile.TemporaryDirectory() as bytecode:
        more = {"PYTHONPYCACHEPREFIX": bytecode}
        loaded = imports(source, given.rounds, {**more, "FUBINI_CACHE": "off"})
        table = Table("imports", ("module", "   clock", "processor", "of JAX's"))
        for module, (wall, cpu) in loaded.items():
            table.row(module, duration(wall), duration(cpu), ratio(cpu / loaded["jax"][1]))
        cold, warm = [], []
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as kept:
                for rounds in (cold, warm):
                    rounds.append(run(ANSWERS, source, {**more, "FUBINI_CACHE": kept}))
    first, second = medians(cold), medians(warm)
    table = Table("answers", ("stage", "cold clock", "processor", "warm clock", "processor"), first=36)
    for stage in first:
        table.row(stage, *map(duration, (*first[stage], *second[stage])))
    total = [sum(one[part] for one in (first["import fubini"], first["4,000 draws"])) for part in (0, 1)]
    print(f"\nimport and first draws: {duration(total[0])} on the clock, {duration(total[1])} of the processor")
    print_summary(
        [
            aim("import fubini", loaded["fubini"], 1.2),
            aim("first 4,000 draws of an exact regression, cold", first["4,000 draws"], 1.5),
            aim("4,000 predictions, cold", first["4,000 predictions"], 1.0),
        ]
    )


def aim(what: str, found: tuple[float, float], wanted: float) -> Aim:
    """At most so many seconds on the clock."""
    wall, cpu = found
    return Aim(what, f"≤ {wanted} s", f"{duration(wall)}, {duration(cpu)} of the processor", wall <= wanted)


if __name__ == "__main__":
    main()
