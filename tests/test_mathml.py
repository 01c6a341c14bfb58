"""Formulas as MathML: every identity of a family is read, trees of notation keep their structure, text is escaped."""

import xml.etree.ElementTree as ElementTree

import pytest

from fubini.bridge.described import NORMALS, POWERS
from fubini.families.family import families
from fubini.show.identities import identity
from fubini.show.markup import latex
from fubini.show.mathml import equation, mathml
from fubini.show.notation import (
    Applied,
    Big,
    Binding,
    Call,
    Cases,
    Infix,
    Lambda,
    Numeral,
    Phrase,
    PowerProduct,
    Relation,
    Subscript,
    Symbol,
    Total,
)

SPACE = "{http://www.w3.org/1998/Math/MathML}"
IDENTITIES = [family.equation for family in families() if family.equation] + [NORMALS, POWERS]


def shape(text: str) -> list:
    """The elements of a formula as nested lists: tag and what is in it; rows and invisible operators are left out."""

    def read(node) -> list:
        tag = node.tag.removeprefix(SPACE)
        parts = [part for child in node for part in read(child)] if len(node) else [node.text or ""]
        if tag in ("mrow", "math"):
            return parts
        return [] if parts in (["\u2062"], ["\u2061"]) else [[tag, *parts]]

    return read(ElementTree.fromstring(text))


@pytest.mark.parametrize("text", IDENTITIES)
def test_identity_of_a_family_is_read(text) -> None:
    drawn = identity(text)
    assert ElementTree.fromstring(drawn).get("alttext") == text
    words = [node.text for node in ElementTree.fromstring(drawn).iter(f"{SPACE}mtext")]
    assert words in ([], [", entry by entry"])


def test_fractions_powers_and_subscripts() -> None:
    assert shape(identity("Γ(a)/bᵃ")) == [
        ["mfrac", ["mi", "Γ"], ["mo", "("], ["mi", "a"], ["mo", ")"], ["msup", ["mi", "b"], ["mi", "a"]]]
    ]
    assert shape(identity("x_c^(a−1)")) == [
        ["msubsup", ["mi", "x"], ["mi", "c"], ["mi", "a"], ["mo", "−"], ["mn", "1"]]
    ]
    assert shape(identity("√(2π/p)")) == [["msqrt", ["mfrac", ["mn", "2"], ["mi", "π"], ["mi", "p"]]]]
    assert shape(identity("Γ_p(a)")) == [
        ["msub", ["mi", "Γ"], ["mi", "p"]],
        ["mo", "("],
        ["mi", "a"],
        ["mo", ")"],
    ]
    assert shape(identity("a = b, b = 2")) == [
        ["mi", "a"],
        ["mo", "="],
        ["mi", "b"],
        ["mo", ","],
        ["mi", "b"],
        ["mo", "="],
        ["mn", "2"],
    ]
    assert shape(identity("e^(d/2)")) == [["msup", ["mi", "e"], ["mi", "d"], ["mo", "/"], ["mn", "2"]]]


def test_big_operators_take_what_follows() -> None:
    assert shape(identity("Σ λᵏ/k!")) == [
        ["mo", "∑"],
        ["mfrac", ["msup", ["mi", "λ"], ["mi", "k"]], ["mi", "k"], ["mo", "!"]],
    ]
    product, fraction = shape(identity("(Π a_c)/b")), "mfrac"
    assert product[0][0] == fraction and ["mo", "∏"] in product[0]


@pytest.mark.parametrize("text", ["Σ over paths, forward in time", "a sum of <b>things</b>", "(a", "a = ", "|x", ""])
def test_what_is_no_identity_stays_text(text) -> None:
    assert shape(identity(text)) == [["mtext", text]]


def test_trees_of_notation() -> None:
    x, y = Symbol("x"), Symbol("y_1")
    assert shape(mathml(PowerProduct(((x, 1.0), (y, -2.0))))) == [
        ["mfrac", ["mi", "x"], ["msup", ["msub", ["mi", "y"], ["mn", "1"]], ["mn", "2"]]]
    ]
    assert shape(mathml(Total(((x, -0.5), (Numeral(1.0), 3.0))))) == [
        ["mo", "−"], ["mfrac", ["mn", "1"], ["mn", "2"]], ["mi", "x"], ["mo", "+"], ["mn", "3"]
    ]  # fmt: skip
    assert shape(mathml(PowerProduct(((Symbol("sigma"), 0.5),)))) == [["msqrt", ["mi", "σ"]]]
    assert shape(mathml(Subscript(x, (Symbol("j"), Symbol("k"))))) == [
        ["msub", ["mi", "x"], ["mi", "j"], ["mo", ","], ["mi", "k"]]
    ]
    assert shape(mathml(Binding("sum", (3,), ("j",), x))) == [["munder", ["mo", "∑"], ["mi", "j"]], ["mi", "x"]]


@pytest.mark.parametrize(
    "tree",
    [
        Symbol("<x>", "Bint[2]"),
        Call("Normal", (Symbol("a"),), (("scale", Numeral(1e-5)),)),
        Call("empty"),
        Big("max", ("a", "b"), Infix("*", (Symbol("f"), Symbol("g")))),
        Big("⊕", ("a",), Symbol("f")),
        Infix("<=", (Symbol("a"), Infix("-", (Symbol("b"),)))),
        Infix("/", (Symbol("a"), Infix("**", (Symbol("b"), Numeral(2.0))))),
        Cases(Relation("<", (Symbol("a"), Symbol("b"))), Symbol("a"), Numeral(float("inf"))),
        Binding("lse", (3,), ("k",), Applied("log", (Symbol("x"),))),
        Binding("chain", (3,), ("t",), Symbol("x")),
        Binding("rows", (3,), ("t",), Symbol("x")),
        Lambda(("a", "b"), Symbol("a")),
        Phrase("min|A x − b|² of <3> unknowns"),
        Total(((Total(((Symbol("a"), 1.0), (Symbol("b"), 1.0))), -1.0), (PowerProduct(((Symbol("a"), -1.0),)), 2.0))),
    ],
    ids=repr,
)
def test_every_notation_is_well_formed(tree) -> None:
    root = ElementTree.fromstring(mathml(tree))
    assert not [
        node for node in root.iter() if node.tag in (f"{SPACE}mrow", f"{SPACE}math") and (node.text or "").strip()
    ]
    assert not [node for node in root.iter() if (node.tail or "").strip()]


def test_only_a_number_after_a_letter_is_a_subscript() -> None:
    """x[1] and x_1 look alike on paper; log_rate and sigma_y are names, as their author wrote them."""
    assert shape(mathml(Symbol("tau_12"))) == [["msub", ["mi", "τ"], ["mn", "12"]]]
    for name in ("log_rate", "sigma_y", "x_next", "rate_1", "_", "a_"):
        assert shape(mathml(Symbol(name))) == [["mi", name]]
    assert latex(Symbol("log_rate")) == r"\mathrm{log\_rate}" and latex(Symbol("tau_12")) == r"\tau_{12}"


def test_sums_can_be_broken_between_terms() -> None:
    """Each term is a formula of its own, with its sign and its text."""
    terms = ((Symbol("a"), 1.0), (Symbol("b"), -1.0), (Numeral(1.0), 2.0))
    parts = [ElementTree.fromstring(part) for part in equation("rate", Total(terms))]
    assert [part.get("alttext") for part in parts] == ["rate = a", "−b", "+2"]
    assert [shape(part) for part in equation("rate", Symbol("a"))] == [[["mi", "rate"], ["mo", "="], ["mi", "a"]]]
