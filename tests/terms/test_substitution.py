"""Substitution: simultaneous, without capture, by names, numbers, slices and arrays, equal to NumPy's indexing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fubini as fb
from fubini.errors import DomainError, FubiniError, UnknownName
from fubini.terms.indexing import fold
from fubini.terms.value import to_array

RNG = np.random.default_rng(0)
F, G = RNG.uniform(0.1, 1, (3, 2)), RNG.uniform(0.1, 1, (2, 4))

Term = fb.Value | fb.Factor


def numbers(term: Term, order: tuple[str, ...] | None = None) -> np.ndarray:
    """The numbers of a term, recorded or not, its axes in this order or in that of its inputs."""
    term = fb.evaluate(term)
    array = to_array(term.log() if isinstance(term, fb.Factor) else term)
    names = order or tuple(term.inputs)
    data = np.transpose(array.data, [array.names.index(name) for name in names])
    return np.exp(data) if isinstance(term, fb.Factor) else data


def terms() -> dict[str, tuple[Term, np.ndarray]]:
    """Terms of every kind over (a, b), with their numbers."""
    f, g = fb.Table(F, ("a", "b")), fb.Table(G, ("b", "c"))
    x, a, b = fb.Array(F, ("a", "b")), fb.Variable("a", fb.Bint[3]), fb.Variable("b", fb.Bint[2])
    point = fb.Array(np.array([1, 0, 1]), ("a",), fb.Bint[2])
    at = fb.Array(np.array([1, 0, 2]), ("a",), fb.Bint[4])
    with fb.lazy:
        summed = (f * g).sum("c")
        recorded = {
            "sum": (summed, F * G.sum(1)),
            "quotient": (f / f.sum("a"), F / F.sum(0)),
            "addition": (f + f.sum("a"), F + F.sum(0)),
            "power": (f**2.0, F**2),
            "normalized": (f.normalize("a"), F / F.sum(0)),
            "plate": ((f * g).product("c"), F**4 * G.prod(1)),
            "substituted": ((f * g)(c=at), F * G[:, [1, 0, 2]].T),
            "log of a sum": (summed.log(), np.log(F * G.sum(1))),
            "fold": (fold(fb.ops.add, x * fb.Array(G, ("b", "c")), "c"), F * G.sum(1)),
            "gathered": (fb.Array(G, ("b", "c"))(c=at), G[:, [1, 0, 2]].T),
            "scattered": (fb.scatter(x(b="e"), b=fb.Array(np.array([1, 0]), ("e",), fb.Bint[2])), F[:, ::-1]),
        }
    return recorded | {
        "array": (x, F),
        "applied": (x * 2.0 + a - b, F * 2 + np.arange(3)[:, None] - np.arange(2)),
        "indexed": (fb.Array(F)[fb.Array(np.arange(3), ("a",)), fb.Array(np.arange(2), ("b",))], F),
        "table": (f, F),
        "weight": (fb.weight(log=x), np.exp(F)),
        "delta": (fb.Delta(b=point), np.eye(2)[[1, 0, 1]]),
        "product": (f * fb.weight(log=x), F * np.exp(F)),
    }


every_term = pytest.mark.parametrize("kind", terms())
under = pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)


@every_term
def test_the_oracle_agrees_before_anything_is_substituted(kind: str) -> None:
    term, expected = terms()[kind]
    np.testing.assert_allclose(numbers(term, ("a", "b")), expected, rtol=1e-12)


@every_term
@under
def test_unknown_names_raise(kind: str, interpretation: fb.Interpretation) -> None:
    with interpretation, pytest.raises(UnknownName, match="'bb'"):
        terms()[kind][0](bb=1)


@under
def test_unknown_names_raise_in_every_operation(interpretation: fb.Interpretation) -> None:
    f = fb.Table(F, ("a", "b"))
    with interpretation:
        for factor in (f, f * fb.Table(G, ("b", "c"))):
            for ask in (factor.sum, factor.max, factor.product, factor.normalize, factor.argmax, factor.entropy):
                with pytest.raises(UnknownName, match="'bb'"):
                    ask("bb")


@every_term
@under
def test_swapping_names_is_simultaneous(kind: str, interpretation: fb.Interpretation) -> None:
    term, expected = terms()[kind]
    with interpretation:
        swapped = term(a="b", b="a")
    assert swapped.inputs == {"a": fb.Bint[2], "b": fb.Bint[3]}
    np.testing.assert_allclose(numbers(swapped, ("b", "a")), expected, rtol=1e-12)


@every_term
@under
def test_renaming_onto_a_name_bound_inside(kind: str, interpretation: fb.Interpretation) -> None:
    """c is bound or replaced inside some of these terms; a free c from outside is not caught."""
    term, expected = terms()[kind]
    with interpretation:
        first, second = term(a="c"), term(b="c")
    assert (set(first.inputs), set(second.inputs)) == ({"c", "b"}, {"a", "c"})
    np.testing.assert_allclose(numbers(first, ("c", "b")), expected, rtol=1e-12)
    np.testing.assert_allclose(numbers(second, ("a", "c")), expected, rtol=1e-12)


@every_term
def test_substituting_what_depends_on_bound_and_own_names(kind: str) -> None:
    """a := u(c, b), where c is bound inside and b is free: the capture a naive substitution falls for."""
    term, expected = terms()[kind]
    index = RNG.integers(0, 3, (4, 2))
    with fb.lazy:
        recorded = term(a=fb.Array(index, ("c", "b")))
    for result in (recorded, fb.evaluate(term)(a=fb.Array(index, ("c", "b")))):
        assert set(result.inputs) == {"b", "c"}
        np.testing.assert_allclose(numbers(result, ("c", "b")), expected[index, np.arange(2)], rtol=1e-12)


@every_term
def test_numbers_and_slices(kind: str) -> None:
    """Under exact, a name fixed to a number or sliced is NumPy's indexing of what the term evaluates to."""
    term, expected = terms()[kind]
    term = fb.evaluate(term)
    np.testing.assert_allclose(numbers(term(a=2, b=1)), expected[2, 1], rtol=1e-12)
    odd = term(a=slice(0, None, 2))
    assert odd.inputs["a"] == fb.Bint[2]
    np.testing.assert_allclose(numbers(odd, ("a", "b")), expected[::2], rtol=1e-12)


@pytest.mark.parametrize("build", [fb.Array, fb.Table], ids=["Array", "Table"])
@under
def test_diagonal(build: Callable, interpretation: fb.Interpretation) -> None:
    square = RNG.uniform(0.1, 1, (3, 2, 3))
    term = build(square, ("i", "j", "k"))
    expected = square[range(3), :, range(3)]
    with interpretation:
        found = [(term(i="d", k="d"), "d"), (term(i="k"), "k"), (term(k="i"), "i")]
    for diagonal, name in found:
        assert diagonal.inputs == {name: fb.Bint[3], "j": fb.Bint[2]}
        np.testing.assert_allclose(numbers(diagonal, (name, "j")), expected, rtol=1e-12)
    with interpretation, pytest.raises(DomainError):
        term(i="d", j="d")


def test_simultaneous_affine_substitution() -> None:
    """(x, w) → (2w, 3x): neither sees the other's replacement."""
    x, w = fb.Variable("x", fb.Real), fb.Variable("w", fb.Real)
    value = x - 10.0 * w
    swapped = value(x=2.0 * w, w=3.0 * x)
    assert float(swapped(x=1.0, w=1.0)) == 2.0 - 30.0
    assert float(value(x=2 * x + 1)(x=1.0, w=0.0)) == 3.0
    assert float(fb.weight(log=value)(x=2.0 * w, w=3.0 * x)(x=1.0, w=1.0).log()) == -28.0


@under
def test_ill_typed_arguments(interpretation: fb.Interpretation) -> None:
    """Checked at construction, whatever the interpretation."""
    wrong: list[Any] = [0.5, np.array([0.5, 1.0]), fb.Variable("x", fb.Real), fb.Variable("e", fb.Bint[2]), [0, 1]]
    with interpretation:
        for kind in ("array", "table", "sum", "weight"):
            for argument in wrong:
                with pytest.raises(DomainError):
                    terms()[kind][0](a=argument)


def test_an_empty_slice_is_refused() -> None:
    with pytest.raises(FubiniError):
        fb.Array(F, ("a", "b"))(a=slice(2, 2))
