"""How a term is written: a small tree of notation, rendered as text, LaTeX or HTML.

A term says what it looks like once, in `notation()`. One walk over the tree places the parentheses; a style says how
the pieces look.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """A name or a number, and perhaps its type."""

    name: str
    type: str = ""


@dataclass(frozen=True)
class Infix:
    """Arguments joined by an operator; a single one follows it."""

    symbol: str
    args: tuple[Notation, ...]


@dataclass(frozen=True)
class Call:
    """head(arguments); keyword arguments are (name, notation) pairs."""

    head: str | Notation
    args: tuple[Notation, ...] = ()
    keywords: tuple[tuple[str, Notation], ...] = ()


@dataclass(frozen=True)
class Subscript:
    """base[indices]."""

    base: Notation
    indices: tuple[Notation, ...]


@dataclass(frozen=True)
class Big:
    """A big operator over indices: Σ_i body."""

    symbol: str
    indices: tuple[str, ...]
    body: Notation


Notation = Symbol | Infix | Call | Subscript | Big

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
    """Plain text, which reads as Python does."""

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


class Html(Text):
    """The text, escaped, with heads in bold and indices as subscripts."""

    def name(self, name: str) -> str:
        return html.escape(name)

    def infix(self, symbol: str, parts: Sequence[str]) -> str:
        return super().infix(html.escape(symbol), parts)

    def call(self, head: str, parts: Sequence[str]) -> str:
        return super().call(f"<b>{head}</b>", parts)

    def big(self, symbol: str, indices: Sequence[str], body: str) -> str:
        return f"{html.escape(symbol)}<sub>{', '.join(indices)}</sub> {body}"


class Latex(Text):
    """LaTeX, without dollar signs."""

    GREEK = re.compile("(?i)(alpha|beta|gamma|delta|epsilon|theta|lambda|mu|nu|pi|rho|sigma|tau|phi|chi|psi|omega)$")
    BIG = {"Σ": r"\sum", "Π": r"\prod", "max": r"\max", "min": r"\min", "∫": r"\int"}  # noqa: RUF012
    INFIX = {  # noqa: RUF012
        **{"*": r" \, ", "==": " = ", "!=": r" \neq ", "<=": r" \leq ", ">=": r" \geq "},
        **{"%": r" \bmod ", "//": r" \mathbin{/\!/} ", "&": r" \wedge ", "|": r" \vee "},
    }

    def name(self, name: str) -> str:
        base, _, below = name.partition("_")
        if self.GREEK.match(base):
            base = "\\" + base
        elif len(base) > 1 and not re.fullmatch(r"[-+.\deE]+", base):
            base = rf"\mathrm{{{_escaped(base)}}}"
        else:
            base = _escaped(base)
        return f"{base}_{{{_escaped(below).replace(chr(95), ',')}}}" if below else base

    def typed(self, name: str, kind: str) -> str:
        return self.name(name)

    def group(self, inside: str) -> str:
        return rf"\left({inside}\right)"

    def infix(self, symbol: str, parts: Sequence[str]) -> str:
        if symbol == "/":
            return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
        if symbol == "**":
            return f"{{{parts[0]}}}^{{{parts[1]}}}"
        return f"{symbol}{parts[0]}" if len(parts) == 1 else self.INFIX.get(symbol, f" {symbol} ").join(parts)

    def call(self, head: str, parts: Sequence[str]) -> str:
        return rf"{head}\left({', '.join(parts)}\right)"

    def index(self, base: str, parts: Sequence[str]) -> str:
        return f"{{{base}}}_{{{', '.join(parts)}}}"

    def big(self, symbol: str, indices: Sequence[str], body: str) -> str:
        known = self.BIG.get(symbol, rf"\operatorname{{{_escaped(symbol)}}}")
        return f"{known}_{{{', '.join(indices)}}} {body}"


def _escaped(text: str) -> str:
    return re.sub(r"([%&#${}])", r"\\\1", text).replace("⊕", r"\oplus ")


def render(tree: Notation, style: Text, level: int = 0) -> str:
    """The tree in a style, in parentheses where its operator binds less tightly than `level`."""
    shown = _plain(tree, style)
    return style.group(shown) if binding(tree) < level else shown


def _plain(tree: Notation, style: Text) -> str:
    match tree:
        case Symbol(name, kind):
            return style.typed(name, kind) if kind else style.name(name)
        case Infix(symbol, args):
            fraction = isinstance(style, Latex) and symbol == "/"  # a fraction is its own parentheses
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


def text(tree: Notation) -> str:
    """Plain text.

    >>> text(Big("Σ", ("b",), Infix("*", (Symbol("f"), Symbol("g")))))
    'Σ_b f * g'
    """
    return render(tree, Text())


def latex(tree: Notation) -> str:
    r"""LaTeX, without dollar signs.

    >>> latex(Big("Σ", ("b",), Symbol("theta_1")))
    '\\sum_{b} \\theta_{1}'
    """
    return render(tree, Latex())


def to_html(tree: Notation) -> str:
    """HTML.

    >>> to_html(Big("Σ", ("b",), Symbol("f")))
    'Σ<sub>b</sub> f'
    """
    return render(tree, Html())
