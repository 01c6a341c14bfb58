"""Run any sampler: warm-up, thinning, progress, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from fubini.base.arrays import Data
from fubini.errors import DomainError
from fubini.infer.checkpoint import Checkpoint, Layout
from fubini.infer.sampler import Draw, Sampler, State

STRETCHES = 20  # of a run; after each there is a checkpoint, and progress is shown


Stretch = tuple[int, int]  # transitions that are skipped, and draws after them


class Schedule(NamedTuple):
    """How many transitions there are after the warm-up, and which draws are kept: every `thin`-th, the last `keep`."""

    sweeps: int
    thin: int = 1
    keep: int | None = None
    chains: int = 1

    @property
    def kept(self) -> int:
        """How many draws of a chain are kept."""
        whole = self.sweeps // self.thin
        return whole if self.keep is None else min(self.keep, whole)

    def stretches(self, warmup: int) -> Iterator[Stretch]:
        """Yield the transitions that are skipped and the draws that are kept in each stretch of a run."""
        skipped = warmup + (self.sweeps // self.thin - self.kept) * self.thin
        length = max(1, -(-(skipped + self.kept * self.thin) // STRETCHES))
        while skipped >= length:
            yield length, 0
            skipped -= length
        done = 0
        while done < self.kept:
            draws = min(max(1, (length - skipped) // self.thin), self.kept - done)
            yield skipped, draws
            skipped, done = 0, done + draws


def schedule_of(sweeps: Any, thin: Any = 1, keep: Any = None, chains: Any = 1, warmup: Any = None) -> Schedule:
    """Check the numbers of a run, and make its schedule."""
    for name, value in {"sweeps": sweeps, "thin": thin, "chains": chains, "keep": keep, "warmup": warmup}.items():
        least = 0 if name == "warmup" else 1
        given = value is not None or name in ("sweeps", "thin", "chains")
        if given and (not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least):
            raise DomainError(f"{name}={value!r}", expected=f"a whole number, at least {least}")
    if thin > sweeps:
        raise DomainError(f"thin={thin} of {sweeps} sweeps", expected="at least one sweep that is kept")
    return Schedule(int(sweeps), int(thin), None if keep is None else int(keep), int(chains))


def run(
    sampler: Sampler, key: Data, schedule: Schedule, file: Checkpoint | None = None, progress: bool = False
) -> Draw:
    """Draw [chain, draw, …] by a sampler; where there is a checkpoint, go on from it."""
    state, stretches = sampler.init(key, schedule.chains), list(schedule.stretches(sampler.warmup))
    drawn, done = _room(sampler.draw(state), schedule), 0
    if file is not None:
        state, done = _resume(file, sampler, state, drawn, stretches, schedule.thin)
    lengths = [skip + draws * schedule.thin for skip, draws in stretches]
    place = sum(draws for _, draws in stretches[:done])
    with tqdm(
        total=sum(lengths), initial=sum(lengths[:done]), disable=not progress, desc=sampler.name, unit="iteration"
    ) as bar:
        for number, (skip, draws) in enumerate(stretches[done:], done):
            state, new = sampler.step(state, skip, draws, schedule.thin)
            _store(drawn, new, place, draws)
            place += draws
            if file is not None:
                file.save({**_stored(state, drawn), "done": np.array(number + 1)})
            bar.update(lengths[number])
    return drawn


def _room(first: Draw, schedule: Schedule) -> Draw:
    """Arrays for all draws [chain, draw, …] of a run."""
    lead = (schedule.chains, schedule.kept)
    return Draw(*({n: np.zeros((*lead, *x.shape[1:]), x.dtype) for n, x in part.items()} for part in first))


def _store(drawn: Draw, new: Draw, place: int, draws: int) -> None:
    """Put new draws at their place."""
    if draws:
        for arrays, parts in zip(drawn, new, strict=True):
            for name, part in parts.items():
                arrays[name][:, place : place + draws] = part


# -- checkpoints ----------------------------------------------------------------------------------------------------


def _stored(state: State, drawn: Draw) -> dict[str, np.ndarray]:
    """State and draws as arrays by name."""
    arrays = {
        f"state:{_path(path)}": np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]
    }
    arrays |= {f"drawn:{name}": value for name, value in drawn.values.items()}
    return arrays | {f"info:{name}": value for name, value in drawn.info.items()}


def _path(path: tuple) -> str:
    """The place of a leaf in a tree: its keys with dots between them."""
    return ".".join(str(getattr(k, "name", getattr(k, "key", getattr(k, "idx", k)))) for k in path)


def _resume(
    file: Checkpoint, sampler: Sampler, state: State, drawn: Draw, stretches: Sequence[Stretch], thin: int
) -> tuple[State, int]:
    """Read the state of a checkpoint and put its draws in their place; also, after how many stretches they are."""
    empty = {**_stored(state, drawn), "done": np.array(0)}
    saved = file.load({name: Layout(array.dtype, array.shape) for name, array in empty.items()})
    if saved is None:
        return state, 0
    done = int(saved["done"])
    if not 0 < done <= len(stretches):
        raise file.refuse(f"it is after {done} of {len(stretches)} parts of the run")
    leaves, tree = jax.tree_util.tree_flatten_with_path(state)
    state = jax.tree_util.tree_unflatten(tree, [_restored(saved[f"state:{_path(p)}"], leaf) for p, leaf in leaves])
    kept = sum(draws for _, draws in stretches[:done])
    before = Draw({}, {})
    for kind, arrays, parts in zip(("drawn", "info"), drawn, before, strict=True):
        for name, array in arrays.items():
            array[...] = saved[f"{kind}:{name}"]
            parts[name] = array[:, :kept]
    if not all(np.isfinite(value).all() for value in before.values.values()):
        raise file.refuse("a draw is infinite or not a number")
    reason = sampler.fault(state, before, sum(skip + draws * thin for skip, draws in stretches[:done]))
    if reason is not None:
        raise file.refuse(reason)
    return state, done


def _restored(saved: np.ndarray, leaf: Data) -> Data:
    """A stored array as a leaf is: a key, an array of JAX, or of NumPy."""
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(saved), impl=jax.random.key_impl(leaf))
    return jnp.asarray(saved) if isinstance(leaf, jax.Array) else saved.copy()


def _is_key(leaf: Data) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
