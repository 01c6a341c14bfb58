"""What an eliminated latent is distributed as, in numbers: a family and its parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fubini.arrays import Data
from fubini.index.chains import chain_evidence
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
        logits, links = potentials(result, evaluation)
        of_each = jax.grad(lambda logits: jnp.sum(chain_evidence(logits, links)))  # dZ/d logit is the probability
        found, axis = of_each(logits), int(result.law.parameters["axis"].args[0])
        return {"probs": jnp.moveaxis(found, -2, axis)}
    if result.law.family == "Categorical":
        return {"probs": jax.nn.softmax(over(evaluation, result.law.parameters["logits"], result.at))}
    at = result.at if result.law.family == "Dirichlet" else result.at[: len(leaf.shape)]
    return {name: over(evaluation, node, at) for name, node in result.law.parameters.items()}


def joint_parameters(result: Block | Student, leaf: Leaf, evaluation: Evaluation) -> dict[str, Data]:
    """Location [… apart, entry] and covariance [… apart, entry, entry] of the entries of a latent that meet."""
    layout, frame = result.layout, result.layout.frame
    solution = evaluation.solution(frame, result.rows, layout.apart)
    count, inner = frame.size, (*frame.axes, frame.cell)
    origin = jnp.zeros(layout.shape)
    centre = solution.at(origin)

    def along(place: Data) -> Data:
        noise = jnp.zeros(count).at[place].set(1.0).reshape(inner)
        return solution.at(origin + noise) - centre

    apart = layout.axes[: len(layout.apart)]

    def entries(unknowns: Data) -> Data:
        found = jnp.moveaxis(placed(layout, unknowns, result.latents)[leaf], apart, range(len(apart)))
        return found.reshape(*found.shape[: len(apart)], -1)

    columns = jax.vmap(lambda unknowns: entries(unknowns))(jax.vmap(along)(jnp.arange(count)))
    covariance = jnp.einsum("n...i,n...j->...ij", columns, columns)
    if isinstance(result, Student):
        df, spread = evaluation.of(result.df).data, evaluation.of(result.spread).data
        return {"df": df, "loc": entries(centre), "covariance": covariance * spread / df}
    return {"loc": entries(centre), "covariance": covariance / evaluation.of(result.scale).data}
