"""Whether chains agree: a warning where they do not, since their means are then those of no posterior."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fubini.errors import Disagreement, warn

MOST = 1.05  # an R-hat
MOST_OF_LABELS = 1.1  # of draws one entry after another, which depend on each other more
APART = 1.5  # an R-hat of chains in different modes, beyond that of chains which are slow
UNEQUAL = 1.0  # nats between the mean log densities of chains in modes that differ
LONG = 50  # draws of a chain that tell
PART = 2**22  # numbers that are computed with at once
CHANCE = 10.0  # of short chains: R-hat² − 1 is that over the draws of half a chain, now and then


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """R-hat of each number of draws [chain, draw, …], of halves of chains (Gelman et al. 2013, equation 11.4)."""
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]]).astype(np.float64)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)


def highest_rhat(draws: Mapping[str, np.ndarray]) -> tuple[str, float]:
    """The name with the greatest R-hat of draws [chain, draw, …] by name, and that; of what does not vary, 0."""
    rhats = {name: max((_rhat(part) for part in _parts(value)), default=0.0) for name, value in draws.items()}
    worst = max(rhats, key=lambda name: rhats[name])
    return worst, rhats[worst]


def _rhat(draws: np.ndarray) -> float:
    return float(np.max(split_rhat(draws), initial=0.0, where=draws.std(axis=(0, 1)) > 0))


def _parts(draws: np.ndarray) -> list[np.ndarray]:
    """Draws [chain, draw, number], some numbers at a time."""
    flat = draws.reshape(*draws.shape[:2], -1)
    step = max(1, PART // max(flat.shape[0] * flat.shape[1], 1))
    return [flat[..., begin : begin + step] for begin in range(0, flat.shape[2], step)]


def are_in_unequal_modes(draws: Mapping[str, np.ndarray], log_density: np.ndarray) -> bool:
    """Whether chains of draws [chain, draw, …] by name stay in different places, of different density.

    Modes that are alike, as those of labels that can be exchanged, have equal shares: whatever does not depend on the
    labels is right in every chain.
    """
    chains, count = log_density.shape
    if chains < 2 or count < LONG or not np.ptp(log_density.mean(axis=1)) > UNEQUAL:
        return False
    return highest_rhat(draws)[1] > APART


def warn_of_disagreement(draws: Mapping[str, np.ndarray], most: float = MOST) -> bool:
    """Of draws [chain, draw, …] by name, with room for chance where they are few; whether there was a warning."""
    chains, count = next(iter(draws.values())).shape[:2] if draws else (1, 0)
    if chains == 1 or count < 8:  # halves of three draws say nothing
        return False
    numbers = sum(value[0, 0].size for value in draws.values())
    chance = CHANCE + 4 * np.log(max(numbers / 100, 1.0))
    limit = max(most, float(np.sqrt(1 + chance / (count // 2))))
    worst, rhat = highest_rhat(draws)
    if rhat > limit:
        warn(
            Disagreement(
                f"chains that do not agree: R-hat {rhat:.2f} of {worst!r}",
                expected=f"below {limit:.2f}",
                advice="draw more; give entries that can be exchanged an order, and those of either sign a sign; "
                'method="smc" draws continuous latents right where modes are far apart',
            )
        )
    return rhat > limit
