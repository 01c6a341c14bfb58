"""Whole numbers without an end, by the ratio f(k + 1)/f(k): what their sum is, and how they are distributed.

log f(k) = c k + Σ ± log Γ(k + o) + Σ ± log Γ(o − k), so that the ratio is e^c times a rational function of k: each
family has its own (`fubini.families`), and each sum is one of 0F0, 1F0 and 2F1 at 1 (Chu and Vandermonde).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, add, const, factors_in, minus, multiply, scale, times
from fubini.algebra.features import Divergent, NoClosedForm, linear
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.families.family import is_divergent, recognise
from fubini.families.signature import Ratio, Recognised
from fubini.integrate.finite import bodies, solving, tests


class SummedRatio(NamedTuple):
    """The distribution of a latent at indices, and the terms without it."""

    at: tuple[Index, ...]
    distribution: Recognised
    outside: tuple[Node, ...]


def summed_by_ratio(with_latent: Node, latent: Leaf, high: Node | None = None) -> SummedRatio:
    """log Σ_k f(k) over k = 0, 1 … or up to an end, which f has to know as well."""
    at = tuple(Index(size, "i") for size in latent.shape)
    ratio, outside = _ratio(with_latent, latent, at)
    distribution = recognise("ratio", ratio, high)
    if distribution is None:
        raise NoClosedForm(latent, with_latent, "a ratio f(k + 1)/f(k) of a known family")
    if is_divergent(distribution):
        raise Divergent(latent, with_latent)
    return SummedRatio(at, distribution, outside)


class Zeros(NamedTuple):
    """Numbers below the first, and above the second, of which f is zero by itself."""

    lows: tuple[Node, ...]
    highs: tuple[Node, ...]


def zeros_of(with_latent: Node, latent: Leaf, at: tuple[Index, ...]) -> Zeros:
    """1/Γ(k + o) is zero for k ≤ −o, and 1/Γ(o − k) for k ≥ o."""
    ratio, _ = _ratio(with_latent, latent, at)
    lows = tuple(minus(ONE, offset) for offset, power in ratio.rising.items() if power == -1)
    return Zeros(lows, tuple(minus(offset, ONE) for offset, power in ratio.falling.items() if power == -1))


def _ratio(with_latent: Node, latent: Leaf, at: tuple[Index, ...]) -> tuple[Ratio, tuple[Node, ...]]:
    slopes: list[Node] = []
    outside: list[Node] = []
    gammas: tuple[dict[Node, float], dict[Node, float]] = ({}, {})
    for over, body, coefficient in bodies(with_latent, latent):
        if latent not in body.leaves:
            outside.append(scale(coefficient, total(over, body)))
            continue
        factors = list(factors_in(body))
        inside = [(base, power) for base, power in factors if latent in base.leaves]
        rest = scale(coefficient, multiply([factor for factor in factors if factor not in inside]))
        base, power = inside[0]
        if len(inside) > 1 or power != 1:
            raise NoClosedForm(latent, body, "a ratio f(k + 1)/f(k) that is a rational function of k")
        if base.kind == "get" and base.args[0] is latent:
            slopes.append(total(over, times(rest, tests(base.args[1:], at))))
        else:
            _gamma(base, rest, over, latent, at, gammas)
    rising, falling = ({offset: power for offset, power in part.items() if power} for part in gammas)
    return Ratio(add((part, 1.0) for part in slopes), rising, falling), tuple(outside)


def _gamma(
    base: Node,
    rest: Node,
    over: Sequence[Index],
    latent: Leaf,
    at: tuple[Index, ...],
    gammas: tuple[dict[Node, float], dict[Node, float]],
) -> None:
    """log Γ(k + o) or log Γ(o − k), each entry read once."""
    known = base.kind == "call" and base.args[0] in ("lgamma", "lgamma_if_positive") and rest.kind == "const"
    slopes, offset = linear(base.args[1], latent) if known else (None, ZERO)
    alone = slopes[0] if slopes is not None and len(slopes) == 1 and not slopes[0].over else None
    names = None if alone is None else solving(alone.place, tuple(over), at)
    if alone is None or names is None or alone.coefficient not in (ONE, const(-1.0)):
        raise NoClosedForm(latent, base, "factorials of it, each entry read once")
    where = gammas[0] if alone.coefficient is ONE else gammas[1]
    place = replaced(offset, names)
    where[place] = where.get(place, 0.0) + rest.args[0]
