"""What an eliminated latent is distributed as, in numbers: a family and its parameters."""

from __future__ import annotations

import jax
import numpy as np

from fubini.arrays import Data
from fubini.index.chains import log_sum_exp, state_probabilities
from fubini.index.lower import Evaluation
from fubini.index.node import Leaf
from fubini.symbolic.block import Block
from fubini.symbolic.draws import over, placed, potentials
from fubini.symbolic.search import Step
from fubini.symbolic.student import Student


def family(step: Step) -> str:
    """The family of the latents of a step."""
    if isinstance(step.result, Block):
        return "MultivariateNormal"
    return "MultivariateStudentT" if isinstance(step.result, Student) else step.result.law.family


def parameters(step: Step, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """The parameters of the family over the axes of a latent."""
    result = step.result
    if isinstance(result, (Block, Student)):
        return joint_parameters(result, leaf, evaluation)
    if result.law.family == "Chain":
        found = state_probabilities(*potentials(result, evaluation))
        return {"probs": evaluation.xp.moveaxis(found, -2, int(result.law.parameters["axis"].args[0]))}
    if result.law.family == "Categorical":
        logits = over(evaluation, result.law.parameters["logits"], result.at)
        return {"probs": evaluation.xp.exp(logits - log_sum_exp(logits)[..., None])}
    at = result.at if result.law.family == "Dirichlet" else result.at[: len(leaf.shape)]
    return {name: over(evaluation, node, at) for name, node in result.law.parameters.items()}


def joint_parameters(result: Block | Student, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """Location [… apart, entry] and covariance [… apart, entry, entry] of the entries of a latent that meet."""
    layout, xp = result.layout, evaluation.xp
    solution = evaluation.solution(layout.frame, result.rows, layout.apart)
    apart = layout.axes[: len(layout.apart)]

    def entries(unknowns: Data) -> Data:
        found = xp.moveaxis(placed(layout, unknowns, result.latents)[leaf], apart, range(len(apart)))
        return found.reshape(*found.shape[: len(apart)], -1)

    centre = entries(solution.at(xp.zeros(layout.shape)))
    roots = solution.roots()
    if xp is np:
        columns = np.stack([entries(roots[..., place]) for place in range(layout.frame.size)], axis=-1)
    else:
        columns = jax.vmap(entries, -1, -1)(roots)
    covariance = columns @ xp.swapaxes(columns, -1, -2)
    if isinstance(result, Student):
        df, spread = evaluation.of(result.df).data, evaluation.of(result.spread).data
        return {"df": df, "loc": centre, "covariance": covariance * spread / df}
    return {"loc": centre, "covariance": covariance / evaluation.of(result.scale).data}
