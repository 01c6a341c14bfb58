"""What an eliminated latent is distributed as, in numbers: a family and its parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fubini.arrays import Data
from fubini.errors import NoRule
from fubini.index.chains import chain_evidence
from fubini.index.lower import Evaluation
from fubini.index.node import Leaf
from fubini.symbolic.block import Block
from fubini.symbolic.draws import over, placed, potentials
from fubini.symbolic.search import Step
from fubini.symbolic.student import Student

SHAPED = {"Dirichlet": 0, "Categorical": 0}


def family(step: Step) -> str:
    """The family of the latents of a step."""
    if isinstance(step.result, Block):
        return "MultivariateNormal"
    return "MultivariateStudentT" if isinstance(step.result, Student) else step.result.law.family


def parameters(step: Step, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """The parameters of the family over the axes of a latent."""
    result = step.result
    if isinstance(result, (Block, Student)):
        return _joint(result, leaf, evaluation)
    if result.law.family == "Chain":
        logits, links = potentials(result, evaluation)
        of_each = jax.grad(lambda logits: jnp.sum(chain_evidence(logits, links)))  # dZ/d logit is the probability
        return {"probs": of_each(logits)}
    at = result.at if result.law.family in SHAPED else result.at[: len(leaf.shape)]
    return {name: over(evaluation, node, at) for name, node in result.law.parameters.items()}


def _joint(result: Block | Student, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """Location and covariance of the entries that meet: of an axis apart, one of each for each of its places."""
    layout, frame = result.layout, result.layout.frame
    if layout.axes[: len(frame.apart)] != tuple(range(len(frame.apart))) or len(leaf.shape) != len(frame.apart) + 1:
        raise NoRule(
            f"the marginal of {leaf.name!r} as one distribution",
            expected="entries that meet along its last axis alone",
            advice="predict and infer give draws of it",
        )
    solution = evaluation.solution(frame, result.rows)
    count = frame.cell * (frame.length or 1)
    inner = (frame.length, frame.cell) if frame.length is not None else (frame.cell,)
    origin = jnp.zeros((*frame.axes, frame.cell))
    centre = solution.at(origin)

    def along(place: Data) -> Data:
        noise = jnp.zeros(count).at[place].set(1.0).reshape(inner)
        return solution.at(origin + noise) - centre

    root = jax.vmap(along)(jnp.arange(count))
    loc = placed(layout, centre, result.latents)[leaf]
    columns = jax.vmap(lambda unknowns: placed(layout, unknowns, result.latents)[leaf])(root)
    covariance = jnp.einsum("n...i,n...j->...ij", columns, columns)
    if isinstance(result, Student):
        df, spread = evaluation.of(result.df).data, evaluation.of(result.spread).data
        return {"df": df, "loc": loc, "scale_tril": jnp.linalg.cholesky(covariance * spread / df)}
    return {"loc": loc, "covariance_matrix": covariance / evaluation.of(result.scale).data}
