"""Factor graphs: factors, the variables that messages are about, and which factor has which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name, as_names
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.eliminate.forward import contract, embed
from fubini.eliminate.order import Precedence
from fubini.eliminate.prepare import Factors, covering_terms, known_names, split_terms, storages_of
from fubini.errors import DomainError
from fubini.factors.represent import converted, require_stored, storing_results
from fubini.terms.factor import Factor, after_sum
from fubini.terms.storage import Storage


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """Factors over variables and a batch, for each cell of which all messages are passed once."""

    factors: tuple[Factor, ...]
    domains: dict[Name, Domain]
    batch: frozenset[Name]
    semiring: Semiring

    @cached_property
    def variables(self) -> tuple[Name, ...]:
        """The names that are no batch, in order of appearance."""
        return tuple(name for name in self.domains if name not in self.batch)

    @cached_property
    def scopes(self) -> tuple[tuple[Name, ...], ...]:
        """The variables of each factor."""
        return tuple(tuple(name for name in f.inputs if name not in self.batch) for f in self.factors)

    @cached_property
    def sizes(self) -> dict[Name, int]:
        """The values of each variable; 1 of one that is no bounded integer."""
        return {name: self.domains[name].size or 1 for name in self.variables}

    @cached_property
    def storages(self) -> tuple[Storage, ...]:
        """What factors cost; none where all are dense."""
        return storages_of(self.factors)

    @cached_property
    def precedence(self) -> Precedence:
        """Variables that are no bounded integers go before those they share a factor with."""
        return Precedence(frozenset(name for name in self.variables if not self.domains[name].is_finite))

    @cached_property
    def factors_of(self) -> dict[Name, tuple[int, ...]]:
        """The factors that each variable is in."""
        lists: dict[Name, list[int]] = {name: [] for name in self.variables}
        for position, scope in enumerate(self.scopes):
            for name in scope:
                lists[name].append(position)
        return {name: tuple(positions) for name, positions in lists.items()}

    @cached_property
    def is_tree(self) -> bool:
        """Whether no two factors are connected by two paths: edges are fewer than factors and variables together."""
        edges = sum(map(len, self.scopes))
        parts = _count_parts(self.scopes)
        return edges + parts == len(self.variables) + sum(1 for scope in self.scopes if scope)

    def sum_to(self, factors: Sequence[Factor], names: Iterable[Name]) -> Factor:
        """⊕ of the product of factors over all variables but the names."""
        keep = self.batch | frozenset(names)
        *first, last = factors
        product = None
        for factor in first:
            product = factor if product is None else self.times(product, factor)
        return sum_and_project(self.semiring, [last] if product is None else [product, last], keep)

    def times(self, f: Factor, g: Factor) -> Factor:
        """f·g, carried out."""
        return contract(self.semiring, [f, g], frozenset(f.inputs) | frozenset(g.inputs))


def sum_and_project(semiring: Semiring, factors: Sequence[Factor], keep: frozenset[Name]) -> Factor:
    """⊕ over the names not kept, and the projection of the interpretation in force."""
    gone = tuple(dict.fromkeys(name for factor in factors for name in factor.inputs if name not in keep))
    summed = contract(semiring, factors, keep)
    return after_sum(summed, gone) if gone else summed


@contextmanager
def stored_terms(factors: Factors, names: Sequence[Name], asked: str) -> Iterator[list[Factor]]:
    """The factors as the representations of their variables store them, whose names are known inside."""
    given = split_terms(factors)
    with known_names(given, names, asked):
        require_stored(asked)
        stored = converted(given)
        with storing_results():
            yield stored


def make_factor_graph(
    factors: Factors, names: Sequence[Name] | None, batch: Sequence[Name], semiring: Semiring
) -> tuple[FactorGraph, tuple[Name, ...]]:
    """The graph of some factors, and the names whose marginals are asked for."""
    if semiring not in (sum_product, max_product):
        raise DomainError(f"propagation in the semiring {semiring}", expected="fb.sum_product or fb.max_product")
    terms, asked = covering_terms(split_terms(factors), () if names is None else names, "the marginal of")
    covering_terms(terms, as_names(batch, "the batch"), "the batch")
    domains = merge_inputs(*(term.inputs for term in terms))
    graph = FactorGraph(tuple(embed(semiring, term) for term in terms), domains, frozenset(batch), semiring)
    wanted = graph.variables if names is None else tuple(name for name, _ in asked)
    return graph, wanted


def _count_parts(scopes: Sequence[tuple[Name, ...]]) -> int:
    """The connected parts of a hypergraph, those without variables left out."""
    root: dict[Name, Name] = {}

    def find(name: Name) -> Name:
        while root[name] is not name:
            root[name] = name = root[root[name]]
        return name

    for scope in scopes:
        for name in scope:
            root.setdefault(name, name)
            root[find(name)] = find(scope[0])
    return sum(1 for name in root if find(name) is name)
