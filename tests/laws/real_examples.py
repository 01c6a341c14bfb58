"""Examples of representations of real variables: a random instance of each, and its density as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats

import fubini as fb

from .finite_examples import positive
from .oracles import CUTS, DOMAINS, MASSES, SHIFT, Example, Part, Point
from .toy import Box, steps

Generator = np.random.Generator
_x, _y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
INNER = (CUTS[0], CUTS[2], CUTS[3])  # the edges of two boxes
EDGES = (-1.0, 0.0, 0.5, 2.0)  # the edges of three steps


def domains(names: str) -> dict[str, Any]:
    return {name: DOMAINS[name] for name in names}


def _precision(generator: Generator, *shape: int) -> np.ndarray:
    """Matrices that are well conditioned, of the last two sizes."""
    half = generator.uniform(-0.4, 0.4, shape)
    return half @ np.swapaxes(half, -1, -2) + 1.3 * np.eye(shape[-1])


def _mean(generator: Generator, *shape: int) -> np.ndarray:
    return generator.uniform(-0.7, 0.7, shape)


def _normal(mean: Any, precision: Any, z: np.ndarray) -> np.ndarray:
    """exp(−½ (z − μ)·K (z − μ))"""
    gap = z - mean
    return np.exp(-0.5 * np.einsum("...i,...ij,...j->...", gap, precision, gap))


def _quadratic(mean: Any, precision: Any, z: np.ndarray) -> np.ndarray:
    """exp(h·z − ½ z·K z), h = K μ: what a Gaussian is that is given by its mean"""
    return _normal(mean, precision, z) / _normal(mean, precision, np.zeros_like(z))


def line(mean: Any, precision: Any, x: np.ndarray) -> np.ndarray:
    """The same over one number."""
    return np.exp(precision * (mean * x - 0.5 * x * x))


def vector(point: Point, *names: str) -> np.ndarray:
    """The values of names as one vector."""
    return np.concatenate([point[name] if name == "v" else point[name][..., None] for name in names], -1)


def _is(x: Any, at: Any) -> np.ndarray:
    return np.abs(x - at) < 1e-9


def _height(u: np.ndarray, heights: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """heights[..., k] where edges[k] ≤ u < edges[k + 1]."""
    index = np.digitize(u, edges) - 1
    inside = (index >= 0) & (index < len(edges) - 1)
    taken = np.take_along_axis(heights, np.clip(index, 0, len(edges) - 2)[..., None], -1)[..., 0]
    return np.where(inside, taken, 0.0)


def _one(names: str, weight: Callable[[Point], Any]) -> tuple[Part, ...]:
    return (Part(tuple(names), weight),)


# -- Gaussians ------------------------------------------------------------------------------------------------------


def _scalar(generator: Generator) -> dict:
    scale = generator.uniform(-0.5, 0.5)
    return {"mean": _mean(generator, 1), "precision": _precision(generator, 1, 1), "log_scale": np.array(scale)}


def _gaussian_x(p: dict) -> fb.Gaussian:
    return fb.Gaussian(**{key: p[key] for key in ("mean", "precision", "log_scale")}, inputs={"x": fb.Real})


def _of_scalar(p: dict) -> Callable[[Point], Any]:
    return lambda at: np.exp(p["log_scale"]) * line(p["mean"][0], p["precision"][0, 0], at["x"])


def gaussian(generator: Generator) -> Example:
    p = _scalar(generator)
    return Example(p, _gaussian_x, _one("x", _of_scalar(p)), fb.Gaussian)


def rank_deficient_gaussian(generator: Generator) -> Example:
    p = {"root": generator.uniform(0.8, 1.2, (2, 1)) * np.array([[1.0], [-1.0]]), "white": _mean(generator, 1)}
    (s, t), c = p["root"][:, 0], p["white"][0]
    return Example(
        p,
        lambda p: fb.Gaussian(white=p["white"], precision_sqrt=p["root"], inputs=domains("xy")),
        _one("xy", lambda at: np.exp(c * (s * at["x"] + t * at["y"]) - 0.5 * (s * at["x"] + t * at["y"]) ** 2)),
        fb.Gaussian,
        is_proper=False,
    )


def batched_gaussian(generator: Generator) -> Example:
    """A conditional linear Gaussian: another mean and precision for each a."""
    p = {"mean": _mean(generator, 3, 2), "precision": _precision(generator, 3, 2, 2)}
    weights = positive(generator, 3)
    return Example(
        {**p, "log_scale": np.log(weights)},
        lambda p: fb.Gaussian(**p, inputs=domains("axy")),
        _one(
            "axy",
            lambda at: weights[at["a"]] * _quadratic(p["mean"][at["a"]], p["precision"][at["a"]], vector(at, "x", "y")),
        ),
        fb.Gaussian,
    )


def array_gaussian(generator: Generator) -> Example:
    p = {"mean": _mean(generator, 2, 3), "precision": _precision(generator, 3, 3)}
    return Example(
        p,
        lambda p: fb.Gaussian(**p, inputs=domains("bxv")),
        _one("bxv", lambda at: _quadratic(p["mean"][at["b"]], p["precision"], vector(at, "x", "v"))),
        fb.Gaussian,
    )


# -- point masses ---------------------------------------------------------------------------------------------------


def _masses(generator: Generator, count: int) -> np.ndarray:
    return generator.choice(MASSES, count, replace=False)


def real_delta(generator: Generator) -> Example:
    (at,), weight = _masses(generator, 1), positive(generator)
    return Example(
        {"point": np.array(at), "weight": weight},
        lambda p: fb.Delta({"x": fb.Array(p["point"])}, p["weight"]),
        (Part(("x",), lambda p: weight * _is(p["x"], at), ("x",)),),
        fb.Delta,
    )


def delta_at_an_integer(generator: Generator) -> Example:
    at, weights = _masses(generator, 3), positive(generator, 3, 2)
    return Example(
        {"points": at, "weights": weights},
        lambda p: fb.Delta({"x": fb.Array(p["points"], ("a",))}, fb.Table(p["weights"], ("a", "b"))),
        (Part(("a", "b", "x"), lambda p: weights[p["a"], p["b"]] * _is(p["x"], at[p["a"]]), ("x",)),),
        fb.Delta,
    )


def delta_at_a_real(generator: Generator) -> Example:
    p = {"mean": _mean(generator, 1), "precision": _precision(generator, 1, 1)}
    mean, precision = p["mean"][0], p["precision"][0, 0]
    return Example(
        {"shift": np.array(SHIFT), **p},
        lambda p: fb.Delta(
            {"x": _y + fb.Array(p["shift"])},
            fb.Gaussian(mean=p["mean"], precision=p["precision"], inputs={"y": fb.Real}),
        ),
        (Part(("x", "y"), lambda p: _is(p["x"], p["y"] + SHIFT) * line(mean, precision, p["y"]), ("x",), ("y",)),),
        fb.Delta,
    )


def atoms(generator: Generator) -> Example:
    """Weighted samples of x, their index summed out."""
    at, weights = _masses(generator, 2), positive(generator, 3, 2)
    return Example(
        {"points": at, "weights": weights},
        lambda p: fb.Delta({"x": fb.Array(p["points"], ("i",))}, fb.Table(p["weights"], ("a", "i"))).sum("i"),
        (Part(("a", "x"), lambda p: sum(weights[p["a"], i] * _is(p["x"], at[i]) for i in range(2)), ("x",)),),
        fb.Mixture,
    )


# -- boxes ----------------------------------------------------------------------------------------------------------


def _tables(sides: Sequence[tuple[float, float]]) -> Callable[[dict], fb.Factor]:
    return lambda p: fb.Piecewise([({"x": side}, fb.Table(p["heights"][k], ("b",))) for k, side in enumerate(sides)])


def pieces(generator: Generator) -> Example:
    """A table over b in each of two boxes, zero outside."""
    heights = positive(generator, 2, 2)
    made = _tables(tuple(pairwise(INNER)))
    return Example(
        {"heights": heights}, made, _one("bx", lambda p: _height(p["x"], heights.T[p["b"]], INNER)), fb.Piecewise
    )


def half_lines(generator: Generator) -> Example:
    """A table over b on either side of a cut."""
    heights = positive(generator, 2, 2)
    return Example(
        {"heights": heights},
        _tables(((-np.inf, CUTS[1]), (CUTS[1], np.inf))),
        _one("bx", lambda p: np.where(p["x"] > CUTS[1], heights[1][p["b"]], heights[0][p["b"]])),
        fb.Piecewise,
        closed=frozenset("b"),
        is_proper=False,
    )


def truncated_gaussian(generator: Generator) -> Example:
    p = {"mean": _mean(generator, 3, 1), "precision": _precision(generator, 1, 1)}
    mean, precision = p["mean"][:, 0], p["precision"][0, 0]
    return Example(
        p,
        lambda p: fb.Piecewise([({"x": (CUTS[1], np.inf)}, fb.Gaussian(**p, inputs=domains("ax")))]),
        _one("ax", lambda p: (p["x"] > CUTS[1]) * line(mean[p["a"]], precision, p["x"])),
        fb.Piecewise,
    )


# -- mixtures -------------------------------------------------------------------------------------------------------


def mixture(generator: Generator) -> Example:
    p = {"shares": positive(generator, 3, 2), "means": _mean(generator, 2, 1), "precision": _precision(generator, 1, 1)}
    means, precision = p["means"][:, 0], p["precision"][0, 0]
    return Example(
        p,
        lambda p: (
            fb.Table(p["shares"], ("a", "k"))
            * fb.Gaussian(mean=p["means"], precision=p["precision"], inputs={"k": fb.Bint[2], "x": fb.Real})
        ).sum("k"),
        _one("ax", lambda at: sum(p["shares"][at["a"], k] * line(means[k], precision, at["x"]) for k in range(2))),
        fb.Mixture,
    )


def sum_of_gaussians(generator: Generator) -> Example:
    p = {**_scalar(generator), "other": _mean(generator, 1)}
    precision = p["precision"][0, 0]
    return Example(
        p,
        lambda p: _gaussian_x(p) + fb.Gaussian(mean=p["other"], precision=1.5 * p["precision"], inputs={"x": fb.Real}),
        _one("x", lambda at: _of_scalar(p)(at) + line(p["other"][0], 1.5 * precision, at["x"])),
        fb.Mixture,
    )


def gaussian_plus_delta(generator: Generator) -> Example:
    p, (at,), weight = _scalar(generator), _masses(generator, 1), positive(generator)
    return Example(
        {**p, "point": np.array(at), "weight": weight},
        lambda p: _gaussian_x(p) + fb.Delta({"x": fb.Array(p["point"])}, p["weight"]),
        (Part(("x",), _of_scalar(p)), Part(("x",), lambda p: weight * _is(p["x"], at), ("x",))),
        fb.Mixture,
    )


# -- densities, weights, units --------------------------------------------------------------------------------------


def normal_density(generator: Generator) -> Example:
    offset, scale = _mean(generator, 3), np.array(0.8)
    return Example(
        {"offset": offset, "scale": scale},
        lambda p: fb.dist.Normal(fb.Array(p["offset"], ("a",)) + 1.25 * _x, fb.Array(p["scale"]))("y"),
        _one("axy", lambda p: stats.norm.pdf(p["y"], offset[p["a"]] + 1.25 * p["x"], scale)),
        fb.Factor,
        is_proper=False,
    )


def multivariate_normal_density(generator: Generator) -> Example:
    loc, precision = _mean(generator, 2), _precision(generator, 2, 2)
    norm = np.sqrt(np.linalg.det(precision)) / (2 * np.pi)
    return Example(
        {"loc": loc, "covariance": np.linalg.inv(precision)},
        lambda p: fb.dist.MultivariateNormal(p["loc"], covariance_matrix=p["covariance"])("v"),
        _one("v", lambda p: norm * _normal(loc, precision, p["v"])),
        fb.Factor,
    )


def gamma_density(generator: Generator) -> Example:
    rates = positive(generator, 3)
    return Example(
        {"rates": rates},
        lambda p: fb.dist.Gamma(2.5, fb.Array(p["rates"], ("a",)))("r"),
        _one("ar", lambda p: stats.gamma.pdf(p["r"], 2.5, scale=1 / rates[p["a"]])),
        fb.Factor,
    )


def poisson_density(generator: Generator) -> Example:
    rates = positive(generator, 3)
    return Example(
        {"rates": rates},
        lambda p: fb.dist.Poisson(fb.Array(p["rates"], ("a",)))("n"),
        _one("an", lambda p: stats.poisson.pmf(p["n"], rates[p["a"]])),
        fb.Factor,
    )


def quadratic_weight(generator: Generator) -> Example:
    c = np.array(generator.uniform(0.7, 1.2))
    return Example(
        {"c": c},
        lambda p: fb.weight(log=-fb.Array(p["c"]) * (_x - _y) ** 2 - 0.3 * _x * _x + 0.2 * _y),
        _one("xy", lambda p: np.exp(-c * (p["x"] - p["y"]) ** 2 - 0.3 * p["x"] ** 2 + 0.2 * p["y"])),
        fb.Factor,
    )


def quartic_weight(generator: Generator) -> Example:
    """What no rule integrates."""
    c = np.array(generator.uniform(0.2, 0.4))
    weight = _one("x", lambda p: np.exp(-c * p["x"] ** 4))
    return Example({"c": c}, _quartic, weight, fb.Factor, closed=frozenset(), is_proper=False)


def _quartic(p: dict) -> fb.Factor:
    return fb.weight(log=-fb.Array(p["c"]) * _x**4)


def unit_of_a_real(generator: Generator) -> Example:
    one = _one("y", lambda p: 1.0)
    return Example({}, _unit_of_y, one, fb.Factor, closed=frozenset(), is_proper=False)


def _unit_of_y(p: dict) -> fb.Factor:
    return fb.dist.Normal(_y, 1.0)("x").sum("x")


# -- from outside the package ---------------------------------------------------------------------------------------


def steps_of_a_real(generator: Generator) -> Example:
    heights = positive(generator, 2, 3)
    return Example(
        {"heights": heights},
        lambda p: steps("u", EDGES, p["heights"], ("b",)),
        _one("bu", lambda p: _height(p["u"], heights[p["b"]], EDGES)),
        fb.Factor,
    )


def box(generator: Generator) -> Example:
    weights = positive(generator, 3)
    return Example(
        {"weights": weights},
        lambda p: Box("u", -0.5, 1.25, p["weights"], ("a",)),
        _one("au", lambda p: weights[p["a"]] * ((p["u"] >= -0.5) & (p["u"] < 1.25))),
        fb.Factor,
    )
