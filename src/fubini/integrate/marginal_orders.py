"""Orders that end with some latents: the density that remains then is their marginal."""

from __future__ import annotations

from collections.abc import Mapping

from fubini.algebra.build import scale
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Node
from fubini.integrate.block import Block, eliminated_together
from fubini.integrate.elimination import Eliminated
from fubini.integrate.search import IntegrationStep, Latent, PartialElimination, Search
from fubini.integrate.student import Student, mixed_over_matrix, scale_distribution

Latents = Mapping[str, Latent]
Terms = tuple[Node, ...]
Names = tuple[str, ...]


def ending_with(terms: Terms, latents: Latents, names: Names) -> PartialElimination:
    """All latents eliminated, these last or in a block from which they are read; else why the others stay."""
    if len(names) > 1:  # normal latents are one Gaussian together, rather than each given others
        block = _together(terms, latents, names)
        if block is not None:
            return block
    direct = _one_by_one(terms, latents, names)
    if not direct.blocked:
        return direct
    return (
        _together(terms, latents, names)
        or _mixed(terms, latents, names)
        or _real_first(terms, latents, names)
        or _by_chance(terms, latents, names)
        or direct
    )


def _one_by_one(terms: Terms, latents: Latents, names: Names) -> PartialElimination:
    """The others in any order, then these."""
    others = {n: latent for n, latent in latents.items() if n not in names}
    reduction = Search(others, [latents[name] for name in names]).best(terms)
    return reduction if reduction.blocked else _then(reduction, latents, names)


def _then(others: PartialElimination, latents: Latents, names: Names) -> PartialElimination:
    final = Search({n: latent for n, latent in latents.items() if n in names}).best(others.terms)
    return PartialElimination(final.terms, (*others.steps, *final.steps), final.blocked)


def _by_chance(terms: Terms, latents: Latents, names: Names) -> PartialElimination | None:
    """The best order of all, where that ends with these."""
    best = Search(latents).best(terms)
    if best.blocked:
        return None
    first = next(place for place, step in enumerate(best.steps) if set(step.names) & set(names))
    last = {name for step in best.steps[first:] for name in step.names}
    return best if last == set(names) else None


def _real_first(terms: Terms, latents: Latents, names: Names) -> PartialElimination | None:
    """The real ones in one block, and these after all others."""
    real = [n for n, latent in latents.items() if latent.domain.kind == "real" and n not in names]
    step = Search(latents).together(terms, real[0]) if real else None
    if step is None or set(names) & set(step.names):
        return None
    others = {n: latent for n, latent in latents.items() if n not in (*step.names, *names)}
    rest = Search(others).best(step.result.terms)
    if rest.blocked:
        return None
    final = _then(rest, latents, names)
    return None if final.blocked else PartialElimination(final.terms, (step, *final.steps), {})


def _mixed(terms: Terms, latents: Latents, names: Names) -> PartialElimination | None:
    """A normal vector after the others, and a matrix that its covariance is a multiple of last: one of Student's t."""
    matrices = {n: latent for n, latent in latents.items() if latent.domain.kind == "positive_definite"}
    if len(names) != 1 or len(matrices) != 1 or latents[names[0]].domain.kind != "real":
        return None
    others = {n: latent for n, latent in latents.items() if n not in (*names, *matrices)}
    first = Search(others).best(terms)
    try:
        block = eliminated_together(first.terms, [latents[names[0]].leaf])
    except NoClosedForm:
        return None
    last = Search(matrices).best(block.terms)
    if first.blocked or last.blocked or not isinstance(last.steps[0].result, Eliminated):
        return None
    (matrix,) = matrices.values()
    student = mixed_over_matrix(block, matrix.leaf, last.steps[0].result)
    if student is None:
        return None
    return PartialElimination(last.terms, (*first.steps, IntegrationStep(names, student), *last.steps), {})


def _together(terms: Terms, latents: Latents, names: Names) -> PartialElimination | None:
    """Normal latents coupled with these first, as one block: their own part of that is their marginal.

    With a variance that all of them share, a block of normals is one of Student's t. For marginals, not for draws.
    """
    step = Search(latents).together(terms, names[0])
    if step is None or not set(names) <= set(step.names):
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
