"""Counts of what is done to factors on the way to an answer: conversions, projections, and quotients replaced.

How often a factor is projected is decided by structure, so it is counted while a step is traced. How many quotients
are replaced is decided by numbers: the count is an array, which a loop hands out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.terms.exactness import Exactness, combined, exactly, projected
from fubini.terms.factor import Factor

DRAWN = "drawn"
LONGEST = 40  # characters of a factor in a list


@dataclass(frozen=True)
class Conversion:
    """A factor in another form: over which names, from what to what, where, how often, and of how many numbers."""

    names: tuple[Name, ...]
    source: str
    target: str
    where: str = ""
    times: int = 1
    size: int = 0
    exactness: Exactness = exactly


@dataclass
class Tally:
    """The conversions that were made, and how many quotients were replaced in each place."""

    conversions: list[Conversion] = field(default_factory=list)
    replaced: list[Data] = field(default_factory=list)

    def total_replaced(self) -> Data | None:
        """How many quotients were replaced; None where none can be."""
        return sum(self.replaced, start=jnp.zeros((), int)) if self.replaced else None

    def mark(self) -> Exactness:
        """The exactness of an answer after these conversions: how often each projection was made."""
        times: dict[str, int] = {}
        for each in self.conversions:
            for mark in each.exactness.marks:
                if mark != DRAWN:
                    times[mark] = times.get(mark, 0) + each.times
        return Exactness(tuple(times), None, tuple(times.items()))


_open: ContextVar[Tally | None] = ContextVar("what is done to factors", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Count what is done inside."""
    tally = Tally()
    token = _open.set(tally)
    try:
        yield tally
    finally:
        _open.reset(token)


def note(conversions: Iterable[Conversion]) -> None:
    """Count conversions."""
    tally = _open.get()
    if tally is not None:
        tally.conversions.extend(conversions)


def note_projection(source: str, target: Factor, onto: str) -> None:
    """Count a factor that was replaced by one which is not the same function."""
    if _open.get() is not None:
        note([Conversion(tuple(target.inputs), source, type(target).__name__, "", 1, size_of(target), projected(onto))])


def note_draws(target: Factor) -> None:
    """Count a factor that was replaced by points drawn from it."""
    kind = type(target).__name__
    note([Conversion(tuple(target.inputs), "draws", kind, "", 1, size_of(target), Exactness((DRAWN,)))])


def note_replaced(count: Data) -> None:
    """Count quotients that were replaced."""
    tally = _open.get()
    if tally is not None:
        tally.replaced.append(count)


def repeated(conversions: Iterable[Conversion], where: str, times: int = 1) -> list[Conversion]:
    """The conversions of one step as those of all steps."""
    return [replace(each, where=each.where or where, times=each.times * times) for each in conversions]


def conversion_of(source: Factor, targets: Sequence[Factor], where: str, mark: Exactness = exactly) -> list[Conversion]:
    """One factor as a product of others, where these are of another form."""
    if all(type(source) is type(target) for target in targets):
        return []
    text = f"{source}"
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    kinds = " · ".join(dict.fromkeys(type(target).__name__ for target in targets))
    size = sum(map(size_of, targets))
    return [Conversion(tuple(source.inputs), text, kinds, where, 1, size, combined(targets) | mark)]


def size_of(factor: Factor) -> int:
    """The numbers that a factor holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(factor) if hasattr(leaf, "size"))
