"""From an order to steps: a binary tree of contractions, and the search for a cheap one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from fubini.base.names import Name
from fubini.eliminate.order import FREE, SCORES, Precedence, greedy_order
from fubini.eliminate.plan import Step
from fubini.terms.storage import DENSE, Storage, joined_storage

# Multiply-adds per second of an ordinary core on such tables, seconds to plan one factor once, the share of a run that
# planning may take, and the most it may take.
SPEED = 4e8
SCOPE_TIME = 6e-5
SHARE = 0.1
PATIENCE = 5.0
WIDE = 32  # names of a factor; the time that an order takes grows with the third power of more


class Forest:
    """Live slots and the steps that made them: the state of a plan under construction.

    `storages` are those of the slots, none where all are dense.
    """

    def __init__(
        self,
        scopes: Sequence[Iterable[Name]],
        sizes: dict[Name, int],
        dimensions: Mapping[Name, int] | None = None,
        storages: Sequence[Storage] = (),
    ) -> None:
        self.sizes = sizes
        self.dimensions = dimensions or {}
        self.names: list[frozenset[Name]] = [frozenset(scope) for scope in scopes]
        self.storages = list(storages)
        self.steps: list[Step] = []

    def size(self, names: frozenset[Name], storage: Storage = DENSE) -> int:
        """Numbers that a factor over the names holds."""
        return storage.size(names, self.sizes, self.dimensions)

    def work(self, names: frozenset[Name], storage: Storage = DENSE) -> int:
        """Multiply-adds of an elimination that goes through these names."""
        return storage.work(names, self.sizes, self.dimensions)

    def storage(self, slots: Iterable[int]) -> Storage:
        """The storage of the product of slots."""
        return joined_storage([self.storages[slot] for slot in slots]) if self.storages else DENSE

    def add(self, kind: str, operands: tuple[int, ...], gone: frozenset[Name], scale: float = 1.0) -> int:
        """Append a step; the slot it makes."""
        union = self.names[operands[0]].union(*(self.names[slot] for slot in operands[1:]))
        keep = union - gone
        eliminated = tuple(sorted(gone & union, key=str))
        whole = made = DENSE
        if self.storages:
            whole = self.storage(operands)
            made = whole.summed(keep) if eliminated else whole
            self.storages.append(made)
        step = Step(kind, operands, eliminated, keep, self.work(union, whole), self.size(keep, made), scale)
        self.steps.append(step)
        self.names.append(keep)
        return len(self.names) - 1

    def contract(self, slots: Sequence[int], eliminated: Iterable[Name], order: Sequence[Name]) -> list[int]:
        """Eliminate names from the product of slots in this order; the slots that remain."""
        gone = frozenset(eliminated)
        using: dict[Name, set[int]] = {name: set() for name in gone}
        live = dict.fromkeys(slots)
        for slot in slots:
            for name in self.names[slot] & gone:
                using[name].add(slot)
        for name in order:
            for slot in tuple(using[name]) if self.storages else ():
                self._contract_many(slot, using, live)
            while len(using[name]) > 1:
                self._contract_pair(*self._cheapest_pair(using[name]), using, live)
            for slot in tuple(using[name]):
                if not self.storages or not self._waits((slot,), using):
                    self._contract_pair(slot, None, using, live)
        return list(live)

    def _waits(self, slots: tuple[int, ...], using: dict) -> bool:
        """Their product is to be summed at once, and there are factors that it has yet to be multiplied by."""
        if not self.storage(slots).at_once:
            return False
        members = set(slots)
        return any(using[name] - members for slot in slots for name in self.names[slot] if name in using)

    def _contract_many(self, slot: int, using: dict, live: dict) -> None:
        """Contract a slot that is summed at once with all that have no names but its own, where these are several."""
        if slot not in live or not self.storages[slot].at_once:
            return
        near = {other for name in self.names[slot] for other in using.get(name, ()) if other != slot}
        within = sorted(other for other in near if self.names[other] <= self.names[slot])
        if len(within) > 1 and self.storage((slot, *within)).at_once:
            self._contract((slot, *within), using, live)

    def _contract_pair(self, first: int, second: int | None, using: dict, live: dict) -> None:
        """Contract one or two slots."""
        self._contract((first,) if second is None else (first, second), using, live)

    def _contract(self, operands: tuple[int, ...], using: dict, live: dict) -> None:
        """Contract slots, summing out every name that nothing else has."""
        both = set(operands)
        union = self.names[operands[0]].union(*(self.names[slot] for slot in operands[1:]))
        own = [name for name in union if name in using]
        gone = frozenset(name for name in own if using[name] <= both)
        if self.storages and self._waits(operands, using):
            gone = frozenset()
        made = self.add("contract", operands, gone)
        for slot in operands:
            del live[slot]
        live[made] = None
        for name in own:
            using[name] -= both
            if name not in gone:
                using[name].add(made)

    def _cheapest_pair(self, slots: set[int]) -> tuple[int, int]:
        """The pair whose union is smallest; among many slots, only the smaller ones are looked at."""
        if len(slots) == 2:
            first, second = slots
            return first, second
        names = self.names
        storage = {slot: self.storage((slot,)) for slot in slots} if self.storages else {}
        candidates = sorted(slots, key=lambda slot: (self.size(names[slot], storage.get(slot, DENSE)), slot))[:8]
        best, pair = math.inf, (candidates[0], candidates[1])
        for position, first in enumerate(candidates):
            for second in candidates[position + 1 :]:
                both = joined_storage((storage[first], storage[second])) if storage else DENSE
                cost = self.size(names[first] | names[second], both)
                if cost < best:
                    best, pair = cost, (first, second)
        return pair


def tree_cost(
    scopes: Sequence[Iterable[Name]], sizes: dict[Name, int], order: Sequence[Name], storages: Sequence[Storage] = ()
) -> int:
    """The multiply-adds of an order."""
    forest = Forest(scopes, sizes, None, storages)
    forest.contract(range(len(forest.names)), order, order)
    return sum(step.work for step in forest.steps)


def search_order(
    scopes: Sequence[Collection[Name]],
    sizes: dict[Name, int],
    eliminated: Sequence[Name],
    precedence: Precedence = FREE,
    storages: Sequence[Storage] = (),
) -> list[Name]:
    """The cheapest of several greedy orders; the search takes no longer than a share of the run it may shorten.

    Both times are estimated from counts, not measured, so that a problem always gets the same plan. Greedy orders know
    of dense factors alone: where others are there, the search may take as long as the run.
    """
    share = 1.0 if storages else SHARE
    best, estimate = greedy_order(scopes, sizes, eliminated, SCORES[0], 0, precedence)
    if len(scopes) == 1:
        return best
    attempt_time = SCOPE_TIME * sum([1.0 if len(scope) <= WIDE else (len(scope) / 8) ** 3 for scope in scopes])
    estimate = tree_cost(scopes, sizes, best, storages) if storages else estimate
    if share * estimate / SPEED < attempt_time:
        return best
    cost = tree_cost(scopes, sizes, best, storages)
    attempt = 0
    while attempt_time * (attempt if attempt >= len(SCORES) else 1) < min(share * cost / SPEED, PATIENCE):
        attempt += 1
        order, _ = greedy_order(scopes, sizes, eliminated, SCORES[attempt % len(SCORES)], attempt, precedence)
        other = tree_cost(scopes, sizes, order, storages)
        if other < cost:
            best, cost = order, other
    return best
