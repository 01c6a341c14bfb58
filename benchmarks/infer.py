"""Inference: our collapsed runs against NumPyro's no-U-turn sampler on the whole model, for twelve models.

- Minimum bulk effective draws per second, over the quantities that are compared, of draws of all latents: without
  compilation. Aim: never below NumPyro's, in the median five times as many.
- The same with compilation, in a run from nothing.
- Reading the model and planning what is integrated out. Aim: below 0.5 s for each.

Both sample four chains side by side in double precision, with the same numbers of warmup steps and draws, and take
turns. NumPyro sums discrete latents by enumeration, for which it needs funsor.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro.infer import MCMC, NUTS

from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from examples.twelve.cases import Case, cases
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel

OURS, NUMPYRO = "ours", "NumPyro"
COMPILED: list[float] = []  # seconds of each compilation in this process
COMPILING = ("jaxpr_to_mlir_module_duration", "backend_compile_duration")
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(seconds) if event.endswith(COMPILING) else None
)
CHAINS = 4
ROUNDS = 2  # after the first, which compiles
ENUMERATED = ("Gaussian mixture", "hidden Markov model", "zero-inflated counts", "change point")
COLUMNS = (
    "model",
    "   plan",
    "   ours first",
    "again",
    "   ESS",
    "   ESS/s",
    "   NumPyro first",
    "again",
    "   ESS",
    "   ESS/s",
    "  ratio",
    "with compile",
)


@dataclass(frozen=True)
class Run:
    """Seconds of the first run, which compiles, and of the quickest after it; the least effective of its quantities."""

    first: float
    again: float
    effective: float

    @property
    def rate(self) -> float:
        """Effective draws a second, without compilation."""
        return self.effective / self.again

    @property
    def rate_from_nothing(self) -> float:
        """And with it."""
        return self.effective / self.first


def effective(case: Case, draws: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The least bulk effective sample size over the entries of each quantity."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ speaks of its next version
        import arviz

        quantities = {name: np.asarray(value, float) for name, value in case.quantities(draws).items()}
        sizes = arviz.ess(arviz.convert_to_dataset(quantities), method="bulk")
    return {name: float(np.nanmin(np.asarray(sizes[name]))) for name in quantities}


def ours(case: Case, draws: int, warmup: int) -> Callable[[int], dict[str, np.ndarray]]:
    """Our draws of all latents."""
    post = case.post()

    def run(seed: int) -> dict[str, np.ndarray]:
        settings: dict[str, Any] = dict(progress=False, log_likelihood=False, predictive=False)
        with jax.enable_x64(False):  # what a user has: NumPy's numbers make it double precision
            found = post.infer(jax.random.key(seed), draws=draws, chains=CHAINS, warmup=warmup, **settings).posterior
        return {name: np.asarray(value) for name, value in found.items()}

    return run


def theirs(case: Case, draws: int, warmup: int) -> Callable[[int], dict[str, np.ndarray]]:
    """NumPyro's draws of all latents that it does not enumerate."""
    model, args = case.peer()
    sizes = dict(num_warmup=warmup, num_samples=draws, num_chains=CHAINS)
    mcmc = MCMC(NUTS(model), **sizes, chain_method="vectorized", progress_bar=False)

    def run(seed: int) -> dict[str, np.ndarray]:
        mcmc.run(jax.random.key(seed), *args)
        return {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}

    return run


def timed(run: Callable[[int], dict[str, np.ndarray]], seed: int) -> tuple[float, float, dict[str, np.ndarray]]:
    """Seconds, those of them in which JAX compiled, and the draws."""
    start, before = time.perf_counter(), len(COMPILED)
    found = run(seed)
    return time.perf_counter() - start, sum(COMPILED[before:]), found


def contest(case: Case, contestants: Mapping[str, Callable[[int], dict[str, np.ndarray]]]) -> dict[str, Run]:
    """Each in turn, in every round; quantities that one of them does not draw do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    sizes: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for seed in range(1 + ROUNDS):
        for name, run in contestants.items():
            took, compiling, draws = timed(run, seed)
            seconds[name].append(took - compiling if seed else took)  # NumPyro compiles its start in every run
            sizes[name].append(effective(case, draws))
            print(f"  {case.name}: {name}, round {seed}, {duration(took)}, compiling {duration(compiling)}", flush=True)
    common = set.intersection(*(set(found[0]) for found in sizes.values()))
    least = {n: statistics.median(min(size[q] for q in common) for size in found) for n, found in sizes.items()}
    return {name: Run(taken[0], min(taken[1:]), least[name]) for name, taken in seconds.items()}


def planned(case: Case) -> float:
    """Seconds to read a model and plan its elimination, of a model that was not seen before."""
    post = case.post()
    start = time.perf_counter()
    eliminated(FlatModel(post))
    return time.perf_counter() - start


def measured(case: Case, draws: int, warmup: int) -> tuple[float, dict[str, Run], str]:
    """The plan, the runs, and why there is none of NumPyro."""
    plan = planned(case)
    contestants = {OURS: ours(case, draws, warmup)}
    lacking = case.name in ENUMERATED and importlib.util.find_spec("funsor") is None
    if not lacking:
        contestants[NUMPYRO] = theirs(case, draws, warmup)
    return plan, contest(case, contestants), "no funsor" if lacking else ""


def cells(run: Run | None) -> tuple[str, ...]:
    """Of one contestant."""
    if run is None:
        return ("-",) * 4
    return duration(run.first), duration(run.again), f"{run.effective:,.0f}", f"{run.rate:,.0f}"


def ratios(runs: Mapping[str, Run]) -> tuple[float | None, float | None]:
    """Ours to theirs, without compilation and with it."""
    if NUMPYRO not in runs:
        return None, None
    mine, other = runs[OURS], runs[NUMPYRO]
    return mine.rate / other.rate, mine.rate_from_nothing / other.rate_from_nothing


def rate_aims(what: str, found: Mapping[str, float | None]) -> list[Aim]:
    """Never below one; five in the median."""
    known = {name: value for name, value in found.items() if value is not None}
    if not known:
        return [Aim(f"{what}, least", "1×", "no figures", None), Aim(f"{what}, median", "5×", "no figures", None)]
    worst = min(known, key=lambda name: known[name])
    below = sum(value < 1.0 for value in known.values())
    middle = statistics.median(known.values())
    least = f"{below} of {len(known)} below 1×; {worst} {ratio(known[worst])}"
    return [
        Aim(f"{what}, least", "1×", least, below == 0),
        Aim(f"{what}, median", "5×", ratio(middle), middle >= 5.0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.infer", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder of data sets; without it, seven models of the twelve")
    parser.add_argument("--only", default="", help="models with this in their names")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=1000)
    given = parser.parse_args()
    numpyro.enable_x64()
    print_header(("jax", "numpy", "numpyro"), f"; {CHAINS} chains, {given.warmup} + {given.draws} draws, float64")
    chosen = [case for case in cases(given.data) if given.only in case.name]
    found = {case.name: measured(case, given.draws, given.warmup) for case in chosen}
    table = Table("least bulk effective draws per second", COLUMNS, first=32)
    for name, (plan, runs, reason) in found.items():
        peer = cells(runs.get(NUMPYRO)) if not reason else (reason, *("-",) * 3)
        table.row(name, duration(plan), *cells(runs[OURS]), *peer, *map(ratio, ratios(runs)))
    plans = {name: plan for name, (plan, _, _) in found.items()}
    slowest = max(plans, key=lambda name: plans[name])
    aims = rate_aims("effective draws a second", {name: ratios(runs)[0] for name, (_, runs, _) in found.items()})
    aims += rate_aims("with compilation", {name: ratios(runs)[1] for name, (_, runs, _) in found.items()})
    shown = f"at most {duration(plans[slowest])}, {slowest}"
    aims.append(Aim("reading and planning", "< 0.5 s each", shown, plans[slowest] < 0.5))
    print_summary(aims)


if __name__ == "__main__":
    main()
