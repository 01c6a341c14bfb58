"""Orders that end with one latent: the density that remains then is its marginal."""

from __future__ import annotations

from collections.abc import Mapping

from fubini.algebra.build import scale
from fubini.algebra.node import Node
from fubini.integrate.block import Block
from fubini.integrate.elimination import Eliminated
from fubini.integrate.search import IntegrationStep, Latent, PartialElimination, Search
from fubini.integrate.student import Student, scale_distribution

Latents = Mapping[str, Latent]
Terms = tuple[Node, ...]


def ending_with(terms: Terms, latents: Latents, name: str) -> PartialElimination:
    """All latents eliminated, this one last or in a block from which it is read; else why the others stay."""
    direct = _one_by_one(terms, latents, name)
    if not direct.blocked:
        return direct
    return (
        _together(terms, latents, name)
        or _real_first(terms, latents, name)
        or _by_chance(terms, latents, name)
        or direct
    )


def _one_by_one(terms: Terms, latents: Latents, name: str) -> PartialElimination:
    """The others in any order, then this one."""
    others = {n: latent for n, latent in latents.items() if n != name}
    reduction = Search(others, (latents[name],)).best(terms)
    return reduction if reduction.blocked else _then(reduction, latents, name)


def _then(others: PartialElimination, latents: Latents, name: str) -> PartialElimination:
    final = Search({name: latents[name]}).best(others.terms)
    return PartialElimination(final.terms, (*others.steps, *final.steps), final.blocked)


def _by_chance(terms: Terms, latents: Latents, name: str) -> PartialElimination | None:
    """The best order of all, where that ends with this one."""
    best = Search(latents).best(terms)
    return best if not best.blocked and best.steps[-1].names == (name,) else None


def _real_first(terms: Terms, latents: Latents, name: str) -> PartialElimination | None:
    """The real ones in one block, and this one after all others."""
    real = [n for n, latent in latents.items() if latent.domain.kind == "real" and n != name]
    step = Search(latents).together(terms, real[0]) if real else None
    if step is None or name in step.names:
        return None
    others = {n: latent for n, latent in latents.items() if n not in step.names and n != name}
    rest = Search(others).best(step.result.terms)
    if rest.blocked:
        return None
    final = _then(rest, latents, name)
    return None if final.blocked else PartialElimination(final.terms, (step, *final.steps), {})


def _together(terms: Terms, latents: Latents, name: str) -> PartialElimination | None:
    """Normal latents coupled with this one first, as one block: its own part of that is its marginal.

    With a variance that all of them share, a block of normals is one of Student's t. For marginals, not for draws.
    """
    step = Search(latents).together(terms, name)
    if step is None:
        return None
    others = {n: latent for n, latent in latents.items() if n not in step.names}
    rest = Search(others).best(step.result.terms)
    if rest.blocked:
        return None
    if not rest.steps:
        return PartialElimination(rest.terms, (step,), {})
    block, last = step.result, rest.steps[0]
    if len(rest.steps) != 1 or not isinstance(last.result, Eliminated) or not isinstance(block, Block):
        return None
    distribution = scale_distribution(block, latents[last.names[0]].leaf, last.result.distribution)
    if distribution is None:
        return None
    shape, rate = distribution
    student = Student(rest.terms, block.latents, block.layout, block.rows, scale(2.0, shape), scale(2.0, rate))
    return PartialElimination(rest.terms, (IntegrationStep(step.names, student), last), {})
