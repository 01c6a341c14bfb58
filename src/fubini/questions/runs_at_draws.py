"""Runs of a model at draws of latents, all of them compiled together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.base.arrays import (
    Data,
    cached_for_precision,
    double_precision,
    is_double_precision,
    is_jax,
    is_traced,
    require_room,
    within_memory,
)
from fubini.base.distant import rebuild
from fubini.engines.host_keys import split
from fubini.engines.host_program import HostPrograms
from fubini.models.call_values import FlatJoint
from fubini.models.calls import is_lost
from fubini.models.continued import Continued, traits_of_first
from fubini.models.paths import flat_sites, nested
from fubini.models.sample import Run

Question = Callable[[Run, Continued, tuple[str, ...]], Any]  # of a run, the choice that made it, and names


class LatentDraws(NamedTuple):
    """Draws of latents by path [draw, …], how many, and observed series that a model goes on from."""

    latents: Mapping[str, Data]
    size: int
    observed: Mapping[str, Any]

    def one(self, place: int) -> LatentDraws:
        """One draw alone."""
        return LatentDraws({name: value[place : place + 1] for name, value in self.latents.items()}, 1, self.observed)


def run_at(question: Question, key: Data, joint: FlatJoint, draws: LatentDraws, names: tuple[str, ...]) -> Any:
    """question(run of the joint, …) for each draw, on the engine of the data."""
    text = f"{type(joint.joint).__name__} at {draws.size:,} draws"
    require_room(text, *((draws.size, *domain.shape) for _, domain in joint.outline.free_domains()))
    latents = dict(draws.latents)
    with within_memory(text):
        if any(map(is_jax, (*joint.leaves, *latents.values()))) or is_traced(key):
            function = _compiled(question, joint.tree, names)
            answer = function(jax.random.split(key, draws.size), latents, draws.observed, joint.leaves)
        else:
            with double_precision(), eval_context():
                function = _compiled(question, joint.tree, names)
                answer = function(split(key, draws.size), latents, draws.observed, joint.leaves)
                answer = jax.tree_util.tree_map(np.asarray, answer)
    _diagnose(key, joint, draws, answer)
    return answer


@cached_for_precision(64)
def _compiled(question: Question, tree: Any, names: tuple[str, ...]) -> Callable:
    def one(key: Data, latents: Mapping[str, Data], observed: Mapping[str, Any], leaves: list[Data]) -> Any:
        choice = Continued(nested(latents), key, observed=nested(observed))
        return question(rebuild(tree, leaves).run(choice), choice, names)

    compiled = jax.jit(jax.vmap(one, in_axes=(0, 0, None, None)))
    return HostPrograms(compiled) if is_double_precision() else compiled


def _diagnose(key: Data, joint: FlatJoint, draws: LatentDraws, answer: Any) -> None:
    """Where answers are not numbers, run the model on numbers at one such draw, so that wrong parameters raise."""
    leaves = jax.tree_util.tree_leaves(answer)
    if is_traced(*leaves):
        return
    for leaf in leaves:
        lost = is_lost(leaf).reshape(len(leaf), -1).any(-1)
        if lost.any():
            place = int(np.argmax(lost))
            one = {name: jnp.asarray(value[place]) for name, value in draws.latents.items()}
            keys = jax.random.split(key, draws.size)
            joint.joint.run(Continued(nested(one), keys[place], observed=nested(draws.observed)))  # type: ignore[attr-defined]
            return


# -- questions ------------------------------------------------------------------------------------------------------


def values_of(run: Run, choice: Continued, names: tuple[str, ...]) -> dict[str, Any]:
    """The values of sites."""
    return {name: run.values[name] for name in names}


def log_weight_of(run: Run, choice: Continued, names: tuple[str, ...]) -> Data:
    """log p(observed | the other sites)"""
    return run.log_weight


def traits_of(run: Run, choice: Continued, names: tuple[str, ...]) -> dict[str, list[Data]]:
    """Numbers that differ where the distributions do that values of sites were drawn from, by path."""
    sites, same = flat_sites(run), jax.random.key(0)
    return {name: traits_of_first(sites[name].source, _given(choice.values, name), same) for name in names}


def _given(values: Mapping[str, Any], path: str) -> tuple[int, ...]:
    """The shape of a given value by path."""
    first, _, later = path.partition(".")
    return _given(values[first], later) if later else jnp.shape(values[first])
