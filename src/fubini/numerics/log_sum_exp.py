"""log Σ exp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def log_sum_exp(logs: ArrayLike, axis: int | None = None) -> Any:
    """log Σ exp(logs) over all entries, or along an axis."""
    return np.logaddexp.reduce(np.asarray(logs, np.float64), axis=axis)
