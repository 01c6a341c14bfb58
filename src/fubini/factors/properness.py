"""Quotients and distances of factors of any kind, and of tables: a representation may say more by rules of its own.

A quotient of factors need not have a finite sum. A representation that can tell has rules for `PROPER` and `BOUNDED`;
one without them is taken to be proper. Two factors of one layout are compared number by number.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.base.domains import Bint
from fubini.base.interpretations import interpret
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.scaled import positive_log
from fubini.terms.factor import Factor
from fubini.terms.heads import DISTANCE, DIVIDE, exact_bounded, exact_clip, exact_distance, exact_moments, exact_proper
from fubini.terms.value import Array


def truth(values: Data, names: tuple, inputs: dict) -> Array:
    """Truth values for each cell of some names."""
    return Array._of(values, names, {name: inputs[name] for name in names}, Bint[2])


@exact_proper.rule
def proper_factor(f: Factor, names: tuple) -> Array:
    """Σ_x f < ∞, as far as its kind can tell"""
    return truth(np.asarray(True), (), {})


@exact_bounded.rule
def bounded_quotient(f: Factor, g: Factor, names: tuple) -> Array:
    """f / g < ∞, as far as their kinds can tell"""
    return truth(np.asarray(True), (), {})


@exact_clip.rule
def clip_quotient(f: Factor, g: Factor) -> Factor:
    """f / g, which is bounded"""
    return interpret(DIVIDE, f, g)


@exact_moments.rule(when=lambda f, names: not f.promotes)
def match_representation(f: Factor, names: tuple) -> Factor:
    """f, which is of its own family"""
    return f


# -- distances ------------------------------------------------------------------------------------------------------


@exact_distance.rule
def distance_of_leaves(f: Factor, g: Factor) -> Data:
    """max |a − b| / (1 + |b|) over the numbers of two factors of one layout; infinite where the layouts differ"""
    joined = promoted(f), promoted(g)
    if joined[0] is not f or joined[1] is not g:
        return interpret(DISTANCE, *joined)
    (ours, kind), (theirs, other) = (jax.tree_util.tree_flatten(factor) for factor in joined)
    if kind != other or [np.shape(a) for a in ours] != [np.shape(b) for b in theirs]:
        return math.inf
    return greatest_of([greatest(abs(a - b) / (1 + abs(b)), a, b) for a, b in zip(ours, theirs, strict=True)])


@exact_distance.rule
def distance_of_tables(f: Table, g: Table) -> Data:
    """max |p − q| of the weights, each over their greatest"""
    if set(f.inputs) != set(g.inputs):
        return math.inf
    p, q = _relative(f), _relative(g.transposed(f.names))
    return greatest(abs(p - q), p, q)


def _relative(f: Table) -> Data:
    weights, shift, *_ = f.pair
    xp = namespace(weights, shift)
    logs = positive_log(weights) + shift
    top = xp.max(logs, initial=-np.inf)
    return xp.exp(logs - xp.where(xp.isfinite(top), top, 0.0))


def greatest(values: Data, *sources: Data) -> Data:
    """The greatest of some numbers, 0 of none; NaN where one is."""
    return namespace(values, *sources).max(values, initial=0.0) if np.size(values) else 0.0


def greatest_of(numbers: list[Data]) -> Data:
    """The greatest of a list of numbers."""
    xp = namespace(*numbers)
    return xp.max(xp.stack([xp.asarray(number, float) for number in numbers])) if numbers else 0.0
