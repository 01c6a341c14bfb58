"""Numbers that are put in for symbols: those that the families of a measure do not allow are refused.

What a family requires is checked as the parameters of a model are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.binding import replaced
from fubini.algebra.build import const, get, minus
from fubini.algebra.node import Leaf, Node
from fubini.base.arrays import double_precision
from fubini.distributions.parameter_checks import Requirement, is_dependent, requirements, satisfied, shown
from fubini.families.family import family_of
from fubini.families.parameters import Vector
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.finite_draws import drawn_in, enumerated
from fubini.measures.single_draws import require_possible
from fubini.measures.state import State
from fubini.measures.values import Checked


class AllowedParameters:
    """The check that all parameters of a state are allowed at the numbers of its symbols, where its tests hold."""

    def __init__(self, state: State, of_draws: bool = True) -> None:
        self.distributions = (*(draw.distribution for draw in (*state.frozen, *state.waiting)), *state.observed)
        self.tests = [test.node for test in (*(limit.test for limit in state.limits), *state.tests)]
        leaves = frozenset().union(
            *(distribution.leaves for distribution in self.distributions), *(test.leaves for test in self.tests)
        )
        self.symbols = leaves - drawn_in(state)
        is_mixed = any(
            _is_mixed(part, self.symbols)
            for distribution in self.distributions
            for part in _entries(distribution).values()
        )
        self.state = state if of_draws and is_mixed else None

    def __call__(self, values: Mapping[str, np.ndarray]) -> None:
        """Raise where a parameter is not allowed; symbols of which no number is known are passed over."""
        known = {leaf: values[leaf.name] for leaf in self.symbols if leaf.name in values}
        numbers = {get(leaf): const(float(array)) for leaf, array in known.items() if leaf.shape == array.shape == ()}
        with double_precision(), np.errstate(all="ignore"):
            evaluation = Checked(known, xp=np)
            if not all(np.all(evaluation.of(test).data) for test in self.tests if test.leaves <= set(known)):
                return
            for distribution in self.distributions:
                _require_allowed(distribution, known, evaluation)
                require_possible(distribution.mapped(lambda node: replaced(node, numbers)))
        if self.state is not None:
            enumerated([self.state.mapped(lambda node: replaced(node, numbers))])


def _is_mixed(part: Node, symbols: frozenset[Leaf]) -> bool:
    """It depends on symbols and on draws."""
    return bool(part.leaves & symbols) and not part.leaves <= symbols


def _entries(distribution: DrawDistribution) -> dict[str, Node]:
    """Parameters by name; those of a vector by an entry."""
    names = _constraints(distribution)
    parts = [part.entry if isinstance(part, Vector) else part for part in distribution.parameters]
    return dict(zip(names, parts, strict=False)) if names else dict(enumerate(parts))  # type: ignore[arg-type]


def _require_allowed(distribution: DrawDistribution, known: Mapping[Leaf, np.ndarray], evaluation: Checked) -> None:
    """All that a family requires of the parameters whose numbers are known."""
    entries = _entries(distribution)
    for requirement in _requirements(distribution):
        parts = [entries[key] for key in requirement.keys]
        quantity = parts[0] if len(parts) == 1 else minus(*parts)
        if quantity.leaves and quantity.leaves <= set(known):
            numbers = np.asarray(evaluation.of(quantity).data)
            if not np.all(satisfied(requirement.constraint, numbers)):
                raise requirement.error(shown(numbers))


def _constraints(distribution: DrawDistribution) -> Mapping[str, Any]:
    """What a family requires of each parameter, or of the entries of one that is a vector."""
    known = {} if distribution.is_opaque else family_of(distribution.family).parameters
    return {name: _of_entries(constraint) for name, constraint in known.items()}


def _of_entries(constraint: Any) -> Any:
    """That of the entries of a vector; weights need not add up to one."""
    if constraint == constraints.simplex:
        return constraints.nonnegative
    return constraint.base_constraint if constraint.event_dim else constraint


def _requirements(distribution: DrawDistribution) -> Iterator[Requirement]:
    """Constraints of single parameters, and that the ends of a distribution are in order."""
    plain = {key: constraint for key, constraint in _constraints(distribution).items() if not is_dependent(constraint)}
    return requirements(distribution.family, plain)
