"""Deltas: point masses over any variable, change of variable with its log-Jacobian, sums, moments and draws."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, Intractable, NoRule
from fubini.terms.value import to_array

X, Y, Z = (fb.Variable(name, fb.Real) for name in "xyz")
S = fb.Variable("s", fb.Positive)
V, W = fb.Variable("v", fb.Reals[2]), fb.Variable("w", fb.Reals[2])
K = fb.Variable("k", fb.Bint[3])
A = np.array([[2.0, 1.0], [0.5, -3.0]])
PRIOR = dist.Normal(0.3, 1.2)("y")
SHARES = np.array([0.2, 0.3, 0.5])
PLACES = np.array([1.0, -2.0, 4.0])


def log(factor: fb.Factor, **at: Any) -> np.ndarray:
    return np.asarray(to_array(factor(**at).log() if at else factor.log()).data)


def normal(point: float) -> float:
    return float(stats.norm.logpdf(point, 0.3, 1.2))


# -- G7: products, sums, conditioning -------------------------------------------------------------------------------


def test_product_substitutes_the_point() -> None:
    """δ_v ⊗ f = δ_v · f(v)"""
    f = fb.Delta(y=1.5) * PRIOR
    found = f / dist.Normal(0.0, 2.0)("y")
    assert isinstance(found, fb.Delta) and found.inputs == {"y": fb.Real}
    assert float(found.sum("y").log()) == pytest.approx(normal(1.5) - stats.norm.logpdf(1.5, 0.0, 2.0), rel=1e-12)


def test_sum_is_f_at_the_point() -> None:
    """∮ δ_v f = f(v)"""
    found = (fb.Delta(y=1.5) * PRIOR).sum("y")
    assert found.inputs == {} and str(found.exactness) == "exact"
    assert float(found.log()) == pytest.approx(normal(1.5), rel=1e-12)


def test_alone_it_sums_to_one() -> None:
    """Behaviour 22: log 1 = 0."""
    assert float(fb.Delta(x=1.5).sum("x").log()) == 0.0


@pytest.mark.parametrize(
    ("point", "domain"),
    [
        (1.5, fb.Real),
        (np.array([0.1, 0.2]), fb.Reals[2]),
        (np.zeros((2, 3)), fb.Reals[2, 3]),
        (fb.Array(1, (), fb.Bint[3]), fb.Bint[3]),
        (fb.Array(0.5, (), fb.Positive), fb.Positive),
        (fb.Array(np.array([0.2, 0.8]), (), fb.Simplex[2]), fb.Simplex[2]),
    ],
    ids=repr,
)
def test_any_variable(point: Any, domain: fb.Domain) -> None:
    f = fb.Delta(u=point)
    assert f.inputs == {"u": domain}
    assert float(f.sum("u")) == 1.0
    data = point.data if isinstance(point, fb.Array) else point
    assert float(f(u=data)) == 1.0
    other = (data + 1) % 3 if domain.is_finite else data[::-1] if domain.kind == "simplex" else data + 0.25
    assert float(f(u=other)) == 0.0


def test_two_atoms() -> None:
    """δ + δ′: two atoms, each half of the mass."""
    f = fb.Delta(x=1.5) + fb.Delta(x=2.5)
    assert isinstance(f, fb.Mixture)
    assert float(f.sum("x")) == pytest.approx(2.0, rel=1e-12)
    assert float(f.mean("x")) == pytest.approx(2.0, rel=1e-12)
    assert float(f.variance("x")) == pytest.approx(0.25, rel=1e-12)
    draws = f.sample(jax.random.key(0), "x", n=4000)["x"]
    assert set(draws) == {1.5, 2.5} and abs(np.mean(draws == 1.5) - 0.5) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(
    "dividend", [PRIOR(y="x"), fb.Delta(x=1.5), fb.Delta(x=2.5), fb.Table([0.5, 0.5], ("k",))], ids=repr
)
def test_division_by_a_delta(dividend: fb.Factor) -> None:
    with pytest.raises(NoRule, match="'x'") as caught:
        dividend / fb.Delta(x=1.5)
    assert all(part in str(caught.value) for part in ("/ Delta(x=1.5)", "expected:", "nearest:", "to do:"))


def test_division_of_a_delta() -> None:
    found = fb.Delta(y=1.5) / PRIOR
    assert isinstance(found, fb.Delta)
    assert float(found.sum("y").log()) == pytest.approx(-normal(1.5), rel=1e-12)
    back = found * PRIOR
    assert float(back.sum("y").log()) == pytest.approx(0.0, abs=1e-12)


def test_power_of_a_delta() -> None:
    with pytest.raises(NoRule, match="'x'"):
        fb.Delta(x=1.5) ** 2


def test_two_deltas_of_one_real_variable() -> None:
    with pytest.raises(NoRule, match="both fix 'x'"):
        (fb.Delta(x=1.5) * fb.Delta(x=1.5)).sum("x")


def test_two_deltas_of_one_integer() -> None:
    one, two = (fb.Delta(k=fb.Array(at, (), fb.Bint[3])) for at in (1, 2))
    assert float((one * one).sum("k")) == 1.0
    assert float((one * two).sum("k")) == 0.0


def test_integer_delta_is_a_table() -> None:
    table = fb.Table(np.arange(6.0).reshape(2, 3), ("a", "k"))
    found = (table * fb.Delta(k=fb.Array(2, (), fb.Bint[3]))).sum("k")
    assert isinstance(found, fb.Table)
    np.testing.assert_allclose(np.exp(log(found)), [2.0, 5.0])


def test_integer_point_that_depends_on_an_index() -> None:
    """δ(k = a + 1) selects a diagonal."""
    table = fb.Table(np.arange(1.0, 7.0).reshape(2, 3), ("a", "k"))
    found = (table * fb.Delta(k=fb.Array(np.array([1, 2]), ("a",), fb.Bint[3]))).sum("k")
    np.testing.assert_allclose(np.exp(log(found)), [2.0, 6.0])


def test_weight() -> None:
    f = fb.Delta({"x": 1.5}, fb.Table([2.0, 3.0], ("i",)))
    assert f.inputs == {"x": fb.Real, "i": fb.Bint[2]}
    assert float(f.sum("x", "i")) == pytest.approx(5.0, rel=1e-12)
    np.testing.assert_allclose(np.exp(log(f.sum("x"))), [2.0, 3.0], rtol=1e-12)
    found = f.sum("i")
    assert isinstance(found, fb.Delta) and float(found.sum("x")) == pytest.approx(5.0, rel=1e-12)
    assert float(f.normalize().sum("x", "i")) == pytest.approx(1.0, rel=1e-12)


def test_weight_that_depends_on_the_point() -> None:
    """It is taken at the point."""
    f = fb.Delta({"y": 1.5}, PRIOR)
    assert float(f.sum("y").log()) == pytest.approx(normal(1.5), rel=1e-12)


def test_points_that_depend_on_each_other() -> None:
    f = fb.Delta(x=1.5, y=2.0 * X)
    assert float(f.mean("y")) == 3.0 and float(f(x=1.5, y=3.0)) == 1.0 and float(f(x=1.5, y=2.9)) == 0.0


def test_product_of_dependent_deltas_in_either_order() -> None:
    for f in (fb.Delta(x=1.5) * fb.Delta(y=2.0 * X), fb.Delta(y=2.0 * X) * fb.Delta(x=1.5)):
        assert float((f * PRIOR).sum("x", "y").log()) == pytest.approx(normal(3.0), rel=1e-12)
        assert float((f * PRIOR).sum("y", "x").log()) == pytest.approx(normal(3.0), rel=1e-12)
        assert float(f.sum("x").mean("y")) == 3.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fb.Delta(), "without a point"),
        (lambda: fb.Delta(x=X + 1.0), "'x'"),
        (lambda: fb.Delta(x=Y, y=X), "circle"),
        (lambda: fb.Delta(k=1), "Bint"),
        (lambda: fb.Delta(x="y"), "x"),
    ],
)
@pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)
def test_malformed(make: Callable, words: str, interpretation: fb.Interpretation) -> None:
    with interpretation, pytest.raises(fb.FubiniError, match=words) as caught:
        make()
    assert "expected:" in str(caught.value)


# -- change of variable ---------------------------------------------------------------------------------------------


class Case:
    """An invertible function, a target in its image, one outside (or None)."""

    def __init__(self, value: fb.Value, of: Callable, inside: float, outside: float | None = None) -> None:
        self.value, self.of, self.inside, self.outside = value, of, inside, outside


CASES = {
    "exp": Case(fb.ops.exp(Y), np.exp, 0.7, -0.3),
    "log": Case(fb.ops.log(S), np.log, -0.4),
    "tanh": Case(fb.ops.tanh(Y), np.tanh, 0.4, 1.5),
    "sigmoid": Case(fb.ops.sigmoid(Y), lambda y: 1 / (1 + np.exp(-y)), 0.3, 1.2),
    "softplus": Case(fb.ops.softplus(Y), lambda y: np.logaddexp(0, y), 0.8, -0.2),
    "expm1": Case(fb.ops.expm1(Y), np.expm1, -0.2, -1.5),
    "log1p": Case(fb.ops.log1p(S), np.log1p, 0.4, -0.2),
    "affine": Case(2.0 * Y - 1.0, lambda y: 2 * y - 1, 0.4),
    "reversed": Case(3.0 - Y / 2.0, lambda y: 3 - y / 2, 2.4),
    "negative": Case(-Y, np.negative, 0.4),
    "reciprocal": Case(2.0 / S, lambda s: 2 / s, 0.6, -1.0),
    "composed": Case(fb.ops.exp(1.0 - 2.0 * fb.ops.tanh(Y)), lambda y: np.exp(1 - 2 * np.tanh(y)), 2.0, 30.0),
}
changes = pytest.mark.parametrize("name", CASES)


def prior_of(case: Case) -> tuple[fb.Factor, str, Callable, tuple[float, float]]:
    """A density of the variable of the case, its name, the density by scipy, and where to integrate."""
    (name,) = case.value.inputs
    if name == "s":
        return dist.Gamma(4.0, 3.0)("s"), "s", stats.gamma(4.0, scale=1 / 3).pdf, (1e-12, 20.0)
    return PRIOR, "y", stats.norm(0.3, 1.2).pdf, (-12.0, 12.0)


def inverse_and_slope(case: Case) -> tuple[float, float]:
    """The solution of v(u) = target by bisection, and |du/dt| by differences."""
    low, high = prior_of(case)[3]

    def solved(target: float) -> float:
        return optimize.brentq(lambda u: float(case.of(u)) - target, low, high, xtol=1e-14)

    h = 1e-5
    return solved(case.inside), abs(solved(case.inside + h) - solved(case.inside - h)) / (2 * h)


@changes
def test_substitution_carries_the_jacobian(name: str) -> None:
    """Behaviour 22: δ(x = a) at x = v(y) is δ(y = v⁻¹(a)) |dv⁻¹/da|."""
    case = CASES[name]
    _, variable, _, _ = prior_of(case)
    found = fb.Delta(x=case.inside)(x=case.value)
    point, slope = inverse_and_slope(case)
    assert found.inputs.keys() == {variable}
    assert float(found.mean(variable)) == pytest.approx(point, rel=1e-9)
    assert float(found.sum(variable)) == pytest.approx(slope, rel=1e-7)


@changes
def test_density_of_a_function(name: str) -> None:
    """∫ δ(x = v(y)) p(y) dy is the density of v(y)."""
    case = CASES[name]
    prior, variable, density, _ = prior_of(case)
    found = (fb.Delta(x=case.value) * prior).sum(variable)
    assert found.inputs == {"x": fb.Real}
    point, slope = inverse_and_slope(case)
    assert float(found(x=case.inside)) == pytest.approx(density(point) * slope, rel=1e-7)


@changes
def test_integral_of_a_test_function(name: str) -> None:
    """∫ cos(x) p_X(x) dx over the image equals E[cos(v(y))]: the Jacobian is right everywhere, not at one point."""
    case = CASES[name]
    prior, variable, density, _ = prior_of(case)
    found = (fb.Delta(x=case.value) * prior).sum(variable)
    ends = sorted(float(case.of(edge)) for edge in ((-4.0, 4.5) if variable == "y" else (0.05, 6.0)))
    at = ends[0] * (ends[1] / ends[0]) ** np.linspace(0, 1, 8001) if ends[0] > 0 else np.linspace(*ends, 8001)
    p = np.exp(log(found, x=fb.Array(at, ("grid",))))
    mine = integrate.simpson(np.cos(at) * p, x=at)
    inner = (-4.0, 4.5) if variable == "y" else (0.05, 6.0)
    right, _ = integrate.quad(lambda u: np.cos(case.of(u)) * density(u), *inner, epsabs=1e-11, limit=200)
    assert mine == pytest.approx(right, abs=2e-5)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.outside is not None])
def test_no_mass_outside_the_image(name: str) -> None:
    """What the function never reaches has density zero: not NaN, and no warning."""
    case = CASES[name]
    prior, variable, _, _ = prior_of(case)
    assert float((fb.Delta(x=case.value) * prior).sum(variable)(x=case.outside)) == 0.0


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "softplus"])
def test_no_mass_outside_the_image_on_jax(name: str) -> None:
    case = CASES[name]
    found = jax.jit(lambda at: (fb.Delta(x=case.value) * PRIOR).sum("y")(x=at).log().data)(case.outside)
    assert float(found) == -np.inf


@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_a_point_outside_the_image(name: str) -> None:
    """δ(x = a) at x = v(y) where no y gives a: nothing is left."""
    case = CASES[name]
    assert float(fb.Delta(x=case.outside)(x=case.value).sum("y")) == 0.0


VECTORS: dict[str, tuple[Callable, np.ndarray, Callable]] = {
    "exp": (fb.ops.exp, np.array([0.4, 2.0]), lambda v: -np.log(v).sum()),
    "log": (fb.ops.log, np.array([-0.4, 0.5]), lambda v: v.sum()),
    "tanh": (fb.ops.tanh, np.array([0.4, -0.5]), lambda v: -np.log(1 - v**2).sum()),
    "sigmoid": (fb.ops.sigmoid, np.array([0.4, 0.9]), lambda v: -np.log(v * (1 - v)).sum()),
    "softplus": (fb.ops.softplus, np.array([0.4, 0.9]), lambda v: -np.log(1 - np.exp(-v)).sum()),
    "scaled by a number": (lambda w: 2.0 * w + 1.0, np.array([0.4, 0.9]), lambda v: -2 * np.log(2)),
    "scaled elementwise": (lambda w: np.array([2.0, -5.0]) * w, np.array([0.4, 0.9]), lambda v: -np.log(10)),
    "negative": (lambda w: -w, np.array([0.4, 0.9]), lambda v: 0.0),
    "matmul": (lambda w: fb.Array(A) @ w, np.array([0.4, 0.9]), lambda v: -np.log(6.5)),
    "composed": (
        lambda w: fb.ops.exp(fb.Array(A) @ w),
        np.array([0.4, 0.9]),
        lambda v: -np.log(6.5) - np.log(v).sum(),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_jacobian_summed_over_a_vector(name: str) -> None:
    """B1.8, for every function."""
    of, target, right = VECTORS[name]
    found = fb.Delta(v=target)(v=of(W))
    assert isinstance(found, fb.Delta) and found.inputs == {"w": fb.Reals[2]}
    assert float(found.sum("w").log()) == pytest.approx(float(right(target)), abs=1e-12)
    place = to_array(of(fb.Array(np.asarray(found.mean("w").data))))
    np.testing.assert_allclose(place.data, target, rtol=1e-12)


@pytest.mark.parametrize("name", VECTORS)
def test_density_of_a_vector(name: str) -> None:
    of, target, right = VECTORS[name]
    prior = dist.Normal(np.array([0.1, 0.3]), 1.2).to_event(1)("w")
    found = (fb.Delta(v=of(W)) * prior).sum("w")
    place = np.asarray(fb.Delta(v=target)(v=of(W)).mean("w").data)
    logs = stats.norm.logpdf(place, [0.1, 0.3], 1.2).sum() + right(target)
    assert float(found(v=target).log()) == pytest.approx(float(logs), rel=1e-10)


def test_affine_function_stays_gaussian() -> None:
    """v = A w of normal w is normal with covariance A Aᵀ."""
    found = (fb.Delta(v=fb.Array(A) @ W) * dist.Normal(np.zeros(2), 1.2).to_event(1)("w")).sum("w")
    np.testing.assert_allclose(found.covariance("v").data, 1.44 * A @ A.T, rtol=1e-10)
    assert float(found.sum("v").log()) == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize(
    "value", [Y * Y, fb.ops.sin(Y), Y + Y * Y, fb.ops.absolute(Y), fb.lift(jnp.arctan)(Y)], ids=repr
)
def test_what_is_not_known_to_be_invertible(value: fb.Value) -> None:
    with pytest.raises(Intractable, match="invertible"):
        fb.Delta(x=0.4)(x=value)
    with pytest.raises(Intractable, match="invertible") as caught:
        (fb.Delta(x=value) * PRIOR).sum("y")
    assert "'y'" in str(caught.value) and "'x'" in str(caught.value)


@pytest.mark.parametrize("value", [Y * Y, fb.ops.sin(Y), fb.lift(jnp.arctan)(Y)], ids=repr)
def test_the_delta_first_where_it_is_not_invertible(value: fb.Value) -> None:
    """Summed over its own variable first there is nothing to invert."""
    f = fb.Delta(x=value) * PRIOR
    assert float(f.sum("x", "y").log()) == pytest.approx(0.0, abs=1e-12)
    assert float(f.sum("y", "x").log()) == pytest.approx(0.0, abs=1e-12)


def test_a_slope_of_zero() -> None:
    with pytest.raises(fb.FubiniError):
        (fb.Delta(x=0.0 * Y + 2.0) * PRIOR).sum("y")(x=1.0).log()


def test_two_real_variables_in_one_point() -> None:
    with pytest.raises(Intractable, match=r"at x=y \+ z"):
        fb.Delta(x=0.4)(x=Y + Z)


# -- sums over names that a point depends on ------------------------------------------------------------------------


def test_sum_of_two_normals() -> None:
    """δ(x = y + z): solved for either, a convolution."""
    f = fb.Delta(x=Y + Z) * PRIOR * dist.Normal(-1.0, 0.5)("z")
    for names in (("y", "z"), ("z", "y")):
        found = f.sum(*names)
        assert float(found(x=0.2).log()) == pytest.approx(stats.norm.logpdf(0.2, -0.7, 1.3), rel=1e-10)
        assert float(found.mean("x")) == pytest.approx(-0.7, rel=1e-10)
        assert float(found.variance("x")) == pytest.approx(1.69, rel=1e-10)


def test_condition_on_a_sum() -> None:
    """δ(x = y + z) at x = 0.2: the posterior of y."""
    f = (fb.Delta(x=Y + Z) * PRIOR * dist.Normal(-1.0, 0.5)("z")).sum("z")(x=0.2)
    weight = 1.44 / 1.69
    assert float(f.mean("y")) == pytest.approx(0.3 + weight * (0.2 + 0.7), rel=1e-10)
    assert float(f.variance("y")) == pytest.approx(1.44 * (1 - weight), rel=1e-10)


def chosen() -> fb.Factor:
    return fb.Delta(x=fb.Array(PLACES)[K]) * fb.Table(SHARES, ("k",))


def test_discrete_index_makes_a_mixture() -> None:
    found = chosen().sum("k")
    assert isinstance(found, fb.Mixture) and found.inputs == {"x": fb.Real}
    mean = SHARES @ PLACES
    assert float(found.mean("x")) == pytest.approx(mean, rel=1e-12)
    assert float(found.variance("x")) == pytest.approx(SHARES @ (PLACES - mean) ** 2, rel=1e-12)
    assert float((found * PRIOR(y="x")).sum("x")) == pytest.approx(SHARES @ stats.norm.pdf(PLACES, 0.3, 1.2), rel=1e-12)


def test_posterior_of_the_index() -> None:
    """P(k | N(x; 0.3, 1.2)) with x at the place of k."""
    found = (chosen() * PRIOR(y="x")).sum("x").normalize()
    right = SHARES * stats.norm.pdf(PLACES, 0.3, 1.2)
    np.testing.assert_allclose(np.exp(log(found)), right / right.sum(), rtol=1e-12)


def test_discrete_and_real_names_of_one_point() -> None:
    """x = y + place[k]: a mixture of three normals."""
    f = fb.Delta(x=Y + fb.Array(PLACES)[K]) * PRIOR * fb.Table(SHARES, ("k",))
    right = np.log(SHARES @ stats.norm.pdf(0.7, 0.3 + PLACES, 1.2))
    for names in (("y", "k"), ("k", "y")):
        assert float(f.sum(*names)(x=0.7).log()) == pytest.approx(right, rel=1e-10)
    assert float(f.sum("x", "y", "k")) == pytest.approx(1.0, rel=1e-10)


def test_sum_through_the_weight() -> None:
    """A name that only the weight has."""
    f = fb.Delta(x=2.0 * Y) * PRIOR * dist.Normal(Y, 1.0)("z")
    found = f.sum("z")
    assert float(found.sum("y")(x=0.4).log()) == pytest.approx(normal(0.2) - np.log(2), rel=1e-10)


def test_max_over_a_name_that_a_point_depends_on() -> None:
    with pytest.raises(Intractable, match="'k'"):
        chosen().max("k")
    assert float(chosen().max("x", "k")) == pytest.approx(0.5, rel=1e-12)


def test_plate_over_a_delta() -> None:
    with pytest.raises(NoRule, match="'x'"):
        fb.Delta(x=fb.Array(PLACES, ("i",))).product("i")


# -- points, moments, draws -----------------------------------------------------------------------------------------


def test_moments() -> None:
    f = fb.Delta(v=np.array([0.1, -0.2]))
    np.testing.assert_array_equal(f.mean("v").data, [0.1, -0.2])
    np.testing.assert_array_equal(f.variance("v").data, [0.0, 0.0])
    np.testing.assert_array_equal(f.covariance("v").data, np.zeros((2, 2)))


def test_mean_of_an_integer() -> None:
    assert float(fb.Delta(k=fb.Array(2, (), fb.Bint[3])).mean("k")) == 2.0


def test_moments_along_an_index() -> None:
    f = fb.Delta(x=fb.Array(PLACES, ("i",)))
    np.testing.assert_array_equal(to_array(f.mean("x")).data, PLACES)


def test_entropy_is_an_error() -> None:
    with pytest.raises(NoRule, match="entropy"):
        fb.Delta(x=1.5).entropy("x")


def test_argmax() -> None:
    assert fb.Delta(x=1.5).argmax("x") == {"x": 1.5}
    assert chosen().argmax("x", "k") == {"x": 4.0, "k": 2}


def test_draws() -> None:
    found = fb.Delta(v=np.array([0.1, -0.2])).sample(jax.random.key(0), "v", n=3)["v"]
    np.testing.assert_array_equal(found, np.tile([0.1, -0.2], (3, 1)))
    assert fb.Delta(x=1.5).sample(jax.random.key(0), "x")["x"] == 1.5


def test_draws_of_a_point_and_its_index() -> None:
    found = chosen().sample(jax.random.key(1), "x", "k", n=4000)
    np.testing.assert_array_equal(found["x"], PLACES[found["k"]])
    frequencies = np.bincount(found["k"], minlength=3) / 4000
    assert np.all(np.abs(frequencies - SHARES) < 5 * np.sqrt(SHARES * (1 - SHARES) / 4000))


def test_draws_of_a_function() -> None:
    found = (fb.Delta(x=fb.ops.exp(Y)) * PRIOR).sample(jax.random.key(2), "x", "y", n=4000)
    np.testing.assert_allclose(found["x"], np.exp(found["y"]), rtol=1e-12)
    assert abs(found["y"].mean() - 0.3) < 5 * 1.2 / np.sqrt(4000)


def test_marginals() -> None:
    found = fb.marginals([fb.Delta(x=2.0 * Y), PRIOR], ("x", "y"))
    assert float(found["x"].mean("x")) == pytest.approx(0.6, rel=1e-10)
    assert float(found["x"].variance("x")) == pytest.approx(4 * 1.44, rel=1e-10)
    assert float(found["y"].mean("y")) == pytest.approx(0.3, rel=1e-10)


def test_conditioning_on_the_name_of_a_delta() -> None:
    f = fb.Delta(x=fb.Array(PLACES, ("i",)))
    np.testing.assert_array_equal(np.exp(log(f, x=-2.0)), [0.0, 1.0, 0.0])


def test_renaming_and_indexing() -> None:
    f = fb.Delta(x=fb.Array(PLACES, ("i",)))
    assert f(x="u").inputs.keys() == {"u", "i"}
    assert float(f(i=2).mean("x")) == 4.0
    assert float(f(x="u", i=1)(u=-2.0)) == 1.0


def test_domain_of_a_solution() -> None:
    """x = 2 s with s positive: at a negative x there is no mass."""
    found = (fb.Delta(x=2.0 * S) * dist.Gamma(4.0, 3.0)("s")).sum("s")
    assert float(found(x=0.8)) == pytest.approx(stats.gamma.pdf(0.4, 4.0, scale=1 / 3) / 2, rel=1e-10)
    assert float(found(x=-0.8)) == 0.0


# -- under transformations ------------------------------------------------------------------------------------------


def test_derivatives_in_the_point() -> None:
    found = jax.grad(lambda a: (fb.Delta(y=a) * PRIOR).sum("y").log().data)(1.5)
    assert float(found) == pytest.approx(-(1.5 - 0.3) / 1.44, rel=1e-5)


def test_derivatives_through_the_jacobian() -> None:
    """d/da log p_X(a) of x = exp(y): lognormal."""
    found = jax.grad(lambda a: (fb.Delta(x=fb.ops.exp(Y)) * PRIOR).sum("y")(x=a).log().data)(0.7)
    assert float(found) == pytest.approx((-(np.log(0.7) - 0.3) / 1.44 - 1) / 0.7, rel=1e-5)


def test_vmap_over_points() -> None:
    at = jnp.asarray([0.1, 0.5])
    found = jax.vmap(lambda a: (fb.Delta(y=a) * PRIOR).sum("y").log().data)(at)
    np.testing.assert_allclose(found, stats.norm.logpdf(at, 0.3, 1.2), rtol=1e-5)


def test_recorded_and_evaluated() -> None:
    with fb.lazy:
        e = (fb.Delta(x=2.0 * Y) * fb.Delta(y=0.7)).sum("y")
    assert float(fb.evaluate(e).mean("x")) == pytest.approx(1.4)


def test_types_are_checked_when_recorded() -> None:
    with fb.lazy, pytest.raises(DomainError):
        fb.Delta(x=1.5) * fb.Table([0.5, 0.5], ("x",))
