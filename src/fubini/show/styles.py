"""Trees of notation as plain text; other styles change how the pieces look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fubini.show.notation import (
    Applied,
    Big,
    Binding,
    Call,
    Cases,
    Infix,
    Lambda,
    Notation,
    Numeral,
    Phrase,
    PowerProduct,
    Relation,
    Subscript,
    Symbol,
    Total,
)

RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
BINDERS = {"sum": "Σ", "lse": "log Σ", "greatest": "max", "chain": "log Σ over paths of", "rows": "rows", "slopes": "Σ"}

# How tightly operators bind, as in Python; the operands of a comparison are never comparisons.
BINDS = {"|": 1, "&": 2, "+": 3, "-": 3, "*": 4, "@": 4, "/": 4, "%": 4, "//": 4, "**": 6}
COMPARISON, NEGATION, ATOM, BIG = 0, 5, 9, 3


def binding(tree: Notation) -> int:
    """How tightly the outermost operator of a tree binds."""
    if isinstance(tree, Infix):
        return NEGATION if len(tree.args) == 1 else BINDS.get(tree.symbol, COMPARISON)
    return BIG if isinstance(tree, Big) else ATOM


def operand_levels(symbol: str, count: int) -> list[int]:
    """How tightly each operand must bind to stand without parentheses."""
    if count == 1:
        return [NEGATION]
    level = BINDS.get(symbol, COMPARISON)
    if symbol == "**":
        return [level + 1, NEGATION]
    first = level if symbol in BINDS else level + 1
    return [first, *[level + 1] * (count - 1)]


class Text:
    """Plain text: terms read as Python does, index notation as it is written on paper."""

    has_fractions = False
    subtracts_last = False  # also numbers, which come last otherwise

    def name(self, name: str) -> str:
        return name

    def typed(self, name: str, kind: str) -> str:
        return f"{self.name(name)}: {kind}"

    def group(self, inside: str) -> str:
        return f"({inside})"

    def infix(self, symbol: str, parts: Sequence[str]) -> str:
        return f"{symbol}{parts[0]}" if len(parts) == 1 else f" {symbol} ".join(parts)

    def call(self, head: str, parts: Sequence[str]) -> str:
        return f"{head}({', '.join(parts)})"

    def keyword(self, name: str, shown: str) -> str:
        return f"{self.name(name)}={shown}"

    def index(self, base: str, parts: Sequence[str]) -> str:
        return f"{base}[{', '.join(parts)}]"

    def big(self, symbol: str, indices: Sequence[str], body: str) -> str:
        below = indices[0] if len(indices) == 1 else f"{{{','.join(indices)}}}"
        return f"{symbol}_{below} {body}"

    def function(self, names: Sequence[str], body: str) -> str:
        return f"lambda {', '.join(names)}: {body}"

    def phrase(self, words: str) -> str:
        return words

    # -- index notation ----------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        return f"{value:g}".replace("-", "−").replace("inf", "∞")

    def factor(self, tree: Notation) -> str:
        """A tree as a factor."""
        return self.grouped(tree, render(tree, self))

    def grouped(self, tree: Notation, shown: str) -> str:
        """The text of a factor: a sum or a choice stands in parentheses."""
        is_open = isinstance(tree, Total | Cases) or (
            isinstance(tree, Binding) and tree.kind in ("sum", "lse", "greatest", "chain")
        )
        return self.group(shown) if is_open else shown

    def total(self, terms: Sequence[tuple[Notation, float]]) -> str:
        """Σ coefficient · term, numbers last."""
        shown = [(isinstance(part, Numeral), c < 0, render(part, self), part, abs(c)) for part, c in terms]
        written = ""
        places = (1, 0, 2) if self.subtracts_last else (0, 1, 2)
        for _, is_negative, text, part, size in sorted(shown, key=lambda term: [term[place] for place in places]):
            term = self._term(part, text, size)
            sign = "−" if is_negative else "+"
            written += f" {sign} {term}" if written else (f"−{term}" if is_negative else term)
        return written

    def _term(self, part: Notation, shown: str, size: float) -> str:
        if isinstance(part, Numeral):
            return f"{size:g}"
        if size == 1:
            return self.group(shown) if isinstance(part, Total | Cases) else shown
        return f"{self.coefficient(size)} {self.grouped(part, shown)}"

    def coefficient(self, size: float) -> str:
        return "½" if size == 0.5 else f"{size:g}"

    def product(self, factors: Sequence[tuple[Notation, float]]) -> str:
        """Π base^exponent, names before brackets, so that it does not depend on what was made first."""
        above = sorted((self.raised(base, power) for base, power in factors if power > 0), key=_plain_first)
        below = sorted((self.raised(base, -power) for base, power in factors if power < 0), key=_plain_first)
        top = " ".join(above) or "1"
        return self.quotient(top, " ".join(below), len(below)) if below else top

    def quotient(self, top: str, bottom: str, count: int) -> str:
        return f"{top}/{bottom}" if count == 1 else f"{top}/({bottom})"

    def raised(self, base: Notation, power: float) -> str:
        shown = self.factor(base)
        if power == 1:
            return shown
        if power == 0.5:
            return f"√{shown}"
        return f"{shown}{str(int(power)).translate(RAISED)}" if power == int(power) else f"{shown}^{power:g}"

    def applied(self, function: Any, parts: Sequence[str]) -> str:
        return self.call(str(function), parts)

    def comparison(self, symbol: str, parts: Sequence[str]) -> str:
        return f"[{f' {symbol} '.join(sorted(parts) if symbol == '=' else parts)}]"

    def choice(self, test: str, first: str, second: str) -> str:
        return f"{first} if {test} else {second}"

    def bound(self, tree: Binding) -> str:
        if tree.kind == "chain" and isinstance(tree.body, Applied):
            # the weights of states and of transitions come last
            weights = " + ".join(render(weight, self) for weight in tree.body.args[-2:])
            return f"log Σ over paths exp Σ_{tree.names[0]} ({weights})"
        exp = " exp" if tree.kind in ("lse", "chain") else ""
        return f"{BINDERS[tree.kind]}_{','.join(tree.names)}{exp} {self.factor(tree.body)}"


def _plain_first(shown: str) -> tuple[bool, str]:
    return shown[0] in "([", shown


def render(tree: Notation, style: Text, level: int = 0) -> str:
    """The tree in a style, in parentheses where its operator binds less tightly than `level`."""
    shown = _RENDERED[type(tree)](tree, style)
    return style.group(shown) if level and binding(tree) < level else shown


def _symbol(tree: Symbol, style: Text) -> str:
    return style.typed(tree.name, tree.type) if tree.type else style.name(tree.name)


def _infix(tree: Infix, style: Text) -> str:
    is_fraction = style.has_fractions and tree.symbol == "/"  # a fraction is its own parentheses
    levels = [0] * len(tree.args) if is_fraction else operand_levels(tree.symbol, len(tree.args))
    return style.infix(tree.symbol, [render(arg, style, low) for arg, low in zip(tree.args, levels, strict=True)])


def _call(tree: Call, style: Text) -> str:
    named = [style.keyword(key, render(arg, style)) for key, arg in tree.keywords]
    called = style.name(tree.head) if isinstance(tree.head, str) else render(tree.head, style, ATOM)
    return style.call(called, [*(render(arg, style) for arg in tree.args), *named])


def _subscript(tree: Subscript, style: Text) -> str:
    return style.index(render(tree.base, style, ATOM), [render(index, style) for index in tree.indices])


def _big(tree: Big, style: Text) -> str:
    return style.big(tree.symbol, [style.name(index) for index in tree.indices], render(tree.body, style, BINDS["*"]))


_RENDERED: dict[type, Callable[[Any, Text], str]] = {
    Symbol: _symbol,
    Infix: _infix,
    Call: _call,
    Subscript: _subscript,
    Big: _big,
    Numeral: lambda tree, style: style.number(tree.value),
    Total: lambda tree, style: style.total(tree.terms),
    PowerProduct: lambda tree, style: style.product(tree.factors),
    Applied: lambda tree, style: style.applied(tree.function, [render(arg, style) for arg in tree.args]),
    Relation: lambda tree, style: style.comparison(tree.symbol, [render(arg, style) for arg in tree.args]),
    Cases: lambda tree, style: style.choice(*(render(x, style) for x in (tree.test, tree.first, tree.second))),
    Binding: lambda tree, style: style.bound(tree),
    Lambda: lambda tree, style: style.function(tree.names, render(tree.body, style)),
    Phrase: lambda tree, style: style.phrase(tree.words),
}


def text(tree: Notation) -> str:
    """Plain text.

    >>> text(Big("Σ", ("b",), Infix("*", (Symbol("f"), Symbol("g")))))
    'Σ_b f * g'
    """
    return render(tree, Text())
