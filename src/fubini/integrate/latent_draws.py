"""Latents drawn back: from what each is distributed as, given the data and the latents eliminated after it."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from fubini.algebra.axes import Axes, aligned
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.state_paths import Paths
from fubini.base.arrays import Data
from fubini.families.family import family_of
from fubini.families.signature import Recognised
from fubini.integrate.block import Block
from fubini.integrate.configurations import CONFIGURATIONS, coupled_axes
from fubini.integrate.coupling import LatentLayout
from fubini.integrate.elimination import Eliminated
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import Student
from fubini.numerics.arithmetic import xp_of
from fubini.numerics.digits import entries_of


def over(evaluation: Evaluation, part: Node, at: Sequence[Index]) -> Data:
    """The numbers of a node over these indices, whether it has them or not."""
    numbers: Axes = evaluation.of(part)
    return evaluation.xp.broadcast_to(aligned(numbers, tuple(at)), tuple(i.size for i in at))


def arrays_of(distribution: Recognised, at: Sequence[Index], evaluation: Evaluation) -> dict[str, Data]:
    """The parameters of a family in numbers; of one of vectors or matrices, each along its own axes."""
    record = family_of(distribution.family)
    return {
        name: over(evaluation, part, record.places(name, at) if record.is_of_vectors else at)
        for name, part in distribution.parameters.items()
    }


def drawn(step: IntegrationStep, leaves: Sequence[Leaf], key: Data, evaluation: Evaluation) -> dict[Leaf, Data]:
    """One draw of the latents of a step."""
    result = step.result
    if isinstance(result, Block):
        noise = jax.random.normal(key, result.layout.shape)
        return placed(result.layout, block_at(result, evaluation, noise), result.latents)
    if isinstance(result, Student):
        return placed(result.layout, _student(result, key, evaluation), result.latents)
    (leaf,) = leaves
    return {leaf: _entries(result, key, evaluation, leaf)}


def block_at(result: Block, evaluation: Evaluation, noise: Data) -> Data:
    """The unknowns of a block, in the shape of its layout: mean + root of the covariance · noise."""
    solution = evaluation.solution(result.layout.frame, result.rows, result.layout.independent, is_drawn=True)
    return solution.at(noise / jnp.sqrt(evaluation.of(result.scale).data))


def _student(result: Student, key: Data, evaluation: Evaluation) -> Data:
    first, second = jax.random.split(key)
    df, spread = evaluation.of(result.df).data, evaluation.of(result.spread).data
    mixed = jax.random.gamma(first, 0.5 * df) / (0.5 * df)
    noise = jax.random.normal(second, result.layout.shape) * jnp.sqrt(spread / df / mixed)
    return evaluation.solution(result.layout.frame, result.rows, result.layout.independent).at(noise)


def placed(layout: LatentLayout, unknowns: Data, latents: Sequence[Leaf]) -> dict[Leaf, Data]:
    """Unknowns in the shape of a layout as the arrays of the latents."""
    xp = xp_of(unknowns)
    if layout.flipped:
        unknowns = xp.flip(unknowns, axis=len(layout.independent))
    arrays: dict[Leaf, Data] = {}
    for latent in latents:
        others = [axis for axis in range(len(latent.shape)) if axis not in layout.axes]
        shape = (*layout.shape[:-1], *(latent.shape[axis] for axis in others))
        count = 1
        for axis in others:
            count *= latent.shape[axis]
        start = layout.first[latent]
        entries = unknowns[..., start : start + count].reshape(shape)
        order = (*layout.axes, *others)
        arrays[latent] = xp.transpose(entries, [order.index(axis) for axis in range(len(order))])
    return arrays


def _entries(result: Eliminated, key: Data, evaluation: Evaluation, leaf: Leaf) -> Data:
    distribution = result.distribution
    if distribution.family == "Chain":
        return along_chain(result, paths_of(result, evaluation).draw(key)) + leaf.first
    if distribution.family == CONFIGURATIONS:
        chosen = jax.random.categorical(key, over(evaluation, distribution.parameters["logits"], result.at))
        return entries_of(chosen, leaf.count, leaf.shape, coupled_axes(distribution, leaf)) + leaf.first
    record = family_of(distribution.family)
    assert record.draw is not None, f"no draws of a {record.name}"
    at = result.at if record.is_of_vectors else result.at[: len(leaf.shape)]
    drawn_values = record.draw(key, arrays_of(distribution, at, evaluation))
    is_label = record.is_of_vectors and leaf.is_integer
    return drawn_values + leaf.first if is_label else drawn_values


def along_chain(result: Eliminated, states: Data) -> Data:
    """States [… batch, t] in the shape of the latent: the chain axis is the one that the batch lacks."""
    return xp_of(states).moveaxis(states, -1, int(result.distribution.parameters["axis"].args[0]))


def paths_of(result: Eliminated, evaluation: Evaluation) -> Paths:
    """The paths of an eliminated chain."""
    *batch, t, k, following = result.at
    logit, link = result.distribution.parameters["logits"], result.distribution.parameters["links"]
    logits = over(evaluation, logit, (*batch, t, k))
    links = over(evaluation, link, (*batch, t, k, following))
    return evaluation.paths(logits, links, t, batch, logit, link)
