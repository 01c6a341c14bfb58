"""Normal latents together: evidence against dense matrices written by hand, for each layout; and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fubini.algebra.build import ONE, ZERO, add, call, const, equal, get, index, less, minus, plus, power, times, where
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.block import eliminated_together
from tests.integrate.numerics import numbers, square, value

RANDOM = np.random.default_rng(1)
x = Leaf("x", (4,), role="site")
rows = Leaf("rows", (3, 2), role="site")
m = Leaf("m", (), role="site")
w = Leaf("w", (2,), role="site")
noise = Leaf("noise", (), low=0.0, role="site")
y, design = Leaf("y", (4,)), Leaf("design", (4, 2))
more = Leaf("more", (3, 4))
label = Leaf("label", (4,), low=0, high=3, is_integer=True)
Y, DESIGN, MORE, LABEL = (
    RANDOM.normal(size=4),
    RANDOM.normal(size=(4, 2)),
    RANDOM.normal(size=(3, 4)),
    np.array([2, 0, 2, 3]),
)
ARRAYS = {y: Y, design: DESIGN, more: MORE, label: LABEL, noise: np.array(0.6)}
i, j, t, c, n = Index(4, "i"), Index(4, "j"), Index(3, "t"), Index(2, "c"), Index(3, "n")
at_i, at_j, at_t, at_c, at_n = map(index, (i, j, t, c, n))
yi = get(y, at_i)
EYE = np.eye(4)


def dense(*parts):
    """log ∫ exp(−½ Σ weight |A x − b|²) dx, of parts (A, b, weight)."""
    A = np.concatenate([np.sqrt(weight) * np.atleast_2d(matrix) for matrix, _, weight in parts])
    b = np.concatenate([np.sqrt(weight) * np.broadcast_to(right, len(np.atleast_2d(m))) for m, right, weight in parts])
    centre = np.linalg.solve(A.T @ A, A.T @ b)
    size, rss = A.shape[1], ((A @ centre - b) ** 2).sum()
    return 0.5 * size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(A.T @ A)[1] - 0.5 * rss


FIRST = square(minus(get(x, ZERO), ONE), const(2.0))
STEPS = total([t], square(minus(get(x, plus(at_t, ONE)), get(x, at_t)), const(3.0)))
SEEN = total([i], square(minus(get(x, at_i), yi)))
DIFFERENCE = EYE[1:] - EYE[:-1]
LOWER = np.tril(np.ones((4, 4)))
REGRESSION = total([i], square(minus(plus(total([c], times(get(design, at_i, at_c), get(w, at_c))), get(m)), yi)))
TOGETHER = np.column_stack([DESIGN, np.ones(4)])

CASES = {
    "a chain": ([FIRST, STEPS, SEEN], [x], dense((EYE[0], 1, 2), (DIFFERENCE, 0, 3), (EYE, Y, 1))),
    "a chain from its end": (
        [square(minus(get(x, const(3.0)), ONE)), STEPS],
        [x],
        dense((EYE[3], 1, 1), (DIFFERENCE, 0, 3)),
    ),
    "a chain with a test at its first step": (
        [total([i], square(minus(get(x, at_i), where(less(ZERO, at_i), get(x, minus(at_i, ONE)), ZERO)))), SEEN],
        [x],
        dense((EYE - np.eye(4, k=-1), 0, 1), (EYE, Y, 1)),
    ),
    "a chain that is seen by labels": (
        [FIRST, STEPS, total([j], square(minus(get(x, get(label, at_j)), get(y, at_j))))],
        [x],
        dense((EYE[0], 1, 2), (DIFFERENCE, 0, 3), (EYE[LABEL], Y, 1)),
    ),
    "steps of two": (
        [SEEN, total([c], square(minus(get(x, plus(at_c, const(2.0))), get(x, at_c))))],
        [x],
        dense((EYE, Y, 1), (EYE[2:] - EYE[:2], 0, 1)),
    ),
    "a sum of all": (
        [SEEN, square(minus(total([i], get(x, at_i)), const(5.0)))],
        [x],
        dense((EYE, Y, 1), (np.ones(4), 5, 1)),
    ),
    "cumulative sums": (
        [
            total([i], square(get(x, at_i))),
            total([i], square(minus(total([j], times(less(at_j, plus(at_i, ONE)), get(x, at_j))), yi))),
        ],
        [x],
        dense((EYE, 0, 1), (LOWER, Y, 1)),
    ),
    "a regression with an intercept": (
        [total([c], square(get(w, at_c))), square(get(m), const(0.1)), REGRESSION],
        [w, m],
        dense((np.eye(3)[:2], 0, 1), (np.eye(3)[2], 0, 0.1), (TOGETHER, Y, 1)),
    ),
    "effects and their mean": (
        [
            square(get(m)),
            total([i], square(minus(get(x, at_i), get(m)))),
            total([j], square(minus(get(x, get(label, at_j)), get(y, at_j)))),
        ],
        [x, m],
        dense((np.eye(5)[4], 0, 1), (np.column_stack([EYE, -np.ones(4)]), 0, 1), (np.eye(5)[LABEL], Y, 1)),
    ),
    "terms without the latents": (
        [FIRST, STEPS, SEEN, total([i], yi)],
        [x],
        dense((EYE[0], 1, 2), (DIFFERENCE, 0, 3), (EYE, Y, 1)) + Y.sum(),
    ),
    "a scale that all share": (
        [times(power(get(noise), -1.0), add((part, 1.0) for part in (FIRST, STEPS, SEEN)))],
        [x],
        dense((EYE[0], 1, 2 / 0.6), (DIFFERENCE, 0, 3 / 0.6), (EYE, Y, 1 / 0.6)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_eliminated_together(case):
    terms, latents, expected = CASES[case]
    found = eliminated_together(terms, latents)
    assert found.latents == tuple(latents) and not any(term.leaves & set(latents) for term in found.terms)
    assert value(found.terms, ARRAYS) == pytest.approx(expected, rel=1e-11)


def test_a_scale_that_all_share_is_in_front():
    found = eliminated_together(CASES["a scale that all share"][0], [x])
    assert found.scale is power(get(noise), -1.0) and not any(noise in row.leaves for row in found.rows)


def test_independent_rows():
    """A regression for each of three items: one problem for each."""
    form = total([c], times(get(design, at_i, at_c), get(rows, at_n, at_c)))
    terms = [total([n, c], square(get(rows, at_n, at_c))), total([n, i], square(minus(form, get(more, at_n, at_i))))]
    found = eliminated_together(terms, [rows])
    expected = sum(dense((np.eye(2), 0, 1), (DESIGN, seen, 1)) for seen in MORE)
    assert [i.size for i in found.layout.independent] == [3] and found.layout.frame.size == 2
    assert value(found.terms, ARRAYS) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("count", [0, 1])
def test_sums_of_none_and_of_one(count):
    k = Index(count, "k")
    data = Leaf("data", (count,))
    entry = get(data, index(k))
    terms = [FIRST, STEPS, total([k], square(minus(plus(get(x, ONE), get(x, ZERO)), entry)))]
    found = eliminated_together(terms, [x])
    seen = [(EYE[0] + EYE[1], 0.4, 1)] * count
    expected = dense((EYE[0], 1, 2), (DIFFERENCE, 0, 3), *seen)
    assert value(found.terms, {data: np.full(count, 0.4)}) == pytest.approx(expected, rel=1e-11)


def test_a_chain_of_one():
    single = Leaf("single", (1,), role="site")
    k = Index(1, "k")
    found = eliminated_together([total([k], square(minus(get(single, index(k)), const(3.0)), const(4.0)))], [single])
    assert value(found.terms, {}) == pytest.approx(0.5 * np.log(2 * np.pi / 4))


def test_directions_that_no_square_has():
    """Differences alone: the level has no prior."""
    found = eliminated_together([STEPS], [x])
    with np.errstate(divide="ignore"):
        assert value(found.terms, ARRAYS) == np.inf


@given(st.permutations(range(5)))
def test_order_of_terms(order):
    """Terms made anew, and latents in either order."""
    a, b = (Leaf(name, shape, role="site") for name, shape in (("a", (4,)), ("b", ())))
    makers = [
        lambda: square(get(b)),
        lambda: total([i], square(minus(get(a, at_i), get(b)))),
        lambda: total([t], square(minus(get(a, plus(at_t, ONE)), get(a, at_t)), const(3.0))),
        lambda: total([i], square(minus(get(a, at_i), yi))),
        lambda: square(minus(get(a, const(3.0)), plus(get(b), ONE))),
    ]
    terms = [makers[place]() for place in order]
    found = eliminated_together(terms, [a, b] if order[0] % 2 else [b, a])
    five = np.eye(5)
    expected = dense(
        (five[4], 0, 1),
        (np.column_stack([EYE, -np.ones(4)]), 0, 1),
        (np.column_stack([DIFFERENCE, np.zeros(3)]), 0, 3),
        (five[:4], Y, 1),
        (five[3] - five[4], 1, 1),
    )
    assert value(found.terms, ARRAYS) == pytest.approx(expected, rel=1e-11)


INFINITE = "a quadratic term: its integral is infinite"
REFUSED = {
    "a latent without squares": ([SEEN, times(get(m), ZERO)], [x, m], INFINITE),
    "a term of degree one": ([SEEN, get(x, ZERO)], [x], "a term of degree one has no room"),
    "a negative weight": ([SEEN, square(get(x, ZERO), const(-2.0))], [x], "squares with positive weights"),
    "a weight with a latent": (
        [SEEN, total([i], square(get(x, at_i), power(get(m), 2.0)))],
        [x, m],
        "a weight without the latents",
    ),
    "a product of latents": (
        [SEEN, square(minus(times(get(x, ZERO), get(m)), ONE))],
        [x, m],
        "linear in the latents of the block together",
    ),
    "another function": ([SEEN, call("exp", get(x, ZERO))], [x], "in powers and logarithms of it"),
    "a test of it": ([SEEN, square(times(equal(get(x, ZERO), ONE), yi))], [x], "in powers and logarithms of it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    terms, latents, why = REFUSED[case]
    with pytest.raises(NoClosedForm, match=why):
        eliminated_together([total([i], t) if i in t.free else t for t in terms], latents)


def test_no_free_index_remains():
    for terms, latents, _ in CASES.values():
        found = eliminated_together(terms, latents)
        assert not any(part.free for part in (*found.terms, found.scale))
        assert numbers(found.scale, ARRAYS) > 0
