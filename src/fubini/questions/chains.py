"""Chains of a compiled sampler: sweeps of labels and moves of the rest, what is stored of them, and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from fubini.algebra.node import Leaf
from fubini.base.arrays import Data
from fubini.compile.machine import Machine
from fubini.compile.schedule import Schedule
from fubini.errors import Intractable
from fubini.infer.checkpoint import Checkpoint, Layout
from fubini.numerics.randomness import words
from fubini.questions.moves import Rest

STRETCHES = 20  # of a chain; after each there is a checkpoint
LONGEST_STATE = 2000  # bytes of the state of a random generator, as text


class State(NamedTuple):
    """Of a chain: labels and other latents, and that of the no-U-turn sampler."""

    values: dict[str, Any]
    walk: Any


class Chains(NamedTuple):
    """How chains are run."""

    machine: Machine
    labels: Mapping[str, Leaf]
    rest: Rest | None
    items: Mapping[str, np.ndarray]
    schedule: Schedule
    warmup: int

    def all(
        self, key: Data, chains: int, start: Mapping[str, np.ndarray], file: Checkpoint | None, progress: bool
    ) -> dict[str, np.ndarray]:
        """Draws [chain, draw, …] by name."""
        if file is not None and self.rest is not None:
            raise Intractable(
                "a checkpoint of a sampler with other latents than labels",
                expected=f"labels alone; {', '.join(self.rest.names)} remains too",
                advice="eliminate it, or run shorter chains with start=",
            )
        draws: dict[str, np.ndarray] = {}
        first, done, saved = self._resumed(file, draws, chains, start)
        for chain in range(first, chains):
            generator = np.random.default_rng([*words(key), chain])
            state = self._begin(jax.random.fold_in(key, chain), chain, start, generator)
            if chain == first and saved is not None:
                generator.bit_generator.state = saved[0]
                state = State(saved[1], None)
                self.machine.set(saved[1])
            begin = done if chain == first else 0
            total = self.warmup + self.schedule.sweeps
            steps = tqdm(
                range(begin, total), initial=begin, total=total, disable=not progress, desc="gibbs", unit="sweep"
            )
            for sweep in steps:
                state = self._sweep(jax.random.fold_in(key, chain), sweep, state, generator)
                self._store(draws, chains, chain, sweep, state)
                if file is not None and (sweep + 1) % max(1, total // STRETCHES) == 0:
                    file.save(_saved(draws, chain, sweep + 1, generator, state))
        return draws

    def _begin(self, key: Data, chain: int, start: Mapping[str, np.ndarray], generator: np.random.Generator) -> State:
        values: dict[str, Any] = {}
        for name, leaf in self.labels.items():
            given = start.get(name)
            if given is None:
                values[name] = generator.integers(0, int((leaf.high or 0) - (leaf.low or 0)) + 1, leaf.shape)
            else:
                values[name] = np.array(given[chain] if given.ndim > len(leaf.shape) else given)
        if self.rest is None:
            self.machine.set(values)
            return State(values, None)
        walk, others = self.rest.begin(key, self._plain(values))
        return State({**others, **values}, walk)

    def _plain(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values as the model has them: labels from their least one."""
        return {
            name: value + int(self.labels[name].low or 0) if name in self.labels else value
            for name, value in values.items()
        }

    def _sweep(self, key: Data, sweep: int, state: State, generator: np.random.Generator) -> State:
        """All latents once: the rest given the labels, then each entry of each label."""
        values, walk = dict(state.values), state.walk
        if self.rest is not None:
            walk, moved = self.rest.step(jax.random.fold_in(key, sweep), walk, self._plain(values))
            values.update((name, np.asarray(moved[name])) for name in self.rest.names)
            self.machine.set(values)
        elif self.machine.program.drifts or sweep == 0:
            self.machine.set(values)
        for label, entries in self.items.items():
            self.machine.sweep(label, self.machine.uniforms(generator, len(entries)), entries)
            values[label] = self.machine.values(label)
        return State(values, walk)

    def _store(self, draws: dict[str, np.ndarray], chains: int, chain: int, sweep: int, state: State) -> None:
        place = self.schedule.place(sweep - self.warmup) if sweep >= self.warmup else None
        if place is None:
            return
        for name, value in self._plain(state.values).items():
            array = np.asarray(value)
            if name not in draws:
                draws[name] = np.empty((chains, self.schedule.kept, *array.shape), array.dtype)
            draws[name][chain, place] = array

    def _resumed(
        self, file: Checkpoint | None, draws: dict[str, np.ndarray], chains: int, start: Mapping[str, np.ndarray]
    ) -> tuple[int, int, Any]:
        """The chain and the sweep to go on with, and the state there, which are checked."""
        if file is None:
            return 0, 0, None
        for name, leaf in self.labels.items():  # of a checkpoint all entries are known, drawn or not
            draws[name] = np.zeros((chains, self.schedule.kept, *leaf.shape), np.int64)
        saved = file.load(self._layout(draws))
        if saved is None:
            return 0, 0, None
        chain, sweep = (int(number) for number in saved.pop("place"))
        total = self.warmup + self.schedule.sweeps
        if not 0 <= chain < chains or not 0 < sweep <= total:
            raise file.refuse(f"it is after sweep {sweep} of chain {chain}")
        for name, leaf in self.labels.items():
            draws[name] = saved[f"drawn:{name}"].copy()
            self._require_labels(leaf, draws[name], saved[f"value:{name}"], chain, sweep, file)
            self._require_fixed(name, leaf, saved[f"value:{name}"], start, chain, file)
        values = {name: saved[f"value:{name}"].copy() for name in self.labels}
        return chain, sweep, (_generator_state(saved["generator"].tobytes(), file), values)

    def _layout(self, draws: Mapping[str, np.ndarray]) -> dict[str, Layout]:
        """What a checkpoint of these chains holds."""
        integers = np.dtype(np.int64)
        drawn = {f"drawn:{name}": Layout(integers, array.shape) for name, array in draws.items()}
        values = {f"value:{name}": Layout(integers, tuple(leaf.shape)) for name, leaf in self.labels.items()}
        text = Layout(np.dtype(np.uint8), (LONGEST_STATE,), grows=True)
        return {**drawn, **values, "place": Layout(integers, (2,)), "generator": text}

    def _require_labels(
        self, leaf: Leaf, drawn: np.ndarray, now: np.ndarray, chain: int, sweep: int, file: Checkpoint
    ) -> None:
        """Labels that the model has: those drawn count as the model does, the present ones from 0."""
        low, high = int(leaf.low or 0), int(leaf.high or 0)
        places = [self.schedule.place(done - self.warmup) for done in range(self.warmup, sweep)]
        kept = 1 + max((place for place in places if place is not None), default=-1)
        for part in (drawn[:chain] - low, drawn[chain, :kept] - low, now):
            if np.any((part < 0) | (part > high - low)):
                raise file.refuse(f"labels of {leaf.name!r} are not from {low} to {high}")

    def _require_fixed(
        self, name: str, leaf: Leaf, now: np.ndarray, start: Mapping[str, np.ndarray], chain: int, file: Checkpoint
    ) -> None:
        """Entries that are held fixed are as they were at the start."""
        held = np.setdiff1d(np.arange(now.size), self.items[name])
        if held.size:
            first = start[name][chain] if start[name].ndim > len(leaf.shape) else start[name]
            if not np.array_equal(now.ravel()[held], np.asarray(first).ravel()[held]):
                raise file.refuse(f"fixed entries of {name!r} have moved")


def _generator_state(text: bytes, file: Checkpoint) -> dict[str, Any]:
    """The state of a random generator, of the kind that a chain has."""
    fresh = np.random.default_rng(0).bit_generator
    try:
        state = json.loads(text.decode())
        fresh.state = state
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError, RecursionError) as error:
        raise file.refuse("it has no random generator") from error
    if fresh.state != state:
        raise file.refuse("its random generator is of no state")
    return state


def _saved(
    draws: Mapping[str, np.ndarray], chain: int, sweep: int, generator: np.random.Generator, state: State
) -> dict[str, np.ndarray]:
    drawn = {f"drawn:{name}": value for name, value in draws.items()}
    values = {f"value:{name}": np.asarray(value) for name, value in state.values.items()}
    text = json.dumps(generator.bit_generator.state).encode()
    return {**drawn, **values, "place": np.array([chain, sweep]), "generator": np.frombuffer(text, np.uint8)}
