"""Sums as histograms: the text of the reducer, and the value against the sum itself."""

import math

import numpy as np
import pytest

from fubini.algebra.build import const, equal, get, index, less, negate, plus, times, where
from fubini.algebra.evaluation import evaluate
from fubini.algebra.node import Index, Leaf
from fubini.compile.histogram import filled, shown, summarised

n, m, v, d = 9, 3, 4, 5
y = Leaf("y", (n,), low=0, high=m - 1, is_integer=True)
z = Leaf("z", (d,), low=0, high=m - 1, is_integer=True)
doc = Leaf("doc", (n,), low=0, high=d - 1, is_integer=True)
word = Leaf("word", (n,), low=0, high=v - 1, is_integer=True)
s = Leaf("s", (n,))
t = Leaf("t", (n,))
j, i, u, k, l = Index(n, "j"), Index(m, "i"), Index(d, "u"), Index(m, "k"), Index(v, "l")  # noqa: E741
J, I, U, C, L = map(index, (j, i, u, k, l))  # noqa: E741

g = np.random.default_rng(5)
ARRAYS = {
    y: g.integers(0, m, n),
    z: g.integers(0, m, d),
    doc: np.sort(g.integers(0, d, n)),
    word: g.integers(0, v, n),
    s: g.normal(size=n).round(2),
    t: np.array([-1.5, -0.5, 0.0, 0.5, 1.0, 1.5, 1.7, 2.3, 7.0]),
}

word_is_one = equal(get(word, J), const(1.0))
CASES = {
    # P6, equations (30) and (31) of the paper
    "P6": (times(get(s, J), equal(I, get(y, J))), (i,), "Idx(i = y[j], Add(s[j]))"),
    # P7, figures 8 and 9: two statistics of one pass
    "P7": (
        plus(times(get(s, J), equal(I, get(y, J))), equal(I, get(y, J))),
        (i,),
        "Fanout(Idx(i = y[j], Add(1)), Idx(i = y[j], Add(s[j])))",
    ),
    "composed": (
        times(equal(I, get(z, get(doc, J))), equal(L, get(word, J))),
        (i, l),
        "Idx(i = z[doc[j]], Idx(l = word[j], Add(1)))",
    ),
    "split": (
        times(equal(I, get(y, J)), less(const(0.0), get(s, J)), get(s, J)),
        (i,),
        "Idx(i = y[j], Split([0 < s[j]], Add(s[j]), Nop))",
    ),
    "split, the other side": (
        times(equal(I, get(y, J)), negate(less(const(0.0), get(s, J)))),
        (i,),
        "Idx(i = y[j], Split([0 < s[j]], Nop, Add(1)))",
    ),
    "above": (times(get(s, J), less(I, get(y, J))), (i,), "Idx(i < y[j], Add(s[j]))"),
    "below": (times(get(s, J), less(get(y, J), I)), (i,), "Idx(i > y[j], Add(s[j]))"),
    "above a real number": (times(get(s, J), less(I, get(t, J))), (i,), "Idx(i < t[j], Add(s[j]))"),
    "below a real number": (times(get(s, J), less(get(t, J), I)), (i,), "Idx(i > t[j], Add(s[j]))"),
    "a test made of tests": (
        times(equal(I, get(y, J)), where(less(const(0.0), get(s, J)), less(get(s, J), const(1.0)), word_is_one)),
        (i,),
        "Idx(i = y[j], Split([s[j] < 1] if [0 < s[j]] else [1 = word[j]], Add(1), Nop))",
    ),
    "a test and another": (
        times(equal(I, get(y, J)), where(less(const(0.0), get(s, J)), const(0.0), word_is_one)),
        (i,),
        "Idx(i = y[j], Split(0 if [0 < s[j]] else [1 = word[j]], Add(1), Nop))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reducer(name: str) -> None:
    body, free, text = CASES[name]
    found = summarised([j], body)
    assert found is not None
    order = sorted(shown(found.reducer).split(", Idx(i"))  # the order of the two sides of a fanout is of no interest
    assert order == sorted(text.split(", Idx(i"))
    with_jax(found, body, free)


def with_jax(found, body, free) -> None:
    def numbers(node, over):
        return np.asarray(evaluate(node, ARRAYS, over))

    arrays = {**ARRAYS, **filled(found, numbers)}
    shape = tuple(axis.size for axis in free)
    value = np.broadcast_to(np.asarray(evaluate(found.final, arrays, free)), shape)
    exact = np.zeros(shape)
    for place in np.ndindex(shape):
        outside = dict(zip(free, place, strict=True))
        exact[place] = sum(plain(body, {**outside, j: at}) for at in range(n))
    assert np.abs(value - exact).max() < 1e-5


def plain(of, env) -> float:
    """The number of a node, by arithmetic alone."""
    match of.kind:
        case "const":
            return of.args[0]
        case "index":
            return env[of.args[0]]
        case "get":
            return ARRAYS[of.args[0]][tuple(int(plain(part, env)) for part in of.args[1:])]
        case "add":
            return sum(coefficient * plain(part, env) for part, coefficient in of.args)
        case "mul":
            return math.prod(plain(part, env) ** exponent for part, exponent in of.args)
        case "where":
            return plain(of.args[1 if plain(of.args[0], env) else 2], env)
    first, second = (plain(part, env) for part in of.args)
    return float(first == second if of.kind == "eq" else first < second)


def test_real_numbers_equal_to_an_index_are_no_histogram() -> None:
    assert summarised([j], times(get(s, J), equal(I, get(t, J)))) is None


def test_point_override_is_a_correction() -> None:
    """Σ_j s_j [i = (k if j = u else y_j)]: the histogram of y, and two terms at u"""
    at = Index(n, "u")
    body = times(get(s, J), equal(I, where(equal(J, index(at)), C, get(y, J))))
    found = summarised([j], body)
    assert found is not None
    assert shown(found.reducer) == "Idx(i = y[j], Add(s[j]))"
    with_jax(found, body, (i, at, k))


def test_words_of_one_document_under_another_label() -> None:
    """Σ_j [i = (k if doc_j = u else z[doc_j])] [l = word_j]: what it was, less one document, and that document again"""
    body = times(equal(I, where(equal(get(doc, J), U), C, get(z, get(doc, J)))), equal(L, get(word, J)))
    found = summarised([j], body)
    assert found is not None
    assert "Idx(u = doc[j], Idx(l = word[j], Add(1)))" in shown(found.reducer)
    assert "Idx(i = z[doc[j]], Idx(l = word[j], Add(1)))" in shown(found.reducer)
    with_jax(found, body, (i, l, u, k))


def test_an_outer_index_in_what_is_added_is_no_histogram() -> None:
    weight = Leaf("weight", (n, m))
    assert summarised([j], times(equal(I, get(y, J)), get(weight, J, C))) is None
