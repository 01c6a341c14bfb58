"""Normal densities times masses of the same normal, through u = Φ(z): which of two draws is the greater, and the like.

∫ φ(z) Φ(z)^p dz from a to b  =  (Φ(b)^(p+1) − Φ(a)^(p+1)) / (p + 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.algebra.build import ONE, add, call, const, divide, get, minus, plus, scale
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.tidy import tidied
from fubini.families.functions import INFINITY
from fubini.families.incomplete_functions import log_mass_of_normal, normal_mass
from fubini.families.signature import Recognised
from fubini.integrate.elimination import Eliminated, eliminated
from fubini.integrate.tails import UNNAMED
from fubini.measures.standard import Case

LEAST = const(-math.inf)


def eliminated_quantile(terms: Sequence[Node], case: Case) -> Eliminated:
    """log ∫ of one number that is normal, with powers of its own mass to one side."""
    leaf = case.leaf
    whole = add((term, 1.0) for term in terms)
    parts = whole.args if whole.kind == "add" else ((whole, 1.0),)
    masses = [(part, c) for part, c in parts if leaf in part.leaves and _is_mass(part)]
    if leaf.shape or not masses:
        raise NoClosedForm(leaf, whole, "powers of the mass of the same normal")
    result = eliminated([add(item for item in parts if item not in masses)], leaf, "real")
    loc, spread = (tidied(result.distribution.parameters[name]) for name in ("loc", "scale"))
    z = divide(minus(get(leaf), loc), spread)
    powers = [_power(part, c, z, leaf) for part, c in masses]
    if len({is_below for is_below, _ in powers}) > 1:
        raise NoClosedForm(leaf, whole, "powers of the mass to one side alone")
    is_below, p = powers[0][0], 1.0 + sum(power for _, power in powers)
    low, high = (None if end is None else divide(minus(end, loc), spread) for end in (case.low, case.high))
    value = minus(_log_of_difference(low, high, is_below, p), scale(math.log(p), ONE))
    distribution = Recognised(UNNAMED, {}, add(((result.distribution.log_normaliser, 1.0), (value, 1.0))))
    return Eliminated((*result.terms, value), (), distribution)


def _is_mass(of: Node) -> bool:
    return of.kind == "call" and of.args[0] is log_mass_of_normal


def _power(mass: Node, power: float, z: Node, leaf: Leaf) -> tuple[bool, float]:
    """Whether it is of the mass below z or above, and its power."""
    _, low, high = mass.args
    if (low, high) == (LEAST, z):
        return True, power
    if (low, high) == (z, INFINITY):
        return False, power
    raise NoClosedForm(leaf, mass, "the mass of the same normal to one side of it")


def _log_of_difference(low: Node | None, high: Node | None, is_below: bool, p: float) -> Node:
    """log(Φ(b)^p − Φ(a)^p) of the mass below, or of the mass above the other way round"""
    larger, smaller = (high, low) if is_below else (low, high)
    ends = [_log_side(end, is_below) for end in (larger, smaller)]
    first = scale(p, ends[0]) if larger is not None else const(0.0)
    if smaller is None:
        return first
    ratio = call("exp", minus(scale(p, ends[1]), first))
    return plus(first, call("log1p", scale(-1.0, ratio)))


def _log_side(end: Node | None, is_below: bool) -> Node:
    if end is None:
        return const(0.0)
    return normal_mass(LEAST, end) if is_below else normal_mass(end, INFINITY)
