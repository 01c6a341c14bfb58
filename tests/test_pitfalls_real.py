"""Faults found by reading, each with the program that showed it: real variables, densities, mixtures, points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, norm

import fubini as fb
from fubini import dist
from fubini.errors import DataError, Intractable, NoRule
from fubini.terms.exactness import projected
from fubini.terms.value import Array

X, Z = fb.Variable("x", fb.Real), fb.Variable("z", fb.Real)
S = fb.Variable("s", fb.Positive)


def two_normals(name: str = "y") -> fb.Factor:
    means = fb.Array(np.array([-1.0, 1.0]), ("k",))
    return (fb.Table([0.3, 0.7], ("k",)) * dist.Normal(means, 1.0)(name)).sum("k")


def test_a_zeroth_power_does_not_depend_on_its_base() -> None:
    joint = dist.Normal(X**0, 1.0)(1.0) * dist.Normal(0.0, 1.0)("x")
    assert float(joint.sum("x").log()) == pytest.approx(-0.5 * np.log(2 * np.pi), abs=1e-12)


def test_a_function_with_its_own_derivative_is_read_by_its_values() -> None:
    """∫ N(0.3; 2x, 1) N(x; 0, 1) dx, whatever the function says of its derivative"""

    @jax.custom_jvp
    def double(a: jax.Array) -> jax.Array:
        return 2 * a

    double.defjvp(lambda primals, tangents: (2 * primals[0], 5 * tangents[0]))
    joint = dist.Normal(fb.lift(double)(X), 1.0)(0.3) * dist.Normal(0.0, 1.0)("x")
    assert float(joint.sum("x").log()) == pytest.approx(norm.logpdf(0.3, 0.0, np.sqrt(5.0)), rel=1e-12)


def test_a_mixture_inside_a_delta_keeps_its_own_index() -> None:
    m = two_normals()
    found = (m * fb.Delta({"x": 1.0}, m)).sum("y").sum("x").log()
    assert float(found) == pytest.approx(float((m * m).sum("y").log()), abs=1e-12)


@pytest.mark.parametrize("offset", [0.0, 100.0, 1000.0])
def test_evidence_of_a_regression_in_single_precision(offset: float) -> None:
    """Rows are kept as squares: the expanded form loses everything."""
    random = np.random.default_rng(0)
    design = np.c_[np.ones(300), random.normal(size=(300, 2))]
    data = offset + 2 * design[:, 1] + 0.5 * random.normal(size=300)
    w = fb.Variable("w", fb.Reals[3])

    def evidence(engine):
        prior = dist.Normal(engine(np.zeros(3)), 2000.0).to_event(1)("w")
        likelihood = dist.Normal(fb.Array(engine(design)) @ w, 0.5)(fb.Array(engine(data)))
        return float((prior * likelihood).sum("w").log())

    covariance = 0.25 * np.eye(300) + 2000.0**2 * design @ design.T
    square = data @ np.linalg.solve(covariance, data)
    expected = -0.5 * (square + np.linalg.slogdet(covariance)[1] + 300 * np.log(2 * np.pi))
    assert evidence(np.asarray) == pytest.approx(expected, rel=1e-6)
    assert evidence(jnp.asarray) == pytest.approx(expected, rel=1e-3)


def test_a_quotient_that_cancels_is_improper() -> None:
    a, b = dist.Normal(0.4, 0.1)("x"), dist.Normal(1.7, 0.7)("x")
    with pytest.raises(DataError, match="prior"):
        ((a * b) / a / b).sum("x")


MARKED = Array._of(np.asarray(0.3), (), {}, fb.Real, projected("here"))


@pytest.mark.parametrize(
    "question",
    [
        lambda g: g(x=MARKED),
        lambda g: g(x=MARKED + Z),
        lambda g: g**MARKED,
        lambda g: (fb.Delta(x=MARKED) * g).sum("x"),
        lambda g: fb.weight(log=MARKED * Z - Z * Z).sum("z"),
    ],
)
def test_an_approximate_value_marks_what_it_enters(question) -> None:
    g = fb.Gaussian(info=[0.1, 0.2], precision=[[2.0, 0.3], [0.3, 1.0]], inputs={"x": fb.Real, "z": fb.Real})
    assert repr(question(g).exactness) == "projected(here)"


@pytest.mark.parametrize("semiring", [fb.min_sum, fb.counting, fb.boolean])
def test_other_semirings_are_of_tables(semiring: fb.Semiring) -> None:
    with pytest.raises(Intractable, match="Tables"):
        fb.eliminate([dist.Normal(0.0, 1.0)("x")], sum=("x",), semiring=semiring)


@pytest.mark.parametrize(
    "ask", [lambda f: fb.sample(jax.random.key(0), f, ("k", "x"), n=4), lambda f: fb.argmax(f, ("k", "x"))]
)
def test_an_index_that_only_a_point_has_can_be_chosen(ask) -> None:
    chosen = ask(fb.Delta(x=fb.Array(np.array([1.0, 2.0]), ("k",))))
    np.testing.assert_array_equal(chosen["x"], 1.0 + chosen["k"])


def test_a_scale_that_takes_every_sign_has_no_density() -> None:
    joint = dist.Normal(0.0, Z)("x") * dist.Normal(0.0, 1.0)("z")
    with pytest.raises(Intractable, match="scale=z"):
        joint.sum("x", "z")


@pytest.mark.parametrize(
    "joint",
    [
        dist.Gamma(2.0, 1.0)("s") * dist.Normal(0.0, 2.0 * S)("x"),
        dist.Gamma(2.0, 1.0)("s") * dist.Normal(0.0, 1.0 / S)("x"),
        dist.Normal(0.0, 1.0)("z") * dist.Poisson(fb.ops.exp(Z))("x"),
        dist.Normal(0.0, 1.0)("z") * dist.Normal(0.0, Z * Z + 1.0)("x"),
        dist.Normal(0.0, 1.0)("z") * dist.Normal(0.0, fb.lift(jnp.exp)(Z))("x"),
    ],
)
def test_ordinary_hierarchies_sum_to_one_and_can_be_drawn(joint: fb.Factor) -> None:
    assert float(joint.sum(*joint.inputs)) == pytest.approx(1.0)
    drawn = fb.sample(jax.random.key(0), joint, tuple(joint.inputs), n=3)
    assert all(np.all(np.isfinite(values)) and values.shape == (3,) for values in drawn.values())


def test_an_index_into_a_positive_array() -> None:
    t, k = fb.Variable("t", fb.Positive[2]), fb.Variable("k", fb.Bint[2])
    joint = dist.Gamma(np.ones(2), 1.0)("t") * dist.Normal(0.0, t[k])("x")
    np.testing.assert_allclose(joint.sum("x", "t").log().data, 0.0, atol=1e-12)
    assert float(joint.sum("x", "t", "k")) == pytest.approx(2.0)


def test_marginals_with_a_discrete_parent_of_a_density() -> None:
    rates = fb.Array(np.array([1.0, 2.0]), ("k",))
    factors = [dist.Gamma(rates, 1.0)("s"), fb.Table([0.3, 0.7], ("k",)), dist.Normal(0.0, S)("x")]
    found = fb.marginals(factors, ("s", "k"))
    np.testing.assert_allclose(found["k"].weights, [0.3, 0.7])
    expected = 0.3 * gamma(1.0).pdf(0.6) + 0.7 * gamma(2.0).pdf(0.6)
    assert float(found["s"](s=0.6)) == pytest.approx(expected)
    assert float(found["s"].mean("s")) == pytest.approx(0.3 + 1.4)


def test_the_best_values_with_a_deterministic_node() -> None:
    best = fb.argmax([dist.Normal(0.0, 1.0)("x"), fb.Delta(z=2.0 * X + 1.0), dist.Normal(Z, 1.0)(0.4)], ("x", "z"))
    assert (float(best["x"]), float(best["z"])) == pytest.approx((-0.24, 0.52))


def test_a_point_outside_the_domain_has_no_mass() -> None:
    p = fb.Variable("p", fb.Positive)
    assert float(fb.Delta(x=-1.0)(x=2.0 * p).sum("p")) == 0.0
    logarithm = fb.Delta(x=-1.0)(x=fb.ops.log(p))
    assert float(logarithm.mean("p")) == pytest.approx(np.exp(-1.0))
    assert float(logarithm.sum("p").log()) == pytest.approx(-1.0)


def test_a_plate_that_a_mixture_lacks_is_its_power() -> None:
    m = two_normals("x")
    powered = (m * fb.Table(np.ones(3), ("i",))).product("i")
    assert float(powered(x=0.3).log()) == pytest.approx(3 * float(m(x=0.3).log()))
    with pytest.raises(NoRule, match="sum of powers"):
        _ = m**0.5


def test_a_simplex_has_no_volume_among_the_reals() -> None:
    density = dist.Dirichlet(np.ones(3))
    assert float(density("t").sum("t")) == 1.0
    with pytest.raises(Intractable, match="'t'"):
        density(fb.Variable("t", fb.Reals[3])).sum("t")


def test_masked_data_may_be_missing() -> None:
    data = np.array([0.5, np.nan, -0.2])
    present = ~np.isnan(data)
    likelihood = dist.Normal(X, 1.0).mask(present)(np.where(present, data, 0.0))
    assert float((likelihood * dist.Normal(0.0, 1.0)("x")).sum("x").log()) == pytest.approx(
        multivariate_normal(np.zeros(2), np.eye(2) + 1.0).logpdf(data[present])
    )


def test_a_point_without_mass_is_not_normalised() -> None:
    """0/0 is 0 in a quotient, but there is nothing to normalise."""
    with pytest.raises(DataError, match="zero everywhere"):
        fb.Delta({"x": 1.0}, fb.Table([0.0, 0.0], ("a",))).normalize()
