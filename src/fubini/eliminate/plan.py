"""Plans: ordered lists of eliminations, decided from structure alone.

Factors and intermediate results are numbered *slots*: the inputs first, then one for each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fubini.terms.term import Name


@dataclass(frozen=True)
class Step:
    """One elimination: slots in, one slot out.

    `contract`: ⊕ over `eliminated` of the product of one or two operands.
    `multiply out`: ⊗ over the plates in `eliminated` of one operand, to the power `scale`.
    """

    kind: str
    operands: tuple[int, ...]
    eliminated: tuple[Name, ...]
    keep: frozenset[Name]
    work: int
    size: int
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps over `inputs` slots; `results` are the slots that remain, `slices` the names fixed one value at a time."""

    inputs: tuple[frozenset[Name], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    sizes: dict[Name, int]
    scopes: dict[Name, tuple[Name, ...]]
    plates: tuple[Name, ...] = ()
    slices: tuple[Name, ...] = ()
    reals: frozenset[Name] = frozenset()

    @cached_property
    def names(self) -> tuple[frozenset[Name], ...]:
        """The names of every slot."""
        return self.inputs + tuple(step.keep for step in self.steps)

    @cached_property
    def work(self) -> int:
        """Multiply-adds of one forward pass, all slices together."""
        return sum(step.work for step in self.steps) * self.passes

    @cached_property
    def passes(self) -> int:
        """How many slices there are."""
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
        """For each slot, the step that reads it last."""
        return {slot: position for position, step in enumerate(self.steps) for slot in step.operands}
