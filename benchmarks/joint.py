"""Joint distributions: ours against TFP's Sequential and AutoBatched flavours and NumPyro.

- `log_prob` inside `jax.jit`: three sites, a chain of fifty, a plate in a plate. Aim: within 1.25× of the best.
- `log_prob` of three sites, called again and again without `jit`. Aim: a tenth of each peer.
- Ten thousand draws of three sites without `jit`. Aim: a tenth of TFP.
- Tracing and compiling the fifty sites from nothing. Aim: below 3 s.

Contestants take turns; times are medians of the rounds, the best beside them. All values agree to 1e-4 before anything
is timed. Peers that are not installed are reported as absent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks import joint_peers as peers
from benchmarks.joint_peers import BATCHED, NUMPYRO, OURS, SEQUENTIAL
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from benchmarks.timing import Times, elapsed, interleaved

COLUMNS = ("contestant", "     run", "    best", "to best", "  flops", "  bytes")
DRAWS = 10_000
BUILDS = 3
OWN = ("fubini.models.", "fubini.questions.", "fubini.distributions.")  # whose caches are cleared
ALL = (OURS, SEQUENTIAL, BATCHED, NUMPYRO)


def show(title: str, times: Mapping[str, Times], work: Mapping[str, tuple[str, str]] | None = None) -> None:
    """A row for each contestant, with its ratio to the fastest, and what its compiled code computes and moves."""
    table = Table(title, COLUMNS, first=22)
    fastest = min(found.median for found in times.values())
    for name, found in times.items():
        cells = duration(found.median), duration(found.best), ratio(found.median / fastest)
        table.row(name, *cells, *(work[name] if work else ("-", "-")))
    for name in ALL:
        if name not in times:
            table.row(name, "absent", *("-" * 4))


def require_agreement(model: str, contestants: Mapping[str, peers.Contestant]) -> None:
    """The same density from all."""
    at = peers.as_jax(peers.values(model))
    found = {name: float(contestant.log_prob(at)) for name, contestant in contestants.items()}
    for name, value in found.items():
        np.testing.assert_allclose(value, found[OURS], rtol=1e-4, err_msg=f"{model}: {name}")


def jitted(model: str, rounds: int) -> dict[str, Times]:
    """`log_prob` in compiled code, per call; of several builds, as one may be on a slow thread all its life."""
    contestants, at = peers.contestants(model), peers.as_jax(peers.values(model))
    require_agreement(model, contestants)
    builds, work = [], {}
    for _ in range(BUILDS):
        runs = {name: compiled(contestant.log_prob, at) for name, contestant in contestants.items()}
        work = {name: work_of(run) for name, run in runs.items()}
        calls = {name: partial(finished, run, at) for name, run in runs.items()}
        builds.append(interleaved(calls, rounds))
    times = {name: Times(tuple(second for build in builds for second in build[name].seconds)) for name in contestants}
    show(f"log_prob of {model}, jitted", times, work)
    return times


def work_of(run: Any) -> tuple[str, str]:
    """Operations and bytes of compiled code as XLA counts them, which no other process disturbs."""
    cost = run.cost_analysis()
    return f"{cost.get('flops', 0.0):,.0f}", f"{cost.get('bytes accessed', 0.0):,.0f}"


def finished(function: Callable[..., object], *args: object) -> object:
    """The result, once it is there."""
    return jax.block_until_ready(function(*args))


def repeated(rounds: int) -> dict[str, Times]:
    """`log_prob` of three sites as a user calls it, on Python's numbers and on JAX's."""
    contestants = peers.contestants("simple")
    numbers = peers.values("simple")
    calls = {name: partial(finished, c.log_prob, numbers) for name, c in contestants.items()}
    calls[f"{OURS}, JAX arrays"] = partial(finished, contestants[OURS].log_prob, peers.as_jax(numbers))
    times = interleaved(calls, rounds)
    show("log_prob of simple, not jitted", times)
    return times


def draws(rounds: int) -> dict[str, Times]:
    """Many draws of three sites, not jitted."""
    key = jax.random.key(0)
    contestants = peers.contestants("simple")
    calls = {name: partial(finished, c.draw, key, DRAWS) for name, c in contestants.items()}
    times = interleaved(calls, rounds)
    show(f"{DRAWS:,} draws of simple, not jitted", times)
    return times


def compilation(rounds: int) -> dict[str, Times]:
    """Seconds to trace and compile the fifty sites from nothing; for ours also the first call without `jit`."""
    at = peers.as_jax(peers.values("chain"))
    readings: dict[str, list[float]] = {}
    for _ in range(rounds):
        tasks = {name: partial(compiled, c.log_prob, at) for name, c in peers.contestants("chain").items()}
        tasks[f"{OURS}, first call"] = partial(peers.contestants("chain")[OURS].log_prob, at)
        for name, task in tasks.items():
            clear_caches()
            readings.setdefault(name, []).append(elapsed(task))
    times = {name: Times(tuple(seconds)) for name, seconds in readings.items()}
    show("tracing and compiling log_prob of chain", times)
    return times


def compiled(function: Callable[[list], object], at: list[jax.Array]) -> Any:
    """Traced and compiled anew."""
    return jax.jit(lambda values: function(values)).lower(at).compile()


def clear_caches() -> None:
    """What JAX and our own layers of joints and distributions remember."""
    jax.clear_caches()
    modules = [module for name, module in sys.modules.items() if name.startswith(OWN)]
    for module in modules:
        for member in vars(module).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()


def best_aim(model: str, times: Mapping[str, Times]) -> Aim:
    """Ours against the fastest, by medians; beside it those of the best runs, which a busy machine disturbs less."""
    share = times[OURS].median / min(found.median for found in times.values())
    undisturbed = times[OURS].best / min(found.best for found in times.values())
    found = f"{ratio(share)} (of best runs {ratio(undisturbed)})"
    return Aim(f"jitted log_prob of {model}", "1.25× of best", found, share <= 1.25)


def share_aim(what: str, times: Mapping[str, Times], others: Sequence[str]) -> Aim:
    """Ours a tenth of each of the others that are there."""
    there = [times[name].median for name in others if name in times]
    share = times[OURS].median / min(there) if there else None
    shown = f"{duration(times[OURS].median)}, {ratio(share)} of the faster peer"
    return Aim(what, "a tenth", shown if there else "peers absent", share <= 0.1 if share is not None else None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joint", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print_header(("jax", "numpy", "numpyro", *(("tfp-nightly",) if peers.HAS_TFP else ())))
    made = compilation(max(3, rounds // 5))
    ran = {model: jitted(model, rounds) for model in peers.MODELS}
    called, drawn = repeated(rounds), draws(max(3, rounds // 5))
    slowest = made[OURS].median
    aims = [best_aim(model, times) for model, times in ran.items()]
    aims.append(share_aim("un-jitted log_prob of simple", called, (SEQUENTIAL, BATCHED, NUMPYRO)))
    aims.append(share_aim(f"{DRAWS:,} draws, of TFP", drawn, (SEQUENTIAL, BATCHED)))
    aims.append(Aim("trace and compile of chain", "< 3 s", duration(slowest), slowest < 3.0))
    print_summary(aims)


if __name__ == "__main__":
    main()
