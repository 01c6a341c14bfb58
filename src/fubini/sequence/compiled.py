"""Running a question to a sequence: as one compiled function, in the precision of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import double_precision, is_traced, unshared
from fubini.base.domains import Domain
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.engine import engine_of, fixed, portable
from fubini.factors.represent import keys_in_force, represented, with_keys, without_keys
from fubini.factors.tally import tallied
from fubini.numerics.in_range import compiled
from fubini.sequence.links import Links
from fubini.sequence.over_mesh import Split, answer_on_each, on_auto_axes, split_of
from fubini.sequence.steps import Steps, prepared
from fubini.terms.factor import Factor

over_time: dict[Callable, Callable] = {}  # how questions are answered where time lies on a mesh


@dataclass(frozen=True)
class SequenceOutline:
    """A sequence without its numbers: the key of the compiled function."""

    time: Name
    length: int
    links: Links
    domains: tuple[tuple[Name, Domain], ...]
    method: str = "sequential"
    globals: tuple[Name, ...] = ()
    drops_small: bool = False  # weights below the least positive number are zero
    kernels: str = ""  # fused kernels answer: "asked" by name, or "chosen", and the method what they do not serve

    @property
    def in_order(self) -> tuple[Name, ...]:
        """The names whose values are not answered for one by one."""
        return (self.time, *self.links.before, *self.links.after, *self.globals)

    @property
    def in_stretches(self) -> tuple[Name, int] | tuple[()]:
        """The time and its length, where the product of consecutive steps stands for them."""
        is_projected = current().project is not None and len({domain.is_finite for _, domain in self.domains}) == 2
        return () if self.links.lag > 1 or is_projected else (self.time, self.length)

    def steps(self, terms: Sequence[Factor], semiring: Semiring = sum_product) -> Steps:
        """The steps over these terms."""
        ready = prepared(terms, semiring)
        return Steps(ready, self.time, self.length, self.links, dict(self.domains), semiring, self.drops_small)


def run(question: Callable, outline: Any, factors: Sequence[Sequence[Factor]], *arrays: Any, **static: Any) -> Any:
    """question(outline, *factors, *arrays, **static), compiled; NumPy's data in double precision, and back to NumPy."""
    engine = engine_of([factor for group in factors for factor in group])
    if is_traced(*jax.tree.leaves((arrays, keys_in_force()))):  # a key of the trace: its draws are too
        engine = "trace"
    factors = [[fixed(factor) for factor in group] for group in factors]
    if engine != "numpy":
        factors = [[portable(factor) for factor in group] for group in factors]
    options, split = tuple(sorted(static.items())), None
    if engine != "numpy" and represented() is None:
        factors = [[on_auto_axes(factor) for factor in group] for group in factors]
        split = split_over_mesh(question, outline, factors)
    if engine == "trace" and split is None:
        return _counted(question, outline, *factors, *arrays, **static)
    key, given = (question, outline, options, split), (tuple(map(tuple, factors)), arrays, keys_in_force())
    with without_keys():
        if engine != "numpy":
            return compiled(_answered, key, *given)
        leaves, structure = jax.tree.flatten(given)
        with double_precision():
            return jax.tree.map(np.asarray, compiled(_answered, key, *structure.unflatten(unshared(leaves))))


def split_over_mesh(question: Callable, outline: Any, factors: Sequence[Sequence[Factor]]) -> Split | None:
    """The names of a question whose values lie on different devices."""
    return split_of(factors, outline.in_order, *(outline.in_stretches if question in over_time else ()))


def _answered(
    question: Callable,
    outline: Any,
    options: tuple,
    split: Split | None,
    factors: tuple,
    arrays: tuple,
    keys: Any,
) -> Any:
    along = None if split is None else split.along
    asked = question if along is None else partial(over_time[question], along)

    def answer(factors: Any, *arrays: Any) -> Any:
        return _counted(asked, outline, *factors, *arrays, **dict(options))

    with with_keys(keys):
        return answer(factors, *arrays) if split is None else answer_on_each(answer, split, factors, *arrays)


def _counted(question: Callable, *given: Any, **static: Any) -> Any:
    """The answer, its factors tagged with how often they were projected."""
    with tallied() as tally:
        answer = question(*given, **static)
    mark = tally.mark()
    if mark.is_exact:
        return answer
    parts = answer if isinstance(answer, tuple) else (answer,)
    tagged = tuple(part._marked(mark) if isinstance(part, Factor) else part for part in parts)
    return tagged if isinstance(answer, tuple) else tagged[0]
