"""The distribution of many normal variables whose precision is structured, as one factor."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.algebra.evaluation import Evaluation
from fubini.base.arrays import double_precision
from fubini.base.names import Name
from fubini.bridge.expression import Expression
from fubini.bridge.integrand import Integrand
from fubini.factors.kronecker_gaussian import KroneckerGaussian
from fubini.factors.large_gaussian import LargeGaussian
from fubini.factors.recursion_gaussian import RecursionGaussian
from fubini.factors.sparse_gaussian import SparseGaussian
from fubini.integrate.block import Block
from fubini.integrate.search import IntegrationStep
from fubini.numerics.least_squares import DENSE
from fubini.numerics.recursion_rows import scaled_rows
from fubini.numerics.sparse_least_squares import SparseRows


def is_large(step: IntegrationStep) -> bool:
    """Whether its variables are normals with a structured precision, too many for a dense covariance."""
    frame = step.result.layout.frame if isinstance(step.result, Block) else None
    return frame is not None and not frame.is_dense and frame.cell > DENSE


def large_conditional(
    step: IntegrationStep, names: Sequence[Name], whole: Expression, integrand: Integrand, is_on_jax: bool
) -> LargeGaussian | None:
    """The density of some variables of a step; None where `whole`, all that it is made of, has variables left."""
    evaluation = whole.at_arguments()
    if evaluation is None:
        return None
    if evaluation.xp is not np:
        return _density(step, names, evaluation, integrand, whole)
    with double_precision(), eval_context(), np.errstate(all="ignore"):
        made = _density(step, names, evaluation, integrand, whole)
    return jax.tree_util.tree_map(jnp.asarray, made) if is_on_jax else made


def _density(
    step: IntegrationStep, names: Sequence[Name], evaluation: Evaluation, integrand: Integrand, whole: Expression
) -> LargeGaussian:
    result, xp = step.result, evaluation.xp
    assert isinstance(result, Block)
    frame, layout = result.layout.frame, result.layout
    centre = evaluation.solution(frame, result.rows, layout.independent).at(xp.zeros(layout.shape))
    if frame.kronecker is not None:
        (name,), problem, scale = step.names, evaluation.kronecker_rows(result.rows), evaluation.of(result.scale).data
        left, noise = xp.sqrt(scale * problem.weight) * problem.left, scale * problem.noise
        return KroneckerGaussian(centre, left, problem.right, noise, [(name, integrand.domains[name])], whole.mark)
    if frame.recursions is not None:
        scaled = scaled_rows(evaluation.recursion_rows(frame.recursions, result.rows), evaluation.of(result.scale).data)
        reals = [(name, integrand.domains[name]) for name in step.names]
        return RecursionGaussian(centre, scaled, frame.recursions, reals, names, whole.mark)
    rows, sizes = evaluation.sparse_rows(frame, result.rows)
    entries = rows.entries * xp.sqrt(evaluation.of(result.scale).data)
    reals = [(name, integrand.domains[name]) for name in step.names]
    return SparseGaussian(centre, SparseRows(entries, rows.columns, rows.right), sizes, reals, names, whole.mark)
