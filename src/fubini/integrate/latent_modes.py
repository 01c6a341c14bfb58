"""Where the conditional of eliminated latents is greatest, given the data and the latents eliminated after them.

log max_x exp(Σ terms)  =  Σ of the terms that the step leaves  +  log max_x p(x | the others)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fubini.algebra.build import ONE, add, call, minus, plus, scale
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.sums import total
from fubini.base.arrays import Data, require
from fubini.errors import DataError
from fubini.families.family import Family, family_of, is_family
from fubini.families.functions import is_never_positive, log_gamma
from fubini.families.parameters import Matrix, Vector
from fubini.integrate.block import Block
from fubini.integrate.configurations import CONFIGURATIONS, coupled_axes
from fubini.integrate.elimination import Eliminated
from fubini.integrate.latent_draws import along_chain, arrays_of, over, paths_of, placed
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import Student
from fubini.numerics.digits import entries_of
from fubini.numerics.finite_chains import largest, log_sum_exp


class LatentMode(NamedTuple):
    """The values of greatest density, and the logarithm of that density over all entries."""

    values: dict[Leaf, Data]
    log_maximum: Data


def mode(step: IntegrationStep, leaves: Sequence[Leaf], evaluation: Evaluation) -> LatentMode:
    """arg max and max of p(latents of a step | the others); refused where the maximum is not inside the support."""
    result = step.result
    if isinstance(result, (Block, Student)):
        solution = evaluation.solution(result.layout.frame, result.rows, result.layout.independent)
        values = placed(result.layout, solution.at(evaluation.xp.zeros(result.layout.shape)), result.latents)
        height = _height_of_block(result) if isinstance(result, Block) else _height_of_student(result)
        return LatentMode(values, evaluation.of(height).data)
    (leaf,) = leaves
    if result.distribution.family == "Chain":
        return _of_chain(result, leaf, evaluation)
    if result.distribution.family == CONFIGURATIONS:
        return _of_configurations(result, leaf, evaluation)
    if "logits" in result.distribution.parameters:
        return _of_labels(result, leaf, evaluation)
    return _of_family(result, leaf, evaluation)


def with_height(step: IntegrationStep, leaves: Sequence[Leaf]) -> IntegrationStep:
    """A maximum in place of an integral: the remaining terms have the greatest density of the latents as a factor."""
    return IntegrationStep(step.names, step.result._replace(terms=(*step.result.terms, height(step, leaves[0]))))


def height(step: IntegrationStep, leaf: Leaf) -> Node:
    """log max p(latents of a step | the others) in index notation; blocked where that has no closed form."""
    result = step.result
    if isinstance(result, Block):
        return _height_of_block(result)
    if isinstance(result, Student):
        return _height_of_student(result)
    record = family_of(result.distribution.family) if is_family(result.distribution.family) else None
    if record is None or record.is_of_labels:
        raise NoClosedForm(leaf, result.distribution.log_normaliser, "a family whose greatest density is known")
    parameters, peak = _parameters(record, result), result.distribution.log_peak
    if (record.mode is None and peak is None) or any(
        is_never_positive(_entry(need)) for need in record.mode_needs(parameters)
    ):
        raise NoClosedForm(
            leaf, result.distribution.log_normaliser, f"a {record.name} with its maximum inside the support"
        )
    places = result.at[: len(leaf.shape)]
    if peak is not None:
        return total(places[: len(places) - record.event_dim], minus(peak, result.distribution.log_normaliser))
    return total(places[:-1] if record.is_of_vectors else places, record.log_maximum(parameters))


def _height_of_block(result: Block) -> Node:
    """½ log |P| − ½ d log 2π, with P the precision"""
    return add(((ONE, -0.5 * result.layout.size * math.log(2 * math.pi)), (result.log_determinant, 0.5)))


def _height_of_student(result: Student) -> Node:
    """log Γ((ν + d)/2) − log Γ(ν/2) − ½ d log(π s) + ½ log |AᵀA|, with s the least of the quadratic form"""
    size = float(result.layout.size)
    half = scale(0.5, result.df)
    return add(
        (
            (log_gamma(plus(half, scale(0.5 * size, ONE))), 1.0),
            (log_gamma(half), -1.0),
            (ONE, -0.5 * size * math.log(math.pi)),
            (call("log", result.spread), -0.5 * size),
            (node("logdet", result.layout.frame, *result.rows), 0.5),
        )
    )


def _of_chain(result: Eliminated, leaf: Leaf, evaluation: Evaluation) -> LatentMode:
    """The likeliest path."""
    paths = paths_of(result, evaluation)
    states, value = paths.best()
    return LatentMode({leaf: along_chain(result, states) + leaf.first}, (value - paths.evidence()).sum())


def _of_configurations(result: Eliminated, leaf: Leaf, evaluation: Evaluation) -> LatentMode:
    """The likeliest configuration of the coupled entries."""
    logits = over(evaluation, result.distribution.parameters["logits"], result.at)
    best = evaluation.xp.argmax(logits, axis=-1)
    values = entries_of(best, leaf.count, leaf.shape, coupled_axes(result.distribution, leaf)) + leaf.first
    return LatentMode({leaf: values}, (largest(logits) - log_sum_exp(logits)).sum())


def _of_labels(result: Eliminated, leaf: Leaf, evaluation: Evaluation) -> LatentMode:
    """The likeliest label of each entry."""
    logits = over(evaluation, result.distribution.parameters["logits"], result.at)
    values = evaluation.xp.argmax(logits, axis=-1) + leaf.first
    return LatentMode({leaf: values}, (largest(logits) - log_sum_exp(logits)).sum())


def _of_family(result: Eliminated, leaf: Leaf, evaluation: Evaluation) -> LatentMode:
    """The mode that the family's record says, where it is inside the support."""
    record = family_of(result.distribution.family)
    places, parameters = result.at[: len(leaf.shape)], _parameters(record, result)
    batch = places[: len(places) - record.event_dim]
    needs = [_entry(need) for need in record.mode_needs(parameters)]
    if (record.mode is None and record.mode_in_numbers is None) or any(map(is_never_positive, needs)):
        raise NoClosedForm(
            leaf, result.distribution.log_normaliser, f"a {record.name} with its maximum inside the support"
        )
    inside = [over(evaluation, need, batch if record.mode is None else places) > 0 for need in needs]
    for need, ok in zip(needs, inside, strict=True):
        require(ok, lambda need=need: _outside(record, leaf, need))
    values, height = _greatest(record, result, evaluation, places, batch)
    for need, ok in zip(needs, inside, strict=True):  # not numbers, where it was traced
        values, height = require(ok.all(), lambda need=need: _outside(record, leaf, need), values, height)
    return LatentMode({leaf: values.astype(int) if leaf.is_integer else values}, height)


def _greatest(
    record: Family, result: Eliminated, evaluation: Evaluation, places: Sequence[Index], batch: Sequence[Index]
) -> tuple[Data, Data]:
    """The mode, in numbers, and the sum of the log-densities there."""
    distribution = result.distribution
    if record.mode is None:
        assert record.mode_in_numbers is not None and distribution.log_peak is not None
        values = record.mode_in_numbers(arrays_of(distribution, result.at, evaluation))
        return values, over(evaluation, minus(distribution.log_peak, distribution.log_normaliser), batch).sum()
    parameters = _parameters(record, result)
    best = record.mode(parameters)
    return over(evaluation, _entry(best), places), over(evaluation, record.log_density(best, parameters), batch).sum()


def _parameters(record: Family, result: Eliminated) -> dict[str, Any]:
    """Return the parameters of a family in index notation: numbers, vectors along the last index, or matrices."""
    given, at = result.distribution.parameters, result.at
    if record.event_dim == 2:
        ranks = {name: record.constraints[name].event_dim for name in given}
        return {name: Matrix(at[-2], at[-1], part) if ranks[name] else part for name, part in given.items()}
    return {name: Vector(at[-1], part) if record.is_of_vectors else part for name, part in given.items()}


def _entry(part: Node | Vector) -> Node:
    return part.entry if isinstance(part, Vector) else part


def _outside(record: Family, leaf: Leaf, need: Node) -> DataError:
    """The error of a density without a maximum inside its support."""
    return DataError(
        f"the most likely value of {leaf.name!r}, which is a {record.name}",
        expected=f"a density with its maximum inside the support: {need} > 0",
        nearest="the density grows towards an end of the support, or is the same everywhere",
        advice="ask for the mean or for draws, or give it a prior with a mode",
    )
