"""Rows of streams in an order of chance, so many at a time, again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fubini.base.stream import NUMBERS, Stream, checked, read_together

STRETCHES = 64  # of a pool: rows one after another, at places of chance


class Rows(NamedTuple):
    """Some rows: their numbers, and what is in them of each stream."""

    places: np.ndarray
    parts: list[np.ndarray]

    def taken(self, order: np.ndarray) -> Rows:
        """Some of these rows."""
        return Rows(self.places[order], [part[order] for part in self.parts])


def draw_rows(streams: Sequence[Stream], count: int, seed: int) -> Iterator[Rows]:
    """So many rows of streams of one length, without end; all rows come once before one comes again.

    A pool is filled and shuffled, then another: from stretches at places of chance, or, where a source can only be
    gone over in order, from rows one after another.
    """
    streams = [stream.placed(None) for stream in streams]  # each process draws the same
    rows, rng = streams[0].rows, np.random.default_rng(seed)
    width = max(math.prod(stream.shape[1:]) for stream in streams)
    pool = min(rows, max(count, NUMBERS // max(1, width)))
    waiting: list[Rows] = []
    for piece in _pieces(streams, max(1, pool // STRETCHES), rng):
        waiting.append(piece)
        if sum(len(each.places) for each in waiting) < pool:
            continue
        whole = _joined(waiting)
        whole = whole.taken(rng.permutation(len(whole.places)))
        ends = range(0, len(whole.places) - count + 1, count)
        for start in ends:
            yield whole.taken(np.arange(start, start + count))
        waiting = [whole.taken(np.arange(len(ends) * count, len(whole.places)))]


def _pieces(streams: Sequence[Stream], size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """All rows, and again all rows."""
    rows = streams[0].rows
    while True:
        if all(stream.source.stretch is not None for stream in streams):
            for start in size * rng.permutation(-(-rows // size)):
                stop = min(rows, start + size)
                parts = [checked(stream, stream.source.stretch(start, stop)) for stream in streams]  # type: ignore[misc]
                yield Rows(np.arange(start, stop), parts)
        else:
            for start, count, parts in read_together(streams, rows):
                yield Rows(np.arange(start, start + count), parts)


def _joined(pieces: Sequence[Rows]) -> Rows:
    parts = zip(*(piece.parts for piece in pieces), strict=True)
    return Rows(np.concatenate([piece.places for piece in pieces]), list(map(np.concatenate, parts)))
