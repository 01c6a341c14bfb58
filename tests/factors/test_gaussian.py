"""Gaussians against the joint-normal formula, written out in NumPy."""

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist

SHAPES = {"w": (), "x": (), "y": (2,), "z": (2, 2)}
SUBSETS = ["".join(names) for size in range(1, 5) for names in combinations(SHAPES, size)]
SINGLE = 1e-4


class Dense(NamedTuple):
    """g + h·v − ½ v·K v, v the variables in order, each flattened: the oracle."""

    shapes: dict[str, tuple[int, ...]]
    g: float
    h: np.ndarray
    K: np.ndarray

    def at(self, names: Iterable[str]) -> np.ndarray:
        """Where the elements of some variables stand."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        places = dict(zip(self.shapes, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
        return np.concatenate([np.zeros(0, int), *(places[name] for name in names)])

    def log(self, point: Mapping[str, np.ndarray]) -> float:
        v = np.concatenate([np.zeros(0), *(np.ravel(point[name]) for name in self.shapes)])
        return self.g + self.h @ v - 0.5 * v @ self.K @ v

    def sum(self, names: Iterable[str]) -> "Dense":
        names = [name for name in self.shapes if name in names]
        kept = [name for name in self.shapes if name not in names]
        b, a = self.at(names), self.at(kept)
        B, C = self.K[np.ix_(b, b)], self.K[np.ix_(b, a)]
        mean = np.linalg.solve(B, self.h[b])
        log_volume = 0.5 * (len(b) * np.log(2 * np.pi) - np.linalg.slogdet(B)[1])
        K = self.K[np.ix_(a, a)] - C.T @ np.linalg.solve(B, C)
        shapes = {name: self.shapes[name] for name in kept}
        return Dense(shapes, self.g + log_volume + 0.5 * self.h[b] @ mean, self.h[a] - C.T @ mean, K)

    @property
    def mean(self) -> np.ndarray:
        return np.linalg.solve(self.K, self.h)

    @property
    def covariance(self) -> np.ndarray:
        return np.linalg.inv(self.K)

    @property
    def factor(self) -> fb.Gaussian:
        return fb.Gaussian(info=self.h, precision=self.K, log_scale=self.g, inputs=domains(self.shapes))


def domains(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, fb.Domain]:
    return {name: fb.Reals[shape] if shape else fb.Real for name, shape in shapes.items()}


def dense(seed: int, names: str = "wxyz", rank: int | None = None) -> Dense:
    rng = np.random.default_rng(seed)
    shapes = {name: SHAPES[name] for name in names}
    size = sum(math.prod(shape) for shape in shapes.values())
    root = rng.normal(size=(size, size + 2 if rank is None else rank))
    return Dense(shapes, rng.normal(), root @ rng.normal(size=root.shape[1]), root @ root.T)


def points(shapes: Iterable[str], number: int = 3) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{name: rng.normal(size=SHAPES[name]) for name in shapes} for _ in range(number)]


def log_at(factor: fb.Factor, point: Mapping[str, np.ndarray]) -> float:
    return float(factor(point).log()) if factor.inputs else float(factor.log())


def assert_is(factor: fb.Factor, oracle: Dense, rtol: float = 1e-9) -> None:
    """The same function, exactly tagged, of the same variables."""
    assert factor.inputs == domains(oracle.shapes)
    assert factor.exactness.is_exact
    for point in points(oracle.shapes):
        np.testing.assert_allclose(log_at(factor, point), oracle.log(point), rtol=rtol, atol=rtol)


# -- construction ---------------------------------------------------------------------------------------------------

LOCATIONS = ("white", "mean", "info")
MATRICES = ("precision_sqrt", "precision", "covariance", "scale_tril")


def forms(white: np.ndarray, root: np.ndarray) -> dict[str, np.ndarray]:
    """Every way to write exp(−½ |Pᵀz − white|²) up to a constant, P a square root of the precision."""
    K = root @ root.T
    h = root @ white
    covariance = np.linalg.inv(K)
    return {
        "info": h,
        "mean": covariance @ h,
        "precision": K,
        "covariance": covariance,
        "scale_tril": np.linalg.cholesky(covariance),
    }


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("location", LOCATIONS)
def test_any_location_with_any_matrix_is_the_same_function(location, matrix):
    """`white` is relative to the root at hand: that given, or the lower Cholesky factor's of what is given."""
    rng = np.random.default_rng(1)
    given = forms(rng.normal(size=5), rng.normal(size=(3, 5)))
    scale_tril, K = given["scale_tril"], given["precision"]
    P = {
        "precision_sqrt": np.linalg.cholesky(K) @ np.linalg.qr(rng.normal(size=(3, 3)))[0],
        "precision": np.linalg.cholesky(K),
        "covariance": np.linalg.inv(scale_tril).T,
        "scale_tril": np.linalg.inv(scale_tril).T,
    }[matrix]
    given |= {"precision_sqrt": P, "white": np.linalg.solve(P, given["info"])}
    inputs = {"x": fb.Real, "y": fb.Reals[2]}
    f = fb.Gaussian(**{location: given[location], matrix: given[matrix]}, inputs=inputs)
    assert_is(f, Dense({"x": (), "y": (2,)}, 0.0, given["info"], K))


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("batched", ["both", "location", "matrix"])
def test_any_location_with_any_matrix_in_a_batch(location, matrix, batched):
    """Each cell is the Gaussian of that cell's arrays; an array without the batch axis is shared by all cells."""
    rng = np.random.default_rng(2)
    cells = 4
    L = np.tril(rng.normal(size=(cells, 3, 3))) + 3 * np.eye(3)
    v = rng.normal(size=(cells, 3))
    K = L @ L.mT
    M = {"precision_sqrt": L, "precision": K, "covariance": np.linalg.inv(K), "scale_tril": L}[matrix]
    v, M = (v if batched != "matrix" else v[0]), (M if batched != "location" else M[0])
    inputs = {"i": fb.Bint[cells], "x": fb.Real, "y": fb.Reals[2]}
    f = fb.Gaussian(**{location: v, matrix: M}, inputs=inputs)
    assert f.inputs == inputs
    for cell in range(cells):
        own_v, own_M = (v[cell] if v.ndim == 2 else v), (M[cell] if M.ndim == 3 else M)
        alone = fb.Gaussian(
            **{location: own_v, matrix: own_M}, inputs={name: inputs[name] for name in inputs if name != "i"}
        )
        for point in points("xy"):
            np.testing.assert_allclose(log_at(f(i=cell), point), log_at(alone, point), rtol=1e-9)


@pytest.mark.parametrize("dim", range(1, 6))
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 6, 9, 20])
def test_any_square_root_of_the_precision(dim, rank):
    """P and P·Q, Q orthogonal, and P·Pᵀ itself are one function; also wide, narrow and rank-deficient roots."""
    rng = np.random.default_rng(100 * dim + rank)
    P, white = rng.normal(size=(dim, rank)), rng.normal(size=rank)
    Q = np.linalg.qr(rng.normal(size=(rank, rank)))[0]
    inputs = {"v": fb.Reals[dim]}
    given = fb.Gaussian(white=white, precision_sqrt=P, inputs=inputs)
    turned = fb.Gaussian(white=Q.T @ white, precision_sqrt=P @ Q, inputs=inputs)
    canonical = fb.Gaussian(info=P @ white, precision=P @ P.T, inputs=inputs)
    v = rng.normal(size=dim)
    expected = white @ (P.T @ v) - 0.5 * np.sum((P.T @ v) ** 2)
    for f in (given, turned, canonical):
        np.testing.assert_allclose(float(f(v=v).log()), expected, rtol=1e-9, atol=1e-10)
    if rank >= dim:
        K = P @ P.T
        np.testing.assert_allclose(given.mean("v").data, np.linalg.solve(K, P @ white), rtol=1e-7)
        np.testing.assert_allclose(given.covariance("v").data, np.linalg.inv(K), rtol=1e-7)
        for f in (given, turned):
            np.testing.assert_allclose(float(f.sum("v").log()), float(canonical.sum("v").log()), rtol=1e-8)


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("rank", [1, 4])
def test_an_all_zero_root_is_the_unit(dim, rank):
    f = fb.Gaussian(white=np.ones(rank), precision_sqrt=np.zeros((dim, rank)), inputs={"v": fb.Reals[dim]})
    assert float(f(v=np.full(dim, 7.0))) == 1.0
    prior = dist.MultivariateNormal(np.ones(dim), np.eye(dim))("v")
    np.testing.assert_allclose(float((f * prior).sum("v").log()), 0.0, atol=1e-12)
    np.testing.assert_allclose((f * prior).mean("v").data, np.ones(dim), rtol=1e-12)


def test_a_log_scale_for_each_cell():
    scale = np.array([0.5, -2.0])
    f = fb.Gaussian(info=[1.0], precision=[[2.0]], log_scale=scale, inputs={"i": fb.Bint[2], "x": fb.Real})
    for cell in range(2):
        assert float(f(i=cell, x=0.3).log()) == pytest.approx(scale[cell] + 0.3 - 0.09, rel=1e-12)


def test_the_data_are_the_users_no_longer():
    h, K = np.array([1.0]), np.array([[2.0]])
    f = fb.Gaussian(info=h, precision=K, inputs={"x": fb.Real})
    h[:], K[:] = 9.0, 9.0
    assert float(f.mean("x")) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("order", ["wxyz", "zyxw", "yzwx"])
def test_the_order_of_inputs_is_the_order_of_the_arrays(order):
    assert_is(dense(3, order).factor, dense(3, order))


# -- goldens --------------------------------------------------------------------------------------------------------


def test_golden_product():
    """N(x; 0, 1)·N(x; 2, 1)"""
    p = dist.Normal(0.0, 1.0)("x") * dist.Normal(2.0, 1.0)("x")
    assert float(p.sum("x").log()) == pytest.approx(-2.265512, abs=1e-6)
    assert float(p.mean("x")) == pytest.approx(1.0, abs=1e-12)
    assert float(p.variance("x")) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("as_gaussian", [False, True])
def test_golden_quotient_is_the_unit(as_gaussian):
    n = dist.Normal(0.7, 1.3)("x")
    n = n * fb.Gaussian(info=[0.0], precision=[[1.0]], inputs={"x": fb.Real}) if as_gaussian else n
    unit = n / n
    for x in (-3.0, 0.0, 11.0):
        assert float(unit(x=x).log()) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(float((unit * n)(x=0.4).log()), float(n(x=0.4).log()), rtol=1e-12)


def link() -> fb.Gaussian:
    """exp(−½(x − y)²)"""
    return fb.Gaussian(info=[0.0, 0.0], precision=[[1.0, -1.0], [-1.0, 1.0]], inputs={"x": fb.Real, "y": fb.Real})


def test_golden_rank_deficient():
    f = link()
    g = (f * dist.Normal(0.0, 1.0)("x")).sum("x")
    for y in (0.0, 1.0, -2.5):
        assert float(g(y=y).log()) == pytest.approx(-0.346574 - 0.25 * y * y, abs=1e-6)
    assert float((f * dist.Normal(0.0, 1.0)("x")).sum("x", "y").log()) == pytest.approx(0.918939, abs=1e-6)
    for y in (0.0, 1.7):
        assert float(f.sum("x")(y=y)) == pytest.approx(math.sqrt(2 * math.pi), rel=1e-12)


def test_golden_rank_deficient_is_improper_over_both():
    with pytest.raises(fb.FubiniError, match="improper"):
        link().sum("x", "y")


# -- products, quotients, powers ------------------------------------------------------------------------------------

PAIRS = [("wx", "xy"), ("wy", "z"), ("yz", "zy"), ("wxyz", "y"), ("x", "x")]


def padded(f: Dense, names: str) -> Dense:
    """The same function of more variables."""
    shapes = {name: SHAPES[name] for name in names}
    size = sum(math.prod(shape) for shape in shapes.values())
    larger = Dense(shapes, f.g, np.zeros(size), np.zeros((size, size)))
    where = larger.at(f.shapes)
    larger.h[where], larger.K[np.ix_(where, where)] = f.h, f.K
    return larger


def combined(f: Dense, g: Dense, sign: float = 1.0) -> Dense:
    names = "".join(dict.fromkeys([*f.shapes, *g.shapes]))
    a, b = padded(f, names), padded(g, names)
    return Dense(a.shapes, a.g + sign * b.g, a.h + sign * b.h, a.K + sign * b.K)


@pytest.mark.parametrize("names", PAIRS)
def test_a_product_adds_logarithms(names):
    f, g = dense(4, names[0]), dense(5, names[1])
    assert_is(f.factor * g.factor, combined(f, g))


@pytest.mark.parametrize("names", PAIRS)
def test_a_quotient_subtracts_logarithms(names):
    """It may be indefinite, and is a function all the same."""
    f, g = dense(6, names[0]), dense(7, names[1])
    assert_is(f.factor / g.factor, combined(f, g, -1.0))


@pytest.mark.parametrize("names", PAIRS)
def test_a_product_undoes_a_quotient(names):
    f, g = dense(8, names[0]), dense(9, names[1])
    both = (f.factor / g.factor) * g.factor
    for point in points(both.inputs):
        np.testing.assert_allclose(log_at(both, point), f.log(point), rtol=1e-9, atol=1e-9)
    other = dense(10)
    expected = combined(other, f).sum(SHAPES).g
    np.testing.assert_allclose(float((both * other.factor).sum(*SHAPES).log()), expected, rtol=1e-9)


def test_an_indefinite_quotient_is_cured_by_a_later_product():
    f, g = dense(11, "xy"), dense(12, "xy")
    wide = Dense(f.shapes, 0.0, np.ones(3), 50 * np.eye(3))
    assert np.linalg.eigvalsh(f.K - g.K).min() < 0
    cured = combined(combined(f, g, -1.0), wide)
    assert_is((f.factor / g.factor * wide.factor).sum("x"), cured.sum("x"))


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3, 0.0, -1.0])
def test_a_power_scales_the_logarithm(exponent):
    f = dense(13, "xy")
    expected = Dense(f.shapes, exponent * f.g, exponent * f.h, exponent * f.K)
    assert_is(f.factor**exponent, expected)


def test_a_power_for_each_cell():
    f = dense(14, "xy")
    a = np.array([0.5, 2.0, 0.0])
    raised = f.factor ** fb.Array(a, ("i",))
    assert raised.inputs == {"i": fb.Bint[3], **domains(f.shapes)}
    for cell in range(3):
        for point in points("xy"):
            np.testing.assert_allclose(log_at(raised(i=cell), point), a[cell] * f.log(point), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("number", [2.5, 1e-300])
def test_a_number_times_a_gaussian(number):
    f = dense(15, "xy")
    assert_is(number * f.factor, f._replace(g=f.g + math.log(number)))
    assert_is(f.factor / number, f._replace(g=f.g - math.log(number)))


def test_the_reciprocal_of_a_gaussian():
    f = dense(16, "xy")
    assert_is(1.0 / f.factor, Dense(f.shapes, -f.g, -f.h, -f.K))


# -- plates ---------------------------------------------------------------------------------------------------------


def batch(seed: int, cells: int, names: str = "xy") -> tuple[fb.Gaussian, list[Dense]]:
    parts = [dense(1000 * seed + cell, names) for cell in range(cells)]
    f = fb.Gaussian(
        info=np.stack([part.h for part in parts]),
        precision=np.stack([part.K for part in parts]),
        log_scale=np.array([part.g for part in parts]),
        inputs={"i": fb.Bint[cells], **domains(parts[0].shapes)},
    )
    return f, parts


def total(parts: list[Dense]) -> Dense:
    return Dense(parts[0].shapes, *(sum(fields) for fields in list(zip(*parts, strict=True))[1:]))


def test_a_plate_product_multiplies_slices():
    f, parts = batch(1, 5)
    assert_is(f.product("i"), total(parts))


def test_a_plate_product_counts_what_lacks_the_plate():
    """A shared matrix, a shared location, a number and a Gaussian without i: each |i| times."""
    rng = np.random.default_rng(3)
    other, K, h = dense(17, "yz"), dense(18, "xy").K, rng.normal(size=(5, 3))
    f = fb.Gaussian(info=h, precision=K, inputs={"i": fb.Bint[5], **domains(dense(18, "xy").shapes)})
    expected = combined(
        Dense({"x": (), "y": (2,)}, 5 * math.log(0.3), h.sum(0), 5 * K),
        Dense(other.shapes, 5 * other.g, 5 * other.h, 5 * other.K),
    )
    assert_is((f * other.factor * 0.3).product("i"), expected)


def test_a_shared_scale_counts_once_for_each_datum():
    """Normal(x, σ) at five data with one σ for all: the constant of each density counts."""
    data, sigma = np.array([0.3, -1.2, 2.0, 0.7, 1.1]), 0.6
    x = fb.Variable("x", fb.Real)
    evidence = (dist.Normal(0.0, 2.0)("x") * dist.Normal(x, sigma)(fb.Array(data, ("i",))).product("i")).sum("x")
    covariance = 4.0 * np.ones((5, 5)) + sigma**2 * np.eye(5)
    expected = stats.multivariate_normal(np.zeros(5), covariance).logpdf(data)
    assert float(evidence.log()) == pytest.approx(expected, rel=1e-10)


def test_a_shared_scale_by_a_plan():
    data, sigma = np.array([0.3, -1.2, 2.0, 0.7, 1.1]), 0.6
    x = fb.Variable("x", fb.Real)
    factors = [dist.Normal(0.0, 2.0)("x"), dist.Normal(x, sigma)(fb.Array(data, ("i",)))]
    covariance = 4.0 * np.ones((5, 5)) + sigma**2 * np.eye(5)
    expected = stats.multivariate_normal(np.zeros(5), covariance).logpdf(data)
    assert float(fb.eliminate(factors, sum=("x",), plates=("i",)).log()) == pytest.approx(expected, rel=1e-10)


def test_a_plate_kept():
    """A Gaussian over i, j and x: x inside the plate i is summed out, i multiplied out, j stays."""
    rng = np.random.default_rng(4)
    h, K, g = rng.normal(size=(2, 3, 1)), rng.uniform(1, 2, size=(2, 3, 1, 1)), rng.normal(size=(2, 3))
    f = fb.Gaussian(info=h, precision=K, log_scale=g, inputs={"i": fb.Bint[2], "j": fb.Bint[3], "x": fb.Real})
    found = fb.eliminate(f, sum={"x": ("i", "j")}, plates=("i",))
    logs = g + 0.5 * np.log(2 * np.pi / K[..., 0, 0]) + 0.5 * h[..., 0] ** 2 / K[..., 0, 0]
    assert found.inputs == {"j": fb.Bint[3]}
    np.testing.assert_allclose([float(found(j=j).log()) for j in range(3)], logs.sum(0), rtol=1e-10)


# -- marginalisation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", SUBSETS)
def test_a_partial_sum(names):
    f = dense(19)
    assert_is(f.factor.sum(*names), f.sum(names))


@pytest.mark.parametrize("names", SUBSETS[:-1])
def test_a_partial_sum_then_the_other_names(names):
    f = dense(20)
    rest = [name for name in SHAPES if name not in names]
    found = f.factor.sum(*names).sum(*rest)
    np.testing.assert_allclose(float(found.log()), f.sum(SHAPES).g, rtol=1e-10)


@pytest.mark.parametrize("names", SUBSETS)
def test_a_partial_sum_of_a_product_of_rank_deficient_factors(names):
    """None of the three can be integrated alone; their product can."""
    parts = [dense(21, "wxyz", rank=3), dense(22, "zyx", rank=3), dense(23, "wz", rank=3)]
    whole = combined(combined(parts[0], parts[1]), parts[2])
    found = (parts[0].factor * parts[1].factor * parts[2].factor).sum(*names)
    assert_is(found, whole.sum(names), rtol=1e-7)


@pytest.mark.parametrize("names", ["wx", "z"])
def test_too_little_information(names):
    with pytest.raises(fb.FubiniError, match="prior"):
        dense(24, "wxyz", rank=1).factor.sum(*names)


@pytest.mark.parametrize("names", SUBSETS)
def test_a_partial_maximum(names):
    """The maximum over v is the integral without its volume."""
    f = dense(25)
    integral = f.sum(names)
    b = f.at(n for n in f.shapes if n in names)
    volume = 0.5 * (len(b) * np.log(2 * np.pi) - np.linalg.slogdet(f.K[np.ix_(b, b)])[1])
    assert_is(f.factor.max(*names), integral._replace(g=integral.g - volume))


def test_a_sum_against_quadrature():
    f = dense(26, "wx")
    expected = integrate.dblquad(lambda w, x: math.exp(f.log({"w": w, "x": x})), -12, 12, -12, 12, epsabs=1e-10)[0]
    assert float(f.factor.sum("w", "x")) == pytest.approx(expected, rel=1e-7)


def test_a_sum_over_a_batch_of_one_function_is_a_gaussian():
    """The weights of the cells add up where the exponent does not depend on them."""
    f = dense(27, "xy")
    both = fb.Table([0.3, 0.7, 1.5], ("k",)) * f.factor
    assert_is(both.sum("k"), f._replace(g=f.g + math.log(2.5)))


def test_normalizing_over_some_names():
    f = dense(28)
    conditional = f.factor.normalize("w", "z")
    assert_is(conditional.sum("w", "z"), Dense({"x": (), "y": (2,)}, 0.0, np.zeros(3), np.zeros((3, 3))))
    assert_is(f.factor.normalize(), f._replace(g=f.g - f.sum(SHAPES).g))


# -- conditioning, moments, choices ---------------------------------------------------------------------------------


def given(f: Dense, point: Mapping[str, np.ndarray]) -> Dense:
    kept = [name for name in f.shapes if name not in point]
    gone = [name for name in f.shapes if name in point]
    a, b = f.at(kept), f.at(gone)
    v = np.concatenate([np.ravel(point[name]) for name in gone])
    g = f.g + f.h[b] @ v - 0.5 * v @ f.K[np.ix_(b, b)] @ v
    return Dense({name: f.shapes[name] for name in kept}, g, f.h[a] - f.K[np.ix_(a, b)] @ v, f.K[np.ix_(a, a)])


@pytest.mark.parametrize("names", SUBSETS[:-1])
def test_conditioning(names):
    f, point = dense(29), points(SHAPES)[0]
    known = {name: point[name] for name in names}
    assert_is(f.factor(known), given(f, known))


@pytest.mark.parametrize("name", SHAPES)
def test_moments_of_a_marginal(name):
    f = dense(30)
    others = [other for other in SHAPES if other != name]
    marginal, at, shape = f.factor.sum(*others), f.at([name]), SHAPES[name]
    covariance = f.covariance[np.ix_(at, at)]
    np.testing.assert_allclose(marginal.mean(name).data, f.mean[at].reshape(shape), rtol=1e-8)
    np.testing.assert_allclose(marginal.covariance(name).data, covariance.reshape(shape + shape), rtol=1e-8)
    np.testing.assert_allclose(marginal.variance(name).data, np.diag(covariance).reshape(shape), rtol=1e-8)


@pytest.mark.parametrize("name", SHAPES)
def test_the_mean_is_a_value_of_the_other_reals(name):
    f, shape = dense(31), SHAPES[name]
    mean = f.factor.mean(name)
    assert mean.inputs == {other: domain for other, domain in domains(SHAPES).items() if other != name}
    assert mean.output == domains(SHAPES)[name]
    for point in points(SHAPES):
        known = {other: value for other, value in point.items() if other != name}
        np.testing.assert_allclose(mean(known).data, given(f, known).mean.reshape(shape), rtol=1e-8)


@pytest.mark.parametrize("name", SHAPES)
def test_the_covariance_given_the_other_reals(name):
    f, shape = dense(32), SHAPES[name]
    at = f.at([name])
    expected = np.linalg.inv(f.K[np.ix_(at, at)])
    np.testing.assert_allclose(f.factor.covariance(name).data, expected.reshape(shape + shape), rtol=1e-9)
    np.testing.assert_allclose(f.factor.variance(name).data, np.diag(expected).reshape(shape), rtol=1e-9)


def test_the_conditional_mean_is_what_regression_says():
    """E[x | y] of a joint given by its covariance."""
    S, m = np.array([[2.0, 0.8], [0.8, 1.0]]), np.array([1.0, -1.0])
    mean = fb.Gaussian(mean=m, covariance=S, inputs={"x": fb.Real, "y": fb.Real}).mean("x")
    for y in (-2.0, 0.0, 3.0):
        assert float(mean(y=y)) == pytest.approx(1.0 + 0.8 * (y + 1.0), rel=1e-12)


@pytest.mark.parametrize("names", SUBSETS)
def test_argmax_is_the_mean(names):
    f = dense(33)
    others = [name for name in SHAPES if name not in names]
    chosen = f.factor.sum(*others).argmax() if others else f.factor.argmax(*SHAPES)
    for name in names:
        np.testing.assert_allclose(chosen[name], f.mean[f.at([name])].reshape(SHAPES[name]), rtol=1e-8)


def test_argmax_beside_a_batch():
    """For each cell its own mode; over the batch too, the cell of the highest mode and its place."""
    f, parts = batch(2, 4)
    each = f.argmax("x", "y")
    for cell, part in enumerate(parts):
        np.testing.assert_allclose(each["x"][cell], part.mean[0], rtol=1e-9)
        np.testing.assert_allclose(each["y"][cell], part.mean[1:], rtol=1e-9)
    best = int(np.argmax([part.g + 0.5 * part.h @ part.mean for part in parts]))
    chosen = f.argmax()
    assert int(chosen["i"]) == best
    np.testing.assert_allclose(chosen["y"], parts[best].mean[1:], rtol=1e-9)


# -- functionals ----------------------------------------------------------------------------------------------------


def normal(f: Dense, names: Iterable[str]) -> stats.multivariate_normal:
    at = f.at(names)
    return stats.multivariate_normal(f.mean[at], f.covariance[np.ix_(at, at)])


@pytest.mark.parametrize("names", SUBSETS)
def test_entropy(names):
    """Of the normalised marginal, the others summed out."""
    f = dense(34)
    assert float(f.factor.entropy(*names)) == pytest.approx(normal(f, names).entropy(), rel=1e-9)


@pytest.mark.parametrize("names", SUBSETS)
def test_kl(names):
    p, q = dense(35), dense(36, "zxwy")
    a, b = p.at(names), q.at(names)
    S, T = p.covariance[np.ix_(a, a)], q.covariance[np.ix_(b, b)]
    gap = p.mean[a] - q.mean[b]
    logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    expected = 0.5 * (np.trace(np.linalg.solve(T, S)) + gap @ np.linalg.solve(T, gap) - len(a) + logs)
    assert float(p.factor.kl(q.factor, *names)) == pytest.approx(expected, rel=1e-8)


def test_kl_of_all_names_in_another_order():
    p, q = dense(35, "xy"), dense(36, "yx")
    assert float(p.factor.kl(q.factor)) == pytest.approx(float(p.factor.kl(q.factor, "x", "y")), rel=1e-12)
    assert float(p.factor.kl(p.factor)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("names", ["wx", "xy", "yz", "zw"])
def test_mutual_information(names):
    f = dense(37)
    first, second = names
    expected = normal(f, first).entropy() + normal(f, second).entropy() - normal(f, names).entropy()
    assert float(f.factor.mutual_information(first, second)) == pytest.approx(expected, rel=1e-7, abs=1e-10)


# -- expectations ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_expectations_against_a_large_sample():
    """E[x], E[x y₁] and E_g[log h] under an unnormalised Gaussian."""
    g, h = dense(38, "xy"), dense(39, "yx")
    draws = np.random.default_rng(5).multivariate_normal(g.mean, g.covariance, size=200_000)
    turned = draws[:, [1, 2, 0]]
    values = h.g + turned @ h.h - 0.5 * np.einsum("ni,ij,nj->n", turned, h.K, turned)
    x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Reals[2])
    f = g.factor
    assert float(fb.expectation(f, x)) == pytest.approx(draws[:, 0].mean(), abs=0.01)
    assert float(fb.expectation(f, x * y[1])) == pytest.approx((draws[:, 0] * draws[:, 2]).mean(), abs=0.02)
    assert float(fb.expectation(f, h.factor.log())) == pytest.approx(values.mean(), rel=0.02)


def test_expectation_of_a_logarithm():
    """E_g[log h]  =  log h(μ) − ½ tr(K Σ)"""
    g, h = dense(40, "xy"), dense(41, "xy")
    expected = h.g + h.h @ g.mean - 0.5 * g.mean @ h.K @ g.mean - 0.5 * np.trace(h.K @ g.covariance)
    assert float(fb.expectation(g.factor, h.factor.log())) == pytest.approx(expected, rel=1e-9)


def test_an_integral_is_the_mass_times_the_expectation():
    g = dense(42, "xy")
    x = fb.Variable("x", fb.Real)
    mass = math.exp(g.sum("xy").g)
    assert float(fb.integrate(g.factor, x * x)) == pytest.approx(mass * (g.mean[0] ** 2 + g.covariance[0, 0]), rel=1e-9)


def test_an_expectation_over_some_names_is_a_value_of_the_others():
    g = dense(43, "wxy")
    x, w = fb.Variable("x", fb.Real), fb.Variable("w", fb.Real)
    found = fb.expectation(g.factor, x * x + w * x, "x", "y")
    for point in points("w"):
        rest = given(g, point)
        mean, variance = rest.mean[0], rest.covariance[0, 0]
        expected = variance + mean**2 + point["w"] * mean
        np.testing.assert_allclose(float(found(point)), expected, rtol=1e-9)


# -- densities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("batched", ["loc", "scale", "both"])
def test_a_normal_with_a_batched_parameter_is_normalised(shape, batched):
    """Normal(a x + b, σ)("y") over y sums to one for each x and each cell."""
    rng = np.random.default_rng(6)
    names = ("i", "j")[: len(shape)]
    b = fb.Array(rng.normal(size=shape), names) if batched != "scale" else 0.3
    sigma = fb.Array(rng.uniform(0.5, 2, size=shape), names) if batched != "loc" else 0.7
    x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
    for f in (dist.Normal(2.0 * x + b, sigma)("y"), dist.Normal(y, sigma)(b), dist.Normal(b, sigma)(y + 0.0 * b)):
        whole = f * fb.Gaussian(info=[0.0], precision=[[0.0]], inputs={"y": fb.Real})  # as a Gaussian
        one = whole.sum("y")
        for cell in np.ndindex(shape):
            where = dict(zip(names, map(int, cell), strict=True))
            point = {name: 0.4 for name in one.inputs if name == "x"}
            closed = one({name: cell for name, cell in where.items() if name in one.inputs} | point)
            np.testing.assert_allclose(float(closed.log()), 0.0, atol=1e-12)


@pytest.mark.parametrize("matrix", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_a_multivariate_normal_is_a_gaussian(matrix):
    rng = np.random.default_rng(7)
    L = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    S = L @ L.T
    M = {"covariance_matrix": S, "precision_matrix": np.linalg.inv(S), "scale_tril": L}[matrix]
    y = fb.Variable("y", fb.Reals[3])
    A, m = rng.normal(size=(3, 3)), rng.normal(size=3)
    joint = dist.MultivariateNormal(np.asarray(A) @ y + m, **{matrix: M})("v") * dist.MultivariateNormal(
        np.zeros(3), np.eye(3)
    )("y")
    marginal = joint.sum("y")
    expected = stats.multivariate_normal(m, A @ A.T + S)
    v = rng.normal(size=3)
    assert float(marginal(v=v).log()) == pytest.approx(expected.logpdf(v), rel=1e-9)
    assert float(joint.sum("y", "v").log()) == pytest.approx(0.0, abs=1e-10)


def test_a_normal_over_an_array():
    """One scale for an array of locations: the elements are independent."""
    rng = np.random.default_rng(8)
    y = fb.Variable("y", fb.Reals[2, 2])
    scale = rng.uniform(0.5, 2, size=(2, 2))
    f = dist.Normal(y, scale)(np.ones((2, 2))) * dist.Normal(np.zeros((2, 2)), 1.0)("y")
    expected = stats.norm(0.0, np.sqrt(1 + scale**2)).logpdf(np.ones((2, 2))).sum()
    assert float(f.sum("y").log()) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(f.mean("y").data, 1 / (1 + scale**2), rtol=1e-10)


# -- samples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", SUBSETS)
def test_samples_of_some_names_then_of_the_others(names):
    """50,000 draws: the marginal of some, then the others given each draw, have the joint's mean and covariance."""
    f, n = dense(44), 50_000
    rest = [name for name in SHAPES if name not in names]
    marginal = f.factor.sum(*rest) if rest else f.factor
    keys = jax.random.split(jax.random.key(1), 2)
    drawn = marginal.sample(keys[0], *names, n=n)
    if rest:
        at = {name: fb.Array(drawn[name], ("s",)) for name in names}
        others = f.factor(at).sample(keys[1], *rest)
        drawn |= others
    flat = np.concatenate([np.asarray(drawn[name]).reshape(n, -1) for name in SHAPES], axis=1)
    sd = np.sqrt(np.diag(f.covariance))
    np.testing.assert_allclose((flat.mean(0) - f.mean) / sd, 0.0, atol=5 / math.sqrt(n))
    np.testing.assert_allclose((np.cov(flat.T) - f.covariance) / np.outer(sd, sd), 0.0, atol=7 / math.sqrt(n))


def test_samples_have_the_axes_n_batch_event():
    f, parts = batch(3, 3)
    drawn = f.sample(jax.random.key(2), "x", "y", n=20_000)
    assert drawn["x"].shape == (20_000, 3) and drawn["y"].shape == (20_000, 3, 2)
    for cell, part in enumerate(parts):
        sd = np.sqrt(np.diag(part.covariance))
        np.testing.assert_allclose((np.mean(drawn["x"][:, cell]) - part.mean[0]) / sd[0], 0.0, atol=0.04)
        np.testing.assert_allclose((np.mean(drawn["y"][:, cell], 0) - part.mean[1:]) / sd[1:], 0.0, atol=0.04)


def test_samples_of_the_batch_and_the_reals():
    """The cells are drawn by their mass, the reals given the cell."""
    f, parts = batch(4, 3)
    masses = np.exp([part.sum("xy").g for part in parts])
    shares = masses / masses.sum()
    drawn = f.sample(jax.random.key(3), n=50_000)
    np.testing.assert_allclose(np.bincount(drawn["i"], minlength=3) / 50_000, shares, atol=0.012)
    for cell, part in enumerate(parts):
        mine = np.asarray(drawn["x"])[np.asarray(drawn["i"]) == cell]
        if len(mine) > 200:
            sd = math.sqrt(part.covariance[0, 0])
            assert abs(mine.mean() - part.mean[0]) < 5 * sd / math.sqrt(len(mine))


# -- batches with zero weights --------------------------------------------------------------------------------------


def with_zeros() -> tuple[fb.Factor, list[Dense], np.ndarray]:
    f, parts = batch(5, 4)
    weights = np.array([0.0, 0.5, 0.0, 2.0])
    return fb.Table(weights, ("i",)) * f, parts, weights


def test_zero_weights_leave_the_other_cells_as_they_are():
    f, parts, weights = with_zeros()
    masses = np.array([math.exp(part.sum("xy").g) for part in parts])
    evidence = f.sum("x", "y")
    np.testing.assert_allclose([float(evidence(i=i)) for i in range(4)], weights * masses, rtol=1e-10)
    assert float(f.sum("i", "x", "y")) == pytest.approx((weights * masses).sum(), rel=1e-10)


def test_zero_weights_in_the_mixture():
    f, parts, weights = with_zeros()
    mix = f.sum("i")
    for point in points("xy"):
        expected = sum(w * math.exp(part.log(point)) for w, part in zip(weights, parts, strict=True))
        np.testing.assert_allclose(math.exp(log_at(mix, point)), expected, rtol=1e-9)
    masses = weights * np.array([math.exp(part.sum("xy").g) for part in parts])
    mean = sum(mass * part.mean[0] for mass, part in zip(masses, parts, strict=True)) / masses.sum()
    assert float(mix.sum("y").mean("x")) == pytest.approx(mean, rel=1e-9)


def test_zero_weights_are_never_chosen_or_drawn():
    f, _, _ = with_zeros()
    assert int(f.argmax("i", "x", "y")["i"]) in (1, 3)
    drawn = f.sample(jax.random.key(4), "i", "x", "y", n=2000)
    assert set(np.unique(drawn["i"])) <= {1, 3}
    assert np.isfinite(drawn["x"]).all()


def test_a_zero_cell_may_be_improper_only_where_it_is_not_integrated():
    """0/0 is 0: a quotient of cells with weight zero is zero there."""
    f, _, _ = with_zeros()
    ratio = f / f
    assert float(ratio(i=0, x=0.3, y=np.ones(2))) == 0.0
    assert float(ratio(i=1, x=0.3, y=np.ones(2))) == pytest.approx(1.0, rel=1e-10)


# -- engines --------------------------------------------------------------------------------------------------------


def test_numpy_in_numpy_out():
    f = dense(45, "xy").factor
    for found in (f.sum("x", "y").log().data, f.sum("x").mean("y").data, f.argmax()["y"]):
        assert isinstance(found, np.ndarray | np.floating | float) and np.asarray(found).dtype == np.float64


def test_single_precision_under_jit():
    f, g = dense(46, "xy"), dense(47, "yz")
    both = combined(f, g)

    @jax.jit
    def run(h, K, other):
        mine = fb.Gaussian(info=h, precision=K, log_scale=f.g, inputs=domains(f.shapes))
        joint = mine * other
        return joint.sum("x", "y", "z").log().data, joint.sum("x", "z").mean("y").data, joint.sum("y")

    single = fb.Gaussian(
        info=jnp.asarray(g.h, jnp.float32),
        precision=jnp.asarray(g.K, jnp.float32),
        log_scale=g.g,
        inputs=domains(g.shapes),
    )
    log, mean, rest = run(jnp.asarray(f.h, jnp.float32), jnp.asarray(f.K, jnp.float32), single)
    assert log.dtype == mean.dtype == jnp.float32
    np.testing.assert_allclose(log, both.sum("xyz").g, rtol=SINGLE)
    np.testing.assert_allclose(mean, both.mean[both.at("y")], rtol=SINGLE, atol=SINGLE)
    left = both.sum("y")
    for point in points("xz"):
        np.testing.assert_allclose(log_at(rest, point), left.log(point), rtol=1e-3)


def test_under_vmap():
    """A batch of Gaussians from vmap, its axis named, is the Gaussian of each cell."""
    parts = [dense(48 + cell, "xy") for cell in range(3)]

    def one(h, K):
        return (fb.Gaussian(info=h, precision=K, inputs=domains(parts[0].shapes)) * dist.Normal(0.0, 1.0)("x")).sum("x")

    container = jax.jit(jax.vmap(one))(
        jnp.asarray([p.h for p in parts], jnp.float32), jnp.asarray([p.K for p in parts], jnp.float32)
    )
    named = fb.name_axis(container, "n")
    prior = Dense({"x": ()}, -0.5 * math.log(2 * math.pi), np.zeros(1), np.eye(1))
    for cell, part in enumerate(parts):
        expected = combined(part._replace(g=0.0), prior).sum("x")
        for point in points("y"):
            np.testing.assert_allclose(log_at(named(n=cell), point), expected.log(point), rtol=1e-3, atol=SINGLE)


# -- scales ---------------------------------------------------------------------------------------------------------


def test_data_far_from_zero():
    """Data around 10⁶ with standard deviation one, under a wide prior there."""
    rng = np.random.default_rng(9)
    data = 1e6 + rng.normal(size=200)
    x = fb.Variable("x", fb.Real)
    f = dist.Normal(1e6, 10.0)("x") * dist.Normal(x, 1.0)(fb.Array(data, ("i",))).product("i")
    n = len(data)
    gap = data - 1e6
    variance = 1 / (n + 0.01)
    quadratic = np.sum(gap**2) - variance * gap.sum() ** 2
    expected = -0.5 * (n * np.log(2 * np.pi) + np.log(1 + 100 * n) + quadratic)
    assert float(f.sum("x").log()) == pytest.approx(expected, rel=1e-9)
    assert float(f.mean("x")) - 1e6 == pytest.approx(variance * gap.sum(), abs=1e-8)
    assert float(f.variance("x")) == pytest.approx(variance, rel=1e-9)


def test_a_chain_far_from_zero():
    """A random walk around 10⁶ seen with noise: log-evidence and moments of the joint normal."""
    rng = np.random.default_rng(10)
    data = 1e6 + np.cumsum(rng.normal(size=8))
    states = [fb.Variable(f"x{t}", fb.Real) for t in range(8)]
    factors = [dist.Normal(1e6, 3.0)("x0")]
    factors += [dist.Normal(states[t - 1], 1.0)(states[t]) for t in range(1, 8)]
    factors += [dist.Normal(states[t], 0.5)(float(data[t])) for t in range(8)]
    names = [f"x{t}" for t in range(8)]
    prior = 9.0 + np.minimum.outer(np.arange(8), np.arange(8))
    seen = prior + 0.25 * np.eye(8)
    expected = stats.multivariate_normal(np.zeros(8), seen).logpdf(data - 1e6)
    assert float(fb.eliminate(factors, sum=names).log()) == pytest.approx(expected, rel=1e-9)
    gain = prior @ np.linalg.inv(seen)
    mean, covariance = gain @ (data - 1e6), prior - gain @ prior
    beliefs = fb.marginals(factors, names)
    for t, name in enumerate(names):
        assert float(beliefs[name].mean(name)) - 1e6 == pytest.approx(mean[t], abs=1e-7)
        assert float(beliefs[name].variance(name)) == pytest.approx(covariance[t, t], rel=1e-8)


LINKS = [1e-7, 1e-5, 1e-3]


@pytest.mark.parametrize("noise", LINKS)
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_a_nearly_deterministic_link(noise, spread):
    """y = 2x + tiny noise, x of standard deviation 1 to 100: both moments of y, and x given y."""
    x = fb.Variable("x", fb.Real)
    joint = dist.Normal(1.0, spread)("x") * dist.Normal(2.0 * x, noise)("y")
    y = joint.sum("x")
    assert float(y.mean("y")) == pytest.approx(2.0, rel=1e-6)
    assert float(y.variance("y")) == pytest.approx(4 * spread**2 + noise**2, rel=1e-6)
    given_y = joint(y=3.0)
    gain = 2 * spread**2 / (4 * spread**2 + noise**2)
    assert float(given_y.mean("x")) == pytest.approx(1.0 + gain * (3.0 - 2.0), rel=1e-6)
    assert float(given_y.variance("x")) == pytest.approx(1 / (1 / spread**2 + 4 / noise**2), rel=1e-6)
    expected = stats.norm(2.0, math.sqrt(4 * spread**2 + noise**2)).logpdf(3.0)
    assert float(given_y.sum("x").log()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", LINKS)
@pytest.mark.parametrize("order", ["forward", "backward", "plan"])
def test_a_chain_of_nearly_deterministic_regressions(noise, order):
    """x_{k+1} = a x_k + tiny noise: the marginal of the last state, whichever way the others are summed out."""
    slopes = [0.9, -1.7, 0.4, 1.2, 2.5]
    x = [fb.Variable(f"x{k}", fb.Real) for k in range(6)]
    factors = [dist.Normal(3.0, 10.0)("x0")]
    factors += [dist.Normal(a * x[k], noise)(x[k + 1]) for k, a in enumerate(slopes)]
    mean, variance = 3.0, 100.0
    for a in slopes:
        mean, variance = a * mean, a * a * variance + noise**2
    names = [f"x{k}" for k in range(5)]
    if order == "plan":
        last = fb.eliminate(factors, sum=names)
    else:
        last = factors[0]
        for factor in factors[1:]:
            last = last * factor
        for name in names if order == "forward" else names[::-1]:
            last = last.sum(name)
    assert float(last.mean("x5")) == pytest.approx(mean, rel=1e-6)
    assert float(last.variance("x5")) == pytest.approx(variance, rel=1e-6)
    at = mean + 0.3 * math.sqrt(variance)
    assert float(last(x5=at).log()) == pytest.approx(stats.norm(mean, math.sqrt(variance)).logpdf(at), rel=1e-6)


@pytest.mark.parametrize("noise", LINKS)
def test_the_marginals_of_a_nearly_deterministic_chain(noise):
    slopes = [0.9, -1.7, 0.4]
    x = [fb.Variable(f"x{k}", fb.Real) for k in range(4)]
    factors = [dist.Normal(3.0, 10.0)("x0")]
    factors += [dist.Normal(a * x[k], noise)(x[k + 1]) for k, a in enumerate(slopes)]
    beliefs = fb.marginals(factors, [f"x{k}" for k in range(4)])
    mean, variance = 3.0, 100.0
    for k, a in enumerate([*slopes, 0.0]):
        assert float(beliefs[f"x{k}"].mean(f"x{k}")) == pytest.approx(mean, rel=1e-6)
        assert float(beliefs[f"x{k}"].variance(f"x{k}")) == pytest.approx(variance, rel=1e-6)
        mean, variance = a * mean, a * a * variance + noise**2


@pytest.mark.parametrize("noise", LINKS)
def test_a_nearly_deterministic_chain_seen_at_its_end(noise):
    """The first state given the last, and the evidence."""
    slopes = [0.9, -1.7, 0.4]
    x = [fb.Variable(f"x{k}", fb.Real) for k in range(4)]
    factors = [dist.Normal(3.0, 10.0)("x0")]
    factors += [dist.Normal(a * x[k], noise)(x[k + 1]) for k, a in enumerate(slopes)]
    factors += [dist.Normal(x[3], 0.5)(-1.0)]
    a = math.prod(slopes)
    own = noise**2 * (1 + slopes[2] ** 2 + (slopes[2] * slopes[1]) ** 2) + 0.25
    evidence = stats.norm(3 * a, math.sqrt(100 * a * a + own))
    gain = 100 * a / (100 * a * a + own)
    found = fb.eliminate(factors, sum=("x1", "x2", "x3"))
    assert float(found.mean("x0")) == pytest.approx(3 + gain * (-1.0 - 3 * a), rel=1e-6)
    assert float(found.variance("x0")) == pytest.approx(100 - gain * a * 100, rel=1e-6)
    assert float(found.sum("x0").log()) == pytest.approx(evidence.logpdf(-1.0), rel=1e-6)


def test_widely_different_precisions_side_by_side():
    """Deviations from 10⁻⁷ to 10² in one joint: each marginal keeps its own digits."""
    deviations = 10.0 ** np.arange(-7, 3)
    rng = np.random.default_rng(11)
    means = rng.normal(size=10)
    v = [fb.Variable(f"v{k}", fb.Real) for k in range(10)]
    factors = [dist.Normal(means[0], deviations[0])("v0")]
    factors += [dist.Normal(v[k - 1] + means[k], deviations[k])(v[k]) for k in range(1, 10)]
    joint = factors[0]
    for factor in factors[1:]:
        joint = joint * factor
    for k in range(10):
        alone = joint.sum(*(f"v{j}" for j in range(10) if j != k))
        assert float(alone.mean(f"v{k}")) == pytest.approx(means[: k + 1].sum(), rel=1e-6, abs=1e-12)
        assert float(alone.variance(f"v{k}")) == pytest.approx(np.sum(deviations[: k + 1] ** 2), rel=1e-6)


def test_two_precise_sensors_of_a_vague_variable():
    """Standard deviations 10⁻⁷ and 2·10⁻⁷ about a variable of 100: the posterior is that of the sensors."""
    x = fb.Variable("x", fb.Real)
    f = dist.Normal(0.0, 100.0)("x") * dist.Normal(x, 1e-7)(1.0) * dist.Normal(x, 2e-7)(1.0 + 1e-7)
    weights = np.array([1e14, 0.25e14])
    expected = 1e-7 * weights[1] / weights.sum()
    assert float(f.mean("x")) - 1.0 == pytest.approx(expected, rel=1e-6)
    assert float(f.variance("x")) == pytest.approx(1 / (weights.sum() + 1e-4), rel=1e-6)


@pytest.mark.parametrize("noise", LINKS)
def test_functionals_of_a_nearly_deterministic_link(noise):
    """Entropy, divergence and mutual information of (x, 2x + tiny noise)."""
    x = fb.Variable("x", fb.Real)
    joint = dist.Normal(0.0, 1.0)("x") * dist.Normal(2.0 * x, noise)("y")
    other = dist.Normal(0.1, 1.0)("x") * dist.Normal(2.0 * x, 2 * noise)("y")
    assert float(joint.entropy("x", "y")) == pytest.approx(1 + math.log(2 * math.pi) + math.log(noise), rel=1e-6)
    assert float(joint.mutual_information("x", "y")) == pytest.approx(0.5 * math.log1p(4 / noise**2), rel=1e-6)
    expected = 0.5 * 0.1**2 + 0.5 * (0.25 - 1 + math.log(4))
    assert float(joint.kl(other, "x", "y")) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", LINKS)
def test_a_precise_sum_of_vague_variables(noise):
    """x₁ + x₂ known almost exactly: each stays as vague as the other lets it be."""
    x1, x2 = fb.Variable("x1", fb.Real), fb.Variable("x2", fb.Real)
    joint = dist.Normal(0.0, 100.0)("x1") * dist.Normal(0.0, 100.0)("x2") * dist.Normal(x1 + x2, noise)(5.0)
    first = joint.sum("x2")
    total = 2e4 + noise**2
    assert float(first.mean("x1")) == pytest.approx(5e4 / total, rel=1e-6)
    assert float(first.variance("x1")) == pytest.approx(1e4 - 1e8 / total, rel=1e-6)
    assert float(first.sum("x1").log()) == pytest.approx(stats.norm(0, math.sqrt(total)).logpdf(5.0), rel=1e-6)


@pytest.mark.parametrize("noise", LINKS)
def test_samples_of_a_nearly_deterministic_link(noise):
    x = fb.Variable("x", fb.Real)
    drawn = (dist.Normal(1.0, 1.0)("x") * dist.Normal(2.0 * x, noise)("y")).sample(
        jax.random.key(5), "x", "y", n=20_000
    )
    residual = (drawn["y"] - 2 * drawn["x"]) / noise
    assert abs(residual.mean()) < 0.04 and abs(residual.std() - 1) < 0.03
    assert abs(drawn["x"].mean() - 1) < 0.04 and abs(drawn["x"].std() - 1) < 0.03


def test_a_long_chain_of_precise_steps():
    """Fifty states with steps of 10⁻⁵, seen at every tenth: marginals and mode of the joint normal."""
    size, noise = 50, 1e-5
    data = np.random.default_rng(12).normal(size=5)
    v = [fb.Variable(f"v{k}", fb.Real) for k in range(size)]
    names = [variable.name for variable in v]
    factors = [dist.Normal(1.0, 2.0)("v0"), *(dist.Normal(v[k - 1], noise)(v[k]) for k in range(1, size))]
    factors += [dist.Normal(v[10 * k], 1.0)(data[k]) for k in range(5)]
    prior = 4.0 + noise**2 * np.minimum.outer(np.arange(size), np.arange(size))
    seen = prior[::10, ::10] + np.eye(5)
    gain = np.linalg.solve(seen, prior[::10]).T
    mean, covariance = 1.0 + gain @ (data - 1.0), prior - gain @ prior[::10]
    beliefs, mode = fb.marginals(factors, names), fb.argmax(factors, names)
    np.testing.assert_allclose([float(beliefs[name].mean(name)) for name in names], mean, rtol=1e-6)
    np.testing.assert_allclose([float(beliefs[name].variance(name)) for name in names], np.diag(covariance), rtol=1e-6)
    np.testing.assert_allclose([float(mode[name]) for name in names], mean, rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4, 1e5])
def test_data_far_from_zero_in_single_precision(offset):
    """Whole numbers about an offset: each is exact in single precision, so is the residual the evidence is made of."""
    gaps = np.array([1.0, -2.0, 0.0, 3.0, 1.0, -1.0, 0.0, 2.0])
    x = fb.Variable("x", fb.Real)

    @jax.jit
    def ask(data):
        f = dist.Normal(offset, 10.0)("x") * dist.Normal(x, 1.0)(fb.Array(data, ("i",))).product("i")
        return f.sum("x").log().data

    expected = stats.multivariate_normal(np.zeros(8), 100 * np.ones((8, 8)) + np.eye(8)).logpdf(gaps)
    np.testing.assert_allclose(ask(jnp.asarray(offset + gaps, jnp.float32)), expected, rtol=1e-3)


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3, 1e-4])
def test_a_precise_link_in_single_precision(noise):
    x = fb.Variable("x", fb.Real)

    @jax.jit
    def ask(scale):
        joint = dist.Normal(0.0, 1.0)("x") * dist.Normal(2.0 * x, scale)("y")
        return joint.sum("x").variance("y").data, joint(y=1.0).sum("x").log().data

    variance, log = ask(jnp.float32(noise))
    np.testing.assert_allclose(variance, 4 + noise**2, rtol=1e-4)
    np.testing.assert_allclose(log, stats.norm(0, math.sqrt(4 + noise**2)).logpdf(1.0), rtol=1e-3)
