"""Which way through a sequence: decided from its structure, its size and the machine, never from its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax

from fubini.base.domains import Domain
from fubini.errors import DomainError
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.window import is_projected, representations_of
from fubini.terms.factor import Factor

METHODS = ("sequential", "parallel", "chunks")

# Elements of all pairs of states, over all times, that a parallel scan may hold; beyond, it goes by chunks.
MOST_ELEMENTS = 2**28


@dataclass(frozen=True)
class MethodChoice:
    """A method, and why."""

    method: str
    reason: str


def size_of(domains: Sequence[Domain]) -> int:
    """The size of one state: cells times elements."""
    cells = math.prod(domain.extent for domain in domains if domain.is_finite)
    elements = sum(math.prod(domain.shape) for domain in domains if not domain.is_finite)
    return cells * max(1, elements)


def choose(asked: str | None, outline: SequenceOutline, factors: Sequence[Factor], pushed: bool) -> MethodChoice:
    """The method asked for, or the one that fits; `pushed` says that a start is taken in."""
    links, length = outline.links, outline.length
    if asked is not None and asked not in METHODS:
        raise DomainError(f"method={asked!r}", expected=f"one of {', '.join(map(repr, METHODS))}, or None to choose")
    if is_projected(dict(outline.domains)) or representations_of(dict(outline.domains)):
        if asked not in (None, "sequential"):
            raise DomainError(
                f"method={asked!r} under a projection",
                expected="sequential: a projection after each step is not associative",
                advice="leave method= out",
            )
        return MethodChoice("sequential", "a projection after each step is not associative")
    if asked is not None:
        return MethodChoice(asked, "as asked")
    size = size_of([domain for name, domain in outline.domains if name in links.before])
    platform = jax.default_backend()
    if platform == "cpu" and pushed:
        return MethodChoice(
            "sequential", f"on a {platform} a vector scan does {size} times less work than a parallel scan"
        )
    if platform == "cpu":
        return MethodChoice("parallel", "no state is summed: products of pairs of steps, many at once")
    batch = {name: domain for factor in factors for name, domain in factor.inputs.items() if domain.is_finite}
    others = math.prod(domain.extent for name, domain in batch.items() if name not in (*links.before, *links.after))
    elements = others * size * size * (1 if outline.time in batch else length)
    if elements > MOST_ELEMENTS and pushed and links.lag == 1:
        return MethodChoice("chunks", f"all pairs of states at once would be {elements:,} numbers")
    return MethodChoice("parallel", f"on a {platform} {length:,} steps take {max(1, length.bit_length())} rounds")
