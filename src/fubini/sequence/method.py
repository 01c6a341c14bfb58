"""Which way through a sequence: decided from its structure, its size and the machine, never from its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax

from fubini.base.domains import Domain
from fubini.engines.chain_kernels import MOST_STATES, has_gpu
from fubini.engines.choice import asked_engine
from fubini.engines.wide_chain_kernels import MOST_WIDE_STATES
from fubini.errors import DomainError, EngineError, listed
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.window import is_projected, representations_of
from fubini.terms.factor import Factor, terms_of

KERNEL_QUESTIONS = {
    "evidence": "evidence()",
    "smoothed": "smooth()",
    "smoothed_pairs": "smooth_pairs()",
    "best": "argmax()",
    "drawn": "sample()",
}
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


def choose_kernels(
    asked: str | None, outline: SequenceOutline, question: str, factors: Sequence[Factor], draws: int = 1
) -> str:
    """Whether fused kernels answer a question: "asked" by name, "chosen" where the data are on a GPU, or neither."""
    if asked_engine() not in (None, "kernel"):
        return ""
    obstacle = _kernel_obstacle(asked, outline, question, factors, draws)
    if not obstacle:
        return "asked" if asked_engine() else "chosen"
    if asked_engine():
        served = ", ".join(KERNEL_QUESTIONS.values())
        raise EngineError(
            f"the engine 'kernel' for the {question} of a chain: {obstacle}",
            expected=f"{served} of tables with at most {MOST_WIDE_STATES} states, on a GPU",
            advice="leave the engine to the data: without fb.engine(…) steps are scanned where kernels do not serve",
        )
    return ""


def _kernel_obstacle(
    asked: str | None, outline: SequenceOutline, question: str, factors: Sequence[Factor], draws: int
) -> str:
    """What fused kernels do not take, in words; nothing where they take all of it."""
    links, domains = outline.links, dict(outline.domains)
    leaves = [leaf for factor in factors for term in terms_of(factor) for leaf in term.leaves()]
    if not has_gpu(leaves):
        return "its data are not on a GPU" if jax.default_backend() == "gpu" else "this machine has no GPU"
    if question not in KERNEL_QUESTIONS:
        return "kernels do not answer it"
    if asked is not None:
        return f"method={asked!r} is a scan"
    if is_projected(domains) or representations_of(domains):
        return "its states are projected or represented"
    if question in ("best", "drawn") and outline.globals:
        return f"{listed(outline.globals)} would be chosen with the states"
    if links.lag > 1:
        return f"its states look {links.lag} steps back"
    if not all(domains[name].is_finite for name in links.before):
        return f"{', '.join(repr(name) for name in links.before if not domains[name].is_finite)} is no table's state"
    size = size_of([domains[name] for name in links.before])
    others = {name: domain for factor in factors for name, domain in factor.inputs.items()}
    states = (outline.time, *links.before, *links.after)
    sequences = size_of([domain for name, domain in others.items() if domain.is_finite and name not in states])
    if size > MOST_WIDE_STATES:
        return f"it has {size} states"
    if question in ("best", "drawn") and (elements := size * outline.length * sequences * draws) > MOST_ELEMENTS:
        return f"the states before every state would be {elements:,} numbers"
    elements = size * size * outline.length * sequences
    if size > MOST_STATES and elements > MOST_ELEMENTS:  # the scan beside the kernels would hold as many
        return f"all pairs of states at once would be {elements:,} numbers"
    return ""


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
