"""Moments E[x^j] of a family by recurrences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.algebra.build import ONE, add, plus, scale, times
from fubini.algebra.node import Node


def rising(shape: Node, factors: Sequence[Node]) -> list[Node]:
    """m_j = m_(j−1) · (a + j − 1) · factor"""
    moments = [ONE]
    for j, factor in enumerate(factors):
        moments.append(times(moments[-1], plus(shape, scale(float(j), ONE)), factor))
    return moments


def from_factorial(moments: list[Node]) -> list[Node]:
    """E[k^n] = Σ_j S(n, j) E[k (k − 1) … (k − j + 1)], with Stirling's numbers of the second kind"""
    return [
        add((moment, float(_stirling(n, j))) for j, moment in enumerate(moments) if j <= n) for n in range(len(moments))
    ]


def _stirling(n: int, j: int) -> int:
    return sum((-1) ** (j - i) * math.comb(j, i) * i**n for i in range(j + 1)) // math.factorial(j)
