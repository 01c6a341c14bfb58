"""Flat measures: length, counting and uniform ones."""

from __future__ import annotations

from fubini.algebra.build import ONE, get, plus
from fubini.algebra.node import Leaf, Node
from fubini.families.family import family_of
from fubini.families.parameters import Support
from fubini.measures.draw_density import Law, is_of_numbers, log_density

LENGTH, COUNT, UNIFORM = "Lebesgue", "Counting", "Uniform"


def flat_law(support: Support) -> Law:
    """Lebesgue or counting measure on a support."""
    low, high, is_whole = support
    return Law(COUNT, (low, plus(high, ONE))) if is_whole else Law(LENGTH, (low, high))


def uniform_law(low: Node, high: Node) -> Law:
    """The probability that is flat on an interval."""
    return Law(UNIFORM, (low, high))


def is_flat(law: Law) -> bool:
    """Its density is the same at all values."""
    return is_of_numbers(law) and family_of(law.family).flat is not None


def is_constant(law: Law) -> bool:
    """Its density is the same at all values with these parameters, as that of Beta(1, 1) is."""
    x = Leaf("x", ())
    return is_of_numbers(law) and x not in log_density(law, lambda: get(x)).leaves


def is_base_measure(law: Law) -> bool:
    """Its density is 1: length or counting measure."""
    return is_flat(law) and not family_of(law.family).is_probability
