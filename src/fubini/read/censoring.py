"""Observations of which some are bounds: where one is censored, the mass beyond it takes the place of the density."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fubini.algebra.build import ZERO, call, const, less, minus, negate, plus, scale, times, where
from fubini.algebra.node import Node
from fubini.families.family import Family
from fubini.families.incomplete_functions import log_complement
from fubini.read.jaxpr_reader import Reader

CLOSE = (1e-5, 1e-8)  # ends of an interval that are one value, in proportion and beside that: as numpyro tells them


class Censoring(NamedTuple):
    """Which of the values are bounds: the side, the tests by name, and the value, or the ends of an interval."""

    side: str  # left, right or interval
    tests: Mapping[str, Node]
    ends: tuple[Node, ...]
    reader: Reader | None

    def place(self) -> Node:
        """A value of the support: of an interval, the lower end, the upper one where there is no lower."""
        return self._ends()[0]

    def of(self, record: Family) -> Family | None:
        """The family of values that are censored so; None where it has no survival function."""
        if record.log_survival is None or record.log_density_everywhere is not None:
            return None
        return replace(record, log_density=lambda x, parameters: self._log_density(record, x, parameters))

    def _log_density(self, record: Family, x: Node, parameters: Any) -> Node:
        assert record.log_survival is not None
        plain = record.log_density(x, parameters)
        if self.side == "interval":
            return self._of_interval(plain, *(record.log_survival(end, parameters) for end in self._ends()))
        survival = record.log_survival(x, parameters)
        beyond = survival if self.side == "right" else log_complement(survival)
        return self._choose(self.tests.get("censored", ZERO), beyond, plain)

    def _of_interval(self, plain: Node, above_low: Node, above_high: Node) -> Node:
        """log of S(a), 1 − S(b), S(a) − S(b), 1 − S(a) + S(b), or of the density where a = b."""
        left, right = self.tests["left_censored"], self.tests["right_censored"]
        inside = plus(above_low, log_complement(minus(above_high, above_low)))
        is_plain = negate(times(negate(self._is_point()), negate(left), negate(right)))  # some case, if it is censored
        unless_censored = self._choose(is_plain, plain, inside)
        if_right = self._choose(left, log_complement(inside), above_low)
        return self._choose(right, if_right, self._choose(left, log_complement(above_high), unless_censored))

    def _ends(self) -> tuple[Node, ...]:
        """The value, or both ends; an end that does not count is the other one."""
        if self.side != "interval":
            return self.ends
        (low, high), left, right = self.ends, self.tests["left_censored"], self.tests["right_censored"]
        is_below, is_above = times(left, negate(right)), times(right, negate(left))
        return self._choose(is_below, high, low), self._choose(is_above, low, high)

    def _is_point(self) -> Node:
        """|a − b| ≤ 10⁻⁸ + 10⁻⁵ |b|"""
        low, high = self.ends
        slack = plus(const(CLOSE[1]), scale(CLOSE[0], call("abs", high)))
        return negate(less(slack, call("abs", minus(low, high))))

    def _choose(self, test: Node, first: Node, second: Node) -> Node:
        """First where the test holds, else second; one of them where known numbers decide it everywhere."""
        if self.reader is not None and test.kind != "const":
            if self.reader.truth(test):
                return first
            if self.reader.truth(negate(test)):
                return second
        return where(test, first, second)
