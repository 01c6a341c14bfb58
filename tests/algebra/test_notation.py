"""One tree of notation, in every style."""

import pytest

from fubini.algebra.binding import closed
from fubini.algebra.build import ONE, add, call, equal, get, index, less, power, times, where
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.node_notation import NodeNotation
from fubini.show.markup import latex, to_html
from fubini.show.python_source import source
from fubini.show.styles import text

I = Index(3)  # noqa: E741
x, y = get(Leaf("x", (3,)), index(I)), get(Leaf("y", ()))
SUM = closed("sum", [I], power(x, 2.0))

CASES = {
    "sum": (
        add(((x, 0.5), (y, -1.0), (ONE, 2.0))),
        "½ x[j] − y + 2",
        "(1/2)*x[j] + 2 - y",
        r"\frac{1}{2} {x}_{j} − y + 2",
    ),
    "product": (times(y, power(x, -2.0)), "y/x[j]²", "y/x[j]**2", r"\frac{y}{{{x}_{j}}^{2}}"),
    "root": (power(y, 0.5), "√y", "sqrt(y)", r"\sqrt{y}"),
    "function": (call("tanh", y), "tanh(y)", "function('tanh', y)", r"\operatorname{tanh}\left(y\right)"),
    "test": (less(x, y), "[x[j] < y]", "(x[j] < y)", r"\left[{x}_{j} < y\right]"),
    "equality": (equal(x, y), "[x[j] = y]", "(x[j] == y)", r"\left[y = {x}_{j}\right]"),
    "choice": (where(less(x, y), x, y), "x[j] if [x[j] < y] else y", "where((x[j] < y), x[j], y)", None),
    "binder": (SUM, "Σ_j x[j]²", "total(3, lambda j: x[j]**2)", r"\sum_{j} {{x}_{j}}^{2}"),
}


@pytest.mark.parametrize("case", CASES)
def test_styles(case: str) -> None:
    node, *expected = CASES[case]
    tree = NodeNotation({}).tree(node)
    shown = [text(tree), source(tree), latex(tree)]
    assert [a for a, b in zip(shown, expected, strict=True) if b is not None] == [b for b in expected if b is not None]


def test_html_escapes() -> None:
    tree = NodeNotation({}).tree(less(x, y))
    assert to_html(tree) == "[x[j] &lt; y]"


def test_repr_is_the_text() -> None:
    assert isinstance(SUM, Node)
    assert repr(SUM) == text(NodeNotation({}).tree(SUM))
