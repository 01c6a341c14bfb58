"""What eliminated variables are distributed as, given those eliminated after them: densities over Expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from fubini import dist
from fubini.arrays import Data
from fubini.bridge.expression import Expression, computed
from fubini.dist.density import Density
from fubini.domains import Domain
from fubini.errors import NoRule
from fubini.families.family import family_of, is_family
from fubini.index.lower import Evaluation
from fubini.index.node import Index, Leaf, Node
from fubini.ops import lift
from fubini.read.leaf_arrays import LeafArrays
from fubini.read.reader import Reader
from fubini.symbolic.block import Block
from fubini.symbolic.elimination import Eliminated
from fubini.symbolic.laws import conditional_parameters, family, joint_parameters
from fubini.symbolic.search import Step
from fubini.symbolic.student import Student
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.term import Name
from fubini.terms.value import Value, Variable


def name_in_dist(kind: str) -> str:
    """What an eliminated variable is, by its name in `fubini.dist`; empty where it has none."""
    if kind.startswith("Multivariate"):
        return kind
    return next(iter(family_of(kind).names), "") if is_family(kind) else ""


@dataclass(frozen=True)
class Setting:
    """What the parameters of conditionals are read from."""

    latents: Mapping[Name, Leaf]
    domains: Mapping[Name, Domain]
    reader: Reader
    axes: Mapping[Index, Name]
    mark: Exactness


def conditionals(step: Step, slots: Mapping[Leaf, Value], at: Setting) -> list[Factor]:
    """The densities of the variables of one step, each given those before it."""
    if isinstance(step.result, (Block, Student)):
        return [_of_block(step, name, step.names[:place], slots, at) for place, name in enumerate(step.names)]
    if not name_in_dist(family(step)):
        raise _no_density(step, f"it is a {family(step)}")
    leaf = at.latents[step.names[0]]
    if family(step) == "Categorical" and not at.domains[step.names[0]].is_finite:
        raise _no_density(step, f"its values are those from {leaf.low:g} to {leaf.high:g}, and its domain has no end")
    return [_of_one(step.result, family(step), step.names[0], slots, at)]


def _no_density(step: Step, why: str) -> NoRule:
    return NoRule(
        f"the distribution of {', '.join(map(repr, step.names))} as one factor",
        expected="a family of `fubini.dist`, over a number, an array of independent ones or a vector",
        nearest=why,
    )


def _of_one(result: Eliminated, kind: str, name: Name, slots: Mapping[Leaf, Value], at: Setting) -> Factor:
    event = result.at if family_of(kind).is_of_vectors else result.at[: len(at.latents[name].shape)]

    def value(node: Node) -> Value:
        used = {slot: arg for slot, arg in slots.items() if slot in node.leaves}
        return computed(Expression(node, used, at.reader, at.axes, event, mark=at.mark))

    parameters = {key: value(node) for key, node in result.law.parameters.items()}
    return Density(getattr(dist, name_in_dist(kind))(**parameters), Variable(name, at.domains[name]))


@dataclass(frozen=True, eq=False)
class Parameter:
    """One parameter of a variable of a block, as a function of the arrays of the slots and of known variables."""

    key: str
    step: Step
    leaf: Leaf
    known: tuple[Leaf, ...]
    slots: tuple[Leaf, ...]
    reader: Reader

    @property
    def __name__(self) -> str:
        return self.key

    def __call__(self, *arrays: Data) -> Data:
        given = dict(zip((*self.slots, *self.known), map(jnp.asarray, arrays), strict=True))
        evaluation = Evaluation(LeafArrays({slot: given[slot] for slot in self.slots}, self.reader))
        result: Any = self.step.result
        if isinstance(result, Block):
            found = conditional_parameters(result, self.leaf, {leaf: given[leaf] for leaf in self.known}, evaluation)
        else:
            found = joint_parameters(result, self.leaf, evaluation)
        if self.key in ("loc", "df"):
            return found[self.key].reshape(self.leaf.shape) if self.key == "loc" else found["df"]
        covariance = found["covariance"]
        return jnp.sqrt(covariance.reshape(self.leaf.shape)) if _is_one(self.leaf) else jnp.linalg.cholesky(covariance)


def _is_one(leaf: Leaf) -> bool:
    return math.prod(leaf.shape) == 1


def _of_block(step: Step, name: Name, before: Sequence[Name], slots: Mapping[Leaf, Value], at: Setting) -> Factor:
    result, leaf = step.result, at.latents[name]
    assert isinstance(result, (Block, Student))
    free = frozenset().union(*(row.free for row in result.rows)) & set(at.axes)
    is_vector = _is_one(leaf) or (len(leaf.shape) == 1 and not result.layout.apart)
    if free or not is_vector or (before and isinstance(result, Student)):
        raise _no_density(step, f"{name!r} depends on others along several axes")
    needed = frozenset().union(*(row.leaves for row in result.rows))
    needed |= result.scale.leaves if isinstance(result, Block) else result.df.leaves | result.spread.leaves
    used = {slot: value for slot, value in slots.items() if slot in needed}
    known = tuple(at.latents[other] for other in before)
    values = (*used.values(), *(Variable(other, at.domains[other]) for other in before))

    def parameter(key: str) -> Value:
        return lift(Parameter(key, step, leaf, known, tuple(used), at.reader))(*values)

    scale = "scale" if _is_one(leaf) else "scale_tril"
    keys = ("loc", scale) if isinstance(result, Block) else ("df", "loc", scale)
    kind = {"scale": "", "scale_tril": "Multivariate"}[scale] + ("Normal" if isinstance(result, Block) else "StudentT")
    return Density(getattr(dist, kind)(**{key: parameter(key) for key in keys}), Variable(name, at.domains[name]))
