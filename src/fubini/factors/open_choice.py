"""The greatest value of factors that no rule joins, and where it is."""

from __future__ import annotations

from fubini.base.interpretations import interpret
from fubini.base.semirings import max_product
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, Product, Weight, substitute
from fubini.terms.heads import CHOOSE, JOIN, MAXIMISE, exact_choose
from fubini.terms.value import to_array


def at_greatest(f: Factor, names: tuple) -> dict:
    """x at max_x f(x, y); bounded integers first, by the greatest value that they leave."""
    infinite = tuple(name for name in names if not f.inputs[name].is_finite)
    finite = tuple(name for name in names if name not in infinite)
    if not infinite:
        return interpret(CHOOSE, interpret(JOIN, f), names)
    chosen = interpret(CHOOSE, promoted(f.reduce(max_product, *infinite)), finite) if finite else {}
    maximum = interpret(MAXIMISE, substitute(f, chosen), infinite)
    return {**chosen, **{name: to_array(value) for name, value in maximum.modes.items()}}


@exact_choose.rule
def choose_open(f: Product | Weight, names: tuple) -> dict:
    """x at max_x f(x, y), of factors that no rule joins"""
    return at_greatest(f, names)
