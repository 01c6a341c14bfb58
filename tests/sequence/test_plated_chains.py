"""Markov products among plates: eighteen graphs against the same model unrolled, cell by cell and step by step.

A graph is written in letters, one for each axis: t is time, s and n are the plates of sequences and tones, a state x is
X after a step, and the other letters are variables that are handed on by no step.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest

import fubini as fb

PLATES = {"s": 2, "n": 3}
SIZES = {"x": 3, "y": 2, "z": 2, "w": 3}


@dataclass(frozen=True)
class Graph:
    """Factors before and after all time, and those of the steps of each Markov product."""

    ends: tuple[str, ...]
    chains: tuple[tuple[str, ...], ...]
    homes: dict[str, str] = field(default_factory=dict)  # the plates of a variable; of X where they are not those of x
    local: str = ""  # variables that each step has for itself
    first: str = ""  # what a first round may sum; the rest is left to a second
    sizes: dict[str, int] = field(default_factory=dict)

    def home(self, letter: str) -> str:
        return self.homes.get(letter, self.homes.get(letter.lower(), ""))

    @cached_property
    def states(self) -> str:
        return "".join(
            sorted({letter.lower() for chain in self.chains for axes in chain for letter in axes if letter.isupper()})
        )

    def size(self, letter: str, length: int) -> int:
        known = {"t": length, **PLATES, **SIZES, **self.sizes}
        return known[letter.lower()]

    def numbers(self, length: int) -> tuple[list, list]:
        """Weights of all factors, with their axes: of the ends, and of each chain."""
        rng = np.random.default_rng(length)

        def drawn(axes: str) -> tuple[str, np.ndarray]:
            return axes, rng.uniform(0.1, 1.0, [self.size(letter, length) for letter in axes])

        return [drawn(axes) for axes in self.ends], [[drawn(axes) for axes in chain] for chain in self.chains]

    # -- by the library -----------------------------------------------------------------------------------------------

    def factors(self, length: int) -> list[fb.Factor]:
        """The ends and the Markov products; what a step has for itself is summed in it."""
        ends, chains = self.numbers(length)
        return [table(*end) for end in ends] + [self.product(chain, length) for chain in chains]

    def product(self, chain: list, length: int) -> fb.Factor:
        states = [letter for letter in self.states if any(letter.upper() in axes for axes, _ in chain)]
        outer = {plate for letter in states for plate in self.home(letter.upper())}
        inner = [plate for plate in PLATES if any(plate in axes for axes, _ in chain) and plate not in outer]
        inside, outside = ([part for part in chain if bool(set(part[0]) & set(inner)) is has] for has in (True, False))
        step = self.joined(outside) * self.joined(inside).product(*inner) if inside else self.joined(outside)
        timed = any("t" in axes for axes, _ in chain)
        moves = {letter: letter.upper() for letter in states}
        return fb.markov(step, time="t", step=moves, length=None if timed else length)

    def joined(self, parts: list) -> fb.Factor:
        """The product of some factors, what a step has for itself summed."""
        return fb.eliminate(
            [table(*part) for part in parts], [v for v in self.local if any(v in axes for axes, _ in parts)]
        )

    @property
    def scopes(self) -> dict[str, tuple[str, ...]]:
        """All variables outside of the steps, with their plates."""
        present = {letter for axes in (*self.ends, *itertools.chain(*self.chains)) for letter in axes}
        names = sorted(present - {"t", *PLATES, *self.local})
        return {name: tuple(self.home(name)) for name in names}

    @property
    def plates(self) -> list[str]:
        return [plate for plate in PLATES if any(plate in home for home in self.scopes.values())]

    # -- unrolled -----------------------------------------------------------------------------------------------------

    def cells(self, axes: str, weights: np.ndarray, steps: range) -> Iterator[tuple[list, np.ndarray]]:
        """A factor once for each step and each cell of its plates, and of the plates of its variables."""
        for step in steps:
            named = [(letter, self.instance(letter, step)) for letter in axes if letter not in ("t", *PLATES)]
            plates = sorted({p for p in axes if p in PLATES} | {p for _, (*_, home) in named for p in home})
            for cell in itertools.product(*(range(PLATES[plate]) for plate in plates)):
                at = {"t": step, **dict(zip(plates, cell, strict=True))}
                part = weights[tuple(at[letter] if letter in at else slice(None) for letter in axes)]
                yield [(name, time, *(at[plate] for plate in home)) for _, (name, time, home) in named], part

    def instance(self, letter: str, step: int) -> tuple[str, int, str]:
        """A variable at a step: its name, its time, and its plates; X at a step is x at the next."""
        if letter.lower() not in self.states:
            return letter, step if letter in self.local else 0, self.home(letter)
        time = step + letter.isupper()
        return letter.lower(), time, self.home(letter.lower() if time == 0 else letter.upper())

    def unrolled(self, length: int) -> list[tuple[list, np.ndarray]]:
        ends, chains = self.numbers(length)
        found = []
        for axes, weights in ends:
            last = any(letter.isupper() for letter in axes)
            found += self.cells(axes, weights, range(length - 1, length) if last else range(1))
        for axes, weights in itertools.chain(*chains):
            found += self.cells(axes, weights, range(length))
        return found


def table(axes: str, weights: np.ndarray) -> fb.Factor:
    return fb.Table(weights, tuple(axes))


def total(factors: list[tuple[list, np.ndarray]]) -> float:
    """The log of the sum over everything: variables one at a time, the one with the fewest neighbours first."""
    factors, log = list(factors), 0.0
    while left := {name for names, _ in factors for name in names}:
        near = {name: {other for names, _ in factors if name in names for other in names} for name in left}
        gone = min(sorted(left), key=lambda name: len(near[name]))
        place = {name: at for at, name in enumerate(sorted(near[gone]))}
        parts = [(names, data) for names, data in factors if gone in names]
        kept = [name for name in place if name != gone]
        operands = [item for names, data in parts for item in (data, [place[name] for name in names])]
        found = np.einsum(*operands, [place[name] for name in kept])
        factors = [part for part in factors if gone not in part[0]] + [(kept, found / found.max())]
        log += np.log(found.max())
    return log + sum(np.log(data) for _, data in factors)


GRAPHS = {
    "x": Graph(("x",), (("txX",),), first="x"),
    "x, the same step always": Graph(("x",), (("xX",),), first="X"),
    "x between two ends": Graph(("x", "X"), (("txX",),), first="x"),
    "x seen by tones": Graph(("x",), (("xX", "tnX"),)),
    "x with y of each step": Graph(("x",), (("xX", "tXy"),), local="y"),
    "x with y of each tone": Graph(("x",), (("txX", "tnXy"),), {"y": "n"}, local="y"),
    "x in sequences": Graph(("sx",), (("tsxX",),), {"x": "s"}, first="x"),
    "x in sequences, one transition": Graph(("sx",), (("xX", "tsX"),), {"x": "s"}, first="X"),
    "x in sequences with y of each tone": Graph(("sx",), (("xX", "tsnXy"),), {"x": "s", "y": "sn"}, local="y"),
    "x in sequences of tones": Graph(("snx",), (("txX", "tsnX"),), {"x": "sn"}, first="x"),
    "x in sequences from one start": Graph(("x",), (("tsxX",),), {"x": "", "X": "s"}, first="X"),
    "y after x and itself": Graph(("x", "xy"), (("xX", "tXyY"),), first="xy"),
    "y after x and itself, in sequences": Graph(("sx", "sxy"), (("xX", "tsXyY"),), {"x": "s", "y": "s"}, first="XY"),
    "two chains that are coupled at their ends": Graph(("x", "y", "XY"), (("txX",), ("tyY",)), first="xX"),
    "w in all steps": Graph(("w", "x"), (("twxX",),), first="xX"),
    "w in the steps of all sequences": Graph(("w", "swx"), (("txX", "tswX"),), {"x": "s"}, first="xX"),
    "x in sequences, y in their tones, w in both": Graph(
        ("sw", "sx", "sny"), (("tsxX", "wX"), ("tnyY", "swyY")), {"w": "s", "x": "s", "y": "sn"}, first="xX"
    ),
    "x and the y of two tones": Graph(("x", "y", "z"), (("xX", "tXyY", "tXzZ"),), sizes={"x": 2}, first="xyz"),
}


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("name", GRAPHS)
def test_everything_summed(name: str, length: int) -> None:
    """Σ over all variables, Π over all plates, in one round."""
    graph = GRAPHS[name]
    found = fb.eliminate(graph.factors(length), graph.scopes, plates=graph.plates)
    assert not found.inputs and found.exactness.is_exact
    np.testing.assert_allclose(found.log().data, total(graph.unrolled(length)), rtol=1e-9)


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("name", [name for name, graph in GRAPHS.items() if graph.first])
def test_two_rounds(name: str, length: int) -> None:
    """Some variables first, plates kept; the others, and the plates, afterwards."""
    graph = GRAPHS[name]
    first = {letter: graph.scopes[letter] for letter in graph.first}
    rest = {letter: home for letter, home in graph.scopes.items() if letter not in first}
    between = fb.eliminate(graph.factors(length), first)
    found = fb.eliminate(between, rest, plates=graph.plates)
    np.testing.assert_allclose(found.log().data, total(graph.unrolled(length)), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2])
def test_sizes_of_states(size: int) -> None:
    """A state that can be but one thing, and smaller ones than above."""
    small = {letter: size for letter in SIZES}
    for name in ("x in sequences with y of each tone", "y after x and itself"):
        graph = GRAPHS[name]
        graph = Graph(graph.ends, graph.chains, graph.homes, graph.local, graph.first, small)
        found = fb.eliminate(graph.factors(5), graph.scopes, plates=graph.plates)
        np.testing.assert_allclose(found.log().data, total(graph.unrolled(5)), rtol=1e-9)
