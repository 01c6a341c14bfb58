"""One example or more of every representation, each with an oracle that knows nothing of the library.

An oracle is a sum of parts. A part is a function of a point, vectorised over points, and the real names at which it is
a point mass; there the function is the mass at that point and 0 elsewhere. Sums are by quadrature on fixed nodes: the
trapezoidal rule is exact to rounding for Gaussians, and points of mass lie on nodes, with density 1 over the node's
weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fubini as fb
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train

from .toy import Box, steps

DOMAINS = {
    "a": fb.Bint[3],
    "b": fb.Bint[2],
    "x": fb.Real,
    "y": fb.Real,
    "v": fb.Reals[2],
    "r": fb.Positive,
    "n": fb.Nat,
    "u": fb.Real,
}
Point = Mapping[str, np.ndarray]  # the values of each name, of one shape; those of "v" have one axis more


# -- quadrature -----------------------------------------------------------------------------------------------------

_LINE, _LOGS = np.linspace(-10.0, 10.0, 81), np.linspace(-16.0, 5.0, 600)
_CELLS = (np.arange(-16, 16) + 0.5) / 4  # midpoints between the edges of the step functions
_NODES = {
    "a": (np.arange(3), np.ones(3)),
    "b": (np.arange(2), np.ones(2)),
    "r": (np.exp(_LOGS), np.exp(_LOGS) * (_LOGS[1] - _LOGS[0])),
    "n": (np.arange(60), np.ones(60)),
    "u": (_CELLS, np.full(32, 0.25)),
    "x": (_LINE, np.full(81, 0.25)),
    "y": (_LINE, np.full(81, 0.25)),
    "v0": (_LINE[12:-12], np.full(57, 0.25)),
    "v1": (_LINE[12:-12], np.full(57, 0.25)),
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
    return weight / np.prod([_NODES[pin][1][0] for pin in part.pins])


class Example(NamedTuple):
    """A factor, as a function of its parameters, and its oracle."""

    parameters: dict[str, np.ndarray]
    build: Callable[[dict], fb.Factor]
    parts: tuple[Part, ...]
    kind: type  # the class of the factor as it is built
    closed: frozenset[str] = frozenset("abxyvrnu")  # the names it can be summed over when it is alone
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
                operands += [np.prod([_NODES[pin][1][0] for pin in part.pins if pin in kept]), []]
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


def points(examples: Sequence[Example], count: int = 4, nodes: bool = False) -> dict[str, np.ndarray]:
    """Random points of all names of the examples, and as many on each point of mass; nodes of the grid if asked."""
    generator = np.random.default_rng(7)
    names = list(dict.fromkeys(name for example in examples for name in example.names))
    anywhere = {name: _draw(generator, name, count, nodes) for name in names}
    groups = [anywhere]
    for part in dict.fromkeys(part for example in examples for part in example.parts):
        if part.pins:
            groups.append(_placed(part, {name: _draw(generator, name, count, True) for name in names}))
    return {name: np.concatenate([group[name] for group in groups]) for name in names}


def _draw(generator: np.random.Generator, name: str, count: int, nodes: bool) -> np.ndarray:
    if name == "v":
        return np.stack([_draw(generator, "x", count, nodes), _draw(generator, "x", count, nodes)], -1)
    values = _NODES[name][0]
    near = values[(np.abs(values) <= 2.0) & (np.abs(values) > (0.2 if name == "r" else -1))]
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


# -- examples -------------------------------------------------------------------------------------------------------

_x, _y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
normal = stats.norm.pdf


def _normal(mean: Any, precision: Any, z: np.ndarray) -> np.ndarray:
    """exp(−½ (z − μ)·K (z − μ))"""
    gap = z - mean
    return np.exp(-0.5 * np.einsum("...i,...ij,...j->...", gap, precision, gap))


def _quadratic(mean: Any, precision: Any, z: np.ndarray) -> np.ndarray:
    """exp(h·z − ½ z·K z), h = K μ: what a Gaussian is that is given by its mean"""
    return _normal(mean, precision, z) / _normal(mean, precision, np.zeros_like(z))


def _line(mean: float, precision: float, x: np.ndarray) -> np.ndarray:
    """The same over one number."""
    return np.exp(precision * (mean * x - 0.5 * x * x))


def _z(point: Point, *names: str) -> np.ndarray:
    columns = [point[name] if name == "v" else point[name][..., None] for name in names]
    return np.concatenate(columns, -1)


W = np.array([[0.5, 2.0], [1.5, 0.25], [3.0, 1.0]])
WA = np.array([0.75, 2.0, 0.5])
STEP = np.array([[0.5, 0.5], [0.5, 2.0], [0.5, 2.0]])
WS = np.array([[1.25, 0.4], [0.7, 2.0], [0.3, 1.1]])
CELLS = np.stack([axis.reshape(-1) for axis in np.indices((3, 2))], axis=1)
FIRST_CORE = np.array([[[1.0, 0.5], [0.25, 2.0], [0.6, 0.2]]])
LAST_CORE = np.array([[[0.75], [1.5]], [[0.3], [1.0]]])
WT = np.einsum("iaj,jbk->ab", FIRST_CORE, LAST_CORE)
K2 = np.array([[2.0, 0.6], [0.6, 1.5]])
KA = np.stack([K2, 1.5 * K2, np.array([[1.2, -0.4], [-0.4, 1.8]])])
MA = np.array([[0.5, -0.25], [-0.5, 0.3], [0.1, 0.7]])
K3 = np.array([[2.0, 0.3, 0.5], [0.3, 1.5, -0.4], [0.5, -0.4, 1.8]])
MB = np.array([[0.2, -0.3, 0.4], [-0.6, 0.1, 0.0]])
AT = np.array([-0.5, 0.25, 1.0])
COMPONENTS = np.array([[-0.75], [0.5]])
SHARES = np.array([[0.6, 0.4], [0.3, 1.2], [1.0, 0.1]])
PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
COV = np.array([[0.8, 0.2], [0.2, 0.6]])
HEIGHTS = np.array([[1.0, 2.0, 0.5], [0.25, 1.5, 3.0]])
EDGES = (-1.0, 0.0, 0.5, 2.0)
REAL, AX, AXY = {"x": fb.Real}, {"a": fb.Bint[3], "x": fb.Real}, {"a": fb.Bint[3], "x": fb.Real, "y": fb.Real}


def _gaussian_x(p: dict) -> fb.Gaussian:
    return fb.Gaussian(mean=p["mean"], precision=p["precision"], log_scale=p["log_scale"], inputs=REAL)


def _other_x(p: dict) -> fb.Gaussian:
    return fb.Gaussian(mean=p["other"], precision=p["precision"] * 1.5, inputs=REAL)


def _is(x: Any, at: Any) -> np.ndarray:
    return np.abs(x - at) < 1e-9


def _height(u: np.ndarray, heights: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """heights[..., k] where edges[k] ≤ u < edges[k + 1]."""
    index = np.digitize(u, edges) - 1
    inside = (index >= 0) & (index < len(edges) - 1)
    taken = np.take_along_axis(heights, np.clip(index, 0, len(edges) - 2)[..., None], -1)[..., 0]
    return np.where(inside, taken, 0.0)


X1 = {"mean": np.array([0.5]), "precision": np.array([[1.7]]), "log_scale": np.array(0.3)}
EXAMPLES = {
    "table": Example(
        {"weights": W},
        lambda p: fb.Table(p["weights"], ("a", "b")),
        (Part(("a", "b"), lambda p: W[p["a"], p["b"]]),),
        fb.Table,
    ),
    "log table": Example(
        {"logs": np.log(WA)},
        lambda p: fb.Table.from_log(p["logs"], ("a",)),
        (Part(("a",), lambda p: WA[p["a"]]),),
        fb.Table,
    ),
    "diagram": Example(
        {"weights": STEP},
        lambda p: Diagram(p["weights"], ("a", "b")),
        (Part(("a", "b"), lambda p: STEP[p["a"], p["b"]]),),
        Diagram,
    ),
    "sparse": Example(
        {"weights": WS.reshape(-1)},
        lambda p: Sparse(CELLS, p["weights"], {"a": fb.Bint[3], "b": fb.Bint[2]}),
        (Part(("a", "b"), lambda p: WS[p["a"], p["b"]]),),
        Sparse,
    ),
    "train": Example(
        {"first": FIRST_CORE, "last": LAST_CORE},
        lambda p: Train([p["first"], p["last"]], ("a", "b"), rank=3),
        (Part(("a", "b"), lambda p: WT[p["a"], p["b"]]),),
        Train,
    ),
    "gaussian": Example(X1, _gaussian_x, (Part(("x",), lambda p: np.exp(0.3) * _line(0.5, 1.7, p["x"])),), fb.Gaussian),
    "rank-deficient gaussian": Example(
        {"root": np.array([[0.8], [-1.1]]), "white": np.array([0.4])},
        lambda p: fb.Gaussian(white=p["white"], precision_sqrt=p["root"], inputs={"x": fb.Real, "y": fb.Real}),
        (
            Part(
                ("x", "y"),
                lambda p: np.exp(0.4 * (0.8 * p["x"] - 1.1 * p["y"]) - 0.5 * (0.8 * p["x"] - 1.1 * p["y"]) ** 2),
            ),
        ),
        fb.Gaussian,
        is_proper=False,
    ),
    "batched gaussian": Example(
        {"mean": MA, "precision": KA, "log_scale": np.log(WA)},
        lambda p: fb.Gaussian(**p, inputs=AXY),
        (
            Part(
                ("a", "x", "y"),
                lambda p: WA[p["a"]] * _quadratic(MA[p["a"]], KA[p["a"]], _z(p, "x", "y")),
            ),
        ),
        fb.Gaussian,
    ),
    "array gaussian": Example(
        {"mean": MB, "precision": K3},
        lambda p: fb.Gaussian(**p, inputs={"b": fb.Bint[2], "x": fb.Real, "v": fb.Reals[2]}),
        (Part(("b", "x", "v"), lambda p: _quadratic(MB[p["b"]], K3, _z(p, "x", "v"))),),
        fb.Gaussian,
    ),
    "discrete delta": Example(
        {}, lambda p: fb.Delta(a=fb.Array(1, (), fb.Bint[3])), (Part(("a",), lambda p: 1.0 * (p["a"] == 1)),), fb.Delta
    ),
    "real delta": Example(
        {"point": np.array(0.5), "weight": np.array(1.7)},
        lambda p: fb.Delta({"x": fb.Array(p["point"])}, p["weight"]),
        (Part(("x",), lambda p: 1.7 * _is(p["x"], 0.5), ("x",)),),
        fb.Delta,
    ),
    "delta at a discrete name": Example(
        {"points": AT, "weights": W},
        lambda p: fb.Delta({"x": fb.Array(p["points"], ("a",))}, fb.Table(p["weights"], ("a", "b"))),
        (Part(("a", "b", "x"), lambda p: W[p["a"], p["b"]] * _is(p["x"], AT[p["a"]]), ("x",)),),
        fb.Delta,
    ),
    "delta at a real name": Example(
        {"shift": np.array(0.5), "mean": np.array([-0.25]), "precision": np.array([[1.3]])},
        lambda p: fb.Delta(
            {"x": _y + fb.Array(p["shift"])},
            fb.Gaussian(mean=p["mean"], precision=p["precision"], inputs={"y": fb.Real}),
        ),
        (Part(("x", "y"), lambda p: _is(p["x"], p["y"] + 0.5) * _line(-0.25, 1.3, p["y"]), ("x",), ("y",)),),
        fb.Delta,
    ),
    "mixture over a bound index": Example(
        {"shares": SHARES, "means": COMPONENTS, "precision": np.array([[1.9]])},
        lambda p: (
            fb.Table(p["shares"], ("a", "k"))
            * fb.Gaussian(mean=p["means"], precision=p["precision"], inputs={"k": fb.Bint[2], "x": fb.Real})
        ).sum("k"),
        (
            Part(
                ("a", "x"),
                lambda p: sum(SHARES[p["a"], k] * _line(COMPONENTS[k, 0], 1.9, p["x"]) for k in range(2)),
            ),
        ),
        fb.Mixture,
    ),
    "sum of gaussians": Example(
        {**X1, "other": np.array([-0.75])},
        lambda p: _gaussian_x(p) + _other_x(p),
        (
            Part(
                ("x",),
                lambda p: np.exp(0.3) * _line(0.5, 1.7, p["x"]) + _line(-0.75, 2.55, p["x"]),
            ),
        ),
        fb.Mixture,
    ),
    "gaussian plus delta": Example(
        {**X1, "point": np.array(-0.5), "weight": np.array(0.6)},
        lambda p: _gaussian_x(p) + fb.Delta({"x": fb.Array(p["point"])}, p["weight"]),
        (
            Part(("x",), lambda p: np.exp(0.3) * _line(0.5, 1.7, p["x"])),
            Part(("x",), lambda p: 0.6 * _is(p["x"], -0.5), ("x",)),
        ),
        fb.Mixture,
    ),
    "normal density": Example(
        {"offset": AT, "scale": np.array(0.8)},
        lambda p: fb.dist.Normal(fb.Array(p["offset"], ("a",)) + 1.25 * _x, fb.Array(p["scale"]))("y"),
        (Part(("a", "x", "y"), lambda p: normal(p["y"], AT[p["a"]] + 1.25 * p["x"], 0.8)),),
        fb.Factor,
        is_proper=False,
    ),
    "multivariate normal density": Example(
        {"loc": np.array([0.3, -0.4]), "covariance": COV},
        lambda p: fb.dist.MultivariateNormal(p["loc"], covariance_matrix=p["covariance"])("v"),
        (
            Part(
                ("v",),
                lambda p: (
                    _normal(np.array([0.3, -0.4]), np.linalg.inv(COV), p["v"])
                    / (2 * np.pi * np.sqrt(np.linalg.det(COV)))
                ),
            ),
        ),
        fb.Factor,
    ),
    "gamma density": Example(
        {"rates": WA},
        lambda p: fb.dist.Gamma(2.5, fb.Array(p["rates"], ("a",)))("r"),
        (Part(("a", "r"), lambda p: stats.gamma.pdf(p["r"], 2.5, scale=1 / WA[p["a"]])),),
        fb.Factor,
    ),
    "categorical density": Example(
        {"probs": PROBS},
        lambda p: fb.dist.Categorical(probs=fb.Array(p["probs"], ("b",)))("a"),
        (Part(("a", "b"), lambda p: PROBS[p["b"], p["a"]]),),
        fb.Factor,
    ),
    "poisson density": Example(
        {"rates": W[:, 0]},
        lambda p: fb.dist.Poisson(fb.Array(p["rates"], ("a",)))("n"),
        (Part(("a", "n"), lambda p: stats.poisson.pmf(p["n"], W[p["a"], 0])),),
        fb.Factor,
    ),
    "quadratic weight": Example(
        {"c": np.array(0.9)},
        lambda p: fb.weight(log=-fb.Array(p["c"]) * (_x - _y) ** 2 - 0.3 * _x * _x + 0.2 * _y),
        (
            Part(
                ("x", "y"),
                lambda p: np.exp(-0.9 * (p["x"] - p["y"]) ** 2 - 0.3 * p["x"] ** 2 + 0.2 * p["y"]),
            ),
        ),
        fb.Factor,
    ),
    "quartic weight": Example(
        {"c": np.array(0.25)},
        lambda p: fb.weight(log=-fb.Array(p["c"]) * _x**4),
        (Part(("x",), lambda p: np.exp(-0.25 * p["x"] ** 4)),),
        fb.Factor,
        closed=frozenset(),
        is_proper=False,
    ),
    "unit of a discrete name": Example(
        {}, lambda p: fb.dist.Normal(fb.Array(AT, ("a",)), 1.0)("x").sum("x"), (Part(("a",), lambda p: 1.0),), fb.Factor
    ),
    "unit of a real name": Example(
        {},
        lambda p: fb.dist.Normal(_y, 1.0)("x").sum("x"),
        (Part(("y",), lambda p: 1.0),),
        fb.Factor,
        closed=frozenset(),
        is_proper=False,
    ),
    "steps": Example(
        {"heights": HEIGHTS},
        lambda p: steps("u", EDGES, p["heights"], ("b",)),
        (Part(("b", "u"), lambda p: _height(p["u"], HEIGHTS[p["b"]], EDGES)),),
        fb.Factor,
    ),
    "box": Example(
        {"weights": WA},
        lambda p: Box("u", -0.5, 1.25, p["weights"], ("a",)),
        (Part(("a", "u"), lambda p: WA[p["a"]] * ((p["u"] >= -0.5) & (p["u"] < 1.25))),),
        fb.Factor,
    ),
}
PRIOR = {
    name: Example(
        {"mean": np.array([0.2, -0.1])[: 2 if name == "v" else 1], "precision": np.eye(2 if name == "v" else 1) * 1.1},
        lambda p, name=name: fb.Gaussian(**p, inputs={name: DOMAINS[name]}),
        (
            Part(
                (name,),
                lambda p, name=name: np.prod(
                    [
                        _line(mean, 1.1, z)
                        for mean, z in zip((0.2, -0.1), np.moveaxis(_z(p, name), -1, 0), strict=False)
                    ],
                    axis=0,
                ),
            ),
        ),
        fb.Gaussian,
    )
    for name in ("x", "y", "v")
}


def priors(examples: Sequence[Example]) -> list[Example]:
    """A proper Gaussian for each real array of the examples, so that every sum is finite."""
    names = dict.fromkeys(name for example in examples for name in example.names)
    return [PRIOR[name] for name in names if name in PRIOR]


# -- reading the library --------------------------------------------------------------------------------------------


def read(factor: fb.Factor, at: Point) -> np.ndarray:
    """The factor at points, by putting them in."""
    given = _given(factor.inputs, at)
    return _numbers((factor(**given) if given else factor).log())


def read_log(factor: fb.Factor, at: Point) -> np.ndarray:
    """The factor at points, by putting them into its logarithm."""
    value = factor.log()
    given = _given(value.inputs, at)
    return _numbers(value(**given) if given else value)


def _given(inputs: Mapping, at: Point) -> dict[str, fb.Array]:
    return {name: fb.Array(at[name], ("point",), DOMAINS[name]) for name in inputs if name in at}


def _numbers(value: fb.Value) -> np.ndarray:
    data = fb.stack(value, "point").data if "point" in value.inputs else value.data
    return np.exp(np.asarray(data, np.float64))


def assert_at(factor: fb.Factor, expected: Any, at: Point, rtol: float = 1e-9, how: Callable = read) -> None:
    """The factor is exact, is over these names, and has these values at these points."""
    assert factor.exactness.is_exact
    assert set(factor.inputs) == set(at)
    actual, expected = np.broadcast_arrays(how(factor, at), expected)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-11)


def assert_total(total: fb.Factor, expected: Any, rtol: float = 1e-9) -> None:
    """A closed factor, exact, of this value."""
    assert not total.inputs
    assert total.exactness.is_exact
    np.testing.assert_allclose(float(total), expected, rtol=rtol)
