"""What is integrated: the terms of a log-density in index notation, read from factors or from a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fubini.algebra.node import Index, Leaf, Node
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.eliminate.plan import Plan, Step
from fubini.integrate.latent_modes import with_height
from fubini.integrate.marginal_orders import ending_with
from fubini.integrate.search import Latent, PartialElimination, Search, work
from fubini.read.jaxpr_reader import Reader
from fubini.read.row_numbers import sum_rows_that_remain


@dataclass(frozen=True, eq=False)
class Integrand:
    """Terms, the leaf and domain of each variable in them, the names of free indices, and their `reader`."""

    terms: tuple[Node, ...]
    latents: Mapping[Name, Leaf]
    domains: Mapping[Name, Domain]
    reader: Reader
    axes: Mapping[Index, Name] = field(default_factory=dict)
    supports: Mapping[Name, Domain] = field(default_factory=dict)  # where a density says more than the domain

    def plan(self, names: Iterable[Name], last: tuple[Name, ...] = ()) -> Plan:
        """Plan to integrate out as many of these as can be, in an order that ends with `last` where these are given."""
        latents = self._asked(names)
        first = {name: latent for name, latent in latents.items() if self._has_rows(latent.leaf) and name not in last}
        if not self.reader.rows:
            return self.planned(self._search(self.terms, latents, last))
        rows = Search(first).best(self.terms)  # first what has a number for each row of a stream, so that sums are left
        others = {name: latent for name, latent in latents.items() if name not in first}
        final = self._search(sum_rows_that_remain(rows.terms, self.reader), others, last)
        blocked = {**rows.blocked, **final.blocked}
        return self.planned(PartialElimination(final.terms, (*rows.steps, *final.steps), blocked))

    def _search(
        self, terms: tuple[Node, ...], latents: Mapping[str, Latent], last: tuple[Name, ...]
    ) -> PartialElimination:
        if last:
            return ending_with(terms, latents, last)  # type: ignore[arg-type]
        return Search(latents).best(terms)

    def _has_rows(self, leaf: Leaf) -> bool:
        return any(leaf.shape[:1] == rows.shape[:1] for rows in self.reader.rows)

    def plan_of_maximum(self, names: Iterable[Name]) -> Plan:
        """The same for the greatest value over these names."""
        return self.planned(Search(self._asked(names), adjusted=with_height).best(self.terms))

    def _asked(self, names: Iterable[Name]) -> Mapping[str, Latent]:
        asked = frozenset(names)
        domains = {**self.domains, **self.supports}
        return {n: Latent(leaf, domains[n]) for n, leaf in self.latents.items() if n in asked}  # type: ignore[misc]

    def planned(self, eliminated: PartialElimination) -> Plan:
        """The steps of a search as those of a plan: each takes the terms with its variables, and makes one of them."""
        inputs = tuple(map(self._names, self.terms))
        scopes, alive = list(inputs), set(range(len(inputs)))
        steps = []
        for step in eliminated.steps:
            operands = tuple(slot for slot in sorted(alive) if scopes[slot] & set(step.names))
            keep = frozenset().union(*(scopes[slot] for slot in operands)) - set(step.names)
            entries = sum(math.prod(self.latents[name].shape) for name in step.names)
            steps.append(Step("integrate", operands, step.names, keep, int(work(step)), entries, integral=step))
            alive = alive.difference(operands) | {len(scopes)}
            scopes.append(keep)
        sizes = {name: math.prod(leaf.shape) for name, leaf in self.latents.items()}
        homes: dict[Name, tuple[Name, ...]] = dict.fromkeys(self.latents, ())
        return Plan(
            *(inputs, tuple(steps), tuple(sorted(alive)), sizes, homes),
            terms=eliminated.terms,
            blocked=eliminated.blocked,
        )

    def _names(self, term: Node) -> frozenset[Name]:
        names = {name for name, leaf in self.latents.items() if leaf in term.leaves}
        return frozenset(names | {name for index, name in self.axes.items() if index in term.free})
