"""The promotion lattice: which representation each one is a special case of, and how it becomes that.

A pair of representations without a rule of its own is promoted to the least one above both.
"""

from __future__ import annotations

from collections.abc import Callable

from fubini.base.interpretations import current
from fubini.terms.factor import Factor, Unit
from fubini.terms.heads import JOIN

_above: dict[type[Factor], dict[type[Factor], Callable]] = {}


def promotion(source: type[Factor], target: type[Factor]) -> Callable[[Callable], Callable]:
    """Register a function as the map from one representation to a more general one."""

    def register(function: Callable) -> Callable:
        _above.setdefault(source, {})[target] = function
        return function

    return register


def _paths(kind: type[Factor]) -> dict[type[Factor], tuple[Callable, ...]]:
    """The representations at or above one, nearest first, each with the steps there."""
    paths: dict[type[Factor], tuple[Callable, ...]] = {kind: ()}
    waiting = [kind]
    while waiting:
        here = waiting.pop(0)
        for target, step in _above.get(here, {}).items():
            if target not in paths:
                paths[target] = (*paths[here], step)
                waiting.append(target)
    return paths


def common_kind(f: Factor, g: Factor) -> type[Factor] | None:
    """The least representation above both that is not already theirs."""
    own, theirs = _paths(type(f)), _paths(type(g))
    shared = [kind for kind in own if kind in theirs]
    shared = [kind for kind in shared if not (kind is type(f) and kind is type(g))]
    return min(shared, key=lambda kind: len(own[kind]) + len(theirs[kind]), default=None)


def is_special_case(factor: Factor) -> bool:
    """Whether there is a representation above that of a factor."""
    return bool(_above.get(type(factor)))


def most_general(factor: Factor) -> Factor:
    """The factor as the most general representation above its own."""
    return to_kind(factor, list(_paths(type(factor)))[-1])


def to_kind(factor: Factor, kind: type[Factor]) -> Factor:
    """The factor as a representation above its own."""
    for step in _paths(type(factor))[kind]:
        factor = step(factor)
    return factor


def is_joinable(factor: Factor) -> bool:
    """Whether a factor is an unfinished form that some rule turns into a representation."""
    return factor.promotes and current().find(JOIN, (factor,)) is not None


def is_open(factor: Factor) -> bool:
    """Whether a factor is an unfinished form that no rule turns into a representation."""
    return factor.promotes and not isinstance(factor, Unit) and not is_joinable(factor)


def promoted(factor: Factor) -> Factor:
    """The factor in a representation where there is a rule for it, as it is otherwise."""
    if not factor.promotes:
        return factor
    rule = current().find(JOIN, (factor,))
    return factor if rule is None else rule.function(factor)
