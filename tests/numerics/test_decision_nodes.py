"""Nodes of decision diagrams as arrays, against tables of all cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fubini.numerics.decision_descent import descend, greatest_below, log_cells_between, mass_below
from fubini.numerics.decision_nodes import Nodes, from_cells, merge_rows, path_to, reduce_nodes, to_cells, unique_rows
from fubini.numerics.decision_refinement import cofactors, move_to_end, pair, restrict

SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


def labelled(cells: np.ndarray) -> tuple[np.ndarray, int]:
    """Cells with their terminals numbered without gaps."""
    values, classes = np.unique(cells, return_inverse=True)
    return classes.reshape(cells.shape), len(values)


def diagrams(shapes: st.SearchStrategy = SHAPES) -> st.SearchStrategy[tuple[np.ndarray, int]]:
    """Tables of up to three terminals, all of which occur."""
    return shapes.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(0, 2))).map(labelled)


def assert_reduced(nodes: Nodes) -> None:
    """No node has equal children, no two of a level are equal, children come before, and all can be reached."""
    reached = {nodes.root}
    for level, rows in enumerate(nodes.children):
        assert all(len(set(row)) > 1 for row in rows.tolist())
        assert len({tuple(row) for row in rows.tolist()}) == len(rows)
        assert np.all(nodes.levels[rows] > level) if rows.size else True
        mine = range(nodes.starts[level], nodes.starts[level] + len(rows))
        assert reached.issuperset(mine)
        reached.update(rows.ravel().tolist())
    assert reached.issuperset(range(nodes.terminals))


@given(diagrams())
def test_cells_come_back_from_reduced_nodes(given):
    cells, terminals = given
    nodes = from_cells(cells, terminals)
    assert_reduced(nodes)
    assert nodes.sizes == cells.shape
    np.testing.assert_array_equal(to_cells(nodes), cells)


@given(diagrams())
def test_equal_functions_have_equal_nodes(given):
    """Reduced diagrams over one order are canonical: however they were made."""
    cells, terminals = given
    apart = from_cells(np.arange(cells.size).reshape(cells.shape), cells.size)
    merged = reduce_nodes(apart, cells.ravel(), terminals)
    assert merged.count == from_cells(cells, terminals).count
    np.testing.assert_array_equal(to_cells(merged), cells)
    assert from_cells(cells, terminals) == from_cells(cells.copy(), terminals)
    assert hash(from_cells(cells, terminals)) == hash(from_cells(cells.copy(), terminals))


def test_other_functions_have_other_nodes():
    assert from_cells(np.array([0, 1]), 2) != from_cells(np.array([1, 0]), 2)
    assert from_cells(np.array([0, 0]), 1) != from_cells(np.array([0, 0, 0]), 1)


@given(hnp.arrays(np.int64, st.tuples(st.integers(0, 6), st.integers(1, 4)), elements=st.integers(-2, 2)))
def test_unique_rows(rows):
    different, inverse = unique_rows(rows)
    assert len(different) == len({tuple(row) for row in rows.tolist()})
    np.testing.assert_array_equal(different[inverse], rows)


def test_merge_rows():
    references, made = merge_rows(np.array([[1, 1], [0, 1], [2, 2], [0, 1]]), 5)
    assert references.tolist() == [1, 5, 2, 5]
    assert made.tolist() == [[0, 1]]


@given(diagrams(), st.data())
def test_restrict(given, data):
    cells, terminals = given
    level = data.draw(st.integers(0, cells.ndim - 1))
    value = data.draw(st.integers(0, cells.shape[level] - 1))
    nodes, tuples = restrict(from_cells(cells, terminals), level, value)
    assert_reduced(nodes)
    np.testing.assert_array_equal(tuples[to_cells(nodes), 0], cells.take(value, level))


@given(diagrams(), st.data())
def test_cofactors(given, data):
    cells, terminals = given
    level = data.draw(st.integers(0, cells.ndim - 1))
    expected = np.moveaxis(cells, level, -1)
    nodes, tuples = cofactors(from_cells(cells, terminals), level)
    assert_reduced(nodes)
    np.testing.assert_array_equal(tuples[to_cells(nodes)], expected)
    nodes, tuples = cofactors(from_cells(cells, terminals), level, is_symmetric=True)
    assert_reduced(nodes)
    assert len({tuple(row) for row in tuples.tolist()}) == len(tuples)
    np.testing.assert_array_equal(tuples[to_cells(nodes)], np.sort(expected, axis=-1))


@given(diagrams(st.just([2, 3])), diagrams(st.just([3, 2])))
def test_pair(f, g):
    """f(x, y) and g(y, z), the levels being x, y, z."""
    nodes, tuples = pair(from_cells(*f), from_cells(*g), ([0, 1], [1, 2]), (2, 3, 2))
    assert_reduced(nodes)
    both = tuples[to_cells(nodes)]
    np.testing.assert_array_equal(both[..., 0], np.broadcast_to(f[0][:, :, None], (2, 3, 2)))
    np.testing.assert_array_equal(both[..., 1], np.broadcast_to(g[0], (2, 3, 2)))


def test_nothing_is_paired_below_an_absorbing_terminal():
    f, g = from_cells(np.array([0, 1]), 2), from_cells(np.arange(8).reshape(2, 2, 2), 8)
    whole = pair(f, g, ([0], [1, 2, 3]), (2, 2, 2, 2))
    short = pair(f, g, ([0], [1, 2, 3]), (2, 2, 2, 2), (np.array([True, False]), np.zeros(8, bool)))
    assert (whole.nodes.terminals, short.nodes.terminals) == (16, 9)
    assert (whole.nodes.count, short.nodes.count) == (15, 8)
    assert short.tuples[to_cells(short.nodes)[0]][..., 0].max() == 0


@given(diagrams(), st.data())
def test_move_to_end(given, data):
    cells, terminals = given
    level = data.draw(st.integers(0, cells.ndim - 1))
    nodes = move_to_end(from_cells(cells, terminals), level)
    assert_reduced(nodes)
    np.testing.assert_array_equal(to_cells(nodes), np.moveaxis(cells, level, -1))


@given(diagrams(), st.data())
def test_path_to(given, data):
    cells, terminals = given
    terminal = data.draw(st.integers(0, terminals - 1))
    assert path_to(from_cells(cells, terminals), terminal) == tuple(np.argwhere(cells == terminal)[0])


@given(diagrams())
def test_greatest_and_mass_below_the_root(given):
    cells, terminals = given
    nodes, weights = from_cells(cells, terminals), np.array([[0.0, 2.0, 5.0], [1.5, 0.0, 0.25]])[:, :terminals]
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    axes = tuple(range(1, cells.ndim + 1))
    greatest = greatest_below(nodes, logs)[:, nodes.root]
    np.testing.assert_allclose(np.exp(greatest), weights[:, cells].max(axes))
    above = np.prod(cells.shape[: nodes.levels[nodes.root]])  # levels that the root itself passes over
    mass = mass_below(nodes, logs)[:, nodes.root]
    np.testing.assert_allclose(np.exp(mass) * above, weights[:, cells].sum(axes))


def test_descent_passes_over_levels():
    """A level without a node has equal scores; the path goes on below it."""
    nodes = from_cells(np.array([[[0, 1], [0, 1]], [[0, 0], [0, 0]]]), 2)
    scores = np.array([0.0, 1.0, 1.0, 1.0])
    values = descend(nodes, lambda level, kids: scores[kids], lambda found: found.argmax(-1), (2,))
    assert [value.tolist() for value in values] == [[0, 0], [0, 0], [1, 1]]
    assert log_cells_between(nodes, 0)[0] == pytest.approx(np.log(4))
