"""Nodes as a person would write them: sums of quotients over one denominator, ratios of Γ as products."""

from __future__ import annotations

from collections.abc import Callable

from fubini.algebra.binding import closed, likeness, opened, remade
from fubini.algebra.build import (
    ONE,
    add,
    call,
    const,
    content,
    factors_in,
    is_test,
    minus,
    multiply,
    plus,
    power,
    scale,
    times,
)
from fubini.algebra.node import Node
from fubini.algebra.ranges import exceeds_zero, is_not_negative
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite

FAR = 4  # whole numbers that arguments of Γ may differ by

Factors = dict[Node, float]


def tidied(of: Node) -> Node:
    """The same number, with fewer quotients inside of logarithms and powers."""
    makers = {"sum": _summed, "lse": _log_summed}
    return rewrite(of, lambda this, visit: _tidy(makers.get(this.kind, remade)(this, visit)))


def _summed(of: Node, visit: Callable[[Node], Node]) -> Node:
    """A sum made anew by the rules for sums, where its body changes."""
    over, body = opened(of)
    new = visit(body)
    return of if new is body else total(over, new)


def _log_summed(of: Node, visit: Callable[[Node], Node]) -> Node:
    """log Σ_i e^(a + log b_i)  =  a + log Σ_i b_i"""
    over, body = opened(of)
    new = visit(body)
    parts = new.args if new.kind == "add" else ((new, 1.0),)
    inside = [(part, c) for part, c in parts if part.free & set(over)]
    if inside and all(_is_log(part) for part, _ in inside):
        outside = add(item for item in parts if item not in inside)
        return plus(outside, call("log", total(over, times(*(power(part.args[1], c) for part, c in inside)))))
    return of if new is body else closed("lse", over, new)


def _tidy(of: Node) -> Node:
    if of.kind == "call" and of.args[0] in ("log", "lgamma") and (expanded := _at_test(of)) is not None:
        return expanded
    if of.kind == "call" and of.args[0] == "log" and of.args[1].kind == "add":
        above, below = together(of.args[1])
        if below and all(map(is_not_negative, below)):
            return add(((call("log", above), 1.0), *((call("log", base), -power) for base, power in below.items())))
    if of.kind == "mul" and any(base.kind == "add" for base, _ in of.args):
        return multiply(part for base, power in of.args for part in _split(base, power))
    return _gamma_ratios_of(_logs_collected(of)) if of.kind == "add" else of


def _at_test(of: Node) -> Node | None:
    """f(a + c [t])  =  f(a) + [t] (f(a + c) − f(a)), which for log Γ and c = 1 is log Γ(a) + [t] log a"""
    name, inside = of.args
    tests = [(part, c) for part, c in inside.args if is_test(part) and part is not ONE] if inside.kind == "add" else []
    if len(tests) != 1 or not is_not_negative(inside):
        return None
    ((test, c),) = tests
    rest = add(item for item in inside.args if item[0] is not test)
    if not exceeds_zero(rest) or not exceeds_zero(plus(rest, const(c))):
        return None
    step = (
        call("log", rest) if name == "lgamma" and c == 1 else minus(call(name, plus(rest, const(c))), call(name, rest))
    )
    return plus(call(name, rest), times(test, step))


def _logs_collected(of: Node) -> Node:
    """a log x + b log x  =  (a + b) log x"""
    coefficients: dict[Node, list[tuple[Node, float]]] = {}
    rest: list[tuple[Node, float]] = []
    for part, c in (item for term in of.args for item in _multiplied_out(*term)):
        factors = dict(factors_in(part))
        logs = [base for base, power in factors.items() if _is_log(base) and power == 1]
        if len(logs) == 1:
            others = multiply((base, power) for base, power in factors.items() if base is not logs[0])
            coefficients.setdefault(logs[0], []).append((others, c))
        else:
            rest.append((part, c))
    return add([*rest, *(_times(add(parts), log) for log, parts in coefficients.items())])


def _times(coefficient: Node, log: Node) -> tuple[Node, float]:
    """The product, with the sign in front where all terms of the coefficient have it."""
    if coefficient.kind == "add" and all(c < 0 for _, c in coefficient.args):
        return times(scale(-1.0, coefficient), log), -1.0
    return times(coefficient, log), 1.0


def _multiplied_out(part: Node, coefficient: float) -> list[tuple[Node, float]]:
    """(log a + b) c  =  c log a + b c"""
    factors = part.args if part.kind == "mul" else ()
    sums = [base for base, power in factors if power == 1 and base.kind == "add" and _has_log(base)]
    if len(sums) != 1:
        return [(part, coefficient)]
    rest = [(base, power) for base, power in factors if base is not sums[0]]
    return [(multiply([(term, 1.0), *rest]), coefficient * c) for term, c in sums[0].args]


def _is_log(of: Node) -> bool:
    return of.kind == "call" and of.args[0] == "log"


def _has_log(of: Node) -> bool:
    return any(_is_log(part) for part, _ in of.args)


def _split(base: Node, power: float) -> list[tuple[Node, float]]:
    """(a/b)^p as a^p b^(−p)"""
    if base.kind != "add":
        return [(base, power)]
    if power % 2 == 0 and min(base.args, key=lambda item: likeness(item[0]))[1] < 0:
        base = scale(-1.0, base)  # (a − b)² = (b − a)²
    above, below = together(base)
    if not all(map(is_not_negative, below)):
        above, below = base, {}
    common, rest = content(above)
    shared = [(part, exponent * power) for part, exponent in common.items()]
    return [(rest, power), *shared, *((part, -exponent * power) for part, exponent in below.items())]


def together(of: Node) -> tuple[Node, Factors]:
    """A sum as one quotient: what is above, and the factors below."""
    below: Factors = {}
    for part, _ in of.args if of.kind == "add" else ():
        for base, exponent in part.args if part.kind == "mul" else ():
            if exponent < 0:
                below[base] = max(below.get(base, 0.0), -exponent)
    if not below:
        return of, {}
    return add((multiply([(part, 1.0), *below.items()]), c) for part, c in of.args), below


def _gamma_ratios(of: Node) -> Node:
    """log Γ(x + n) − log Γ(x)  =  log x + … + log(x + n − 1)"""
    gammas = [(part, c) for part, c in of.args if part.kind == "call" and part.args[0] == "lgamma"]
    for place, (part, c) in enumerate(gammas):
        for other, d in gammas[place + 1 :]:
            step = minus(part.args[1], other.args[1])
            if c * d >= 0 or step.kind != "const" or step.args[0] != int(step.args[0]) or abs(step.args[0]) > FAR:
                continue
            upper, lower = (part, other) if step.args[0] > 0 else (other, part)
            moved = min(abs(c), abs(d)) * (1.0 if dict(gammas)[upper] > 0 else -1.0)
            count = int(abs(step.args[0]))
            logs = [(call("log", plus(lower.args[1], *[ONE] * k)), moved) for k in range(count)]
            return _gamma_ratios_of(add([*of.args, (upper, -moved), (lower, moved), *logs]))
    return of


def _gamma_ratios_of(of: Node) -> Node:
    return _gamma_ratios(of) if of.kind == "add" else of
