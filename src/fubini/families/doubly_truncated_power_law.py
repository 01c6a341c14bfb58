"""DoublyTruncatedPowerLaw(alpha, low, high): x^α between two ends that are not negative."""

from __future__ import annotations

from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, const, less, minus, plus, times, where
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import INFINITY, MINUS_INFINITY, exp, is_inside, log
from fubini.families.parameters import Parameters, interval
from fubini.families.power_functions import log_integral, variance
from fubini.families.signature import Match, Signature
from fubini.numerics.power_laws import draw_power


def log_power_law(x: Node, parameters: Parameters) -> Node:
    """α log x − log ∫ x^α dx"""
    return minus(times(parameters["alpha"], log(x)), log_integral(*_given(parameters)))


def log_everywhere(x: Node, parameters: Parameters) -> Node:
    """−∞ outside the ends"""
    return where(is_inside(x, parameters["low"], parameters["high"]), log_power_law(x, parameters), MINUS_INFINITY)


def from_power(p: Node, low: Node, high: Node) -> Match | None:
    """∫ x^p dx from a to b  =  (b^(p+1) − a^(p+1)) / (p + 1)"""
    if high is INFINITY:
        return None
    return {"alpha": p, "low": low, "high": high}, log_integral(p, low, high)


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = ∫ x^(α+j) dx / ∫ x^α dx"""
    alpha, low, high = _given(parameters)
    whole = log_integral(alpha, low, high)
    shifted = (log_integral(plus(alpha, const(float(j))), low, high) for j in range(1, most + 1))
    return [ONE, *(exp(minus(part, whole)) for part in shifted)]


def _given(parameters: Parameters) -> tuple[Node, Node, Node]:
    return parameters["alpha"], parameters["low"], parameters["high"]


DOUBLY_TRUNCATED_POWER_LAW = register(
    Family(
        "DoublyTruncatedPowerLaw",
        {"alpha": constraints.real, "low": constraints.greater_than_eq(0), "high": constraints.greater_than(0)},
        interval,
        log_power_law,
        log_density_everywhere=log_everywhere,
        names=("DoublyTruncatedPowerLaw",),
        signature=Signature("power", from_power),
        draw=lambda key, p: draw_power(key, p["alpha"], p["low"], p["high"]),
        mean=lambda p: moments(p, 1)[1],
        variance=lambda p: variance(*_given(p)),
        moments=moments,
        log_survival=lambda x, p: minus(log_integral(p["alpha"], x, p["high"]), log_integral(*_given(p))),
        mode=lambda p: where(less(p["alpha"], ZERO), p["low"], p["high"]),
        mode_needs=lambda p: (where(less(p["alpha"], ZERO), p["low"], p["high"]),),
        finite_needs=lambda p: (plus(p["alpha"], ONE),) if p["low"] is ZERO else (),
        equation="∫ x^p dx = (b^(p+1) − a^(p+1)) / (p + 1)",
    )
)
