"""Passes over rows, chunk by chunk, that make numbers of sums: by NumPy, or on the devices of a mesh."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fubini.algebra.node import Leaf
from fubini.algebra.row_chunks import Chunk, Layout, RowSum
from fubini.base.arrays import Data, double_precision
from fubini.base.row_places import RowPlaces
from fubini.base.stream import Stream, read_together, require_one_mesh

AHEAD = 2  # chunks that devices are given before the first comes back
of_jax: Any = jax  # whose functions tell nothing of Data


def read_sums(
    sums: Sequence[RowSum], streams: Mapping[Leaf, Stream], known: Mapping[Leaf, Any]
) -> tuple[dict[RowSum, list[np.ndarray]], list[int]]:
    """The numbers of sums, by one pass over the rows of each length; and these lengths."""
    lengths: dict[int, list[RowSum]] = {}
    for one in sums:
        lengths.setdefault(one.row.size, []).append(one)
    values: dict[RowSum, list[np.ndarray]] = {}
    for length, alike in lengths.items():
        rows = RowsOfSums(length, alike, streams, known)
        states = {one: one.start() for one in alike}
        if rows.places is None:
            rows.add_here(states)
        else:
            rows.add_on_devices(states, rows.places.devices)
            states = {one: _joined(one, state, rows.places) for one, state in states.items()}
        values |= {one: one.numbers(state) for one, state in states.items()}
    return values, list(lengths)


def _joined(one: RowSum, own: Any, places: RowPlaces) -> Any:
    """The sum over the rows of all processes."""
    state = one.start()
    for parts in places.gather(own.parts):
        state.join(*parts)
    return state


class RowsOfSums:
    """The rows of all streams of a length that sums read, and of other arrays with as many rows."""

    def __init__(
        self, length: int, sums: Sequence[RowSum], streams: Mapping[Leaf, Stream], known: Mapping[Leaf, Any]
    ) -> None:
        used = frozenset[Leaf]().union(*(node.leaves for one in sums for node in one.nodes))
        self.length, self.sums = length, sums
        self.rows = {leaf: data for leaf, data in streams.items() if data.rows == length and leaf in used}
        self.here: dict[Leaf, np.ndarray[Any, Any]] = {
            leaf: data for leaf, data in known.items() if isinstance(data, np.ndarray) and leaf in used
        }
        self.tall = [leaf for leaf, data in self.here.items() if data.ndim and len(data) == length]
        self.places = require_one_mesh(list(self.rows.values()))
        self._layouts: dict[int, Layout] = {}

    def layout(self, size: int) -> Layout:
        """What chunks of this size have in common."""
        if size not in self._layouts:
            self._layouts[size] = Layout(size, (*self.rows, *self.tall))
        return self._layouts[size]

    def chunks(self) -> Iterator[tuple[int, dict[Leaf, np.ndarray]]]:
        """The first row of each chunk, and the part of each array."""
        for start, size, chunks in read_together(list(self.rows.values()), self.length):
            parts = {leaf: self.here[leaf][start : start + size] for leaf in self.tall}
            yield start, {**dict(zip(self.rows, chunks, strict=True)), **parts}

    def add_here(self, states: Mapping[RowSum, Any]) -> None:
        """Add all rows by NumPy."""
        for start, parts in self.chunks():
            self._add_chunk(states, start, parts)

    def _add_chunk(self, states: Mapping[RowSum, Any], start: int, parts: Mapping[Leaf, np.ndarray]) -> None:
        layout = self.layout(_rows_of(parts))
        arrays = {layout.parts[leaf]: part for leaf, part in parts.items()}
        chunk = Chunk(layout, start, {**self.here, **arrays})
        for one, state in states.items():
            one.add(state, chunk)

    def add_on_devices(self, states: Mapping[RowSum, Any], devices: Sequence[Any]) -> None:
        """Add all rows, of each chunk a part on each device; few numbers come back, while the next rows are read.

        What the devices do not divide, and a shorter chunk at the end, is added by NumPy, so that one program does.
        """
        mesh, under_way, size = Mesh(np.array(devices), ("part",)), deque[Any](), 0
        program: Callable[..., Any] | None = None
        apart, everywhere = (NamedSharding(mesh, spec) for spec in (PartitionSpec("part"), PartitionSpec()))
        with double_precision(), eval_context():
            known = of_jax.device_put(list(self.here.values()), everywhere)
            for start, parts in self.chunks():
                if not size:
                    size = _rows_of(parts) // len(devices)
                    program = self._program(mesh, size) if size else None
                here = size * len(devices)
                if program is not None and _rows_of(parts) >= here:
                    own = of_jax.device_put([part[:here] for part in parts.values()], apart)
                    under_way.append(program(start, own, known))
                    start, parts = start + here, {leaf: part[here:] for leaf, part in parts.items()}
                if _rows_of(parts):
                    self._add_chunk(states, start, parts)
                while len(under_way) > AHEAD:
                    _join(states, under_way.popleft())
            for each in under_way:
                _join(states, each)

    def _program(self, mesh: Mesh, size: int) -> Callable[..., Any]:
        """What so many rows on each device add to each sum, compiled."""
        layout, apart, everywhere = self.layout(size), PartitionSpec("part"), PartitionSpec()

        def compute(start: Any, rows: list[Data], known: list[Data]) -> list[list[Data]]:
            parts = map(layout.parts.__getitem__, (*self.rows, *self.tall))
            arrays = {**dict(zip(self.here, known, strict=True)), **dict(zip(parts, rows, strict=True))}
            chunk = Chunk(layout, start + size * of_jax.lax.axis_index("part"), arrays, jnp)
            return [[of_jax.numpy.asarray(number)[None] for number in one.part(chunk)] for one in self.sums]

        return of_jax.jit(
            of_jax.shard_map(
                compute, mesh=mesh, in_specs=(everywhere, apart, everywhere), out_specs=apart, check_vma=False
            )
        )


def _rows_of(parts: Mapping[Leaf, Any]) -> int:
    return len(next(iter(parts.values())))


def _join(states: Mapping[RowSum, Any], parts: Sequence[Sequence[Data]]) -> None:
    """Add what each device found, in order."""
    for state, numbers in zip(states.values(), of_jax.device_get(parts), strict=True):
        for own in zip(*numbers, strict=True):
            state.join(*own)
