"""Numbers that are put in for symbols: those that the families of a measure do not allow are refused.

What a family requires is checked as the parameters of a model are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import chain
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.binding import replaced
from fubini.algebra.build import const, get, minus, multiply
from fubini.algebra.node import Leaf, Node
from fubini.algebra.ranges import bounds, is_not_negative, is_surely_positive, is_whole
from fubini.base.arrays import Data, double_precision, is_traced
from fubini.distributions.parameter_checks import Requirement, is_dependent, requirements, satisfied, shown
from fubini.errors import DataError, DomainError
from fubini.families.family import family_of
from fubini.families.parameters import Vector
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.finite_draws import drawn_in, enumerated
from fubini.measures.known_values import Checked
from fubini.measures.single_draws import require_possible
from fubini.measures.state import State
from fubini.measures.zeros import parts_of


class AllowedParameters:
    """The check that parameters and weights of a state are allowed at the numbers of its symbols, if its tests hold."""

    def __init__(self, state: State, of_draws: bool = True) -> None:
        self.distributions = (*(draw.distribution for draw in (*state.frozen, *state.waiting)), *state.observed)
        self.tests = [test.node for test in (*(limit.test for limit in state.limits), *state.tests)]
        drawn = drawn_in(state)
        self.weights = [weight for term in state.terms if not is_not_negative(weight := _weight_of(term, drawn))]
        leaves = frozenset().union(
            *(distribution.leaves for distribution in self.distributions),
            *(node.leaves for node in (*self.tests, *self.weights)),
        )
        self.symbols = leaves - drawn
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
            for weight in self.weights:
                if weight.leaves <= set(known) and not (number := evaluation.of(weight).data) >= 0:
                    raise _wrong_weight(weight, number)
        if self.state is not None:
            enumerated([self.state.mapped(lambda node: replaced(node, numbers))])

    def holds(self, values: Mapping[str, Data]) -> Data:
        """Test the same of values of which some are traced."""
        known = {leaf: values[leaf.name] for leaf in self.symbols if leaf.name in values}
        evaluation = Checked(known)
        allowed = jnp.asarray(True)
        for quantity, constraint in chain.from_iterable(map(_required, self.distributions)):
            if quantity.leaves and quantity.leaves <= set(known):
                allowed = allowed & jnp.all(satisfied(constraint, jnp.asarray(evaluation.of(quantity).data)))
            elif is_traced(*(known[leaf] for leaf in quantity.leaves & set(known))):
                _require_proof(quantity, constraint)
        for weight in self.weights:
            if weight.leaves <= set(known):
                allowed = allowed & (evaluation.of(weight).data >= 0)
        tests = [evaluation.of(test).data for test in self.tests if test.leaves <= set(known)]
        return allowed | ~jnp.asarray([jnp.all(test != 0) for test in tests] or [True]).all()


def _weight_of(term: Node, drawn: Set[Leaf]) -> Node:
    """The product of what a term has the logarithms of, as far as symbols alone decide it."""
    logs = ((part.args[1], c) for part, c in parts_of(term) if part.kind == "call" and part.args[0] == "log")
    return multiply((inside, c) for inside, c in logs if not inside.leaves & drawn)


def _wrong_weight(weight: Node, number: Data) -> DataError:
    return DataError(
        f"the weight {weight}",
        expected="a number that is not negative",
        nearest=f"it is {float(number):g}",
        advice="condition(test) before leaves out values for which it is not",
    )


def _require_proof(quantity: Node, constraint: Any) -> None:
    """Raise unless a quantity of draws and symbols satisfies its constraint at all numbers that these may have."""
    low, high = bounds(quantity)
    proofs = (
        (constraints.real, True),
        (constraints.positive, is_surely_positive(quantity)),
        (constraints.nonnegative, is_surely_positive(quantity)),
        (constraints.nonnegative_integer, is_whole(quantity) and low >= 0),
        (constraints.unit_interval, low >= 0 and high <= 1),
    )
    if not any(proof for known, proof in proofs if constraint == known):
        raise DomainError(
            f"a value at numbers that jit, vmap or grad traces, with a parameter {quantity} of a draw",
            expected=f"a parameter that satisfies {constraint} at all numbers that its symbols allow",
            advice='symbol("a", kind="positive") says so; or ask outside of jit, vmap and grad',
        )


def _is_mixed(part: Node, symbols: frozenset[Leaf]) -> bool:
    """It depends on symbols and on draws."""
    return bool(part.leaves & symbols) and not part.leaves <= symbols


def _entries(distribution: DrawDistribution) -> dict[str, Node]:
    """Parameters by name; those of a vector by an entry."""
    names = _constraints(distribution)
    parts = [part.entry if isinstance(part, Vector) else part for part in distribution.parameters]
    return dict(zip(names, parts, strict=False)) if names else dict(enumerate(parts))  # type: ignore[arg-type]


def _required(distribution: DrawDistribution) -> Iterator[tuple[Node, Any]]:
    """Each quantity that a family requires something of, and what."""
    for requirement in _requirements(distribution):
        yield _quantity(requirement, distribution), requirement.constraint
    if not distribution.is_opaque:
        for name, constraint in (family_of(distribution.family).finite_draws or {}).items():
            yield _entries(distribution)[name], constraint


def _quantity(requirement: Requirement, distribution: DrawDistribution) -> Node:
    """One parameter, or the first of two less the second."""
    entries = _entries(distribution)
    parts = [entries[key] for key in requirement.keys]
    return parts[0] if len(parts) == 1 else minus(*parts)


def _require_allowed(distribution: DrawDistribution, known: Mapping[Leaf, np.ndarray], evaluation: Checked) -> None:
    """All that a family requires of the parameters whose numbers are known."""
    for requirement in _requirements(distribution):
        quantity = _quantity(requirement, distribution)
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
