"""How a family is recognised: the form of its log-density in a latent, and what the coefficients of the form make.

Conjugacy is never a table of pairs. A product of factors has one of these forms in one latent, with opaque nodes as
coefficients; the family whose signature accepts them says what the parameters are and what the integral is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from fubini.algebra.build import ONE, plus
from fubini.algebra.node import Node
from fubini.algebra.ranges import is_whole

Form = Literal[
    "features",  # domain, {(kind, power): coefficient}:  Σ coefficient · feature, on a domain of numbers
    "square",  # p, m, s:  −½ p (x − m)² + s x, on the real numbers
    "quadratic",  # p, w, m, s:  −p log(s + w (x − m)²), on the real numbers
    "sum",  # a, b, c, d:  (a − 1) log x − (a + b) log(c + d x), on positive numbers
    "simplex",  # c, α:  Σ_c (α_c − 1) log x_c
    "root",  # e, p, c, B, log |B|:  c log |P| − ½ tr(P B), of p × p positive definite matrices X with P = X^e, e = ±1
    "power",  # p, a, b:  p log x between a and b, which are not negative
    "flat",  # a, b:  0 between a and b
    "labels",  # k, g:  g(k), for finitely many k
    "ratio",  # Ratio, end:  c k + Σ ± log Γ(k + o) + Σ ± log Γ(o − k), of whole numbers k
]
Key = tuple[str, float]  # kind and power of a feature: log x, log(1 − x), x^p
Features = Mapping[Key, Node]
Match = tuple[dict[str, Node], Node]  # parameters, log-normaliser

LOG, LOG1M, LINEAR, INVERSE = ("log", 1.0), ("log1m", 1.0), ("power", 1.0), ("power", -1.0)


class Recognised(NamedTuple):
    """A family, its parameters, and log ∫ exp of what was recognised."""

    family: str
    parameters: Mapping[str, Node]
    log_normaliser: Node
    log_peak: Node | None = None  # log max of what was recognised, where the family's mode is no node


class Signature(NamedTuple):
    """A form, and what its coefficients make; None where they are not those of the family."""

    form: Form
    make: Callable[..., Match | None]
    peak: Callable[..., Node] | None = None  # log max of the form, where the mode has no form in index notation


def features(domain: str, needed: Key | None, others: tuple[Key, ...], make: Callable[[Features], Match]) -> Signature:
    """The signature of a family whose features are these: one that must occur, and others that may."""
    allowed = {needed, *others}

    def match(where: str, coefficients: Features) -> Match | None:
        fits = where == domain and set(coefficients) <= allowed and (needed is None or needed in coefficients)
        return make(coefficients) if fits else None

    return Signature("features", match)


class Ratio(NamedTuple):
    """c, and the powers of Γ(k + o) and of Γ(o − k) by their offsets o; f(k + 1)/f(k) is rational in k."""

    slope: Node
    rising: Mapping[Node, float]
    falling: Mapping[Node, float]


FACTORIAL: Mapping[Node, float] = {ONE: -1.0}  # 1/k!


def other_offset(powers: Mapping[Node, float], power: float, besides: Mapping[Node, float]) -> Node | None:
    """The one offset with this power besides some that are there as well."""
    others = {offset: p for offset, p in powers.items() if besides.get(offset) != p}
    if len(others) != 1 or len(powers) != len(others) + len(besides) or list(others.values()) != [power]:
        return None
    return next(iter(others))


def ends_below(high: Node | None, above: Node) -> bool:
    """f is 0 beyond a whole number n = above − 1, and the sum ends there or nowhere."""
    return is_whole(above) and (high is None or plus(high, ONE) is above)
