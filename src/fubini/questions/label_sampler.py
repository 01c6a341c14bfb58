"""A compiled sampler of the remaining latents of a model, one label at a time; what `gibbs` and `metropolis` give."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jax.core import eval_context
from jax.sharding import Mesh

from fubini.algebra.axes import aligned
from fubini.algebra.build import index
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.features import NoClosedForm
from fubini.algebra.label_digits import is_finite
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import Data, double_precision
from fubini.base.distant import distant, is_distant
from fubini.base.fingerprints import require_agreement
from fubini.base.sharded_array import auto_mesh
from fubini.compile.derive import Derivation, candidates, derived
from fubini.compile.difference import Derived
from fubini.compile.given_labels import free_entries, given_labels
from fubini.compile.histogram import grouped_sum
from fubini.compile.machine import Machine, require_engine
from fubini.compile.natural import without as naturally
from fubini.compile.pipeline import DIFFERENCE, PROPOSE, passes_without
from fubini.compile.program import Assembly, Program
from fubini.errors import DataError, DomainError, NoRule, listed
from fubini.infer.agreement import MOST_OF_LABELS, warn_of_disagreement
from fubini.infer.chain_placement import require_chains_axis
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.driver import Schedule, schedule_of
from fubini.infer.sampler import Sampler
from fubini.integrate.search import Latent
from fubini.models.checks import required
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.options import require_options
from fubini.numerics.randomness import require_key, words
from fubini.questions.block_gibbs import BlockGibbs
from fubini.questions.draw_store import DrawStore, open_draws
from fubini.questions.draws import Draws
from fubini.questions.kept_draws import Keeper, KeeperInMemory, KeeperInStore, RunSettings
from fubini.questions.label_sweeps import LabelSweeps
from fubini.questions.label_ties import Ties, ties_of
from fubini.questions.moves import OtherLatents

RUN_OPTIONS = (
    *("key", "sweeps", "chains", "warmup", "thin", "keep", "start", "fixed", "checkpoint", "store", "mesh"),
    "progress",
)
FIXED = ("sizes", "values")  # what code may be compiled for


class Options(NamedTuple):
    """How a sampler is made."""

    without: tuple[str, ...] = ()  # passes that are not run
    specialise: str = "sizes"
    blocked: bool = False
    engine: str = "numba"
    proposal: Callable[..., Any] | None = None

    def check(self) -> None:
        """Names that there are."""
        if self.specialise not in FIXED:
            raise DomainError(f"specialise={self.specialise!r}", expected=f"what is fixed: one of {listed(FIXED)}")
        require_engine(self.engine)
        passes_without(self.without)


class LabelSampler:
    """Draws of labels given the observations: each from its conditional, the others and all statistics held."""

    def __init__(self, eliminated_model: EliminatedModel, names: Sequence[str], options: Options | None = None) -> None:
        self.joint, self.eliminated_model, self.options = eliminated_model.joint, eliminated_model, options or Options()
        self.options.check()
        finite = tuple(name for name in eliminated_model.kept if is_finite(eliminated_model.reading.sites[name]))
        self.names = tuple(names) or finite
        for name in self.names:
            required(name, eliminated_model.joint, eliminated_model.kept)
        if not self.names:
            raise NoRule(
                f"gibbs() of {eliminated_model.joint}",
                expected="a remaining latent with finitely many values",
                nearest=f"the remaining latents are {listed(eliminated_model.kept)}",
                advice="infer(key) draws continuous latents",
            )
        self.pipeline = passes_without(self.options.without)
        self.labels = {name: eliminated_model.reading.sites[name] for name in self.names}
        for leaf in self.labels.values():
            candidates(leaf)
        if eliminated_model.is_distant and not self.options.blocked:
            raise _rows_on_mesh(eliminated_model, self.names)
        require_finite(eliminated_model)
        self._moves: dict[int, OtherLatents | None] = {}
        self.blocked = BlockGibbs(eliminated_model, self.names) if self.options.blocked else None

    @cached_property
    def ties(self) -> Ties:
        """Entries of labels that zeros of the density tie, so that these moves may not reach all that is possible."""
        return self._ties({})

    def _ties(self, held: Mapping[str, Mapping[int, int]]) -> Ties:
        if self.eliminated_model.is_distant:
            return Ties((), ())
        others = None if self.blocked is not None else self._others(0)
        moves = self.blocked.moves if self.blocked is not None else others.conjugate if others is not None else ()
        return ties_of(self.eliminated_model, [move.names for move in moves], held)

    def __repr__(self) -> str:
        return f"Gibbs sampler of {listed(self.names)} in {self.joint}"

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of the passes that make the loops, in order; `gibbs(…, without=(name,))` turns one off."""
        return tuple(one.name for one in self.pipeline)

    def source(self) -> str:
        """The text of the loops, as they are compiled."""
        if self.blocked is not None:
            raise NoRule(
                "the source of a blocked sampler", expected="compiled loops", nearest="XLA has no text of ours"
            )
        return self.program.source

    @cached_property
    def derivation(self) -> Derivation:
        """Statistics, and the score of each label."""
        return derived(self._terms(), tuple(self.labels.values()), DIFFERENCE in self.pipeline)

    def _terms(self) -> tuple[Node, ...]:
        """The density of the remaining latents, normal latents integrated out in natural form where they can be."""
        reading = self.eliminated_model.reading
        latents = {
            name: Latent(reading.sites[name], reading.domains[name]) for name in self.eliminated_model.eliminated
        }
        try:
            return naturally(tuple(reading.terms.values()), latents, frozenset(self.labels.values()))
        except NoClosedForm:
            return self.eliminated_model.plan.terms

    @cached_property
    def program(self) -> Program:
        """The loops."""
        assembly = Assembly(self.derivation, self._evaluate, self.pipeline, self.options.proposal is not None)
        return assembly.program(self.options.specialise == "values")

    @cached_property
    def machine(self) -> Machine:
        """The loops, compiled."""
        return Machine(self.program, self._value, self.options.engine, self.options.proposal)

    def _evaluate(self, node: Node, order: Sequence[Index]) -> np.ndarray:
        """Numbers that the data decide; arrays as they are, and histograms, by NumPy."""
        if node.kind == "get" and node.args[1:] == tuple(map(index, order)):
            return np.asarray(self.eliminated_model.reading.arrays({})[node.args[0]])
        if node.kind == "sum" and (histogram := grouped_sum(node, order, self._evaluate)) is not None:
            return histogram
        if node.kind == "const":
            return np.asarray(node.args[0])
        with double_precision(), eval_context():
            return np.asarray(aligned(Evaluation(self.eliminated_model.reading.arrays({})).of(node), tuple(order)))

    def _value(self, of: Derived, states: Mapping[Leaf, np.ndarray]) -> np.ndarray:
        """What is derived from statistics, at given ones."""
        with double_precision(), eval_context():
            known = self.eliminated_model.reading.arrays({}, {**self.eliminated_model.reading.reader.known, **states})
            return np.asarray(aligned(Evaluation(known).of(of.value), of.axes))

    # -- draws -------------------------------------------------------------------------------------------------------

    def run(
        self,
        key: Data = None,
        sweeps: int = 1000,
        chains: int = 1,
        *,
        warmup: int | None = None,
        thin: int = 1,
        keep: int | None = None,
        start: Mapping[str, Any] | None = None,
        fixed: Mapping[str, Any] | Any = None,
        checkpoint: str | os.PathLike | None = None,
        store: str | os.PathLike | None = None,
        mesh: Any = None,
        progress: bool = False,
        **options: Any,
    ) -> Any:
        """Draws [chain, sweep, …] of all remaining latents, by name.

        The first `warmup` sweeps are not stored; of the others every `thin`-th is, and of these the last `keep`.
        `start` gives labels to begin with, and `fixed` the entries that stay so, as a mask or as indices. With
        `checkpoint`, a path, a killed run goes on where it was. With `store`, a path, draws go into a Zarr store, and
        are there as ArviZ data whose numbers are read when they are asked for. With `mesh`, chains lie along its axis
        "chains": those of compiled loops in the processes that `fb.distributed` joins, each sweeping its share.
        """
        require_options("run", options, RUN_OPTIONS)
        require_key(key)
        schedule = schedule_of(sweeps, thin, keep, chains, warmup)
        if mesh is not None:
            require_chains_axis(mesh, chains, "run", self.eliminated_model.model.mesh)
            mesh = auto_mesh(mesh)
        begin = self._started(start or {}, chains)
        entries = self._entries(fixed)
        self._require_start(entries, begin)
        sampler = self.sampler(warmup, begin, entries, mesh)
        arrays = (*entries.values(), *begin.values())
        with self.eliminated_model.model.precision(), eval_context():
            header = {**self._run(key, schedule, sampler.warmup, arrays), "store": store is not None}
            together = self.eliminated_model.model.mesh if mesh is None else mesh
            asked = {**header, "checkpoint": checkpoint is not None}
            require_agreement(together, "gibbs(…).run(key, …)", {name: f"{part}" for name, part in asked.items()})
            file = None if checkpoint is None else Checkpoint(checkpoint, header, together)
            keeper = self._keeper(RunSettings(schedule, file, progress), header, store, together)
            judged, drawn = keeper.draws_of(sampler, key, lambda values: values, self.eliminated_model.kept)
        warn_of_disagreement(judged.values, MOST_OF_LABELS)
        if not isinstance(keeper, KeeperInStore):
            return Draws(drawn.values)
        keeper.store.finish(method=sampler.name, eliminated=list(self.eliminated_model.eliminated))
        return open_draws(keeper.store.path)

    def _keeper(
        self, run: RunSettings, header: Mapping[str, Any], store: str | os.PathLike | None, mesh: Mesh | None
    ) -> Keeper:
        """Where the draws go."""
        if store is None:
            return KeeperInMemory(run)
        domains = self.eliminated_model.reading.domains
        numbers = sum(int(np.prod(domains[name].shape)) for name in self.eliminated_model.kept)
        place = DrawStore(store, header, run.schedule.chains, mesh=mesh)
        return KeeperInStore(run, place, lambda drawn, block: {"posterior": drawn.values}, numbers)

    def sampler(
        self,
        warmup: int | None = None,
        start: Mapping[str, np.ndarray] | None = None,
        entries: Mapping[str, np.ndarray] | None = None,
        mesh: Mesh | None = None,
    ) -> Sampler:
        """Make what the driver runs: chains that begin with these labels, and draw these entries or all."""
        self._require_connected(start or {}, entries or {})
        if self.blocked is not None:
            return self.blocked.sampler(start or {}, warmup or 0, mesh)
        if warmup is None:
            warmup = self._warmup
        name = "gibbs" if self.options.proposal is None else "metropolis"
        entries = entries or self._entries(None)
        return LabelSweeps(name, self.machine, self.labels, self._others(warmup), entries, start or {}, warmup, mesh)

    def _require_connected(self, start: Mapping[str, np.ndarray], entries: Mapping[str, np.ndarray]) -> None:
        """Raise where zeros of the density keep moves from what is possible, given the entries that are held."""
        whole = {name: math.prod(leaf.shape) for name, leaf in self.labels.items()}
        held = {name: np.setdiff1d(np.arange(whole[name]), drawn) for name, drawn in entries.items()}
        what = f"a sampler of the labels {listed(self.names)}"
        if not any(places.size for places in held.values()):
            self.ties.require_connected(what)
            return
        chains = np.concatenate([np.reshape(start[name], (-1, whole[name]))[:, held[name]] for name in held], axis=1)
        ends = np.cumsum([0, *(places.size for places in held.values())])
        for row in np.unique(chains, axis=0):
            values = {
                name: dict(zip(map(int, places), map(int, row[ends[k] : ends[k + 1]]), strict=True))
                for k, (name, places) in enumerate(held.items())
            }
            self._ties(values).require_connected(what)

    @property
    def _warmup(self) -> int:
        """Sweeps in which the no-U-turn sampler adapts, where there is one."""
        others = self._others(0)
        return 0 if others is None or others.nuts is None else 300

    def _others(self, warmup: int) -> OtherLatents | None:
        """Moves of the remaining latents beside the labels."""
        if warmup not in self._moves:
            names = [name for name in self.eliminated_model.kept if name not in self.labels]
            self._moves[warmup] = OtherLatents(self.eliminated_model, names, warmup) if names else None
        return self._moves[warmup]

    def _run(self, key: Data, schedule: Schedule, warmup: int, given: Sequence[np.ndarray]) -> dict:
        """What a checkpoint is of."""
        return {
            "model": hashlib.blake2b(self.eliminated_model.reading.text.encode(), digest_size=16).hexdigest(),
            "labels": list(self.labels),
            "eliminated": list(self.eliminated_model.eliminated),
            "numbers": self.eliminated_model.model.digest(*given),
            "key": words(key),
            "schedule": list(schedule),
            "warmup": warmup,
            "blocked": self.options.blocked,
        }

    def _entries(self, fixed: Any) -> dict[str, np.ndarray]:
        if self.blocked is not None and fixed is not None:
            raise DomainError("run(fixed=…) of a blocked sampler", expected="no fixed", advice="leave blocked out")
        given = fixed if isinstance(fixed, Mapping) else {self.names[0]: fixed}
        for name in given:
            required(name, self.joint, self.names)
        return {name: free_entries(leaf, given.get(name)) for name, leaf in self.labels.items()}

    def _require_start(self, entries: Mapping[str, np.ndarray], start: Mapping[str, np.ndarray]) -> None:
        """Entries that are held fixed have values to be held at."""
        for name, drawn in entries.items():
            if name not in start and drawn.size < np.prod(self.labels[name].shape, dtype=int):
                raise DomainError(
                    f"fixed entries of {name!r} without labels",
                    expected=f"start={{{name!r}: …}}, of which these entries are held",
                )

    def _started(self, start: Mapping[str, Any], chains: int) -> dict[str, np.ndarray]:
        """Labels to begin with, for all chains or for each."""
        for name in start:
            required(name, self.joint, self.names)
        labels = {name: given_labels(self.labels[name], value, chains) for name, value in start.items()}
        if self.blocked is None:
            return labels
        return {name: value + self.labels[name].first for name, value in labels.items()}

    @cached_property
    def _weighing(self) -> Machine:
        """Loops that weigh all candidates."""
        if self.program.uniforms == 1:
            return self.machine
        without = (*self.options.without, PROPOSE.name)
        return LabelSampler(self.eliminated_model, self.names, self.options._replace(without=without)).machine

    def conditional(self, name: str, place: int | Sequence[int], **labels: Any) -> np.ndarray:
        """p(candidate | all other latents) of one entry."""
        if self.options.proposal is not None:
            raise NoRule("the conditional of a label that is proposed", expected="a sampler that weighs all candidates")
        leaf = self.labels[required(name, self.joint, self.names)]
        for other in self.eliminated_model.kept:
            if other not in labels:
                raise DataError(
                    f"no value for the site {other!r}", expected=f"values for {listed(self.eliminated_model.kept)}"
                )
        self._weighing.set(
            {
                other: self._given(required(other, self.joint, self.eliminated_model.kept), labels[other])
                for other in labels
            }
        )
        at = tuple(np.atleast_1d(place)) if leaf.shape else ()
        if len(at) != len(leaf.shape) or not all(0 <= one < size for one, size in zip(at, leaf.shape, strict=True)):
            raise DomainError(f"the entry {place} of {name!r}", expected=f"a place in an array of shape {leaf.shape}")
        number = int(np.ravel_multi_index(at, leaf.shape)) if at else 0
        self._weighing.sweep(name, np.zeros(1), np.array([number]))
        return self._weighing.weights(leaf.count)

    def _given(self, name: str, value: Any) -> np.ndarray:
        """The value of a remaining latent, in its shape."""
        if name in self.labels:
            return given_labels(self.labels[name], value)
        shape = self.eliminated_model.reading.sites[name].shape
        if np.shape(value) != shape:
            raise DomainError(f"a value of {name!r} of shape {np.shape(value)}", expected=f"the shape {shape}")
        return np.asarray(value)


def _rows_on_mesh(eliminated_model: EliminatedModel, names: Sequence[str]) -> NoRule:
    """The error of loops that would read rows on several devices."""
    records = filter(None, map(distant, eliminated_model.model.leaves))
    return NoRule(
        f"gibbs of the labels {listed(names)} over data on a mesh",
        expected="data that one process holds: compiled loops go from one entry to the next",
        nearest=f"{next(records, 'data on several devices')}",
        advice="gibbs(…, blocked=True) draws all labels at once, where their rows are; infer(key) sums them out",
    )


def require_finite(eliminated_model: EliminatedModel) -> None:
    """Observations and arguments that are known, and finite."""
    if eliminated_model.is_traced:
        raise DomainError(
            f"gibbs of {eliminated_model.joint} under jit, vmap or grad",
            expected="data that are known when the sampler is made",
            advice="make and run it outside; blocked=True runs many chains at once",
        )
    for leaf, value in eliminated_model.reading.reader.known.items():
        if is_distant(value):
            continue  # which was looked at where it is
        array = np.asarray(value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(array)))
            raise DataError(
                f"gibbs of {eliminated_model.joint}",
                expected="finite numbers in the data and arguments of the model",
                nearest=f"{leaf.name!r} of shape {array.shape} has {array[place]} at {place}",
                advice="data that are missing go in as a masked array: np.ma.masked_invalid(data)",
            )
