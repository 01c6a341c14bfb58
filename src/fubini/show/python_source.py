"""Trees of notation as Python source, which run again gives what was written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fubini.base.scalar_functions import scalar_function
from fubini.show.notation import Binding, Call, Lambda, Notation, Numeral, Phrase, PowerProduct, Symbol, Total
from fubini.show.styles import Text, render

LARGEST = 1000  # of the numerators and denominators that are written as such
BINDERS = {"sum": "total", "lse": "log_total", "greatest": "greatest"}


@lru_cache(maxsize=4096)
def number(value: float) -> str:
    """A number as a person writes it, where that is exactly it.

    >>> number(0.5), number(2**0.5), number(1.5**0.5), number(0.1234567)
    ('1/2', 'sqrt(2)', 'sqrt(3/2)', '0.1234567')
    """
    if math.isinf(value) or math.isnan(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    near = Fraction(value).limit_denominator(LARGEST)
    if near.numerator / near.denominator == value and abs(near.numerator) < LARGEST:
        return f"{near.numerator}/{near.denominator}"
    square = Fraction(value * value).limit_denominator(LARGEST)
    if 0 < square.numerator < LARGEST and (square.numerator / square.denominator) ** 0.5 == abs(value):
        inside = f"{square.numerator}/{square.denominator}" if square.denominator > 1 else f"{square.numerator}"
        return f"{'-' if value < 0 else ''}sqrt({inside})"
    return repr(float(value))


class Python(Text):
    """Python source, in the words of `fubini.measures`."""

    def number(self, value: float) -> str:
        return number(value)

    def grouped(self, tree: Notation, shown: str) -> str:
        """The text of a factor: what is not one name or call stands in parentheses."""
        is_open = isinstance(tree, Total | PowerProduct | Phrase) or (isinstance(tree, Numeral) and not shown.isdigit())
        return self.group(shown) if is_open else shown

    def total(self, terms: Sequence[tuple[Notation, float]]) -> str:
        """Σ coefficient · term, those that are subtracted last."""
        shown = [(c < 0, isinstance(part, Numeral), self._term(part, render(part, self), abs(c))) for part, c in terms]
        written = ""
        for is_negative, _, term in sorted(shown):
            sign = "-" if is_negative else "+"
            written += f" {sign} {term}" if written else (f"-{term}" if is_negative else term)
        return written

    def _term(self, part: Notation, shown: str, size: float) -> str:
        if isinstance(part, Numeral):
            return number(size)
        return shown if size == 1 else f"{self.coefficient(size)}*{self._multiplied(part, shown)}"

    def coefficient(self, size: float) -> str:
        """A number as a factor."""
        shown = number(size)
        return f"({shown})" if "/" in shown and not shown.startswith("sqrt") else shown

    def _multiplied(self, part: Notation, shown: str) -> str:
        """A term after a number, which must not be multiplied into the sums in it."""
        if not isinstance(part, PowerProduct):
            return self.grouped(part, shown)
        has_sum = any(isinstance(base, Total) for base, _ in part.factors)
        return f"({shown})" if has_sum or shown.startswith("1/") else shown

    def product(self, factors: Sequence[tuple[Notation, float]]) -> str:
        above = sorted(self.raised(base, power) for base, power in factors if power > 0)
        below = sorted(self.raised(base, -power) for base, power in factors if power < 0)
        top = "*".join(above) or "1"
        return self.quotient(top, "*".join(below), len(below)) if below else top

    def raised(self, base: Notation, power: float) -> str:
        if power == 0.5:
            return f"sqrt({render(base, self)})"
        shown = self.factor(base)
        return shown if power == 1 else f"{shown}**{self.coefficient(power)}"

    def applied(self, function: Any, parts: Sequence[str]) -> str:
        word = scalar_function(function).program
        return self.call(word, parts) if word else self.call("function", [repr(function), *parts])

    def comparison(self, symbol: str, parts: Sequence[str]) -> str:
        if symbol == "=":
            symbol, parts = "==", sorted(parts, key=lambda shown: (shown.isdigit(), shown))
        return f"({f' {symbol} '.join(parts)})"

    def choice(self, test: str, first: str, second: str) -> str:
        return f"where({test}, {first}, {second})"

    def bound(self, tree: Binding) -> str:
        sizes = (Symbol(str(size)) for size in tree.sizes)
        return render(Call(BINDERS[tree.kind], (*sizes, Lambda(tree.names, tree.body))), self)


def source(tree: Notation) -> str:
    """Python source.

    >>> source(Total(((Symbol("x"), 0.5), (Numeral(1.0), -2.0))))
    '(1/2)*x - 2'
    """
    return render(tree, Python())
