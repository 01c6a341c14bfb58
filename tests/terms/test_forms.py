"""How terms are written: text, LaTeX and HTML say the same thing, and say it unambiguously."""

import html
import re
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.terms.indexing import fold

ops = fb.ops
X, Y, Z = (fb.Variable(name, fb.Real) for name in "xyz")
N = fb.Variable("n", fb.Bint[3])
F, G = fb.Table(np.ones((3, 2)), ("a", "b")), fb.Table(np.ones((2, 4)), ("b", "c"))
f, g = "Table(a: Bint[3], b: Bint[2])", "Table(b: Bint[2], c: Bint[4])"


def recorded(build: Callable[[], fb.Value | fb.Factor]) -> fb.Value | fb.Factor:
    with fb.lazy:
        return build()


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: X * 2 + 1, "x * 2 + 1"),
        (lambda: 2.5 * (X + Y), "2.5 * (x + y)"),
        (lambda: X - (Y - Z), "x - (y - z)"),
        (lambda: X / (Y / Z), "x / (y / z)"),
        (lambda: X / (Y * Z), "x / (y * z)"),
        (lambda: -(X + Y), "-(x + y)"),
        (lambda: (-X) ** 2, "(-x) ** 2"),
        (lambda: (X + Y) ** 2, "(x + y) ** 2"),
        (lambda: ops.exp(X + 1.0), "exp(x + 1)"),
        (lambda: ops.where(ops.less(X, Y), X, Y), "where(x < y, x, y)"),
        (lambda: fb.lift(jnp.tanh)(X), "tanh(x)"),
        (lambda: (N + 1) % 3, "(n + 1) % 3"),
        (lambda: fb.Variable("v", fb.Reals[2])[0] * X, "v[0] * x"),
        (lambda: fb.Array(np.ones((2, 3)), ("i", "j")), "[[1, 1, 1], [1, 1, 1]][i, j]"),
        (lambda: fb.Array(0.25), "0.25"),
        (lambda: fold(ops.add, X * N, "n"), "Σ_n x * n"),
        (lambda: fold(ops.multiply, X * N, "n"), "Π_n x * n"),
        (lambda: fold(ops.maximum, X * N, "n"), "max_n x * n"),
        (lambda: F, f),
        (lambda: F * G, f"{f} * {g}"),
        (lambda: (F * G).sum("b"), f"Σ_b {f} * {g}"),
        (lambda: (F * G).sum("a", "b"), f"Σ_{{a,b}} {f} * {g}"),
        (lambda: F.max("a"), f"max_a {f}"),
        (lambda: F.product("a"), f"Π_a {f}"),
        (lambda: F / G, f"{f} / {g}"),
        (lambda: F + G, f"{f} + {g}"),
        (lambda: F**2.0, f"{f} ** 2"),
        (lambda: F(a=N), "Table(n: Bint[3], b: Bint[2])"),
        (lambda: F(a=(N + 1) % 3), f"{f}(a=(n + 1) % 3)"),
        (lambda: fb.weight(log=-X), "exp(-x)"),
        (lambda: fb.Delta(x=1.5), "Delta(x=1.5)"),
        (lambda: F.sum("a").log(), f"log(Σ_a {f})"),
        (lambda: fb.Table(0.25), "0.25"),
        (lambda: fb.Table.from_log(-2000.0) * F, f"exp(-2000) * {f}"),
    ],
)
def test_text(build: Callable, text: str) -> None:
    """Bound names are written as they were called, never mangled."""
    assert f"{recorded(build)}" == text


@pytest.mark.parametrize(
    ("build", "latex"),
    [
        (lambda: X - (Y - Z), r"x - \left(y - z\right)"),
        (lambda: X - (Y + Z), r"x - \left(y + z\right)"),
        (lambda: X * (Y + Z), r"x \, \left(y + z\right)"),
        (lambda: (X + Y) / Z, r"\frac{x + y}{z}"),
        (lambda: (X + Y) ** 2, r"{\left(x + y\right)}^{2}"),
        (lambda: -(X + Y), r"-\left(x + y\right)"),
        (lambda: fb.Variable("theta_1", fb.Real) + fb.Variable("x_next", fb.Real), r"\theta_{1} + \mathrm{x\_next}"),
        (lambda: fb.Variable("rate", fb.Real) * 2, r"\mathrm{rate} \, 2"),
        (lambda: fold(ops.add, X * N, "n"), r"\sum_{n} x \, n"),
        (lambda: fold(ops.multiply, X, N), r"\prod_{n} x"),
        (lambda: fold(ops.maximum, X * N, "n"), r"\max_{n} x \, n"),
        (lambda: ops.exp(X), r"\mathrm{exp}\left(x\right)"),
    ],
)
def test_latex(build: Callable, latex: str) -> None:
    assert recorded(build)._repr_latex_() == f"${latex}$"


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (lambda: X - (Y - Z), "x - (y - z)"),
        (lambda: ops.less(X, Y), "x &lt; y"),
        (lambda: fold(ops.add, X * N, "n"), "Σ<sub>n</sub> x * n"),
        (lambda: fb.Delta(x=1.5), "<b>Delta</b>(x=1.5)"),
    ],
)
def test_html(build: Callable, shown: str) -> None:
    assert recorded(build)._repr_html_() == f"<div><div>{shown}</div></div>"


FORMS = {"text": str, "latex": lambda term: term._repr_latex_(), "html": lambda term: term._repr_html_()}
every_form = pytest.mark.parametrize("form", FORMS)


@every_form
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: F.sum("a") * G, lambda: (F * G).sum("a")),
        (lambda: F.sum("a") / G, lambda: (F / G).sum("a")),
        (lambda: F.sum("a") + G, lambda: (F + G).sum("a")),
        (lambda: F.sum("a") ** 2.0, lambda: (F**2.0).sum("a")),
        (lambda: (F * F.sum("a")) / G, lambda: F * (F.sum("a") / G)),
        (lambda: fold(ops.add, X * N, "n") + Y, lambda: fold(ops.add, X * N + Y, "n")),
        (lambda: (X**Y) ** Z, lambda: X ** (Y**Z)),
        (lambda: X - (Y - Z), lambda: (X - Y) - Z),
        (lambda: X / (Y / Z), lambda: (X / Y) / Z),
        (lambda: ops.less(ops.less(X, Y), Z), lambda: ops.less(X, ops.less(Y, Z))),
    ],
    ids=["product", "quotient", "sum", "power", "nested", "fold", "powers", "differences", "ratios", "comparisons"],
)
def test_different_terms_are_written_differently(first: Callable, second: Callable, form: str) -> None:
    assert FORMS[form](recorded(first)) != FORMS[form](recorded(second))


EXPRESSIONS = st.recursive(
    st.sampled_from([X, Y, Z]),
    lambda inner: st.one_of(
        st.builds(lambda a: -a, inner),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: a / b, inner, inner),
        st.builds(lambda a, b: a % b, inner, inner),
        st.builds(lambda a, b: a // b, inner, inner),
        st.builds(lambda a: a**2.0, inner),
        st.builds(lambda a: (a**2.0) ** 3.0, inner),
        st.builds(lambda a: a ** (X**2.0), inner),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_text_means_what_python_reads(value: fb.Value) -> None:
    """Arithmetic printed and read back by Python's rules of precedence has the same numbers."""
    again = eval(str(value), {"x": X, "y": Y, "z": Z})
    numbers = {name: number for name, number in zip("xyz", (1.25, 0.75, 2.5), strict=True) if name in value.inputs}
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(again(numbers).data, value(numbers).data, rtol=1e-5)


@given(EXPRESSIONS)
def test_html_shows_the_text(value: fb.Value) -> None:
    """Without its tags, HTML is the text."""
    assert html.unescape(re.sub(r"<[^>]*>", "", value._repr_html_())) == str(value)


@given(EXPRESSIONS)
def test_latex_is_well_formed(value: fb.Value) -> None:
    shown = value._repr_latex_()
    assert shown.count("{") == shown.count("}")
    assert shown.count(r"\left(") == shown.count(r"\right)")
    assert not re.search(r"(?<!\\)[%&#]", shown), "a character that LaTeX takes for a command"


def test_latex_of_names_with_special_characters() -> None:
    for name in ("rain%", "a&b", "no#1", "cost$"):
        shown = fb.Variable(name, fb.Real)._repr_latex_().strip("$")
        assert re.search(r"\\[%&#$]", shown), shown


def test_latex_of_recorded_factors() -> None:
    """Every part of a term is LaTeX, also the head of a substitution."""
    shown = recorded(lambda: F.sum("b")(a=(N + 1) % 3))._repr_latex_()
    assert "Σ" not in shown and r"\sum" in shown


def test_html_is_escaped() -> None:
    """Names come from files: they are never markup."""
    name = "<i>&"
    table = fb.Table(np.ones((3, 2)), (name, "b"))
    terms = [fb.Variable(name, fb.Real), table, fb.Delta({name: 1.5})]
    terms += [recorded(lambda: table.sum(name)), recorded(lambda: table({name: (N + 1) % 3}))]
    for term in terms:
        assert "<i>" not in term._repr_html_()
        assert "&lt;i&gt;&amp;" in term._repr_html_()
