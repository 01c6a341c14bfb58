"""Rules of Deltas: a Delta times another factor puts its point there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from fubini.base import ops
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.base.ops import Op
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import DomainError, Intractable, NoRule, listed
from fubini.factors.delta import Delta, all_of, log_indicator, to_indicator
from fubini.factors.mixture import Mixture, require_discrete, summed
from fubini.factors.mixture_rules import multiply_mixture
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, Weight, product, substitute
from fubini.terms.heads import (
    DIVIDE,
    MULTIPLY,
    NORMALIZE,
    exact_divide,
    exact_join,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.inverse import InverseFunction, solve
from fubini.terms.value import Value, Variable, apply, is_enumerable


def _pinned_integers(f: Delta) -> dict[Name, Value]:
    """The bounded integers at points that can be tabulated."""
    located = f.located.items()
    return {name: point for name, point in located if f.inputs[name].is_finite and is_enumerable(point)}


@exact_join.rule(when=lambda f: bool(_pinned_integers(f)))
def join_delta(f: Delta) -> Factor:
    """δ(a = v)  =  1[a = v] over bounded integers"""
    pinned = _pinned_integers(f)
    table = to_indicator(pinned, f.inputs)
    rest = {name: point for name, point in f.located.items() if name not in pinned}
    weight = interpret(MULTIPLY, promoted(f.weight), table)
    return Delta._of(rest, weight) if rest else weight


@exact_join.rule(when=lambda f: not _pinned_integers(f), overlaps=("join_delta",))
def join_real_delta(f: Delta) -> Factor:
    """δ(x = v)  =  δ(x = v)"""
    return f


# -- products -------------------------------------------------------------------------------------------------------


@exact_multiply.rule(when=lambda f, g: not f.promotes, overlaps=("multiply_by_mixture",))
def multiply_delta(f: Delta, g: Factor) -> Factor:
    """δ(x = v) w · g(x)  =  δ(x = v) (w g(v))"""
    return Delta._of(f.located, promoted(product(f.weight, substitute(g, f.located))))


@exact_multiply.rule(when=lambda f, g: not g.promotes, overlaps=("multiply_mixture", "multiply_delta"))
def multiply_by_delta(f: Factor, g: Delta) -> Factor:
    """f(x) · δ(x = v) w  =  δ(x = v) (f(v) w)"""
    return multiply_delta(g, f)


@exact_multiply.rule(when=lambda f, g: not f.promotes and not g.promotes)
def multiply_deltas(f: Delta, g: Delta) -> Factor:
    """δ(x = v) δ(y = u)  =  δ(x = v, y = u)"""
    shared = [name for name in f.names if name in g.names]
    if shared:
        raise NoRule(
            f"{f} * {g}",
            expected="Deltas of different real variables",
            nearest=f"both fix {listed(shared)}: a product of two point masses of one real variable is not a factor",
            advice=f"rename one of the two, or condition: f({shared[0]}=…)",
        )
    if any(name in point.inputs for name in f.names for point in g.points):
        f, g = g, f
    return Delta({**f.located, **g.located}, product(f.weight, g.weight))


@exact_multiply.rule(when=lambda f, g: not f.promotes)
def multiply_delta_mixture(f: Delta, g: Mixture) -> Factor:
    """δ(x = v)·(Σ_c g_c)  =  Σ_c δ(x = v)·g_c"""
    return multiply_mixture(g, f)


@exact_multiply.rule(when=lambda f, g: not g.promotes)
def multiply_mixture_delta(f: Mixture, g: Delta) -> Factor:
    """(Σ_c f_c)·δ(x = v)  =  Σ_c f_c·δ(x = v)"""
    return multiply_mixture(f, g)


@exact_divide.rule(when=lambda f, g: not f.promotes, overlaps=("divide_by_mixture",))
def divide_delta(f: Delta, g: Factor) -> Factor:
    """δ(x = v) w / g(x)  =  δ(x = v) (w / g(v))"""
    return Delta._of(f.located, interpret(DIVIDE, promoted(f.weight), promoted(substitute(g, f.located))))


@exact_divide.rule(when=lambda f, g: not g.promotes, overlaps=("divide_delta", "divide_mixture", "divide_by_mixture"))
def divide_by_delta(f: Factor, g: Delta) -> Factor:
    """f/δ is not defined"""
    raise NoRule(
        f"{f} / {g}",
        expected="a divisor that is positive wherever the dividend is",
        nearest=f"a Delta over {listed(g.names)} is zero everywhere but at a point",
        advice="divide by its weight, or condition the dividend on the point",
    )


@exact_divide.rule(when=lambda f, g: not g.promotes)
def divide_deltas(f: Delta, g: Delta) -> Factor:
    """f/δ is not defined"""
    return divide_by_delta(f, g)


@exact_normalize.rule(when=lambda f, total: not f.promotes)
def normalize_delta(f: Delta, total: Factor) -> Factor:
    """δ(x = v) w / Z  =  δ(x = v) (w / Z),  Z > 0"""
    weight, mass = promoted(f.weight), promoted(substitute(total, f.located))
    return Delta._of(f.located, interpret(NORMALIZE, weight, mass))


@exact_power.rule(when=lambda f, exponent: not f.promotes)
def power_delta(f: Delta, exponent: Value) -> Factor:
    """δ^a is not defined over the reals"""
    raise NoRule(
        f"{f} ** {exponent}",
        expected="a Table or a Gaussian",
        nearest=f"a power of a point mass over {listed(f.names)} is not a factor",
    )


@exact_multiply_out.rule(when=lambda f, names: not f.promotes)
def multiply_out_delta(f: Delta, names: tuple) -> Factor:
    """Π_i δ is not defined for a variable outside the plate"""
    require_discrete(f, names)
    raise NoRule(
        f"the product over {listed(names)} of {f}",
        expected="a Table or a Gaussian",
        nearest=f"{listed(f.names)} would be fixed once for each cell of the plate",
        advice=f"sum {listed(f.names)} out inside the plate first",
    )


# -- sums -----------------------------------------------------------------------------------------------------------


@exact_sum.rule
def sum_delta(semiring: Semiring, f: Delta, names: tuple) -> Factor:
    """⊕_x δ(x = v) w  =  w"""
    own = tuple(name for name in names if name in f.names)
    rest = f.without(own) if own else f
    others = tuple(name for name in names if name not in own)
    if not others:
        return rest
    if own or not isinstance(rest, Delta):
        return rest.reduce(semiring, *others)
    return _sum_others(semiring, rest, others)


def _sum_others(semiring: Semiring, f: Delta, names: tuple[Name, ...]) -> Factor:
    """⊕_y δ(x = v(y)) w(y): through the weight where v is free of y, else by solving for y, or a Mixture"""
    through = tuple(name for name in names if not any(name in point.inputs for point in f.points))
    if through:
        f = Delta._of(f.located, f.weight.reduce(semiring, *through))
    moving = tuple(name for name in names if name not in through)
    if not moving:
        return f
    if semiring is not sum_product:
        raise Intractable(
            f"{semiring} over {listed(moving)} of {f}",
            expected="points that do not depend on the variable",
            advice=f"eliminate {listed(f.names)} first",
        )
    reals = [name for name in moving if not f.inputs[name].is_finite]
    if not reals:
        return summed(f, moving)
    rest = tuple(name for name in moving if name != reals[0])
    solved = _solved(f, reals[0])
    return solved.reduce(semiring, *rest) if rest else solved


def _solved(f: Delta, name: Name) -> Factor:
    """∫ δ(x = v(y)) w(y) dy  =  w(v⁻¹(x)) |dv⁻¹/dx|"""
    for own, point in f.located.items():
        solution = _within_domain(point, Variable(own, f.inputs[own]), name) if name in point.inputs else None
        if solution is not None:
            at = {name: solution.value}
            rest = {other: place.replaced(at) for other, place in f.located.items() if other != own}
            weight = product(substitute(f.weight, at), Weight(solution.log_jacobian))
            return Delta._of(rest, weight) if rest else weight
    raise Intractable(
        f"the integral over {name!r} of {f}",
        expected=f"a point that is an invertible function of {name!r}, or no point that depends on it",
        advice=f"eliminate {listed(f.names)} first",
    )


# -- substitution ---------------------------------------------------------------------------------------------------


def _keeps_its_names(f: Delta, values: Mapping) -> bool:
    """Whether no name of the delta is replaced, and none comes in through a point."""
    incoming = {name for value in values.values() for name in value.inputs}
    return not (set(values) | incoming) & set(f.names)


@exact_substitute.rule(when=_keeps_its_names)
def substitute_delta_point(f: Delta, values: Mapping) -> Factor:
    """δ(x = v(y)) w(y) at y = u  =  δ(x = v(u)) w(u)"""
    return Delta._of({name: point.replaced(values) for name, point in f.located.items()}, substitute(f.weight, values))


@exact_substitute.rule(
    when=lambda f, values: f.promotes and bool(_pinned_integers(f)), overlaps=("substitute_delta_point",)
)
def substitute_integer_delta(f: Delta, values: Mapping) -> Factor:
    """δ(a = v) at a = u  =  1[u = v]"""
    return substitute(join_delta(f), values)


@exact_substitute.rule(when=lambda f, values: True, overlaps=("substitute_delta_point", "substitute_integer_delta"))
def substitute_delta(f: Delta, values: Mapping) -> Factor:
    """δ(x = v) w at x = u(y)  =  δ(y = u⁻¹(v)) w |du⁻¹/dv|;  at a known u, 1[u = v] w"""
    aside = {name: Bound(name) for name in f.names}  # the names replaced, out of the way of those that come in
    others = {name: value for name, value in values.items() if name not in f.names}
    points = {aside[name]: point.replaced(others) for name, point in f.located.items()}
    weights = [substitute(f.weight, others)]
    kept: dict[Name, Value] = {}
    for name, bound in aside.items():
        if name not in values:
            kept[name] = points[bound]
            continue
        fixed, factor = _placed(values[name], points[bound], name, f)
        clash = [new for new in fixed if new in kept]
        if clash:
            raise DomainError(f"{f} with {name}={values[name]}", expected=f"one point for {clash[0]!r}")
        kept.update(fixed)
        weights.append(factor)
    for name, point in kept.items():
        if any(other in point.inputs for other in kept):
            raise DomainError(f"{f} at {name}={point}", expected="points that do not depend on the names they fix")
    weight = promoted(product(*weights))
    return Delta(kept, weight) if kept else weight


def _within_domain(value: Value, target: Value, name: Name) -> InverseFunction | None:
    """The solution of value(y) = target as a value of y's domain; none of it outside has mass."""
    solution = solve(value, target, name)
    domain = value.inputs[name]
    if solution is None or domain.kind == "real":
        return solution
    if domain.kind not in ("positive", "unit"):
        return None
    solved = solution.value
    inside = ops.greater(solved, 0.0)
    if domain.kind == "unit":
        inside = ops.logical_and(inside, ops.less(solved, 1.0))
    whole = all_of(inside) if inside.output.shape else inside
    point = apply(_as_domain(domain), ops.where(inside, solved, 0.5))
    return InverseFunction(name, point, ops.where(whole, solution.log_jacobian, -np.inf))


@lru_cache(maxsize=256)
def _as_domain(domain: Domain) -> Op:
    """Numbers as they are, known to be of a domain."""
    return Op(f"as {domain!r}", lambda xp, x: x, lambda given: domain)


def _placed(value: Value, point: Value, name: Name, f: Delta) -> tuple[dict[Name, Value], Factor]:
    """δ(u = v) as a Delta over what u depends on, and a weight."""
    reals = [other for other, domain in value.inputs.items() if not domain.is_finite]
    if not reals and any(not domain.is_finite for domain in point.inputs.values()):
        reals, value, point = [other for other in point.inputs if not f.inputs[other].is_finite], point, value
    if not reals:
        return {}, Weight(log_indicator(value, point))
    solution = _within_domain(value, point, reals[0]) if len(reals) == 1 else None
    if solution is None:
        raise Intractable(
            f"{f} at {name}={value}",
            expected=f"a known point, or an invertible function of one real variable: {name}=fb.ops.exp(y)",
            advice="integrate the other variables out first",
        )
    return {solution.name: solution.value}, Weight(solution.log_jacobian)
