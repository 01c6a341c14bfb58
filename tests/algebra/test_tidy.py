"""Nodes as a person would write them: the same number, in the expected form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fubini.algebra.binding import closed, escapes
from fubini.algebra.build import ONE, add, call, const, divide, equal, get, index, minus, plus, power, scale, times
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied, together
from tests.integrate.numerics import numbers

a, b, c = (Leaf(name, (), low=0.0, role="site") for name in "abc")
w = Leaf("w", (3,), low=0.0, role="site")
label = Leaf("label", (4,), low=0, high=2, is_integer=True)
i, j = Index(3, "i"), Index(4, "j")
A, B, C = get(a), get(b), get(c)
wi, count = get(w, index(i)), total([j], equal(get(label, index(j)), index(i)))
ARRAYS = {
    a: np.array(0.7),
    b: np.array(1.9),
    c: np.array(3.1),
    w: np.array([0.5, 1.5, 2.5]),
    label: np.array([2, 0, 2, 2]),
}


def log(of):
    return call("log", of)


def lgamma(of):
    return call("lgamma", of)


FORMS = {
    "a logarithm of quotients": (
        log(plus(divide(ONE, A), divide(ONE, B))),
        add(((log(plus(A, B)), 1.0), (log(A), -1.0), (log(B), -1.0))),
    ),
    "a power of quotients": (
        times(C, power(plus(divide(ONE, A), divide(ONE, B)), -1.0)),
        times(A, B, C, power(plus(A, B), -1.0)),
    ),
    "Γ of one more": (minus(lgamma(plus(A, ONE)), lgamma(A)), log(A)),
    "Γ of two less": (
        minus(lgamma(A), lgamma(plus(A, const(2.0)))),
        scale(-1.0, plus(log(A), log(plus(A, ONE)))),
    ),
    "Γ far apart": (
        minus(lgamma(plus(A, const(9.0))), lgamma(A)),
        minus(lgamma(plus(A, const(9.0))), lgamma(A)),
    ),
    "logarithms together": (plus(times(A, log(C)), times(B, log(C))), times(plus(A, B), log(C))),
    "log Σ of exponentials of logarithms": (
        closed("lse", [i], plus(A, log(wi))),
        plus(A, log(total([i], wi))),
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_form(case):
    of, expected = FORMS[case]
    assert tidied(of) is expected


VALUES = {
    **{name: of for name, (of, _) in FORMS.items()},
    "Γ of a test": total([i], lgamma(plus(wi, equal(index(i), ONE)))),
    "a logarithm of a test": total([i], log(plus(wi, scale(2.0, equal(index(i), ONE))))),
    "an even power of a difference": power(minus(divide(ONE, A), divide(ONE, B)), 2.0),
    "a root of a sum of quotients": times(C, power(plus(divide(A, B), divide(ONE, C)), -0.5)),
    "a sum inside": total([i], log(plus(divide(ONE, wi), divide(A, B)))),
    "log Σ exp with powers": closed("lse", [i], add(((log(wi), 2.0), (log(plus(wi, A)), -1.0), (B, 1.0)))),
    "log Σ exp as it is": closed("lse", [i], times(wi, plus(divide(ONE, A), divide(ONE, B)))),
    "Γ with weights": add(((lgamma(plus(A, const(3.0))), 2.0), (lgamma(plus(A, ONE)), -1.0), (lgamma(A), -0.5))),
    "a product with a sum of logarithms": plus(times(plus(log(A), B), C), times(B, log(A))),
    "Γ of counts": total([i], minus(lgamma(plus(count, wi)), lgamma(wi))),
}


@pytest.mark.parametrize("case", VALUES)
def test_value(case):
    of = VALUES[case]
    found = tidied(of)
    assert found.free == of.free and not escapes(found)
    assert float(numbers(found, ARRAYS)) == pytest.approx(float(numbers(of, ARRAYS)), rel=1e-12)


@pytest.mark.parametrize("case", FORMS)
def test_tidied_twice(case):
    once = tidied(FORMS[case][0])
    assert tidied(once) is once


@given(st.lists(st.sampled_from(list(VALUES)), min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_sums_in_any_order(names, random):
    shuffled = random.sample(names, len(names))
    found = tidied(add((scale(-1.0, VALUES[name]), 1.0) for name in shuffled))
    expected = -sum(float(numbers(VALUES[name], ARRAYS)) for name in names)
    assert float(numbers(found, ARRAYS)) == pytest.approx(expected, rel=1e-11)


def test_together():
    above, below = together(plus(divide(A, B), divide(ONE, power(B, 2.0)), C))
    assert below == {B: 2.0} and above is plus(times(A, B), ONE, times(C, power(B, 2.0)))


def test_together_of_what_has_no_quotient():
    assert together(plus(A, B)) == (plus(A, B), {})
