"""Which latents to eliminate, and in which order: attempts cost milliseconds, so they are made.

Feasibility depends on the order. Locations go before scales, and leaves before roots: real latents first, the last
written first; latents that meet in squares go together; what is blocked is tried again when others are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.domains import Domain
from fubini.index.node import Leaf, Node
from fubini.symbolic.block import Block, eliminated_together
from fubini.symbolic.collect import Blocked
from fubini.symbolic.elimination import Eliminated, eliminated


class Latent(NamedTuple):
    """A site to be eliminated: the leaf that stands for it, and its domain."""

    leaf: Leaf
    domain: Domain


class Step(NamedTuple):
    """What was eliminated, and how it is distributed given what was left then."""

    names: tuple[str, ...]
    result: Eliminated | Block


class Reduced(NamedTuple):
    """The terms that are left after some eliminations, and why the other latents stayed."""

    terms: tuple[Node, ...]
    steps: tuple[Step, ...]
    blocked: Mapping[str, Blocked]


ORDER = {"real": 0, "bint": 1, "simplex": 2}  # the others after these


def reduced(terms: Sequence[Node], latents: Mapping[str, Latent]) -> Reduced:
    """As many eliminations as can be made; `latents` are in the order in which they were written."""
    left = tuple(terms)
    steps: list[Step] = []
    waiting = sorted(reversed(list(latents)), key=lambda name: ORDER.get(latents[name].domain.kind, 3))
    blocked: dict[str, Blocked] = {}
    while True:
        step = None
        for name in waiting:
            try:
                step = _attempted(left, name, waiting, latents)
                break
            except Blocked as error:
                blocked[name] = error
        if step is None:
            return Reduced(left, tuple(steps), {name: blocked[name] for name in waiting})
        left = step.result.terms
        steps.append(step)
        waiting = [name for name in waiting if name not in step.names]


def _attempted(terms: tuple[Node, ...], name: str, waiting: list[str], latents: Mapping[str, Latent]) -> Step:
    leaf, domain = latents[name]
    try:
        return Step((name,), eliminated(terms, leaf, domain.kind, domain.size))
    except Blocked:
        if domain.kind != "real":
            raise
    together = _coupled(terms, name, waiting, latents)
    return Step(together, eliminated_together(terms, [latents[other].leaf for other in together]))


def _coupled(terms: tuple[Node, ...], name: str, waiting: list[str], latents: Mapping[str, Latent]) -> tuple[str, ...]:
    """The real latents that share terms with this one, and those that share terms with them."""
    found = [name]
    for one in found:
        near = [term for term in terms if latents[one].leaf in term.leaves]
        for other in waiting:
            real = latents[other].domain.kind == "real"
            if real and other not in found and any(latents[other].leaf in term.leaves for term in near):
                found.append(other)
    return tuple(found)
