"""What R-hat and effective sample sizes say, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fubini.errors import in_words
from fubini.questions.draw_diagnostics import describe, diagnose
from fubini.questions.represented import BACKWARD
from fubini.report.posterior_draws import PosteriorDraws, Quantity

RHAT_GOOD, RHAT_BAD = 1.01, 1.05  # Vehtari et al. 2021; Gelman et al. 2013
ESS_GOOD, ESS_BAD = 100, 25  # effective draws for each chain (Vehtari et al. 2021)
INDEPENDENT = {
    "exact": "drawn from the exact posterior",
    "grid": "drawn from the posterior on a grid that describes it",
    BACKWARD: "drawn backwards through the chain",
}
MOST_SITES = 5  # that are named
APPROXIMATE = {"svi": "variational inference", "laplace": "Laplace's approximation"}


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and 90 % interval of a number, with its diagnostics."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    rhat: float = np.nan
    ess_bulk: float = np.nan
    ess_tail: float = np.nan


@dataclass(frozen=True)
class HighRhat:
    """How many numbers have an R-hat above 1.01, of how many, and in which sites."""

    above: int
    checked: int
    sites: tuple[str, ...]

    @classmethod
    def count(cls, rhats: Mapping[str, np.ndarray]) -> HighRhat:
        """Count over the sites; an R-hat is taken as it is shown."""
        above = {name: int((np.round(rhat, 3) > RHAT_GOOD).sum()) for name, rhat in rhats.items()}
        checked = sum(int(np.isfinite(rhat).sum()) for rhat in rhats.values())
        return cls(sum(above.values()), checked, tuple(name for name, count in above.items() if count))

    def sentence(self) -> str:
        """The counts in words, where there are several numbers."""
        if self.checked < 2 or not self.above:
            return ""
        names, more = self.sites[:MOST_SITES], len(self.sites) - MOST_SITES
        where = f"{', '.join(names)} and {more:,} more sites" if more > 0 else in_words(names)
        return f" It is above {RHAT_GOOD} for {self.above:,} of {self.checked:,} numbers that were checked, in {where}."


@dataclass(frozen=True)
class Verdict:
    """What the diagnostics say: good, doubtful or bad, and why."""

    level: str
    sentences: tuple[str, ...]


def summarise(quantities: Sequence[Quantity]) -> list[Summary]:
    """The summaries of numbers of one site."""
    if not quantities:
        return []
    rhat, bulk, tail = diagnose(np.stack([one.draws for one in quantities], axis=-1))
    return [
        Summary(one.name, *describe(one.finite), rhat=float(r), ess_bulk=float(b), ess_tail=float(t))
        for one, r, b, t in zip(quantities, rhat, bulk, tail, strict=True)
    ]


def shown_rhat(rhat: float) -> str:
    """R-hat in three digits; what is large says no more than that.

    >>> shown_rhat(1.0234), shown_rhat(1e6), shown_rhat(float("nan"))
    ('1.023', '> 100', '–')
    """
    return "–" if rhat != rhat else f"{rhat:.3f}" if rhat <= 100 else "> 100"


def judge(draws: PosteriorDraws) -> Verdict:
    """The verdict on all draws."""
    checked = {name: diagnose(site.checked()) for name, site in draws.sites.items()}
    rhat = max(((_most(r), name) for name, (r, _, _) in checked.items() if np.isfinite(r).any()), default=(np.nan, ""))
    ess = {name: np.minimum(bulk, tail) for name, (_, bulk, tail) in checked.items()}
    least = min(((float(np.nanmin(e)), name) for name, e in ess.items() if np.isfinite(e).any()), default=(np.nan, ""))
    broken = [name for name, site in draws.sites.items() if not np.isfinite(site.draws).all()]
    counted = HighRhat.count({name: r for name, (r, _, _) in checked.items()})
    return verdict(rhat, least, draws.shape, draws.method, draws.diverging or 0, broken, counted)


def _most(rhat: np.ndarray) -> float:
    return float(np.nanmax(rhat))


def verdict(
    rhat: tuple[float, str],
    ess: tuple[float, str],
    shape: tuple[int, int],
    method: str,
    diverging: int = 0,
    broken: Sequence[str] = (),
    high: HighRhat | None = None,
) -> Verdict:
    """What the highest R-hat and the lowest effective sample size say, each with the site it is of.

    `broken` are sites with draws that are not finite numbers; `high` says how many numbers have an R-hat above 1.01.
    """
    if method in APPROXIMATE:
        return Verdict(
            "doubtful",
            (
                f"These draws are from a normal approximation ({APPROXIMATE[method]}), not from the posterior itself.",
                'R-hat and effective sample size say nothing of its error: compare with method="nuts".',
            ),
        )
    judged = [_of_rhat(*rhat, shape, high), _of_ess(*ess, shape), _of_divergences(diverging, shape), _of_broken(broken)]
    found = [each for each in judged if each is not None]
    level = max((level for level, _ in found), key=("good", "doubtful", "bad").index, default="good")
    first = {"good": "No problem was found.", "doubtful": "Look closer.", "bad": "Do not rely on these draws yet."}
    independent = f"The draws are independent of each other: {INDEPENDENT[method]}." if method in INDEPENDENT else ""
    return Verdict(level, tuple(filter(None, (first[level], independent, *(sentence for _, sentence in found)))))


def _of_rhat(rhat: float, site: str, shape: tuple[int, int], high: HighRhat | None) -> tuple[str, str] | None:
    if rhat != rhat:
        said = "R-hat needs two chains or more that vary: run several, to see whether they agree."
        return ("doubtful", said) if shape[0] == 1 else None
    rhat = round(rhat, 3)  # as it is shown
    how_many = "" if high is None else high.sentence()
    if rhat <= RHAT_GOOD:
        return "good", f"The chains agree: the highest R-hat is {rhat:.3f} (of {site}; at most {RHAT_GOOD} is wanted)."
    if rhat <= RHAT_BAD:
        said = f"The chains nearly agree: the highest R-hat is {rhat:.3f}, of {site} (at most {RHAT_GOOD} is wanted)."
        return "doubtful", f"{said}{how_many} Draw more."
    said = f"The chains do not agree: R-hat is {shown_rhat(rhat)} for {site}, where at most {RHAT_GOOD} is wanted."
    advice = (
        "Draw more with a longer warmup. Where labels of groups can be exchanged, chains may number the same groups "
        "differently: give the groups an order, or look at what does not depend on their numbers."
    )
    return "bad", f"{said}{how_many} {advice}"


def _of_ess(ess: float, site: str, shape: tuple[int, int]) -> tuple[str, str] | None:
    if ess != ess:
        return None
    said = f"the effective sample size is {ess:,.0f} at least (of {site}), from {shape[0] * shape[1]:,} draws"
    if ess >= ESS_GOOD * shape[0]:
        return "good", f"There are enough draws for means and 90 % intervals: {said}."
    level = "bad" if ess < ESS_BAD * shape[0] else "doubtful"
    return level, f"Draws are few: {said}; {ESS_GOOD} for each chain are wanted. Draw more."


def _of_divergences(diverging: int, shape: tuple[int, int]) -> tuple[str, str] | None:
    if not diverging:
        return None
    share = diverging / max(shape[0] * shape[1], 1)
    said = (
        f"{diverging:,} of the draws ({share:.1%}) ended in a divergence: where the density bends sharply it may not be"
    )
    return "bad" if share > 0.01 else "doubtful", f"{said} explored. Set target_accept closer to 1, or rescale."


def _of_broken(sites: Sequence[str]) -> tuple[str, str] | None:
    return ("bad", f"Some draws are not finite numbers: of {', '.join(sites)}.") if sites else None
