"""Finite latents summed out, entry by entry and along chains: against enumeration; and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from fubini.algebra.build import ONE, ZERO, add, call, const, equal, get, index, less, minus, plus, power, times, where
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.finite import bodies, solving, summed
from fubini.integrate.finite import tests as place_tests
from tests.integrate.numerics import numbers, value

z = Leaf("z", (4,), low=0, high=2, is_integer=True, role="site")
grid = Leaf("grid", (2, 3), low=0, high=1, is_integer=True, role="site")
table = Leaf("table", (4, 3))
link = Leaf("link", (3, 3))
label = Leaf("label", (5,), low=0, high=3, is_integer=True)
outer = Leaf("outer", (4,), low=0, high=3, is_integer=True)
step = Leaf("step", (5,), low=0, high=2, is_integer=True)
RANDOM = np.random.default_rng(0)
TABLE, LINK = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(3, 3))
LABEL, OUTER, STARTS = np.array([3, 0, 3, 1, 0]), np.array([1, 1, 2, 0]), np.array([1, 1, 0, 1, 0])
ARRAYS = {table: TABLE, link: LINK, label: LABEL, outer: OUTER, step: STARTS}
i, j, t = Index(4, "i"), Index(5, "j"), Index(3, "t")
at_i, at_j, at_t = index(i), index(j), index(t)
zi, zl = get(z, at_i), get(z, get(label, at_j))
UNARY = total([i], get(table, at_i, zi))


def enumerated(density, shape, low=0, count=3):
    """log Σ over all arrays of states."""
    states = low + np.array(list(itertools.product(range(count), repeat=int(np.prod(shape)))))
    return float(logsumexp([density(state.reshape(shape)) for state in states]))


def evidence(mine, latent, size):
    found = summed(mine, latent, size)
    assert found.batch == tuple(i for i in found.at if i in found.batch)
    return value(
        [total(found.batch, found.distribution.log_normaliser), *found.outside], ARRAYS
    ), found.distribution.family


def unary(s):
    return TABLE[np.arange(4), s].sum()


CASES = {
    "every entry": (UNARY, unary),
    "backwards": (
        plus(UNARY, total([i], times(at_i, get(z, minus(const(3.0), at_i))))),
        lambda s: unary(s) + np.arange(4) @ s[::-1],
    ),
    "a fixed entry": (plus(UNARY, power(get(z, const(2.0)), 2.0)), lambda s: unary(s) + s[2] ** 2),
    "by labels, one of which never occurs": (total([j], times(at_j, zl)), lambda s: np.arange(5) @ s[LABEL]),
    "by labels of labels": (
        total([j], times(at_j, get(z, get(outer, get(label, at_j))))),
        lambda s: np.arange(5) @ s[OUTER[LABEL]],
    ),
    "an interval": (
        total([i], where(less(at_i, const(2.0)), get(table, at_i, zi), ZERO)),
        lambda s: TABLE[np.arange(2), s[:2]].sum(),
    ),
    "a test of it": (
        total([i], where(equal(zi, ONE), at_i, const(0.5))),
        lambda s: np.where(s == 1, range(4), 0.5).sum(),
    ),
    "a factor and a sum": (
        times(get(table, ZERO, ZERO), total([i], plus(zi, power(zi, 2.0)))),
        lambda s: TABLE[0, 0] * (s + s**2).sum(),
    ),
    "terms without it": (add(((UNARY, 1.0), (const(2.0), 3.0), (total([j], at_j), -0.5))), lambda s: unary(s) + 6 - 5),
}


@pytest.mark.parametrize("case", CASES)
def test_summed(case):
    mine, density = CASES[case]
    found, family = evidence(mine, z, 3)
    assert family == "Categorical" and found == pytest.approx(enumerated(density, (4,)), rel=1e-12)


def test_states_from_a_lowest_one():
    low = Leaf("z", (4,), low=2, high=4, is_integer=True, role="site")
    mine = total([i], add(((power(get(low, at_i), 2.0), -0.1), (times(at_i, get(low, at_i)), 0.2))))
    density = lambda s: -0.1 * (s**2).sum() + 0.2 * np.arange(4) @ s  # noqa: E731
    assert evidence(mine, low, 3)[0] == pytest.approx(enumerated(density, (4,), low=2), rel=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_entry(shape):
    single = Leaf("z", shape, low=0, high=2, is_integer=True, role="site")
    mine = get(table, ONE, get(single, *(ZERO for _ in shape)))
    assert evidence(mine, single, 3)[0] == pytest.approx(logsumexp(TABLE[1]))


def test_one_state():
    single = Leaf("z", (4,), low=0, high=0, is_integer=True, role="site")
    assert evidence(total([i], get(table, at_i, get(single, at_i))), single, 1)[0] == pytest.approx(TABLE[:, 0].sum())


# -- chains ---------------------------------------------------------------------------------------------------------

STEP = total([t], get(link, get(z, at_t), get(z, plus(at_t, ONE))))


def steps(s):
    return LINK[s[:-1], s[1:]].sum()


CHAINS = {
    "forward": (plus(UNARY, STEP), lambda s: unary(s) + steps(s)),
    "links alone": (STEP, steps),
    "backward": (
        plus(UNARY, total([t], get(link, get(z, minus(const(3.0), at_t)), get(z, minus(const(2.0), at_t))))),
        lambda s: unary(s) + steps(s[::-1]),
    ),
    "a test at the first step": (
        plus(
            UNARY,
            total([i], where(equal(at_i, ZERO), times(const(0.3), zi), get(link, get(z, minus(at_i, ONE)), zi))),
        ),
        lambda s: unary(s) + 0.3 * s[0] + steps(s),
    ),
    "a test at the last step": (
        plus(UNARY, total([i], where(less(at_i, const(3.0)), get(link, zi, get(z, plus(at_i, ONE))), ZERO))),
        lambda s: unary(s) + steps(s),
    ),
    "steps by labels": (
        plus(UNARY, total([j], times(at_j, equal(get(z, get(step, at_j)), get(z, plus(get(step, at_j), ONE)))))),
        lambda s: unary(s) + np.arange(5) @ (s[STARTS] == s[STARTS + 1]),
    ),
    "two links of one step": (
        add(((UNARY, 1.0), (STEP, 2.0), (equal(get(z, ZERO), get(z, ONE)), 0.7))),
        lambda s: unary(s) + 2 * steps(s) + 0.7 * (s[0] == s[1]),
    ),
}


@pytest.mark.parametrize("case", CHAINS)
def test_chain(case):
    mine, density = CHAINS[case]
    found, family = evidence(mine, z, 3)
    assert family == "Chain" and found == pytest.approx(enumerated(density, (4,)), rel=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_chains_along_an_axis(axis):
    """As many chains as the other axis has entries."""
    n, m = Index(2, "n"), Index(3, "m")
    at_n, at_m = index(n), index(m)
    short = Index((1, 2)[axis], "t")
    s = index(short)
    pair = ((s, at_m), (plus(s, ONE), at_m)) if axis == 0 else ((at_n, s), (at_n, plus(s, ONE)))
    other = m if axis == 0 else n
    both = total([short, other], times(plus(ONE, index(other)), equal(get(grid, *pair[0]), get(grid, *pair[1]))))
    mine = plus(both, total([n, m], times(get(table, at_n, at_m), get(grid, at_n, at_m))))

    def density(states):
        first, second = (states[:1], states[1:]) if axis == 0 else (states[:, :-1], states[:, 1:])
        weights = np.arange(1, 4) if axis == 0 else np.arange(1, 3)[:, None]
        return (weights * (first == second)).sum() + (TABLE[:2] * states).sum()

    found, family = evidence(mine, grid, 2)
    assert family == "Chain" and found == pytest.approx(enumerated(density, (2, 3), count=2), rel=1e-12)


@given(st.permutations(list(CHAINS)))
def test_order_of_terms(names):
    fresh = [times(const(0.5), CHAINS[name][0]) for name in names]
    found, _ = evidence(add((part, 1.0) for part in fresh), z, 3)
    expected = enumerated(lambda s: sum(0.5 * CHAINS[name][1](s) for name in sorted(CHAINS)), (4,))
    assert found == pytest.approx(expected, rel=1e-12)


ENTRIES = "one of its entries in a term, or two neighbours of a chain"
behind = Leaf("behind", (4,), of=[z])
REFUSED = {
    "three entries": (times(get(z, ZERO), get(z, ONE), get(z, const(2.0))), ENTRIES),
    "entries two apart": (times(get(z, ZERO), get(z, const(2.0))), ENTRIES),
    "entries by two labels": (total([j], times(at_j, zl, get(z, get(outer, get(label, at_j))))), ENTRIES),
    "a point that is set": (total([i], where(equal(at_i, ONE), get(z, ZERO), zi)), ENTRIES),
    "an entry times a sum": (total([j], times(zl, get(z, ZERO))), "not in a sum inside a function"),
    "a sum inside a function": (call("exp", total([i], zi)), "not in a sum inside a function"),
    "a square of a sum": (power(total([i], zi), 2.0), "not in a sum inside a function"),
    "at a place that depends on it": (get(z, get(z, ZERO)), "its entries at places that do not depend on it"),
    "a function of JAX": (get(behind, ZERO), "a function that can be read"),
    "beyond the end": (total([i], get(z, plus(at_i, ONE))), "entries within its shape"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    mine, why = REFUSED[case]
    with pytest.raises(NoClosedForm, match=why) as refused:
        summed(mine, z, 3)
    assert refused.value.latent is z


def test_chains_along_two_axes_are_refused():
    first, second, third = (get(grid, *map(const, at)) for at in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0)))
    with pytest.raises(NoClosedForm, match="a chain along one of its axes"):
        summed(plus(times(first, second), times(first, third)), grid, 2)


# -- places ---------------------------------------------------------------------------------------------------------


def test_tests_of_a_place():
    other = Index(4, "k")
    np.testing.assert_array_equal(
        numbers(place_tests((get(label, at_j),), (other,)), ARRAYS, (j, other)), np.eye(4)[LABEL]
    )
    assert place_tests((at_i,), (i,)) is ONE and place_tests((), ()) is ONE


a, b, c, d = Index(4), Index(3), Index(4), Index(3)
single, alone = Index(1), Index(1)
PLACES = {
    "each index once": ((index(a), index(b)), (b, a), (c, d), {index(a): index(c), index(b): index(d)}),
    "an axis of one entry": ((index(a), ZERO), (a,), (c, single), {index(a): index(c)}),
    "an index of one value": (
        (index(a), ZERO),
        (a, alone),
        (c, single),
        {index(a): index(c), index(alone): index(single)},
    ),
    "one index on two axes": ((index(a), index(a)), (a,), (c, c), None),
    "an index that says no place": ((index(a),), (a, b), (c,), None),
    "a shorter index": ((index(b),), (b,), (c,), None),
    "a fixed place": ((ONE,), (), (c,), None),
    "a shift": ((plus(index(b), ONE),), (b,), (c,), None),
}


@pytest.mark.parametrize("case", PLACES)
def test_solving(case):
    place, over, at, expected = PLACES[case]
    assert solving(place, over, at) == expected


def test_bodies():
    """Sums are opened as far as the latent goes, with the numbers in front apart."""
    mine = add(((total([i], zi), 2.0), (total([i], at_i), 1.0), (times(get(table, ZERO, ZERO), total([i], zi)), -1.0)))
    found = list(bodies(mine, z))
    assert sorted((len(over), coefficient) for over, _, coefficient in found) == [(0, 6.0), (1, -1.0), (1, 2.0)]
    assert add((total(over, body), coefficient) for over, body, coefficient in found) is mine
