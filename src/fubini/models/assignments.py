"""The k most probable assignments of discrete variables, best first.

Lawler (1972): what is not the best assignment differs from it in a first variable. For each variable the assignments
that agree with the best before it, and not at it, are a part of what remains; parts are disjoint, so the next best is
the greatest of their maxima. The maxima of all parts are one elimination, with the part as an input.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fubini.base.domains import Bint, Domain
from fubini.base.semirings import max_product
from fubini.eliminate.ask import argmax, eliminate
from fubini.errors import DataError, DomainError, listed
from fubini.factors.no_mass import nothing_to_choose
from fubini.factors.table import Table
from fubini.show.printed_form import Block, Shown, Words
from fubini.terms.factor import Factor

PARTS = 64  # whose maxima are taken at once
Allowed = tuple[np.ndarray, ...]  # for each variable, which of its values are left


@dataclass(frozen=True, repr=False)
class Assignment(Shown):
    """Values of variables together, as labels, and the logarithm of their probability given the evidence.

    >>> Assignment({"rain": "wet", "grass": "lush"}, np.log(0.25))
    0.25  rain = wet, grass = lush
    """

    values: Mapping[str, Any]
    log_probability: float

    @property
    def probability(self) -> float:
        """P(values | evidence).

        >>> Assignment({"rain": "wet"}, 0.0).probability
        1.0
        """
        return float(np.exp(self.log_probability))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def _form(self) -> Iterable[Block]:
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        yield Words(f"{self.probability:.6g}  {values}")


def most_probable(
    k: int, factors: Sequence[Factor], domains: Mapping[str, Domain], memory_limit: int | None = None
) -> list[Assignment]:
    """The k assignments of greatest weight under a product of factors over these variables alone."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise DataError(f"the {k!r} most probable values", expected="a whole number of at least 1")
    real = [name for name, domain in domains.items() if not domain.is_finite]
    if real:
        raise DomainError(
            f"the {k} most probable values of {listed(domains)}",
            expected="variables of finitely many values",
            nearest=f"{listed(real)} are real: next to the mode others are as probable",
            advice="map() is the mode, and most_probable(k, …) of discrete names sums real variables out",
        )
    search = _Search(factors, domains, memory_limit)
    log_total = float(eliminate(factors, search.variables, memory_limit=memory_limit).log())
    if log_total == -np.inf:
        raise nothing_to_choose(list(domains))
    return [
        Assignment({name: domains[name].label(value) for name, value in zip(domains, values, strict=True)}, log)
        for values, log in ((values, log - log_total) for values, log in itertools.islice(search.run(), k))
    ]


class _Search:
    """Assignments in the order of their weights."""

    def __init__(self, factors: Sequence[Factor], domains: Mapping[str, Domain], memory_limit: int | None) -> None:
        self.factors, self.domains, self.memory_limit = list(factors), domains, memory_limit
        self.variables = list(domains)
        self.part = "part"
        while self.part in domains:
            self.part += "′"
        self.width = min(PARTS, max(1, len(domains)))

    def run(self) -> Iterator[tuple[tuple[int, ...], float]]:
        everything = tuple(np.ones(domain.extent) for domain in self.domains.values())
        order = itertools.count()
        (log,) = self._maxima([everything])
        left: list[tuple[float, int, Allowed]] = [(-log, next(order), everything)]
        while left and left[0][0] < np.inf:
            log, _, allowed = heapq.heappop(left)
            best = self._best(allowed)
            yield best, -log
            parts = list(_parts(allowed, best))
            for part, greatest in zip(parts, self._maxima(parts), strict=True):
                heapq.heappush(left, (-greatest, next(order), part))

    def _best(self, allowed: Allowed) -> tuple[int, ...]:
        """The assignment of greatest weight among those allowed."""
        masks = [Table(mask, {n: d}) for mask, (n, d) in zip(allowed, self.domains.items(), strict=True)]
        best = argmax([*self.factors, *masks], self.variables) if self.variables else {}
        return tuple(int(best[name]) for name in self.variables)

    def _maxima(self, parts: Sequence[Allowed]) -> list[float]:
        """The logarithm of the greatest weight in each part."""
        logs: list[float] = []
        for start in range(0, len(parts), self.width):
            some = parts[start : start + self.width]
            filled = [*some, *[some[0]] * (self.width - len(some))]  # of one size: one plan serves all
            masks = [
                Table(np.stack(each), {self.part: Bint[self.width], name: domain})
                for each, (name, domain) in zip(zip(*filled, strict=True), self.domains.items(), strict=True)
            ]
            greatest = eliminate(
                [*self.factors, *masks], self.variables, semiring=max_product, memory_limit=self.memory_limit
            )
            found = np.broadcast_to(np.asarray(greatest.log().data), self.width)
            logs.extend(found[: len(some)].tolist())
        return logs


def _parts(allowed: Allowed, best: Sequence[int]) -> Iterator[Allowed]:
    """All that is allowed but the best assignment, by the first variable that differs from it."""
    before: list[np.ndarray] = []
    for place, (mask, value) in enumerate(zip(allowed, best, strict=True)):
        other = mask.copy()
        other[value] = 0.0
        if other.any():
            yield (*before, other, *allowed[place + 1 :])
        before.append((np.arange(len(mask)) == value).astype(float))
