"""Powers of a quadratic form: against quadrature; the distribution of a scale; and what is refused."""

import numpy as np
import pytest

from fubini.algebra.build import ONE, ZERO, add, call, const, get, index, minus, plus, power, times
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.block import eliminated_together
from fubini.integrate.elimination import eliminated
from fubini.integrate.student import eliminated_power, scale_distribution
from tests.integrate.numerics import log_integral, numbers, square, value

x, m = Leaf("x", (2,), role="site"), Leaf("m", (), role="site")
tau = Leaf("tau", (), low=0.0, role="site")
y, label = Leaf("y", (4,)), Leaf("label", (4,), low=0, high=1, is_integer=True)
Y, LABEL = np.array([0.3, -1.0, 2.0, 0.8]), np.array([1, 0, 1, 1])
ARRAYS = {y: Y, label: LABEL}
i, j = Index(2, "i"), Index(4, "j")
at_i, at_j = index(i), index(j)
yj = get(y, at_j)
SIZE = total([i], power(get(x, at_i), 2.0))
SEEN = total([j], power(minus(get(x, get(label, at_j)), yj), 2.0))
COUPLED = power(minus(total([i], get(x, at_i)), ONE), 2.0)


def logged(p, form):
    return times(const(-p), call("log", form))


CASES = {
    "a prior and data": (
        x,
        logged(20.0, plus(ONE, SIZE, SEEN)),
        lambda v: -20 * np.log(1 + (v**2).sum(-1) + ((v[:, LABEL] - Y) ** 2).sum(-1)),
    ),
    "coupled entries": (
        x,
        logged(20.0, plus(const(2.0), SIZE, COUPLED)),
        lambda v: -20 * np.log(2 + (v**2).sum(-1) + (v.sum(-1) - 1) ** 2),
    ),
    "one number, and a term without it": (
        m,
        plus(logged(9.0, plus(const(3.0), power(minus(get(m), ONE), 2.0))), total([j], yj)),
        lambda v: -9 * np.log(3 + (v[:, 0] - 1) ** 2) + Y.sum(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_eliminated_power(case):
    latent, term, density = CASES[case]
    apart = total([j], call("exp", yj))
    found = eliminated_power([apart, term], latent)
    assert found.terms[0] is apart and not any(latent in part.leaves for part in found.terms)
    expected = log_integral(density, "real", int(np.prod(latent.shape)))
    assert value(found.terms[1:], ARRAYS) == pytest.approx(expected, rel=1e-7)


def test_degrees_of_freedom_and_spread():
    """2 p − d, and s + the least value of the form."""
    found = eliminated_power([CASES["coupled entries"][1]], x)
    assert found.df is const(38.0)
    centre = np.linalg.solve(np.eye(2) + 1, np.ones(2))
    least = 2 + (centre**2).sum() + (centre.sum() - 1) ** 2
    assert float(numbers(found.spread, ARRAYS)) == pytest.approx(least)


def test_an_exponent_too_small_for_so_many_entries():
    found = eliminated_power([logged(1.0, plus(ONE, SIZE))], x)
    assert value(found.terms, ARRAYS) == np.inf


REFUSED = {
    "no power": (call("exp", get(m)), "a power of a quadratic form"),
    "two powers": (plus(logged(2.0, plus(ONE, SIZE)), logged(2.0, plus(ONE, SEEN))), "a power of a quadratic form"),
    "a power times the latent": (times(get(x, ZERO), call("log", plus(ONE, SIZE))), "a power of a quadratic form"),
    "a term of degree one inside": (logged(3.0, plus(ONE, SIZE, get(x, ZERO))), "squares alone inside the power"),
    "no square inside": (logged(3.0, plus(ONE, call("exp", get(x, ZERO)))), "powers and logarithms"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    term, why = REFUSED[case]
    with pytest.raises(NoClosedForm, match=why):
        eliminated_power([term], m if m in term.leaves else x)


@pytest.mark.parametrize("exponent", [1.0, -1.0])
def test_conditional_of_a_scale(exponent):
    """A block with x or 1/x in front, and a Gamma or inverse Gamma of it."""
    weight = power(get(tau), exponent)
    coupled = [times(weight, square(total([i], get(x, at_i)))), total([i], square(get(x, at_i), weight))]
    block = eliminated_together(coupled, [x])
    prior = add(((call("log", get(tau)), 3.0 * exponent), (weight, -2.0)))
    distribution = eliminated([prior], tau, "positive").distribution
    shape, rate = scale_distribution(block, tau, distribution)
    assert rate is const(2.0) and shape is const(4.0 if exponent == 1 else 2.0)


def test_conditional_of_a_squared_scale():
    """The precision x², of x with density x³ e^(−2x²), is Gamma(2, 2)."""
    weight = power(get(tau), 2.0)
    coupled = [times(weight, square(total([i], get(x, at_i)))), total([i], square(get(x, at_i), weight))]
    prior = add(((call("log", get(tau)), 3.0), (weight, -2.0)))
    distribution = eliminated([prior], tau, "positive").distribution
    assert scale_distribution(eliminated_together(coupled, [x]), tau, distribution) == (const(2.0), const(2.0))


def test_conditional_of_another_power_of_a_scale():
    block = eliminated_together([total([i], square(get(x, at_i), power(get(tau), -2.0)))], [x])
    distribution = eliminated([add(((call("log", get(tau)), 3.0), (get(tau), -2.0)))], tau, "positive").distribution
    assert scale_distribution(block, tau, distribution) is None
