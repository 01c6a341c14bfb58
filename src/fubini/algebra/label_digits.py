"""All values of a finite latent together, counted.

Of n entries of S values each they are counted by c < Sⁿ: entry number i has the digit ⌊c / Sⁱ⌋ mod S.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from fubini.algebra.binding import remade
from fubini.algebra.build import call, const, get, minus, plus, scale, times
from fubini.algebra.node import Leaf, Node

MOST = 1024  # values of entries together


def is_finite(leaf: Leaf) -> bool:
    """Whether its entries are whole numbers between two known ones."""
    return leaf.is_integer and leaf.low is not None and leaf.high is not None


def with_digits(latent: Leaf, coupled: Sequence[int], c: Node) -> Callable[[Node, Callable[[Node], Node]], Node]:
    """A rule that puts the digits of c in the place of entries along some axes."""
    strides = [math.prod(latent.shape[axis] for axis in coupled[k + 1 :]) for k in range(len(coupled))]

    def rule(of: Node, visit: Callable[[Node], Node]) -> Node:
        if of.kind != "get" or of.args[0] is not latent:
            return remade(of, visit) if latent in of.leaves else of
        place = [visit(part) for part in of.args[1:]]
        number = plus(*(scale(float(stride), place[axis]) for axis, stride in zip(coupled, strides, strict=True)))
        return plus(const(latent.first), _digit(c, number, latent.count))

    return rule


def configuration(latent: Leaf) -> Node:
    """c of the values that all entries have: Σ_i Sⁱ (x_i − first)"""
    places = itertools.product(*(range(size) for size in latent.shape))
    entries = [get(latent, *(const(float(part)) for part in place)) for place in places]
    digits = [minus(entry, const(latent.first)) for entry in entries]
    return plus(*(scale(float(latent.count**i), digit) for i, digit in enumerate(digits)))


def _digit(c: Node, number: Node, size: int) -> Node:
    """⌊c / Sⁱ⌋ − S ⌊c / Sⁱ⁺¹⌋; with a half added to c, rounding never crosses a whole number"""
    half = plus(c, const(0.5))

    def quotient(shift: float) -> Node:
        return call("floor", times(half, call("exp", scale(-math.log(size), plus(number, const(shift))))))

    return minus(quotient(0.0), scale(float(size), quotient(1.0)))
