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
    if is_traced(*leaves) or _work(factor, leaves) > MOST_WORK:
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
    mean, sd = alone.mean(name), alone.variance(name) ** 0.5
    interval = f", {shown_interval(np.asarray(mean.data), np.asarray(sd.data))}" if has_interval else ""  # type: ignore[attr-defined]
    return f"{name}: mean {mean}, sd {sd}{interval}"


def shown_interval(mean: np.ndarray, sd: np.ndarray) -> str:
    """The 90 % interval of normal numbers."""
    return f"90 % interval {shown(mean - NORMAL_95 * sd)} to {shown(mean + NORMAL_95 * sd)}"


def shown(numbers: np.ndarray) -> str:
    """A number or an array, four digits each."""
    return shown_array(numbers) if np.ndim(numbers) else shown_number(float(numbers))
