"""Primitive measures: for each family its parameters, log-density and support, in index notation.

Densities of numbers are the reader's (`fubini.read.densities`); what is here besides has its support in a test there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fubini.index.binding import replaced
from fubini.index.build import ONE, ZERO, add, call, const, divide, index, minus, plus, power, scale, times
from fubini.index.node import Index, Leaf, Node
from fubini.index.sums import total
from fubini.measures.values import log_normal_mass
from fubini.read.densities import SCALAR, lgamma, log, log_beta, log_choose, one_minus

INFINITY = const(math.inf)


class Vector(NamedTuple):
    """A parameter that is an array: its entry at an index."""

    over: Index
    entry: Node

    def at(self, place: Node) -> Node:
        """The entry at a place."""
        return replaced(self.entry, {index(self.over): place})


Given = Mapping[str, Node | Vector]


class Law(NamedTuple):
    """A family and its parameters; an opaque one has a name of its own, and nothing else is known of it."""

    family: str
    parameters: tuple[Node | Vector, ...]
    label: str = ""

    @property
    def given(self) -> dict[str, Node]:
        """The parameters by name; for families whose parameters are numbers."""
        return dict(zip(FAMILIES[self.family].names, self.parameters, strict=True))  # type: ignore[arg-type]

    def mapped(self, change: Callable[[Node], Node]) -> Law:
        """With a function applied to each parameter."""
        return self._replace(parameters=tuple(_mapped(part, change) for part in self.parameters))

    @property
    def leaves(self) -> frozenset[Leaf]:
        """All that its parameters depend on."""
        return frozenset().union(*(_entry(part).leaves for part in self.parameters))

    @property
    def is_opaque(self) -> bool:
        """Nothing is known of it but its name."""
        return self.family == "Opaque"


def _entry(part: Node | Vector) -> Node:
    return part.entry if isinstance(part, Vector) else part


def _mapped(part: Node | Vector, change: Callable[[Node], Node]) -> Node | Vector:
    return Vector(part.over, change(part.entry)) if isinstance(part, Vector) else change(part)


class Support(NamedTuple):
    """low < x < high, or low ≤ x ≤ high of whole numbers; −∞ and ∞ where there is no end."""

    low: Node
    high: Node
    is_whole: bool = False


REAL = Support(const(-math.inf), INFINITY)
POSITIVE = Support(ZERO, INFINITY)
UNIT = Support(ZERO, ONE)
NATURAL = Support(ZERO, INFINITY, True)


class Family(NamedTuple):
    """Names of parameters, log-density at a value, and support."""

    names: tuple[str, ...]
    density: Callable[[Node, dict[str, Node]], Node]
    support: Callable[[dict[str, Node]], Support]
    is_probability: bool = True


def _log_negative_binomial(k: Node, given: Mapping[str, Node]) -> Node:
    """log Γ(k + r) − log Γ(r) − log k! + k log p + r log(1 − p)"""
    r, p = given["total_count"], given["probs"]
    front = add(((lgamma(plus(k, r)), 1.0), (lgamma(r), -1.0), (lgamma(plus(k, ONE)), -1.0)))
    return add(((front, 1.0), (times(k, log(p)), 1.0), (times(r, log(one_minus(p))), 1.0)))


def _log_binomial(k: Node, given: Mapping[str, Node]) -> Node:
    """log C(n, k) + k log p + (n − k) log(1 − p)"""
    n, p = given["total_count"], given["probs"]
    return add(((log_choose(n, k), 1.0), (times(k, log(p)), 1.0), (times(minus(n, k), log(one_minus(p))), 1.0)))


def _log_beta_binomial(k: Node, given: Mapping[str, Node]) -> Node:
    """log C(n, k) + log B(k + a, n − k + b) − log B(a, b)"""
    a, b, n = given["concentration1"], given["concentration0"], given["total_count"]
    inside = log_beta(plus(k, a), plus(minus(n, k), b))
    return add(((log_choose(n, k), 1.0), (inside, 1.0), (log_beta(a, b), -1.0)))


def _log_hypergeometric(k: Node, given: Mapping[str, Node]) -> Node:
    """log C(n, k) C(m, t − k) / C(n + m, t)"""
    n, m, t = given["first"], given["second"], given["draws"]
    ways = plus(log_choose(n, k), log_choose(m, minus(t, k)))
    return minus(ways, log_choose(plus(n, m), t))


def _log_chi_squared(x: Node, given: Mapping[str, Node]) -> Node:
    return SCALAR["Gamma"](x, {"concentration": scale(0.5, given["df"]), "rate": const(0.5)})


def _log_uniform(x: Node, given: Mapping[str, Node]) -> Node:
    return scale(-1.0, log(minus(given["high"], given["low"])))


def _log_bernoulli(x: Node, given: Mapping[str, Node]) -> Node:
    p = given["probs"]
    return plus(times(x, log(p)), times(one_minus(x), log(one_minus(p))))


def _log_nothing(x: Node, given: Mapping[str, Node]) -> Node:
    return ZERO


def _log_beta_prime(x: Node, given: Mapping[str, Node]) -> Node:
    """(a − 1) log x − (a + b) log(1 + x) − log B(a, b)"""
    a, b = given["concentration1"], given["concentration0"]
    tail = times(plus(a, b), log(plus(ONE, x)))
    return add(((times(minus(a, ONE), log(x)), 1.0), (tail, -1.0), (log_beta(a, b), -1.0)))


def _log_generalized_gamma(x: Node, given: Mapping[str, Node]) -> Node:
    """log |p| + a log b − log Γ(a) + (p a − 1) log x − b x^p"""
    a, b, p = given["concentration"], given["rate"], given["power"]
    assert p.kind == "const"
    exponent = p.args[0]
    front = add(((ONE, math.log(abs(exponent))), (times(a, log(b)), 1.0), (lgamma(a), -1.0)))
    powers = minus(times(minus(scale(exponent, a), ONE), log(x)), times(b, power(x, exponent)))
    return plus(front, powers)


def _log_truncated_normal(x: Node, given: Mapping[str, Node]) -> Node:
    """The normal density over the mass between the ends"""
    low, high = (divide(minus(given[end], given["loc"]), given["scale"]) for end in ("low", "high"))
    return minus(SCALAR["Normal"](x, given), log_normal_mass(low, high))


def _fixed(support: Support) -> Callable[[dict[str, Node]], Support]:
    return lambda given: support


def _up_to(name: str) -> Callable[[dict[str, Node]], Support]:
    return lambda given: Support(ZERO, given[name], True)


def _interval(given: dict[str, Node]) -> Support:
    return Support(given["low"], given["high"])


def _whole_interval(given: dict[str, Node]) -> Support:
    return Support(given["low"], minus(given["high"], ONE), True)


def _of_reader(names: str, support: Support, family: str) -> Family:
    return Family(tuple(names.split()), SCALAR[family], _fixed(support))


FAMILIES: dict[str, Family] = {
    "Normal": _of_reader("loc scale", REAL, "Normal"),
    "Cauchy": _of_reader("loc scale", REAL, "Cauchy"),
    "StudentT": _of_reader("df loc scale", REAL, "StudentT"),
    "Laplace": _of_reader("loc scale", REAL, "Laplace"),
    "Gamma": _of_reader("concentration rate", POSITIVE, "Gamma"),
    "InverseGamma": _of_reader("concentration rate", POSITIVE, "InverseGamma"),
    "Exponential": _of_reader("rate", POSITIVE, "Exponential"),
    "ChiSquared": Family(("df",), _log_chi_squared, _fixed(POSITIVE)),
    "HalfNormal": _of_reader("scale", POSITIVE, "HalfNormal"),
    "LogNormal": _of_reader("loc scale", POSITIVE, "LogNormal"),
    "GeneralizedGamma": Family(("concentration", "rate", "power"), _log_generalized_gamma, _fixed(POSITIVE)),
    "TruncatedNormal": Family(("loc", "scale", "low", "high"), _log_truncated_normal, _interval),
    "BetaPrime": Family(("concentration1", "concentration0"), _log_beta_prime, _fixed(POSITIVE)),
    "Beta": _of_reader("concentration1 concentration0", UNIT, "Beta"),
    "Uniform": Family(("low", "high"), _log_uniform, _interval),
    "Lebesgue": Family(("low", "high"), _log_nothing, _interval, False),
    "Bernoulli": Family(("probs",), _log_bernoulli, _fixed(Support(ZERO, ONE, True))),
    "Counting": Family(("low", "high"), _log_nothing, _whole_interval, False),
    "Poisson": _of_reader("rate", NATURAL, "Poisson"),
    "Geometric": _of_reader("probs", NATURAL, "Geometric"),
    "NegativeBinomial": Family(("total_count", "probs"), _log_negative_binomial, _fixed(NATURAL)),
    "Binomial": Family(("total_count", "probs"), _log_binomial, _up_to("total_count")),
    "BetaBinomial": Family(
        ("concentration1", "concentration0", "total_count"), _log_beta_binomial, _up_to("total_count")
    ),
    "Hypergeometric": Family(("first", "second", "draws"), _log_hypergeometric, _up_to("draws")),
}


def log_density(law: Law, entry: Callable[..., Node]) -> Node:
    """At a value, which is read by its entry: a number has no axes, a point of a simplex one."""
    if law.family == "Categorical":
        (weights,) = law.parameters
        assert isinstance(weights, Vector)
        return log(weights.at(entry()))
    if law.family == "Dirichlet":
        return _log_dirichlet(law, entry)
    return FAMILIES[law.family].density(entry(), law.given)


def _log_dirichlet(law: Law, entry: Callable[..., Node]) -> Node:
    """Σ_c (α_c − 1) log x_c + log Γ(Σ α) − Σ log Γ(α_c)"""
    (alpha,) = law.parameters
    assert isinstance(alpha, Vector)
    c = alpha.over
    parts = minus(times(minus(alpha.entry, ONE), log(entry(index(c)))), lgamma(alpha.entry))
    return plus(total([c], parts), call("lgamma", total([c], alpha.entry)))


def support_of(law: Law) -> Support | None:
    """Where a law of numbers is not zero; None where nothing is known, or of a point of a simplex."""
    if law.is_opaque or law.family == "Dirichlet":
        return None
    if law.family == "Categorical":
        (weights,) = law.parameters
        assert isinstance(weights, Vector)
        return Support(ZERO, const(weights.over.size - 1.0), True)
    return FAMILIES[law.family].support(law.given)
