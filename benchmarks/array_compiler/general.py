"""General-purpose samplers on the same mixture: JAGS, and NumPyro's Gibbs steps within Hamiltonian ones.

    python -m benchmarks.array_compiler.general [--points 2000] [--classes 20]

Both keep proportions and means and draw them too; ours has them integrated out. JAGS is run where its program is
installed. NumPyro weighs each candidate of each label by the whole density: it gets a mixture that it can finish.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as npd
from numpyro.infer import MCMC, NUTS, DiscreteHMCGibbs

from benchmarks.array_compiler import data as sources
from benchmarks.array_compiler import models, samplers
from benchmarks.report import Table, duration, print_header, ratio

MODEL = """model {
  theta ~ ddirch(alpha)
  for (k in 1:m) { mu[k] ~ dnorm(0, 1 / 196) }
  for (i in 1:n) { z[i] ~ dcat(theta)
                   t[i] ~ dnorm(mu[z[i]], 1) }
}
"""
SWEEPS = 5, 25  # of two runs, whose difference is timed


def by_jags(t: np.ndarray, m: int, start: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Seconds of a sweep, and the labels after the last; None where there is no JAGS."""
    program = shutil.which("jags")
    if program is None:
        return None
    seconds = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.bug").write_text(MODEL)
        (folder / "data.R").write_text(
            f"n <- {len(t)}\nm <- {m}\nalpha <- c({', '.join(['1'] * m)})\nt <- c({', '.join(map(repr, t.tolist()))})\n"
        )
        (folder / "start.R").write_text(f"z <- c({', '.join(str(k + 1) for k in start)})\n")
        for sweeps in SWEEPS:
            script = (
                'model in "model.bug"\ndata in "data.R"\ncompile\nparameters in "start.R"\ninitialize\n'
                f"monitor z, thin({sweeps})\nupdate {sweeps}\ncoda z\n"
            )
            (folder / "script").write_text(script)
            begin = time.perf_counter()
            subprocess.run([program, "script"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - begin)
        drawn = np.loadtxt(folder / "CODAchain1.txt")[:, 1].astype(int) - 1
    return (seconds[1] - seconds[0]) / (SWEEPS[1] - SWEEPS[0]), drawn


def by_numpyro(t: np.ndarray, m: int, sweeps: int) -> tuple[float, np.ndarray]:
    """Seconds of a sweep after those that compile, and the labels after the last."""

    def model() -> None:
        theta = numpyro.sample("theta", npd.Dirichlet(jnp.ones(m)))
        mu = numpyro.sample("mu", npd.Normal(0.0, 14.0).expand([m]))
        with numpyro.plate("items", len(t)):
            z = numpyro.sample("z", npd.Categorical(theta))
            numpyro.sample("t", npd.Normal(mu[z], 1.0), obs=t)

    mcmc = MCMC(DiscreteHMCGibbs(NUTS(model)), num_warmup=1, num_samples=sweeps, progress_bar=False)
    mcmc.run(jax.random.key(0))
    mcmc.post_warmup_state = mcmc.last_state
    begin = time.perf_counter()
    mcmc.run(jax.random.key(1))
    labels = np.asarray(mcmc.get_samples()["z"][-1])
    return (time.perf_counter() - begin) / sweeps, labels


def by_ours(t: np.ndarray, m: int, start: np.ndarray, sweeps: int) -> tuple[float, np.ndarray]:
    """Seconds of a sweep, and the labels after the last."""
    sampler = models.mixture(len(t), m).condition(t=t).eliminate("theta", "mu").gibbs("z")
    sweep = samplers.ours(sampler, "z", start, np.arange(len(t)))
    sweep()
    sampler.machine.set({"z": start})
    begin = time.perf_counter()
    for _ in range(sweeps):
        sweep()
    return (time.perf_counter() - begin) / sweeps, sampler.machine.values("z").copy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--classes", type=int, default=20)
    options = parser.parse_args()
    print_header(("numba", "jax", "numpyro"))
    columns = ("mixture", "sampler  ", "   a sweep", "times ours", f"accuracy after {SWEEPS[1]} sweeps")
    table = Table("general samplers", columns, first=16, left=(1,))
    for n, m, name in ((options.points, options.classes, "JAGS"), (200, 5, "NumPyro")):
        t, truth = sources.mixture(n, m, 0)
        start = np.random.default_rng(1).integers(0, m, n)
        mine, labels = by_ours(t, m, start, SWEEPS[1])
        found = by_jags(t, m, start) if name == "JAGS" else by_numpyro(t, m, SWEEPS[1])
        size = f"{n:,} / {m}"
        table.row(size, "ours", duration(mine), ratio(1.0), f"{samplers.accuracy(labels, truth, m):.3f}")
        if found is None:
            table.row(size, name, "-", "not installed", "-")
        else:
            seconds, labels = found
            right = f"{samplers.accuracy(labels, truth, m):.3f}"
            table.row(size, name, duration(seconds), ratio(seconds / mine), right)


if __name__ == "__main__":
    main()
