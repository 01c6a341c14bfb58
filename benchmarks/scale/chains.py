"""Chains over devices, threads and processes: `python -m benchmarks.scale.chains`.

- NUTS on a logistic regression whose rows lie on eight simulated devices, against NumPyro's `vectorized` chains of the
  same data on the same devices; the second run of each, without compilation.
- Four Numba chains of labels in threads, against one after another.
- Two processes of one core each, against one of one core: the efficiency is half the ratio of their times.

`--quick` makes fewer draws of fewer rows; `--only nuts,labels,processes` some of these.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
DEVICES = 8
CHAINS, COLUMNS, GROUPS = 4, 10, 3


def seconds(ask: Callable[[], Any]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    ask()
    return time.perf_counter() - begun


def rows_of(count: int) -> tuple[Any, Any]:
    """Inputs and labels of a logistic regression."""
    import numpy as np

    random = np.random.default_rng(0)
    X = random.normal(size=(count, COLUMNS)).astype(np.float32)
    w = random.normal(size=COLUMNS) / 2
    return X, (random.uniform(size=count) < 1 / (1 + np.exp(-X @ w))).astype(np.int32)


def logistic(X: Any) -> Any:
    """The regression, of ours."""
    import fubini as fb

    @fb.model
    def regression(X: Any) -> Any:
        w = yield fb.dist.Normal(0.0, 1.0).expand([COLUMNS]).named("w")
        yield fb.dist.Bernoulli(logits=X @ w).named("y")

    return regression(X)


def nuts(rows: int, draws: int) -> None:
    """Print a line for NUTS on sharded rows."""
    import jax
    import numpy as np
    import numpyro
    from numpyro.infer import MCMC, NUTS

    import fubini as fb

    X, y = rows_of(rows)
    groups = jax.make_mesh((CHAINS, DEVICES // CHAINS), ("chains", "rows"))
    flat = jax.make_mesh((DEVICES,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    over = jax.sharding.NamedSharding(flat, jax.sharding.PartitionSpec("rows"))
    post = logistic(fb.shard(X, groups, "rows")).condition(y=fb.shard(y, groups, "rows"))
    options: dict[str, Any] = dict(
        draws=draws, warmup=draws, chains=CHAINS, progress=False, log_likelihood=False, predictive=False
    )

    def ours() -> Any:
        return np.asarray(post.infer(jax.random.key(0), mesh=groups, **options).posterior["w"])

    def model(X: Any, y: Any) -> None:
        w = numpyro.sample("w", numpyro.distributions.Normal(0.0, 1.0).expand([COLUMNS]).to_event(1))
        numpyro.sample("y", numpyro.distributions.Bernoulli(logits=X @ w), obs=y)

    placed = [jax.device_put(x, over) for x in (X, y)]
    kernel = NUTS(model, dense_mass=True)
    peer = MCMC(
        kernel, num_warmup=draws, num_samples=draws, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )

    def theirs() -> Any:
        peer.run(jax.random.key(0), *placed)
        return np.asarray(peer.get_samples(group_by_chain=True)["w"])

    means = [run().mean(axis=(0, 1)) for run in (ours, theirs)]
    own, other = seconds(ours), seconds(theirs)
    apart = np.abs(means[0] - means[1]).max()
    print(
        f"NUTS, {rows:,} rows over {DEVICES} devices, {CHAINS} chains of {draws} + {draws} draws: {own:.2f} s;", end=" "
    )
    print(f"NumPyro vectorized {other:.2f} s; ratio {own / other:.2f}; means at most {apart:.1e} apart", flush=True)


def labels(rows: int, sweeps: int) -> None:
    """Print a line for Numba chains in threads."""
    import jax
    import numpy as np

    import fubini as fb
    from fubini.questions import label_sweeps

    @fb.model
    def mixture(count: int) -> Any:
        p = yield fb.dist.Dirichlet(np.ones(GROUPS)).named("p")
        m = yield fb.dist.Normal(0.0, 3.0).expand([GROUPS]).named("m")
        k = yield fb.dist.Categorical(p).expand([count]).named("k")
        yield fb.dist.Normal(m[k], 1.0).named("y")

    random = np.random.default_rng(0)
    post = mixture(rows).condition(y=3.0 * random.integers(0, GROUPS, rows) - 3.0 + random.normal(size=rows))
    sampler = post.eliminate("p", "m").gibbs("k")

    def run(cores: int) -> float:
        with mock.patch.object(label_sweeps.os, "cpu_count", lambda: cores):
            return seconds(lambda: sampler.run(jax.random.key(0), sweeps=sweeps, chains=CHAINS, keep=1))

    run(1)
    pairs = [(run(1), run(2)) for _ in range(3)]
    alone, threads = min(one for one, _ in pairs), min(two for _, two in pairs)
    print(
        f"labels of {rows:,} rows, {CHAINS} Numba chains of {sweeps} sweeps: {alone:.2f} s one after another,", end=" "
    )
    print(f"{threads:.2f} s in two threads; ratio {threads / alone:.2f}", flush=True)


def processes(rows: int, draws: int) -> None:
    """Print a line for processes of one core each."""
    times = {}
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            script = [str(Path(__file__)), "--part", folder, str(rows), str(draws)]
            subprocess.run(
                [sys.executable, "-m", "fubini", "launch", "-n", str(count), "--devices", "1", *script],
                check=True,
                capture_output=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
            )
            times[count] = max(float(path.read_text()) for path in Path(folder).iterdir())
    print(
        f"log-density and slope of {rows:,} rows, {draws} draws: {times[1]:.2f} s by one process of one core,", end=" "
    )
    print(f"{times[2]:.2f} s by two; efficiency {times[1] / times[2] / 2:.2f}", flush=True)


def part(folder: str, rows: int, draws: int) -> None:
    """One of the processes, on a core of its own."""
    index = int(os.environ["FUBINI_PROCESS"])
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[index]})
    import jax

    import fubini as fb

    fb.distributed()
    mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
    X, y = rows_of(rows)
    post = logistic(fb.shard(X, mesh, "rows")).condition(y=fb.shard(y, mesh, "rows"))

    def run() -> None:
        options: dict[str, Any] = dict(log_likelihood=False, predictive=False, progress=False, method="nuts")
        post.infer(jax.random.key(0), draws, 1, warmup=draws, **options)

    run()
    Path(folder, str(index)).write_text(str(seconds(run)))


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="nuts,labels,processes")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        folder, rows, draws = options.part
        part(folder, int(rows), int(draws))
        return
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    less = 10 if options.quick else 1
    asked: dict[str, Callable[[], None]] = {
        "nuts": lambda: nuts(40_000 // less, 100 if options.quick else 300),
        "labels": lambda: labels(200_000 // less, 40),
        "processes": lambda: processes(400_000 // less, 50),
    }
    for name in options.only.split(","):
        asked[name]()


if __name__ == "__main__":
    main()
