"""Draws in numbers: mean, deviation and 90 % interval; R-hat and effective sample sizes, by ArviZ."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np

INTERVAL = 0.05, 0.95


def arviz() -> Any:
    """ArviZ, which takes a second to import, and warns that its next version will differ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import arviz as module
        except FileNotFoundError:  # it notes the day in a file, which another process has just moved into its place
            import arviz as module
    return module


def describe(numbers: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, standard deviation, 5 % and 95 % quantile."""
    if not numbers.size:
        return np.nan, np.nan, np.nan, np.nan
    low, high = np.quantile(numbers, INTERVAL)
    return float(numbers.mean()), float(numbers.std(ddof=1)) if numbers.size > 1 else 0.0, float(low), float(high)


def diagnose(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R-hat (rank-normalised), bulk and tail effective sample size of draws [chain, draw, number].

    NaN of what does not vary or is not finite, of fewer than four draws, and R-hat of one chain.
    """
    az, values = arviz(), draws.astype(np.float64)
    nothing = np.full(values.shape[-1], np.nan)
    if values.shape[1] < 4:
        return nothing, nothing, nothing
    known = np.isfinite(values).all(axis=(0, 1))
    values = np.where(known, values, 0.0)
    varies = values.std(axis=(0, 1)) > 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        logging.getLogger("arviz").addFilter(_silent)
        try:
            data = az.convert_to_dataset({"x": values})
            rhat = az.rhat(data)["x"].values if values.shape[0] > 1 else nothing
            bulk, tail = (az.ess(data, method=method)["x"].values for method in ("bulk", "tail"))
        finally:
            logging.getLogger("arviz").removeFilter(_silent)
    rhat, bulk, tail = (np.where(varies, each, np.nan) for each in (rhat, bulk, tail))
    return rhat, bulk, tail


def _silent(record: logging.LogRecord) -> bool:
    return False
