"""Whether chains agree: a warning where they do not, since their means are then those of no posterior."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from fubini.errors import Disagreement

MOST = 1.05  # an R-hat
FEWEST = 200  # draws of a chain by which it is judged


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """R-hat of each number of draws [chain, draw, …], of halves of chains (Gelman et al. 2013, equation 11.4)."""
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]]).astype(np.float64)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)


def warn_of_disagreement(free: Mapping[str, np.ndarray]) -> None:
    """Of draws [chain, draw, …] by name, where there are enough to tell."""
    if any(value.shape[0] == 1 or value.shape[1] < FEWEST for value in free.values()):
        return
    rhats = {
        name: np.max(split_rhat(value), initial=0.0, where=value.std(axis=(0, 1)) > 0) for name, value in free.items()
    }
    worst = max(rhats, key=lambda name: rhats[name])
    if rhats[worst] > MOST:
        warnings.warn(
            Disagreement(
                f"chains that do not agree: R-hat {rhats[worst]:.2f} of {worst!r}",
                expected=f"below {MOST}",
                advice="draw more; give entries that can be exchanged an order, and those of either sign a sign",
            ),
            stacklevel=2,
        )
