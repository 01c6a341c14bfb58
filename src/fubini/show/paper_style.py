"""Trees of notation as a statistician writes them: exact numbers as fractions and roots, log Γ."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from fubini.show.notation import Notation, Numeral, Phrase
from fubini.show.python_source import LARGEST, number
from fubini.show.styles import Text, render

ROUNDING = 1e-15
FUNCTIONS = {"lgamma": "log Γ", "gammaln": "log Γ", "betaln": "log Β"}


def exact_number(value: float) -> str:
    """A number as it is written on paper, where that is it up to rounding; else seven digits of it.

    >>> exact_number(1.5**0.5), exact_number(-(2**0.5)), exact_number(0.25), exact_number(0.1234567891)
    ('√(3/2)', '−√2', '1/4', '0.1234568')
    """
    written = number(_nearest(value))
    if re.search(r"[.e]", written):
        written = f"{value:.7g}"
    plain = re.sub(r"sqrt\((\d+)\)", r"√\1", written).replace("sqrt", "√")
    return plain.replace("-", "−").replace("inf", "∞")


def _nearest(value: float) -> float:
    """A fraction, or a root of one, that a number is but for rounding; else the number itself."""
    if not math.isfinite(value):
        return value
    fraction, square = (Fraction(x).limit_denominator(LARGEST) for x in (value, value * value))
    near = (float(fraction), math.copysign(math.sqrt(square), value))
    return next((x for x in near if x and abs(x - value) <= ROUNDING * abs(value)), value)


class Paper(Text):
    """Plain text with exact numbers."""

    subtracts_last = True

    def number(self, value: float) -> str:
        return exact_number(value)

    def grouped(self, tree: Notation, shown: str) -> str:
        is_fraction = isinstance(tree, Numeral) and ("/" in shown or shown.startswith("−")) and "√" not in shown
        return self.group(shown) if is_fraction or isinstance(tree, Phrase) else super().grouped(tree, shown)

    def _term(self, part: Notation, shown: str, size: float) -> str:
        return exact_number(size) if isinstance(part, Numeral) else super()._term(part, shown, size)

    def coefficient(self, size: float) -> str:
        shown = "½" if size == 0.5 else exact_number(size)
        return self.group(shown) if "/" in shown and "√" not in shown else shown

    def applied(self, function: Any, parts: Sequence[str]) -> str:
        if str(function) == "nonzero":  # the argument itself, which 0 is not divided by
            return self.group(parts[0])
        return self.call(FUNCTIONS.get(str(function), str(function)), parts)


def on_paper(tree: Notation) -> str:
    """Plain text with exact numbers.

    >>> from fubini.show.notation import Call, Symbol
    >>> on_paper(Call("Normal", (Symbol("mu"), Numeral(1.5**0.5))))
    'Normal(mu, √(3/2))'
    """
    return render(tree, Paper())
