"""Draws by the no-U-turn sampler, with numpyro's kernel: chains side by side, in stretches that can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc
from tqdm import tqdm

from fubini.arrays import Data
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.target import Free, Shapes, Target, require_start, starting_point

STRETCHES = 20  # of a run; between two there is a checkpoint, and progress is shown
DENSE = 32  # up to so many numbers, the mass matrix is dense


class Settings(NamedTuple):
    """How to sample."""

    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool | None = None
    progress: bool = True


class Sampled(NamedTuple):
    """Draws [chain, draw, …] of unconstrained numbers, and what the sampler says of each."""

    free: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]


def nuts(key: Data, target: Target, settings: Settings, checkpoint: Checkpoint | None = None) -> Sampled:
    """Draws of a target."""
    total = settings.warmup + settings.draws
    stretch = -(-total // STRETCHES)
    dense = target.size <= DENSE if settings.dense_mass is None else settings.dense_mass
    shapes = tuple(target.shapes.items())
    begin, advance = _kernel(target.log_density, shapes, settings._replace(dense_mass=dense, progress=True), stretch)
    first, second = jax.random.split(key)
    chains = settings.chains
    state, fine = begin(jax.random.split(first, chains), jax.random.split(second, chains), target.numbers)
    require_start(fine)
    found: list[dict[str, np.ndarray]] = []
    saved = checkpoint.load() if checkpoint else None
    if saved is not None:
        state, found = _restored(saved, state)
    with tqdm(
        total=total, initial=len(found) * stretch, disable=not settings.progress, desc="nuts", unit="draw"
    ) as bar:
        while len(found) * stretch < total:
            state, new = advance(state, target.numbers)
            found.append({name: np.asarray(value) for name, value in new.items()})
            if checkpoint:
                checkpoint.save(_stored(state, found))
            bar.update(min(stretch, total - bar.n))
    joined = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    kept = {name: np.swapaxes(value[settings.warmup : total], 0, 1) for name, value in joined.items()}
    return Sampled(
        {name[5:]: value for name, value in kept.items() if name.startswith("free:")},
        {name: value for name, value in kept.items() if not name.startswith("free:")},
    )


@lru_cache(maxsize=64)
def _kernel(
    log_density: Callable[[Free, Any], Data], shapes: Shapes, settings: Settings, stretch: int
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The start and a stretch of all chains, compiled once for each density and way to sample."""

    def potential(numbers: Any) -> Callable[[Free], Data]:
        def of(free: Free) -> Data:
            value = -log_density(free, numbers)
            return jnp.where(jnp.isnan(value), jnp.inf, value)

        return of

    start, step = hmc(potential_fn_gen=potential, algo="NUTS")
    point = starting_point(log_density, shapes)

    def begin_one(origin: Data, key: Data, numbers: Any) -> tuple[Any, Data]:
        free, fine = point(origin, numbers)
        state = start(
            free,
            settings.warmup,
            dense_mass=bool(settings.dense_mass),
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            model_args=(numbers,),
            rng_key=key,
        )
        return state, fine

    def advance(state: Any, numbers: Any) -> tuple[Any, dict[str, Data]]:
        def one(state: Any, _: None) -> tuple[Any, dict[str, Data]]:
            state = jax.vmap(lambda chain: step(chain, model_args=(numbers,)))(state)
            stats = {
                "diverging": state.diverging,
                "energy": state.energy,
                "acceptance_rate": state.accept_prob,
                "n_steps": state.num_steps,
                "step_size": state.adapt_state.step_size,
                "lp": -state.potential_energy,
            }
            return state, {**{f"free:{name}": value for name, value in state.z.items()}, **stats}

        return jax.lax.scan(one, state, None, length=stretch)

    return jax.jit(jax.vmap(begin_one, in_axes=(0, 0, None))), jax.jit(advance)


# -- states as arrays -----------------------------------------------------------------------------------------------


def _is_key(leaf: Data) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored(state: Any, found: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    leaves = jax.tree_util.tree_leaves(state)
    arrays = {f"state{i}": np.asarray(jax.random.key_data(x) if _is_key(x) else x) for i, x in enumerate(leaves)}
    drawn = {f"drawn:{name}": np.stack([part[name] for part in found]) for name in found[0]}
    return {**arrays, **drawn}


def _restored(saved: dict[str, np.ndarray], like: Any) -> tuple[Any, list[dict[str, np.ndarray]]]:
    leaves, tree = jax.tree_util.tree_flatten(like)
    arrays = [
        jax.random.wrap_key_data(jnp.asarray(saved[f"state{i}"]), impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else jnp.asarray(saved[f"state{i}"])
        for i, leaf in enumerate(leaves)
    ]
    drawn = {name[6:]: value for name, value in saved.items() if name.startswith("drawn:")}
    count = len(next(iter(drawn.values())))
    found = [{name: value[place] for name, value in drawn.items()} for place in range(count)]
    return jax.tree_util.tree_unflatten(tree, arrays), found
