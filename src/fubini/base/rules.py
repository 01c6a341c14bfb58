"""Rules, and sets of rules: the engine of dispatch, which knows nothing of the terms it dispatches on.

A rule is a named function whose annotations are its signature, with an optional guard. The most specific rule wins.
"""

from __future__ import annotations

import threading
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fubini.errors import FubiniError

SHOWN = 6  # rules of a set that are printed


class RuleConflict(FubiniError):
    """Two rules of one set that would both apply, neither more specific."""


@dataclass(frozen=True, eq=False)
class Rule:
    """An equation: `function` applies to arguments of the types in `signature` where `guard` holds."""

    name: str
    signature: tuple[tuple[type, ...], ...]
    function: Callable
    guard: Callable[..., bool] | None
    overlaps: tuple[str, ...] = ()

    @property
    def equation(self) -> str:
        """The rule's docstring."""
        return (self.function.__doc__ or "").strip()

    def fits(self, kinds: tuple[type, ...]) -> bool:
        """The argument types are instances of the signature."""
        return len(kinds) == len(self.signature) and all(map(issubclass, kinds, self.signature))

    def refusal(self, args: tuple) -> str:
        """The reason why the rule does not apply to these arguments; empty if it does."""
        for arg, expected in zip(args, self.signature, strict=True):
            if not isinstance(arg, expected):
                return f"it takes {_named(expected)} where {type(arg).__name__} was given"
        if self.guard is not None and not self.guard(*args):
            return "its side condition does not hold"
        return ""

    def is_below(self, other: Rule) -> bool:
        """Whether the rule is at least as specific as the other in every argument."""
        return all(_within(own, other_types) for own, other_types in zip(self.signature, other.signature, strict=True))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(_named, self.signature))})"


def _named(kinds: tuple[type, ...]) -> str:
    return " | ".join(kind.__name__ for kind in kinds)


def _within(own: tuple[type, ...], other: tuple[type, ...]) -> bool:
    return all(issubclass(kind, other) for kind in own)


def _common(own: tuple[type, ...], other: tuple[type, ...]) -> tuple[type, ...]:
    """The types that both admit."""
    narrower = [a if issubclass(a, b) else b for a in own for b in other if issubclass(a, b) or issubclass(b, a)]
    return tuple(dict.fromkeys(narrower))


def _kinds(annotation: Any) -> tuple[type, ...]:
    if annotation is Any:
        return (object,)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(kind for part in typing.get_args(annotation) for kind in _kinds(part))
    return (typing.get_origin(annotation) or annotation,)


class RuleSet:
    """The rules of one head.

    >>> double = RuleSet("double", head="double")
    >>> @double.rule
    ... def double_integer(n: int) -> int:
    ...     '''n + n'''
    ...     return n + n
    >>> double.find((3,))
    double_integer(int)
    """

    def __init__(self, name: str, head: object) -> None:
        self.name = name
        self.head = head
        self._rules: dict[str, Rule] = {}
        self._candidates: dict[tuple[type, ...], tuple[Rule, ...]] = {}
        self._lock = threading.Lock()

    def rule(self, function: Callable | None = None, *, when: Callable | None = None, overlaps: tuple = ()) -> Any:
        """Register a function as a rule under its own name.

        >>> double = RuleSet("double", head="double")
        >>> @double.rule(when=lambda n: n > 0)
        ... def double_positive(n: int) -> int:
        ...     '''n + n'''
        ...     return n + n
        >>> double.find((3,)), double.find((-3,))
        (double_positive(int), None)
        """
        if function is None:
            return lambda given: self.rule(given, when=when, overlaps=overlaps)
        hints = typing.get_type_hints(function)
        hints.pop("return", None)
        rule = Rule(function.__name__, tuple(map(_kinds, hints.values())), function, when, tuple(overlaps))
        with self._lock:
            self._refuse_duplicate(rule)
            self._rules[rule.name] = rule
            self._candidates = {}
        return function

    def _refuse_duplicate(self, rule: Rule) -> None:
        for known in self._rules.values():
            same = known.signature == rule.signature and (known.guard is None) == (rule.guard is None)
            if known.name == rule.name or (same and rule.guard is None):
                raise RuleConflict(
                    f"the rule {rule!r} in {self.name}",
                    expected="one rule for each name, and for each signature without a guard",
                    nearest=repr(known),
                    advice="delete one of the two, or give one a guard",
                )

    def find(self, args: tuple) -> Rule | None:
        """The most specific rule that applies, or None.

        >>> fb.heads.exact_sum.find((fb.sum_product, fb.Table([1.0], ("a",)), ("a",)))
        sum_table(Semiring, Table, tuple)
        """
        for rule in self.candidates(tuple(map(type, args))):
            if rule.guard is None or rule.guard(*args):
                return rule
        return None

    def candidates(self, kinds: tuple[type, ...]) -> tuple[Rule, ...]:
        """The rules whose signature fits, most specific first."""
        candidates = self._candidates.get(kinds)
        if candidates is None:
            fitting = [rule for rule in self._rules.values() if rule.fits(kinds)]
            below = {rule: sum(other.is_below(rule) for other in fitting) for rule in fitting}
            candidates = tuple(sorted(fitting, key=lambda rule: (below[rule], rule.guard is None)))
            with self._lock:
                self._candidates[kinds] = candidates
        return candidates

    def nearest(self, args: tuple) -> list[tuple[Rule, str]]:
        """Rules that nearly apply, the nearest first, and why each was refused."""

        def distance(rule: Rule) -> int:
            return sum(not isinstance(arg, kinds) for arg, kinds in zip(args, rule.signature, strict=True))

        rules = [rule for rule in self._rules.values() if len(rule.signature) == len(args)]
        return [(rule, rule.refusal(args)) for rule in sorted(rules, key=distance)]

    def conflicts(self) -> list[tuple[Rule, Rule]]:
        """Pairs that can both apply, neither more specific, neither marked, with no third rule between them."""
        return [pair for pair in combinations(self._rules.values(), 2) if self._is_conflict(*pair)]

    def _is_conflict(self, first: Rule, second: Rule) -> bool:
        if len(first.signature) != len(second.signature):
            return False
        if second.name in first.overlaps or first.name in second.overlaps:
            return False
        if first.signature == second.signature:
            return first.guard is not None and second.guard is not None
        if first.is_below(second) or second.is_below(first):
            return False
        common = tuple(_common(own, other) for own, other in zip(first.signature, second.signature, strict=True))
        if not all(common):
            return False
        between = [rule for rule in self._rules.values() if rule.guard is None and len(rule.signature) == len(common)]
        return not any(
            rule.is_below(first) and rule.is_below(second) and all(map(_within, common, rule.signature))
            for rule in between
        )

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(tuple(self._rules.values()))

    def __repr__(self) -> str:
        shown = [*self._rules][:SHOWN]
        more = [f"… {len(self._rules) - SHOWN} more"] if len(self._rules) > SHOWN else []
        return f"RuleSet({self.name!r}: {', '.join([*shown, *more])})"
