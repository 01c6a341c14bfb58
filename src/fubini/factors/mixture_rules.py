"""Rules of mixtures: every operation that distributes over a sum does so, component by component."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

from fubini.base.arrays import is_traced
from fubini.base.domains import merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.fallbacks import combined
from fubini.factors.mixture import Mixture, freshened, mixture, require_discrete, require_within_cap, summed
from fubini.factors.promotion import is_open, promoted
from fubini.factors.table import Table, with_mass
from fubini.terms.factor import Factor, Unit, is_tabular, product, substitute, terms_of
from fubini.terms.heads import (
    DIVIDE,
    MULTIPLY,
    NORMALIZE,
    exact_add,
    exact_divide,
    exact_join,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Array, Value, to_value


@exact_join.rule
def join_mixture(f: Mixture) -> Mixture:
    """f  =  f"""
    return f


@exact_multiply.rule
def multiply_mixture(f: Mixture, g: Factor) -> Factor:
    """(Σ_c f_c)·g  =  Σ_c f_c·g"""
    f = freshened(f, g)
    return mixture([combined((component, g)) for component in f.components], f.bounds)


@exact_multiply.rule(overlaps=("multiply_mixture",))
def multiply_by_mixture(f: Factor, g: Mixture) -> Factor:
    """f·(Σ_c g_c)  =  Σ_c f·g_c"""
    return multiply_mixture(g, f)


@exact_multiply.rule
def multiply_mixtures(f: Mixture, g: Mixture) -> Factor:
    """(Σ_c f_c)(Σ_d g_d)  =  Σ_c Σ_d f_c·g_d"""
    g = freshened(g, f)
    require_within_cap(f.size * g.size, f, f"the product of two mixtures, over {listed((*f.bounds, *g.bounds))}")
    pairs = [combined((a, b)) for a in f.components for b in g.components]
    return mixture(pairs, (*f.bounds, *g.bounds))


@exact_divide.rule
def divide_mixture(f: Mixture, g: Factor) -> Factor:
    """(Σ_c f_c)/g  =  Σ_c f_c/g"""
    return mixture([interpret(DIVIDE, component, g) for component in f.components], f.bounds)


@exact_divide.rule
def divide_by_mixture(f: Factor, g: Mixture) -> Factor:
    """f/(Σ_c g_c) has no closed form"""
    raise NoRule(
        f"{f} / {g}",
        expected="a divisor that is one Table or Gaussian",
        nearest="a quotient by a sum of factors is not a sum of factors",
        advice="divide by its projection, or sum real variables out until the divisor is a Table",
    )


@exact_divide.rule
def divide_mixtures(f: Mixture, g: Mixture) -> Factor:
    """f/(Σ_c g_c) has no closed form"""
    return divide_by_mixture(f, g)


@exact_normalize.rule
def normalize_mixture(f: Mixture, total: Factor) -> Factor:
    """(Σ_c f_c)/Z  =  Σ_c f_c/Z"""
    if isinstance(total, Table):
        total = with_mass(f, total)
    return mixture([_divided(component, total) for component in f.components], f.bounds)


def _divided(component: Factor, total: Factor) -> Factor:
    """f_c/Z; an open one would be normalised on its own."""
    head = DIVIDE if any(map(is_open, terms_of(component))) else NORMALIZE
    return interpret(head, component, total)


@exact_normalize.rule(overlaps=("normalize_mixture", "normalize_delta"))
def normalize_by_mixture(f: Factor, total: Mixture) -> Factor:
    """f/(Σ_c g_c) has no closed form"""
    return divide_by_mixture(f, total)


@exact_add.rule
def add_factors(f: Factor, g: Factor) -> Factor:
    """f + g, a Mixture of two"""
    return mixture((f, g))


@exact_power.rule
def power_mixture(f: Mixture, exponent: Value) -> Factor:
    """(Σ_c f_c)^n  =  the product of n of them;  to another power there is no closed form"""
    if isinstance(exponent, Array) and not exponent.inputs and not is_traced(exponent.array):
        times = float(exponent)
        if times == int(times) and times >= 1:
            require_within_cap(f.size ** int(times), f, f"the power {int(times)} of a mixture over {listed(f.bounds)}")
            return reduce(lambda a, b: interpret(MULTIPLY, a, b), [f] * int(times))
    raise NoRule(
        f"{f} ** {exponent}",
        expected="one Table or Gaussian",
        nearest="a power of a sum is not a sum of powers",
        advice="a whole power is its product with itself; project it for others",
    )


@exact_sum.rule(when=lambda semiring, f, names: semiring is sum_product, overlaps=("reduce_mixture",))
def sum_mixture(semiring: Semiring, f: Mixture, names: tuple) -> Factor:
    """∫ Σ_c f_c  =  Σ_c ∫ f_c"""
    return mixture([_summed(component, names, f) for component in f.components], f.bounds)


@exact_sum.rule(when=lambda semiring, f, names: semiring is not sum_product)
def reduce_mixture(semiring: Semiring, f: Mixture, names: tuple) -> Factor:
    """the maximum of a sum has no closed form"""
    raise NoRule(
        f"{semiring} over {listed(names)} of {f}",
        expected="a Table or a Gaussian",
        nearest="the mode of a mixture has no closed form",
        advice="reduce over its discrete variables in the same question, before it becomes a mixture, or project it",
    )


def _summed(component: Factor, names: tuple, whole: Mixture) -> Factor:
    absent = {name: whole.inputs[name] for name in names if name not in component.inputs}
    infinite = [name for name, domain in absent.items() if not domain.is_finite]
    if infinite:
        raise Intractable(
            f"the sum over {infinite[0]!r} of {whole}",
            expected=f"every component to depend on {infinite[0]!r}",
            nearest=f"{component} does not, and its integral over {absent[infinite[0]]!r} is infinite",
        )
    times = math.prod(domain.extent for domain in absent.values())
    present = tuple(name for name in names if name in component.inputs)
    component = component.sum(*present) if present else component
    return component if times == 1 else combined((component, Table(float(times))))


@exact_multiply_out.rule
def multiply_out_mixture(f: Mixture, names: tuple) -> Factor:
    """Π_i Σ_k f(i, k)  =  Σ_{k₁ … k_n} Π_i f(i, k_i)"""
    require_discrete(f, names)
    cells = math.prod(f.inputs[name].extent for name in names)
    require_within_cap(
        f.size**cells,
        f,
        f"the product over the plate {listed(names)}, of {cells} cells, of a mixture over {listed(f.bounds)}, which "
        f"depends on {listed(name for name in f.inputs if name not in names)}: every cell chooses on its own",
    )
    whole: Factor = Table(1.0)
    for cell in _cells(f, names):
        whole = interpret(MULTIPLY, whole, substitute(f, cell))
    return whole


def _cells(f: Factor, names: tuple) -> list[dict[Name, Value]]:
    cells: list[dict[Name, Value]] = [{}]
    for name in names:
        cells = [{**cell, name: to_value(index)} for cell in cells for index in range(f.inputs[name].extent)]
    return cells


@exact_substitute.rule
def substitute_mixture(f: Mixture, values: Mapping) -> Factor:
    """(Σ_c f_c)(x = u)  =  Σ_c f_c(x = u)"""
    _require_no_samples(f, values)
    there = [promoted(substitute(component, values)) for component in f.components]
    missed = [part.is_known_zero for part in there]
    if not all(missed):  # what is zero here, a point mass elsewhere say, has no part in the value
        reached = Mixture([c for c, gone in zip(f.components, missed, strict=True) if not gone], f.bounds)
        here = ", ".join(f"{name}={value}" for name, value in values.items())
        reached.require_one_measure([name for name in values if name in reached.inputs], f"the value of {f} at {here}")
    fresh = merge_inputs(*(value.inputs for value in values.values()))
    lost = {name: domain for name, domain in fresh.items() if not any(name in part.inputs for part in there)}
    return mixture([product(part, Unit(lost)) if lost else part for part in there], f.bounds)


def _require_no_samples(f: Mixture, values: Mapping[Name, Value]) -> None:
    """Raise where samples that stand for a density are asked for their value at a point: none of them lies there."""
    if not f.exactness.is_estimated:
        return
    for name, value in values.items():
        pinned = any(name in component.pins for component in f.components)
        if pinned and not f.inputs[name].is_finite and is_tabular(value):
            raise Intractable(
                f"the value at {name}={value} of samples, {f}",
                expected=f"an integral over {name!r}, a moment or a draw: samples have no mass at almost every point",
                advice=f"reduce the likelihood first: put {name}={value} into the factors that {name!r} was drawn with",
            )


def sum_lazily(f: Factor, names: tuple[Name | Bound, ...]) -> Factor | None:
    """Σ_k f as a Mixture where every name is a bounded integer, whatever f is."""
    discrete = all(f.inputs[name].is_finite for name in names)
    return summed(f, names) if discrete and not is_tabular(f) else None
