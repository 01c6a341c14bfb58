"""Exactness: how a result relates to the mathematics. Decided from structure, never from data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exactness:
    """`exact`, or the approximations that went into a result, in order of first use.

    >>> exactly, exactly | projected("Gaussian"), projected("Gaussian") | estimated(1000)
    (exact, projected(Gaussian), projected(Gaussian), estimated(1000))
    >>> projected("Truncated", times=16) | projected("Truncated", times=3)
    projected(Truncated) × 16
    >>> projected("Truncated", times=46).with_replaced(3)
    projected(Truncated) × 46, 3 quotients replaced
    """

    marks: tuple[str, ...] = ()
    error: float | None = field(default=None, compare=False)  # of this very answer, where it is known
    counts: tuple[tuple[str, int], ...] = ()  # of the marks that are counted: the longest way that led here
    replaced: int | None = field(default=None, compare=False)  # quotients of this very answer, where it is known

    @property
    def is_exact(self) -> bool:
        """Whether no approximation took part."""
        return not self.marks

    @property
    def is_estimated(self) -> bool:
        """Whether samples took part."""
        return any(mark.startswith("estimated(") for mark in self.marks)

    def __or__(self, other: Exactness) -> Exactness:
        if not other.marks or (self.marks == other.marks and self.counts == other.counts):
            return self.without_error()
        counts = dict(self.counts)
        for mark, count in other.counts:
            counts[mark] = max(count, counts.get(mark, 0))
        return Exactness(tuple(dict.fromkeys(self.marks + other.marks)), None, tuple(counts.items()))

    def __repr__(self) -> str:
        told = "" if self.error is None else f" ± {self.error:.2g}"
        if self.replaced is not None:
            told += f", {self.replaced:,} quotient{'' if self.replaced == 1 else 's'} replaced"
        counts = dict(self.counts)
        marks = [f"{mark} × {counts[mark]:,}" if mark in counts else mark for mark in self.marks]
        return (", ".join(marks) or "exact") + told

    def without_error(self) -> Exactness:
        """The exactness of anything that is computed from this answer."""
        return self if self.error is None and self.replaced is None else Exactness(self.marks, None, self.counts)

    def with_error(self, error: float) -> Exactness:
        """The exactness of an answer with this standard error, or bound on its error."""
        return Exactness(self.marks, error, self.counts, self.replaced)

    def with_replaced(self, count: int) -> Exactness:
        """The exactness of an answer on the way to which so many quotients were replaced by others."""
        return Exactness(self.marks, self.error, self.counts, count)


exactly = Exactness()


def combined(parts: Iterable[Any]) -> Exactness:
    """The exactness of anything computed from these terms."""
    result = exactly
    for part in parts:
        result = result | part.exactness
    return result


def projected(onto: str, times: int | None = None) -> Exactness:
    """A projection onto a family, or so many of them one after another."""
    mark = f"projected({onto})"
    return Exactness((mark,), None, () if times is None else ((mark, times),))


def integrated(error: float) -> Exactness:
    """An integral by quadrature, with a bound on its error."""
    return Exactness(("quadrature",)).with_error(error)


def estimated(n: int) -> Exactness:
    """A Monte Carlo estimate from n samples."""
    return Exactness((f"estimated({n})",))


def thinned(n: int) -> Exactness:
    """A sum over n of the points of an integral, where there were more."""
    return Exactness((f"{n:,} of the points",))
