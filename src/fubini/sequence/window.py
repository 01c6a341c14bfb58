"""Windows: under a projection a chain remembers its last switches, as if they were lags of the discrete states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fubini.approximate.moment_matching import window_of
from fubini.base.domains import Domain
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.factors.indicators import is_first
from fubini.factors.represent import Representation, representation_of
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.links import Link, Links, fixed_bound
from fubini.terms.exactness import combined, projected
from fubini.terms.factor import Factor


def is_projected(domains: Mapping[Name, Domain]) -> bool:
    """A projection is in force, and has something to do: there are discrete and real states."""
    return current().project is not None and len({domain.is_finite for domain in domains.values()}) == 2


def representations_of(domains: Mapping[Name, Domain]) -> dict[Name, Representation]:
    """The states whose representation projects, and that representation."""
    named = {name: representation_of(name) for name in domains}
    return {name: own for name, own in named.items() if own is not None and own.projects}


def with_past(outline: SequenceOutline) -> tuple[SequenceOutline, list[Factor]]:
    """The outline with as much of the past as the window has, and factors for a past before the first state.

    One cell of that past holds all the weight, so that summing it out changes nothing.
    """
    domains = dict(outline.domains)
    if not is_projected(domains):
        return outline, []
    chains, first = [], []
    for link in outline.links.chains:
        domain = domains[link.newest]
        more = window_of(current()) - len(link.before) if domain.is_finite else 0
        past = tuple(fixed_bound(f"{link.newest} {place}") for place in range(more, 0, -1))
        after = tuple(fixed_bound(f"{link.newest} {place} next") for place in range(more, 0, -1))
        chains.append(Link((*past, *link.before), (*after, *link.after)))
        first.extend(is_first(name, domain) for name in past)
        domains.update({name: domain for name in (*past, *after)})
    return replace(outline, links=Links(tuple(chains)), domains=tuple(domains.items())), first


def tagged(result: Factor, parts: Sequence[Factor], domains: Mapping[Name, Domain]) -> Factor:
    """A result with how it came about: loops carry numbers alone."""
    mark = result.exactness | combined(parts)
    if is_projected(domains):
        mark = mark | projected(current().name)
    for representation in dict.fromkeys(representations_of(domains).values()):
        mark = mark | representation.mark
    return result if mark.is_exact else result._marked(mark)
