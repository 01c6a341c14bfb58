"""Identities written in Unicode, `∫ x^(a−1) e^(−b x) dx = Γ(a)/bᵃ`, as MathML."""

from __future__ import annotations

import re

from fubini.show.mathml_elements import (
    APPLY,
    TIMES,
    application,
    element,
    fenced,
    formula,
    identifier,
    operator,
    prose,
    row,
    under,
)

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀᵃᵇᵈᵏᵐⁿᵖʳᵗˣ", "0123456789−+Tabdkmnprtx", strict=True))
TOKENS = re.compile(rf"\s*(\d+(?:\.\d+)?|[A-Za-z]+|[α-ωΓΒ]|[{''.join(RAISED)}]+|\S)")
FUNCTIONS = frozenset({"exp", "log", "min", "max", "tr"})
BIG = "ΣΠ∫"
REMARK = re.compile("(.*)(, [a-z ]+)")
CLOSING = frozenset({")", "=", "+", "−", ",", "]"})


class NotAnIdentity(Exception):
    """A text that is prose, or not written in this notation."""


class _Reader:
    """Recursive descent: equation, sum, product, factor."""

    def __init__(self, text: str) -> None:
        self.tokens, self.place = TOKENS.findall(text), 0
        self.bars = self.raised = 0  # how deep we are in |…| and in exponents
        self.groups: dict[str, str] = {}  # what stands in parentheses, by how it is shown with them

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.next
        if not token or (expected and token != expected):
            raise NotAnIdentity(token)
        self.place += 1
        return token

    def equation(self) -> str:
        """Sides of an equation; after a comma another one, which says what a letter of the first stands for."""
        sides = [self.sum()]
        while self.next in ("=", ","):
            sides += [operator(self.take()), self.sum()]
        if self.next:
            raise NotAnIdentity(self.next)
        return row(*sides)

    def sum(self) -> str:
        parts = [operator(self.take())] if self.next == "−" else []
        parts.append(self.product())
        while self.next in ("+", "−"):
            parts += [operator(self.take()), self.product()]
        return row(*parts)

    def product(self) -> str:
        """Factors side by side; a slash divides all of them by the next one, a big operator takes all that follows."""
        parts: list[str] = []
        while self.next and self.next not in CLOSING and not (self.next == "|" and self.bars):
            if self.next == "/":
                parts = [self.quotient(parts)]
            elif self.next in BIG:
                sign, index = self.take(), self.index()
                parts += [*([TIMES] if parts else []), under(sign, [index] if index else []), self.product()]
            else:
                parts += [*([TIMES] if parts else []), self.factor()]
        if not parts:
            raise NotAnIdentity(self.next)
        return row(*parts)

    def quotient(self, above: list[str]) -> str:
        """A fraction, or in an exponent a slash."""
        slash, top = operator(self.take("/")), row(*above)
        if self.raised:
            return row(top, slash, self.factor())
        return element("mfrac", self.groups.get(top, top), self.factor(is_alone=True))

    def index(self) -> str:
        """What stands below the line, after an underscore."""
        if self.next != "_":
            return ""
        self.take()
        return identifier(self.take())

    def factor(self, is_alone: bool = False) -> str:
        base = self.base(is_alone)
        below, above = self.index(), self.exponent()
        if below or above:
            tag = "msubsup" if below and above else "msub" if below else "msup"
            base = element(tag, base, *filter(None, (below, above)))
        return row(base, operator(self.take())) if self.next == "!" else base

    def exponent(self) -> str:
        """What stands above the line: after ^, or as raised letters."""
        if self.next[:1] and self.next[0] in RAISED:
            return _raised(self.take())
        if self.next != "^":
            return ""
        self.take()
        self.raised += 1
        above = self.factor(is_alone=True)
        self.raised -= 1
        return above

    def base(self, is_alone: bool) -> str:
        """A name, a number, a function of arguments, or parentheses, which are not drawn around what stands alone."""
        token = self.take()
        if token == "(":
            inside = self.sum()
            self.take(")")
            is_whole = is_alone and self.next not in ("!", "^", "_") and (self.next[:1] or " ") not in RAISED
            shown = fenced("(", inside, ")")
            self.groups[shown] = inside
            return inside if is_whole else shown
        if token == "|":
            self.bars += 1
            inside = self.sum()
            self.bars -= 1
            self.take("|")
            return fenced("|", inside, "|")
        if token == "√":
            return element("msqrt", self.factor(is_alone=True))
        if token == "½":
            return element("mfrac", element("mn", "1"), element("mn", "2"))
        if token[0].isdigit():
            return identifier(token)
        is_name = len(token) == 1 or token in FUNCTIONS or self.next == "_" or re.fullmatch("d[a-zA-Z]", token)
        if not token.isalpha() or not is_name:  # other words are prose
            raise NotAnIdentity(token)
        return self.called(token)

    def called(self, token: str) -> str:
        if token in FUNCTIONS and self.next != "(":
            return row(element("mi", token), APPLY)
        if token == "Γ" and self.next == "_":
            return self.application(element("msub", identifier(token), self.index()))
        if self.next == "(" and (token in FUNCTIONS or token in ("Γ", "B")):
            return self.application(element("mi", token))
        if token.startswith("d") and len(token) == 2:
            return row(element("mspace", width="0.2em"), element("mi", "d"), element("mi", token[1]))
        return identifier(token)

    def application(self, head: str) -> str:
        self.take("(")
        parts = [self.sum()]
        while self.next == ",":
            self.take()
            parts.append(self.sum())
        self.take(")")
        return application(head, parts)


def _raised(token: str) -> str:
    plain = "".join(RAISED[sign] for sign in token)
    if plain.isdigit():
        return element("mn", plain)
    return row(*(operator(sign) if sign in "−+" else identifier(sign) for sign in plain))


def identity(text: str) -> str:
    """An identity in MathML; words after a comma stay words, and so does a text that is no identity.

    >>> print(identity("Γ(1) = e^0").partition("<mrow>")[2].removesuffix("</mrow></math>"))
    <mrow><mi>Γ</mi><mo>&#x2061;</mo><mrow><mo fence="true" ...<msup><mi>e</mi><mn>0</mn></msup>
    """
    with_remark = REMARK.fullmatch(text)
    equation, remark = with_remark.groups() if with_remark else (text, "")
    try:
        shown = _Reader(equation).equation()
    except NotAnIdentity:
        return formula(prose(text), text)
    return formula(row(shown, *([prose(remark)] if remark else [])), text)
