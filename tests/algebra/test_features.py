"""A density in one latent as monomials, as squares and as linear forms: against NumPy; and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fubini.algebra.build import ONE, ZERO, add, call, const, equal, get, index, less, minus, plus, power, times, where
from fubini.algebra.features import (
    Divergent,
    Monomial,
    NoClosedForm,
    Slope,
    Square,
    linear,
    monomials,
    require_convergent,
    squares,
)
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.errors import DataError
from tests.integrate.numerics import square, summed_over

x = Leaf("x", (4,), low=0.0, high=1.0, role="site")
one = Leaf("one", (1,), low=0.0, high=1.0, role="site")
y = Leaf("y", (3,))
label = Leaf("label", (3,), low=0, high=3, is_integer=True)
outer = Leaf("outer", (4,), low=0, high=3, is_integer=True)
behind = Leaf("behind", (4,), of=[x])
X, Y, L, OUTER = np.array([0.2, 0.7, 0.4, 0.9]), np.array([1.5, -2.0, 0.5]), np.array([3, 1, 3]), np.array([2, 2, 0, 1])
ARRAYS = {x: X, one: np.array([0.3]), y: Y, label: L, outer: OUTER}

i, j, k = Index(4, "i"), Index(3, "j"), Index(4, "k")
xi, yj = get(x, index(i)), get(y, index(j))
AT_LABEL, AT_OUTER = get(label, index(j)), get(outer, get(label, index(j)))
SHAPES = {"power": lambda number, e: number**e, "log": lambda n, _: math.log(n), "log1m": lambda n, _: math.log(1 - n)}


def of_monomial(found, latent):
    """Σ_J coefficient Π features, term by term."""
    parts = [(found.coefficient, lambda number: number)]
    for feature in found.features:
        parts.append((get(latent, *feature.place), lambda n, f=feature: SHAPES[f.kind](n, f.power)))
    return summed_over(found.over, parts, ARRAYS)


def form(coefficients, latent):
    """slopes · x"""
    same = (lambda number: number,) * 2
    return sum(
        summed_over(s.over, list(zip((s.coefficient, get(latent, *s.place)), same, strict=True)), ARRAYS)
        for s in coefficients
    )


CASES = {
    "no entry": (total([j], yj), lambda: Y.sum()),
    "every entry": (total([i], xi), lambda: X.sum()),
    "backwards": (total([i], times(index(i), get(x, minus(const(3.0), index(i))))), lambda: np.arange(4) @ X[::-1]),
    "shifted": (total([j], times(yj, get(x, plus(index(j), ONE)))), lambda: Y @ X[1:]),
    "a fixed entry": (total([j], times(yj, get(x, const(2.0)))), lambda: Y.sum() * X[2]),
    "an array of one entry": (total([j], times(yj, get(one, ZERO))), lambda: Y.sum() * 0.3),
    "by labels": (total([j], times(yj, get(x, AT_LABEL))), lambda: Y @ X[L]),
    "by labels of labels": (total([j], times(yj, get(x, AT_OUTER))), lambda: Y @ X[OUTER[L]]),
    "a point that is set": (
        total([i], where(equal(index(i), const(1.0)), get(x, const(3.0)), xi)),
        lambda: X[[0, 3, 2, 3]].sum(),
    ),
    "an interval": (total([i], where(less(index(i), const(2.0)), xi, const(5.0))), lambda: X[:2].sum() + 10),
    "a test of data": (total([j], where(less(yj, ZERO), get(x, AT_LABEL), ZERO)), lambda: X[L][Y < 0].sum()),
    "powers": (total([i], plus(power(xi, -1.0), power(xi, 0.5))), lambda: (1 / X + np.sqrt(X)).sum()),
    "logarithms": (
        plus(total([i], call("log", xi)), total([j], times(yj, call("log", minus(ONE, get(x, AT_LABEL)))))),
        lambda: np.log(X).sum() + Y @ np.log(1 - X[L]),
    ),
    "a square of a sum": (power(total([i], xi), 2.0), lambda: X.sum() ** 2),
    "a fourth power": (power(plus(total([j], get(x, AT_LABEL)), ONE), 4.0), lambda: (X[L].sum() + 1) ** 4),
    "a product of sums": (
        times(total([i], times(index(i), xi)), plus(total([k], get(x, index(k))), const(2.0))),
        lambda: (np.arange(4) @ X) * (X.sum() + 2),
    ),
    "a sum in a sum": (
        total([j], times(yj, total([i], times(less(index(i), AT_LABEL), xi)))),
        lambda: sum(Y[b] * X[: L[b]].sum() for b in range(3)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_monomials(case):
    of, expected = CASES[case]
    latent = one if one in of.leaves else x
    found = monomials(of, latent)
    assert all(latent not in m.coefficient.leaves for m in found)
    assert sum(of_monomial(m, latent) for m in found) == pytest.approx(expected(), rel=1e-12)


def test_monomials_of_a_product_join_powers_of_one_entry():
    ((_, coefficient, features),) = monomials(times(yj, power(get(x, AT_LABEL), 2.0), get(x, AT_LABEL)), x)
    assert coefficient is yj and [(f.kind, f.power) for f in features] == [("power", 3.0)]


def test_every_factor_of_a_power_has_indices_of_its_own():
    (found,) = monomials(power(total([i], xi), 2.0), x)
    assert len(set(found.over)) == 2 and len(found.features) == 2


IN_POWERS = "a density in powers and logarithms of it"
BLOCKED = {
    "another function": (call("exp", xi), IN_POWERS),
    "a fifth power of a sum": (power(plus(xi, ONE), 5.0), IN_POWERS),
    "a root of a sum": (power(plus(xi, ONE), 0.5), IN_POWERS),
    "a quotient by a sum": (power(plus(xi, ONE), -1.0), IN_POWERS),
    "a test of it": (where(less(xi, const(0.5)), yj, ZERO), IN_POWERS),
    "a function of JAX": (get(behind, index(i)), IN_POWERS),
    "a logarithm of a sum": (call("log", plus(xi, ONE)), "a logarithm of x or of 1 − x alone"),
    "a logarithm of 1 − 2x": (call("log", add(((ONE, 1.0), (xi, -2.0)))), "a logarithm of x or of 1 − x alone"),
    "x log x": (times(xi, call("log", xi)), "no logarithm of it times another function of it"),
    "a square of a logarithm": (power(call("log", xi), 2.0), "no logarithm of it times another function of it"),
}


@pytest.mark.parametrize("case", BLOCKED)
def test_monomials_refused(case):
    of, why = BLOCKED[case]
    with pytest.raises(NoClosedForm) as refused:
        monomials(of, x)
    assert refused.value.latent is x and refused.value.why == why
    assert "the elimination of 'x'" in str(refused.value) and why in str(refused.value)


# -- linear forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("powers", "logarithms", "a square of a sum")])
def test_linear(case):
    of, expected = CASES[case]
    latent = one if one in of.leaves else x
    if case in ("a fourth power", "a product of sums"):
        with pytest.raises(NoClosedForm, match="a linear form of it inside the square"):
            linear(of, latent)
        return
    slopes, offset = linear(of, latent)
    assert latent not in offset.leaves
    offset_value = summed_over((), [(offset, lambda number: number)], ARRAYS)
    assert form(slopes, latent) + offset_value == pytest.approx(expected(), rel=1e-12)


def test_slopes_of_one_entry_are_joined():
    slopes, offset = linear(add(((get(x, ZERO), 2.0), (times(yj, get(x, ZERO)), 1.0), (ONE, 5.0))), x)
    assert slopes == (Slope((), plus(const(2.0), yj), (ZERO,)),) and offset is const(5.0)


def test_slopes_that_cancel_are_none():
    first, second = get(x, ZERO), get(x, AT_LABEL)
    cancelled = minus(times(plus(yj, ONE), first), plus(times(yj, first), first))
    assert linear(plus(cancelled, second), x)[0] == (Slope((), ONE, (AT_LABEL,)),)


# -- squares --------------------------------------------------------------------------------------------------------


def of_square(found, latent):
    """Σ_J −½ weight (slopes · x − offset)², or of a monomial: by enumeration of J, x at its numbers."""
    if isinstance(found, Monomial):
        return of_monomial(found, latent)
    names = [*(times(s.coefficient, get(latent, *s.place)) for s in found.slopes)]
    inner = [total(s.over, part) for s, part in zip(found.slopes, names, strict=True)]
    gap = minus(plus(*inner), found.offset)
    return -0.5 * summed_over(found.over, [(found.weight, lambda n: n), (gap, lambda n: n * n)], ARRAYS)


SQUARES = {
    "of entries": (total([i], square(minus(xi, const(2.0)))), lambda: -0.5 * ((X - 2) ** 2).sum()),
    "by labels, with slopes": (
        total([j], square(minus(times(yj, get(x, AT_LABEL)), ONE), const(3.0))),
        lambda: -1.5 * ((Y * X[L] - 1) ** 2).sum(),
    ),
    "of a sum": (square(minus(total([i], xi), ONE)), lambda: -0.5 * (X.sum() - 1) ** 2),
    "under a test": (
        total([i], where(less(index(i), const(2.0)), square(xi), square(minus(xi, ONE)))),
        lambda: -0.5 * ((X[:2] ** 2).sum() + ((X[2:] - 1) ** 2).sum()),
    ),
    "of a case": (
        total([i], square(minus(where(less(index(i), const(2.0)), xi, get(x, ZERO)), ONE))),
        lambda: -0.5 * ((X[[0, 1, 0, 0]] - 1) ** 2).sum(),
    ),
    "of one case in a sum of two": (
        total(
            [i],
            square(
                plus(where(equal(index(i), ONE), xi, ZERO), where(less(index(i), const(3.0)), get(x, ZERO), ZERO), ONE)
            ),
        ),
        lambda: -0.5 * ((np.where(np.arange(4) == 1, X, 0) + np.where(np.arange(4) < 3, X[0], 0) + 1) ** 2).sum(),
    ),
    "in a product with a sum": (
        times(get(y, ZERO), total([i], plus(square(xi), xi))),
        lambda: 1.5 * (-0.5 * X**2 + X).sum(),
    ),
    "terms of degree one and none": (
        add(((total([i], xi), 2.0), (total([j], yj), 1.0), (square(get(x, ZERO)), 1.0))),
        lambda: 2 * X.sum() + Y.sum() - 0.5 * X[0] ** 2,
    ),
}


@pytest.mark.parametrize("case", SQUARES)
def test_squares(case):
    of, expected = SQUARES[case]
    found = list(squares(of, x))
    assert sum(of_square(part, x) for part in found) == pytest.approx(expected(), rel=1e-12)


def test_squares_are_never_multiplied_out():
    (found,) = squares(total([i], square(minus(total([k], get(x, index(k))), xi), const(4.0))), x)
    assert isinstance(found, Square) and found.weight is const(4.0) and len(found.slopes) == 2


@pytest.mark.parametrize("of", [times(xi, get(x, ZERO)), call("log", xi), power(xi, 3.0)], ids=["product", "log", "x³"])
def test_squares_refused(of):
    with pytest.raises(NoClosedForm, match="a quadratic function of it"):
        list(squares(of, x))


@given(st.permutations(list(SQUARES)[:7]), st.lists(st.floats(-3.0, 3.0), min_size=7, max_size=7))
def test_squares_of_a_sum_in_any_order(names, factors):
    of = add((SQUARES[name][0], c) for name, c in zip(names, factors, strict=True))
    expected = sum(c * SQUARES[name][1]() for name, c in zip(names, factors, strict=True))
    assert sum(of_square(part, x) for part in squares(of, x)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


# -- errors ---------------------------------------------------------------------------------------------------------


def test_require_convergent_names_the_infinite_integral():
    blocked = {"a": NoClosedForm(x, xi, "something else"), "b": Divergent(x, xi)}
    with pytest.raises(DataError, match="the integral over 'b'"):
        require_convergent(blocked)


def test_require_convergent_lets_other_reasons_be():
    require_convergent({"a": NoClosedForm(x, xi, "something else")})


def test_an_infinite_integral_is_a_refusal_as_well():
    with pytest.raises(NoClosedForm, match="a finite integral"):
        raise Divergent(x, xi)
