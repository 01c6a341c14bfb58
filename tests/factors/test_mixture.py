"""Mixtures: sums of factors that stay exact and evaluable, against quadrature, enumeration and large samples."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.errors import Intractable, NoRule
from fubini.terms.factor import product
from fubini.terms.value import to_array

X, Y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
S = fb.Variable("s", fb.Positive)
W = np.array([0.2, 0.3, 0.5])
LOC, SCALE = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 0.7])
SHAPES = np.array([1.0, 2.0, 4.5])
GRID = np.linspace(-12.0, 14.0, 20001)


def weights() -> fb.Table:
    return fb.Table(W, ("k",))


def components() -> fb.Factor:
    return dist.Normal(fb.Array(LOC, ("k",)), fb.Array(SCALE, ("k",)))("x")


def three() -> fb.Factor:
    return (weights() * components()).sum("k")


def density(x: Any) -> np.ndarray:
    return stats.norm.pdf(np.asarray(x)[..., None], LOC, SCALE) @ W


def simpson(values: np.ndarray) -> float:
    return float(integrate.simpson(values, x=GRID))


def gammas() -> fb.Factor:
    return (weights() * dist.Gamma(fb.Array(SHAPES, ("k",)), 1.5)("s")).sum("k")


def gamma_density(s: Any) -> np.ndarray:
    return stats.gamma.pdf(np.asarray(s)[..., None], SHAPES, scale=1 / 1.5) @ W


# -- G5 -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def g5() -> tuple[fb.Factor, fb.Factor]:
    z = fb.Table([0.3, 0.7], ("z",))
    return z, dist.Normal(fb.Array(np.array([-1.0, 1.0]), ("z",)), 1.0)("x")


def test_g5_density(g5: tuple) -> None:
    m = (g5[0] * g5[1]).sum("z")
    assert isinstance(m, fb.Mixture) and str(m.exactness) == "exact"
    assert float(m(x=0.5).log()) == pytest.approx(-1.254210, abs=5e-7)


def test_g5_posterior(g5: tuple) -> None:
    posterior = (g5[0] * g5[1])(x=0.5).normalize()
    assert float(posterior(z=1)) == pytest.approx(0.863810, abs=5e-7)


def test_g5_moments(g5: tuple) -> None:
    m = (g5[0] * g5[1]).sum("z")
    assert float(m.mean("x")) == pytest.approx(0.4, rel=1e-12)
    assert float(m.variance("x")) == pytest.approx(1.84, rel=1e-12)


def test_equal_components_sum_exactly() -> None:
    """Equal Gaussians for every z: the sum is that Gaussian times the mass."""
    m = (fb.Table([0.3, 0.7], ("z",)) * dist.Normal(fb.Array(np.array([1.0, 1.0]), ("z",)), 1.0)("x")).sum("z")
    assert str(m.exactness) == "exact"
    assert float(m(x=0.5).log()) == pytest.approx(stats.norm.logpdf(0.5, 1.0, 1.0), rel=1e-12)


# -- sums, products, substitution -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [-3.0, 0.3, 2.5, 40.0])
def test_log_density(x: float) -> None:
    right = np.logaddexp.reduce(np.log(W) + stats.norm.logpdf(x, LOC, SCALE))
    assert float(three()(x=x).log()) == pytest.approx(right, rel=1e-12)


def test_a_plus_b() -> None:
    f = dist.Normal(0.0, 1.0)("x") + 2.0 * dist.Normal(1.0, 0.5)("x")
    assert isinstance(f, fb.Mixture)
    assert float(f(x=0.3)) == pytest.approx(stats.norm.pdf(0.3) + 2 * stats.norm.pdf(0.3, 1.0, 0.5), rel=1e-12)
    assert float(f.sum("x")) == pytest.approx(3.0, rel=1e-12)


def test_sums_of_tables_stay_tables() -> None:
    f = fb.Table([0.5, 1.0], ("a",)) + fb.Table([2.0, 3.0, 4.0], ("b",))
    assert isinstance(f, fb.Table)
    assert float(f.sum("a", "b")) == pytest.approx(3 * 1.5 + 2 * 9.0, rel=1e-12)


def test_sum_of_a_gaussian_and_a_table() -> None:
    """(g(x) + t(k)) at a point; what lacks k is counted for each of its values."""
    f = dist.Normal(0.0, 1.0)("x") + weights()
    assert f.inputs.keys() == {"x", "k"}
    found = f.sum("k")
    assert float(found(x=0.3)) == pytest.approx(3 * stats.norm.pdf(0.3) + 1.0, rel=1e-12)
    with pytest.raises(Intractable, match="'x'"):
        f.sum("x")


def test_mass() -> None:
    total = three().sum("x")
    assert total.inputs == {} and float(total) == pytest.approx(1.0, rel=1e-12)


def test_product_with_a_gaussian() -> None:
    """Evidence and posterior moments against quadrature."""
    f = three() * dist.Normal(X, 0.8)(0.9)
    p = density(GRID) * stats.norm.pdf(0.9, GRID, 0.8)
    assert float(f.sum("x")) == pytest.approx(simpson(p), rel=1e-9)
    mean = simpson(GRID * p) / simpson(p)
    assert float(f.mean("x")) == pytest.approx(mean, rel=1e-9)
    assert float(f.variance("x")) == pytest.approx(simpson((GRID - mean) ** 2 * p) / simpson(p), rel=1e-8)


def test_product_of_two_mixtures() -> None:
    """Of one and the same: nine pairs, not three squares."""
    m = three()
    assert float((m * m)(x=0.3)) == pytest.approx(float(density(0.3)) ** 2, rel=1e-12)
    assert float((m * m).sum("x")) == pytest.approx(simpson(density(GRID) ** 2), rel=1e-9)
    assert float((m * m * m).sum("x")) == pytest.approx(simpson(density(GRID) ** 3), rel=1e-9)


def test_product_with_a_table_of_the_same_name() -> None:
    """The bound index is not the free one."""
    f = three() * weights()
    assert f.inputs.keys() == {"x", "k"}
    np.testing.assert_allclose(np.exp(to_array(f(x=0.3).log()).data), W * density(0.3), rtol=1e-12)


def test_mixture_of_mixtures() -> None:
    """Σ_j v_j Σ_k w_k N(x; μ_jk)."""
    loc, v = np.array([[-1.0, 0.5, 2.0], [3.0, 1.0, 0.0]]), np.array([0.4, 0.6])
    f = weights() * dist.Normal(fb.Array(loc, ("j", "k")), 1.0)("x")
    m = (fb.Table(v, ("j",)) * f.sum("k")).sum("j")
    assert float(m(x=0.3)) == pytest.approx(v @ stats.norm.pdf(0.3, loc) @ W, rel=1e-12)
    assert float(m.mean("x")) == pytest.approx(v @ loc @ W, rel=1e-12)


def test_partial_sum_of_reals() -> None:
    """∫ over x of a mixture in x and y: a mixture in y."""
    f = (three() * dist.Normal(2.0 * X, 0.3)("y")).sum("x")
    right = W @ stats.norm.pdf(0.7, 2 * LOC, np.sqrt(4 * SCALE**2 + 0.09))
    assert isinstance(f, fb.Mixture) and f.inputs == {"y": fb.Real}
    assert float(f(y=0.7)) == pytest.approx(right, rel=1e-12)


def test_affine_substitution() -> None:
    found = three()(x=2.0 * Y + 1.0)
    assert found.inputs == {"y": fb.Real}
    assert float(found(y=0.3)) == pytest.approx(float(density(1.6)), rel=1e-12)
    assert float(found.sum("y")) == pytest.approx(0.5, rel=1e-12)


def test_substitution_along_an_axis() -> None:
    found = three()(x=fb.Array(np.array([0.3, 1.0, -2.0, 5.0]), ("i",)))
    np.testing.assert_allclose(np.exp(to_array(found.log()).data), density([0.3, 1.0, -2.0, 5.0]), rtol=1e-12)


def test_batches_of_mixtures() -> None:
    loc = np.array([[-1.0, 0.5, 2.0], [3.0, 1.0, 0.0]])
    m = (weights() * dist.Normal(fb.Array(loc, ("i", "k")), 1.0)("x")).sum("k")
    assert m.inputs.keys() == {"i", "x"}
    np.testing.assert_allclose(to_array(m.mean("x")).data, loc @ W, rtol=1e-12)
    spread = 1.0 + (loc**2) @ W - (loc @ W) ** 2
    np.testing.assert_allclose(to_array(m.variance("x")).data, spread, rtol=1e-12)
    assert float(m(i=1, x=0.3)) == pytest.approx(stats.norm.pdf(0.3, loc[1]) @ W, rel=1e-12)


def test_product_over_a_plate() -> None:
    """Π_i Σ_k w_k N(x; μ_k + d_i): each cell chooses its own component."""
    shift = np.array([0.0, 0.7])
    loc = fb.Array(LOC[:, None] + shift, ("k", "i"))
    f = (weights() * dist.Normal(loc, 1.0)("x")).sum("k").product("i")
    p = np.prod([stats.norm.pdf(GRID[:, None], LOC + d) @ W for d in shift], axis=0)
    assert float(f.sum("x")) == pytest.approx(simpson(p), rel=1e-9)


def test_vectors() -> None:
    loc = np.array([[-1.0, 0.0], [0.5, 1.0], [2.0, -1.0]])
    m = (weights() * dist.MultivariateNormal(fb.Array(loc, ("k",)), np.eye(2))("v")).sum("k")
    mean = W @ loc
    np.testing.assert_allclose(m.mean("v").data, mean, rtol=1e-12)
    right = np.eye(2) + (W[:, None] * (loc - mean)).T @ (loc - mean)
    np.testing.assert_allclose(m.covariance("v").data, right, rtol=1e-12)
    np.testing.assert_allclose(m.variance("v").data, np.diag(right), rtol=1e-12)


def test_other_variables_stay_inputs_of_the_mean() -> None:
    """E[x | y] under a mixture of x times a likelihood of x at y, for a y given later; E[y | x] = x."""
    f = three() * dist.Normal(X, 0.8)("y")
    p = density(GRID) * stats.norm.pdf(0.9, GRID, 0.8)
    assert float(f.mean("y")(x=0.4)) == pytest.approx(0.4, rel=1e-9)
    assert float(f.mean("x")(y=0.9)) == pytest.approx(simpson(GRID * p) / simpson(p), rel=1e-9)


def test_components_of_no_mass() -> None:
    m = (fb.Table([0.0, 1.0], ("k",)) * dist.Normal(fb.Array(np.array([-50.0, 1.0]), ("k",)), 1.0)("x")).sum("k")
    assert float(m.mean("x")) == pytest.approx(1.0, rel=1e-12)
    assert float(m.variance("x")) == pytest.approx(1.0, rel=1e-12)
    assert float(m(x=-50.0).log()) == pytest.approx(stats.norm.logpdf(-50.0, 1.0), rel=1e-12)
    assert np.all(m.sample(jax.random.key(0), "x", n=100)["x"] > -20)


# -- normalise and divide -------------------------------------------------------------------------------------------


def test_normalize() -> None:
    found = (three() * dist.Normal(X, 0.8)(0.9)).normalize()
    p = density(GRID) * stats.norm.pdf(0.9, GRID, 0.8)
    assert float(found.sum("x")) == pytest.approx(1.0, rel=1e-12)
    right = float(density(0.3)) * stats.norm.pdf(0.9, 0.3, 0.8) / simpson(p)
    assert float(found(x=0.3)) == pytest.approx(right, rel=1e-9)


def test_division_by_a_gaussian() -> None:
    """Component by component, and back."""
    g = dist.Normal(0.5, 4.0)("x")
    found = three() / g
    assert isinstance(found, fb.Mixture)
    assert float(found(x=0.3)) == pytest.approx(float(density(0.3)) / stats.norm.pdf(0.3, 0.5, 4.0), rel=1e-10)
    assert float((found * g).sum("x")) == pytest.approx(1.0, rel=1e-10)


def test_division_by_a_table() -> None:
    t = np.array([0.5, 4.0])
    found = three() / fb.Table(t, ("i",))
    np.testing.assert_allclose(np.exp(to_array(found(x=0.3).log()).data), density(0.3) / t, rtol=1e-12)


def test_number_times_and_over() -> None:
    assert float((three() * 3.0).sum("x")) == pytest.approx(3.0, rel=1e-12)
    assert float((three() / 4.0).sum("x")) == pytest.approx(0.25, rel=1e-12)
    assert float((three() * 3.0).mean("x")) == pytest.approx(W @ LOC, rel=1e-12)


ERRORS: dict[str, tuple[Callable[[fb.Factor], Any], str]] = {
    "Gaussian over mixture": (lambda m: dist.Normal(0.0, 1.0)("x") / m, "/"),
    "Table over mixture": (lambda m: weights() / m, "/"),
    "mixture over mixture": (lambda m: m / m, "/"),
    "power": (lambda m: m**0.5, r"\*\* 0.5"),
    "max": (lambda m: m.max("x"), "'x'"),
    "argmax": (lambda m: m.argmax("x"), "'x'"),
    "entropy": (lambda m: m.entropy("x"), "entropy"),
    "kl": (lambda m: m.kl(m, "x"), "kl"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_no_closed_form(name: str) -> None:
    ask, words = ERRORS[name]
    with pytest.raises(NoRule, match=words) as caught:
        ask(three())
    assert all(part in str(caught.value) for part in ("expected:", "nearest:", "to do:"))


def test_division_by_its_mass_is_fine() -> None:
    """Summed to a Table the divisor is one."""
    m = three()
    assert float((m / m.sum("x"))(x=0.3)) == pytest.approx(float(density(0.3)), rel=1e-12)


# -- the cap --------------------------------------------------------------------------------------------------------


def test_cap_of_one_sum() -> None:
    f = dist.Normal(fb.Array(np.zeros(20_000), ("k",)), 1.0)("x")
    with pytest.raises(Intractable, match="16,384") as caught:
        f.sum("k")
    assert "20,000" in str(caught.value) and "moment_matching" in str(caught.value) and "k" in str(caught.value)


def test_atoms_that_are_stored_one_by_one_have_no_cap() -> None:
    """20,000 points along one axis are terms already; five axes of ten points would make 100,000 of 50."""
    one = fb.Delta({"x": fb.Array(np.arange(20_000.0), ("k",))}) * fb.Table(np.full(20_000, 5e-5), ("k",))
    assert float(one.sum("k").mean("x").data) == pytest.approx(9999.5)
    each = [fb.Delta({f"x{i}": fb.Array(np.arange(10.0), (f"k{i}",))}) for i in range(5)]
    with pytest.raises(Intractable, match="100,000"):
        product(*each)._joined().sum(*(f"k{i}" for i in range(5)))


def test_cap_of_a_product() -> None:
    m = dist.Normal(fb.Array(np.zeros(200), ("k",)), 1.0)("x").sum("k")
    with pytest.raises(Intractable, match="40,000") as caught:
        (m * m).sum("x")
    assert "moment_matching" in str(caught.value)


def test_cap_of_a_plate() -> None:
    loc = np.zeros((2, 50))
    m = dist.Normal(fb.Array(loc, ("k", "i")), 1.0)("x").sum("k")
    with pytest.raises(Intractable, match="plate 'i'") as caught:
        m.product("i")
    assert "'x'" in str(caught.value) and "moment_matching" in str(caught.value)


def test_at_the_cap() -> None:
    """16,384 terms are allowed."""
    loc = np.linspace(-1.0, 1.0, 2**14)
    m = dist.Normal(fb.Array(loc, ("k",)), 1.0)("x").sum("k")
    assert float(m(x=0.3)) == pytest.approx(stats.norm.pdf(0.3, loc).sum(), rel=1e-10)


def test_no_cap_where_the_reals_go_first() -> None:
    """Summed over both the sum over k needs no mixture."""
    f = dist.Normal(fb.Array(np.zeros(20_000), ("k",)), 1.0)("x")
    assert float(f.sum("x", "k")) == pytest.approx(20_000.0, rel=1e-10)


# -- atoms and densities --------------------------------------------------------------------------------------------


def spike() -> fb.Factor:
    return 0.25 * fb.Delta(x=1.5) + 0.75 * dist.Normal(0.0, 1.0)("x")


def test_spike_and_slab() -> None:
    """Mass, moments and evidence are those of the two parts."""
    f = spike()
    assert float(f.sum("x")) == pytest.approx(1.0, rel=1e-12)
    assert float(f.mean("x")) == pytest.approx(0.375, rel=1e-12)
    assert float(f.variance("x")) == pytest.approx(0.75 + 0.25 * 2.25 - 0.375**2, rel=1e-12)
    evidence = 0.25 * stats.norm.pdf(0.4, 1.5) + 0.75 * stats.norm.pdf(0.4, 0.0, np.sqrt(2))
    assert float((f * dist.Normal(X, 1.0)(0.4)).sum("x")) == pytest.approx(evidence, rel=1e-12)


def test_atoms_and_densities_at_an_atom() -> None:
    with pytest.raises(Intractable, match="point mass") as caught:
        spike()(x=1.5)
    assert "'x'" in str(caught.value) and "to do:" in str(caught.value)


def test_atoms_and_densities_elsewhere() -> None:
    """Where no atom lies the value is that of the density; a traced point may be an atom."""
    assert float(spike()(x=0.2)) == pytest.approx(0.75 * stats.norm.pdf(0.2), rel=1e-12)
    with pytest.raises(Intractable, match="point mass"):
        jax.jit(lambda at: spike()(x=at).log().data)(0.2)


def test_log_of_atoms_and_densities() -> None:
    with pytest.raises(Intractable, match="point mass"):
        spike().log()(x=1.5)


def test_atoms_and_densities_by_an_index() -> None:
    """Chosen by a discrete variable the same holds after it is summed."""
    k = fb.Table([0.25, 0.75], ("k",))
    parts = fb.Table([1.0, 0.0], ("k",)) * fb.Delta(x=1.5) + fb.Table([0.0, 1.0], ("k",)) * dist.Normal(0.0, 1.0)("x")
    f = (k * parts).sum("k")
    assert float(f.mean("x")) == pytest.approx(0.375, rel=1e-12)
    with pytest.raises(Intractable, match="point mass"):
        f(x=1.5)


def test_draws_of_spike_and_slab() -> None:
    found = spike().sample(jax.random.key(0), "x", n=4000)["x"]
    assert abs(np.mean(found == 1.5) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)
    slab = found[found != 1.5]
    assert abs(slab.mean()) < 5 / np.sqrt(slab.size)


def test_atoms_alone_at_a_point() -> None:
    f = fb.Delta(x=1.5) + 2.0 * fb.Delta(x=2.5)
    assert [float(f(x=at)) for at in (1.5, 2.5, 2.0)] == pytest.approx([1.0, 2.0, 0.0])


# -- mixtures of other densities ------------------------------------------------------------------------------------


def test_gammas_are_evaluable() -> None:
    f = gammas()
    assert isinstance(f, fb.Mixture) and f.inputs == {"s": fb.Positive}
    assert float(f(s=0.4).log()) == pytest.approx(float(np.log(gamma_density(0.4))), rel=1e-12)
    assert float((f * f)(s=0.4).log()) == pytest.approx(2 * float(np.log(gamma_density(0.4))), rel=1e-12)


def test_gammas_have_mass_one() -> None:
    assert float(gammas().sum("s")) == pytest.approx(1.0, rel=1e-12)
    assert float(gammas().normalize().sum("s")) == pytest.approx(1.0, rel=1e-12)


def test_normalized_gammas() -> None:
    assert float((4.0 * gammas()).normalize()(s=0.4)) == pytest.approx(float(gamma_density(0.4)), rel=1e-12)


def test_moments_of_gammas() -> None:
    mean = W @ SHAPES / 1.5
    assert float(gammas().mean("s")) == pytest.approx(mean, rel=1e-12)
    variance = W @ (SHAPES / 2.25 + (SHAPES / 1.5) ** 2) - mean**2
    assert float(gammas().variance("s")) == pytest.approx(variance, rel=1e-12)


@pytest.mark.slow
def test_draws_of_gammas() -> None:
    found = gammas().sample(jax.random.key(0), "s", n=4000)["s"]
    mean = W @ SHAPES / 1.5
    variance = W @ (SHAPES / 2.25 + (SHAPES / 1.5) ** 2) - mean**2
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / 4000)


def test_sum_of_different_families() -> None:
    f = dist.Gamma(2.0, 1.0)("s") + dist.LogNormal(0.0, 1.0)("s")
    assert float(f(s=0.4)) == pytest.approx(stats.gamma.pdf(0.4, 2.0) + stats.lognorm.pdf(0.4, 1.0), rel=1e-12)
    assert float(f.sum("s")) == pytest.approx(2.0, rel=1e-12)


def test_product_of_mixtures_of_gammas() -> None:
    found = float((gammas() * gammas()).sum("s"))
    expected = integrate.quad(lambda at: float(gammas()(s=at)) ** 2, 0.0, 60.0, epsabs=1e-12, limit=200)[0]
    assert found == pytest.approx(expected, rel=1e-8)


# -- draws, marginals, transformations ------------------------------------------------------------------------------


def test_moments_of_draws() -> None:
    found = three().sample(jax.random.key(0), "x", n=20_000)["x"]
    mean = W @ LOC
    variance = W @ (SCALE**2 + LOC**2) - mean**2
    assert found.shape == (20_000,) and found.dtype == np.float64
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / 20_000)
    assert abs(found.var() - variance) < 0.1
    edges = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    frequencies = np.mean(found[:, None] <= edges, 0)
    assert np.all(np.abs(frequencies - stats.norm.cdf(edges[:, None], LOC, SCALE) @ W) < 5 * 0.5 / np.sqrt(20_000))


def test_draws_for_each_cell() -> None:
    loc = np.array([[-9.0, 9.0], [0.0, 0.0]])
    m = (fb.Table([0.5, 0.5], ("k",)) * dist.Normal(fb.Array(loc, ("i", "k")), 1.0)("x")).sum("k")
    found = m.sample(jax.random.key(0), "x", n=4000)["x"]
    assert found.shape == (4000, 2)
    np.testing.assert_allclose(found.var(0), [82.0, 1.0], rtol=0.1)


def test_joint_draws_of_index_and_value() -> None:
    found = (weights() * components()).sample(jax.random.key(0), "k", "x", n=20_000)
    for k in range(3):
        mine = found["x"][found["k"] == k]
        assert abs(mine.mean() - LOC[k]) < 5 * SCALE[k] / np.sqrt(mine.size)
        assert abs(mine.size / 20_000 - W[k]) < 5 * 0.5 / np.sqrt(20_000)


def test_marginals() -> None:
    found = fb.marginals([weights(), components(), dist.Normal(X, 0.8)(0.9)], ("k", "x"))
    p = density(GRID) * stats.norm.pdf(0.9, GRID, 0.8)
    assert float(found["x"].mean("x")) == pytest.approx(simpson(GRID * p) / simpson(p), rel=1e-9)
    share = W * stats.norm.pdf(0.9, LOC, np.sqrt(SCALE**2 + 0.64))
    np.testing.assert_allclose(np.exp(to_array(found["k"].log()).data), share / share.sum(), rtol=1e-10)


def test_map_over_index_and_value() -> None:
    """The discrete variable in the same question: no mixture arises."""
    found = fb.argmax([weights(), components()], ("k", "x"))
    best = int(np.argmax(W / SCALE))
    assert found["k"] == best and found["x"] == pytest.approx(LOC[best])


def test_mixture_program_against_enumeration() -> None:
    """Component means z[c] with normal priors, eight data in a plate: log-evidence over all 2⁸ assignments."""
    data = np.array([-1.2, 0.3, 0.8, 2.5, -0.7, 1.9, 2.2, -2.0])
    z0, z1 = fb.Variable("z0", fb.Real), fb.Variable("z1", fb.Real)
    factors = [dist.Normal(0.0, 2.0)("z0"), dist.Normal(0.0, 2.0)("z1")]
    for position, datum in enumerate(data):
        c = fb.Variable(f"c{position}", fb.Bint[2])
        mean = fb.ops.where(fb.ops.equal(c, 0), z0, z1)
        factors += [fb.Table([0.4, 0.6], (f"c{position}",)), dist.Normal(mean, 1.0)(datum)]
    names = ("z0", "z1", *(f"c{position}" for position in range(8)))
    found = float(fb.eliminate(factors, sum=names).log())
    total = []
    for code in range(2**8):
        chosen = (code >> np.arange(8)) & 1
        log = np.log(0.4) * np.sum(chosen == 0) + np.log(0.6) * np.sum(chosen == 1)
        for c in (0, 1):
            mine = data[chosen == c]
            if mine.size:
                covariance = np.eye(mine.size) + 4.0
                log += stats.multivariate_normal(np.zeros(mine.size), covariance).logpdf(mine)
        total.append(log)
    assert found == pytest.approx(np.logaddexp.reduce(total), rel=1e-9)


def test_recorded_and_evaluated() -> None:
    with fb.lazy:
        e = (weights() * components()).sum("k")
    assert not isinstance(e, fb.Mixture)
    assert float(fb.evaluate(e)(x=0.3)) == pytest.approx(float(density(0.3)), rel=1e-12)


def test_derivatives() -> None:
    def log(a: Any) -> Any:
        loc = fb.Array(a * jnp.asarray(LOC), ("k",))
        return (weights() * dist.Normal(loc, 1.0)("x")).sum("k")(x=0.3).log().data

    def right(a: float) -> float:
        return float(np.log(stats.norm.pdf(0.3, a * LOC) @ W))

    with jax.enable_x64(True):
        first = jax.grad(log)(1.0)
    assert float(first) == pytest.approx((right(1 + 1e-5) - right(1 - 1e-5)) / 2e-5, rel=1e-7)


def test_under_jit_and_vmap() -> None:
    at = jnp.asarray([-1.0, 0.3, 2.0])
    found = jax.jit(jax.vmap(lambda x: three()(x=x).log().data))(at)
    np.testing.assert_allclose(found, np.log(density(at)), rtol=1e-5)


def test_moments_under_jit() -> None:
    def moments(w: Any) -> Any:
        m = (fb.Table(w, ("k",)) * components()).sum("k")
        return m.mean("x").data, m.variance("x").data

    mean, variance = jax.jit(moments)(jnp.asarray(W))
    assert float(mean) == pytest.approx(W @ LOC, rel=1e-5)
    assert float(variance) == pytest.approx(W @ (SCALE**2 + LOC**2) - (W @ LOC) ** 2, rel=1e-5)


def test_normalize_mixture_of_families():
    """Components are divided by the mass of all of them, not each by its own."""
    f = 0.2 * dist.Gamma(2.0, 3.0)("x") + 0.3 * dist.LogNormal(0.0, 1.0)("x")
    np.testing.assert_allclose(float(f.normalize()(x=0.7).log()), float(f(x=0.7).log()) - np.log(0.5), rtol=1e-10)
    np.testing.assert_allclose(float(f.normalize().sum("x")), 1.0)
    along = dist.Gamma(fb.Array(np.array([2.0, 3.0]), ("k",)), 1.0)("x")
    f = (fb.Table([0.2, 0.3], ("k",)) * along).sum("k")
    np.testing.assert_allclose(float(f.normalize()(x=0.7).log()), float(f(x=0.7).log()) - np.log(0.5), rtol=1e-10)
