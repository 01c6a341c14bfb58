"""Orders of eliminations: what goes first, what goes together, what stays and why; evidence against formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, multivariate_t

from fubini import Bint, Nat, Positive, Real, Reals
from fubini.algebra.build import add, call, const, get, index, minus, plus, power, times
from fubini.algebra.features import Divergent
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.block import Block
from fubini.integrate.search import IntegrationStep, Latent, Search, reduced, work
from fubini.integrate.student import Student
from tests.integrate.numerics import square, value

HALF = 0.5 * np.log(2 * np.pi)
y, label = Leaf("y", (4,)), Leaf("label", (4,), low=0, high=1, is_integer=True)
Y, LABEL = np.array([0.3, -1.0, 2.0, 0.8]), np.array([1, 0, 1, 1])
ARRAYS = {y: Y, label: LABEL}
i, j = Index(2, "i"), Index(4, "j")
yj = get(y, index(j))
Z = np.eye(2)[LABEL]

m, other = (Latent(Leaf(name, (), role="site"), Real) for name in ("m", "other"))
x = Latent(Leaf("x", (2,), role="site"), Reals[2])
v = Latent(Leaf("v", (), low=0.0, role="site"), Positive)
z = Latent(Leaf("z", (4,), low=0, high=1, is_integer=True, role="site"), Bint[2][4])
k = Latent(Leaf("k", (), low=0.0, is_integer=True, role="site"), Nat)
M, V = get(m.leaf), get(v.leaf)
xi, xl = get(x.leaf, index(i)), get(x.leaf, get(label, index(j)))

PRECISION = minus(call("log", V), V)  # Gamma(2, 1)
NOISE = total([j], plus(square(minus(yj, M), V), times(const(0.5), call("log", V))))
NESTED = [square(M), total([i], square(minus(xi, M))), total([j], square(minus(yj, xl)))]


def names(found):
    return [step.names for step in found.steps]


def test_leaves_before_roots():
    found = reduced(NESTED, {"m": m, "x": x})
    assert names(found) == [("x",), ("m",)] and not found.blocked
    expected = multivariate_normal(np.zeros(4), np.eye(4) + Z @ Z.T + 1).logpdf(Y) + 7 * HALF
    assert value(found.terms, ARRAYS) == pytest.approx(expected)


@pytest.mark.parametrize("order", [("m", "v"), ("v", "m")])
def test_locations_before_scales(order):
    latents = {"m": m, "v": v}
    terms = [PRECISION, plus(square(M, V), times(const(0.5), call("log", V))), NOISE]
    found = reduced(terms, {name: latents[name] for name in order})
    assert names(found) == [("m",), ("v",)] and not found.blocked
    expected = multivariate_t(np.zeros(4), 0.5 * (np.eye(4) + 1), df=4).logpdf(Y) + 5 * HALF
    assert value(found.terms, ARRAYS) == pytest.approx(expected)


def test_an_eliminated_scale_leaves_a_power():
    """The scale first, by hand: the remaining density of m is a Student's."""
    terms = [PRECISION, plus(square(M, V), times(const(0.5), call("log", V))), NOISE]
    first = reduced(terms, {"v": v})
    second = reduced(first.terms, {"m": m})
    assert names(first) == [("v",)] and isinstance(second.steps[0].result, Student)
    assert value(second.terms, ARRAYS) == pytest.approx(value(reduced(terms, {"m": m, "v": v}).terms, ARRAYS))


def test_coupled_latents_go_together():
    coupled = [total([i], square(xi)), square(M), total([j], square(minus(plus(total([i], xi), M), yj)))]
    found = reduced(coupled, {"m": m, "x": x})
    assert (
        len(found.steps) == 1 and set(found.steps[0].names) == {"m", "x"} and isinstance(found.steps[0].result, Block)
    )
    expected = multivariate_normal(np.zeros(4), np.eye(4) + 3).logpdf(Y) + 7 * HALF
    assert value(found.terms, ARRAYS) == pytest.approx(expected)


def test_what_is_blocked_and_several_reasons_at_once():
    terms = [square(M), call("exp", M), minus(call("exp", V), V), minus(get(k.leaf), power(get(k.leaf), 2.0))]
    found = reduced([*terms, total([i], square(xi))], {"m": m, "v": v, "k": k, "x": x})
    assert names(found) == [("x",)] and set(found.blocked) == {"m", "v", "k"}
    reasons = {name: error.why for name, error in found.blocked.items()}
    assert "powers and logarithms" in reasons["v"] and "rational function of k" in reasons["k"]
    assert found.blocked["m"].latent is m.leaf


def test_a_latent_that_is_blocked_until_another_is_eliminated():
    """m has no square of its own, until x is integrated out."""
    found = reduced([total([i], square(minus(xi, M))), total([j], square(minus(yj, xl)))], {"x": x, "m": m})
    assert not found.blocked and set(sum(names(found), ())) == {"x", "m"}


def test_infinite_integrals_are_reported_as_such():
    found = reduced([V, total([i], square(xi))], {"v": v, "x": x})
    assert isinstance(found.blocked["v"], Divergent) and names(found) == [("x",)]


def test_finite_latents_count_most():
    """Four labels or two means can go, not both: the labels do."""
    mean = get(x.leaf, get(z.leaf, index(j)))
    found = reduced([total([i], square(xi)), total([j], square(minus(yj, mean)))], {"x": x, "z": z})
    assert names(found) == [("z",)] and list(found.blocked) == ["x"]


def test_nothing_to_do():
    found = reduced([square(M)], {})
    assert found == ((square(M),), (), {})


@given(st.permutations(range(3)), st.permutations(["m", "x"]))
def test_order_of_terms(order, latents):
    found = reduced([NESTED[place] for place in order], {name: {"m": m, "x": x}[name] for name in latents})
    expected = multivariate_normal(np.zeros(4), np.eye(4) + Z @ Z.T + 1).logpdf(Y) + 7 * HALF
    assert not found.blocked and value(found.terms, ARRAYS) == pytest.approx(expected)


def test_together():
    search = Search({"m": m, "x": x, "v": v, "other": other})
    step = search.together((*NESTED, square(get(other.leaf))), "m")
    assert isinstance(step, IntegrationStep) and set(step.names) == {"m", "x"}
    assert search.together((PRECISION,), "v") is None
    assert search.together((call("exp", M),), "m") is None


def test_work():
    """Eliminations entry by entry cost nothing each time; a block costs unknowns times cell²."""
    alone = reduced([total([i], square(xi))], {"x": x}).steps[0]
    coupled = add(((total([i], square(xi)), 1.0), (square(total([i], xi)), 1.0)))
    assert work(alone) == 0 and work(reduced([coupled], {"x": x}).steps[0]) == 2 * 2**2
