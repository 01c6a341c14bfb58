"""Σ over indices: golden forms, and values against NumPy."""

import numpy as np
import pytest

from fubini.algebra.binding import closed, opened
from fubini.algebra.build import add, call, const, divide, equal, get, index, less, plus, power, times, where
from fubini.algebra.evaluation import evaluate
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total

CLASSES, ITEMS = 3, 5
weight = Leaf("weight", (CLASSES,), low=0.0)
label = Leaf("label", (ITEMS,), low=0, high=CLASSES - 1, is_integer=True)
score = Leaf("score", (ITEMS,))
ARRAYS = {weight: np.array([0.5, 1.0, 2.0]), label: np.array([0, 2, 1, 2, 2]), score: np.arange(5.0)}

i, j, k = Index(CLASSES, "i"), Index(ITEMS, "j"), Index(ITEMS, "k")
at_i, at_j, at_k = index(i), index(j), index(k)


def values(node, *order):
    return np.broadcast_to(np.asarray(evaluate(node, ARRAYS, order)), tuple(of.size for of in order))


CASES = {
    "a test of an index": ([j], times(equal(at_j, at_k), get(score, at_j)), (k,), lambda: ARRAYS[score]),
    "a shift out of range": (
        [j],
        times(equal(at_j, plus(at_k, const(1))), get(score, at_j)),
        (k,),
        lambda: np.append(ARRAYS[score][1:], 0.0),
    ),
    "a class": (
        [j],
        times(equal(get(label, at_j), at_i), get(score, at_j)),
        (i,),
        lambda: np.bincount(ARRAYS[label], ARRAYS[score], CLASSES),
    ),
    "an entry of the class": (
        [j],
        times(equal(get(label, at_j), at_i), get(weight, get(label, at_j))),
        (i,),
        lambda: ARRAYS[weight] * np.bincount(ARRAYS[label], minlength=CLASSES),
    ),
    "independent parts": (
        [i, j],
        times(get(weight, at_i), get(score, at_j)),
        (),
        lambda: ARRAYS[weight].sum() * ARRAYS[score].sum(),
    ),
    "a sum of terms": (
        [i, j],
        plus(get(weight, at_i), get(score, at_j)),
        (),
        lambda: ITEMS * ARRAYS[weight].sum() + CLASSES * ARRAYS[score].sum(),
    ),
    "an interval": (
        [j],
        times(less(at_j, at_k), get(score, at_j)),
        (k,),
        lambda: np.cumsum(ARRAYS[score]) - ARRAYS[score],
    ),
    "a lone sum beside a test of another index": (
        [i],
        times(equal(at_k, const(1)), total([j], times(equal(get(label, at_j), at_i), get(score, at_j)))),
        (k,),
        lambda: ARRAYS[score].sum() * (np.arange(ITEMS) == 1),
    ),
    "the index itself": ([j], at_j, (), lambda: ITEMS * (ITEMS - 1) / 2),
    "a count of places": ([j], less(const(1), plus(at_j, const(-1.0))), (), lambda: ITEMS - 3),
    "a number of terms without the index": (
        [i],
        times(const(2.0), plus(get(score, at_k), total([j], equal(get(label, at_j), at_i)))),
        (k,),
        lambda: 2 * (CLASSES * ARRAYS[score] + ITEMS),
    ),
    "a square": ([j], power(plus(get(score, at_j), const(1.0)), 2.0), (), lambda: ((ARRAYS[score] + 1) ** 2).sum()),
    "a case": (
        [j],
        where(less(at_j, const(2)), get(score, at_j), const(1.0)),
        (),
        lambda: ARRAYS[score][:2].sum() + 3,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_value(case):
    over, body, order, expected = CASES[case]
    np.testing.assert_allclose(values(total(over, body), *order), expected(), rtol=1e-6)


GOLDEN = {
    "a test is solved": (total([j], times(equal(at_j, at_k), get(score, at_j))), get(score, at_k)),
    "congruence": (
        total([j], times(equal(get(label, at_j), at_i), get(weight, get(label, at_j)))),
        times(get(weight, at_i), total([j], equal(get(label, at_j), at_i))),
    ),
    "all classes together": (total([i], total([j], equal(get(label, at_j), at_i))), const(ITEMS)),
    "an index that is not there": (total([j], get(weight, at_i)), times(const(ITEMS), get(weight, at_i))),
    "numbers in front": (total([j], times(const(2), get(score, at_j))), times(const(2), total([j], get(score, at_j)))),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_form(case):
    found, expected = GOLDEN[case]
    assert found is expected


def test_bodies_that_differ_in_bound_names_are_one_node():
    assert total([j], get(score, at_j)) is total([k], get(score, at_k))


def test_opening_and_closing_change_nothing():
    of = total([j], times(get(score, at_j), total([k], times(get(score, at_k), less(at_k, at_j)))))
    over, body = opened(of)
    assert closed("sum", over, body) is of


def test_no_bound_index_escapes():
    of = total([j], times(get(score, at_j), total([k], times(get(score, at_k), less(at_k, at_j)))))
    assert of.free == frozenset()
    assert opened(of)[1].free == frozenset(opened(of)[0]) or len(opened(of)[1].free) == 1


def test_powers_and_logarithms_cancel():
    w = get(weight, at_i)
    assert divide(times(w, w), w) is w
    assert call("exp", call("log", w)) is w
    assert add(((call("log", times(w, const(2.0))), 1.0), (call("log", w), -1.0))) is const(np.log(2.0))


def test_tests_that_exclude_each_other():
    entry = get(label, at_j)
    assert times(equal(entry, const(0)), equal(entry, const(1))) is const(0)
    assert equal(entry, const(7)) is const(0)
