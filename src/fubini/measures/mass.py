"""The mass of a measure: ∫ 1 dM, in closed form."""

from __future__ import annotations

from fubini.errors import Intractable, listed
from fubini.index.build import plus, times
from fubini.index.node import Node
from fubini.measures.measure import Measure
from fubini.measures.program import Branch
from fubini.measures.simplify import simplify
from fubini.measures.values import Number
from fubini.symbolic.families import exponential


def total_mass(measure: Measure) -> Number:
    """∫ 1 dM, of which opaque measures count as having mass 1.

    >>> from fubini.measures.language import Uniform, measure, weight
    >>> @measure
    ... def ramp():
    ...     x = yield Uniform(0, 1)
    ...     yield weight(x)
    ...     return x
    >>> total_mass(ramp())
    0.5
    """
    found = simplify(Measure(tuple(branch._replace(value=()) for branch in measure.branches)))
    left = [draw.leaf.name for branch in found.branches for draw in branch.draws if not draw.law.is_opaque]
    if left or any(test.over for branch in found.branches for test in branch.tests):
        raise Intractable(
            "the mass of a measure",
            expected="draws that have closed forms",
            nearest=f"{listed(left)} could not be integrated out of\n{found}",
            advice="simplify(measure) shows what is left",
        )
    return Number(plus(*map(_mass, found.branches)))


def _mass(branch: Branch) -> Node:
    return times(*(test.node for test in branch.tests), exponential(branch.weight))
