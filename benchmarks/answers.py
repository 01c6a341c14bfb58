"""Evidence, draws and predictions of the models of examples/forty, against NumPyro's.

    python -m benchmarks.answers --data DATA
    python -m benchmarks.answers --data DATA --only seal

One row for each model, against what `python -m tests.forty.reference` stored of long runs of NumPyro:

- `evidence`: how it is found, its logarithm and its error; `apart`: how far it is from bridge sampling, in standard
  errors of both;
- `drawn by`: the method that `infer` chose; `apart`: the posterior mean of a compared site that is furthest from the
  reference's, in Monte Carlo errors of both; `time` of 4 × 1,000 draws, compiled before; `ess/s`: the least effective
  draws a second;
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

import fubini as fb
from benchmarks.report import Aim, Table, duration, print_header, print_summary
from examples.forty.all_studies import studies
from examples.forty.study import Study
from tests.forty.reference import FILE
from tests.infer.reference import summary

FAR = 4.5  # standard errors; the largest of some hundred quantities is below, but for one run in a thousand
POINTS = 2000  # of sequential Monte Carlo
ROUNDING = 1e-4  # of numbers that are stored, relative

COLUMNS = ("model", "evidence  ", "log evidence", "   error", "apart", "drawn by", "apart", "    time", "  ess/s",
           "apart", "predict")  # fmt: skip


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
    return float(found), error, abs(float(found) - stored["log_evidence"]) / both


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


def ask_prediction(study: Study, stored: Mapping[str, Any], data: Any) -> tuple[float, float]:
    """The furthest mean of a prediction at new inputs, in standard errors, and the time of the second call."""
    post, fresh = study.post(), study.model(*study.new)
    post.predict(jax.random.key(4), study.site, model=fresh, draws=data)
    begun = time.perf_counter()
    seen = np.asarray(post.predict(jax.random.key(5), study.site, model=fresh, draws=data), float)
    seconds = time.perf_counter() - begun
    there = {what: np.asarray(value) for what, value in stored["predicted"].items()}
    seen = seen.reshape(-1, *there["mean"].shape)
    both = np.hypot(seen.std(axis=0) / np.sqrt(len(seen)), there["sd"] / np.sqrt(there["draws"]))
    return float(np.max(np.abs(seen.mean(axis=0) - there["mean"]) / (both + ROUNDING * there["sd"]))), seconds


def compare(study: Study, stored: Mapping[str, Any], table: Table, draws: int) -> list[Aim]:
    """One row, and whether each answer is near."""
    log_evidence, error, evidence_apart = ask_evidence(study, stored)
    data, seconds, moments_apart, ess = ask_draws(study, stored, draws)
    predicted_apart, predict_seconds = ask_prediction(study, stored, data)
    table.row(
        study.name, study.evidence, f"{log_evidence:.4f}", f"{error:.1g}", f"{evidence_apart:.1f}",
        data.posterior.attrs["method"], f"{moments_apart:.1f}", duration(seconds),
        f"{ess:,.0f}", f"{predicted_apart:.1f}", duration(predict_seconds),
    )  # fmt: skip
    return [
        Aim(f"{study.name}: {what}", f"≤ {FAR}", f"{apart:.1f}", apart <= FAR)
        for what, apart in (("evidence", evidence_apart), ("draws", moments_apart), ("prediction", predicted_apart))
    ]


def main() -> int:
    """Print a row for each model; the exit status is 1 where an answer is far from the reference's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="the folder of data sets")
    parser.add_argument("--only", default="", help="models whose names hold this")
    parser.add_argument("--draws", type=int, default=1000, help="of each of four chains")
    options = parser.parse_args()
    print_header(("jax", "numpyro", "numpy"))
    stored = json.loads(FILE.read_text())
    table, aims = Table("against long runs of NumPyro", COLUMNS, first=24, left=(1, 5)), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for study in studies(Path(options.data) if options.data else None):
            if options.only in study.name and study.name in stored:
                aims += compare(study, stored[study.name], table, options.draws)
    print_summary(aims)
    return int(any(aim.met is False for aim in aims))


if __name__ == "__main__":
    raise SystemExit(main())
