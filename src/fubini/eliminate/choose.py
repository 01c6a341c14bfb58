"""Choosing a cell of a table: its arg max, or a draw. Both flatten the names chosen and unravel the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fubini.arrays import Data, namespace, require
from fubini.domains import Bint, Domain
from fubini.errors import DataError, NoRule, listed
from fubini.factors.scaled import Scaled, positive_log
from fubini.factors.table import Table
from fubini.terms.factor import Factor
from fubini.terms.term import Bound, Name
from fubini.terms.value import Array


def cells(factor: Factor, names: Sequence[Name]) -> tuple[Data, tuple[Name, ...], list[int], Table]:
    """Log-weights with the chosen names flattened into one last axis, the other names, and the chosen sizes."""
    if not isinstance(factor, Table):
        raise NoRule(
            f"a choice among the values of {factor}",
            expected="a Table",
            nearest=f"{type(factor).__name__} has no rule for it",
        )
    rest = tuple(name for name in factor.names if name not in names)
    table = factor.transposed((*rest, *names))
    sizes = [table.inputs[name].size or 1 for name in names]
    weights, shift, *_ = table.pair
    logs = positive_log(weights) + shift
    return logs.reshape(*logs.shape[: len(rest)], -1), rest, sizes, table


def unravel(index: Data, rest: tuple[Name, ...], names: Sequence[Name], sizes: list[int], table: Table) -> dict:
    """A flat position for each cell of `rest` as one Array for each name."""
    xp = namespace(index)
    positions = xp.unravel_index(xp.maximum(index, 0), sizes)
    positions = [xp.where(index < 0, -1, at) for at in positions] if xp is not np else positions
    inputs = {name: table.inputs[name] for name in rest}
    return {name: Array._of(at, rest, inputs, table.inputs[name]) for name, at in zip(names, positions, strict=True)}


def choose_greatest(factor: Factor, names: Sequence[Name]) -> dict[Name, Array]:
    """The arg max over the names, the first of equals."""
    logs, rest, sizes, table = cells(factor, names)
    xp = namespace(logs)
    index = xp.argmax(logs, axis=-1)
    (index,) = require(xp.max(logs, axis=-1) > -np.inf, lambda: nothing_to_choose(names), index)
    return unravel(index, rest, names, sizes, table)


SAMPLES = Bound("sample")


class Drawer:
    """Draws by inverse transform, n along an axis of its own; uniform numbers come from one key, in order of use."""

    def __init__(self, key: Data, n: int, total: int, xp: Any) -> None:
        self.domain: Domain = Bint[n]
        self.used = 0
        self.uniforms = _uniforms(key, n * total, xp)

    def __call__(self, factor: Factor, names: Sequence[Name]) -> dict[Name, Array]:
        """A draw of the names for each sample and each cell of the other names."""
        if SAMPLES not in factor.inputs and isinstance(factor, Table):
            factor = _repeated(factor, SAMPLES, self.domain)
        logs, rest, sizes, table = cells(factor, names)
        xp = namespace(logs, self.uniforms)
        uniform = self.uniforms[self.used : self.used + logs[..., 0].size].reshape(logs.shape[:-1])
        self.used += uniform.size
        top = xp.max(logs, axis=-1, keepdims=True)
        weights = xp.exp(logs - xp.where(xp.isfinite(top), top, 0.0))
        below = xp.cumsum(weights, axis=-1)
        index = xp.sum(below <= (uniform * below[..., -1])[..., None], axis=-1)
        # Rounding may carry the product up to the total: the last positive cell is meant.
        last = weights.shape[-1] - 1 - xp.argmax(weights[..., ::-1] > 0, axis=-1)
        (index,) = require(below[..., -1] > 0, lambda: nothing_to_choose(names), xp.minimum(index, last))
        return unravel(index, rest, names, sizes, table)


def nothing_to_choose(names: Sequence[Name]) -> DataError:
    """The error of a choice from nothing."""
    return DataError(
        f"a value of {listed(names)} from a factor that is zero everywhere",
        expected="a factor with positive mass",
        advice="the evidence is impossible under the model: check the observed values",
    )


def _repeated(table: Table, axis: Name, domain: Domain) -> Table:
    weights, shift, low, high = table.pair
    xp = namespace(weights, shift)
    shape = (domain.size, *weights.shape)
    shift = shift if np.ndim(shift) == 0 else xp.broadcast_to(shift, shape)
    return Table._of(Scaled(xp.broadcast_to(weights, shape), shift, low, high), {axis: domain, **table.inputs})


def require_key(key: Data) -> None:
    """A JAX random key, of either style."""
    typed = isinstance(key, jax.Array) and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = isinstance(key, (jax.Array, np.ndarray)) and key.dtype == np.uint32 and key.shape == (2,)
    if not raw and not (typed and key.shape == ()):
        raise DataError(
            f"a sample with the key {key!r}", expected="a JAX random key", advice="make one: jax.random.key(0)"
        )


def _uniforms(key: Data, count: int, xp: Any) -> Data:
    if xp is not np:
        return jax.random.uniform(key, (count,))
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return np.asarray(jax.random.uniform(key, (count,), dtype="float64"))
