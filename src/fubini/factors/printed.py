"""Factors over real variables as they are printed: what they are, and the moments of each variable."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fubini.base.arrays import is_traced
from fubini.base.interpretations import exact
from fubini.base.names import Name
from fubini.errors import FubiniError
from fubini.show.printed_form import Block, Expression, Words
from fubini.terms.factor import Factor
from fubini.terms.numbers import shown_array, shown_number
from fubini.terms.value import Array, to_array

MOST_WORK = 10**7  # multiplications that a printed form may take
NORMAL_95 = 1.6448536269514722  # the quantile of a standard normal number


def moments_form(factor: Factor, has_interval: bool = False) -> Iterator[Block]:
    """Yield a line for the factor, and one for each real variable with its mean and standard deviation, if any.

    >>> fb.dist.MultivariateNormal(np.array([1.0, 2.0]), np.diag([4.0, 9.0]))("x")._joined()
    Gaussian(x: Reals[2])
      x: mean [1, 2], sd [2, 3], 90 % interval [-2.29, -2.935] to [4.29, 6.935]
    """
    yield Expression(factor._brief_notation())
    leaves = list(factor.leaves())
    if is_traced(*leaves):
        return
    if _work(factor, leaves) > MOST_WORK:
        yield Words("too large for moments at a glance: ask for .mean(name) and .variance(name)", 2)
        return
    on_host = factor.rebuilt(iter([np.asarray(leaf) for leaf in leaves]))  # nothing is compiled
    try:
        with exact:
            lines = [
                _line(on_host, name, has_interval) for name, domain in factor.inputs.items() if not domain.is_discrete
            ]
    except FubiniError:  # an improper factor, or one returned from vmap, has no moments
        return
    yield from (Words(line, 2) for line in lines)


def _work(factor: Factor, leaves: list) -> float:
    """Bound the work of all moments: the cube of the number of real variables, for each cell and component."""
    reals = sum(math.prod(domain.shape) for domain in factor.inputs.values() if not domain.is_discrete)
    largest = max((np.size(leaf) for leaf in leaves), default=1)
    return largest * max(reals, 1) * len(factor.inputs)


def _line(factor: Factor, name: Name, has_interval: bool) -> str:
    others = [other for other, domain in factor.inputs.items() if other != name and not domain.is_discrete]
    alone = factor.sum(*others) if others else factor
    mean, sd = to_array(alone.mean(name)), _deviation(alone, name)
    interval = ""
    if has_interval and mean.names == sd.names:
        low, high = (Array(mean.array + sign * NORMAL_95 * sd.array, mean.names) for sign in (-1, 1))
        interval = f", 90 % interval {_rounded(low)} to {_rounded(high)}"
    return f"{name}: mean {mean}, sd {sd}{interval}"


def _deviation(factor: Factor, name: Name) -> Array:
    """The standard deviation of each element: the diagonal of a covariance of shape s + s, on the host."""
    shape = factor.inputs[name].shape
    if not shape:
        variance = to_array(factor.variance(name))
        return Array(np.sqrt(variance.array), variance.names)
    covariance, size = to_array(factor.covariance(name)), math.prod(shape)
    lead = covariance.array.shape[: len(covariance.names)]
    diagonal = np.diagonal(covariance.array.reshape(*lead, size, size), axis1=-2, axis2=-1)
    return Array(np.sqrt(diagonal).reshape(*lead, *shape), covariance.names)


def _rounded(value: Array) -> str:
    """A number with four digits, as those of arrays have."""
    return f"{value}" if np.ndim(value.array) else shown_number(float(value.array))


def shown(numbers: np.ndarray) -> str:
    """A number or an array, four digits each."""
    return shown_array(numbers) if np.ndim(numbers) else shown_number(float(numbers))
