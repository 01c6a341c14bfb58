"""The structure of a directed network: the parents of each variable, and its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from fubini.base.domains import Domain
from fubini.errors import DomainError, NameClash, UnknownName, closest
from fubini.models.site_graph import Graph

SHOWN = 6  # values of a variable that are printed


class Structure(Graph):
    """The parents of each variable, and its values where they are known.

    >>> Structure.of_parents({"grass": ("rain",), "rain": ()}, {"rain": fb.Bint.labelled("dry", "wet")})
    rain: dry, wet
    grass, given rain
    """

    def __init__(self, parents: Mapping[str, tuple[str, ...]], domains: Mapping[str, Domain]) -> None:
        super().__init__(parents, dict.fromkeys(parents, "random"), self._statements)
        self.domains = dict(domains)

    @classmethod
    def of_parents(cls, parents: Mapping[str, Sequence[str]], domains: Mapping[str, Domain] | None = None) -> Structure:
        """The structure with these parents, checked; variables that are parents alone have none.

        >>> Structure.of_parents({"a": ["b"], "b": ["a"]})
        Traceback (most recent call last):
        fubini.errors.DomainError: the structure of a network with the cycle a → b → a
          expected: parents without a cycle: no variable descends from itself
        """
        if isinstance(parents, Structure) and domains is None:
            return parents
        if not isinstance(parents, Mapping):
            raise DomainError(
                f"the structure of a network as {type(parents).__name__}",
                expected="a network, or a mapping of variables to lists of their parents",
                advice='{"grass": ["rain", "sprinkler"]}',
            )
        own: dict[str, tuple[str, ...]] = {}
        for name, above in parents.items():
            if isinstance(above, str):
                raise DomainError(
                    f"the parents {above!r} of {name!r}", expected="a list of names", advice=f"{name!r}: [{above!r}]"
                )
            own[str(name)] = tuple(map(str, above))
            if len(set(own[str(name)])) < len(own[str(name)]):
                raise NameClash(f"the parents of {name!r}, {own[str(name)]}", expected="each parent once")
        for name in [parent for above in own.values() for parent in above]:
            own.setdefault(name, ())
        try:
            order = list(TopologicalSorter(own).static_order())
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            raise DomainError(
                f"the structure of a network with the cycle {cycle}",
                expected="parents without a cycle: no variable descends from itself",
            ) from None
        for name in domains or {}:
            if name not in own:
                raise UnknownName(
                    f"the values of {name!r}", expected="a variable of the structure", nearest=closest(name, own)
                )
        return cls({name: own[name] for name in order}, domains or {})

    def _statements(self) -> dict[str, str]:
        made = {}
        for name, above in self.parents.items():
            given = f", given {', '.join(above)}" if above else ""
            made[name] = f"{self._values(name)}{given}"
        return made

    def lines(self) -> list[str]:
        """Each variable with its values and parents."""
        return [f"{name}{statement}" for name, statement in self._statements().items()]

    def _values(self, name: str) -> str:
        domain = self.domains.get(name)
        if domain is None:
            return ""
        if domain.labels is None:
            return f": {domain!r}"
        more = f", … {len(domain.labels) - SHOWN:,} more" if len(domain.labels) > SHOWN else ""
        return f": {', '.join(map(str, domain.labels[:SHOWN]))}{more}"
