"""Draws by the no-U-turn sampler, with numpyro's kernel, in stretches that can be resumed.

On a CPU each chain is a thread of its own: side by side in one vectorised loop, every chain would wait for the longest
tree of all, and take both branches of every condition. On an accelerator they are side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc
from tqdm import tqdm

from fubini.base.arrays import Data, is_double_precision
from fubini.infer.checkpoint import Checkpoint, Layout
from fubini.infer.settings import Sampled, Settings
from fubini.infer.target import Abstract, Free, Target, abstract, impossible_if_not_finite

STRETCHES = 20  # of a run; between two there is a checkpoint, and progress is shown
DENSE = 32  # up to so many numbers, the mass matrix is dense


Drawn = dict[str, np.ndarray]  # [draw, chain, …] by name


def nuts(key: Data, target: Target, settings: Settings, checkpoint: Checkpoint | None = None) -> Sampled:
    """Draws of a target."""
    total = settings.warmup + settings.draws
    stretch = -(-total // STRETCHES)
    dense = target.size <= DENSE if settings.dense_mass is None else settings.dense_mass
    settings = settings._replace(dense_mass=dense)
    first, second = jax.random.split(key)
    starts, keys = target.start(first, settings.chains), jax.random.split(second, settings.chains)
    with ThreadPoolExecutor(min(settings.chains, os.cpu_count() or 1)) as pool:
        chains = _Chains(pool, target, settings, stretch, starts, keys)
        stretches: list[Drawn] = []
        saved = checkpoint.load(chains.layout()) if checkpoint else None
        if saved is not None and checkpoint:
            stretches = chains.resume(saved, checkpoint)
        with tqdm(
            total=total, initial=len(stretches) * stretch, disable=not settings.progress, desc="nuts", unit="draw"
        ) as bar:
            while len(stretches) * stretch < total:
                stretches.append(chains.advance())
                if checkpoint:
                    checkpoint.save(chains.stored(stretches))
                bar.update(min(stretch, total - bar.n))
    joined = {name: np.concatenate([part[name] for part in stretches]) for name in stretches[0]}
    kept = {name: np.swapaxes(value[settings.warmup : total], 0, 1) for name, value in joined.items()}
    return Sampled(
        {name[5:]: value for name, value in kept.items() if name.startswith("free:")},
        {name: value for name, value in kept.items() if not name.startswith("free:")},
    )


class _Chains:
    """The states of all chains: one for each, or one for all of them side by side."""

    def __init__(
        self, pool: ThreadPoolExecutor, target: Target, settings: Settings, stretch: int, starts: Free, keys: Data
    ) -> None:
        self.pool, self.numbers, self.stretch = pool, target.numbers, stretch
        self.thread_per_chain = _is_on_cpu(keys)
        each = [({n: v[c] for n, v in starts.items()}, keys[c]) for c in range(len(keys))]
        each = each if self.thread_per_chain else [(starts, keys)]
        begin, self._advance, self._drawn = _kernel(
            target.log_density,
            settings._replace(draws=1, chains=1, progress=True),
            stretch,
            self.thread_per_chain,
            abstract((*each[0], target.numbers)),
            is_double_precision(),
        )
        self.states = list(pool.map(lambda start: begin(*start, target.numbers), each))

    def advance(self) -> Drawn:
        """The next stretch."""
        moved = list(self.pool.map(lambda state: self._advance(state, self.numbers), self.states))
        self.states = [state for state, _ in moved]
        parts = [{name: np.asarray(value) for name, value in new.items()} for _, new in moved]
        return (
            {n: np.stack([part[n] for part in parts], axis=1) for n in parts[0]} if self.thread_per_chain else parts[0]
        )

    def stored(self, stretches: Sequence[Drawn]) -> dict[str, np.ndarray]:
        """States and draws as arrays."""
        leaves = jax.tree_util.tree_leaves(self.states)
        arrays = {f"state{i}": np.asarray(jax.random.key_data(x) if _is_key(x) else x) for i, x in enumerate(leaves)}
        return {**arrays, **{f"drawn:{name}": np.stack([part[name] for part in stretches]) for name in stretches[0]}}

    def layout(self) -> dict[str, Layout]:
        """What a checkpoint of these chains holds."""
        leaves = [jax.random.key_data(x) if _is_key(x) else x for x in jax.tree_util.tree_leaves(self.states)]
        arrays = {f"state{i}": Layout(np.dtype(leaf.dtype), leaf.shape) for i, leaf in enumerate(leaves)}
        for name, info in self._drawn.items():
            shape = (info.shape[0], len(self.states), *info.shape[1:]) if self.thread_per_chain else info.shape
            arrays[f"drawn:{name}"] = Layout(np.dtype(info.dtype), (STRETCHES, *shape), grows=True)
        return arrays

    def resume(self, saved: dict[str, np.ndarray], file: Checkpoint) -> list[Drawn]:
        """The states as they were stored, and the draws so far, which are checked."""
        leaves, tree = jax.tree_util.tree_flatten(self.states)
        arrays = [
            jax.random.wrap_key_data(jnp.asarray(saved[f"state{i}"]), impl=jax.random.key_impl(leaf))
            if _is_key(leaf)
            else jnp.asarray(saved[f"state{i}"])
            for i, leaf in enumerate(leaves)
        ]
        self.states = jax.tree_util.tree_unflatten(tree, arrays)
        drawn = {name[6:]: value for name, value in saved.items() if name.startswith("drawn:")}
        counts = {len(value) for value in drawn.values()}
        if len(counts) != 1:
            raise file.refuse("its draws are not of one length")
        (count,) = counts
        if any(name.startswith("free:") and not np.isfinite(value).all() for name, value in drawn.items()):
            raise file.refuse("a draw is infinite or not a number")
        for state in self.states:
            self._require_state(state, count, file)
        return [{name: value[place] for name, value in drawn.items()} for place in range(count)]

    def _require_state(self, state: Any, count: int, file: Checkpoint) -> None:
        """A state after so many stretches: at a point of positive density, with steps and masses that are positive."""
        if not np.all(np.asarray(state.i) == count * self.stretch):
            raise file.refuse("its states are not those after its draws")
        adapted = state.adapt_state
        finite = (*state.z.values(), state.potential_energy, adapted.step_size)
        masses = jax.tree_util.tree_leaves((adapted.inverse_mass_matrix, adapted.mass_matrix_sqrt))
        if not all(np.isfinite(np.asarray(part)).all() for part in (*finite, *masses)):
            raise file.refuse("a state is infinite or not a number")
        if not np.all(np.asarray(adapted.step_size) > 0):
            raise file.refuse("a step size is not positive")


def _is_on_cpu(array: Data) -> bool:
    return all(device.platform == "cpu" for device in array.devices())


def _is_key(leaf: Data) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@lru_cache(maxsize=64)
def _kernel(
    log_density: Callable[[Free, Any], Data],
    settings: Settings,
    stretch: int,
    thread_per_chain: bool,
    given: Abstract,
    wide: bool,
) -> tuple[Callable[..., Any], Callable[..., Any], dict[str, jax.ShapeDtypeStruct]]:
    """The start and a stretch of a chain, or of all, compiled once: threads that trace would each do it again.

    With them, the types and shapes of what a stretch draws. `wide` is the width in force.
    """

    def potential(numbers: Any) -> Callable[[Free], Data]:
        return lambda free: -impossible_if_not_finite(log_density(free, numbers))

    start, step = hmc(potential_fn_gen=potential, algo="NUTS")

    def begin(free: Free, key: Data, numbers: Any) -> Any:
        return start(
            free,
            settings.warmup,
            dense_mass=bool(settings.dense_mass),
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            model_args=(numbers,),
            rng_key=key,
        )

    def begin_all(starts: Free, keys: Data, numbers: Any) -> Any:
        return jax.vmap(begin, in_axes=(0, 0, None))(starts, keys, numbers)

    def advance(state: Any, numbers: Any) -> tuple[Any, dict[str, Data]]:
        def one(state: Any, _: None) -> tuple[Any, dict[str, Data]]:
            walk = lambda chain: step(chain, model_args=(numbers,))  # noqa: E731
            state = walk(state) if thread_per_chain else jax.vmap(walk)(state)
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

    free, key, numbers = jax.tree_util.tree_unflatten(*given)
    first = jax.jit(begin if thread_per_chain else begin_all)
    state = jax.eval_shape(first, free, key, numbers)
    stretched = jax.jit(advance).lower(state, numbers)
    return first.lower(free, key, numbers).compile(), stretched.compile(), stretched.out_info[1]
