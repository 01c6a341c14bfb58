"""Keys of cells, and weights beside sorted keys: sums of groups, joins, rows; on both engines, against dense arrays."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.numerics.keyed_weights import (
    Keyed,
    add_groups,
    count_groups,
    drop_zeros,
    full_rows,
    list_pairs,
    look_up,
    match,
    scatter,
    sort,
)
from fubini.numerics.mixed_radix import greatest_key, positions_of, project_keys, to_keys
from fubini.numerics.scaled import Scaled, read_log

SIZES = (3, 2, 4)
both = pytest.mark.parametrize("xp", [np, jnp])


def keyed(xp: Any, keys: list, weights: list, end: int, shift: Any = 0.0) -> Keyed:
    return Keyed(xp.asarray(keys), Scaled(xp.asarray(weights, float), shift), end)


@given(st.permutations(range(3)), st.integers(0, 3))
def test_project_keys(order: list, count: int) -> None:
    """Keys over any axes in any order, as NumPy's own."""
    axes, keys = order[:count], np.arange(24)
    cells = np.unravel_index(keys, SIZES)
    expected = np.ravel_multi_index([cells[a] for a in axes], [SIZES[a] for a in axes]) if axes else np.zeros(24)
    np.testing.assert_array_equal(project_keys(keys, SIZES, axes), expected)
    np.testing.assert_array_equal(to_keys(cells, SIZES), keys)
    for axis in range(3):
        np.testing.assert_array_equal(positions_of(keys, SIZES, axis), cells[axis])


def test_greatest_key() -> None:
    """JAX in single precision has 32 bits."""
    assert greatest_key(np) == 2**63 - 1
    assert greatest_key(jnp) == 2**31 - 1


@both
def test_sort(xp: Any) -> None:
    found = sort(keyed(xp, [5, 9, 2], [1.0, 0.0, 3.0], 9, xp.asarray([0.5, 0.0, 1.5])))
    assert found.keys.tolist() == [2, 5, 9]
    np.testing.assert_allclose(found.pair.shift, [1.5, 0.5, 0.0])


@both
@pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product])
def test_add_groups(xp: Any, semiring: fb.Semiring) -> None:
    """The weights of equal keys, which may differ by a thousand nats."""
    logs = np.array([0.0, -1.0, -1000.0, -1001.0, -1000.5])
    groups = keyed(xp, [1, 1, 4, 4, 4], [1.0] * 5, 7, xp.asarray(logs))
    assert int(count_groups(groups.keys, 7)) == 2
    found = add_groups(semiring, groups, 3)
    assert found.keys[:2].tolist() == [1, 4]
    assert found.keys[2:].tolist() == ([] if xp is np else [7])
    add = np.logaddexp if semiring is fb.sum_product else np.maximum
    np.testing.assert_allclose(read_log(found.pair)[:2], [add.reduce(logs[:2]), add.reduce(logs[2:])], rtol=1e-6)


@both
def test_drop_zeros(xp: Any) -> None:
    """The cells that are not zero, in fewer slots."""
    found = drop_zeros(keyed(xp, [0, 1, 2, 3], [0.0, 2.0, 0.0, 3.0], 4), 3)
    assert found.keys.tolist() == ([1, 3] if xp is np else [1, 3, 4])
    assert found.pair.weights.tolist() == ([2.0, 3.0] if xp is np else [2.0, 3.0, 0.0])


@both
def test_list_pairs(xp: Any) -> None:
    """All pairs of equal keys; −1 is none of the second's."""
    matches = match(xp.asarray([2, 0, 2, -1]), xp.asarray([0, 2, 2, 5]))
    assert int(matches.total) == 5
    first, second, valid = list_pairs(matches, 7)
    pairs = {(int(i), int(j)) for i, j, ok in zip(first, second, valid, strict=True) if ok}
    assert pairs == {(0, 1), (0, 2), (1, 0), (2, 1), (2, 2)}
    assert first.shape == ((5,) if xp is np else (7,))


def test_total_of_more_pairs_than_32_bits_hold() -> None:
    many = jnp.zeros(2**17, int)
    assert int(match(many, many).total) == 2**31 - 1


@both
def test_look_up(xp: Any) -> None:
    table = keyed(xp, [1, 4, 6], [0.5, 0.25, 0.0], 6)
    found = look_up(table, xp.asarray([4, 0, 1, 6]))
    assert found.weights.tolist() == [0.25, 0.0, 0.5, 0.0]
    assert scatter(table if xp is jnp else keyed(xp, [1, 4], [0.5, 0.25], 6)).weights.tolist() == [
        0,
        0.5,
        0,
        0,
        0.25,
        0,
    ]


def test_look_up_in_nothing() -> None:
    assert look_up(keyed(np, [], [], 6), np.array([3])).weights.tolist() == [0.0]


@both
def test_full_rows(xp: Any) -> None:
    """Rows of three cells: all of row 0 and two of row 2 are there."""
    table = keyed(xp, [0, 1, 2, 5, 6, 8, 12], [1.0] * 6 + [0.0], 12)
    table = table if xp is jnp else keyed(np, [0, 1, 2, 5, 6, 8], [1.0] * 6, 12)
    assert [row for row in full_rows(table, 3, 3).tolist() if row >= 0] == [0]
    assert [row for row in full_rows(table, 3, 2).tolist() if row >= 0] == [0, 2]
