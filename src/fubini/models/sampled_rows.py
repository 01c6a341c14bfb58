"""An eliminated model whose sums over the rows of streams are estimated from some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.algebra.constant_parts import known_parts
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Leaf, Node
from fubini.algebra.node_notation import written
from fubini.algebra.row_samples import RowSample, estimate_sums
from fubini.algebra.row_sums import NeedsRows
from fubini.base.arrays import Data
from fubini.base.row_draws import Rows, draw_rows
from fubini.base.stream import Stream
from fubini.errors import NoRule
from fubini.models.eliminated_model import EliminatedModel

PASSES = 4  # over all rows, by all steps together
LEAST = 256  # rows of a step


class SampledRows(EliminatedModel):
    """The log-density of the remaining latents, right on average over the rows that are given with its numbers."""

    def __init__(self, exact: EliminatedModel, steps: int) -> None:
        super().__init__(exact.model, exact.plan)
        self.steps = steps
        self._terms  # noqa: B018 — which is refused where a term is no sum over rows

    @cached_property
    def samples(self) -> dict[int, RowSample]:
        """For each number of rows, those of a step: so many that all steps go over all rows a few times."""
        lengths: dict[int, list[Leaf]] = {}
        for leaf, stream in self._streams.items():
            lengths.setdefault(stream.rows, []).append(leaf)
        return {
            rows: RowSample(rows, min(rows, max(LEAST, -(-PASSES * rows // self.steps))), leaves)
            for rows, leaves in lengths.items()
        }

    @property
    def batch(self) -> int:
        """How many rows a step reads."""
        return max(sample.row.size for sample in self.samples.values())

    @property
    def rounds(self) -> int:
        """How many steps read about all rows once."""
        return max(-(-rows // sample.row.size) for rows, sample in self.samples.items())

    @property
    def _streams(self) -> Mapping[Leaf, Stream]:
        return self.reading.reader.rows

    @cached_property
    def _terms(self) -> tuple[Node, ...]:
        try:
            return tuple(estimate_sums(term, self.samples) for term in super()._terms)
        except NeedsRows as error:
            raise NoRule(
                "an estimate from some rows of a stream",
                expected="a density that is a sum over rows",
                nearest=f"{error.why}: {written(error.node)[:160]}",
            ) from None

    @cached_property
    def _parts(self) -> tuple[Node, ...]:
        unknown = frozenset(self.reading.sites.values()) | set(self._sample_leaves)
        return tuple(known_parts(self._terms, lambda this: bool(this.leaves & unknown)))

    @cached_property
    def _sample_leaves(self) -> list[Leaf]:
        return [leaf for one in self.samples.values() for leaf in (one.places, *one.parts.values())]

    @property
    def numbers(self) -> tuple[Any, ...]:
        return (*super().numbers, self._first)

    @cached_property
    def _first(self) -> list[Data]:
        return [array[0] for array in next(self.rows_of_steps(0, 1))]

    def rows_of_steps(self, seed: int, count: int) -> Iterator[list[np.ndarray]]:
        """Rows for so many steps at a time, without end."""
        draws = [
            draw_rows([self._streams[leaf] for leaf in one.parts], one.row.size, seed) for one in self.samples.values()
        ]
        while True:
            yield [array for each in draws for array in _stacked(list(islice(each, count)))]

    def evaluation(self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp) -> Evaluation:
        known, prepared, rows = self.numbers if numbers is None else numbers
        evaluation = super().evaluation(values, (known, prepared), xp)
        evaluation.arrays.update(zip(self._sample_leaves, rows, strict=True))  # type: ignore[attr-defined]
        return evaluation


def _stacked(steps: list[Rows]) -> list[np.ndarray]:
    """Arrays [step, row, …]."""
    parts = zip(*(step.parts for step in steps), strict=True)
    return [np.stack([step.places for step in steps]), *map(np.stack, parts)]
