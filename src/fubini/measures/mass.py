"""The mass of a measure: ∫ 1 dM, in closed form."""

from __future__ import annotations

from fubini.algebra.build import plus, times
from fubini.algebra.features import require_convergent
from fubini.algebra.node import Node
from fubini.base.domains import Domain
from fubini.errors import DomainError, Intractable, listed
from fubini.families.functions import exponential
from fubini.integrate.search import Latent, Search
from fubini.measures.branch import Branch
from fubini.measures.measure import Measure
from fubini.measures.simplify import simplify
from fubini.measures.state import state_of
from fubini.measures.values import Number


def total_mass(measure: Measure) -> Number:
    """∫ 1 dM, of which opaque measures count as having mass 1.

    Normal draws that are coupled are integrated out together, as one least-squares problem.

    >>> from fubini.measures import Uniform, measure, weight
    >>> @measure
    ... def ramp():
    ...     x = yield Uniform(0, 1)
    ...     yield weight(x)
    ...     return x
    >>> total_mass(ramp())
    0.5
    """
    if not isinstance(measure, Measure):
        raise DomainError(
            f"the mass of {measure!r}",
            expected="a measure",
            advice="call the function under @fb.measure: fb.total_mass(program())",
        )
    simplified = simplify(Measure(tuple(branch._replace(value=()) for branch in measure.branches), measure.checks))
    return Number(plus(*(_mass(branch, simplified) for branch in simplified.branches)), simplified.checks)


def _mass(branch: Branch, whole: Measure) -> Node:
    """The mass of a branch of a measure, which an error shows."""
    weight = log_mass(branch)
    if weight is None:
        remaining = [draw.leaf.name for draw in branch.draws]
        raise Intractable(
            "the mass of a measure",
            expected="draws that have closed forms",
            nearest=f"{listed(remaining)} could not be integrated out of\n{whole}",
            advice="simplify(measure) shows what remains",
        )
    return times(*(test.node for test in branch.tests), exponential(weight))


def log_mass(branch: Branch) -> Node | None:
    """The logarithm of the mass of a simplified branch where its tests hold; None where draws remain."""
    opaque = {draw.leaf for draw in branch.draws if draw.distribution.is_opaque}
    nodes = (branch.weight, *(test.node for test in branch.tests))
    if any(test.over for test in branch.tests) or any(node.leaves & opaque for node in nodes):
        return None
    is_drawn = any(not draw.distribution.is_opaque for draw in branch.draws)
    return _together(branch) if is_drawn else branch.weight


def _together(branch: Branch) -> Node | None:
    """The weight with coupled draws integrated out together, where all of them are real and free."""
    state = state_of(branch)
    is_free = not state.limits and not any(test.node.leaves & set(branch.drawn) for test in branch.tests)
    if not is_free or any(draw.leaf.is_simplex or draw.leaf.is_integer for draw in state.waiting):
        return None
    latents = {str(n): Latent(d.leaf, Domain("real", None, d.leaf.shape)) for n, d in enumerate(state.waiting)}
    eliminated = Search(latents).best(state.terms)
    require_convergent({latents[n].leaf.name: error for n, error in eliminated.blocked.items()})
    return None if eliminated.blocked else plus(*eliminated.terms)
