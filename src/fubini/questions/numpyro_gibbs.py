"""A discrete remainder, sampled by numpyro: Gibbs steps for what is discrete, the no-U-turn sampler for the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpyro
from jax.sharding import NamedSharding, PartitionSpec
from numpyro.infer import NUTS, DiscreteHMCGibbs

from fubini.base.arrays import Data
from fubini.base.distant import rebuild
from fubini.distributions.array_distribution import made
from fubini.distributions.density import Distribution
from fubini.errors import Intractable, NoRule, listed
from fubini.infer.nuts import nuts_fault
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_numbers, fault_of_range, first_fault
from fubini.infer.transitions import Transition, Transitions
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.sample import Alike, Chosen
from fubini.questions.label_ties import ties_of


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


def as_numpyro(tree: Any) -> Callable[[list[Data]], None]:
    """A joint as a model function of numpyro, of the leaves of its tree; the densities of observations are factors."""

    def model(leaves: list[Data]) -> None:
        run = rebuild(tree, leaves).run(Sites())
        for place, weight in enumerate(_weights(run)):
            numpyro.factor(f"observed.{place}", weight)

    return model


def _weights(run: Any) -> list[Data]:
    weights = [site.log_density() for site in run.sites if site.log_density and not site.is_free and site.inner is None]
    return [*weights, *(weight for site in run.sites if site.inner is not None for weight in _weights(site.inner))]


def discrete_gibbs(model: FlatModel, warmup: int) -> Transitions:
    """Make the sampler of all latents of a model."""
    latents = dict(model.outline.free_domains())
    infinite = [name for name, domain in latents.items() if domain.is_discrete and domain.kind != "bint"]
    if infinite:
        raise NoRule(
            f"draws of {listed(infinite)}",
            expected="discrete latents with finitely many values, counted from 0",
            advice="truncate the support, count from 0, or integrate the latent out of the model by hand",
        )
    labels = tuple((name, domain.extent) for name, domain in latents.items() if domain.is_discrete)
    ties_of(eliminated(model, ())).require_connected(f"draws of the labels {listed(name for name, _ in labels)}")
    is_mixed = len(labels) < len(latents)
    transition = _transition(model.tree, model.outline.free, labels, is_mixed, warmup)
    numbers = jax.tree_util.tree_map(jax.numpy.asarray, model.leaves)
    if model.mesh is not None:  # entries are drawn one after another, whichever device they lie on
        numbers = jax.jit(lambda leaves: leaves, out_shardings=NamedSharding(model.mesh, PartitionSpec()))(numbers)
    return Transitions("gibbs", transition, numbers, warmup)


@lru_cache(maxsize=64)
def _transition(
    tree: Any, names: tuple[str, ...], labels: tuple[tuple[str, int], ...], is_mixed: bool, warmup: int
) -> Transition:
    """One sweep; the same for all data, so that what is compiled is used again. `labels` have so many values each."""
    kernel: Any = DiscreteHMCGibbs(NUTS(as_numpyro(tree)), modified=is_mixed)

    def init(key: Data, start: Any, leaves: list[Data]) -> Any:
        try:
            return kernel.init(key, warmup, None, (leaves,), {})
        except ValueError as error:
            if "supports" not in str(error):
                raise
            raise Intractable(
                f"draws of {listed(names)}",
                expected="supports that no other latent decides, beside discrete sites that cannot be summed out",
                nearest=str(error),
                advice="write the site as a function of one with a fixed support: b = (high − low) · u + low",
            ) from None

    def draw(state: Any, leaves: list[Data]) -> Draw:
        return Draw(dict(kernel.postprocess_fn((leaves,), {})(state.z)), {})

    def fault(state: Any, drawn: Draw, transitions: int) -> str | None:
        blocks = [block.z for block in state.block_states]
        ranges = (
            fault_of_range(name, values[name], 0, size - 1)
            for name, size in labels
            for values in (state.z, drawn.values, *(z for z in blocks if name in z))
        )
        finite = fault_of_numbers(state.z.values())
        return finite or nuts_fault(state.hmc_state, drawn, transitions) or first_fault(ranges)

    return Transition(init, lambda state, leaves: kernel.sample(state, (leaves,), {}), draw, fault)
