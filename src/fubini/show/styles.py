"""Trees of notation as plain text; other styles change how the pieces look."""

from __future__ import annotations

from collections.abc import Sequence
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
BINDERS = {"sum": "Σ", "lse": "log Σ", "chain": "log Σ over paths of", "rows": "rows", "slopes": "Σ"}

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

    def index(self, base: str, parts: Sequence[str]) -> str:
        return f"{base}[{', '.join(parts)}]"

    def big(self, symbol: str, indices: Sequence[str], body: str) -> str:
        below = indices[0] if len(indices) == 1 else f"{{{','.join(indices)}}}"
        return f"{symbol}_{below} {body}"

    # -- index notation ----------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        return f"{value:g}".replace("-", "−").replace("inf", "∞")

    def factor(self, tree: Notation) -> str:
        """A tree as a factor: a sum or a choice stands in parentheses."""
        is_open = isinstance(tree, Total | Cases) or (
            isinstance(tree, Binding) and tree.kind in ("sum", "lse", "chain")
        )
        return self.group(render(tree, self)) if is_open else render(tree, self)

    def total(self, terms: Sequence[tuple[Notation, float]]) -> str:
        """Σ coefficient · term, numbers last."""
        shown = [(isinstance(part, Numeral), c < 0, render(part, self), part, abs(c)) for part, c in terms]
        written = ""
        for _, is_negative, text, part, size in sorted(shown, key=lambda term: term[:3]):
            term = self._term(part, text, size)
            sign = "−" if is_negative else "+"
            written += f" {sign} {term}" if written else (f"−{term}" if is_negative else term)
        return written

    def _term(self, part: Notation, shown: str, size: float) -> str:
        if isinstance(part, Numeral):
            return f"{size:g}"
        if size == 1:
            return self.group(shown) if isinstance(part, Total | Cases) else shown
        return f"{self.coefficient(size)} {self.factor(part)}"

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
        exp = " exp" if tree.kind in ("lse", "chain") else ""
        return f"{BINDERS[tree.kind]}_{','.join(tree.names)}{exp} {self.factor(tree.body)}"


def _plain_first(shown: str) -> tuple[bool, str]:
    return shown[0] in "([", shown


def render(tree: Notation, style: Text, level: int = 0) -> str:
    """The tree in a style, in parentheses where its operator binds less tightly than `level`."""
    shown = _plain(tree, style)
    return style.group(shown) if binding(tree) < level else shown


def _plain(tree: Notation, style: Text) -> str:
    match tree:
        case Symbol(name, kind):
            return style.typed(name, kind) if kind else style.name(name)
        case Infix(symbol, args):
            fraction = style.has_fractions and symbol == "/"  # a fraction is its own parentheses
            levels = [0] * len(args) if fraction else operand_levels(symbol, len(args))
            return style.infix(symbol, [render(arg, style, low) for arg, low in zip(args, levels, strict=True)])
        case Call(head, args, keywords):
            named = [f"{style.name(key)}={render(arg, style)}" for key, arg in keywords]
            called = style.name(head) if isinstance(head, str) else render(head, style, ATOM)
            return style.call(called, [*(render(arg, style) for arg in args), *named])
        case Subscript(base, indices):
            return style.index(render(base, style, ATOM), [render(index, style) for index in indices])
        case Big(symbol, indices, body):
            return style.big(symbol, [style.name(index) for index in indices], render(body, style, BINDS["*"]))
        case Numeral(value):
            return style.number(value)
        case Total(terms):
            return style.total(terms)
        case PowerProduct(factors):
            return style.product(factors)
        case Applied(function, args):
            return style.applied(function, [render(arg, style) for arg in args])
        case Relation(symbol, args):
            return style.comparison(symbol, [render(arg, style) for arg in args])
        case Cases(test, first, second):
            return style.choice(*(render(part, style) for part in (test, first, second)))
        case Binding():
            return style.bound(tree)
        case Lambda(names, body):
            return f"lambda {', '.join(names)}: {render(body, style)}"
        case Phrase(words):
            return words


def text(tree: Notation) -> str:
    """Plain text.

    >>> text(Big("Σ", ("b",), Infix("*", (Symbol("f"), Symbol("g")))))
    'Σ_b f * g'
    """
    return render(tree, Text())
