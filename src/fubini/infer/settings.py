"""How to sample, and what a sampler gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Settings(NamedTuple):
    """How to sample."""

    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool | None = None
    progress: bool = True


class Sampled(NamedTuple):
    """Draws [chain, draw, …] of unconstrained numbers, and what the sampler says of each."""

    free: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
