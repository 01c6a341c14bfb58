"""Long scans that are linear in their slices: a matrix that is never made, by the recursion that it stands for.

The state s and an output y of step t are linear in the state before and in the slices u, up to what does not depend on
u: (s_t, y_t) = S_t (s_{t−1}, u_t). All S_t are derivatives of one step, so that they are as many numbers as steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from fubini.algebra.build import index
from fubini.algebra.label_digits import is_finite
from fubini.algebra.leaf import Response
from fubini.algebra.node import Index, Leaf, Node
from fubini.base import lax_loops
from fubini.base.arrays import Data, precisely
from fubini.base.jaxprs import scan_counts
from fubini.errors import Intractable
from fubini.integrate.kronecker_layout import matrix_rows
from fubini.read.degrees import state_degrees
from fubini.read.symbolic_array import SymbolicArray

SHORT = 10_000  # entries of a matrix that is as well made
MOST_NUMBERS = 20_000_000  # of all S_t


class RecursionReader(Protocol):
    """What is asked of the reader of a program."""

    def leaves_of(self, array: SymbolicArray) -> frozenset[Leaf]:
        """The leaves that its entries depend on."""
        ...

    def made_of(
        self, name: str, shape: tuple[int, ...], function: Callable[..., Data], *operands: SymbolicArray
    ) -> SymbolicArray:
        """What a function makes of arrays: numbers where these are known."""
        ...


class Recursion:
    """One result of a scan as a function of some of its operands, in which it is affine."""

    def __init__(self, equation: Any, place: int, chosen: Sequence[int]) -> None:
        params = equation.params
        self.invars, self.place, self.chosen = equation.invars, place, tuple(chosen)
        self.step, self.length, self.is_reversed = params["jaxpr"], params["length"], params["reverse"]
        self.consts, self.carry = scan_counts(params)
        degrees = state_degrees(equation, [1 if k in chosen else 0 for k in range(len(equation.invars))])
        self.states = [k for k, degree in enumerate(degrees) if degree]
        self.slices = [k for k in chosen if k >= self.consts + self.carry]

    @property
    def is_last(self) -> bool:
        """Whether the result is a part of the state after the last step."""
        return self.place < self.carry

    def size_of(self, k: int) -> int:
        """The entries of a slice of an operand."""
        return math.prod(self.invars[k].aval.shape[1:])

    def first_input(self, k: int) -> int:
        """Where the slices of an operand begin among those of all."""
        return sum(self.size_of(other) for other in self.slices[: self.slices.index(k)])

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of states, outputs and inputs of a step."""
        states = sum(math.prod(self.step.jaxpr.outvars[k].aval.shape) for k in self.states)
        output = math.prod(self.step.jaxpr.outvars[self.place].aval.shape)
        return states, output, sum(map(self.size_of, self.slices))

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of all S_t."""
        states, output, inputs = self.counts
        return self.length, states + output, states + inputs

    def transitions(self, *others: Data) -> Data:
        """All S_t, of the operands that are not chosen."""
        given, operands = iter(others), []
        for k, var in enumerate(self.invars):
            shape, dtype = var.aval.shape, var.aval.dtype
            operands.append(jnp.zeros(shape, dtype) if k in self.chosen else jnp.asarray(next(given)).astype(dtype))
        start = self.consts + self.carry
        consts, first, slices = operands[: self.consts], operands[self.consts : start], operands[start:]
        run = jaxpr_as_fun(self.step)

        def advance(state: list[Data], here: list[Data]) -> tuple[list[Data], list[Data]]:
            return run(*consts, *state, *here)[: self.carry], state

        _, before = lax_loops.scan(advance, first, slices, self.length, reverse=self.is_reversed)

        def matrix(state: list[Data], here: list[Data]) -> Data:
            moving = [state[k] for k in self.states] + [here[k - start] for k in self.slices]

            def results(parts: list[Data]) -> Data:
                states, inputs = list(state), list(here)
                for k, part in zip(self.states, parts, strict=False):
                    states[k] = part
                for k, part in zip(self.slices, parts[len(self.states) :], strict=True):
                    inputs[k - start] = part
                out = run(*consts, *states, *inputs)
                return jnp.concatenate([jnp.ravel(out[k]) for k in (*self.states, self.place)])

            columns = jax.jacfwd(results)(moving)
            return jnp.concatenate([part.reshape(part.shape[0], -1) for part in columns], axis=1)

        return jax.vmap(matrix)(before, slices)


def is_slice(equation: Any, k: int) -> bool:
    """Whether an operand is one that a scan goes through step by step."""
    return equation.primitive.name == "scan" and k >= sum(scan_counts(equation.params))


def no_matrix(equation: Any, shape: tuple[int, ...]) -> Callable[..., Data]:
    """A function that refuses to make the matrix of a recursion."""

    def refuse(*given: Data) -> Data:
        raise Intractable(
            f"the matrix of a linear recursion of {equation.params['length']:,} steps, {math.prod(shape):,} entries",
            expected="what can be computed step by step: outputs of one step in each normal density",
            nearest="entries of outputs at several steps, or at steps that data choose, are read together",
            advice="observe outputs as they are, slices of them or masked ones; or infer(key) without this site",
        )

    return refuse


def responses(
    reader: RecursionReader, equation: Any, place: int, chosen: Sequence[int], others: Sequence[SymbolicArray]
) -> dict[int, Response]:
    """The matrices of a long scan that follow from its recursion, by operand."""
    if equation.primitive.name != "scan" or not chosen:
        return {}
    recursion = Recursion(equation, place, chosen)
    size = max(
        recursion.length, math.prod(equation.outvars[place].aval.shape)
    )  # that of the last state takes all steps
    is_long = any(size * math.prod(equation.invars[k].aval.shape) > SHORT for k in recursion.slices)
    labels = any(is_finite(leaf) for part in others for leaf in reader.leaves_of(part) if leaf.role == "site")
    if not is_long or labels or any(_has_more_indices(part) for part in others):
        return {}
    if math.prod(recursion.shape) > MOST_NUMBERS:
        return {}
    array = reader.made_of("transition", recursion.shape, precisely(jax.jit(recursion.transitions)), *others)
    over = tuple(Index(extent) for extent in recursion.shape)
    transition: Node = matrix_rows(over, array.at(*map(index, over)))
    axes = len(equation.outvars[place].aval.shape)
    flags = recursion.is_last, recursion.is_reversed
    return {
        k: Response(transition, recursion.counts[0], recursion.first_input(k), axes, *flags) for k in recursion.slices
    }


def _has_more_indices(array: SymbolicArray) -> bool:
    fresh = [Index(size) for size in array.shape]
    return bool(array.at(*map(index, fresh)).free - set(fresh))
