"""`infer`: what has a closed form is integrated out, the rest is sampled, and what was integrated out is drawn back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import numpy as np

from fubini.base.arrays import Data, is_double_precision, require_room, within_memory
from fubini.engines.host_keys import split, split_apart
from fubini.errors import DataError, DomainError, Intractable, NoRule, Restriction, listed, warn
from fubini.infer.agreement import MOST_OF_LABELS, are_in_unequal_modes, warn_of_disagreement
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.driver import Schedule, run
from fubini.infer.grid import is_worthwhile
from fubini.infer.methods import LABELS, METHODS, Settings, require_method
from fubini.infer.nuts import NutsOptions
from fubini.infer.nuts_warnings import warn_of_draws
from fubini.infer.sampler import Draw, Sampler
from fubini.infer.target import Target
from fubini.infer.tempered import is_temperable, warn_of_populations
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.options import require_options, whole_number
from fubini.models.question_heads import exact_infer
from fubini.numerics.randomness import require_key
from fubini.questions.arviz_groups import groups_of, to_arviz
from fubini.questions.closed_form import require_evidence, require_numbers, require_proper
from fubini.questions.gibbs import compiled_gibbs
from fubini.questions.label_choice import elimination_of
from fubini.questions.numpyro_gibbs import discrete_gibbs
from fubini.questions.sampler_target import target_of

PRIOR_DRAWS = 64
IMPOSSIBLE = "such values are taken to be impossible; restrict the prior, or use a form that stays inside"
OPTIONS = (
    *("key", "draws", "chains", "warmup", "method", "eliminate", "checkpoint", "dims", "coords", "progress"),
    *("log_likelihood", "predictive", "target_accept", "max_tree_depth", "dense_mass"),
)


@exact_infer.rule
def draw_from_posterior(model: FlatModel, key: Any, options: dict) -> Any:
    """θ ~ p(θ | observed)"""
    return infer(model, key, **options)


def infer(
    model: FlatModel,
    key: Data,
    *,
    draws: int,
    chains: int,
    warmup: int | None,
    method: str | None,
    eliminate: Sequence[str] | None,
    checkpoint: str | os.PathLike | None,
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Sequence[Any]] | None,
    progress: bool,
    log_likelihood: bool | None,
    predictive: bool | None,
    options: Mapping[str, Any],
) -> Any:
    """Draws of all latents given the observations."""
    require_key(key)
    draws, chains = whole_number("draws", draws), whole_number("chains", chains)
    require_options("infer", options, OPTIONS)
    require_method(method)
    request = Request(method, eliminate, make_settings(warmup, progress, options), options, checkpoint)
    first, second, third = split_apart(key, 3)
    drawn = draw_latents(model, (key, first, second), Schedule(draws, chains=chains), request)
    with within_memory(f"infer(…) of {listed(drawn.values)}"), model.precision():
        groups = groups_of(third, model, drawn.values, log_likelihood, predictive, (chains, draws))
    return to_arviz(drawn.values, drawn.info, groups, drawn.attributes, dims, coords)


class Request(NamedTuple):
    """How draws were asked for."""

    method: str | None
    eliminate: Sequence[str] | None
    settings: Settings
    options: Mapping[str, Any] = {}
    checkpoint: str | os.PathLike | None = None


class Drawn(NamedTuple):
    """Values [chain, draw, …] of all latents by name, what the sampler reports, what was eliminated, and how."""

    values: dict[str, np.ndarray]
    info: dict[str, Data]
    eliminated: tuple[str, ...]
    method: str
    reason: str = ""

    @property
    def attributes(self) -> dict[str, Any]:
        """What ArviZ data say of the draws."""
        why = {"reason": self.reason} if self.reason else {}
        return {"method": self.method, "eliminated": list(self.eliminated), **why}


def draw_latents(model: FlatModel, keys: tuple[Data, Data, Data], schedule: Schedule, request: Request) -> Drawn:
    """Draw all latents; of the keys, the first is that of the question, the others draw."""
    key, first, second = keys
    method, settings, options = request.method, request.settings, request.options
    eliminated_model, reason = elimination_of(model, request.eliminate, "nuts" if options and not method else method)
    warn_of_restriction(key, eliminated_model)
    asked = f"infer(…) of {listed(eliminated_model.reading.sites)}"
    lead = (schedule.chains, schedule.kept)
    require_room(asked, *((*lead, *domain.shape) for domain in eliminated_model.reading.domains.values()))
    with within_memory(asked), model.precision():
        discrete = [name for name in eliminated_model.kept if eliminated_model.reading.domains[name].is_discrete]
        _require_fitting(discrete, eliminated_model, method, options)
        chosen = "nuts" if method is None and options else method
        file = None
        if request.checkpoint is not None:
            file = Checkpoint(request.checkpoint, _run(eliminated_model, key, chosen, settings, schedule))
        if not eliminated_model.kept:
            require_evidence(float(eliminated_model.compute_log_density({})), eliminated_model.joint)
            kept, how = Draw({}, {}), "exact"
        elif discrete:
            sampler, eliminated_model = _label_sampler(eliminated_model, settings)
            kept, how = run(sampler, first, schedule, file, settings.progress), sampler.name
            warn_of_disagreement(kept.values, MOST_OF_LABELS)
        else:
            require_proper(eliminated_model, eliminated_model.kept)
            kept, how = _continuous_draws(first, eliminated_model, chosen, settings, schedule, file)
        values = _recovered(second, eliminated_model, kept.values, *lead)
    return Drawn(values, kept.info, eliminated_model.eliminated, how, reason)


def _require_fitting(
    discrete: Sequence[str], eliminated_model: EliminatedModel, method: str | None, options: Mapping[str, Any]
) -> None:
    """Raise where a method or its options do not fit the remaining latents."""
    if discrete and method != LABELS and (method not in (None, "nuts") or options):
        raise Intractable(
            f"method={method!r} with {listed(options)}" if options else f"method={method!r}",
            expected="a model whose discrete sites can be summed out",
            nearest=f"{listed(discrete)} cannot be",
        )
    if method == LABELS and not discrete:
        raise Intractable(
            f"method={method!r}",
            expected="a label that remains: a latent with finitely many values",
            nearest=f"the remaining latents are {listed(eliminated_model.kept)}" if eliminated_model.kept else "none",
            advice='leave method= out, or use method="nuts"',
        )
    if options and method not in (None, "nuts"):
        raise DomainError(
            f"infer(…, method={method!r}, {next(iter(options))}=…)",
            expected='no options: they are those of method="nuts"',
        )


def _label_sampler(eliminated_model: EliminatedModel, settings: Settings) -> tuple[Sampler, EliminatedModel]:
    """A sampler of labels that remain, and what is eliminated before: nothing where numpyro draws."""
    sampler = compiled_gibbs(eliminated_model, settings.nuts.warmup)
    if sampler is not None:
        return sampler, eliminated_model
    model = eliminated_model.model
    return discrete_gibbs(model, settings.nuts.warmup), eliminated(model, ())


def warn_of_restriction(key: Data, eliminated_model: EliminatedModel) -> None:
    """Warn where some draws of the model itself leave what its families allow, where that is not proved."""
    if not eliminated_model.reading.reader.marks:
        return
    try:
        eliminated_model.model.prior.sample(key, (PRIOR_DRAWS,))
    except NoRule:
        return  # an improper prior
    except DataError as error:
        asked, *parts = str(error).splitlines()
        warn(Restriction("\n".join([f"{asked}, at a draw of the model", *parts]), advice=IMPOSSIBLE))


def make_settings(warmup: int | None, progress: bool, options: Mapping[str, Any]) -> Settings:
    """Settings of samplers, checked."""
    nuts = NutsOptions(1000 if warmup is None else warmup)._replace(**options)
    nuts = nuts._replace(
        warmup=whole_number("warmup", nuts.warmup),
        max_tree_depth=whole_number("max_tree_depth", nuts.max_tree_depth),
    )
    if not 0 < nuts.target_accept < 1:
        raise DomainError(f"target_accept={nuts.target_accept!r}", expected="a probability between 0 and 1")
    return Settings(nuts, progress)


def _run(
    eliminated_model: EliminatedModel, key: Data, method: str | None, settings: Settings, schedule: Schedule
) -> dict[str, Any]:
    """What a checkpoint is of."""
    content = hashlib.blake2b(digest_size=16)
    for leaf in (*eliminated_model.model.leaves, *eliminated_model.reading.reader.known.values()):
        array = np.asarray(leaf)
        content.update(f"{array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return {
        "sites": {
            name: repr(domain) if domain.labels is None else f"{domain!r} {domain.labels}"  # which is printed in part
            for name, domain in eliminated_model.reading.domains.items()
        },
        "eliminated": list(eliminated_model.eliminated),
        "model": hashlib.blake2b(eliminated_model.reading.text.encode(), digest_size=16).hexdigest(),
        "width": 64 if eliminated_model.model.is_float64 else 32,
        "numbers": content.hexdigest(),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "method": method,
        "settings": {"draws": schedule.sweeps, "chains": schedule.chains, **settings.nuts._asdict()},
        "jax": jax.__version__,
        "platform": jax.default_backend(),
    }


# -- draws ----------------------------------------------------------------------------------------------------------


def _continuous_draws(
    key: Data,
    eliminated_model: EliminatedModel,
    method: str | None,
    settings: Settings,
    schedule: Schedule,
    file: Checkpoint | None,
) -> tuple[Draw, str]:
    """Draws [chain, draw, …] of the remaining sites, and by which method."""
    target, support = target_of(eliminated_model)
    try:
        free, how = _free_draws(key, target, method, settings, schedule, file)
    except DataError:
        require_numbers(eliminated_model.joint)  # what is wrong may be said better
        raise
    return Draw(support.of_draws(free.values, target.numbers[0]), free.info), how


def _free_draws(
    key: Data, target: Target, method: str | None, settings: Settings, schedule: Schedule, file: Checkpoint | None
) -> tuple[Draw, str]:
    """Draws [chain, draw, …] of unconstrained numbers, and by which method.

    If none is asked for: by a grid, if it describes the density; else by the no-U-turn sampler; and where its chains
    are in modes of different density, whose shares they cannot know, by populations over temperatures.
    """
    if method is None and is_worthwhile(target):
        with suppress(Intractable):
            return _free_draws(key, target, "grid", settings, schedule, file)
    chosen = method or "nuts"
    sampler = METHODS[chosen](target, settings._replace(draws=schedule.sweeps))
    drawn = run(sampler, key, schedule, file, settings.progress)
    if (
        method is None
        and file is None
        and is_temperable(target)
        and are_in_unequal_modes(drawn.values, drawn.info["lp"])
    ):
        with suppress(Intractable):
            return _free_draws(key, target, "smc", settings, schedule, file)
    method = chosen
    if method == "nuts":
        warn_of_draws(drawn, settings.nuts.target_accept)
    elif method == "smc":
        warn_of_populations(drawn)
    return drawn, method


def _recovered(
    key: Data, eliminated_model: EliminatedModel, kept: Mapping[str, Data], chains: int, draws: int
) -> dict[str, np.ndarray]:
    keys = split(key, chains * draws)
    flat_kept = {name: value.reshape(chains * draws, *value.shape[2:]) for name, value in kept.items()}
    values = eliminated_model.draw_all(keys, flat_kept, float64=is_double_precision(), many=True)
    return {name: np.asarray(value).reshape(chains, draws, *value.shape[1:]) for name, value in values.items()}
