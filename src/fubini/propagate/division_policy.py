"""Division with a policy: what is taken where a quotient is unbounded, and a count of such quotients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.interpretations import current, interpret
from fubini.base.names import Name
from fubini.errors import DataError, DomainError, NoRule
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, product
from fubini.terms.heads import BOUNDED, CLIP, DIVIDE, POWER
from fubini.terms.value import Array, to_value

POLICIES = ("allow", "skip", "clip", "damp")


class Quotient(NamedTuple):
    """A quotient, and how many of its cells the policy touched: those unbounded without it."""

    factor: Factor
    touched: Data


@dataclass(frozen=True)
class Division:
    """f ⊘ g, with what is taken where it is unbounded, as an indefinite Gaussian is.

    - `allow`: the quotient, which a later product must cure;
    - `skip`: the message before;
    - `clip`: a bounded factor that gives the product with g the mean of f (in one dimension as Infer.NET: Λ = 0 and
      h = μ_f Λ_g − h_g);
    - `damp`: old^(1−step) ⊗ new^step, which is less unbounded.

    >>> wide, narrow = fb.dist.Normal(0.0, 2.0)("x"), fb.dist.Normal(1.0, 1.0)("x")
    >>> quotient = Division("clip").divide(wide, narrow)
    >>> quotient.touched, quotient.factor.precision.data
    (1, array([[0.]]))
    """

    policy: str = "allow"
    step: float = 0.5

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise DomainError(f"Division({self.policy!r})", expected=f"one of {', '.join(map(repr, POLICIES))}")
        if not 0 < self.step < 1:
            raise DataError(f"Division({self.policy!r}, step={self.step!r})", expected="a number between 0 and 1")

    def divide(self, f: Factor, g: Factor, old: Factor | None = None, batch: Sequence[Name] = ()) -> Quotient:
        """f ⊘ g over the names that are no batch; `old` is the message before, 1 where there was none.

        >>> tables = fb.Table([0.25, 0.5], ("a",)), fb.Table([0.5, 0.5], ("a",))
        >>> Division().divide(*tables).factor.weights
        array([0.5, 1. ])
        """
        f, g = promoted(f), promoted(g)
        require_division(f, g)
        names = tuple(name for name in f.inputs if name not in batch)
        bounded = interpret(BOUNDED, f, g, names)
        xp = namespace(bounded.array)
        touched = xp.sum(~bounded.array)
        touched = touched if is_traced(touched) else int(touched)
        quotient = interpret(DIVIDE, f, g)
        if self.policy == "allow" or (not is_traced(touched) and not touched):
            return Quotient(quotient, touched)
        return Quotient(choose(bounded, quotient, self._instead(f, g, quotient, old)), touched)

    def _instead(self, f: Factor, g: Factor, quotient: Factor, old: Factor | None) -> Factor | None:
        if self.policy == "clip":
            return interpret(CLIP, f, g)
        return old if self.policy == "skip" else damp(old, quotient, self.step)


def as_division(given: str | Division | None) -> Division:
    """A policy by name, or a Division as it is."""
    return given if isinstance(given, Division) else Division(given or "allow")


def require_division(f: Factor, g: Factor) -> None:
    """Raise unless there is a rule for the quotient."""
    if current().find(DIVIDE, (f, g)) is None:
        raise NoRule(
            f"propagation that divides {f} by {g}",
            expected=f"a rule for divide({type(f).__name__}, {type(g).__name__}), in fb.heads.exact_divide",
            nearest="there is none",
            advice='use method="shafer-shenoy", or belief propagation with division=None, which never divide',
        )


def choose(which: Array, f: Factor, g: Factor | None) -> Factor:
    """f where `which` is true, g elsewhere: f^w ⊗ g^(1−w); None stands for 1."""
    chosen = which.array
    if not is_traced(chosen) and (np.all(chosen) or not np.any(chosen)):
        return f if np.all(chosen) else product() if g is None else g
    weights = Array._of(chosen * 1.0, which.names, which.inputs, to_value(1.0).output)
    first = interpret(POWER, promoted(f), weights)
    return first if g is None else promoted(first * interpret(POWER, promoted(g), 1.0 - weights))


def damp(old: Factor | None, new: Factor, step: Any) -> Factor:
    """old^(1−step) ⊗ new^step; None stands for 1."""
    raised = interpret(POWER, promoted(new), to_value(step))
    return raised if old is None else promoted(raised * interpret(POWER, promoted(old), to_value(1.0 - step)))
