"""What a run of the no-U-turn sampler says of its draws: chains that stand still, other modes, divergences, few draws.

Each is reported once. A run in which no chain moved is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fubini.errors import DataError, Disagreement, SamplerWarning, warn
from fubini.infer.agreement import warn_of_disagreement
from fubini.infer.sampler import Draw

REFUSED = 1e-3  # a rate of acceptance below which a chain is not sampling
BELOW = 5.0, 3.0  # nats, and standard deviations of the log density, by which a mode is lower than another
FEW = 100, 0.1  # effective draws for each chain, and of all draws: fewer than either are reported
LOOKED_AT = 2000  # numbers of which the effective draws are computed, at most


def warn_of_draws(drawn: Draw, target_accept: float) -> None:
    """Warn of what is wrong with draws of the no-U-turn sampler; raise where no chain moved."""
    still = still_chains(drawn)
    moving = np.flatnonzero(~still)
    _require_moves(drawn, moving)
    free = {name: value[moving] for name, value in drawn.values.items()}
    log_p = drawn.info["lp"]
    if still.any():
        _warn_of_still_chains(log_p, still)
    _warn_of_divergences(drawn.info["diverging"][moving], moving, target_accept)
    if _warn_of_modes(log_p[moving], moving) or warn_of_disagreement(free):
        return
    _warn_of_few(free)


def still_chains(drawn: Draw) -> np.ndarray:
    """Whether each chain stands still: all proposals are refused, or the density is not a number."""
    rate = np.nan_to_num(drawn.info["acceptance_rate"]).mean(axis=1)
    stays = np.all([np.all(v == v[:, :1], axis=tuple(range(1, v.ndim))) for v in drawn.values.values()], axis=0)
    return (stays & (rate < REFUSED)) | ~np.isfinite(drawn.info["lp"]).all(axis=1)


def _listed(chains: Sequence[int] | np.ndarray) -> str:
    return f"chain{'s' * (len(chains) != 1)} {', '.join(str(int(chain)) for chain in chains)}"


def _at(log_p: np.ndarray) -> str:
    return f"a log density of {np.median(log_p):.6g}"


def _require_moves(drawn: Draw, moving: np.ndarray) -> None:
    if not len(moving):
        each = ", ".join(f"{np.median(log_p):.6g}" for log_p in drawn.info["lp"])
        raise DataError(
            "draws by the no-U-turn sampler: no chain moved",
            expected="proposals of which some are accepted",
            nearest=f"all were refused; the log densities of the chains are {each}",
            advice="give more warmup, or scale data and parameters so that their size is about 1; in single precision, "
            "give NumPy arrays, which are computed in double",
        )


def _warn_of_still_chains(log_p: np.ndarray, still: np.ndarray) -> None:
    stuck, others = np.flatnonzero(still), np.flatnonzero(~still)
    warn(
        SamplerWarning(
            f"no acceptance: {_listed(stuck)} did not move, at {_at(log_p[stuck])}",
            expected=f"{_at(log_p[others])}, as of {_listed(others)}",
            advice=f"leave out what did not move, .sel(chain={others.tolist()}), or run again with another key or more "
            "warmup",
        )
    )


def _warn_of_modes(log_p: np.ndarray, chains: np.ndarray) -> bool:
    """Whether the log densities of chains differ by more than they vary within one."""
    middle, spread = np.median(log_p, axis=1), float(np.median(log_p.std(axis=1)))
    gap = middle.max() - middle
    low = gap > BELOW[0] + BELOW[1] * spread
    if low.any():
        each = ", ".join(f"chain {c}: {value:.6g}" for c, value in zip(chains, middle, strict=True))
        high = chains[~low].tolist()
        warn(
            Disagreement(
                f"modes of very different density: {_listed(chains[low])} lower by up to {gap.max():.3g} nats",
                expected="log densities that agree",
                nearest=each,
                advice=f'method="smc" draws modes by their shares; or leave the lower out, .sel(chain={high}); more '
                "warmup, another key or a prior that rules a mode out help too",
            )
        )
    return bool(low.any())


def _warn_of_divergences(diverging: np.ndarray, chains: np.ndarray, target_accept: float) -> None:
    count = diverging.sum(axis=1)
    if count.any():
        where = ", ".join(f"chain {c}: {n}" for c, n in zip(chains, count, strict=True) if n)
        closer = 1 - (1 - target_accept) / 4
        warn(
            SamplerWarning(
                f"divergences: {count.sum()} of {diverging.size} draws ({where})",
                expected="none: where steps diverge, the density bends too much for them, and is not explored",
                advice=f"target_accept={closer:.3g} makes steps smaller; where a scale goes to 0, draw standard "
                "numbers and multiply them by it",
            )
        )


def _warn_of_few(free: dict[str, np.ndarray]) -> None:
    effective_draws = {name: effective(value) for name, value in free.items()}
    worst = min(effective_draws, key=lambda name: effective_draws[name])
    chains, draws = free[worst].shape[:2]
    if effective_draws[worst] < min(FEW[0] * chains, FEW[1] * chains * draws):
        more = int(np.ceil(draws * FEW[0] * chains / max(effective_draws[worst], 1.0) / 100) * 100)
        warn(
            SamplerWarning(
                f"few effective draws: {effective_draws[worst]:.0f} of {chains * draws}, of {worst!r}",
                expected=f"{FEW[0]} for each chain",
                advice=f"draws of this chain depend on each other: draws={more}, or numbers that depend less on each "
                "other (centre and scale inputs; dense_mass=True)",
            )
        )


def effective(draws: np.ndarray) -> float:
    """The least effective number of draws [chain, draw, …] (Geyer 1992, initial monotone sequence; Vehtari 2021)."""
    chains, count = draws.shape[:2]
    flat = draws.reshape(chains, count, -1).astype(np.float64)
    flat = flat[..., flat.std(axis=(0, 1)) > 0]
    flat = flat[..., :: -(-flat.shape[-1] // LOOKED_AT) or 1]
    if count < 4 or not flat.shape[-1]:
        return float(chains * count)
    centred = flat - flat.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * count, axis=1)) ** 2
    lagged = np.fft.irfft(power, axis=1)[:, :count].mean(axis=0) / count  # [lag, number]
    within = lagged[0] * count / (count - 1)
    total = within * (count - 1) / count + (flat.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0.0)
    correlation = 1 - (within - lagged) / total
    pairs = correlation[: count - count % 2].reshape(-1, 2, flat.shape[-1]).sum(axis=1)
    pairs = np.where(np.cumsum(pairs <= 0, axis=0) > 0, 0.0, pairs)
    time = 2 * np.minimum.accumulate(pairs, axis=0).sum(axis=0) - 1
    return float(np.min(chains * count / np.maximum(time, 1 / np.log10(chains * count))))
