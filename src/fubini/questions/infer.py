"""`infer`: what has a closed form is integrated out, the rest is sampled, and what was integrated out is drawn back."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from fubini.base.arrays import Data, is_double_precision, require_room, within_memory
from fubini.base.fingerprints import require_agreement
from fubini.base.processes import on_host
from fubini.base.sharded_array import auto_mesh
from fubini.engines.host_keys import split_apart
from fubini.errors import DataError, DomainError, Intractable, NoRule, Restriction, listed, warn
from fubini.infer.agreement import MOST_OF_LABELS, are_in_unequal_modes, warn_of_disagreement
from fubini.infer.chain_placement import require_chains_axis
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.driver import Schedule
from fubini.infer.grid import is_worthwhile
from fubini.infer.methods import LABELS, METHODS, Settings, require_method
from fubini.infer.normal_approximation import STEPS
from fubini.infer.nuts import NutsOptions
from fubini.infer.nuts_warnings import warn_of_draws
from fubini.infer.sampler import Draw, Sampler
from fubini.infer.target import Target
from fubini.infer.tempered import is_temperable, warn_of_populations
from fubini.models.data_numbers import require_numbers
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.options import require_options, whole_number
from fubini.models.question_heads import exact_infer
from fubini.models.sampled_rows import SampledRows
from fubini.numerics.randomness import require_key
from fubini.questions.arviz_groups import groups_of, observed_on_mesh, to_arviz
from fubini.questions.closed_form import require_evidence, require_proper
from fubini.questions.draw_block import Block
from fubini.questions.draw_store import Axes, DrawStore, Groups, open_draws
from fubini.questions.gibbs import compiled_gibbs
from fubini.questions.kept_draws import Keeper, KeeperInMemory, KeeperInStore, Kept, RunSettings
from fubini.questions.label_choice import elimination_of
from fubini.questions.label_sweeps import LabelSweeps
from fubini.questions.numpyro_gibbs import discrete_gibbs
from fubini.questions.sampler_target import target_of
from fubini.questions.table_draws import draw_from_tables
from fubini.questions.table_gibbs import table_gibbs
from fubini.terms.exactness import estimated

PRIOR_DRAWS = 64
IMPOSSIBLE = "such values are taken to be impossible; restrict the prior, or use a form that stays inside"
OPTIONS = (
    *(
        "key",
        "draws",
        "chains",
        "warmup",
        "method",
        "eliminate",
        "checkpoint",
        "store",
        "mesh",
        "dims",
        "coords",
        "progress",
    ),
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
    store: str | os.PathLike | None,
    mesh: Any,
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
    if mesh is not None:
        require_chains_axis(mesh, chains, data=model.mesh)
        method = method or "nuts"
    asked = {"key": key, "draws": draws, "chains": chains, "warmup": warmup, "method": method, "options": dict(options)}
    asked |= {"log_likelihood": log_likelihood, "predictive": predictive}
    asked |= {"checkpoint": checkpoint is not None, "store": store is not None}
    require_agreement(
        model.mesh if mesh is None else mesh,
        "infer(key, …)",
        {**asked, "eliminate": eliminate, "data": model.leaves, "model": model.reading.text},
    )
    first, second, third = split_apart(key, 3)

    if method == "svi" and model.is_streamed:
        model = model.in_part

    def beside(values: Mapping[str, np.ndarray], block: Block) -> dict[str, dict[str, np.ndarray]]:
        if model.is_streamed and set(model.reading.sites) - set(values):
            return {"deterministic": {}}
        return groups_of(third, model, values, log_likelihood, predictive, block)

    has_data = not (log_likelihood is False and predictive is False)
    not_stored = observed_on_mesh(model) if None in (log_likelihood, predictive) else ()
    stored = None if store is None else Stored(store, Axes(dims, coords), beside, has_data, not_stored)
    request = Request(method, eliminate, make_settings(warmup, progress, options, mesh), options, checkpoint, stored)
    drawn = draw_latents(model, (key, first, second), Schedule(draws, chains=chains), request)
    if store is not None:
        return open_draws(store)
    with within_memory(f"infer(…) of {listed(drawn.values)}"), model.precision():
        groups = beside(drawn.values, Block(chains, draws))
    return to_arviz(drawn.values, drawn.info, groups, drawn.attributes, dims, coords)


class Stored(NamedTuple):
    """The store of draws that was asked for, the names of its axes, and the groups beside draws of all sites."""

    path: str | os.PathLike
    axes: Axes
    beside: Callable[[dict[str, np.ndarray], Block], dict[str, dict[str, np.ndarray]]]
    has_data: bool  # whether these may have a number for each of the data
    not_stored: tuple[str, ...]  # observed sites on a mesh of which these have none, as that was not asked for

    def groups(self, values: dict[str, np.ndarray], info: dict[str, Data], block: Block) -> Groups:
        """All that is stored of draws."""
        groups = self.beside(values, block)
        posterior = {**values, **groups.pop("deterministic")}
        return {"posterior": posterior, **({"sample_stats": info} if info else {}), **groups}


class Request(NamedTuple):
    """How draws were asked for."""

    method: str | None
    eliminate: Sequence[str] | None
    settings: Settings
    options: Mapping[str, Any] = {}
    checkpoint: str | os.PathLike | None = None
    store: Stored | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but draws was asked for."""
        asked = (self.method, self.eliminate, self.checkpoint, self.store)
        return not self.options and all(one is None for one in asked)


class Drawn(NamedTuple):
    """Values [chain, draw, …] of all latents by name, what the sampler reports, what was eliminated, and how."""

    values: dict[str, np.ndarray]
    info: dict[str, Data]
    eliminated: tuple[str, ...]
    method: str
    reason: str = ""
    exactness: str = ""
    not_drawn: tuple[str, ...] = ()  # latents whose distribution reads all rows of a stream
    not_fetched: tuple[str, ...] = ()  # observed sites whose data lie on a mesh

    @property
    def attributes(self) -> dict[str, Any]:
        """What ArviZ data say of the draws."""
        why = {"reason": self.reason} if self.reason else {}
        more = {"exactness": self.exactness, "not_drawn": list(self.not_drawn), "not_fetched": list(self.not_fetched)}
        return {
            "method": self.method,
            "eliminated": list(self.eliminated),
            **why,
            **{k: v for k, v in more.items() if v},
        }


def draw_latents(model: FlatModel, keys: tuple[Data, Data, Data], schedule: Schedule, request: Request) -> Drawn:
    """Draw all latents; of the keys, the first is that of the question, the others draw."""
    key, first, second = keys
    method, settings, options = request.method, request.settings, request.options
    whole, not_fetched = Block(schedule.chains, schedule.kept), observed_on_mesh(model)
    if request.is_plain and (values := draw_from_tables(model, second, whole)) is not None:
        return Drawn(values, {}, tuple(values), "exact", not_fetched=not_fetched)
    eliminated_model, reason = elimination_of(model, request.eliminate, "nuts" if options and not method else method)
    eliminated_model = _by_some_rows(eliminated_model)
    not_drawn = eliminated_model.latents_of_rows
    warn_of_restriction(key, eliminated_model)
    asked = f"infer(…) of {listed(eliminated_model.reading.sites)}"
    if request.store is None:
        domains = eliminated_model.reading.domains.items()
        require_room(asked, *((*whole.lead, *domain.shape) for name, domain in domains if name not in not_drawn))
    with within_memory(asked), model.precision():
        discrete = [name for name in eliminated_model.kept if eliminated_model.reading.domains[name].is_discrete]
        _require_fitting(
            eliminated_model.kept,
            discrete,
            method,
            options if settings.mesh is None else {**options, "mesh": settings.mesh},
        )
        chosen = "nuts" if method is None and options else method
        header = partial(_run, eliminated_model, key, chosen, request, schedule)
        sampler = None
        if discrete:
            sampler, eliminated_model = _label_sampler(eliminated_model, settings)
            loops = "compiled loops" if isinstance(sampler, LabelSweeps) else "programs of JAX, as over a mesh"
            header = partial(header, labels=f"drawn by {loops}")
        recover = partial(_recovered, second, eliminated_model)
        keeper = _keeper(request, header, schedule, eliminated_model, recover)
        if not eliminated_model.kept:
            require_evidence(float(eliminated_model.compute_log_density({})), eliminated_model.joint)
            kept, how = Draw({}, {}), "exact"
            if isinstance(keeper, KeeperInStore):
                keeper.without_sampler()
        elif sampler is not None:
            judged, kept = keeper.draws_of(sampler, first, lambda values: values, eliminated_model.kept)
            warn_of_disagreement(judged.values, MOST_OF_LABELS)
            how = sampler.name
        else:
            require_proper(eliminated_model, eliminated_model.kept)
            kept, how = _continuous_draws(first, eliminated_model, chosen, settings, schedule, keeper)
        values = {} if isinstance(keeper, KeeperInStore) else recover(kept.values, whole)
    marks = f"{estimated(eliminated_model.batch)}" if isinstance(eliminated_model, SampledRows) else ""
    drawn = Drawn(values, kept.info, eliminated_model.eliminated, how, reason, marks, not_drawn, not_fetched)
    if isinstance(keeper, KeeperInStore):
        keeper.store.finish(**drawn.attributes)
    return drawn


def _by_some_rows(eliminated_model: EliminatedModel) -> EliminatedModel:
    """The same, its density estimated from some of the rows of streams at a time where few sums do not give it."""
    rows = set(eliminated_model.reading.reader.rows)
    reads_rows = any(term.leaves & rows for term in eliminated_model.plan.terms)
    return SampledRows(eliminated_model, STEPS) if reads_rows else eliminated_model


def _keeper(
    request: Request,
    header: Callable[[], Mapping[str, Any]],
    schedule: Schedule,
    eliminated_model: EliminatedModel,
    recover: Callable[[Mapping[str, Data], Block], dict[str, np.ndarray]],
) -> Keeper:
    """Where the draws go."""
    mesh = eliminated_model.model.mesh if request.settings.mesh is None else auto_mesh(request.settings.mesh)
    file = None if request.checkpoint is None else Checkpoint(request.checkpoint, header(), mesh)
    run, stored = RunSettings(schedule, file, request.settings.progress), request.store
    if stored is None:
        return KeeperInMemory(run)
    model = eliminated_model.model
    numbers = sum(math.prod(domain.shape) for domain in eliminated_model.reading.domains.values())
    numbers += 2 * sum(map(np.size, model.leaves)) if stored.has_data else 0
    return KeeperInStore(
        run,
        DrawStore(stored.path, header(), schedule.chains, stored.axes, mesh),
        lambda drawn, block: stored.groups(recover(drawn.values, block), drawn.info, block),
        numbers,
    )


def _require_fitting(
    kept: Sequence[str], discrete: Sequence[str], method: str | None, options: Mapping[str, Any]
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
            nearest=f"the remaining latents are {listed(kept)}" if kept else "none",
            advice='leave method= out, or use method="nuts"',
        )
    if options and method not in (None, "nuts"):
        raise DomainError(
            f"infer(…, method={method!r}, {next(iter(options))}=…)",
            expected='no options: they are those of method="nuts"',
        )


def _label_sampler(eliminated_model: EliminatedModel, settings: Settings) -> tuple[Sampler, EliminatedModel]:
    """A sampler of labels that remain, and what is eliminated before: nothing where tables or numpyro draw.

    Over data on a mesh labels are drawn whole, if need be given all that could be integrated out.
    """
    model, warmup = eliminated_model.model, settings.nuts.warmup
    sampler = None if eliminated_model.eliminated else table_gibbs(model, warmup)
    if sampler is None:
        sampler = compiled_gibbs(eliminated_model, warmup)
    if sampler is not None:
        return sampler, eliminated_model
    whole = eliminated(model, ())
    sampler = compiled_gibbs(whole, warmup) if model.mesh is not None else None
    return sampler or table_gibbs(model, warmup) or discrete_gibbs(model, warmup), whole


def warn_of_restriction(key: Data, eliminated_model: EliminatedModel) -> None:
    """Warn where some draws of the model itself leave what its families allow, where that is not proved."""
    if not eliminated_model.reading.reader.marks or eliminated_model.model.is_streamed:
        return
    try:
        eliminated_model.model.prior.sample(key, (PRIOR_DRAWS,))
    except NoRule:
        return  # an improper prior
    except DataError as error:
        asked, *parts = str(error).splitlines()
        warn(Restriction("\n".join([f"{asked}, at a draw of the model", *parts]), advice=IMPOSSIBLE))


def make_settings(warmup: int | None, progress: bool, options: Mapping[str, Any], mesh: Mesh | None = None) -> Settings:
    """Settings of samplers, checked."""
    nuts = NutsOptions(1000 if warmup is None else warmup)._replace(**options)
    nuts = nuts._replace(
        warmup=whole_number("warmup", nuts.warmup),
        max_tree_depth=whole_number("max_tree_depth", nuts.max_tree_depth),
    )
    if not 0 < nuts.target_accept < 1:
        raise DomainError(f"target_accept={nuts.target_accept!r}", expected="a probability between 0 and 1")
    return Settings(nuts, progress, mesh=mesh)


def _run(
    eliminated_model: EliminatedModel,
    key: Data,
    method: str | None,
    request: Request,
    schedule: Schedule,
    **more: str,
) -> dict[str, Any]:
    """What a checkpoint or a store is of."""
    return {
        "sites": {
            name: repr(domain) if domain.labels is None else f"{domain!r} {domain.labels}"  # which is printed in part
            for name, domain in eliminated_model.reading.domains.items()
        },
        "eliminated": list(eliminated_model.eliminated),
        "model": hashlib.blake2b(eliminated_model.reading.text.encode(), digest_size=16).hexdigest(),
        "width": 64 if eliminated_model.model.is_float64 else 32,
        "numbers": eliminated_model.model.digest(),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "method": method,
        "settings": {"draws": schedule.sweeps, "chains": schedule.chains, **request.settings.nuts._asdict()},
        "store": request.store is not None,
        "not_stored": [] if request.store is None else list(request.store.not_stored),
        "jax": jax.__version__,
        "platform": jax.default_backend(),
        **more,
    }


# -- draws ----------------------------------------------------------------------------------------------------------


def _continuous_draws(
    key: Data,
    eliminated_model: EliminatedModel,
    method: str | None,
    settings: Settings,
    schedule: Schedule,
    keeper: Keeper,
) -> tuple[Draw, str]:
    """Draws [chain, draw, …] of the remaining sites, and by which method."""
    target, support = target_of(eliminated_model)

    def draws_of(sampler: Sampler) -> Kept:
        to_sites = lambda values: support.of_draws(values, target.numbers[0])  # noqa: E731
        return keeper.draws_of(sampler, key, to_sites, eliminated_model.kept)

    try:
        return _free_draws(draws_of, target, method, settings, schedule, keeper.may_draw_again)
    except DataError:
        require_numbers(eliminated_model.joint)  # what is wrong may be said better
        raise


def _free_draws(
    draws_of: Callable[[Sampler], Kept],
    target: Target,
    method: str | None,
    settings: Settings,
    schedule: Schedule,
    may_draw_again: bool,
) -> tuple[Draw, str]:
    """Draws [chain, draw, …] of a target, and by which method.

    If none is asked for: by a grid, if it describes the density; else by the no-U-turn sampler; and where its chains
    are in modes of different density, whose shares they cannot know, by populations over temperatures.
    """
    if method is None and is_worthwhile(target):
        with suppress(Intractable):
            return _free_draws(draws_of, target, "grid", settings, schedule, may_draw_again)
    chosen = method or "nuts"
    judged, drawn = draws_of(METHODS[chosen](target, settings._replace(draws=schedule.sweeps)))
    if (
        method is None
        and may_draw_again
        and is_temperable(target)
        and are_in_unequal_modes(judged.values, judged.info["lp"])
    ):
        with suppress(Intractable):
            return _free_draws(draws_of, target, "smc", settings, schedule, may_draw_again)
    if chosen == "nuts":
        warn_of_draws(judged, settings.nuts.target_accept)
    elif chosen == "smc":
        warn_of_populations(judged)
    return drawn, chosen


def _recovered(
    key: Data, eliminated_model: EliminatedModel, kept: Mapping[str, Data], block: Block
) -> dict[str, np.ndarray]:
    """Draws [chain, draw, …] of all sites; but those with a number for each row of a stream."""
    count = math.prod(block.lead)
    flat_kept = {name: value.reshape(count, *value.shape[2:]) for name, value in kept.items()}
    values = eliminated_model.draw_all(block.keys(key), flat_kept, float64=is_double_precision(), many=True)
    return {name: on_host(value).reshape(*block.lead, *value.shape[1:]) for name, value in values.items()}
