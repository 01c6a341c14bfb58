"""Trees of notation as HTML and LaTeX."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from fubini.show.mathml_elements import is_numbered_letter
from fubini.show.notation import Binding, Notation
from fubini.show.styles import Text, render


class Html(Text):
    """The text, escaped, with heads in bold and indices as subscripts."""

    def name(self, name: str) -> str:
        return html.escape(name)

    def typed(self, name: str, kind: str) -> str:
        return super().typed(name, html.escape(kind))

    def infix(self, symbol: str, parts: Sequence[str]) -> str:
        return super().infix(html.escape(symbol), parts)

    def call(self, head: str, parts: Sequence[str]) -> str:
        return super().call(f"<b>{head}</b>", parts)

    def applied(self, function: Any, parts: Sequence[str]) -> str:
        return self.call(html.escape(str(function)), parts)

    def function(self, names: Sequence[str], body: str) -> str:
        return super().function([html.escape(name) for name in names], body)

    def bound(self, tree: Binding) -> str:
        return super().bound(Binding(tree.kind, tree.sizes, tuple(map(html.escape, tree.names)), tree.body))

    def big(self, symbol: str, indices: Sequence[str], body: str) -> str:
        return f"{html.escape(symbol)}<sub>{', '.join(indices)}</sub> {body}"

    def comparison(self, symbol: str, parts: Sequence[str]) -> str:
        return super().comparison(html.escape(symbol), parts)

    def phrase(self, words: str) -> str:
        return html.escape(words)


class Latex(Text):
    """LaTeX, without dollar signs."""

    has_fractions = True
    GREEK = re.compile("(?i)(alpha|beta|gamma|delta|epsilon|theta|lambda|mu|nu|pi|rho|sigma|tau|phi|chi|psi|omega)$")
    BIG = {"Σ": r"\sum", "Π": r"\prod", "max": r"\max", "min": r"\min", "∫": r"\int"}  # noqa: RUF012
    INFIX = {  # noqa: RUF012
        **{"*": r" \, ", "==": " = ", "!=": r" \neq ", "<=": r" \leq ", ">=": r" \geq "},
        **{"%": r" \bmod ", "//": r" \mathbin{/\!/} ", "&": r" \wedge ", "|": r" \vee "},
    }

    def name(self, name: str) -> str:
        if is_numbered_letter(name):
            base, _, below = name.partition("_")
            return f"{self.name(base)}_{{{below}}}"
        if self.GREEK.match(name):
            return "\\" + name
        if len(name) > 1 and not re.fullmatch(r"[-+.\deE]+", name):
            return rf"\mathrm{{{_escaped(name)}}}"
        return _escaped(name)

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

    def coefficient(self, size: float) -> str:
        return r"\frac{1}{2}" if size == 0.5 else f"{size:g}"

    def quotient(self, top: str, bottom: str, count: int) -> str:
        return rf"\frac{{{top}}}{{{bottom}}}"

    def raised(self, base: Notation, power: float) -> str:
        if power == 0.5:
            return rf"\sqrt{{{render(base, self)}}}"
        return self.factor(base) if power == 1 else f"{{{self.factor(base)}}}^{{{power:g}}}"

    def applied(self, function: Any, parts: Sequence[str]) -> str:
        return self.call(rf"\operatorname{{{_escaped(str(function))}}}", parts)

    def comparison(self, symbol: str, parts: Sequence[str]) -> str:
        return rf"\left[{f' {symbol} '.join(sorted(parts) if symbol == '=' else parts)}\right]"

    def bound(self, tree: Binding) -> str:
        exp = r" \exp" if tree.kind in ("lse", "chain") else ""
        head = r"\log \sum" if tree.kind in ("lse", "chain") else r"\max" if tree.kind == "greatest" else r"\sum"
        return f"{head}_{{{', '.join(tree.names)}}}{exp} {self.factor(tree.body)}"


def _escaped(text: str) -> str:
    return re.sub(r"([%&#${}_])", r"\\\1", text).replace("⊕", r"\oplus ")


def latex(tree: Notation) -> str:
    r"""LaTeX, without dollar signs.

    >>> from fubini.show.notation import Big, Symbol
    >>> latex(Big("Σ", ("b",), Symbol("theta_1")))
    '\\sum_{b} \\theta_{1}'
    """
    return render(tree, Latex())


def to_html(tree: Notation) -> str:
    """HTML.

    >>> from fubini.show.notation import Big, Symbol
    >>> to_html(Big("Σ", ("b",), Symbol("f")))
    'Σ<sub>b</sub> f'
    """
    return render(tree, Html())
