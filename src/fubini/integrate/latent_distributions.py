"""What an eliminated latent is distributed as, in numbers: a family and its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import jax
import numpy as np

from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Leaf
from fubini.base.arrays import Data
from fubini.families.family import family_of
from fubini.integrate.block import Block
from fubini.integrate.configurations import CONFIGURATIONS, coupled_axes
from fubini.integrate.latent_draws import arrays_of, over, paths_of, placed
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import Student
from fubini.numerics.digits import entry_probabilities
from fubini.numerics.finite_chains import log_sum_exp


def family(step: IntegrationStep) -> str:
    """The family of the latents of a step."""
    if isinstance(step.result, Block):
        return "MultivariateNormal"
    return "MultivariateStudentT" if isinstance(step.result, Student) else step.result.distribution.family


def parameters(step: IntegrationStep, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """The parameters of the family over the axes of a latent."""
    result = step.result
    if isinstance(result, (Block, Student)):
        return joint_parameters(result, leaf, evaluation)
    if result.distribution.family == "Chain":
        probabilities = paths_of(result, evaluation).probabilities()
        return {"probs": evaluation.xp.moveaxis(probabilities, -2, int(result.distribution.parameters["axis"].args[0]))}
    if result.distribution.family == CONFIGURATIONS:
        logits = over(evaluation, result.distribution.parameters["logits"], result.at)
        return {"probs": entry_probabilities(logits, leaf.count, leaf.shape, coupled_axes(result.distribution, leaf))}
    if "logits" in result.distribution.parameters:
        logits = over(evaluation, result.distribution.parameters["logits"], result.at)
        return {"probs": evaluation.xp.exp(logits - log_sum_exp(logits)[..., None])}
    at = result.at if family_of(result.distribution.family).is_of_vectors else result.at[: len(leaf.shape)]
    return arrays_of(result.distribution, at, evaluation)


def joint_parameters(result: Block | Student, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """Location [… axes, entry] and covariance [… axes, entry, entry] of coupled entries, along the independent axes."""
    centre, columns = _centre_and_root(result, leaf, evaluation)
    covariance = columns @ evaluation.xp.swapaxes(columns, -1, -2)
    if isinstance(result, Student):
        df, spread = evaluation.of(result.df).data, evaluation.of(result.spread).data
        return {"df": df, "loc": centre, "covariance": covariance * spread / df}
    return {"loc": centre, "covariance": covariance / evaluation.of(result.scale).data}


def block_parameters(result: Block | Student, leaves: Sequence[Leaf], evaluation: Evaluation) -> dict[str, Data]:
    """Location and covariance of all latents of a block without independent axes, end to end; of Student's t its df."""
    xp = evaluation.xp
    centres, roots = zip(*(_centre_and_root(result, leaf, evaluation) for leaf in leaves), strict=True)
    root, loc = xp.concatenate(roots, axis=-2), xp.concatenate(centres, axis=-1)
    covariance = root @ xp.swapaxes(root, -1, -2)
    if isinstance(result, Student):
        df, spread = evaluation.of(result.df).data, evaluation.of(result.spread).data
        return {"df": df, "loc": loc, "covariance": covariance * spread / df}
    return {"loc": loc, "covariance": covariance / evaluation.of(result.scale).data}


def conditional_parameters(
    result: Block, leaf: Leaf, given: Mapping[Leaf, Data], evaluation: Evaluation
) -> dict[str, Data]:
    """Location and covariance of a latent of a block, given values of other latents of it.

    x | y  ~  N(x̂ + S_xy S_yy⁻¹ (y − ŷ), S_xx − S_xy S_yy⁻¹ S_yx)
    """
    xp = evaluation.xp
    centre, root = _centre_and_root(result, leaf, evaluation)
    covariance = root @ xp.swapaxes(root, -1, -2)
    if given:
        others = [_centre_and_root(result, other, evaluation) for other in given]
        values = [_entries(result, xp.asarray(value), xp) for value in given.values()]
        gaps = [value - at for value, (at, _) in zip(values, others, strict=True)]
        gap, over = xp.concatenate(gaps, axis=-1), xp.concatenate([part for _, part in others], axis=-2)
        both = over @ xp.swapaxes(root, -1, -2)
        gain = xp.swapaxes(xp.linalg.solve(over @ xp.swapaxes(over, -1, -2), both), -1, -2)
        centre, covariance = centre + (gain @ gap[..., None])[..., 0], covariance - gain @ both
    return {"loc": centre, "covariance": covariance / evaluation.of(result.scale).data}


def _centre_and_root(result: Block | Student, leaf: Leaf, evaluation: Evaluation) -> tuple[Data, Data]:
    """The solution at the entries of a latent, and columns whose products with themselves add up to (AᵀA)⁻¹."""
    layout, xp = result.layout, evaluation.xp
    evaluation = _at_mixed_matrix(result, evaluation)
    solution = evaluation.solution(layout.frame, result.rows, layout.independent)

    def entries(unknowns: Data) -> Data:
        return _entries(result, placed(layout, unknowns, result.latents)[leaf], xp)

    roots = solution.roots()
    if xp is np:
        columns = np.stack([entries(roots[..., place]) for place in range(layout.frame.size)], axis=-1)
    else:
        columns = jax.vmap(entries, -1, -1)(roots)
    return entries(solution.at(xp.zeros(layout.shape))), columns


def _at_mixed_matrix(result: Block | Student, evaluation: Evaluation) -> Evaluation:
    """The rows of normal latents where the matrix that was integrated over is the scale of Student's t."""
    if not isinstance(result, Student) or result.mixed is None:
        return evaluation
    leaf, at, distribution = result.mixed
    student_matrix = family_of(distribution.family).student_matrix
    assert student_matrix is not None
    arrays: Any = copy(evaluation.arrays)
    arrays[leaf] = student_matrix(arrays_of(distribution, at, evaluation))
    return Evaluation(arrays, xp=evaluation.xp)


def _entries(result: Block | Student, value: Data, xp: Any) -> Data:
    """The entries of a latent, those that are independent along the first axes."""
    axes = result.layout.axes[: len(result.layout.independent)]
    entries = xp.moveaxis(value, axes, range(len(axes)))
    return entries.reshape(*entries.shape[: len(axes)], -1)
