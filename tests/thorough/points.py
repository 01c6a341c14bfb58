"""Measures by points and weights: a program of measures run once, each draw along an axis of its own.

Continuous draws are integrated by double-exponential rules between the places where a program may have a kink; counts
are summed. The words of the language are made anew here, on NumPy, so that one text runs in both.
"""

import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from scipy import special

AXES = 8  # draws at most
CELLS = 10_000_000  # points at most
KINKS = (-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)  # numbers that tests compare with, and sums
MANY = 120  # counts without an end


class TooLarge(Exception):
    """More points than can be held."""


class Invalid(Exception):
    """No measure: a negative weight, a parameter out of range, an entry that there is not."""


class Value:
    """Numbers along the axes of what was drawn; a test is 0 or 1."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data, float)

    __hash__ = None  # type: ignore[assignment]


def data_of(value: Any) -> np.ndarray:
    return value.data if isinstance(value, Value) else np.asarray(value, float)


def _operator(name: str, compute: Callable[[Any, Any], Any]) -> None:
    def forward(self: Value, other: Any) -> Value:
        with np.errstate(all="ignore"):
            return Value(compute(self.data, data_of(other)))

    def backward(self: Value, other: Any) -> Value:
        with np.errstate(all="ignore"):
            return Value(compute(data_of(other), self.data))

    setattr(Value, f"__{name}__", forward)
    setattr(Value, f"__r{name}__", backward)


for _name, _compute in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "pow": np.power,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": lambda a, b: (a != 0) & (b != 0),
    "or": lambda a, b: (a != 0) | (b != 0),
}.items():
    _operator(_name, _compute)
Value.__neg__ = lambda self: Value(-self.data)  # type: ignore[attr-defined]
Value.__abs__ = lambda self: Value(np.abs(self.data))  # type: ignore[attr-defined]
Value.__invert__ = lambda self: Value(self.data == 0)  # type: ignore[attr-defined]


class Entries(list):
    """An array of values, read at numbers or at values."""

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, Value):
            return super().__getitem__(int(place))
        found = Value(np.nan)
        for k, entry in enumerate(self):
            found = where(place == k, entry, found)
        return found


def where(test: Any, first: Any, second: Any) -> Value:
    return Value(np.where(data_of(test) != 0, data_of(first), data_of(second)))


def _function(compute: Callable[..., Any]) -> Callable[..., Value]:
    def call(*args: Any) -> Value:
        with np.errstate(all="ignore"):
            return Value(compute(*map(data_of, args)))

    return call


# -- distributions --------------------------------------------------------------------------------------------------


class Distribution:
    """A density between two ends, of whole numbers or of real ones; the parameters that are possible."""

    def __init__(self, density: Callable, low: Any, high: Any, is_whole: bool, possible: Any) -> None:
        self.density, self.low, self.high, self.is_whole = density, low, high, is_whole
        self.possible = np.asarray(possible)


def _real(density: Callable, low: Any = -np.inf, high: Any = np.inf, possible: Any = True) -> Distribution:
    return Distribution(density, low, high, False, possible)


def _whole(density: Callable, low: int, high: int, possible: Any = True) -> Distribution:
    return Distribution(density, low, high, True, possible)


def _power(base: Any, exponent: Any) -> Any:
    """0⁰ = 1"""
    return np.where(exponent == 0, 1.0, np.power(base, np.where(exponent == 0, 1.0, exponent)))


def _choose(n: Any, k: Any) -> Any:
    return np.where((k >= 0) & (k <= n), special.binom(n, np.clip(k, 0, n)), 0.0)


def _unit(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def normal(m: Any, s: Any) -> Distribution:
    return _real(lambda x: np.exp(-0.5 * ((x - m) / s) ** 2) / (s * math.sqrt(2 * math.pi)), possible=s > 0)


def laplace(m: Any, s: Any) -> Distribution:
    return _real(lambda x: np.exp(-np.abs(x - m) / s) / (2 * s), possible=s > 0)


def gamma(a: Any, b: Any) -> Distribution:
    density = lambda x: np.exp(a * np.log(b) - special.gammaln(a) + (a - 1) * np.log(x) - b * x)  # noqa: E731
    return _real(density, 0.0, possible=(a > 0) & (b > 0))


def inverse_gamma(a: Any, b: Any) -> Distribution:
    density = lambda x: np.exp(a * np.log(b) - special.gammaln(a) - (a + 1) * np.log(x) - b / x)  # noqa: E731
    return _real(density, 0.0, possible=(a > 0) & (b > 0))


def half_normal(s: Any) -> Distribution:
    return _real(lambda x: 2 * np.exp(-0.5 * (x / s) ** 2) / (s * math.sqrt(2 * math.pi)), 0.0, possible=s > 0)


def beta(a: Any, b: Any) -> Distribution:
    density = lambda x: np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b))  # noqa: E731
    return _real(density, 0.0, 1.0, (a > 0) & (b > 0))


def uniform(low: Any, high: Any) -> Distribution:
    return _real(lambda x: 1 / (high - low) + 0 * x, float(low), float(high))


def lebesgue(low: Any, high: Any) -> Distribution:
    return _real(lambda x: 1.0 + 0 * x, float(low), float(high))


def bernoulli(p: Any) -> Distribution:
    return _whole(lambda k: np.where(k == 1, p, 1 - p), 0, 1, _unit(p))


def binomial(n: Any, p: Any) -> Distribution:
    density = lambda k: _choose(n, k) * _power(p, k) * _power(1 - p, np.maximum(n - k, 0))  # noqa: E731
    return _whole(density, 0, int(np.max(n)), _unit(p))


def poisson(rate: Any) -> Distribution:
    return _whole(lambda k: _power(rate, k) * np.exp(-rate - special.gammaln(k + 1)), 0, MANY, rate >= 0)


def geometric(p: Any) -> Distribution:
    return _whole(lambda k: p * _power(1 - p, k), 0, MANY, _unit(p) & (p > 0))


def negative_binomial(r: Any, p: Any) -> Distribution:
    front = lambda k: np.exp(special.gammaln(k + r) - special.gammaln(r) - special.gammaln(k + 1))  # noqa: E731
    return _whole(lambda k: front(k) * _power(p, k) * (1 - p) ** r, 0, MANY, _unit(p) & (p < 1))


def counting(low: Any, high: Any) -> Distribution:
    return _whole(lambda k: 1.0 + 0 * k, int(low), int(high) - 1)


def categorical(weights: Any) -> Distribution:
    parts = [data_of(part) for part in weights]
    density = lambda k: sum(np.where(k == place, part, 0.0) for place, part in enumerate(parts))  # noqa: E731
    return _whole(density, 0, len(parts) - 1, np.all([np.all(part >= 0) for part in parts]))


def beta_binomial(a: Any, b: Any, n: Any) -> Distribution:
    density = lambda k: _choose(n, k) * np.exp(special.betaln(k + a, n - k + b) - special.betaln(a, b))  # noqa: E731
    return _whole(density, 0, int(np.max(n)), (a > 0) & (b > 0))


def _distribution(make: Callable[..., Distribution]) -> Callable[..., tuple]:
    return lambda *args: ("draw", make(*map(data_of, args)))


# -- points ---------------------------------------------------------------------------------------------------------


class Points:
    """Points and weights that stand for a measure; `fineness` is the number of nodes between two kinks."""

    def __init__(self, fineness: int) -> None:
        self.weight = np.ones((1,) * AXES)
        self.axis = 0
        self.fineness = fineness
        self.real: list[np.ndarray] = []

    def times(self, weight: Any) -> None:
        """One more weight."""
        weight = data_of(weight)
        size = math.prod(np.broadcast_shapes(self.weight.shape, weight.shape))
        if size > CELLS:
            raise TooLarge
        self.weight = np.where(self.weight == 0, 0.0, self.weight * np.where(self.weight == 0, 0.0, weight))
        if np.isnan(self.weight).any() or (self.weight < 0).any() or np.isinf(self.weight).any():
            raise Invalid

    def draw(self, distribution: Distribution) -> Value:
        """A value along a new axis."""
        possible = np.broadcast_to(
            distribution.possible, np.broadcast_shapes(distribution.possible.shape, self.weight.shape)
        )
        if (~possible & (np.broadcast_to(self.weight, possible.shape) > 0)).any():
            raise Invalid
        if self.axis == AXES:
            raise TooLarge
        found = self._whole(distribution) if distribution.is_whole else self._real(distribution)
        nodes, weights = (np.moveaxis(part, -1, self.axis)[..., 0] for part in found)
        self.axis += 1
        with np.errstate(all="ignore"):
            density = distribution.density(nodes)
        if not distribution.is_whole:  # at the very ends, which have no mass
            density = np.where(np.isfinite(density) & (weights > 0), density, 0.0)
        self.times(
            np.where(np.broadcast_to(possible, np.broadcast_shapes(possible.shape, density.shape)), density, 0.0)
        )
        self.times(weights)
        if not distribution.is_whole:
            self.real.append(nodes)
        return Value(nodes)

    def _whole(self, distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
        values = np.arange(distribution.low, distribution.high + 1.0).reshape((1,) * AXES + (-1,))
        return values, np.ones_like(values)

    def _real(self, distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
        """Double-exponential nodes between neighbouring kinks, some of which other draws decide."""
        kinks = [np.full((1,) * AXES, kink) for kink in KINKS if distribution.low < kink < distribution.high]
        for other in self.real:
            kinks += [np.clip(kink, distribution.low, distribution.high) for kink in (other, 1.0 - other, other - 0.5)]
        kinks = kinks or [np.full((1,) * AXES, distribution.low)]
        ends = np.sort(np.stack(np.broadcast_arrays(*kinks), -1), axis=-1)
        if math.prod(ends.shape) * self.fineness > CELLS:
            raise TooLarge
        return _intervals(ends, distribution.low, distribution.high, self.fineness)


def _intervals(ends: np.ndarray, low: float, high: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(-3.2, 3.2, count)
    step = t[1] - t[0]
    finite = 0.5 * (1 + np.tanh(0.5 * np.pi * np.sinh(t)))
    slope = 0.25 * np.pi * np.cosh(t) / np.cosh(0.5 * np.pi * np.sinh(t)) ** 2 * step
    half = np.linspace(-3.6, 3.2, 2 * count)
    far = np.exp(0.5 * np.pi * np.sinh(half))
    far_slope = far * 0.5 * np.pi * np.cosh(half) * (half[1] - half[0])
    shape = ends.shape[:-1]
    first = [np.full((*shape, 1), low)] if np.isfinite(low) else []
    last = [np.full((*shape, 1), high)] if np.isfinite(high) else []
    edges = np.concatenate([*first, ends, *last], -1)
    width = np.diff(edges, axis=-1)[..., None]
    nodes = [(edges[..., :-1, None] + width * finite).reshape(*shape, -1)]
    weights = [(width * slope).reshape(*shape, -1)]
    if not np.isfinite(low):
        nodes.append(edges[..., :1] - far)
        weights.append(np.broadcast_to(far_slope, nodes[-1].shape))
    if not np.isfinite(high):
        nodes.append(edges[..., -1:] + far)
        weights.append(np.broadcast_to(far_slope, nodes[-1].shape))
    return np.concatenate(nodes, -1), np.concatenate(weights, -1)


# -- programs -------------------------------------------------------------------------------------------------------


def words(points: Points) -> dict[str, Any]:
    """The language, in which each statement changes these points."""

    def plate(size: int, kernel: Callable[[int], Any]) -> tuple:
        return ("plate", [kernel(i) for i in range(size)])

    def observe(distribution: tuple, value: Any) -> tuple:
        return ("observe", distribution[1], data_of(value))

    return {
        **{name: _distribution(make) for name, make in DISTRIBUTIONS.items()},
        "Categorical": lambda weights: ("draw", categorical(weights)),
        "weight": lambda of: ("weight", data_of(of)),
        "factor": lambda of: ("weight", np.exp(data_of(of))),
        "condition": lambda of: ("weight", (data_of(of) != 0).astype(float)),
        "observe": observe,
        "superpose": lambda *parts: ("superpose", parts),
        "dirac": lambda value: ("value", value),
        "plate": plate,
        "where": where,
        "exp": _function(np.exp),
        "log": _function(np.log),
        "sqrt": _function(np.sqrt),
        "minimum": _function(np.minimum),
        "maximum": _function(np.maximum),
    }


DISTRIBUTIONS = {
    "Normal": normal,
    "Laplace": laplace,
    "Gamma": gamma,
    "Exponential": lambda b: gamma(np.ones(()), b),
    "InverseGamma": inverse_gamma,
    "HalfNormal": half_normal,
    "Beta": beta,
    "Uniform": uniform,
    "Lebesgue": lebesgue,
    "Bernoulli": bernoulli,
    "Binomial": binomial,
    "Poisson": poisson,
    "Geometric": geometric,
    "NegativeBinomial": negative_binomial,
    "Counting": counting,
    "BetaBinomial": beta_binomial,
}


def run(points: Points, asked: tuple) -> Any:
    """One measure, and the value that it gives back."""
    match asked:
        case ("draw", distribution):
            return points.draw(distribution)
        case ("weight", weight):
            points.times(weight)
        case ("observe", distribution, value):
            with np.errstate(all="ignore"):
                inside = (value >= distribution.low) & (value <= distribution.high)
                points.times(
                    np.where(distribution.possible, np.where(inside, distribution.density(value), 0.0), np.nan)
                )
        case ("value", value):
            return value if isinstance(value, Value) else Value(value)
        case ("plate", parts):
            return Entries([run(points, part) for part in parts])
        case ("superpose", parts):
            label = points.draw(counting(0, len(parts)))
            found: Any = Value(np.nan)
            for place, part in enumerate(parts):
                weight, measure = part
                if measure[0] == "weight":
                    weight, measure = data_of(weight) * measure[1], ("weight", 1.0)
                points.times(np.where(label.data == place, data_of(weight), 1.0))
                before = points.weight
                value = run(points, measure)
                if measure[0] == "draw":  # it is drawn beside other parts too, where its mass does not count
                    points.times(np.where(label.data == place, 1.0, 1 / _mass_of_last(points, before)))
                found = found if value is None else where(label == place, value, found)
            return found
    return None


def _mass_of_last(points: Points, before: np.ndarray) -> np.ndarray:
    """The mass of what was drawn last, given what was drawn before it; 1 where there was no weight."""
    whole = points.weight.sum(axis=points.axis - 1, keepdims=True)
    has_mass = (before > 0) & (whole > 0)
    return np.where(has_mass, whole / np.where(has_mass, before, 1.0), 1.0)


def mass(text: str, fineness: int, **values: float) -> float:
    """The mass of the program that a text defines."""
    points = Points(fineness)
    space = words(points)
    exec(text, space)
    program: Generator = space["program"](**values)
    sent = None
    try:
        while True:
            sent = run(points, program.send(sent))
    except StopIteration:
        return float(points.weight.sum())
