"""Run any sampler: warm-up, thinning, progress, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from tqdm import tqdm

from fubini.base.arrays import Data, is_key
from fubini.base.processes import on_host, placed
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

    def stretches(self, warmup: int, draws_each: int | None = None) -> Iterator[Stretch]:
        """Yield the transitions that are skipped and the draws that are kept in each stretch of a run.

        Draws come so many at a time, where that is given.
        """
        skipped = warmup + (self.sweeps // self.thin - self.kept) * self.thin
        length = max(1, -(-(skipped + self.kept * self.thin) // STRETCHES))
        while skipped >= length:
            yield length, 0
            skipped -= length
        done = 0
        while done < self.kept:
            draws = min(draws_each or max(1, (length - skipped) // self.thin), self.kept - done)
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


class Sink(Protocol):
    """Where the draws of a run go, stretch after stretch."""

    @property
    def draws_each(self) -> int | None:
        """How many draws a stretch has, where that is bounded."""
        ...

    def open(self, first: Draw) -> None:
        """Make room for draws like the first [chain, …]."""
        ...

    def put(self, new: Draw, place: int, draws: int) -> None:
        """Take draws [chain, draw, …], the first of which has this place in its chain."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds of the draws."""
        ...

    def restore(self, saved: Mapping[str, np.ndarray], draws: int) -> str | None:
        """Take the draws that a checkpoint is after; say why these are not there, or None."""
        ...

    def in_memory(self, draws: int) -> Draw:
        """Of so many draws [chain, draw, …] those that are in memory."""
        ...


def room(first: Draw, chains: int, draws: int) -> Draw:
    """Arrays for draws [chain, draw, …] like the first."""
    return Draw(*({n: np.zeros((chains, draws, *x.shape[1:]), x.dtype) for n, x in part.items()} for part in first))


class InMemory:
    """All draws [chain, draw, …] as arrays."""

    draws_each = None

    def __init__(self, schedule: Schedule) -> None:
        self.lead = (schedule.chains, schedule.kept)
        self.drawn = Draw({}, {})

    def open(self, first: Draw) -> None:
        """Make room."""
        self.drawn = room(first, *self.lead)

    def put(self, new: Draw, place: int, draws: int) -> None:
        """Put new draws at their place."""
        for arrays, parts in zip(self.drawn, new, strict=True):
            for name, part in parts.items():
                arrays[name][:, place : place + draws] = part

    def arrays(self) -> dict[str, np.ndarray]:
        """All of them."""
        values, info = self.drawn
        return {f"drawn:{n}": x for n, x in values.items()} | {f"info:{n}": x for n, x in info.items()}

    def restore(self, saved: Mapping[str, np.ndarray], draws: int) -> str | None:
        """Read all of them; they are finite."""
        for name, array in self.arrays().items():
            array[...] = saved[name]
        finite = all(np.isfinite(value[:, :draws]).all() for value in self.drawn.values.values())
        return None if finite else "a draw is infinite or not a number"

    def in_memory(self, draws: int) -> Draw:
        """All of them."""
        return Draw(*({name: array[:, :draws] for name, array in part.items()} for part in self.drawn))


def run(
    sampler: Sampler, key: Data, schedule: Schedule, file: Checkpoint | None = None, progress: bool = False
) -> Draw:
    """Draw [chain, draw, …] by a sampler; where there is a checkpoint, go on from it."""
    sink = InMemory(schedule)
    run_into(sink, sampler, key, schedule, file, progress)
    return sink.drawn


def run_into(
    sink: Sink, sampler: Sampler, key: Data, schedule: Schedule, file: Checkpoint | None, progress: bool
) -> None:
    """Draw by a sampler; the draws go into a sink, stretch after stretch."""
    state = sampler.init(key, schedule.chains)
    sink.open(sampler.draw(state))
    stretches, done = list(schedule.stretches(sampler.warmup, sink.draws_each)), 0
    if file is not None:
        state, done = _resume(file, sampler, state, sink, stretches, schedule.thin)
    lengths = [skip + draws * schedule.thin for skip, draws in stretches]
    place = sum(draws for _, draws in stretches[:done])
    with tqdm(
        total=sum(lengths), initial=sum(lengths[:done]), disable=not progress, desc=sampler.name, unit="iteration"
    ) as bar:
        for number, (skip, draws) in enumerate(stretches[done:], done):
            state, new = sampler.step(state, skip, draws, schedule.thin)
            if draws:
                sink.put(new, place, draws)
            place += draws
            if file is not None:
                file.save({**_stored(state), **sink.arrays(), "done": np.array(number + 1)})
            bar.update(lengths[number])


# -- checkpoints ----------------------------------------------------------------------------------------------------


def _stored(state: State) -> dict[str, np.ndarray]:
    """A state as arrays by name."""
    return {f"state:{_path(path)}": on_host(leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]}


def _path(path: tuple) -> str:
    """The place of a leaf in a tree: its keys with dots between them."""
    return ".".join(str(getattr(k, "name", getattr(k, "key", getattr(k, "idx", k)))) for k in path)


def _resume(
    file: Checkpoint, sampler: Sampler, state: State, sink: Sink, stretches: Sequence[Stretch], thin: int
) -> tuple[State, int]:
    """Read the state of a checkpoint and put its draws in their place; also, after how many stretches they are."""
    empty = {**_stored(state), **sink.arrays(), "done": np.array(0)}
    saved = file.load({name: Layout(array.dtype, array.shape) for name, array in empty.items()})
    if saved is None:
        return state, 0
    done = int(saved["done"])
    if not 0 < done <= len(stretches):
        raise file.refuse(f"it is after {done} of {len(stretches)} parts of the run")
    leaves, tree = jax.tree_util.tree_flatten_with_path(state)
    state = jax.tree_util.tree_unflatten(tree, [_restored(saved[f"state:{_path(p)}"], leaf) for p, leaf in leaves])
    kept = sum(draws for _, draws in stretches[:done])
    made = sum(skip + draws * thin for skip, draws in stretches[:done])
    reason = sink.restore(saved, kept) or sampler.fault(state, sink.in_memory(kept), made)
    if reason is not None:
        raise file.refuse(reason)
    return state, done


def _restored(saved: np.ndarray, leaf: Data) -> Data:
    """A stored array as a leaf is: a key, an array of JAX on the same devices, or of NumPy."""
    if not isinstance(leaf, jax.Array):
        return saved.copy()
    numbers = jax.random.wrap_key_data(jnp.asarray(saved), impl=jax.random.key_impl(leaf)) if is_key(leaf) else saved
    return placed(numbers, leaf.sharding) if isinstance(leaf.sharding, NamedSharding) else jnp.asarray(numbers)
