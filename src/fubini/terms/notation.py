"""How a term is written: a small tree of notation, rendered as text, LaTeX or HTML.

A term says what it looks like once, in `notation()`; the renderers below know nothing of terms.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

GREEK = frozenset(
    "alpha beta gamma delta epsilon theta lambda mu nu pi rho sigma tau phi chi psi omega".split()  # noqa: SIM905
)
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "//": 2, "**": 4}


@dataclass(frozen=True)
class Symbol:
    """A name or a number, and perhaps its type."""

    name: str
    type: str = ""


@dataclass(frozen=True)
class Infix:
    """arguments joined by an operator."""

    symbol: str
    args: tuple[Notation, ...]


@dataclass(frozen=True)
class Call:
    """head(arguments); keyword arguments are (name, notation) pairs."""

    head: str
    args: tuple[Notation, ...] = ()
    keywords: tuple[tuple[str, Notation], ...] = ()


@dataclass(frozen=True)
class Big:
    """A big operator over indices: Σ_i body."""

    symbol: str
    indices: tuple[str, ...]
    body: Notation


Notation = Symbol | Infix | Call | Big

_LATEX_BIG = {"Σ": r"\sum", "Π": r"\prod", "max": r"\max", "min": r"\min", "∫": r"\int"}
_LATEX_INFIX = {"*": r" \, ", "/": r" / ", "==": " = ", "**": "^"}


def _level(tree: Notation) -> int:
    if isinstance(tree, Infix):
        return PRECEDENCE.get(tree.symbol, 0)
    return 1 if isinstance(tree, Big) else 9


def text(tree: Notation) -> str:
    """Plain text.

    >>> text(Big("Σ", ("b",), Infix("*", (Symbol("f"), Symbol("g")))))
    'Σ_b f * g'
    """
    match tree:
        case Symbol(name, kind):
            return f"{name}{kind and ': ' + kind}"
        case Infix(symbol, (only,)):
            return f"{symbol}{_nested(only, 5)}"
        case Infix(symbol, args):
            level = PRECEDENCE.get(symbol, 0)
            return f" {symbol} ".join([_nested(args[0], level), *(_nested(arg, level + 1) for arg in args[1:])])
        case Call(head, args, keywords):
            return f"{head}({', '.join([*map(text, args), *(f'{key}={text(arg)}' for key, arg in keywords)])})"
        case Big(symbol, indices, body):
            below = ",".join(indices)
            return f"{symbol}_{{{below}}} {text(body)}" if len(indices) > 1 else f"{symbol}_{below} {text(body)}"


def _nested(tree: Notation, level: int) -> str:
    shown = text(tree)
    return f"({shown})" if _level(tree) < level else shown


def latex(tree: Notation) -> str:
    r"""LaTeX, without dollar signs.

    >>> latex(Big("Σ", ("b",), Symbol("theta_1")))
    '\\sum_{b} \\theta_{1}'
    """
    match tree:
        case Symbol(name, _):
            return _latex_name(name)
        case Infix("/", (above, below)):
            return rf"\frac{{{latex(above)}}}{{{latex(below)}}}"
        case Infix("**", (base, exponent)):
            return f"{{{_latex_nested(base, 5)}}}^{{{latex(exponent)}}}"
        case Infix(symbol, (only,)):
            return f"{symbol}{_latex_nested(only, 5)}"
        case Infix(symbol, args):
            level = PRECEDENCE.get(symbol, 0)
            return _LATEX_INFIX.get(symbol, f" {symbol} ").join(_latex_nested(arg, level) for arg in args)
        case Call(head, args, keywords):
            parts = [*map(latex, args), *(f"{_latex_name(key)}={latex(arg)}" for key, arg in keywords)]
            return rf"{_latex_name(head)}\left({', '.join(parts)}\right)"
        case Big(symbol, indices, body):
            return f"{_LATEX_BIG.get(symbol, symbol)}_{{{', '.join(map(_latex_name, indices))}}} {latex(body)}"


def _latex_nested(tree: Notation, level: int) -> str:
    shown = latex(tree)
    return rf"\left({shown}\right)" if _level(tree) < level else shown


def _latex_name(name: str) -> str:
    base, _, below = name.partition("_")
    if base in GREEK:
        base = "\\" + base
    elif len(base) > 1 and not base.replace(".", "").replace("-", "").isdigit():
        base = rf"\mathrm{{{base}}}"
    return f"{base}_{{{below.replace('_', ',')}}}" if below else base


def to_html(tree: Notation) -> str:
    """HTML: the text, escaped, with big operators' indices as subscripts.

    >>> to_html(Big("Σ", ("b",), Symbol("f")))
    'Σ<sub>b</sub> f'
    """
    match tree:
        case Big(symbol, indices, body):
            return f"{symbol}<sub>{html.escape(', '.join(indices))}</sub> {to_html(body)}"
        case Infix(symbol, args) if len(args) > 1:
            level = PRECEDENCE.get(symbol, 0)
            parts = [f"({to_html(arg)})" if _level(arg) < level else to_html(arg) for arg in args]
            return f" {html.escape(symbol)} ".join(parts)
        case Call(head, args, keywords):
            parts = [*map(to_html, args), *(f"{html.escape(key)}={to_html(arg)}" for key, arg in keywords)]
            return f"<b>{html.escape(head)}</b>({', '.join(parts)})"
        case _:
            return html.escape(text(tree))
