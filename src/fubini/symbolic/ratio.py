"""Whole numbers without an end, by the ratio f(k + 1)/f(k): what their sum is, and how they are distributed.

log f(k) = c k + Σ ± log Γ(k + o) + Σ ± log Γ(o − k), so that the ratio is e^c times a rational function of k: each
family has its own, and each sum is one of 0F0, 1F0 and 2F1 at 1 (Chu and Vandermonde).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.index.binding import replaced
from fubini.index.build import ONE, ZERO, add, call, const, divide, factors_in, minus, multiply, plus, scale, times
from fubini.index.node import Index, Leaf, Node
from fubini.index.ranges import is_whole
from fubini.index.sums import total
from fubini.symbolic.collect import Blocked, Divergent, linear
from fubini.symbolic.families import Recognised, exponential, is_never_positive, log_gamma, log_rate
from fubini.symbolic.finite import bodies, solving, tests


class Ratio(NamedTuple):
    """c, and the powers of Γ(k + o) and of Γ(o − k) by their offsets o."""

    slope: Node
    rising: Mapping[Node, float]
    falling: Mapping[Node, float]


class Summed(NamedTuple):
    """The law of a latent at indices, and the terms without it."""

    at: tuple[Index, ...]
    law: Recognised
    outside: tuple[Node, ...]


def summed_by_ratio(mine: Node, latent: Leaf, high: Node | None = None) -> Summed:
    """log Σ_k f(k) over k = 0, 1 … or up to an end, which f has to know as well."""
    at = tuple(Index(size, "i") for size in latent.shape)
    ratio, outside = _ratio(mine, latent, at)
    law = recognised_by_ratio(ratio, high)
    if law is None:
        raise Blocked(latent, mine, "a ratio f(k + 1)/f(k) of a known family")
    if is_never_positive(_complement(law)):
        raise Divergent(latent, mine)
    return Summed(at, law, outside)


def _complement(law: Recognised) -> Node:
    """1 − ρ of a sum that is finite where ρ < 1, else 1"""
    if law.family == "Geometric":
        return law.parameters["probs"]
    return minus(ONE, law.parameters["probs"]) if law.family == "NegativeBinomial" else ONE


class Zeros(NamedTuple):
    """Numbers below the first, and above the second, of which f is zero by itself."""

    lows: tuple[Node, ...]
    highs: tuple[Node, ...]


def zeros_of(mine: Node, latent: Leaf, at: tuple[Index, ...]) -> Zeros:
    """1/Γ(k + o) is zero for k ≤ −o, and 1/Γ(o − k) for k ≥ o."""
    ratio, _ = _ratio(mine, latent, at)
    lows = tuple(minus(ONE, offset) for offset, power in ratio.rising.items() if power == -1)
    return Zeros(lows, tuple(minus(offset, ONE) for offset, power in ratio.falling.items() if power == -1))


def _ratio(mine: Node, latent: Leaf, at: tuple[Index, ...]) -> tuple[Ratio, tuple[Node, ...]]:
    slopes: list[Node] = []
    outside: list[Node] = []
    found: tuple[dict[Node, float], dict[Node, float]] = ({}, {})
    for over, body, coefficient in bodies(mine, latent):
        if latent not in body.leaves:
            outside.append(scale(coefficient, total(over, body)))
            continue
        factors = list(factors_in(body))
        inside = [(base, power) for base, power in factors if latent in base.leaves]
        rest = scale(coefficient, multiply([factor for factor in factors if factor not in inside]))
        base, power = inside[0]
        if len(inside) > 1 or power != 1:
            raise Blocked(latent, body, "a ratio f(k + 1)/f(k) that is a rational function of k")
        if base.kind == "get" and base.args[0] is latent:
            slopes.append(total(over, times(rest, tests(base.args[1:], at))))
        else:
            _gamma(base, rest, over, latent, at, found)
    rising, falling = ({offset: power for offset, power in part.items() if power} for part in found)
    return Ratio(add((part, 1.0) for part in slopes), rising, falling), tuple(outside)


def _gamma(
    base: Node,
    rest: Node,
    over: Sequence[Index],
    latent: Leaf,
    at: tuple[Index, ...],
    found: tuple[dict[Node, float], dict[Node, float]],
) -> None:
    """log Γ(k + o) or log Γ(o − k), each entry met once."""
    known = base.kind == "call" and base.args[0] in ("lgamma", "lgamma_if_positive") and rest.kind == "const"
    slopes, offset = linear(base.args[1], latent) if known else (None, ZERO)
    alone = slopes[0] if slopes is not None and len(slopes) == 1 and not slopes[0].over else None
    names = None if alone is None else solving(alone.place, tuple(over), at)
    if alone is None or names is None or alone.coefficient not in (ONE, const(-1.0)):
        raise Blocked(latent, base, "factorials of it, each entry met once")
    where = found[0] if alone.coefficient is ONE else found[1]
    place = replaced(offset, names)
    where[place] = where.get(place, 0.0) + rest.args[0]


def _log_factorial(of: Node) -> Node:
    """log Γ of one more than a count, which needs no guard"""
    return call("lgamma", of)


def recognised_by_ratio(of: Ratio, high: Node | None) -> Recognised | None:
    """The family with this ratio, and log Σ_k f(k)."""
    for family in (_poisson, _geometric, _negative_binomial, _binomial, _beta_binomial, _hypergeometric, _constant):
        found = family(of, high)
        if found is not None:
            return found
    return None


def _poisson(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ λ^k / k!  =  e^λ"""
    if high is not None or of.rising != {ONE: -1.0} or of.falling:
        return None
    rate = exponential(of.slope)
    return Recognised("Poisson", {"rate": rate}, rate)


def _geometric(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ ρ^k  =  1 / (1 − ρ)"""
    if high is not None or of.rising or of.falling:
        return None
    stop = minus(ONE, exponential(of.slope))
    return Recognised("Geometric", {"probs": stop}, scale(-1.0, log_rate(stop)))


def _negative_binomial(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ Γ(k + r) ρ^k / k!  =  Γ(r) (1 − ρ)^(−r)"""
    r = _other(of.rising, 1.0, {ONE: -1.0})
    if high is not None or r is None or of.falling:
        return None
    rho = exponential(of.slope)
    value = minus(log_gamma(r), times(r, log_rate(minus(ONE, rho))))
    return Recognised("NegativeBinomial", {"total_count": r, "probs": rho}, value)


def _binomial(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ ρ^k / k! (n − k)!  =  (1 + ρ)^n / n!"""
    above = _other(of.falling, -1.0, {})
    if above is None or of.rising != {ONE: -1.0} or not _ends(high, above):
        return None
    n, rho = minus(above, ONE), exponential(of.slope)
    value = minus(times(n, call("log", plus(ONE, rho))), _log_factorial(above))
    return Recognised("Binomial", {"total_count": n, "probs": divide(rho, plus(ONE, rho))}, value)


def _beta_binomial(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ Γ(k + a) Γ(n − k + b) / k! (n − k)!  =  B(a, b) Γ(a + b + n) / n!"""
    a = _other(of.rising, 1.0, {ONE: -1.0})
    downs = [offset for offset, power in of.falling.items() if power == -1]
    if a is None or len(downs) != 1 or of.slope is not ZERO or not _ends(high, downs[0]):
        return None
    (above,) = downs
    top = _other(of.falling, 1.0, {above: -1.0})
    if top is None:
        return None
    n = minus(above, ONE)
    b = minus(top, n)
    front = add(((log_gamma(a), 1.0), (log_gamma(b), 1.0), (call("lgamma", plus(a, b)), -1.0)))
    value = add(((front, 1.0), (_log_factorial(plus(a, b, n)), 1.0), (_log_factorial(above), -1.0)))
    return Recognised("BetaBinomial", {"concentration1": a, "concentration0": b, "total_count": n}, value)


def _hypergeometric(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ_k C(n, k) C(m, t − k)  =  C(n + m, t)"""
    d = _other(of.rising, -1.0, {ONE: -1.0})
    if d is None or of.slope is not ZERO or list(of.falling.values()) != [-1.0, -1.0]:
        return None
    first, last = of.falling
    if not (is_whole(first) and is_whole(last)) or not (_ends(high, first) or _ends(high, last)):
        return None
    n, t = minus(first, ONE), minus(last, ONE)
    m = add(((d, 1.0), (t, 1.0), (ONE, -1.0)))
    whole = plus(n, m)
    apart = plus(minus(whole, t), ONE)
    ways = add(((_log_factorial(plus(whole, ONE)), 1.0), (_log_factorial(last), -1.0), (_log_factorial(apart), -1.0)))
    value = add(((ways, 1.0), (_log_factorial(first), -1.0), (_log_factorial(plus(m, ONE)), -1.0)))
    return Recognised("Hypergeometric", {"first": n, "second": m, "draws": t}, value)


def _constant(of: Ratio, high: Node | None) -> Recognised | None:
    """Σ_{k ≤ n} 1  =  n + 1"""
    if high is None or of != (ZERO, {}, {}):
        return None
    return Recognised("Counting", {"low": ZERO, "high": plus(high, ONE)}, call("log", plus(high, ONE)))


def _other(powers: Mapping[Node, float], power: float, besides: Mapping[Node, float]) -> Node | None:
    """The one offset with this power besides some that are there as well."""
    rest = {offset: p for offset, p in powers.items() if besides.get(offset) != p}
    if len(rest) != 1 or len(powers) != len(rest) + len(besides) or list(rest.values()) != [power]:
        return None
    return next(iter(rest))


def _ends(high: Node | None, above: Node) -> bool:
    """f is 0 beyond a whole number n = above − 1, and the sum ends there or nowhere."""
    return is_whole(above) and (high is None or plus(high, ONE) is above)
