"""A normal approximation of a density at a mode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SAME = 0.1  # standard deviations


class Normal(NamedTuple):
    """A normal approximation at a mode: the mode, a root L of its covariance L Lᵀ, and log f(mode) + log |L|."""

    mode: np.ndarray
    root: np.ndarray
    log_mass: float
    is_mode: bool = True  # the log density does not rise from there, and curves down in all directions

    def is_at(self, point: np.ndarray) -> bool:
        """Whether a point is this mode, but for a small part of a standard deviation."""
        return bool(np.linalg.norm(np.linalg.solve(self.root, point - self.mode)) < SAME)
