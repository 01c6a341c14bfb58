"""Moment matching: a mixture becomes the Gaussian of the same mass, mean and covariance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fubini.base.interpretations import Interpretation, current, interpret
from fubini.base.names import Name
from fubini.base.rules import RuleSet
from fubini.errors import DomainError
from fubini.factors.tally import note_projection
from fubini.terms.factor import Factor
from fubini.terms.heads import MATCH, MULTIPLY, MULTIPLY_OUT

# Rules that a projecting interpretation has before those of its base.
matches_multiply = RuleSet("moment_matching.multiply", head=MULTIPLY)
matches_multiply_out = RuleSet("moment_matching.multiply_out", head=MULTIPLY_OUT)


class MomentMatching(Interpretation):
    """After every sum a mixture is projected; chains keep their last `window` switches separate."""

    window: int


def moment_matching(window: int = 1) -> MomentMatching:
    """The interpretation in force, with mixtures of Gaussians projected onto one Gaussian after every sum.

    In a chain with discrete and real states the last `window` values of the discrete ones stay separate: a window as
    long as the chain is exact.

    >>> wide = fb.Gaussian(mean=[[-2.0], [2.0]], precision=[[1.0]], inputs={"k": fb.Bint[2], "x": fb.Real})
    >>> with moment_matching():
    ...     g = (wide * fb.Table([0.2, 0.8], ("k",))).sum("k")
    >>> type(g).__name__, g.exactness
    ('Gaussian', projected(moment_matching(window=1)))
    """
    if isinstance(window, bool) or not isinstance(window, (int, np.integer)) or window < 1:
        raise DomainError(
            f"moment_matching(window={window!r})",
            expected="a whole number of switches to keep, at least 1: an empty window would forget the current one",
        )
    base = current()
    rules = (matches_multiply, matches_multiply_out)
    made = MomentMatching(f"moment_matching(window={window})", rules, base=base, project=project)
    made.window = int(window)
    return made


def window_of(interpretation: Interpretation | None) -> int:
    """The number of switches that a chain keeps separate."""
    while interpretation is not None:
        if isinstance(interpretation, MomentMatching):
            return interpretation.window
        interpretation = interpretation.base
    return 1


def project(factor: Factor, names: Sequence[Name]) -> Factor | None:
    """The factor of the same mass, mean and covariance in place of a sum of several, where it has these."""
    made = interpret(MATCH, factor)
    if made is not None:
        note_projection(type(factor).__name__, made, current().name)
    return made
