"""Numbers put in for the symbols of an answer: its value, where they are what the symbols say they are.

Numbers that are known give a number in double precision, or an error; where some are traced, the value is JAX's, with
derivatives, and no number where it would be an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import jax.numpy as jnp
import numpy as np

from fubini.algebra.axes import Axes, aligned, union
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Leaf, Node
from fubini.base.arrays import Data, double_precision, is_traced, require
from fubini.distributions.parameter_checks import shown
from fubini.errors import DataError, DomainError

ROUNDING, ROUNDING_TRACED = 1e-6, 1e-4  # of the sum of a simplex


class Check(Protocol):
    """Whether values of symbols are allowed: raises where known ones are not, and tests traced ones."""

    def __call__(self, values: Mapping[str, np.ndarray]) -> None: ...

    def holds(self, values: Mapping[str, Data]) -> Data:
        """Test whether all values, of which some are traced, are allowed."""
        ...


def known_value(of: Node, checks: Sequence[Check], values: Mapping[str, Data]) -> float:
    """The value of a node at numbers that are known."""
    arrays = {leaf: np.asarray(values[leaf.name], float) for leaf in of.leaves}
    for leaf, array in arrays.items():
        _require_shape(leaf, array)
        require(_is_allowed(leaf, array), lambda leaf=leaf, array=array: _wrong_kind(leaf, array))
    for check in checks:
        check({name: np.asarray(value, float) for name, value in values.items()})
    with double_precision(), np.errstate(all="ignore"):
        number = float(Checked(arrays, xp=np).of(of).data)
    if math.isnan(number) and not any(np.isnan(array).any() for array in arrays.values()):
        raise DataError(
            f"the value of {of}",
            expected="a number",
            nearest="a logarithm or a root of a negative number, a negative weight, or an entry out of range",
            advice="restrict the values before, with condition(test)",
        )
    return number


def traced_value(of: Node, checks: Sequence[Check], values: Mapping[str, Data]) -> Data:
    """The value of a node where some numbers are traced: not a number where a symbol may not have its value."""
    arrays = {leaf: jnp.asarray(values[leaf.name], float) for leaf in of.leaves}
    known = {name: np.asarray(value, float) for name, value in values.items() if not is_traced(value)}
    for check in checks:
        check(known)
    number = Checked(arrays).of(of).data
    for leaf, array in arrays.items():
        _require_shape(leaf, array)
        allowed = jnp.all(_is_allowed(leaf, array))
        (number,) = require(allowed, lambda leaf=leaf, array=array: _wrong_kind(leaf, array), number)
    inputs = {name: jnp.asarray(value, float) for name, value in values.items()}
    for check in checks:
        (number,) = require(check.holds(inputs), lambda: _not_allowed(of), number)
    return number + jnp.where(jnp.isnan(number), jnp.nan, 0.0) * _sum_of_finite(arrays.values())  # so are its slopes


def _sum_of_finite(arrays: Iterable[Data]) -> Data:
    return sum((jnp.sum(jnp.where(jnp.isfinite(array), array, 0.0)) for array in arrays), jnp.zeros(()))


def _require_shape(leaf: Leaf, array: Data) -> None:
    if array.shape != leaf.shape:
        raise DomainError(f"{leaf.name} of shape {array.shape}", expected=f"shape {leaf.shape}")


def _ends(leaf: Leaf) -> tuple[float, float, bool]:
    """The ends of its numbers, and whether these are positive."""
    low, high = (math.inf * sign if end is None else end for end, sign in ((leaf.low, -1), (leaf.high, 1)))
    return low, high, leaf.low == 0 and leaf.high is None and not leaf.is_integer


def _is_allowed(leaf: Leaf, array: Data) -> Data:
    """Test whether numbers are of the kind of a symbol and within its bounds."""
    low, high, is_positive = _ends(leaf)
    wrong = (array <= low if is_positive else array < low) | (array > high)
    if leaf.is_integer:
        wrong = wrong | (array != (array // 1))
    if leaf.is_simplex:
        slack = ROUNDING_TRACED if is_traced(array) else ROUNDING
        wrong = wrong | (abs(array.sum(-1, keepdims=True) - 1) > slack)
    return ~wrong


def _wrong_kind(leaf: Leaf, array: Data) -> DataError:
    low, high, is_positive = _ends(leaf)
    what = "positive" if is_positive else f"from {low:g} to {high:g}"
    facts = [what, *["whole"] * leaf.is_integer, *["summing to one"] * leaf.is_simplex]
    return DataError(
        f"{leaf.name} = {'a traced number' if is_traced(array) else shown(array)}",
        expected=f"numbers as its symbol says: {', '.join(facts)}",
        advice=f'symbol("{leaf.name}", kind=…, low=…, high=…) says what may be put in',
    )


def _not_allowed(of: Node) -> DataError:
    return DataError(
        f"the value of {of}",
        expected="parameters that their families allow",
        advice="ask outside of jit, vmap and grad, where the error names the parameter",
    )


class Checked(Evaluation):
    """Values of nodes in which an entry that is out of range is no number."""

    def _get(self, this: Node) -> Axes:
        leaf, *at = this.args
        places = [self.of(part) for part in at]
        entries = super()._get(this)
        for place, size in zip(places, leaf.shape, strict=True):
            inside = Axes(((place.data >= 0) & (place.data < size)).astype(float), place.of)
            axes = union([entries, inside])
            kept, test = aligned(entries, axes), aligned(inside, axes)
            entries = Axes(self.xp.where(test != 0, kept, np.nan), axes)
        return entries
