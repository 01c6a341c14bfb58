"""Evidence, draws and predictions of the models of examples/forty, against NumPyro's.

    python -m benchmarks.answers --data DATA
    python -m benchmarks.answers --data DATA --only seal

One row for each model, against what `python -m tests.forty.reference` stored of long runs of NumPyro:

- `evidence`: how it is found, its logarithm and its error; `apart`: how far it is from bridge sampling, in standard
  errors of both, or as far as that of a normal where the reference's own error comes from four chains;
- `drawn by`: the method that `infer` chose; `apart`: the posterior mean of a compared site that is furthest from the
  reference's, in Monte Carlo errors of both; `time` of 4 × 1,000 draws, compiled before; `ess/s`: the least effective
  draws a second; `NumPyro`: the same of NUTS over all latents, discrete ones summed by hand, four chains at once, with
  as many steps of warm-up, without the time in which JAX compiles; `ratio`: ours over NumPyro's;
- `apart`, `time` of predictions at new inputs: the mean of 4,000 draws that is furthest, in standard errors.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro.infer import MCMC, NUTS
from scipy.stats import norm as normal
from scipy.stats import t as student_t

import fubini as fb
from benchmarks.infer import timed
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from examples.forty.all_studies import studies
from examples.forty.study import Study
from fubini.errors import FubiniError
from tests.forty.reference import FILE
from tests.infer.reference import summary

CHAINS = 4  # of a reference
FAR = 4.5  # standard errors; the largest of some hundred quantities is below, but for one run in a thousand
POINTS = 2000  # of sequential Monte Carlo
ROUNDING = 1e-4  # of numbers that are stored, relative

COLUMNS = ("model", "evidence  ", "log evidence", "   error", "apart", "drawn by", "apart", "    time", "  ess/s",
           "NumPyro", "  ratio", "apart", "predict")  # fmt: skip


def approximation(study: Study) -> AbstractContextManager:
    """What is in force while the evidence is asked for."""
    ways = {
        "closed": nullcontext,
        "quadrature": fb.quadrature,
        "smc": lambda: fb.monte_carlo(jax.random.key(3), POINTS),
    }
    return ways[study.evidence]()


def ask_evidence(study: Study, stored: Mapping[str, Any]) -> tuple[float, float, float]:
    """The log-evidence, its error, and how many standard errors it is from the reference."""
    with approximation(study):
        found = study.post().log_evidence()
    error = found.exactness.error or 0.0
    assert found.exactness.is_exact == (study.evidence == "closed")
    both = float(np.hypot(error, stored["error"])) + ROUNDING
    freedom = (CHAINS - 1) * (both / stored["error"]) ** 4  # Welch: the reference's error is that of a few chains
    apart = student_t.sf(abs(float(found) - stored["log_evidence"]) / both, freedom)
    return float(found), error, float(normal.isf(apart))


def ask_draws(study: Study, stored: Mapping[str, Any], draws: int) -> tuple[Any, float, float, float]:
    """The draws, the time of the second run, the furthest mean, and the least effective draws a second."""
    post = study.post()
    post.infer(jax.random.key(1), draws=draws, warmup=draws, progress=False, predictive=False)
    begun = time.perf_counter()
    data = post.infer(jax.random.key(2), draws=draws, warmup=draws, progress=False, predictive=False)
    seconds = time.perf_counter() - begun
    found = summary({name: np.asarray(data.posterior[name].values, float) for name in study.compared})
    furthest = 0.0
    for name, of in found.items():
        there = {what: np.asarray(value) for what, value in stored["moments"][name].items()}
        both = np.hypot(of["mcse"], there["mcse"]) + ROUNDING * (np.abs(there["mean"]) + there["sd"])
        furthest = max(furthest, float(np.max(np.abs(of["mean"] - there["mean"]) / both)))
    return data, seconds, furthest, min(float(np.nanmin(of["ess"])) for of in found.values()) / seconds


def peer_draws(study: Study, draws: int) -> float:
    """The least effective draws a second of NumPyro's second run."""
    numpyro.enable_x64()
    sampler = MCMC(NUTS(study.peer), num_warmup=draws, num_samples=draws, num_chains=4, chain_method="vectorized",
                   progress_bar=False)  # fmt: skip

    def run(seed: int) -> dict[str, np.ndarray]:
        sampler.run(jax.random.key(seed), *study.inputs, study.y)
        return {name: np.asarray(value, float) for name, value in sampler.get_samples(group_by_chain=True).items()}

    run(1)
    seconds, compiling, drawn = timed(run, 2)  # NumPyro compiles in every run
    numpyro.enable_x64(False)
    found = summary({name: drawn[name] for name in study.compared})
    return min(float(np.nanmin(of["ess"])) for of in found.values()) / (seconds - compiling)


def ask_prediction(study: Study, stored: Mapping[str, Any], data: Any) -> tuple[float, float]:
    """The furthest mean of a prediction at new inputs, in standard errors, and the time of the second call."""
    post, asked = study.post(), {"model": study.model(*study.new), "draws": data, "new": study.anew}
    post.predict(jax.random.key(4), study.site, **asked)
    begun = time.perf_counter()
    seen = np.asarray(post.predict(jax.random.key(5), study.site, **asked), float)
    seconds = time.perf_counter() - begun
    there = {what: np.asarray(value) for what, value in stored["predicted"].items()}
    seen = seen.reshape(-1, *there["mean"].shape)
    both = np.hypot(seen.std(axis=0) / np.sqrt(len(seen)), there["sd"] / np.sqrt(there["draws"]))
    return float(np.max(np.abs(seen.mean(axis=0) - there["mean"]) / (both + ROUNDING * there["sd"]))), seconds


def compare(study: Study, stored: Mapping[str, Any], table: Table, draws: int, alone: bool) -> list[Aim]:
    """One row, and whether each answer is near; `alone` leaves NumPyro out."""
    log_evidence, error, evidence_apart = ask_evidence(study, stored)
    data, seconds, moments_apart, ess = ask_draws(study, stored, draws)
    predicted_apart, predict_seconds = ask_prediction(study, stored, data)
    peer = None if alone else peer_draws(study, draws)
    times_as_many = None if peer is None else ess / peer
    table.row(
        study.name, study.evidence, f"{log_evidence:.4f}", f"{error:.1g}", f"{evidence_apart:.1f}",
        data.posterior.attrs["method"], f"{moments_apart:.1f}", duration(seconds),
        f"{ess:,.0f}", "-" if peer is None else f"{peer:,.0f}", ratio(times_as_many), f"{predicted_apart:.1f}",
        duration(predict_seconds),
    )  # fmt: skip
    met = None if times_as_many is None else times_as_many >= 1.0
    return [
        Aim(f"{study.name}: {what}", f"≤ {FAR}", f"{apart:.1f}", apart <= FAR)
        for what, apart in (("evidence", evidence_apart), ("draws", moments_apart), ("prediction", predicted_apart))
    ] + [Aim(f"{study.name}: effective draws a second, over NumPyro's", "≥ 1", ratio(times_as_many), met)]


def main() -> int:
    """Print a row for each model; the exit status is 1 where an answer is far from the reference's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="the folder of data sets")
    parser.add_argument("--only", default="", help="models whose names hold one of these, apart by commas")
    parser.add_argument("--draws", type=int, default=1000, help="of each of four chains")
    parser.add_argument("--alone", action="store_true", help="without NumPyro's draws beside ours")
    options = parser.parse_args()
    print_header(("jax", "numpyro", "numpy"))
    stored = json.loads(FILE.read_text())
    table, aims = Table("against long runs of NumPyro", COLUMNS, first=24, left=(1, 5)), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for study in studies(Path(options.data) if options.data else None):
            if any(part in study.name for part in options.only.split(",")) and study.name in stored:
                try:
                    aims += compare(study, stored[study.name], table, options.draws, options.alone)
                except FubiniError as error:
                    aims.append(Aim(f"{study.name}: answers", "answers", str(error).splitlines()[0], False))
    print_summary(aims)
    return int(any(aim.met is False for aim in aims))


if __name__ == "__main__":
    raise SystemExit(main())
