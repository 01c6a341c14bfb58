"""Sequences linearised: by slopes (extended filters and smoothers), or by sigma points (unscented ones)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fubini.base.interpretations import Interpretation, current
from fubini.base.rules import RuleSet
from fubini.errors import DataError
from fubini.factors.represent import model_rules
from fubini.numerics.linear_fits import SigmaPoints
from fubini.terms.exactness import Exactness, projected
from fubini.terms.heads import RECAST

linearize_recast = RuleSet("linearize.recast", head=RECAST)


class Linearize(Interpretation):
    """Steps of sequences that are not linear are replaced by linear ones; `rule` has the sigma points, if any."""

    rule: SigmaPoints | None
    iterations: int

    @property
    def mark(self) -> Exactness:
        """How answers relate to the mathematics."""
        return projected(self.name)


def linearize(*, iterations: int = 1) -> Linearize:
    """The interpretation in force, with sequences linearised by slopes: the extended Kalman filter and smoother.

    Each density of a step that is no linear Gaussian becomes one: its mean by the first order of Taylor's series, its
    covariance as it is there. So do densities of other families, as of counts: by these two moments. The first pass
    linearises at the filter's means, transitions at the mean before the step, observations at the mean that is
    predicted. Each more linearises all steps at the smoother's means: the iterated extended smoother, which is
    Gauss–Newton's ascent to the most probable path (Bell 1994); `filter()` then iterates each update alone.

    >>> x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    >>> move = fb.dist.Normal(x + 0.1 * fb.ops.sin(x), 0.1)("x_next")
    >>> seen = fb.dist.Normal(fb.ops.exp(x_next), 0.5)(fb.Array(np.array([1.2, 1.5, 1.1]), ("t",)))
    >>> chain = fb.Chain(init=fb.dist.Normal(0.0, 1.0)("x"), factor=move * seen, time="t", step={"x": "x_next"})
    >>> with fb.linearize():
    ...     smooth = chain.smooth()
    >>> smooth.mean("x_next").data.round(3), smooth.exactness
    (array([0.205, 0.227, 0.24 ]), projected(linearize()))
    """
    count = _whole("linearize", iterations)
    return _made(f"linearize(iterations={count})" if count > 1 else "linearize()", None, count)


def unscented(*, alpha: float = 1.0, beta: float = 0.0, kappa: float | None = None, iterations: int = 1) -> Linearize:
    """The interpretation in force, with sequences linearised by sigma points: the unscented filter and smoother.

    Each density of a step that is no linear Gaussian becomes the one nearest in mean square to its mean at 2n + 1
    points of the state, what the line misses being noise. The points are those of the scaled unscented transform: alpha
    times √(n + kappa) standard deviations away. kappa is 3 − n where that is positive (Julier and Uhlmann 1997), else
    0 (the cubature rule of Arasaratnam and Haykin 2009), unless it is given. More iterations take the points about the
    smoother's states: iterated posterior linearisation (García-Fernández, Svensson and Särkkä 2017).

    >>> x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    >>> move = fb.dist.Normal(x + 0.1 * fb.ops.sin(x), 0.1)("x_next")
    >>> seen = fb.dist.Normal(fb.ops.exp(x_next), 0.5)(fb.Array(np.array([1.2, 1.5, 1.1]), ("t",)))
    >>> chain = fb.Chain(init=fb.dist.Normal(0.0, 1.0)("x"), factor=move * seen, time="t", step={"x": "x_next"})
    >>> with fb.unscented():
    ...     smooth = chain.smooth()
    >>> smooth.exactness
    projected(unscented())
    """
    count = _whole("unscented", iterations)
    _require_number("alpha", alpha, "above 0", lambda number: number > 0)
    _require_number("beta", beta, "at least 0", lambda number: number >= 0)
    if kappa is not None:
        _require_number("kappa", kappa, "above −n, or None for 3 − n", lambda _: True)
    given = {"alpha": (alpha, 1.0), "beta": (beta, 0.0), "kappa": (kappa, None), "iterations": (count, 1)}
    told = ", ".join(f"{name}={value:g}" for name, (value, usual) in given.items() if value != usual)
    rule = SigmaPoints(float(alpha), float(beta), None if kappa is None else float(kappa))
    return _made(f"unscented({told})", rule, count)


def linearization() -> Linearize | None:
    """The linearisation in force, if there is one."""
    interpretation: Interpretation | None = current()
    while interpretation is not None and not isinstance(interpretation, Linearize):
        interpretation = interpretation.base
    return interpretation


def _made(name: str, rule: SigmaPoints | None, iterations: int) -> Linearize:
    made = Linearize(name, (linearize_recast, *model_rules()), base=current().without(Linearize))
    made.rule, made.iterations = rule, iterations
    return made


def _whole(asked: str, iterations: Any) -> int:
    if isinstance(iterations, bool) or not isinstance(iterations, (int, np.integer)) or iterations < 1:
        raise DataError(
            f"{asked}(iterations={iterations!r})",
            expected="a whole number of passes, at least 1",
            advice=f"{asked}() is the plain smoother; a few iterations, 5 or 10, are usually all it takes",
        )
    return int(iterations)


def _require_number(name: str, value: Any, expected: str, holds: Any) -> None:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
    if not (is_number and holds(value)):
        raise DataError(
            f"unscented({name}={value!r})",
            expected=f"a number {expected}",
            advice="published choices: alpha=1, beta=0, kappa=3 − n; or alpha=1e-3, beta=2, kappa=0",
        )
