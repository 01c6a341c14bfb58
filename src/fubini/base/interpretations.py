"""Interpretations: what an operation on terms does.

An interpretation is an ordered list of rule sets, before those of its base. `exact` computes or raises, `lazy` records;
an approximating one adds a projection, which runs after every sum. Its hashable structure lives in a JAX user context,
so that `jax.jit` keys its cache on it; the arrays it carries reach a jitted function as arguments through `fb.jit`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax

from fubini.base.rules import Rule, RuleSet
from fubini.errors import NoRule

P = ParamSpec("P")
R = TypeVar("R")


_registered: list[RuleSet] = []


class Interpretation:
    """Rule sets in order of priority, over those of `base`.

    `records`: operations on arrays are recorded as Values instead of being computed.
    `project`: applied to every factor that a sum produced, with the names summed out; None leaves it as it is.
    `arrays`: a pytree of arrays (keys, say) that the rules and the projection read.

    >>> with Interpretation("custom", base=exact) as custom:
    ...     current() is custom
    True
    """

    def __init__(
        self,
        name: str,
        rule_sets: tuple[RuleSet, ...] = (),
        *,
        base: Interpretation | None = None,
        records: bool = False,
        project: Callable | None = None,
        arrays: Any = None,
    ) -> None:
        self.name = name
        self._own = list(rule_sets)
        self._by_head: dict[object, tuple[RuleSet, ...]] = {}
        self._up_to = 0  # how many registrations the cache has seen
        self.base = base
        self.records = records
        self.project = project if project is not None or base is None else base.project
        self.arrays = arrays

    def register(self, rules: RuleSet) -> RuleSet:
        """Add a rule set: how upper layers bring theirs at import.

        >>> rules = RuleSet("custom.sum", head=fb.heads.SUM)
        >>> Interpretation("custom", base=exact).register(rules) is rules
        True
        """
        self._own.append(rules)
        _registered.append(rules)
        return rules

    def rule_sets(self, head: object) -> tuple[RuleSet, ...]:
        """The rule sets of a head, first the own ones, then the base's."""
        if self._up_to != len(_registered):
            self._by_head, self._up_to = {}, len(_registered)
        rule_sets = self._by_head.get(head)
        if rule_sets is None:
            own = tuple(rules for rules in self._own if rules.head is head)
            rule_sets = own + (self.base.rule_sets(head) if self.base is not None else ())
            self._by_head[head] = rule_sets
        return rule_sets

    def versions(self) -> Iterator[tuple[RuleSet, int]]:
        """Yield rule sets with how many rules each has: a rule added later is another interpretation to `jax.jit`."""
        for rules in self._own:
            yield rules, len(rules)
        if self.base is not None:
            yield from self.base.versions()

    def find(self, head: object, args: tuple) -> Rule | None:
        """The first rule that applies.

        >>> f = fb.Table([1.0, 2.0], ("a",))
        >>> exact.find(fb.heads.SUM, (fb.sum_product, f, ("a",)))
        sum_table(Semiring, Table, tuple)
        """
        for rules in self.rule_sets(head):
            rule = rules.find(args)
            if rule is not None:
                return rule
        return None

    def with_arrays(self, arrays: Any) -> Interpretation:
        """The same interpretation over other arrays."""
        own = Interpretation.__new__(type(self))
        own.__dict__.update(self.__dict__, arrays=arrays)
        return own

    def without(self, kind: type[Interpretation]) -> Interpretation:
        """The same interpretation without those of a kind among its bases; for one of that kind, its base."""
        base = self.base.without(kind) if self.base is not None else None
        if isinstance(self, kind):
            assert base is not None, "an interpretation that is taken out has a base"
            return base
        if base is self.base:
            return self
        own = self.with_arrays(self.arrays)
        own.base, own._by_head = base, {}
        return own

    def __enter__(self) -> Interpretation:
        entered = _context(_Entry(self))
        entered.__enter__()
        _entered().append(entered)
        return self

    def __exit__(self, *reason: Any) -> None:
        _entered().pop().__exit__(*reason)

    def __repr__(self) -> str:
        return self.name


class _Entry:
    """An interpretation in the context: equal to another where the rules and the arrays are the same."""

    def __init__(self, interpretation: Interpretation) -> None:
        self.interpretation = interpretation
        leaves, structure = jax.tree.flatten(interpretation.arrays)
        own = interpretation  # it keeps the leaves alive, so that their ids stay theirs
        rules = tuple(own.versions())
        below = tuple(_below(own))
        self.key = (own.name, rules, own.records, own.project, structure, tuple(map(id, leaves)), below)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Entry) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _below(interpretation: Interpretation) -> Iterator[tuple]:
    """The names and arrays of what an interpretation is based on."""
    base = interpretation.base
    while base is not None:
        yield base.name, tuple(map(id, jax.tree.leaves(base.arrays)))
        base = base.base


_context = jax.make_user_context(default_value=None)
_local = threading.local()


def _entered() -> list:
    if not hasattr(_local, "entered"):
        _local.entered = []
    return _local.entered


def current() -> Interpretation:
    """The interpretation in force in this thread."""
    entry = _context.value
    return exact if entry is None else entry.interpretation


def uninterpreted() -> AbstractContextManager[Any]:
    """No interpretation in force: for numerics that know none, so that what is compiled once serves all of them.

    >>> with Interpretation("custom", base=exact), uninterpreted():
    ...     current()
    exact
    """
    return _context(None)


def interpret(head: object, *args: Any) -> Any:
    """Apply the rule for `head`, or raise."""
    interpretation = current()
    rule = interpretation.find(head, args)
    if rule is None:
        raise no_rule(interpretation, head, args)
    return rule.function(*args)


def no_rule(interpretation: Interpretation, head: Any, args: tuple) -> NoRule:
    """The error that lists the nearest rules and why each was refused."""
    near = [pair for rules in interpretation.rule_sets(head) for pair in rules.nearest(args)][:3]
    name = getattr(head, "__name__", str(head))
    return NoRule(
        f"{name}({', '.join(map(str, args))}) under {interpretation}",
        expected=f"a rule for {name}({', '.join(type(arg).__name__ for arg in args)})",
        nearest="; ".join(f"{rule!r}: {why}" for rule, why in near),
        advice="ask outside `with fb.lazy:`, or of fb.evaluate(term)"
        if interpretation.records
        else "record it with `with fb.lazy:`, or register a rule for these types",
    )


def _shifted(option: str, value: Any) -> Any:
    """Positions of arguments count one further: the interpretation's arrays come first."""
    if not option.endswith("_argnums"):
        return value
    return value + 1 if isinstance(value, int) else tuple(position + 1 for position in value)


def jit(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """`jax.jit`, with the arrays of the interpretation in force as arguments of the compiled function.

    Plain `jax.jit` is right too, but bakes those arrays in and so compiles anew for each of them.

    >>> mass = fb.jit(lambda weights: fb.Table(weights, ("a",)).sum("a").log().data)
    >>> float(mass(jnp.array([0.5, 0.5])))
    0.0
    """

    def run(arrays: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        with current().with_arrays(arrays):
            return function(*args, **kwargs)

    compiled = jax.jit(run, **{key: _shifted(key, value) for key, value in options.items()})

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        interpretation = current()
        with interpretation.with_arrays(jax.tree.map(lambda leaf: None, interpretation.arrays)):
            return compiled(interpretation.arrays, *args, **kwargs)

    return call


exact = Interpretation("exact")
lazy = Interpretation("lazy", records=True)
