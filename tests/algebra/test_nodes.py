"""Kinds of nodes declare their parts once; leaves are fixed; each node is visited once."""

import copy
import pickle

import pytest

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import call, equal, get, index, less, make, plus, power, times, where
from fubini.algebra.node import KINDS, Index, Leaf, Node
from fubini.algebra.walk import rewrite, walk

I = Index(3)  # noqa: E741
X, Y = Leaf("x", (3,)), Leaf("y", ())
x, y = get(X, index(I)), get(Y)
NODES = [
    plus(x, y),
    power(plus(x, y), 3.0),
    call("exp", x),
    less(x, y),
    equal(index(I), get(Leaf("k", (), is_integer=True))),
]
NODES += [where(less(x, y), x, y), x, closed("lse", [I], times(x, y))]


@pytest.mark.parametrize("node", NODES, ids=str)
def test_arguments_with_the_same_children_are_the_same(node: Node) -> None:
    assert node.args_with(node.children) == node.args
    assert make(node.kind, *node.args) is node
    assert type(node) is KINDS[node.kind]


@pytest.mark.parametrize("node", NODES, ids=str)
def test_replacing_nothing_changes_nothing(node: Node) -> None:
    assert replaced(node, {}) is node


def test_each_node_is_visited_once() -> None:
    inner = plus(x, y)
    visited = list(walk(call("exp", inner), power(inner, 2.0)))
    assert len(visited) == len(set(visited))
    assert visited[:2] == [call("exp", inner), inner]
    assert inner not in list(walk(call("exp", inner), enter=lambda this: this is not inner))
    assert list(walk(call("exp", inner), descend=lambda this: this is not inner))[-1] is inner


def test_a_rule_is_asked_once_for_each_node() -> None:
    asked: list[Node] = []

    def count(this: Node, visit) -> int:
        asked.append(this)
        return 1 + sum(map(visit, this.children))

    inner = plus(x, y)
    rewrite(where(less(inner, y), inner, call("exp", inner)), count)
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("attribute", ["name", "shape", "is_integer", "is_test", "low"])
def test_a_leaf_is_fixed(attribute: str) -> None:
    with pytest.raises(AttributeError, match="fixed"):
        setattr(X, attribute, None)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda leaf: pickle.loads(pickle.dumps(leaf))])
def test_a_copy_of_a_leaf_is_fixed_too(copied) -> None:
    leaf = copied(X)
    assert (leaf.name, leaf.shape, leaf.low, leaf.of) == (X.name, X.shape, X.low, X.of)
    with pytest.raises(AttributeError, match="fixed"):
        leaf.low = 0.0
