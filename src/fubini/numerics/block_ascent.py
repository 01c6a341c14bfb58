"""The maximum of a function of several arrays, each within its support: the M-step of expectation–maximisation.

Probabilities that enter as Σ c log p are moved to c / Σ c, where c = p ∂Q/∂p, and covariances that enter as
−½ n log|C| − ½ tr(C⁻¹S) to S/n = C + (2/n) C (∂Q/∂C) C, which is their maximum at once. The other arrays are moved by
Newton steps in unconstrained numbers: all of an array together, or each number by itself where the array is large and
second derivatives between different ones vanish. Arrays take turns until none moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from fubini.base import lax_loops
from fubini.base.arrays import Data

MOST_SWEEPS = 200
MOST_HALVINGS = 40
FEW = 8  # numbers of one array that are moved together without asking whether they could be moved by themselves
MOST_TOGETHER = 1024  # numbers of one array whose second derivatives are held as a matrix
FARTHEST = 2.0  # that a Newton step moves a number whose support has an end
FARTHEST_OF_ALL = 1e3  # times 1 + |x|, that it moves any number x: where no curvature is left it has no length
Function = Callable[[list[Data]], Data]


@dataclass(frozen=True)
class Block:
    """One array: its support, and whether its second derivatives are those of each number with itself alone."""

    support: Any
    is_separable: bool = False

    @property
    def is_simplex(self) -> bool:
        return self.support is constraints.simplex

    @property
    def is_covariance(self) -> bool:
        return self.support is constraints.positive_definite

    @property
    def is_its_own(self) -> bool:
        """Whether the array itself is moved, and not the unconstrained numbers behind it."""
        return self.is_simplex or self.is_covariance

    @property
    def has_ends(self) -> bool:
        """Whether the unconstrained number of a value may run away."""
        return self.support is not constraints.real

    def to_free(self, value: Data) -> Data:
        """The coordinates that are moved: unconstrained numbers; probabilities and covariances as they are."""
        return value if self.is_its_own else self._from_free.inv(value)

    def to_value(self, free: Data) -> Data:
        """The value at these coordinates."""
        return free if self.is_its_own else self._from_free(free)

    @property
    def _from_free(self) -> Any:
        return cast(Any, biject_to)(self.support)


class _State(NamedTuple):
    coordinates: tuple[Data, ...]
    moved: Data
    sweeps: Data


def maximise(function: Function, blocks: Sequence[Block], start: Sequence[Data]) -> list[Data]:
    """The values at which the function is greatest, from these on.

    >>> wanted = jnp.array([1.0, 3.0])
    >>> blocks = [Block(constraints.simplex), Block(constraints.positive)]
    >>> def function(values):
    ...     return wanted @ jnp.log(values[0]) - jnp.sum(jnp.log(values[1]) + wanted / values[1])
    >>> p, scale = maximise(function, blocks, [jnp.array([0.5, 0.5]), jnp.ones(2)])
    >>> p.round(4).tolist(), scale.round(4).tolist()
    ([0.25, 0.75], [1.0, 3.0])
    """
    given = tuple(block.to_free(value) for block, value in zip(blocks, start, strict=True))
    goal = partial(_at, function, blocks)
    precision = max((_resolution(each) for each in given), default=1e-16)
    tolerance = 1e-12 if precision < 1e-12 else 1e-6

    def sweep(state: _State) -> _State:
        coordinates, moved = state.coordinates, jnp.zeros(())
        for b, block in enumerate(blocks):
            new = _moved(goal, block, coordinates, b)
            before, after = block.to_value(coordinates[b]), block.to_value(new)
            moved = jnp.maximum(moved, jnp.max(jnp.abs(after - before) / (1 + jnp.abs(before)), initial=0.0))
            coordinates = (*coordinates[:b], new, *coordinates[b + 1 :])
        return _State(coordinates, moved, state.sweeps + 1)

    def goes_on(state: _State) -> Data:
        return (state.sweeps < MOST_SWEEPS) & (state.moved > tolerance)

    last = lax_loops.while_loop(goes_on, sweep, _State(given, jnp.asarray(jnp.inf), jnp.asarray(0)))
    return [block.to_value(each) for block, each in zip(blocks, last.coordinates, strict=True)]


def _slope(function: Callable[[Data], Data]) -> Callable[[Data], Data]:
    return cast(Any, jax.grad)(function)


def _resolution(array: Data) -> float:
    """The relative distance of neighbouring numbers."""
    return float(np.finfo(array.dtype).eps)


def _at(function: Function, blocks: Sequence[Block], coordinates: Sequence[Data]) -> Data:
    return function([block.to_value(each) for block, each in zip(blocks, coordinates, strict=True)])


def separable(function: Function, blocks: Sequence[Block], start: Sequence[Data]) -> list[Block]:
    """The blocks, each told whether its second derivatives are a diagonal, as probes of random signs say.

    They are asked near the start, not at it, where a symmetry may make them a diagonal by chance.
    """
    goal = partial(_at, function, blocks)
    asked = [b for b, block in enumerate(blocks) if not block.is_its_own and np.size(start[b]) > FEW]
    if not asked:
        return list(blocks)

    @jax.jit
    def probe(start: Sequence[Data]) -> list[Data]:
        given = [block.to_free(value) for block, value in zip(blocks, start, strict=True)]
        rng = np.random.default_rng(0)
        for b in asked:
            given[b] = given[b] + jnp.asarray(rng.uniform(-0.1, 0.1, given[b].shape), given[b].dtype)
        return [_is_diagonal(goal, tuple(given), b) for b in asked]

    answers = dict(zip(asked, cast(Callable[..., list[Data]], probe)(list(start)), strict=True))
    return [replace(block, is_separable=bool(answers.get(b, False))) for b, block in enumerate(blocks)]


def _alone(goal: Function, coordinates: Sequence[Data], b: int) -> Callable[[Data], Data]:
    """The function of one block, the others as they are."""
    return lambda own: goal([*coordinates[:b], own, *coordinates[b + 1 :]])


def _is_diagonal(goal: Function, coordinates: tuple[Data, ...], b: int) -> Data:
    own = coordinates[b]
    slope = _slope(_alone(goal, coordinates, b))
    signs: Data = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], size=(2, *own.shape)), own.dtype)
    diagonal, *probes = (jax.jvp(slope, (own,), (each,))[1] for each in (jnp.ones_like(own), *signs))
    size = jnp.max(jnp.abs(diagonal), initial=0.0)
    near = 1e3 * _resolution(own) * size
    return jnp.all(jnp.stack([jnp.abs(probe - s * diagonal) <= near for probe, s in zip(probes, signs, strict=True)]))


def _moved(goal: Function, block: Block, coordinates: tuple[Data, ...], b: int) -> Data:
    alone, own = _alone(goal, coordinates, b), coordinates[b]
    if not own.size:
        return own
    if block.is_simplex:
        return _probabilities(own, _slope(alone)(own))
    if block.is_covariance:
        return _shortened(alone, own, _towards_scatter(alone, own))
    slope = _slope(alone)
    change = _each(slope, own) if block.is_separable else _together(slope, own)
    if block.has_ends:
        change = jnp.clip(change, -FARTHEST, FARTHEST)
    return _shortened(alone, own, change)


def _probabilities(p: Data, slope: Data) -> Data:
    """c / Σ c, where c = p ∂Q/∂p, above zero where c is: the logarithm of zero would be counted; p where no c is."""
    counts = jnp.where(p > 0, jnp.maximum(p * slope, 0.0), 0.0)
    total = jnp.sum(counts, axis=-1, keepdims=True)
    share = counts / jnp.where(total > 0, total, 1.0)
    least = float(np.finfo(p.dtype).tiny)
    return jnp.where(total > 0, jnp.where(counts > 0, jnp.maximum(share, least), 0.0), p)


def _towards_scatter(alone: Callable[[Data], Data], C: Data) -> Data:
    """S/n − C  =  (2/n) C (∂Q/∂C) C,  where  d n = −2 (Q″ + Q′),  the derivatives in log a of Q(a C) at a = 1."""
    slope = _slope(alone)(C)
    slope = (slope + jnp.swapaxes(slope, -1, -2)) / 2

    def stretched(a: Data) -> Data:
        return alone(jnp.exp(a)[..., None, None] * C)

    zero = jnp.zeros(C.shape[:-2], C.dtype)
    first, second = cast(Any, jax.jvp)(_slope(stretched), (zero,), (jnp.ones_like(zero),))
    count = -2 * (second + first) / C.shape[-1]
    return 2 / jnp.where(count > 0, count, 1.0)[..., None, None] * C @ slope @ C


def _each(slope: Callable[[Data], Data], own: Data) -> Data:
    """g / |h| for every number by itself, no farther than FARTHEST_OF_ALL."""
    g, h = jax.jvp(slope, (own,), (jnp.ones_like(own),))
    change = jnp.where(g == 0, 0.0, g / jnp.maximum(jnp.abs(h), float(np.finfo(own.dtype).tiny)))
    farthest = FARTHEST_OF_ALL * (1 + jnp.abs(own))
    return jnp.clip(change, -farthest, farthest)


def _together(slope: Callable[[Data], Data], own: Data) -> Data:
    """|H|⁻¹ g, by the eigenvalues of the matrix of second derivatives; by conjugate gradients where that is large."""
    g = slope(own)
    if own.size > MOST_TOGETHER:

        def curvature(v: Data) -> Data:
            return -jax.jvp(slope, (own,), (v,))[1]

        change, _ = jax.scipy.sparse.linalg.cg(curvature, g, tol=1e-10, maxiter=200)
        return change
    hessian = cast(Any, jax.jacfwd)(slope)(own).reshape(own.size, own.size)
    values, vectors = cast(Any, jnp.linalg.eigh)((hessian + hessian.T) / 2)
    least = jnp.maximum(_resolution(own) * jnp.max(jnp.abs(values)), float(np.finfo(own.dtype).tiny))
    along = vectors.T @ g.ravel() / jnp.maximum(jnp.abs(values), least)
    return (vectors @ along).reshape(own.shape)


def _shortened(alone: Callable[[Data], Data], own: Data, change: Data) -> Data:
    """own + t · change for the first t = 1, ½, ¼, … at which the function is no less, up to rounding."""
    before = alone(own)
    slack = 4 * _resolution(own) * jnp.abs(before)

    def falls(state: tuple[Data, Data]) -> Data:
        t, count = state
        return ~(alone(own + t * change) >= before - slack) & (count < MOST_HALVINGS)

    t, count = lax_loops.while_loop(falls, lambda s: (s[0] / 2, s[1] + 1), (jnp.ones((), own.dtype), jnp.asarray(0)))
    return jnp.where(count < MOST_HALVINGS, own + t * change, own)
