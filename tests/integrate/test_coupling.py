"""How coupled entries lie: independent axes, chains and cells; and which places are inside."""

import numpy as np
import pytest

from fubini.algebra.build import ONE, ZERO, const, equal, get, index, less, minus, plus, times
from fubini.algebra.features import Slope
from fubini.algebra.node import Index, Leaf
from fubini.integrate.coupling import CoupledSquare, is_inside, layout_of
from tests.integrate.numerics import numbers

x, grid = Leaf("x", (4,), role="site"), Leaf("grid", (3, 4), role="site")
m = Leaf("m", (), role="site")
label = Leaf("label", (4,), low=0, high=3, is_integer=True)
i, t, n = Index(4, "i"), Index(3, "t"), Index(3, "n")
at_i, at_t, at_n = map(index, (i, t, n))


def joint(over, *places, weight=ONE, latent=x):
    return CoupledSquare(tuple(over), weight, tuple((latent, Slope((), ONE, place)) for place in places), ZERO)


SEEN = joint([i], (at_i,))
STEPS = joint([t], (at_t,), (plus(at_t, ONE),))
FIRST, LAST = joint([], (ZERO,)), joint([], (const(3.0),))

LAYOUTS = {  # independent axes, length of the chain, cell, whether it begins at its end
    "independent entries": ([SEEN], ((4,), None, 1, False)),
    "a chain": ([STEPS, SEEN], ((), 4, 1, False)),
    "a chain from its start": ([STEPS, FIRST], ((), 4, 1, False)),
    "a chain from its end": ([STEPS, LAST], ((), 4, 1, True)),
    "a chain that begins in the middle": ([STEPS, joint([], (ONE,))], ((), None, 4, False)),
    "steps that leave a gap": ([joint([], (ZERO,), (ONE,)), SEEN], ((), None, 4, False)),
    "steps of two": ([joint([Index(2)], (ZERO,), (const(2.0),)), SEEN], ((), None, 4, False)),
    "by labels": ([SEEN, joint([i], (get(label, at_i),))], ((), None, 4, False)),
    "backwards": ([SEEN, joint([i], (minus(const(3.0), at_i),))], ((), None, 4, False)),
    "beyond the end": ([SEEN, joint([i], (plus(at_i, ONE),))], ((), None, 4, False)),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layout_of_one_latent(case):
    squares, (independent, length, cell, flipped) = LAYOUTS[case]
    found = layout_of(squares, (x,))
    assert tuple(each.size for each in found.independent) == independent
    assert (found.frame.length, found.frame.cell, found.flipped) == (length, cell, flipped)
    assert found.size == 4 and found.first == {x: 0}


GRIDS = {
    "both axes independent": ([joint([n, i], (at_n, at_i), latent=grid)], ((3, 4), None, 1)),
    "chains along the last axis": (
        [joint([n, t], (at_n, at_t), (at_n, plus(at_t, ONE)), latent=grid), joint([n], (at_n, ZERO), latent=grid)],
        ((3,), 4, 1),
    ),
    "cells along the first axis": (
        [joint([n], (at_n, ZERO), (at_n, const(2.0)), latent=grid), joint([n, i], (at_n, at_i), latent=grid)],
        ((3,), None, 4),
    ),
    "the diagonal": (
        [joint([n], (at_n, at_n), latent=grid), joint([n, i], (at_n, at_i), latent=grid)],
        ((3,), None, 4),
    ),
}


@pytest.mark.parametrize("case", GRIDS)
def test_layout_of_a_grid(case):
    squares, (independent, length, cell) = GRIDS[case]
    found = layout_of(squares, (grid,))
    assert tuple(each.size for each in found.independent) == independent
    assert (found.frame.length, found.frame.cell, found.size) == (length, cell, 12)


def test_latents_of_other_shapes_lie_in_one_cell():
    found = layout_of([SEEN, CoupledSquare((), ONE, ((m, Slope((), ONE, ())),), ZERO)], (x, m))
    assert found.first == {x: 0, m: 4} and found.size == 5
    assert found.column(x, (const(2.0),), 0) is const(2.0) and found.column(m, (), 0) is const(4.0)


def test_the_column_of_an_entry_of_a_grid():
    """Row by row, where no axis is independent; of a chain, the next cell is as many columns on."""
    cell = layout_of([joint([n, i], (minus(const(2.0), at_n), minus(const(3.0), at_i)), latent=grid)], (grid,))
    np.testing.assert_array_equal(numbers(cell.column(grid, (at_n, at_i), 0), {}, (n, i)), np.arange(12).reshape(3, 4))
    chain = layout_of([STEPS, SEEN], (x,))
    assert chain.column(x, (at_t,), 0) is ZERO and chain.column(x, (at_t,), 1) is ONE


def test_a_square_in_its_place():
    """Steps of a chain are at its places but the last, where the weight is 0."""
    found = layout_of([STEPS, SEEN], (x,))
    placed = found.placed(joint([t], (at_t,), (plus(at_t, ONE),), weight=plus(at_t, const(2.0))))
    assert placed.lags == (0, 1) and placed.over == placed.frame
    np.testing.assert_array_equal(numbers(placed.weight, {}, placed.frame), [2.0, 3.0, 4.0, 0.0])


def test_a_square_in_its_place_of_a_chain_from_its_end():
    found = layout_of([STEPS, LAST], (x,))
    placed = found.placed(joint([t], (at_t,), (plus(at_t, ONE),), weight=plus(at_t, const(2.0))))
    assert placed.lags == (1, 0)
    np.testing.assert_array_equal(numbers(placed.weight, {}, placed.frame), [4.0, 3.0, 2.0, 0.0])


PLACES = {
    "an index": (at_i, ONE, True),
    "a shift": (plus(at_t, ONE), ONE, True),
    "a shift too far": (plus(at_i, ONE), ONE, False),
    "a shift too far, under a test": (plus(at_i, ONE), less(at_i, const(3.0)), True),
    "a shift too far, at one place": (minus(at_i, ONE), equal(at_i, const(2.0)), True),
    "a shift too far, under a test of another index": (plus(at_i, ONE), less(at_t, const(2.0)), False),
    "labels": (get(label, at_i), ONE, True),
    "labels too far": (plus(get(label, at_i), ONE), ONE, False),
    "labels too far, under a test": (
        plus(get(label, at_i), ONE),
        times(at_i, less(plus(get(label, at_i), ONE), const(4.0))),
        True,
    ),
    "a number": (const(3.0), ONE, True),
    "a number too far": (const(4.0), ONE, False),
    "a number below 0": (const(-1.0), ONE, False),
    "an index without values": (plus(index(Index(0)), const(9.0)), ONE, True),
}


@pytest.mark.parametrize("case", PLACES)
def test_is_inside(case):
    place, weight, expected = PLACES[case]
    assert is_inside(place, 4, weight) is expected
