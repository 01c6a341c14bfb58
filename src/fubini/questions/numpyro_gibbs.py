"""A discrete remainder, sampled by numpyro: Gibbs steps for what is discrete, the no-U-turn sampler for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro.infer import MCMC, NUTS, DiscreteHMCGibbs

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import made
from fubini.distributions.density import Distribution
from fubini.errors import Intractable, NoRule, listed
from fubini.infer.agreement import MOST_OF_LABELS, warn_of_disagreement
from fubini.infer.settings import Settings
from fubini.models.flavour import Flavour
from fubini.models.sample import Alike, Chosen


class Sites(Alike):
    """Each site as a sample statement of numpyro."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        numpyro_distribution: Any = made(source)
        whole = (
            numpyro_distribution.to_event(len(numpyro_distribution.batch_shape))
            if numpyro_distribution.batch_shape and not numpyro_distribution.support.is_discrete
            else numpyro_distribution
        )
        return Chosen(numpyro.sample(f"{self.path}{name}", whole), lambda: jax.numpy.zeros(()))

    def within(self, place: int, name: str) -> Sites:
        return Sites(f"{self.path}{name}.")


def as_numpyro(joint: Flavour) -> Callable[[], None]:
    """A joint as a model function of numpyro; the densities of observations are factors."""

    def model() -> None:
        run = joint.run(Sites())
        for place, weight in enumerate(_weights(run)):
            numpyro.factor(f"observed.{place}", weight)

    return model


def _weights(run: Any) -> list[Data]:
    weights = [site.log_density() for site in run.sites if site.log_density and not site.is_free and site.inner is None]
    return [*weights, *(weight for site in run.sites if site.inner is not None for weight in _weights(site.inner))]


def discrete_gibbs(key: Data, joint: Flavour, settings: Settings) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Draws [chain, draw, …] of all latents."""
    infinite = [
        site.name
        for site in joint.outline.sites
        if site.kind == "random" and site.domain is not None and site.domain.is_discrete and site.domain.kind != "bint"
    ]
    if infinite:
        raise NoRule(
            f"draws of {listed(infinite)}",
            expected="discrete latents with finitely many values, counted from 0",
            advice="truncate the support, count from 0, or integrate the latent out of the model by hand",
        )
    continuous = any(s.kind == "random" and s.domain and not s.domain.is_discrete for s in joint.outline.sites)
    kernel = DiscreteHMCGibbs(NUTS(as_numpyro(joint)), modified=continuous)
    mcmc = MCMC(
        kernel,
        num_warmup=settings.warmup,
        num_samples=settings.draws,
        num_chains=settings.chains,
        chain_method=jax.vmap if settings.chains > 1 else "sequential",  # type: ignore[arg-type]
        progress_bar=settings.progress,
    )
    try:
        mcmc.run(key)
    except ValueError as error:
        if "supports" not in str(error):
            raise
        raise Intractable(
            f"draws of {listed(joint.outline.free)}",
            expected="supports that no other latent decides, beside discrete sites that cannot be summed out",
            nearest=str(error),
            advice="write the site as a function of one with a fixed support: b = (high − low) · u + low",
        ) from None
    draws = {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    warn_of_disagreement(draws, MOST_OF_LABELS)
    return draws, {}, "gibbs"
