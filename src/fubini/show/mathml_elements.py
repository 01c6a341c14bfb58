"""The elements of MathML that formulas are made of: names, numbers, operators, and how they are put together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ"},
    **{"kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ"},
    **{"phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ"},
    **{"Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω"},
}
BIG = {"Σ": "∑", "Π": "∏", "∫": "∫"}
NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?|\.\d+")
# Not seen, but read aloud; a little space keeps names of several letters apart.
TIMES, APPLY = '<mo lspace="0.17em" rspace="0em">&#x2062;</mo>', "<mo>&#x2061;</mo>"


def element(tag: str, *parts: str, **attributes: str) -> str:
    """An element around elements."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{written}>{''.join(parts)}</{tag}>"


def operator(symbol: str, **attributes: str) -> str:
    """An operator sign."""
    return element("mo", escape(symbol), **attributes)


def prose(text: str) -> str:
    """Words within a formula."""
    return element("mtext", escape(text))


def row(*parts: str) -> str:
    """Elements side by side."""
    return parts[0] if len(parts) == 1 else element("mrow", *parts)


def numeral(text: str) -> str:
    """A number as it is written: 0.04, 1e-05.

    >>> numeral("1e-05")
    '<mrow><mn>1</mn><mo>×</mo><msup><mn>10</mn><mn>−5</mn></msup></mrow>'
    """
    digits, _, power = text.replace("-", "−").lower().partition("e")
    if digits.startswith("−"):
        return row(operator("−"), numeral(text[1:]))
    if not power:
        return element("mn", escape(digits))
    exponent = ("−" if power[0] == "−" else "") + power.lstrip("+−").lstrip("0")
    ten = element("msup", element("mn", "10"), element("mn", exponent))
    return row(element("mn", digits), operator("×"), ten)


def identifier(text: str) -> str:
    """A name or a number: Greek letters by their names, the number of a letter below the line, other names as text.

    >>> identifier("theta_1"), identifier("log_rate")
    ('<msub><mi>θ</mi><mn>1</mn></msub>', '<mi>log_rate</mi>')
    """
    if NUMBER.fullmatch(text):
        return numeral(text)
    base, _, below = text.partition("_")
    if is_numbered_letter(text):
        return element("msub", identifier(base), element("mn", below))
    return element("mi", escape(GREEK.get(text, text)))


def is_numbered_letter(name: str) -> bool:
    """Whether a name is a letter with a number, x_1 or theta_12: other underscores are no subscripts."""
    base, _, below = name.partition("_")
    return (len(base) == 1 or base in GREEK) and below.isascii() and below.isdigit()


def separated(parts: Sequence[str], symbol: str) -> list[str]:
    """Elements with a separator between each two."""
    between = operator(symbol, separator="true")
    return [part for place, each in enumerate(parts) for part in ((between, each) if place else (each,))]


def fenced(opening: str, inside: str, closing: str) -> str:
    """Something between fences: (…), […], |…|."""
    fences = [
        operator(sign, fence="true", stretchy="true", form=form)
        for sign, form in ((opening, "prefix"), (closing, "postfix"))
    ]
    return element("mrow", fences[0], inside, fences[1])


def application(function: str, parts: Sequence[str]) -> str:
    """A function of arguments."""
    return row(function, APPLY, fenced("(", row(*separated(parts, ",")) if parts else "<mrow/>", ")"))


def under(symbol: str, indices: Sequence[str]) -> str:
    """A big operator with its indices below."""
    is_big = symbol in BIG
    sign = operator(BIG[symbol], movablelimits="false") if is_big else element("mi", escape(symbol))
    return element("munder", sign, row(*separated(indices, ","))) if indices else sign


def formula(inside: str, text: str, display: bool = True) -> str:
    """A whole formula, with its plain text for those who hear it or cannot see it."""
    attributes = {"display": "block"} if display else {}
    namespace = "http://www.w3.org/1998/Math/MathML"
    return element("math", row(inside), xmlns=namespace, alttext=text, **attributes)
