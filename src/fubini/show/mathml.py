"""Trees of notation as MathML, which browsers draw and screen readers speak."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from fubini.show.mathml_elements import (
    TIMES,
    application,
    element,
    fenced,
    formula,
    identifier,
    numeral,
    operator,
    prose,
    row,
    separated,
    under,
)
from fubini.show.notation import Binding, Infix, Notation, Numeral, Symbol, Total
from fubini.show.styles import Text, render, text

INFIX = {"*": "⁢", "@": "⁢", "==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "-": "−", "&": "∧", "|": "∨", "%": "mod"}


class MathMl(Text):
    """Elements of MathML, without the outermost one."""

    has_fractions = True

    def name(self, name: str) -> str:
        return identifier(name)

    def typed(self, name: str, kind: str) -> str:
        return row(identifier(name), operator(":"), prose(kind))

    def group(self, inside: str) -> str:
        return fenced("(", inside, ")")

    def infix(self, symbol: str, parts: Sequence[str]) -> str:
        if symbol == "/" and len(parts) == 2:
            return element("mfrac", *parts)
        if symbol == "**":
            return element("msup", *parts)
        sign = operator(INFIX.get(symbol, symbol))
        if len(parts) == 1:
            return row(sign, parts[0])
        return row(*(part for place, each in enumerate(parts) for part in ((sign, each) if place else (each,))))

    def call(self, head: str, parts: Sequence[str]) -> str:
        return application(head, parts)

    def keyword(self, name: str, shown: str) -> str:
        return row(prose(name), operator("="), shown)

    def index(self, base: str, parts: Sequence[str]) -> str:
        return element("msub", base, row(*separated(parts, ",")))

    def big(self, symbol: str, indices: Sequence[str], body: str) -> str:
        return row(under(symbol, indices), body)

    def function(self, names: Sequence[str], body: str) -> str:
        return row(*separated([identifier(each) for each in names], ","), operator("↦"), body)

    def phrase(self, words: str) -> str:
        return prose(words)

    # -- index notation ----------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        if value != value or abs(value) == float("inf"):
            return element("mi", escape(super().number(value)))
        return numeral(f"{value:g}")

    def total(self, terms: Sequence[tuple[Notation, float]]) -> str:
        """Σ coefficient · term, in the order of the text."""
        return row(*(part for place, term in enumerate(in_order(terms)) for part in self.signed(*term, place == 0)))

    def signed(self, part: Notation, coefficient: float, is_first: bool) -> list[str]:
        """A term of a sum after its sign; the first one has none where it is positive."""
        shown = self._term(part, render(part, self), abs(coefficient))
        if is_first:
            return [operator("−"), shown] if coefficient < 0 else [shown]
        return [operator("−" if coefficient < 0 else "+", form="infix"), shown]

    def _term(self, part: Notation, shown: str, size: float) -> str:
        if isinstance(part, Numeral):
            return numeral(f"{size:g}")
        if size == 1:
            return self.group(shown) if isinstance(part, Total) else shown
        return row(self.coefficient(size), TIMES, self.grouped(part, shown))

    def coefficient(self, size: float) -> str:
        return element("mfrac", element("mn", "1"), element("mn", "2")) if size == 0.5 else numeral(f"{size:g}")

    def product(self, factors: Sequence[tuple[Notation, float]]) -> str:
        ordered = sorted(factors, key=lambda factor: self._place(factor[0]))
        above = [(base, power) for base, power in ordered if power > 0]
        below = [(base, -power) for base, power in ordered if power < 0]
        top = self._side_by_side(above, bool(below)) if above else element("mn", "1")
        return element("mfrac", top, self._side_by_side(below, True)) if below else top

    def _place(self, base: Notation) -> tuple[bool, str]:
        """Names before brackets, as in the text."""
        shown = Text().factor(base)
        return shown[0] in "([", shown

    def _side_by_side(self, factors: Sequence[tuple[Notation, float]], in_fraction: bool) -> str:
        """Factors one after another; one alone in a fraction needs no parentheses."""
        if in_fraction and len(factors) == 1 and factors[0][1] == 1:
            return render(factors[0][0], self)
        shown = [self.raised(base, power) for base, power in factors]
        return row(*(part for place, each in enumerate(shown) for part in ((TIMES, each) if place else (each,))))

    def raised(self, base: Notation, power: float) -> str:
        if power == 0.5:
            return element("msqrt", render(base, self))
        shown = self.factor(base)
        return shown if power == 1 else element("msup", shown, numeral(f"{power:g}"))

    def applied(self, function: Any, parts: Sequence[str]) -> str:
        return application(element("mi", escape(str(function))), parts)

    def comparison(self, symbol: str, parts: Sequence[str]) -> str:
        return fenced("[", self.infix(symbol, parts), "]")

    def choice(self, test: str, first: str, second: str) -> str:
        lines = ((first, row(prose("if "), test)), (second, prose("otherwise")))
        cells = [element("mtr", *(element("mtd", cell) for cell in line)) for line in lines]
        return row(operator("{", fence="true", stretchy="true", form="prefix"), element("mtable", *cells))

    def bound(self, tree: Binding) -> str:
        indices, body = [identifier(each) for each in tree.names], self.factor(tree.body)
        if tree.kind in ("sum", "slopes"):
            return row(under("Σ", indices), body)
        if tree.kind == "lse":
            return row(element("mi", "log"), under("Σ", indices), element("mi", "exp"), body)
        if tree.kind == "greatest":
            return row(under("max", indices), body)
        if tree.kind == "chain":
            return row(element("mi", "log"), under("Σ", [prose("paths"), *indices]), element("mi", "exp"), body)
        return row(prose(f"{tree.kind} over "), *separated(indices, ","), prose(" of "), body)


def in_order(terms: Sequence[tuple[Notation, float]]) -> list[tuple[Notation, float]]:
    """Terms of a sum as the text has them: numbers last, and what is subtracted after what is added."""
    return sorted(terms, key=lambda term: (isinstance(term[0], Numeral), term[1] < 0, text(term[0])))


def equation(name: str, tree: Notation) -> list[str]:
    """name = tree in MathML; a sum as several formulas, a term each, so that a line can be broken between them.

    >>> from fubini.show.notation import Symbol
    >>> [part.count("<mi>") for part in equation("rate", Total(((Symbol("a"), 1.0), (Symbol("b"), 1.0))))]
    [2, 1]
    """
    if not isinstance(tree, Total) or len(tree.terms) < 2:
        return [mathml(Infix("==", (Symbol(name), tree)), display=False)]
    style, (first, *others) = MathMl(), in_order(tree.terms)
    beginning = row(identifier(name), operator("="), *style.signed(*first, True))
    parts = [formula(beginning, f"{name} = {text(Total((first,)))}", display=False)]
    for term in others:
        sign = "" if term[1] < 0 else "+"
        parts.append(formula(row(*style.signed(*term, False)), sign + text(Total((term,))), display=False))
    return parts


def mathml(tree: Notation, display: bool = True) -> str:
    """A formula in MathML.

    >>> from fubini.show.notation import PowerProduct, Symbol
    >>> print(mathml(PowerProduct(((Symbol("tau"), -2.0),)), display=False).partition("alttext")[2])
    ="1/tau²"><mfrac><mn>1</mn><msup><mi>τ</mi><mn>2</mn></msup></mfrac></math>
    """
    return formula(render(tree, MathMl()), text(tree), display)
