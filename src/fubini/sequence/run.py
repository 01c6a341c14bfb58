"""Running a question to a sequence: as one compiled function, in the width of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from fubini.domains import Domain
from fubini.eliminate.engine import engine_of, portable
from fubini.semirings import Semiring, sum_product
from fubini.sequence.links import Links
from fubini.sequence.steps import Steps, prepared
from fubini.terms.factor import Factor
from fubini.terms.term import Name


@dataclass(frozen=True)
class Outline:
    """What a sequence is but for its numbers: the key of the compiled function."""

    time: Name
    length: int
    links: Links
    domains: tuple[tuple[Name, Domain], ...]
    method: str = "sequential"
    globals: tuple[Name, ...] = ()

    def steps(self, terms: Sequence[Factor], semiring: Semiring = sum_product) -> Steps:
        """The steps over these terms."""
        ready = prepared(terms, semiring)
        return Steps(ready, self.time, self.length, self.links, dict(self.domains), semiring)


def run(question: Callable, outline: Any, factors: Sequence[Sequence[Factor]], *arrays: Any, **static: Any) -> Any:
    """question(outline, *factors, *arrays, **static), compiled; NumPy's data in double width, and back to NumPy."""
    engine = engine_of([factor for group in factors for factor in group])
    if engine != "numpy":
        factors = [[portable(factor) for factor in group] for group in factors]
    options = tuple(sorted(static.items()))
    if engine == "trace":
        return question(outline, *factors, *arrays, **static)
    compiled = _compiled(question, outline, options)
    if engine == "xla":
        return compiled(tuple(map(tuple, factors)), arrays)
    with jax.enable_x64(True):
        found = compiled(tuple(map(tuple, factors)), arrays)
    return jax.tree.map(np.asarray, found)


@lru_cache(maxsize=1024)
def _compiled(question: Callable, outline: Outline, options: tuple) -> Callable:
    return jax.jit(lambda factors, arrays: question(outline, *factors, *arrays, **dict(options)))
