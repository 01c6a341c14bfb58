"""Small cases checked by hand, for each rule: a table of the literature, Gaussians, boxes, points, circuits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, Intractable, NoRule
from fubini.factors.circuit import Circuit
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train

x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)


def sparse(weights: np.ndarray, names: Sequence[str]) -> Sparse:
    """The cells that are not zero."""
    cells = np.argwhere(weights)
    domains = {name: fb.Bint[size] for name, size in zip(names, weights.shape, strict=True)}
    return Sparse(cells, weights[tuple(cells.T)], domains)


def train(weights: np.ndarray, names: Sequence[str]) -> fb.Factor:
    return Train.from_table(fb.Table(weights, names), rank=50)


def circuit(weights: np.ndarray, names: Sequence[str]) -> fb.Factor:
    """Over the Booleans among the names, the others being its batch."""
    own = [name for name, size in zip(names, weights.shape, strict=True) if size == 2]
    return fb.circuits.unconstrained(own).multiply(fb.Table(weights, names))


FINITE: dict[str, Callable[[np.ndarray, Sequence[str]], fb.Factor]] = {
    "table": fb.Table,
    "sparse": sparse,
    "diagram": Diagram,
    "train": train,
    "circuit": circuit,
}
finite = pytest.mark.parametrize("make", FINITE.values(), ids=FINITE)


def cell(f: fb.Factor, **values: int) -> float:
    return float(f(**values))


# -- G1 and G2: tables ----------------------------------------------------------------------------------------------


@finite
def test_g1_product_and_sum(make: Callable) -> None:
    """Koller and Friedman (2009), figure 4.3."""
    f = make(np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]]), ("A", "B"))
    g = make(np.array([[0.5, 0.7], [0.1, 0.2]]), ("B", "C"))
    both = f * g
    assert cell(both, A=0, B=0, C=0) == pytest.approx(0.25)
    assert cell(both, A=0, B=1, C=1) == pytest.approx(0.16)
    assert cell(both, A=2, B=1, C=1) == pytest.approx(0.18)
    summed = both.sum("B")
    assert cell(summed, A=0, C=0) == pytest.approx(0.33)
    assert cell(summed, A=1, C=1) == pytest.approx(0.07)
    assert cell(summed, A=2, C=1) == pytest.approx(0.39)
    assert summed.exactness.is_exact


@finite
def test_g2_quotient(make: Callable) -> None:
    """A column of zeros over its sum is zero; a positive number over zero is an error; (p/q)·q = p where q > 0."""
    weights = np.array([[0.5, 0.0], [0.1, 0.0]])
    p, total = make(weights, ("A", "B")), make(weights, ("A", "B")).sum("A")
    ratio = p / total
    found = [[cell(ratio, A=a, B=b) for b in range(2)] for a in range(2)]
    assert np.allclose(found, [[5 / 6, 0.0], [1 / 6, 0.0]], rtol=1e-12)
    back = ratio * total
    assert np.allclose([[cell(back, A=a, B=b) for b in range(2)] for a in range(2)], weights, rtol=1e-12)
    with pytest.raises(DataError, match="over zero"):
        make(np.ones((2, 2)), ("A", "B")) / total


# -- G3 to G5: Gaussians --------------------------------------------------------------------------------------------


def test_g3_product_and_quotient() -> None:
    f, g = dist.Normal(0.0, 1.0)("x"), dist.Normal(2.0, 1.0)("x")
    both = (f * g)._joined()
    assert isinstance(both, fb.Gaussian)
    assert float(both.sum("x").log()) == pytest.approx(-2.265512, abs=5e-7)
    assert (float(both.mean("x")), float(both.variance("x"))) == pytest.approx((1.0, 0.5))
    one = (f / f)._joined()
    for at in (-3.0, 0.0, 2.5):  # K = 0, h = 0, g = 0
        assert float(one(x=at).log()) == pytest.approx(0.0, abs=1e-12)
        assert float(((f / g) * g)(x=at).log()) == pytest.approx(float(f(x=at).log()), abs=1e-12)
    with pytest.raises(DataError, match="improper"):
        one.sum("x")


def test_g4_a_rank_deficient_factor() -> None:
    link = fb.weight(log=-0.5 * (x - y) ** 2)
    message = (link * dist.Normal(0.0, 1.0)("x")).sum("x")
    assert float(message(y=0.0).log()) == pytest.approx(-0.346574, abs=5e-7)
    assert float(message.variance("y")) == pytest.approx(2.0)  # K = ½
    assert float(message.mean("y")) == pytest.approx(0.0, abs=1e-12)
    assert float(message.sum("y").log()) == pytest.approx(0.918939, abs=5e-7)
    alone = link.sum("x")
    assert float(alone(y=1.7).log()) == pytest.approx(0.918939, abs=5e-7)
    with pytest.raises(DataError, match="improper"):
        link.sum("x", "y")


def test_g5_a_conditional_gaussian() -> None:
    joint = fb.Table([0.3, 0.7], ("z",)) * dist.Normal(fb.Array(np.array([-1.0, 1.0]), ("z",)), 1.0)("x")
    exact = joint.sum("z")
    assert isinstance(exact, fb.Mixture) and exact.exactness.is_exact
    assert float(exact(x=0.5).log()) == pytest.approx(-1.254210, abs=5e-7)
    assert float(joint(x=0.5).normalize()(z=1)) == pytest.approx(0.863810, abs=5e-7)
    with fb.moment_matching():
        weak = joint.sum("z")
    assert isinstance(weak, fb.Gaussian) and weak.exactness.marks == ("projected(moment_matching(window=1))",)
    assert (float(weak.mean("x")), float(weak.variance("x"))) == pytest.approx((0.4, 1.84))
    alike = fb.Table([0.3, 0.7], ("z",)) * dist.Normal(0.5, 1.0)("x")
    assert isinstance(alike.sum("z")._joined(), fb.Gaussian) and alike.sum("z").exactness.is_exact


# -- G6: boxes ------------------------------------------------------------------------------------------------------


def box(low: float, high: float, factor: fb.Factor | None = None) -> fb.Piecewise:
    return fb.Piecewise([({"x": (low, high)}, dist.Normal(0.0, 1.0)("x") if factor is None else factor)])


def test_g6_a_truncated_gaussian() -> None:
    half = box(0.0, np.inf)
    assert float(half.sum("x")) == pytest.approx(0.5, abs=1e-12)
    assert float(half.mean("x")) == pytest.approx(0.797885, abs=5e-7)
    assert float(half.variance("x")) == pytest.approx(0.363380, abs=5e-7)
    assert half.exactness.is_exact


def test_g6_boxes_without_a_common_point() -> None:
    nothing = box(0.0, np.inf) * box(-np.inf, -1.0)
    assert float(nothing.sum("x")) == 0.0
    assert [float(nothing(x=at)) for at in (-2.0, -0.5, 1.0)] == [0.0, 0.0, 0.0]


def test_g6_quotients() -> None:
    """A truncated Gaussian over a Gaussian is one; a divisor must be positive where the dividend is."""
    normal, half, quarter = dist.Normal(0.5, 2.0)("x"), box(0.0, np.inf), box(0.0, 1.0)
    for p, q in ((half, normal), (quarter, half), (quarter, quarter)):
        ratio = p / q
        assert isinstance(ratio, fb.Piecewise)
        for at in (-0.5, 0.5, 2.0):
            assert float((ratio * q)(x=at)) == pytest.approx(float(p(x=at)), rel=1e-12)
    for p, q in ((normal, half), (half, quarter)):
        with pytest.raises(DataError, match="over zero"):
            p / q


def test_g6_a_quadrant() -> None:
    """μ = (.3, −.4), Σ = [[1, .6], [.6, 2]], x, y > 0"""
    plane = dist.MultivariateNormal(np.array([0.3, -0.4]), np.array([[1.0, 0.6], [0.6, 2.0]]))("f")
    quadrant = fb.Piecewise([({"f": [(0.0, np.inf), (0.0, np.inf)]}, plane)])
    assert float(quadrant.sum("f")) == pytest.approx(0.30256, abs=5e-6)
    assert quadrant.mean("f").data == pytest.approx([1.0748, 1.0618], abs=5e-5)
    assert quadrant.covariance("f").data.reshape(-1)[[0, 1, 3]] == pytest.approx([0.4948, 0.1207, 0.6538], abs=5e-5)


# -- G7 and G8: points ----------------------------------------------------------------------------------------------


def test_g7_a_point() -> None:
    f, point = dist.Normal(0.0, 1.0)("x"), fb.Delta(x=0.7)
    at = math.exp(-0.5 * 0.49) / math.sqrt(2 * math.pi)
    both = (point * f)._joined()
    assert isinstance(both, fb.Delta)
    assert float(both.sum("x")) == pytest.approx(at)
    assert float((f * point).sum("x")) == pytest.approx(at)
    two = point + fb.Delta(x=-0.2)
    assert isinstance(two, fb.Mixture) and len(two.components) == 2
    assert float(two.mean("x")) == pytest.approx(0.25)
    with pytest.raises(NoRule, match="zero everywhere but at a point"):
        f / point


def test_g8_samples() -> None:
    logs = np.array([-0.3, -1.1, 0.4])
    samples = fb.Delta({"x": fb.Array(np.array([0.1, 0.5, 0.7]), ("i",))}, fb.Table.from_log(logs, ("i",))).sum("i")
    assert float(samples.sum("x").log()) == pytest.approx(np.logaddexp.reduce(logs))
    weights = np.exp(logs)
    likelihood = dist.Normal(x, 0.5)("y")(y=0.3)
    expected = (weights * np.exp(-2.0 * (np.array([0.1, 0.5, 0.7]) - 0.3) ** 2) / (0.5 * math.sqrt(2 * math.pi))).sum()
    assert float((samples * likelihood).sum("x")) == pytest.approx(expected)


def test_g8_samples_of_a_density_have_no_value_at_a_point() -> None:
    step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(fb.Variable("x_next", fb.Real), 0.7)(
        fb.Array(np.array([0.4, -0.9]), ("t",))
    )
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})
    with fb.represent(x=fb.rep.Particles(20, jax.random.key(0))):
        filtered = chain.filter()
    assert filtered.exactness.is_estimated
    assert filtered(t=1).mean("x_next").data.shape == ()
    with pytest.raises(Intractable, match="reduce the likelihood first"):
        filtered(t=1, x_next=0.3)


# -- G9: circuits ---------------------------------------------------------------------------------------------------


def test_g9_parity() -> None:
    names = ("a", "b", "c", "d")
    f = fb.circuits.parity(names, is_odd=True).normalize(*names)
    assert isinstance(f, Circuit) and f.count_models() == 8
    assert f.marginal_probabilities() == pytest.approx([0.5] * 4)
    assert float(f(a=1, b=0, c=0, d=0)) == pytest.approx(1 / 8)
    assert float((f * fb.Table([0.9, 0.1], ("a",))).sum(*names)) == pytest.approx(0.5)
    assert fb.circuits.permutations(3).count_models() == 6
    rest = f.sum("a")
    assert isinstance(rest, Circuit) and rest.nodes == "sum" and not rest.is_deterministic
    assert rest.exactness.is_exact
    assert float(rest.sum("b", "c", "d")) == pytest.approx(1.0)


# -- G10: the laws are properties, in tests/laws/test_random_representations.py --------------------------------------
