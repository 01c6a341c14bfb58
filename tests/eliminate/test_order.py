"""Elimination orders: greedy scores as in the literature, checked step by step against a plain graph."""

from itertools import combinations, permutations
from math import inf, log2, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.eliminate.order import SCORES, InteractionGraph, components, greedy_order
from fubini.eliminate.tree import Forest, search_order, tree_cost
from fubini.errors import MemoryLimit

NAMES = "abcdefg"
Scopes = list[tuple[str, ...]]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Scopes, dict[str, int], list[str]]:
    """Scopes of one to three names, sizes from 1 to 4, and the names to eliminate."""
    scopes = draw(
        st.lists(
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=8
        )
    )
    names = sorted({name for scope in scopes for name in scope})
    sizes = {name: draw(st.integers(1, 4)) for name in names}
    return scopes, sizes, draw(st.lists(st.sampled_from(names), unique=True, min_size=1))


class PlainGraph:
    """The interaction graph as sets, everything recomputed each time it is asked."""

    def __init__(self, scopes: Scopes, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.near = {name: set() for scope in scopes for name in scope}
        for scope in scopes:
            self.join(set(scope))

    def join(self, names: set[str]) -> None:
        for name in names:
            self.near[name] |= names - {name}

    def missing(self, name: str) -> list[tuple[str, str]]:
        """The edges that eliminating a name adds."""
        return [(a, b) for a, b in combinations(sorted(self.near[name]), 2) if b not in self.near[a]]

    def score(self, name: str, kind: str) -> float:
        if kind == "size":
            return log2(self.sizes[name]) + sum(log2(self.sizes[other]) for other in self.near[name])
        if kind == "fill":
            return len(self.missing(name))
        return sum(self.sizes[a] * self.sizes[b] for a, b in self.missing(name))

    def eliminate(self, name: str) -> None:
        self.join(self.near[name])
        for other in self.near.pop(name):
            self.near[other].discard(name)


@pytest.mark.parametrize("score", SCORES)
@given(problem=problems())
def test_every_choice_has_the_lowest_score(score: str, problem: tuple) -> None:
    """Each name eliminated is one of those whose score, computed afresh, is lowest."""
    scopes, sizes, eliminated = problem
    order, _ = greedy_order(scopes, sizes, eliminated, score)
    assert sorted(order) == sorted(eliminated)
    graph, waiting = PlainGraph(scopes, sizes), set(eliminated)
    for name in order:
        lowest = min(graph.score(other, score) for other in waiting)
        assert graph.score(name, score) == pytest.approx(lowest, abs=1e-9)
        graph.eliminate(name)
        waiting.discard(name)


@given(problems())
def test_scores_are_kept_up_to_date(problem: tuple) -> None:
    """After any eliminations the graph's scores are those of the graph built afresh."""
    scopes, sizes, eliminated = problem
    for weighted, kind in ((False, "fill"), (True, "weighted fill")):
        graph, plain = InteractionGraph(scopes, sizes, weighted), PlainGraph(scopes, sizes)
        for name in eliminated:
            graph.eliminate(graph.number[name])
            plain.eliminate(name)
            for other in plain.near:
                node = graph.number[other]
                assert graph.fill[node] == plain.score(other, kind)
                assert graph.bits[node] == pytest.approx(plain.score(other, "size"), abs=1e-9)


def test_noise_changes_the_order_but_not_the_names() -> None:
    scopes = [(a, b) for a, b in combinations(NAMES, 2) if (ord(a) + ord(b)) % 3]
    sizes = dict.fromkeys(NAMES, 2)
    orders = {tuple(greedy_order(scopes, sizes, NAMES, attempt=attempt)[0]) for attempt in range(3, 23)}
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(NAMES)}


def test_a_tree_is_eliminated_without_fill() -> None:
    """Leaves first: no table is larger than those given."""
    scopes = [(NAMES[(child - 1) // 2], NAMES[child]) for child in range(1, len(NAMES))]
    sizes = dict.fromkeys(NAMES, 3)
    forest = Forest(scopes, sizes)
    forest.contract(range(len(scopes)), NAMES, greedy_order(scopes, sizes, NAMES)[0])
    assert max(step.work for step in forest.steps) <= 9


@given(problems())
def test_a_forest_of_contractions_is_complete(problem: tuple) -> None:
    """Every slot is used once, every name is summed once, in the last step that touches it."""
    scopes, sizes, eliminated = problem
    forest = Forest(scopes, sizes)
    left = forest.contract(range(len(scopes)), eliminated, greedy_order(scopes, sizes, eliminated)[0])
    used = [slot for step in forest.steps for slot in step.operands]
    assert sorted(used + left) == list(range(len(forest.names)))
    assert sorted(name for step in forest.steps for name in step.eliminated) == sorted(eliminated)
    assert not any(forest.names[slot] & set(eliminated) for slot in left)
    for step in forest.steps:
        touched = set().union(*(forest.names[slot] for slot in step.operands))
        assert step.keep == touched - set(step.eliminated)
        assert (step.work, step.size) == tuple(prod(sizes[n] for n in names) for names in (touched, step.keep))


@given(problems())
def test_search_is_no_worse_than_greedy(problem: tuple) -> None:
    scopes, sizes, eliminated = problem
    order = search_order(scopes, sizes, eliminated)
    assert sorted(order) == sorted(eliminated)
    assert tree_cost(scopes, sizes, order) <= tree_cost(
        scopes, sizes, greedy_order(scopes, sizes, eliminated, "fill")[0]
    )


def test_search_finds_the_best_order_of_a_small_loop() -> None:
    """A loop of five with one large variable: no permutation is cheaper."""
    names = NAMES[:5]
    scopes = [(names[i], names[(i + 1) % 5]) for i in range(5)]
    sizes = {name: size for name, size in zip(names, (2, 3, 50, 3, 2), strict=True)}
    best = min((tree_cost(scopes, sizes, order) for order in permutations(names)), default=inf)
    assert tree_cost(scopes, sizes, search_order(scopes, sizes, names)) <= 1.2 * best


@given(problems())
def test_components_are_what_the_names_connect(problem: tuple) -> None:
    """Two factors are in one group where a chain of shared names links them, and only then."""
    scopes, _, linking = problem
    linked = [
        {j for j, other in enumerate(scopes) if set(scope) & set(other) & set(linking)} | {i}
        for i, scope in enumerate(scopes)
    ]
    for _ in scopes:
        linked = [set().union(*(linked[j] for j in group)) for group in linked]
    found = components(scopes, linking)
    assert sorted(map(tuple, (group for group, _ in found))) == sorted({tuple(sorted(group)) for group in linked})
    for group, names in found:
        assert names == set().union(*(scopes[member] for member in group)) & set(linking)


def test_components_of_a_chain() -> None:
    """Factors a, ab, bc, c: summing a and c leaves two groups, all three one, none four."""
    scopes = [("a",), ("a", "b"), ("b", "c"), ("c",)]
    assert [len(components(scopes, names)) for names in ("ac", "abc", "")] == [2, 1, 4]


@pytest.mark.parametrize("length", [50, 300])
def test_a_long_chain_is_planned_in_time(length: int) -> None:
    """Work linear in the length, however the factors are ordered; no recursion limit."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, (length, 2, 2))
    factors = [fb.Table(weights[i], (f"x{i}", f"x{i + 1}")) for i in range(length)]
    shuffled = [factors[i] for i in np.random.default_rng(1).permutation(length)]
    expected = np.eye(2)
    for matrix in weights:
        expected = expected @ matrix
    names = tuple(f"x{i}" for i in range(1, length))
    assert fb.explain(shuffled, names).plan.work <= 12 * length
    found = fb.eliminate(shuffled, names)
    assert set(found.inputs) == {"x0", f"x{length}"}
    logs = found.log()
    order = [list(logs.inputs).index(name) for name in ("x0", f"x{length}")]
    np.testing.assert_allclose(np.transpose(logs.data, order), np.log(expected), rtol=1e-12)


def test_a_grid_needs_slices_within_a_memory_limit() -> None:
    """Sliced, the answer is the same; where not even slices fit, the error says what would."""
    rng = np.random.default_rng(0)
    edges = [((i, j), (i + di, j + dj)) for i in range(5) for j in range(5) for di, dj in ((0, 1), (1, 0))]
    edges = [(a, b) for a, b in edges if max(b) < 5]
    factors = [fb.Table(rng.uniform(size=(2, 2)), (f"x{a[0]}{a[1]}", f"x{b[0]}{b[1]}")) for a, b in edges]
    names = tuple(dict.fromkeys(name for factor in factors for name in factor.inputs))
    assert 8 * fb.explain(factors, names).plan.largest > 250
    whole = fb.eliminate(factors, names).log()
    sliced = fb.eliminate(factors, names, memory_limit=250).log()
    np.testing.assert_allclose(float(sliced), float(whole), rtol=1e-12)
    with pytest.raises(MemoryLimit, match="slice"):
        fb.eliminate(factors, names, memory_limit=8)
