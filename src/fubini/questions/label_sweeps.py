"""The sampler of labels by compiled loops, one entry after another, with moves of the other latents in between."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from fubini.algebra.node import Leaf
from fubini.base.arrays import Data
from fubini.base.fingerprints import spans_processes
from fubini.base.processes import gathered
from fubini.compile.machine import Machine
from fubini.infer.nuts import fault_of_nuts
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_count, fault_of_numbers, fault_of_range, first_fault
from fubini.numerics.randomness import fault_of_generator, generator_of, generator_state, words
from fubini.questions.moves import OtherLatents

Arrays = dict[str, Any]


class ChainState(NamedTuple):
    """Of one chain: its labels, counted from 0, and the other latents, with what their moves keep."""

    labels: Arrays
    others: Arrays
    nuts: Any
    key: Data
    generator: np.ndarray
    sweeps: np.ndarray  # made so far


class LabelSweeps:
    """All latents once in each transition: the others given the labels, then each entry of each label."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        labels: Mapping[str, Leaf],
        others: OtherLatents | None,
        entries: Mapping[str, np.ndarray],
        start: Mapping[str, np.ndarray],
        warmup: int,
        mesh: Mesh | None = None,
    ) -> None:
        self.mesh = mesh
        self.name, self.warmup = name, warmup
        self.machine, self.labels, self.others = machine, labels, others
        self._twins: list[Machine] = []
        self._is_compiled = False
        self.entries, self.start = entries, start  # those that are drawn, and labels to begin with

    def init(self, key: Data, chains: int) -> list[ChainState]:
        """Start chains, each with random numbers of its own."""
        return [self._started(jax.random.fold_in(key, chain), [*words(key), chain], chain) for chain in range(chains)]

    def _started(self, key: Data, seed: list[int], chain: int) -> ChainState:
        generator = np.random.default_rng(seed)
        labels: Arrays = {}
        for name, leaf in self.labels.items():
            given = self._given(name, chain)
            labels[name] = generator.integers(0, leaf.count, leaf.shape) if given is None else given
        nuts, others = None, {}
        if self.others is not None:
            nuts, values = self.others.begin(key, self._as_in_model(labels))
            others = {name: np.asarray(values[name]) for name in self.others.names}
        return ChainState(labels, others, nuts, key, generator_state(generator), np.array(0))

    def _given(self, name: str, chain: int) -> np.ndarray | None:
        """Labels that a chain begins with, where they were given, for all chains or for each."""
        given = self.start.get(name)
        if given is None:
            return None
        return np.array(given[chain] if given.ndim > len(self.labels[name].shape) else given)

    def _as_in_model(self, labels: Mapping[str, Any]) -> Arrays:
        return {name: value + self.labels[name].first for name, value in labels.items()}

    def step(self, state: list[ChainState], skip: int, draws: int, thin: int) -> tuple[list[ChainState], Draw]:
        """Sweep all chains, as many at once as there are machines; the draws are the same however many there are.

        Of several processes each sweeps its share, and then all have all of them.
        """
        if spans_processes(self.mesh):
            each = len(state) // jax.process_count()
            state = state[jax.process_index() * each :][:each]
        machines = self._machines(len(state))

        def swept(one: ChainState) -> tuple[ChainState, Arrays]:
            machine = machines.get()
            try:
                return self._swept(machine, one, skip, draws, thin)
            finally:
                machines.put(machine)

        alone = 0 if self._is_compiled else 1  # the first chain, before there is compiled code for the others
        moved = [swept(one) for one in state[:alone]]
        with ThreadPoolExecutor(machines.qsize()) as pool:
            moved += pool.map(swept, state[alone:])
        self._is_compiled = True
        if spans_processes(self.mesh):
            moved = gathered(moved)
        drawn = [values for _, values in moved]
        return [one for one, _ in moved], Draw({name: np.stack([v[name] for v in drawn]) for name in drawn[0]}, {})

    def _machines(self, chains: int) -> SimpleQueue[Machine]:
        """A machine for each thread; Python's own loops would only wait for each other."""
        count = min(chains, os.cpu_count() or 1) if self.machine.engine == "numba" else 1
        while len(self._twins) < count - 1:
            self._twins.append(self.machine.twin())
        machines: SimpleQueue[Machine] = SimpleQueue()
        for machine in (self.machine, *self._twins[: count - 1]):
            machines.put(machine)
        return machines

    def _swept(
        self, machine: Machine, state: ChainState, skip: int, draws: int, thin: int
    ) -> tuple[ChainState, Arrays]:
        """One chain moved, and its draws [draw, …]."""
        generator = generator_of(state.generator)
        drawn = {name: np.empty((draws, *x.shape), x.dtype) for name, x in self._values(state).items()}
        machine.set({**state.labels, **state.others})
        for sweep in range(1, skip + draws * thin + 1):
            state = self._sweep(machine, state, generator)
            if sweep > skip and (sweep - skip) % thin == 0:
                for name, value in self._values(state).items():
                    drawn[name][(sweep - skip) // thin - 1] = value
        labels = {name: np.array(value) for name, value in state.labels.items()}  # the machine goes on with its own
        return state._replace(labels=labels, generator=generator_state(generator)), drawn

    def _sweep(self, machine: Machine, state: ChainState, generator: np.random.Generator) -> ChainState:
        labels, others, nuts = dict(state.labels), state.others, state.nuts
        if self.others is not None:
            key = jax.random.fold_in(state.key, int(state.sweeps))
            nuts, values = self.others.step(key, nuts, {**others, **self._as_in_model(labels)})
            others = {name: np.asarray(values[name]) for name in self.others.names}
        if self.others is not None or machine.program.drifts:
            machine.set({**labels, **others})
        for label, entries in self.entries.items():
            machine.sweep(label, machine.uniforms(generator, len(entries)), entries)
            labels[label] = machine.values(label)
        return ChainState(labels, others, nuts, state.key, state.generator, state.sweeps + 1)

    def _values(self, state: ChainState) -> Arrays:
        return {**self._as_in_model(state.labels), **state.others}

    def draw(self, state: list[ChainState]) -> Draw:
        """Read the present draws [chain, …]."""
        each = [self._values(one) for one in state]
        return Draw({name: np.stack([values[name] for values in each]) for name in each[0]}, {})

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def fault(self, state: list[ChainState], drawn: Draw, transitions: int) -> str | None:
        """Labels are those that the model has, and fixed entries have not moved."""
        for name, leaf in self.labels.items():
            every = [one.labels[name] for one in state]
            for part in (*(labels + leaf.first for labels in every), drawn.values[name]):
                if fault := fault_of_range(name, part, leaf.first, leaf.first + leaf.count - 1):
                    return fault
            held = np.setdiff1d(np.arange(every[0].size), self.entries[name])
            for chain, labels in enumerate(every) if held.size else ():
                given = self._given(name, chain)
                if given is None or not np.array_equal(labels.ravel()[held], given.ravel()[held]):
                    return f"fixed entries of {name!r} have moved"
        made = fault_of_count([one.sweeps for one in state], transitions)
        return made or first_fault(fault for one in state for fault in _faults(one))


def _faults(state: ChainState) -> Iterator[str | None]:
    """Faults of the generator, and of the latents that are no labels."""
    yield fault_of_generator(state.generator)
    yield fault_of_numbers(state.others.values())
    if state.nuts is not None:
        yield fault_of_nuts(state.nuts)
