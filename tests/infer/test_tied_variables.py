"""Whether single moves connect all that is possible: compared with a search among all values of random tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fubini.infer.tied_variables import Connection, ZeroPattern, connection_of


def connected_by_search(sizes, patterns, blocks, along=()) -> bool | None:
    """Whether moves lead from one possible value to all; None where nothing is possible."""
    possible = [
        each
        for each in itertools.product(*map(range, sizes))
        if all(one.is_possible[tuple(each[v] for v in one.variables)] for one in patterns)
    ]
    moves = [{*block, *along} for block in [*blocks, *([v] for v in range(len(sizes)))]]
    seen, waiting = set(possible[:1]), possible[:1]
    while waiting:
        here = waiting.pop()
        for other in possible:
            changed = {v for v in range(len(sizes)) if here[v] != other[v]}
            if other not in seen and any(changed <= move for move in moves):
                seen.add(other)
                waiting.append(other)
    return len(seen) == len(possible) if possible else None


def test_random_tables() -> None:
    rng, answers = np.random.default_rng(0), []
    for _ in range(500):
        count = int(rng.integers(2, 6))
        sizes = list(map(int, rng.integers(1, 4, count)))
        patterns = []
        for _ in range(rng.integers(1, 5)):
            scope = tuple(map(int, rng.choice(count, rng.integers(1, min(count, 3) + 1), replace=False)))
            shape = [sizes[v] for v in scope]
            patterns.append(ZeroPattern("f", scope, rng.random(shape) < rng.choice([0.4, 0.6, 0.9])))
        blocks = [list(map(int, rng.choice(count, 2, replace=False)))] if rng.random() < 0.5 else []
        along = [0] if rng.random() < 0.2 else []
        made = connection_of(sizes, patterns, blocks, along)
        answers.append(connected_by_search(sizes, patterns, blocks, along))
        assert (made.start is None) is (answers[-1] is None)
        if made.start is not None:
            assert (not made.tied) is answers[-1] and all(tied.is_known for tied in made.tied)
            assert all(one.is_possible[tuple(made.start[v] for v in one.variables)] for one in patterns)
    assert min(answers.count(each) for each in (True, False, None)) > 20


def chain(step: np.ndarray, length: int) -> Connection:
    patterns = [ZeroPattern("step", (t, t + 1), step > 0) for t in range(length - 1)]
    return connection_of([len(step)] * length, patterns)


def test_long_chains() -> None:
    """Onwards or staying: each end of a stretch moves by one. From 0 to 1 to 0: no value changes alone."""
    onwards = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    assert not chain(onwards, 200).tied
    (tied,) = chain(np.array([[0, 1], [1, 0]]), 200).tied
    assert tied.variables == tuple(range(200)) and tied.tables == ("step",) and tied.is_known


def test_a_logical_or() -> None:
    either = np.zeros((2, 2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        either[a, b, a | b] = 1
    pattern = ZeroPattern("either", (0, 1, 2), either > 0)
    assert connection_of([2, 2, 2], [pattern]).tied == ((((0, 1, 2), ("either",), True)),)
    assert not connection_of([2, 2, 2], [pattern], blocks=[(0, 2), (1, 2)]).tied
    assert not connection_of([2, 2, 2], [pattern], along=[2]).tied
    seen = ZeroPattern("seen", (2,), np.array([False, True]))  # it is 1: a or b, of which one may be changed
    assert not connection_of([2, 2, 2], [pattern, seen]).tied


@pytest.mark.parametrize("size", [3, 7])
def test_too_many_values_to_tell(size: int) -> None:
    """Rows of a square whose neighbours differ: with many rows there are too many values, and that is said."""
    differ = ~np.eye(3, dtype=bool)
    place = {each: k for k, each in enumerate(itertools.product(range(size), repeat=2))}
    pairs = [
        (place[a], place[b]) for a, b in itertools.combinations(place, 2) if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1
    ]
    made = connection_of([3] * size**2, [ZeroPattern("differ", pair, differ) for pair in pairs])
    if size == 3:
        assert made.tied == () and made.start is not None
    else:
        assert [tied.is_known for tied in made.tied] == [False]
