"""What is proved of a node's sign holds at values drawn within the bounds of its leaves."""

import pytest

from fubini.algebra.build import ONE, const, equal, get, less, minus, times, where
from fubini.algebra.node import Leaf
from fubini.algebra.ranges import is_surely_positive

HALF = const(0.5)
S = get(Leaf("s", (), low=0.0, role="site"))
U, V = (get(Leaf(name, (), low=0.0, high=1.0, role="site")) for name in "uv")
D = get(Leaf("d", (), low=0.0, high=1.0))
K = get(Leaf("k", (), low=0.0, high=1.0, is_integer=True, role="site"))
CHOSEN = where(equal(K, ONE), U, V)


@pytest.mark.parametrize(
    "node",
    [times(S, U), minus(ONE, U), times(S, minus(ONE, U)), minus(ONE, CHOSEN), times(S, minus(ONE, CHOSEN))],
    ids=str,
)
def test_products_and_choices_of_draws_are_positive(node) -> None:
    assert is_surely_positive(node)


@pytest.mark.parametrize(
    "node",
    [
        minus(ONE, D),  # data may be 1
        minus(ONE, K),
        times(S, minus(ONE, K)),
        times(S, minus(HALF, U)),
        minus(ONE, where(equal(K, ONE), U, ONE)),  # 0 in one of the cases
        minus(ONE, where(equal(K, ONE), U, D)),
        minus(ONE, where(less(U, V), U, ONE)),
    ],
    ids=str,
)
def test_what_may_be_zero_is_not_proved_positive(node) -> None:
    assert not is_surely_positive(node)
