"""The mean, the standard deviation and the 90 % interval of a density of numbers, as it is printed.

They come from SciPy's special functions on the host, so that nothing is compiled for a printed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fubini.distributions.family_summaries import summary_at
from fubini.factors.printed import shown

EDGES = 0.05, 0.95


def summary_of(distribution: Any, shape: tuple[int, ...]) -> str:
    """The mean, the deviation and the interval of a Distribution whose parameters are numbers, or nothing.

    >>> summary_of(fb.dist.Normal(1.0, 2.0), ())
    'mean 1, sd 2, 90 % interval -2.29 to 4.29'
    """
    with np.errstate(all="ignore"):
        summary = summary_at(distribution)
        if summary is None:
            return ""
        moments = (("mean", summary.mean), ("sd", summary.sd))
        parts = [f"{label} {_shown(numbers, shape)}" for label, numbers in moments if numbers is not None]
        if summary.quantile is not None:
            low, high = (_shown(summary.quantile(edge), shape) for edge in EDGES)
            parts.append(f"90 % interval {low} to {high}")
    return ", ".join(parts)


def _shown(numbers: Any, shape: tuple[int, ...]) -> str:
    """Numbers that are all the same as one."""
    array = np.asarray(numbers, np.float64)
    is_one = array.size == 1 and not np.ndim(numbers)
    return shown(array) if is_one or array.shape == shape else shown(np.broadcast_to(array, shape))
