"""Parameters of what was eliminated, where they are no single node: those of blocks, chains and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.algebra.build import ZERO
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.base.arrays import Data, digest
from fubini.base.domains import Real
from fubini.base.names import Name
from fubini.bridge.expression import Expression
from fubini.integrate.block import Block
from fubini.integrate.elimination import Eliminated
from fubini.integrate.latent_distributions import block_parameters, conditional_parameters, parameters
from fubini.integrate.latent_draws import drawn, over
from fubini.integrate.latent_modes import mode
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import Student
from fubini.numerics.finite_chains import log_sum_exp
from fubini.read.jaxpr_reader import Reader
from fubini.show.notation import Notation, Symbol
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.fields import static_field
from fubini.terms.value import Value

WORDS = Leaf("words", (2,), is_integer=True)  # of the key of a draw


class How:
    """A step, compared by identity: reused with its plan, it reuses what was compiled for it.

    Inside `with how:` parameters of one variable are computed once for the same arrays, all together.
    """

    __slots__ = ("is_held", "made", "step")

    def __init__(self, step: IntegrationStep) -> None:
        self.step, self.is_held = step, False
        self.made: dict[tuple, Mapping[str, Data]] = {}

    def __enter__(self) -> How:
        self.is_held = True
        return self

    def __exit__(self, *error: object) -> None:
        self.is_held = False
        self.made.clear()

    def parameters(self, data: Sequence[Data], make: Callable[[], Mapping[str, Data]]) -> Mapping[str, Data]:
        """Return the parameters at these arrays, made when they are first asked for."""
        if not self.is_held:
            return make()
        key = tuple((np.shape(array), digest(np.asarray(array))) for array in data)
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, How) and self.step is other.step

    def __hash__(self) -> int:
        return id(self.step)


class Parameter(Expression):
    """One parameter of a variable of a step, as a function of the slots, and of known variables of the same block."""

    which: str = static_field()
    how: How = static_field()
    leaf: Leaf = static_field()
    given: tuple[Leaf, ...] = static_field()

    def __init__(
        self,
        which: str,
        how: How,
        leaf: Leaf,
        shape: tuple[int, ...],
        slots: Mapping[Leaf, Value],
        reader: Reader,
        axes: Mapping[Index, Name] | None = None,
        given: Sequence[Leaf] = (),
        mark: Exactness = exactly,
    ) -> None:
        whole = nodes_of(how.step)
        used = {slot: arg for slot, arg in slots.items() if slot in whole.leaves or slot in given}  # of the same block
        super().__init__(whole, used, reader, axes, (), Real, mark)
        self._set(which=which, how=how, leaf=leaf, given=tuple(given), output=Real.with_shape(shape))

    def _with(self, args: Sequence[Value], names: Sequence[Name]) -> Parameter:
        slots, axes = dict(zip(self.slots, args, strict=True)), dict(zip(self.axes, names, strict=True))
        how, shape = self.how, self.output.shape
        return Parameter(self.which, how, self.leaf, shape, slots, self.reader, axes, self.given, self.mark)

    def _evaluated(self, data: Sequence[Data], xp: Any) -> Data:
        evaluation = self._evaluation(data, xp)
        result = self.how.step.result
        if self.which == "probs" and self.axes:
            logits = result.distribution.parameters["logits"]  # type: ignore[union-attr]
            scores = over(evaluation, logits, (*self.axes, *result.at))  # type: ignore[union-attr]
            return _from_zero(xp.exp(scores - log_sum_exp(scores)[..., None]), self.leaf, xp)
        if self.which == "draw":
            key = jax.random.wrap_key_data(evaluation.arrays[WORDS], impl="threefry2x32")
            leaves = [self.leaf] if isinstance(result, Eliminated) else list(result.latents)
            values = drawn(self.how.step, leaves, key, evaluation)
            return jnp.concatenate([jnp.ravel(values[leaf]).astype(float) for leaf in leaves])
        if self.which == "mode":
            leaves = [self.leaf] if isinstance(result, Eliminated) else list(result.latents)
            return xp.asarray(mode(self.how.step, leaves, evaluation).values[self.leaf]).reshape(self.output.shape)
        if self.which.startswith("whole"):
            assert isinstance(result, (Block, Student))
            return xp.asarray(block_parameters(result, self.given, evaluation)[self.which.removeprefix("whole ")])
        made = self.how.parameters(data, self._made(evaluation)) if xp is np else self._made(evaluation)()
        if self.which == "probs":
            return _from_zero(made["probs"], self.leaf, xp)
        if self.which == "scale":
            return xp.sqrt(made["covariance"]).reshape(self.output.shape)
        if self.which == "scale_tril":
            return _root(made["covariance"], xp)
        return xp.asarray(made[self.which]).reshape(self.output.shape)

    @cached_property
    def _is_quick(self) -> bool:
        return self.which != "draw" and super()._is_quick

    def _made(self, evaluation: Evaluation) -> Callable[[], Mapping[str, Data]]:
        result = self.how.step.result
        if not isinstance(result, Block):
            return lambda: parameters(self.how.step, self.leaf, evaluation)
        known = {leaf: evaluation.arrays[leaf] for leaf in self.given}
        return lambda: conditional_parameters(result, self.leaf, known, evaluation)

    def notation(self) -> Notation:
        return Symbol(f"{self.which} of {self.leaf.name}")


def nodes_of(step: IntegrationStep) -> Node:
    """A node that reads all that the distribution of a step is computed from."""
    result = step.result
    if isinstance(result, Block):
        return node("call", "parameters", node("logdet", result.layout.frame, *result.rows), result.scale)
    if isinstance(result, Student):
        mixed = () if result.mixed is None else result.mixed.distribution.parameters.values()
        solution = node("logdet", result.layout.frame, *result.rows)
        return node("call", "parameters", solution, result.df, result.spread, *mixed)
    return node("call", "parameters", *result.distribution.parameters.values(), ZERO)


def _from_zero(probs: Data, leaf: Leaf, xp: Any) -> Data:
    """Values count from 0: those before the first have no weight."""
    return xp.pad(probs, [(0, 0)] * (probs.ndim - 1) + [(leaf.first, 0)])


def _root(covariance: Data, xp: Any) -> Data:
    """The Cholesky root; of a matrix that rounding made singular, as next to a scale of 0, with a ridge of rounding."""
    size, dtype = covariance.shape[-1], covariance.dtype
    greatest = xp.max(xp.diagonal(covariance, axis1=-2, axis2=-1), axis=-1)[..., None, None]
    regular = covariance + 8 * size * np.finfo(dtype).eps * greatest * xp.eye(size, dtype=dtype)
    if xp is np:
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return np.linalg.cholesky(regular)
    root = xp.linalg.cholesky(covariance)
    return xp.where(xp.isnan(root), xp.linalg.cholesky(regular), root)
