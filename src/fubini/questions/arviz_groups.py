"""What `infer` gives as ArviZ data: the posterior, and the groups beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data, cached_for_precision, is_double_precision
from fubini.base.distant import distant, rebuild
from fubini.base.processes import on_host
from fubini.base.sharded_array import ShardedArray
from fubini.distributions.array_distribution import made
from fubini.distributions.density import Distribution
from fubini.engines.host_program import HostPrograms
from fubini.errors import DomainError, NoRule, UnknownName, closest, listed
from fubini.models.call_values import FlatJoint
from fubini.models.flavour import Flavour
from fubini.models.missing_entries import Partly
from fubini.models.paths import flat, flat_sites, nested
from fubini.models.sample import Given
from fubini.questions.draw_block import Block
from fubini.questions.draws import arviz_data

LARGE = 20_000_000  # numbers of a group that is not computed unless asked for


def groups_of(
    key: Data,
    model: FlatJoint,
    values: Mapping[str, np.ndarray],
    log_likelihood: bool | None,
    predictive: bool | None,
    block: Block,
) -> dict[str, dict[str, np.ndarray]]:
    """Computed sites; the observed ones as they are, and where asked for their log-likelihoods and predictive draws.

    What is observed on a mesh stays there: of such sites there is what was asked for alone.
    """
    sites = observed_values(model, values)
    size = sum(value.size for value in sites.values()) * block.chains * block.draws
    groups: dict[str, dict[str, np.ndarray]] = {}
    questions: dict[str, tuple[bool | None, Callable]] = {
        "log_likelihood": (log_likelihood, _log_likelihood),
        "posterior_predictive": (predictive, _predictive),
    }
    groups["deterministic"] = without_rows(_computed, model, key, values, block)
    for group, (asked, question) in questions.items():
        names = tuple(flat(getattr(model.joint, "observed", {})) if model.is_streamed else sites)
        if asked:
            names = tuple(sorted({*names, *observed_on_mesh(model)}))
        if names and (asked or (asked is None and size <= LARGE and not model.is_streamed)):
            groups[group] = over_draws(question, names, model, key, values, block)
    if sites:
        groups["observed_data"] = {name: np.asarray(value) for name, value in sites.items()}
    return groups


def observed_on_mesh(flat_joint: FlatJoint) -> tuple[str, ...]:
    """Observed sites, by path, whose data lie on a mesh, from where they are not fetched."""
    observed = flat(getattr(flat_joint.joint, "observed", {}))
    return tuple(name for name, value in observed.items() if isinstance(distant(value), ShardedArray))


@cached_for_precision(64)
def _compiled(question: Callable, names: tuple[str, ...], tree: Any) -> Callable:
    def one(key: Data, values: Mapping[str, Data], leaves: list[Data]) -> dict[str, Data]:
        return question(rebuild(tree, leaves), key, nested(values), names)

    compiled = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
    return HostPrograms(compiled) if is_double_precision() else compiled


def over_draws(
    question: Callable,
    names: tuple[str, ...],
    flat_joint: FlatJoint,
    key: Data,
    values: Mapping[str, Data],
    block: Block,
) -> dict[str, np.ndarray]:
    """Answers [chain, draw, …] of a question to each draw, by name."""
    flat_values = {name: value.reshape(math.prod(value.shape[:2]), *value.shape[2:]) for name, value in values.items()}
    keys = block.keys(key)
    leaves = jax.tree_util.tree_map(jax.numpy.asarray, flat_joint.leaves)
    answers = _compiled(question, names, flat_joint.tree)(keys, flat_values, leaves)
    return {name: on_host(value).reshape(*block.lead, *value.shape[1:]) for name, value in answers.items()}


def without_rows(
    question: Callable,
    flat_joint: FlatJoint,
    key: Data,
    values: Mapping[str, Data],
    block: Block,
    left_out: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Answers by name to a question of all sites but some, without those that need the rows of streams."""
    if not flat_joint.is_streamed and not left_out:
        return over_draws(question, (), flat_joint, key, values, block)
    first = {name: value[0, 0] for name, value in values.items()}

    def ask(values: Mapping[str, Data]) -> dict[str, Data]:
        return question(rebuild(flat_joint.tree, flat_joint.leaves), key, nested(values), ())

    names = [name for name in jax.eval_shape(ask, first) if name not in left_out]
    if not flat_joint.is_streamed:
        return over_draws(question, tuple(names), flat_joint, key, values, block) if names else {}
    answers: dict[str, np.ndarray] = {}
    for name in names:
        with suppress(NoRule):
            answers |= over_draws(question, (name,), flat_joint, key, values, block)
    return answers


def observed_values(flat_joint: FlatJoint, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Observed sites by path, missing entries as NaN; without those that lie on a mesh."""
    one = {name: value[:1, :1] for name, value in values.items()}
    observed = without_rows(_values_seen, flat_joint, jax.random.key(0), one, Block(1, 1), observed_on_mesh(flat_joint))
    shown = {name: value[0, 0] for name, value in observed.items()}
    for name, value in flat(getattr(flat_joint.joint, "observed", {})).items():
        if isinstance(value, Partly):
            shown[name] = np.where(value.present, value.value, np.nan)
    return shown


def _values_seen(joint: Flavour, key: Data, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Data]:
    sites = flat_sites(joint.run(Given(values)))
    return {
        name: jax.numpy.asarray(site.value)
        for name, site in sites.items()
        if site.observed and isinstance(site.source, Distribution) and name in (names or (name,))
    }


def _log_likelihood(joint: Flavour, key: Data, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Data]:
    sites = flat_sites(joint.run(Given(values)))
    partly = flat(getattr(joint, "observed", {}))
    log_likelihoods = {}
    for name in names:
        numpyro_distribution: Any = made(sites[name].source)
        terms = numpyro_distribution.log_prob(sites[name].value)
        mask = partly.get(name)
        if isinstance(mask, Partly) and terms.shape == mask.present.shape:
            terms = jax.numpy.where(mask.present, terms, np.nan)
        log_likelihoods[name] = terms
    return log_likelihoods


def _predictive(joint: Flavour, key: Data, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Data]:
    sites = flat_sites(joint.run(Given(values)))
    return {n: made(sites[n].source).sample(jax.random.fold_in(key, place)) for place, n in enumerate(names)}


def _computed(joint: Flavour, key: Data, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Data]:
    sites = flat_sites(joint.run(Given(values)))
    computed = {name: s.value for name, s in sites.items() if s.log_density is None and s.value is not None}
    return {name: value for name, value in computed.items() if name in (names or (name,))}


def to_arviz(
    values: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    groups: dict[str, dict[str, np.ndarray]],
    attributes: Mapping[str, Any],
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Sequence[Any]] | None,
) -> Any:
    """Everything as ArviZ data."""
    posterior = {**values, **groups.pop("deterministic")}
    given: dict[str, Any] = {"posterior": posterior, **groups}
    if stats:
        given["sample_stats"] = dict(stats)
    require_axes(dims or {}, coords or {}, one_of_each(given))
    return arviz_data(given, dims, coords, **attributes)


def one_of_each(groups: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What is observed, and the first draw of each other site."""
    values: dict[str, np.ndarray] = {}
    for group in ("log_likelihood", "posterior_predictive", "posterior"):
        values |= {name: draws[0, 0] for name, draws in groups.get(group, {}).items()}
    return values | dict(groups.get("observed_data", {}))


def require_axes(
    dims: Mapping[str, Sequence[str]], coords: Mapping[str, Sequence[Any]], values: Mapping[str, Any]
) -> None:
    """Names for the axes of sites that there are, and as many labels as an axis has places."""
    for name, axes in dims.items():
        if name not in values:
            raise UnknownName(f"dims of {name!r}", expected=f"a site: {listed(values)}", nearest=closest(name, values))
        shape = np.shape(values[name])
        axes = list(axes)
        if len(axes) != len(shape):
            raise DomainError(
                f"dims={axes!r} for the site {name!r}", expected=f"{len(shape)} names: its shape is {shape}"
            )
        for axis, size in zip(axes, shape, strict=True):
            if axis in coords and len(coords[axis]) != size:
                raise DomainError(
                    f"{len(coords[axis])} coords along {axis!r} of the site {name!r}", expected=f"{size} labels"
                )
