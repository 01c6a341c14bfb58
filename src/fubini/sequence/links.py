"""Links: how each step of a sequence hands its state on to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fubini.base.domains import Domain
from fubini.base.names import Bound, Name
from fubini.errors import DomainError, NameClash, UnknownName, closest, listed
from fubini.terms.factor import Factor, rename

Names = tuple[Name, ...]


@dataclass(frozen=True)
class Link:
    """One chain: its states before and after a step, oldest first. All but the last after are those before, moved up.

    >>> Link(("c", "c1"), ("c2", "c3")).moves
    {'c1': 'c', 'c3': 'c1'}
    """

    before: Names
    after: Names

    @property
    def oldest(self) -> Name:
        """The state that a step leaves behind."""
        return self.before[0]

    @property
    def newest(self) -> Name:
        """The state that a step adds."""
        return self.after[-1]

    @property
    def moves(self) -> dict[Name, Name]:
        """The name before the next step of each state that remains."""
        return dict(zip((*self.before[1:], self.newest), self.before, strict=True))

    @property
    def aliases(self) -> dict[Name, Name]:
        """The states after a step that are states before it again."""
        return dict(zip(self.after[:-1], self.before[1:], strict=True))


@dataclass(frozen=True)
class Links:
    """The chains that a step advances together."""

    chains: tuple[Link, ...]

    @property
    def before(self) -> Names:
        """The state before a step."""
        return tuple(name for link in self.chains for name in link.before)

    @property
    def after(self) -> Names:
        """The state after a step."""
        return tuple(name for link in self.chains for name in link.after)

    @property
    def oldest(self) -> Names:
        """The states that a step sums out."""
        return tuple(link.oldest for link in self.chains)

    @property
    def newest(self) -> Names:
        """The states that a step adds."""
        return tuple(link.newest for link in self.chains)

    @property
    def moves(self) -> dict[Name, Name]:
        """The name before the next step of each state that remains."""
        return {old: new for link in self.chains for old, new in link.moves.items()}

    @property
    def to_after(self) -> dict[Name, Name]:
        """The states before the next step, under their names after this one."""
        return dict(zip(self.before, self.after, strict=True))

    @property
    def to_before(self) -> dict[Name, Name]:
        """The states after a step, under their names before the next one."""
        return dict(zip(self.after, self.before, strict=True))

    @property
    def moves_back(self) -> dict[Name, Name]:
        """The name in this step of each state before the next one."""
        return {before: name for name, before in self.moves.items()}

    @property
    def lag(self) -> int:
        """The number of steps back that the longest chain looks."""
        return max((len(link.before) for link in self.chains), default=1)

    def renamed(self, names: Mapping[Name, Name]) -> Links:
        """The same links between other names."""

        def new(group: Names) -> Names:
            return tuple(names.get(name, name) for name in group)

        return Links(tuple(Link(new(link.before), new(link.after)) for link in self.chains))


@lru_cache(maxsize=4096)
def fixed_bound(label: str) -> Bound:
    """A bound name that is the same each time, so that compiled functions can be looked up."""
    return Bound(label)


def links_of(step: Mapping[Any, Any]) -> Links:
    """A step map as the user writes it: {"x": "x_next"}, or groups of lagged states.

    >>> links_of({"x": "x_next", ("c", "c1"): ("c2", "c3")}).newest
    ('x_next', 'c3')
    """
    if not isinstance(step, Mapping):
        raise DomainError(f"the step {step!r}", expected='a mapping of states, such as step={"x": "x_next"}')
    links = Links(tuple(_link(before, after) for before, after in step.items()))
    names = links.before + links.after
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise NameClash(
            f"the step {dict(step)!r}",
            expected="a one-to-one map from states before a step to states after it, all with names of their own",
            nearest=f"{twice[0]!r} stands there more than once",
            advice="give the state after the step another name than the one before it, and each chain its own",
        )
    return links


def _link(before: Any, after: Any) -> Link:
    pair = tuple((item,) if isinstance(item, str) else tuple(item) for item in (before, after))
    if len(pair[0]) != len(pair[1]) or not pair[0]:
        raise DomainError(
            f"the step {before!r}: {after!r}",
            expected="as many states after the step as before it, at least one",
            nearest=f"{len(pair[0])} before and {len(pair[1])} after",
        )
    return Link(*pair)


def linked(factor: Factor, links: Links) -> tuple[Factor, dict[Name, Domain]]:
    """The factor with states that are the same under one name, and the domain of every state."""
    aliases = {new: old for link in links.chains for new, old in link.aliases.items() if new in factor.inputs}
    domains: dict[Name, Domain] = {}
    for link in links.chains:
        states = {name: factor.inputs[name] for name in (*link.before, *link.after) if name in factor.inputs}
        if not states:
            raise UnknownName(
                f"the step {listed(link.before)} → {listed(link.after)} of {factor}",
                expected=f"states among the inputs of the factor: {listed(factor.inputs)}",
                nearest=closest(link.newest, factor.inputs),
            )
        name, domain = next(iter(states.items()))
        for other, other_domain in states.items():
            if other_domain != domain:
                raise DomainError(
                    f"the step {listed(link.before)} → {listed(link.after)}",
                    expected=f"one domain for a state before and after: {name!r} is {domain!r}",
                    nearest=f"{other!r} is {other_domain!r}",
                )
        domains.update((name, domain) for name in (*link.before, *link.after))
    both = [new for new, old in aliases.items() if old in factor.inputs]
    if both:
        clash = aliases[both[0]]
        raise NameClash(
            f"the step factor {factor}",
            expected=f"one of the names {clash!r} and {both[0]!r}, which are the same state",
            advice=f"write {clash!r} for both",
        )
    return (rename(factor, aliases) if aliases else factor), domains


def length_of(factor: Factor, time: Name, length: int | None) -> int:
    """The number of steps."""
    if not isinstance(factor, Factor):
        raise DomainError(f"a sequence of {factor}", expected="a factor for each step")
    domain = factor.inputs.get(time)
    if domain is None and length is None:
        raise DomainError(
            f"a sequence over {time!r} of {factor}, which has no {time!r}",
            expected=f"a factor with the input {time!r}, or length=",
            nearest=closest(time, factor.inputs),
            advice="say how many steps there are: length=10",
        )
    if domain is not None and not domain.is_finite:
        raise DomainError(f"the time {time!r}: {domain!r}", expected="a bounded integer")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
        raise DomainError(f"length={length!r}", expected="a whole number of steps, at least 1")
    if domain is not None and length is not None and length != domain.extent:
        raise DomainError(
            f"length={length} of a sequence whose factor has {domain.extent} steps",
            expected="the same number, or no length=",
            advice="mask the steps without observations: likelihood ** mask",
        )
    return length if domain is None else domain.extent  # type: ignore[return-value]
