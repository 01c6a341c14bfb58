"""What a change of statistics makes of functions of them, against the functions before and after."""

import numpy as np
import pytest

from fubini.algebra.binding import replaced
from fubini.algebra.build import call, const, divide, equal, get, index, multiply, plus, power, scale, times
from fubini.algebra.evaluation import evaluate
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.compile.difference import Difference, predictive, rising, whole

K = 3
n = Leaf("n", (K,), low=0.0, role="state")
s = Leaf("s", (K,), role="state")
q = Leaf("q", (K,), role="state")
x = Leaf("x", ())
c, k = Index(K, "c"), Index(K, "k")
N, S, Q, X = get(n, index(c)), get(s, index(c)), get(q, index(c)), get(x)
HERE = equal(index(c), index(k))
CHANGES = {n: ((c,), HERE), s: ((c,), times(X, HERE)), q: ((c,), times(power(X, 2.0), HERE))}

FUNCTIONS = {
    "a square over a count": total([c], multiply(((S, 2.0), (plus(N, const(0.3)), -1.0)))),
    "a product over a count": total([c], multiply(((S, 1.0), (Q, 1.0), (plus(N, const(0.3)), -1.0)))),
    "gamma functions": total([c], call("lgamma", plus(N, const(0.7)))),
    "a logarithm of a residual": total(
        [c], call("log", plus(Q, scale(-1.0, divide(power(S, 2.0), plus(N, const(1.0)))), const(50.0)))
    ),
    "a function of a sum": call("log", plus(total([c], divide(const(1.0), plus(N, const(0.3)))), const(1.0))),
    "a cube": total([c], power(S, 3.0)),
    "a product of counts": times(total([c], power(N, 2.0)), total([c], S)),
    "what does not change": total([c], const(2.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_change_is_the_difference(name: str) -> None:
    of, g = FUNCTIONS[name], np.random.default_rng(1)
    arrays = {n: np.array([0.0, 2.0, 5.0]), s: g.normal(size=K), q: g.normal(size=K) ** 2, x: np.array(1.7)}
    change = whole(Difference(CHANGES, {}).of(of))
    for label in range(K):
        moved = {leaf: value.copy() for leaf, value in arrays.items()}
        moved[n][label] += 1.0
        moved[s][label] += 1.7
        moved[q][label] += 1.7**2
        exact = float(evaluate(of, moved)) - float(evaluate(of, arrays))
        at = replaced(change, {index(k): const(float(label))})
        assert abs(float(evaluate(at, arrays)) - exact) < 1e-5 * (1 + abs(exact))


def test_a_sum_over_classes_becomes_one_term() -> None:
    of = total(
        [c], plus(call("lgamma", plus(N, const(1.0))), scale(0.5, multiply(((S, 2.0), (plus(N, const(0.3)), -1.0)))))
    )
    text = repr(whole(Difference(CHANGES, {}).of(of)))
    assert "Σ" not in text
    assert "lgamma" not in text
    assert "(x − s[j]/(n[j] + 0.3))²" in text  # around the mean of the class


@pytest.mark.parametrize("a", [0.0, 2.0])
@pytest.mark.parametrize("b, c_", [(0.0, 0.0), (0.0, 1.5), (1.5, -0.5)])
def test_predictive_with_steps_of_nothing(a: float, b: float, c_: float) -> None:
    """Δ (B C / A) where some of B, C and A stay as they are"""
    steps = [Leaf(name, (), role="state") for name in ("B", "C", "A")]
    big = [get(leaf) for leaf in steps]
    found = predictive(*((part, const(step)) for part, step in zip(big, (b, c_, a), strict=True)))
    exact = (3.0 + b) * (5.0 + c_) / (7.0 + a) - 3.0 * 5.0 / 7.0
    values = dict(zip(steps, map(np.array, (3.0, 5.0, 7.0)), strict=True))
    assert abs(float(evaluate(found, values)) - exact) < 1e-5


def test_rising_is_written_out_for_small_steps() -> None:
    assert repr(rising(N, const(2.0))) == "log(n[j] + 1) + log(n[j])"
    assert rising(N, const(0.0)) is const(0.0)
    assert repr(rising(N, const(0.5))) == "lgamma(n[j] + 0.5) − lgamma(n[j])"
