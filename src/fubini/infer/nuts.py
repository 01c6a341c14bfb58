"""The no-U-turn sampler, with numpyro's kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.hmc import hmc

from fubini.base.arrays import Data
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_count, fault_of_numbers
from fubini.infer.target import Free, FreeDensity, Target, impossible_if_not_finite
from fubini.infer.transitions import Transition, Transitions

DENSE = 32  # up to so many numbers, the mass matrix is dense


class NutsOptions(NamedTuple):
    """How the sampler adapts, and how far a trajectory goes."""

    warmup: int = 1000
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool | None = None  # None: where there are few numbers


def nuts(target: Target, options: NutsOptions, mesh: Mesh | None = None) -> Transitions:
    """Make the sampler of a target, whose chains may lie along a mesh."""
    if options.dense_mass is None:
        options = options._replace(dense_mass=target.size <= DENSE)
    return Transitions(
        "nuts", nuts_transition(target.log_density, options), target.numbers, options.warmup, target.start, mesh
    )


@lru_cache(maxsize=64)
def nuts_transition(log_density: FreeDensity, options: NutsOptions) -> Transition:
    """One trajectory; the same function for the same density, so that what is compiled for it is used again."""
    start, step = hmc(potential_fn_gen=lambda numbers: potential(log_density, numbers), algo="NUTS")

    def init(key: Data, free: Free, numbers: Any) -> Any:
        return start(
            free,
            options.warmup,
            dense_mass=bool(options.dense_mass),
            target_accept_prob=options.target_accept,
            max_tree_depth=options.max_tree_depth,
            model_args=(numbers,),
            rng_key=key,
        )

    return Transition(init, lambda state, numbers: step(state, model_args=(numbers,)), _draw, nuts_fault)


def potential(log_density: FreeDensity, numbers: Any) -> Callable[[Free], Data]:
    """−log p, infinite where there is no density."""
    return lambda free: -impossible_if_not_finite(log_density(free, numbers))


def _draw(state: Any, numbers: Any) -> Draw:
    info = {
        "diverging": state.diverging,
        "energy": state.energy,
        "acceptance_rate": state.accept_prob,
        "n_steps": state.num_steps,
        "step_size": state.adapt_state.step_size,
        "lp": -state.potential_energy,
    }
    return Draw(dict(state.z), info)


def nuts_fault(state: Any, drawn: Draw, transitions: int) -> str | None:
    """A state is that after so many transitions, and sound."""
    return fault_of_count(state.i, transitions) or fault_of_nuts(state)


def fault_of_nuts(state: Any) -> str | None:
    """A state is at a point of positive density, with steps and masses that are positive."""
    adapted = state.adapt_state
    finite = (*state.z.values(), state.potential_energy, adapted.step_size)
    masses = jax.tree_util.tree_leaves((adapted.inverse_mass_matrix, adapted.mass_matrix_sqrt))
    is_moving = np.all(np.asarray(adapted.step_size) > 0)
    return fault_of_numbers((*finite, *masses)) or (None if is_moving else "a step size is not positive")
