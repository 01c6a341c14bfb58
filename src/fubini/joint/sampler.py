"""`gibbs`: a compiled sampler of what is left of a model, one label at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.core import eval_context
from tqdm import tqdm

from fubini.arrays import Data
from fubini.compile.derive import Derivation, derived
from fubini.compile.difference import Derived
from fubini.compile.machine import Machine
from fubini.compile.natural import without as naturally
from fubini.compile.program import PASSES, Assembly, Program
from fubini.compile.sampling import free_items, given_labels, schedule, sweeps
from fubini.errors import DataError, DomainError, NoRule, closest, listed
from fubini.factors.randomness import require_key
from fubini.index.lower import Evaluation, aligned
from fubini.index.node import Index, Leaf, Node
from fubini.joint.closed_form import required
from fubini.joint.collapse import Collapse
from fubini.symbolic.collect import Blocked
from fubini.symbolic.search import Latent

ENGINES = ("numba", "python")


class Sampler:
    """Draws of labels given the observations: each from its conditional, the others and all statistics held."""

    def __init__(
        self, joint: Any, plan: Collapse, names: Sequence[str], without: Sequence[str] = (), engine: str = "numba"
    ) -> None:
        self.joint, self.plan, self.engine = joint, plan, engine
        self.names = tuple(names) or plan.kept
        for name in self.names:
            required(name, joint, plan.kept)
        if engine not in ENGINES:
            raise DomainError(f"engine={engine!r}", expected=f"one of {listed(ENGINES)}")
        for name in without:
            if name not in PASSES:
                raise DomainError(
                    f"without={name!r}", expected=f"passes: {listed(PASSES)}", nearest=closest(name, PASSES)
                )
        self.passes = tuple(name for name in PASSES if name not in without)
        self.labels = {name: plan.reading.sites[name] for name in self.names}
        require_finite(joint, plan)

    def __repr__(self) -> str:
        return f"Gibbs sampler of {listed(self.names)} in {self.joint!r}"

    def source(self) -> str:
        """The text of the loops, as they are compiled."""
        return self.program.source

    @cached_property
    def derivation(self) -> Derivation:
        """Statistics, and the score of each label."""
        rest = [name for name in self.plan.kept if name not in self.labels]
        if rest:
            raise NoRule(
                f"gibbs({listed(self.names)})",
                expected=f"labels alone; {listed(rest)} is left too",
                advice=f"eliminate({listed(rest)}) first",
            )
        return derived(self._terms(), tuple(self.labels.values()))

    def _terms(self) -> tuple[Node, ...]:
        """The density that is left, normal latents integrated out in natural form where they can be."""
        reading = self.plan.reading
        latents = {name: Latent(reading.sites[name], reading.domains[name]) for name in self.plan.eliminated}
        try:
            return naturally(tuple(reading.terms.values()), latents)
        except Blocked:
            return self.plan.reduced.terms

    @cached_property
    def program(self) -> Program:
        """The loops."""
        return Assembly(self.derivation, self._evaluate, self.passes).program()

    @cached_property
    def machine(self) -> Machine:
        """The loops, compiled."""
        return Machine(self.program, self._value, self.engine)

    def _evaluate(self, node: Node, order: Sequence[Index]) -> np.ndarray:
        """Numbers that the data decide."""
        with jax.enable_x64(True), eval_context():
            return np.asarray(aligned(Evaluation(self.plan.reading.arrays({})).of(node), tuple(order)))

    def _value(self, of: Derived, states: Mapping[Leaf, np.ndarray]) -> np.ndarray:
        """What is derived from statistics, at given ones."""
        with jax.enable_x64(True), eval_context():
            known = self.plan.reading.arrays({}, {**self.plan.reading.reader.known, **states})
            return np.asarray(aligned(Evaluation(known).of(of.value), of.axes))

    # -- draws -------------------------------------------------------------------------------------------------------

    def run(
        self,
        key: Data,
        sweeps: int = 1000,
        chains: int = 1,
        *,
        thin: int = 1,
        keep: int | None = None,
        start: Mapping[str, Any] | None = None,
        fixed: Mapping[str, Any] | Any = None,
        progress: bool = False,
    ) -> dict[str, np.ndarray]:
        """Draws [chain, sweep, …] of the labels.

        Every `thin`-th sweep is stored, and of these the last `keep`. `start` gives labels to begin with, and `fixed`
        the entries that stay so, as a mask or as indices.
        """
        require_key(key)
        plan = schedule(sweeps, thin, keep)
        items = self._items(fixed)
        found = {name: np.empty((chains, plan.kept, *leaf.shape), np.int64) for name, leaf in self.labels.items()}
        for chain in range(chains):
            generator = np.random.default_rng([*_words(key), chain])
            self.machine.set(self._begin(start or {}, generator, chain))
            for sweep in tqdm(self._sweeps(items, generator, plan.sweeps), total=plan.sweeps, disable=not progress):
                place = plan.place(sweep)
                if place is not None:
                    for name, leaf in self.labels.items():
                        found[name][chain, place] = self.machine.values(name) + int(leaf.low or 0)
        return found

    def _sweeps(self, items: Mapping[str, np.ndarray], generator: np.random.Generator, count: int) -> Any:
        return sweeps(self.machine, items, generator, count)

    def _items(self, fixed: Any) -> dict[str, np.ndarray]:
        given = fixed if isinstance(fixed, Mapping) else {self.names[0]: fixed}
        for name in given:
            required(name, self.joint, self.names)
        return {name: free_items(leaf, given.get(name)) for name, leaf in self.labels.items()}

    def _begin(self, start: Mapping[str, Any], generator: np.random.Generator, chain: int) -> dict[str, np.ndarray]:
        """Labels to begin with: those given, for all chains or for each, or random ones."""
        for name in start:
            required(name, self.joint, self.names)
        found = {}
        for name, leaf in self.labels.items():
            if name in start:
                given = given_labels(leaf, start[name])
                found[name] = given[chain] if given.ndim > len(leaf.shape) else given
            else:
                found[name] = generator.integers(0, int((leaf.high or 0) - (leaf.low or 0)) + 1, leaf.shape)
        return found

    def conditional(self, name: str, place: int | Sequence[int], **labels: Any) -> np.ndarray:
        """p(candidate | all other labels) of one entry."""
        leaf = self.labels[required(name, self.joint, self.names)]
        self.machine.set({other: given_labels(self.labels[other], value) for other, value in labels.items()})
        number = int(np.ravel_multi_index(tuple(np.atleast_1d(place)), leaf.shape))
        self.machine.sweep(name, np.zeros(1), np.array([number]))
        return self.machine.weights(name, int((leaf.high or 0) - (leaf.low or 0)) + 1)


def _words(key: Data) -> list[int]:
    raw = jax.random.key_data(key) if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return [int(word) for word in np.asarray(raw).ravel()]


def require_finite(joint: Any, plan: Collapse) -> None:
    """Observations and arguments that are finite."""
    for leaf, value in plan.reading.reader.known.items():
        array = np.asarray(value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(array)))
            raise DataError(
                f"gibbs of {joint!r}",
                expected="finite numbers in the data and arguments of the model",
                nearest=f"{leaf.name!r} of shape {array.shape} has {array[place]} at {place}",
                advice="data that are missing go in as a masked array: np.ma.masked_invalid(data)",
            )
