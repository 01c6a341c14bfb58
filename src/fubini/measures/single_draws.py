"""Measures of one draw: each family as a function of its parameters, and measures of which only the name is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numpyro.distributions import constraints

from fubini.algebra.build import ZERO, const, equal, get, index, minus
from fubini.algebra.build import where as chosen
from fubini.algebra.node import Index, Leaf
from fubini.algebra.ranges import bounds, is_whole
from fubini.errors import DomainError
from fubini.families.family import family_of
from fubini.families.parameters import Support, Vector
from fubini.measures.branch import Branch, DrawStatement, Items
from fubini.measures.draw_density import DrawDistribution, is_of_numbers, support_of
from fubini.measures.measure import Measure
from fubini.measures.values import Entries, node_of


def drawn(distribution: DrawDistribution, name: str = "x") -> Measure:
    """One draw, and its value."""
    leaf = leaf_of(distribution, name)
    draw = DrawStatement(leaf, (), distribution)
    over = tuple(Index(size) for size in leaf.shape)
    value = Items(over, get(leaf, *map(index, over))) if over else draw.entry()
    return Measure((Branch((draw,), (), ZERO, value),))


def leaf_of(distribution: DrawDistribution, name: str) -> Leaf:
    """A leaf for one draw, with what the support says of it."""
    if distribution.family == "Dirichlet":
        (alpha,) = distribution.parameters
        assert isinstance(alpha, Vector)
        return Leaf(name, (alpha.over.size,), low=0.0, high=1.0, is_simplex=True, role="site")
    support = support_of(distribution)
    return Leaf(name, (), role="site") if support is None else leaf_in(support, name)


def leaf_in(support: Support, name: str, shape: tuple[int, ...] = ()) -> Leaf:
    """A leaf with the bounds of a support."""
    low, high = bounds(support.low)[0], bounds(support.high)[1]
    return Leaf(
        name,
        shape,
        low=None if math.isinf(low) else low,
        high=None if math.isinf(high) else high,
        is_integer=support.is_whole,
        role="site",
    )


def _constructor(family: str, **defaults: float) -> Callable[..., Measure]:
    names = tuple(family_of(family).parameters)

    def make(*args: Any, **named: Any) -> Measure:
        given = {**defaults, **dict(zip(names, args, strict=False)), **named}
        if set(given) != set(names) or len(args) > len(names):
            raise DomainError(f"{family} of {', '.join(map(str, given))}", expected=", ".join(names))
        distribution = DrawDistribution(family, tuple(node_of(given[name]) for name in names))
        require_possible(distribution)
        return drawn(distribution)

    make.__name__ = make.__qualname__ = family
    make.__doc__ = f"{family}({', '.join(names)})"
    return make


def is_positive(distribution: DrawDistribution, name: str) -> bool:
    """A parameter that is a positive number."""
    constraint = family_of(distribution.family).parameters[name]
    return constraint is constraints.positive or constraint is constraints.nonnegative  # a rate, which is not 0 here


def require_possible(distribution: DrawDistribution) -> None:
    """No parameter is certain to be out of range."""
    if not is_of_numbers(distribution):
        return
    family, given = distribution.family, distribution.given
    for name, node in given.items():
        low, high = bounds(node)
        if math.isnan(low) or math.isnan(high):
            raise DomainError(f"{family} with {name} = {node}", expected="a number")
        is_count = family_of(family).parameters[name] is constraints.nonnegative_integer
        if is_count and (high < 0 or (node.kind == "const" and not is_whole(node))):
            raise DomainError(f"{family} with {name} = {node}", expected="a whole number that is not negative")
        if is_positive(distribution, name) and high <= 0:
            raise DomainError(f"{family} with {name} = {node}", expected="a positive number")
        if name == "probs" and (low > 1 or high < 0):
            raise DomainError(f"{family} with {name} = {node}", expected="a number between 0 and 1")
        if (family, name) == ("Geometric", "probs") and high <= 0:
            raise DomainError(f"{family} with {name} = {node}", expected="a positive number: no draw ever ends")
        if (family, name) == ("NegativeBinomial", "probs") and low >= 1:
            raise DomainError(f"{family} with {name} = {node}", expected="a number below 1: no draw ever ends")
    if {"low", "high"} <= set(given) and bounds(minus(given["high"], given["low"]))[1] <= 0:
        raise DomainError(f"{family} from {given['low']} to {given['high']}", expected="ends in order")


Normal, Cauchy, Laplace = _constructor("Normal"), _constructor("Cauchy"), _constructor("Laplace")
StudentT = _constructor("StudentT", loc=0.0, scale=1.0)
Gamma, InverseGamma = _constructor("Gamma"), _constructor("InverseGamma")
Exponential, ChiSquared = _constructor("Exponential"), _constructor("ChiSquared")
HalfNormal, BetaPrime = _constructor("HalfNormal"), _constructor("BetaPrime")
LogNormal, GeneralizedGamma = _constructor("LogNormal"), _constructor("GeneralizedGamma")
TruncatedNormal = _constructor("TruncatedNormal", low=-math.inf, high=math.inf)
Beta, Uniform = _constructor("Beta"), _constructor("Uniform")
Lebesgue = _constructor("Lebesgue", low=-math.inf, high=math.inf)
Counting = _constructor("Counting", low=0.0, high=math.inf)
Bernoulli, Poisson, Geometric = _constructor("Bernoulli"), _constructor("Poisson"), _constructor("Geometric")
NegativeBinomial, Binomial = _constructor("NegativeBinomial"), _constructor("Binomial")
BetaBinomial, Hypergeometric = _constructor("BetaBinomial"), _constructor("Hypergeometric")


def Categorical(weights: Entries | Sequence[Any]) -> Measure:
    """0 … n − 1 with these weights, which need not add up to 1

    >>> fb.total_mass(Categorical([1, 2, 3]))
    6
    """
    vector = _vector(weights)
    if bounds(vector.entry)[1] < 0 or (not isinstance(weights, Entries) and _has_negative(weights)):
        raise DomainError(f"Categorical of {weights}", expected="weights that are not negative")
    return drawn(DrawDistribution("Categorical", (vector,)))


def _has_negative(values: Sequence[Any]) -> bool:
    """One of them is certain to be negative, or is no number."""
    return any(not bounds(node_of(value))[1] >= 0 for value in values)


def Dirichlet(concentration: Entries | Sequence[Any]) -> Measure:
    """A point of the simplex

    >>> fb.total_mass(Dirichlet([1, 2, 3]))
    1
    """
    if not isinstance(concentration, Entries) and not all(bounds(node_of(part))[1] > 0 for part in concentration):
        raise DomainError(f"Dirichlet of {concentration}", expected="positive numbers")
    return drawn(DrawDistribution("Dirichlet", (_vector(concentration),)))


def _vector(values: Entries | Sequence[Any]) -> Vector:
    if isinstance(values, Entries):
        (size,) = values.shape
        over = Index(size)
        return Vector(over, values.at(index(over)))
    over = Index(len(values))
    *rest, entry = map(node_of, values)
    for place in reversed(range(len(rest))):
        entry = chosen(equal(index(over), const(place)), rest[place], entry)
    return Vector(over, entry)


def opaque(name: str, shape: tuple[int, ...] = ()) -> Callable[..., Measure]:
    """A measure of which only the name is known, as a function of its parameters.

    >>> m = opaque("m")
    >>> print(m(2))
    x ~ m(2)
    returns x
    """

    def make(*args: Any) -> Measure:
        distribution = DrawDistribution("Opaque", tuple(map(node_of, args)), name)
        leaf = Leaf("x", shape, role="site")
        over = tuple(Index(size) for size in shape)
        value = Items(over, get(leaf, *map(index, over))) if shape else get(leaf)
        return Measure((Branch((DrawStatement(leaf, (), distribution),), (), ZERO, value),))

    make.__name__ = make.__qualname__ = name
    return make
