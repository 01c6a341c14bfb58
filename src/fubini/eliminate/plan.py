"""Plans: ordered lists of eliminations, decided from structure alone; one kind for factors, chains and models.

Factors and intermediate results are numbered *slots*: the inputs first, then one for each step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fubini.base.names import Name
from fubini.engines.flat_program import FlatSteps
from fubini.terms.storage import DENSE, Storage


@dataclass(frozen=True)
class Step:
    """One elimination: slots in, one slot out.

    `contract`: ⊕ over `eliminated` of the product of one or two operands, or of one and many within its names.
    `multiply out`: ⊗ over the plates in `eliminated` of one operand, to the power `scale`.
    `integrate`: ∫ over `eliminated` of operands that no rule joins, in index notation; `integral` says how.
    """

    kind: str
    operands: tuple[int, ...]
    eliminated: tuple[Name, ...]
    keep: frozenset[Name]
    work: int
    size: int
    scale: float = 1.0
    integral: Any = None


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps over `inputs` slots; `results` are the slots that remain, `slices` the names fixed one value at a time.

    After steps that integrate, `terms` is the remaining log-density in index notation, and `blocked` says why
    names that were asked for stayed.
    """

    inputs: tuple[frozenset[Name], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    sizes: dict[Name, int]
    scopes: dict[Name, tuple[Name, ...]]
    plates: tuple[Name, ...] = ()
    slices: tuple[Name, ...] = ()
    reals: frozenset[Name] = frozenset()
    terms: tuple[Any, ...] = ()
    blocked: Mapping[Any, Any] = field(default_factory=dict)
    storages: tuple[Storage, ...] = ()  # of every slot; none where all are dense
    flat: FlatSteps | None = None  # the same steps as numbers, where the compiled planner made them

    @property
    def eliminated(self) -> tuple[Name, ...]:
        """The names in the order in which they go."""
        return tuple(name for step in self.steps for name in step.eliminated)

    @property
    def integrals(self) -> tuple[Any, ...]:
        """The integrals of the steps that have one."""
        return tuple(step.integral for step in self.steps if step.integral is not None)

    @cached_property
    def names(self) -> tuple[frozenset[Name], ...]:
        """The names of every slot."""
        return self.inputs + tuple(step.keep for step in self.steps)

    @cached_property
    def slot_sizes(self) -> tuple[int, ...]:
        """Numbers that every slot holds for each value of its real variables."""
        storages = self.storages or (DENSE,) * len(self.names)
        return tuple([store.size(names, self.sizes, {}) for store, names in zip(storages, self.names, strict=True)])

    @cached_property
    def work(self) -> int:
        """Multiply-adds of one forward pass, all slices together."""
        return sum(step.work for step in self.steps) * self.passes

    @cached_property
    def passes(self) -> int:
        """The number of slices."""
        count = 1
        for name in self.slices:
            count *= self.sizes[name]
        return count

    @cached_property
    def largest(self) -> int:
        """Entries of the largest intermediate result."""
        return max((step.size for step in self.steps), default=1)

    @cached_property
    def retained(self) -> int:
        """Entries of all intermediate results together: what a backward pass keeps."""
        return sum(step.size for step in self.steps)

    @cached_property
    def last_use(self) -> dict[int, int]:
        """List for each slot the step that reads it last."""
        return {slot: position for position, step in enumerate(self.steps) for slot in step.operands}


class PlanCache:
    """Plans by what they were made for; the oldest are forgotten. `misses` counts those that were made."""

    def __init__(self, kept: int) -> None:
        self.kept, self.misses = kept, 0
        self._plans: dict[Hashable, Any] = {}
        self.get = self._plans.get
        self._owners: dict[int, set[Hashable]] = {}

    def get_or_make(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The plan for a key, made where there is none yet."""
        plan = self._plans.get(key)
        if plan is None:
            self.misses += 1
            plan = self._plans[key] = make()
            if len(self._plans) > self.kept:
                del self._plans[next(iter(self._plans))]
        return plan

    def get_or_make_for(self, owner: object, question: Hashable, make: Callable[[], Any]) -> Any:
        """The plan for a question to this object, forgotten with it: its data are not kept for the sake of a plan."""
        if id(owner) not in self._owners:
            self._owners[id(owner)] = set()
            weakref.finalize(owner, self._disown, id(owner))
        key = (id(owner), question)
        self._owners[id(owner)].add(key)
        return self.get_or_make(key, make)

    def _disown(self, owner: int) -> None:
        for key in self._owners.pop(owner, ()):
            self.forget(key)

    def forget(self, key: Hashable) -> None:
        """A plan that holds for one trace alone, or is not worth what it keeps."""
        self._plans.pop(key, None)


PLANS = PlanCache(2048)  # of all questions
