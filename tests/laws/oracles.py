"""Oracles of factors that know nothing of the library: functions of a point, and their integrals by quadrature.

An oracle is a sum of parts. A part is a function of a point, vectorised over points, and the real names at which it is
a point mass; there the function is the mass at that point and 0 elsewhere. Sums are by quadrature on fixed nodes:
composite Gauss–Lobatto rules between the points at which some example has mass or jumps, exact to rounding for
Gaussians. A point of mass is a node, with density 1 over the node's weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

import fubini as fb

DOMAINS = {
    "a": fb.Bint[3],
    "b": fb.Bint[2],
    "c": fb.Bint[2],
    "x": fb.Real,
    "y": fb.Real,
    "v": fb.Reals[2],
    "r": fb.Positive,
    "n": fb.Nat,
    "u": fb.Real,
}
INTEGERS = "abc"
Point = Mapping[str, np.ndarray]  # the values of each name, of one shape; those of "v" have one axis more


# -- quadrature -----------------------------------------------------------------------------------------------------

MASSES = (-0.5, 0.25, 0.5, 1.0, 1.25)  # where some example has a point mass over x
CUTS = (-1.125, -0.375, 0.125, 1.625)  # where some example jumps along x
GAP = 1e-8  # between a cut and the nodes on either side, ten times what tells points apart
SHIFT = 0.5  # of the example whose x is y + SHIFT: nodes of y are those of x, moved


def _lobatto(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [−1, 1], both ends among the nodes: 2/(n (n − 1) P_{n−1}(x)²), P′_{n−1}(x) = 0 inside."""
    legendre = np.polynomial.legendre.Legendre.basis(count - 1)
    nodes = np.concatenate([[-1.0], np.sort(legendre.deriv().roots().real), [1.0]])
    return nodes, 2.0 / (count * (count - 1) * legendre(nodes) ** 2)


def _panels(bounds: np.ndarray, cuts: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """A rule of nine nodes on each panel; neighbours share a node, but for those at a cut, on either side of it."""
    nodes, weights = _lobatto(9)
    at: list[float] = []
    share: list[float] = []
    for low, high in pairwise(bounds):
        points = 0.5 * (low + high) + 0.5 * (high - low) * nodes
        mass = 0.5 * (high - low) * weights
        points[0] += GAP * (low in cuts)
        points[-1] -= GAP * (high in cuts)
        if at and at[-1] == points[0]:
            share[-1] += mass[0]
            points, mass = points[1:], mass[1:]
        at.extend(points)
        share.extend(mass)
    return np.round(np.array(at) * 2.0**40) / 2.0**40, np.array(share)  # so that a shift of them is exact


_COARSE = [*np.arange(-10.0, -3.0), *np.arange(-3.0, 3.0, 0.5), *np.arange(3.0, 10.5)]
_LINE, _SHARES = _panels(np.unique([*_COARSE, *MASSES, *CUTS]), CUTS)
_EVEN, _LOGS = np.linspace(-7.0, 7.0, 57), np.linspace(-16.0, 5.0, 600)
_CELLS = (np.arange(-16, 16) + 0.5) / 4  # midpoints between the edges of the step functions
_NODES = {
    "a": (np.arange(3), np.ones(3)),
    "b": (np.arange(2), np.ones(2)),
    "c": (np.arange(2), np.ones(2)),
    "r": (np.exp(_LOGS), np.exp(_LOGS) * (_LOGS[1] - _LOGS[0])),
    "n": (np.arange(60), np.ones(60)),
    "u": (_CELLS, np.full(32, 0.25)),
    "x": (_LINE, _SHARES),
    "y": (_LINE - SHIFT, _SHARES),
    "v0": (_EVEN, np.full(57, 0.25)),
    "v1": (_EVEN, np.full(57, 0.25)),
}
_NUMBERS = {axis: number for number, axis in enumerate(_NODES)}
_POINTS = len(_NUMBERS)


def axes_of(names: Sequence[str]) -> list[str]:
    """The axes of a grid: one for each element of each name."""
    return [axis for name in names for axis in (("v0", "v1") if name == "v" else (name,))]


def _mesh(names: Sequence[str]) -> dict[str, np.ndarray]:
    axes = axes_of(names)
    grid = dict(zip(axes, np.meshgrid(*(_NODES[axis][0] for axis in axes), indexing="ij"), strict=True))
    if "v" in names:
        grid["v"] = np.stack([grid.pop("v0"), grid.pop("v1")], -1)
    return grid


# -- oracles --------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A function of a point, and the real names it fixes."""

    names: tuple[str, ...]
    weight: Callable[[Point], Any]
    pins: tuple[str, ...] = ()
    through: tuple[str, ...] = ()  # the real names that its points depend on

    def __call__(self, point: Point) -> np.ndarray:
        shape = np.shape(point[self.names[0]])[: 1 if self.names[0] == "v" else None] if self.names else ()
        return np.broadcast_to(self.weight(point), shape) if self.names else np.asarray(self.weight(point))


@lru_cache
def density(part: Part) -> np.ndarray:
    """A part at the nodes."""
    shape = [len(_NODES[axis][0]) for axis in axes_of(part.names)]
    weight = np.broadcast_to(part.weight(_mesh(part.names)), shape)
    for pin in part.pins:
        place = axes_of(part.names).index(pin)
        weight = weight / _NODES[pin][1].reshape([-1 if k == place else 1 for k in range(len(shape))])
    return weight


class Example(NamedTuple):
    """A factor, as a function of its parameters, and its oracle."""

    parameters: dict[str, np.ndarray]
    build: Callable[[dict], fb.Factor]
    parts: tuple[Part, ...]
    kind: type  # the class of the factor as it is built
    closed: frozenset[str] = frozenset("abcxyvrnu")  # the names it can be summed over when it is alone
    is_proper: bool = True  # its sum over all names is finite, and known

    @property
    def factor(self) -> fb.Factor:
        return self.build(self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def pins(self) -> frozenset[str]:
        return frozenset(pin for part in self.parts for pin in part.pins)

    @property
    def is_mixed(self) -> bool:
        """A density and a point mass of one variable."""
        return any(part.pins != self.parts[0].pins for part in self.parts)

    def __call__(self, point: Point) -> np.ndarray:
        return sum(part(point) for part in self.parts)


def integral(examples: Sequence[Example], at: Point = {}) -> np.ndarray:  # noqa: B006
    """∫ Π examples over every name but those of the points, by quadrature, at points that are nodes."""
    kept = axes_of(tuple(at))
    where = {axis: _position(axis, at) for axis in kept}
    total: Any = 0.0
    for parts in product(*(example.parts for example in examples)):
        axes = dict.fromkeys(axis for part in parts for axis in axes_of(part.names))
        operands: list[Any] = []
        for part in parts:
            operands += _at_points(part, where)
        for axis in axes:
            if axis not in kept:
                operands += [_NODES[axis][1], [_NUMBERS[axis]]]
        for part in parts:  # a mass that stays one is read as such
            if not any(name in axes and name not in kept for name in part.through):
                for pin in (pin for pin in part.pins if pin in kept):
                    operands += [_NODES[pin][1][where[pin]], [_POINTS]]
        there = [_POINTS] if kept and any(axis in axes for axis in kept) else []
        total = total + np.einsum(*operands, there, optimize="greedy")
    return np.asarray(total)


def _at_points(part: Part, where: Mapping[str, np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Its density at the points, for every node of the other axes."""
    mine = axes_of(part.names)
    kept = [axis for axis in mine if axis in where]
    rest = [axis for axis in mine if axis not in where]
    if not kept:
        return density(part), [_NUMBERS[axis] for axis in rest]
    front = np.moveaxis(density(part), [mine.index(axis) for axis in kept], range(len(kept)))
    return front[tuple(where[axis] for axis in kept)], [_POINTS, *(_NUMBERS[axis] for axis in rest)]


def _position(axis: str, at: Point) -> np.ndarray:
    value = at["v"][..., int(axis[1])] if axis in ("v0", "v1") else at[axis]
    nodes = np.asarray(_NODES[axis][0])
    index = np.abs(nodes[:, None] - np.asarray(value)).argmin(0)
    np.testing.assert_allclose(nodes[index], value)
    return index


# -- points ---------------------------------------------------------------------------------------------------------


def points(examples: Sequence[Example], count: int = 6, nodes: bool = False) -> dict[str, np.ndarray]:
    """Random points of all names of the examples, some of them on each point of mass; nodes of the grid if asked.

    They are as many for all examples, so that what is compiled for one serves the others.
    """
    generator = np.random.default_rng(7)
    names = list(dict.fromkeys(name for example in examples for name in example.names))
    pinned = [part for part in dict.fromkeys(part for example in examples for part in example.parts) if part.pins]
    shares = [len(share) for share in np.array_split(np.arange(count), len(pinned) + 1)]
    groups = [{name: _draw(generator, name, shares[0], nodes) for name in names}]
    for part, share in zip(pinned, shares[1:], strict=True):
        groups.append(_placed(part, {name: _draw(generator, name, share, True) for name in names}))
    return {name: np.concatenate([group[name] for group in groups]) for name in names}


def _draw(generator: np.random.Generator, name: str, count: int, nodes: bool) -> np.ndarray:
    if name == "v":
        return np.stack([_draw(generator, "v0", count, nodes), _draw(generator, "v1", count, nodes)], -1)
    values = _NODES[name][0]
    near = values[(np.abs(values) <= 2.0) & (np.abs(values) > (0.2 if name == "r" else -1))]
    near = near[np.min(np.abs(near[:, None] - CUTS), axis=1) > 1e-6] if name == "x" else near
    if nodes or not np.issubdtype(near.dtype, np.floating):
        return generator.choice(near, count)
    return generator.uniform(near.min(), near.max(), count)


def _placed(part: Part, at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The points with the pinned names where the part has its mass."""
    line = _LINE[(np.abs(_LINE) <= 3)]
    moved = dict(at)
    for pin in part.pins:
        masses = np.stack([part({**moved, pin: np.full(moved[pin].shape, value)}) for value in line])
        moved[pin] = np.where(masses.max(0) > 0, line[masses.argmax(0)], moved[pin])
    return moved
