"""A whole program for a density of labels: its text, its arrays, and the functions that Numba makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fubini.algebra.node import Leaf
from fubini.compile.array_names import Evaluate, Names, Recipe
from fubini.compile.derive import Derivation, Label
from fubini.compile.difference import Derived
from fubini.compile.emit import HEAD, ArrayAccess, LoopWriter, helpers, is_log
from fubini.compile.loop import LabelLoop, Weights
from fubini.compile.pipeline import PASSES, Pass, run_passes
from fubini.compile.recompute import Recompute
from fubini.compile.row_proposals import uniforms_of, write_proposals
from fubini.compile.specialise import constant_text, is_small
from fubini.errors import NoRule


class Program(NamedTuple):
    """Source text, and the arrays that all of its functions take, in order."""

    source: str
    arguments: tuple[str, ...]
    numbers: dict[str, np.ndarray]  # data
    recipes: tuple[Recipe, ...]  # how these are made
    states: dict[str, tuple[Leaf, tuple[int, ...]]]  # statistics and what is kept: the leaf, and the order of its axes
    latents: dict[str, Leaf]  # read or written
    labels: dict[str, str]  # the name of a latent, and that of its array
    derived: tuple[Derived, ...]
    counts: frozenset[str]  # statistics that count items, by name: kept as whole numbers of 32 bits
    derives_last: bool  # what is derived is computed from statistics, rather than label by label with them
    drifts: bool  # statistics are no whole numbers: rounding adds up
    uniforms: int  # numbers that an update takes, at most


class Assembly:
    """Runs the passes, and puts a program together."""

    def __init__(
        self, derivation: Derivation, evaluate: Evaluate, passes: Sequence[Pass] = PASSES, proposes: bool = False
    ) -> None:
        self.derivation, self.proposes = derivation, proposes
        self.sweeps = run_passes(derivation, passes)
        self.labels = self.sweeps.labels
        if proposes and not self.sweeps.has_updates:
            raise NoRule(
                "a proposal without differences",
                expected=f"the passes {', '.join(one.name for one in PASSES)}",
                advice="leave `without` out",
            )
        self.names = Names(evaluate, self.sweeps.has_sizes, self.sweeps.is_hoisted)
        for label in derivation.labels:
            array = self.names[label.leaf]
            self.names[label.leaf] = array._replace(low=label.leaf.first)
        self.room: dict[str, np.ndarray] = {}
        for label in self.labels:
            for one in label.neighbours:
                axes = range(len(label.at), len(one.leaf.shape))
                name = self.names.name(one.leaf.name)
                self.names[one.leaf] = ArrayAccess(name, tuple(axes))
                self.room[name] = np.zeros([one.leaf.shape[axis] for axis in axes])
        self.states = self._states()

    def _states(self) -> dict[str, tuple[Leaf, tuple[int, ...]]]:
        """Name the statistics that scores read, directly or through what is derived from them."""
        if not self.sweeps.has_updates:
            states = {}
            for one in self.sweeps.statistics:
                array = self.names.state(one.leaf, None)
                states[array.name] = (one.leaf, array.order)
            return states
        read = frozenset().union(*(label.score.leaves for label in self.labels))
        needed = set(read)
        for one in reversed(self.derivation.derived):
            if one.leaf in needed:
                needed |= set() if self._is_alone else one.value.leaves
                needed |= frozenset().union(
                    *(v.leaves for label in self.labels for v in label.changes.get(one.leaf, ((), {}))[1].values())
                )
        states = {}
        for leaf in [*(one.leaf for one in self.derivation.statistics), *(one.leaf for one in self.derivation.derived)]:
            if leaf in needed:
                rows = [label.rows[leaf] for label in self.derivation.labels if label.rows.get(leaf)]
                array = self.names.state(leaf, min(rows[0]) if rows else None)
                states[array.name] = (leaf, array.order)
        self._read_at_start({leaf for leaf, _ in states.values()})
        return states

    def _read_at_start(self, kept: set[Leaf]) -> None:
        """Name the latents that only the start of what is derived reads."""
        for one in self.derivation.derived:
            for leaf in one.value.leaves if one.leaf in kept else ():
                if leaf.role == "site":
                    self.names[leaf]

    # -- text --------------------------------------------------------------------------------------------------------

    def program(self, values: bool = False) -> Program:
        """Write the text once all arrays that it reads have names; `values` makes small arrays of data constants."""
        bodies = [self._start(), *(self._sweep(label) for label in self.labels)]
        room = self._room()
        states = {**self.states, **self._caches()}
        constants = {name: array for name, array in self.names.numbers.items() if values and is_small(array)}
        data = [name for name in self.names.numbers if name not in constants]
        extra = ("propose",) if self.proposes else ()
        arguments = (*extra, "uniforms", "items", *self.names.latents, *states, *data, *room)
        return Program(
            source=self._source(bodies, arguments, constants),
            arguments=arguments,
            numbers={**self.names.numbers, **room},
            recipes=tuple(self.names.recipes),
            states=states,
            latents=self.names.latents,
            labels={label.leaf.name: self.names[label.leaf].name for label in self.labels},
            derived=self.derivation.derived,
            counts=frozenset(
                self.names[one.leaf].name
                for one in self.derivation.statistics
                if one.is_count and one.leaf in self.names
            ),
            derives_last=not self._is_alone,
            drifts=any(not leaf.is_integer for leaf, _ in self.states.values()),
            uniforms=self._uniforms,
        )

    @property
    def _uniforms(self) -> int:
        """How many numbers an update takes, at most: that of a user's proposal takes two."""
        return 2 if self.proposes else uniforms_of(self.sweeps.proposals)

    def _room(self) -> dict[str, np.ndarray]:
        """Allocate arrays for the weights and exponents of candidates, for neighbours, and for sizes that are read."""
        size = max(2, *(label.k.size for label in self.labels))
        read = {"sizes": self.names.sizes.array} if self.names.sizes.read else {}
        return {"w": np.zeros(size), "e": np.zeros(size), **self.room, **read}

    def _caches(self) -> dict[str, tuple[Leaf, tuple[int, ...]]]:
        kept = [one for label in self.labels for one in self.names.kept(label)]
        return {self.names[one.leaf].name: (one.leaf, (0,)) for one in kept}

    def _source(
        self, bodies: list[tuple[str, list[str]]], arguments: tuple[str, ...], constants: dict[str, np.ndarray]
    ) -> str:
        text = []
        for name, lines in bodies:
            options = f'cache={not self.proposes}, error_model="numpy", nogil=True'
            head = f"@njit({options})\ndef {name}({', '.join(arguments)}):"
            text.append("\n".join([head, *("    " + line if line else "" for line in lines)]) + "\n")
        known = [constant_text(constants)] if constants else []
        return "\n\n".join([HEAD, *known, *filter(None, [helpers("\n".join(text))]), *text])

    def _writer(self) -> LoopWriter:
        for kept in self.sweeps.constants.kept.values():
            if kept.leaf not in self.names:
                array = self.names.data(kept.leaf, kept.value, kept.axes)
                self.names[kept.leaf] = array._replace(is_log=is_log(kept.value))
        return LoopWriter(self.names, self.names.sizes.text)

    def _start(self) -> tuple[str, list[str]]:
        """Write the function that adds every label, one after another, to empty statistics."""
        writer = self._writer()
        if not self.sweeps.has_updates:
            writer.line("return 0")
            return "start", writer.lines
        coupled = [one for one in self.derivation.coupled if one.leaf in self.names]
        Recompute(self.sweeps, self.names, writer).accumulate(coupled)
        seen: set[Leaf] = {one.leaf for one in coupled}
        if not self._is_alone:
            seen |= {one.leaf for one in self.derivation.derived}
        for label in self.labels:
            loop = LabelLoop(label, Weights((), label.score, ()), self.names, writer)
            changed = [leaf for leaf, (_, change) in label.changes.items() if change and leaf not in seen]
            seen.update(changed)
            if not changed and coupled:
                continue
            with writer.block(f"for u in range({loop.count}):"):
                loop.place()
                writer.line(f"k = {loop.entry}")
                loop.sum_neighbours()
                for leaf in reversed(changed):
                    loop.change(leaf, "+=")
        writer.line("return 0")
        return "start", writer.lines

    @property
    def _is_alone(self) -> bool:
        """Whether statistics are those of one label, whose items read one entry of it."""
        return len(self.labels) == 1 and not self.derivation.coupled

    def _sweep(self, label: Label) -> tuple[str, list[str]]:
        if not self.sweeps.has_updates:
            return self._anew(label)
        writer = self._writer()
        self._name_by_class(label)
        loop = LabelLoop(label, self.sweeps.weights[label.leaf], self.names, writer)
        if self.names.kept(label):
            with writer.block(f"for k in range({loop.size}):"):
                loop.refresh()
        with writer.block("for t in range(items.size):"):
            writer.line("u = items[t]")
            loop.place()
            writer.line(f"k = {loop.entry}")
            loop.sum_neighbours()
            loop.remove()
            loop.refresh()
            if self.proposes:
                loop.propose()
            elif label.leaf in self.sweeps.proposals:
                write_proposals(loop, self.sweeps.proposals[label.leaf], self._uniforms)
            else:
                loop.weigh()
                loop.draw()
            loop.restore()
            loop.refresh()
        writer.line("return 0")
        return f"sweep_{self.names[label.leaf].name}", writer.lines

    def _anew(self, label: Label) -> tuple[str, list[str]]:
        """Write a sweep that computes the density of every candidate."""
        writer = self._writer()
        Recompute(self.sweeps, self.names, writer).sweep(label)
        writer.line("return 0")
        return f"sweep_{self.names[label.leaf].name}", writer.lines

    def _name_by_class(self, label: Label) -> None:
        """Name the arrays of what depends on a class alone."""
        if label.leaf in self.sweeps.by_class:
            store = self.names.stores[label.leaf] = self.sweeps.by_class[label.leaf]
            for kept in store.kept.values():
                self.names[kept.leaf] = self.names.state(kept.leaf, None)._replace(is_log=is_log(kept.value))
