"""Expectations and integrals of functions, under factors and under measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from fubini.base.names import Name
from fubini.eliminate.expect import expectation as expectation_under_factor
from fubini.eliminate.expect import integrate as integrate_factor
from fubini.errors import DomainError
from fubini.measures.expectation import expect_under, integrate_under
from fubini.measures.measure import Measure
from fubini.measures.values import Number
from fubini.terms.factor import Factor
from fubini.terms.value import Value


@overload
def expectation(of: Measure, value: Callable[..., Any]) -> Number: ...
@overload
def expectation(of: Factor, value: Any, *names: Name) -> Value: ...
def expectation(of: Factor | Measure, value: Any, *names: Name) -> Value | Number:
    """E[value] under a factor normalised over the names, or all of its inputs; of a function, under a measure.

    >>> x = fb.Variable("x", fb.Real)
    >>> expectation(fb.dist.Normal(1.0, 2.0)("x"), x * x, "x")
    5
    >>> expectation(fb.measures.Normal(fb.measures.symbol("m"), 2), lambda x: x**2 - 3 * x)
    m² − 3 m + 4
    """
    if isinstance(of, Measure):
        return expect_under(of, _require_function(value, names))
    return expectation_under_factor(_require_called(of), value, *names)


@overload
def integrate(of: Measure, value: Callable[..., Any]) -> Number: ...
@overload
def integrate(of: Factor, value: Any, *names: Name) -> Value: ...
def integrate(of: Factor | Measure, value: Any, *names: Name) -> Value | Number:
    """Σ value · factor over the names, or ∫ f dM of a function under a measure: not divided by the mass.

    >>> integrate(fb.Table([1.0, 3.0], ("k",)), fb.Variable("k", fb.Bint[2]) * 10.0, "k")
    30
    >>> integrate(fb.measures.superpose((3, fb.measures.Normal(2, 1)), fb.measures.Exponential(1)), lambda x: x)
    7
    """
    if isinstance(of, Measure):
        return integrate_under(of, _require_function(value, names))
    return integrate_factor(_require_called(of), value, *names)


def _require_function(value: Any, names: tuple[Name, ...]) -> Callable[..., Any]:
    """A function of what a measure returns, which has no names."""
    if not callable(value) or names:
        raise DomainError(
            f"the expectation of {value!r} under a measure" + (f" over {names}" if names else ""),
            expected="a function of what the measure returns",
            advice="expectation(measure, lambda x: x**2)",
        )
    return value


def _require_called(of: Factor) -> Factor:
    """No function under @fb.measure, which is to be called first."""
    if callable(of) and not isinstance(of, Factor):
        raise DomainError(
            f"the expectation under {of!r}",
            expected="a factor or a measure",
            advice="call the function under @fb.measure: fb.expectation(program(), lambda x: x)",
        )
    return of
