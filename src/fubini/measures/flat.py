"""Flat measures: length, counting and uniform ones."""

from __future__ import annotations

from fubini.algebra.build import ONE, get, plus
from fubini.algebra.node import Leaf, Node
from fubini.families.family import family_of
from fubini.families.parameters import Support
from fubini.measures.draw_density import DrawDistribution, is_of_numbers, log_density

LENGTH, COUNT, UNIFORM = "Lebesgue", "Counting", "Uniform"


def flat_distribution(support: Support) -> DrawDistribution:
    """Lebesgue or counting measure on a support."""
    low, high, is_whole = support
    return DrawDistribution(COUNT, (low, plus(high, ONE))) if is_whole else DrawDistribution(LENGTH, (low, high))


def uniform_distribution(low: Node, high: Node) -> DrawDistribution:
    """The probability that is flat on an interval."""
    return DrawDistribution(UNIFORM, (low, high))


def is_flat(distribution: DrawDistribution) -> bool:
    """Its density is the same at all values."""
    return is_of_numbers(distribution) and family_of(distribution.family).flat is not None


def is_constant(distribution: DrawDistribution) -> bool:
    """Its density is the same at all values with these parameters, as that of Beta(1, 1) is."""
    x = Leaf("x", ())
    return is_of_numbers(distribution) and x not in log_density(distribution, lambda: get(x)).leaves


def is_base_measure(distribution: DrawDistribution) -> bool:
    """Its density is 1: length or counting measure."""
    return is_flat(distribution) and not family_of(distribution.family).is_probability
