"""What each site of a model is: observed, computed, integrated out or sampled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fubini.eliminate.explanation import Explanation
from fubini.models.joint import Joint
from fubini.models.outline import SiteOutline
from fubini.report.diagnostics import INDEPENDENT
from fubini.report.posterior_draws import PosteriorDraws

FIXED = {
    "observed": "observed",
    "deterministic": "deterministic",
    "weight": "factor of the density",
}
MEANING = {
    "observed": "Its value is known: it is part of the data.",
    "deterministic": "It is computed from other sites, without randomness of its own.",
    "factor of the density": "It multiplies the density of the model, and has no value of its own.",
    "integrated out": "It was integrated (or summed) out exactly; draws of it, if any, were made given the others.",
    "can be integrated out": "It has a closed form given the others.",
    "sampled": "It has no closed form that was used: its values are drawn by a sampler.",
    "to be sampled": "It has no closed form here: a sampler draws it.",
    "unknown": "It is neither observed nor computed.",
}


@dataclass(frozen=True)
class Elimination:
    """Which latents were integrated out, by a run of a sampler or by the plan."""

    names: Collection[str]
    was_run: bool
    is_known: bool = True

    def role(self, name: str) -> str:
        """The role of a latent."""
        is_out = any(name == out or out.startswith(f"{name}.") for out in self.names)
        if not self.is_known:
            return "sampled" if self.was_run else "unknown"
        if self.was_run:
            return "integrated out" if is_out else "sampled"
        return "can be integrated out" if is_out else "to be sampled"


def elimination(
    explanation: Explanation | None, draws: PosteriorDraws | None, by_sampler: Collection[str] | None
) -> Elimination:
    """What a label sampler or these draws integrated out; without either, what the plan integrates out."""
    if by_sampler is not None:
        return Elimination(by_sampler, True)
    planned = set() if explanation is None else set(map(str, explanation.order))
    if draws is None:
        return Elimination(planned, False, explanation is not None)
    if draws.method == "exact" or (draws.method in INDEPENDENT and not draws.eliminated):
        return Elimination(planned or draws.eliminated, True)
    return Elimination(set(draws.eliminated), True)


def roles(post: Joint, out: Elimination) -> dict[str, str]:
    """The role of each site."""
    return {site.name: _role(site, out) for site in post.outline.sites}


def _role(site: SiteOutline, out: Elimination) -> str:
    return FIXED.get(site.kind) or out.role(site.name)
