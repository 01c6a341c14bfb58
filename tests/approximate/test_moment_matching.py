"""Moment matching: mass, mean and covariance of a mixture are kept; nothing else is touched, and the result says so."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

ENGINES = [pytest.param(np.asarray, id="numpy"), pytest.param(jnp.asarray, id="jax")]
every_engine = pytest.mark.parametrize("engine", ENGINES)
MARK = "projected(moment_matching(window=1))"


def tolerance(engine: Callable) -> float:
    return 1e-11 if engine is np.asarray else 2e-4


def oracle(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> tuple[Any, Any, Any]:
    """Mass, mean and covariance of Σ_c w_c N(m_c, V_c); components first, by raw second moments."""
    mass = weights.sum()
    mean = np.einsum("c,ci->i", weights, means) / mass
    second = np.einsum("c,cij->ij", weights, covariances + means[:, :, None] * means[:, None, :]) / mass
    return mass, mean, second - np.outer(mean, mean)


def moments(g: fb.Gaussian, *names: str) -> tuple[Any, Any, Any]:
    """Mass, mean and covariance over all of the names, flattened; batch axes first."""
    mass = np.asarray(g.sum(*names).log().data)
    means = [np.asarray(alone(g, name).mean(name).data) for name in names]
    batch = mass.shape
    flat = np.concatenate([mean.reshape((*batch, -1)) for mean in means], axis=-1)
    size = flat.shape[-1]
    second = np.asarray(covariance_of(g, *names)).reshape((*batch, size, size))
    return np.exp(mass), flat, second


def covariance_of(g: fb.Gaussian, *names: str) -> Any:
    """Of scalars, by E[x y] − E[x] E[y]; of one vector, as the Gaussian says."""
    if len(names) == 1:
        return g.variance(names[0]).data if g.inputs[names[0]] == fb.Real else g.covariance(names[0]).data
    centred = [fb.Variable(name, fb.Real) - alone(g, name).mean(name) for name in names]
    cells = [[fb.expectation(g, a * b, *names).data for b in centred] for a in centred]
    return np.moveaxis(np.asarray(cells), (0, 1), (-2, -1))


def alone(g: fb.Gaussian, name: str) -> Any:
    """The marginal of one real input."""
    others = [other for other, domain in g.inputs.items() if not domain.is_finite and other != name]
    return g.sum(*others) if others else g


def mixture(weights: Any, means: Any, covariances: Any, inputs: Mapping[str, fb.Domain]) -> fb.Factor:
    """w_k N(m_k, V_k) over k, other batch names and the real inputs."""
    batch = {name: domain for name, domain in inputs.items() if domain.is_finite}
    reals = [name for name in inputs if name not in batch]
    gaussian = fb.Gaussian(mean=means, covariance=covariances, inputs=dict(inputs))
    return gaussian.normalize(*reals) * fb.Table(weights, batch)


def matched(factor: fb.Factor, *names: str) -> Any:
    with fb.moment_matching():
        return factor.sum(*names)


def in_numpy(factor: fb.Factor) -> Any:
    """The same numbers in NumPy: what is asked of them is not compiled, operation by operation."""
    return jax.tree.map(np.asarray, factor)


# -- behaviour 19 ----------------------------------------------------------------------------------------------------


@every_engine
def test_two_wide_components(engine: Callable) -> None:
    """0.2 N(−2, 9) + 0.8 N(2, 16), scaled by exp(1.234): mean 1.2, variance 17.16, the mass kept."""
    inputs = {"k": fb.Bint[2], "x": fb.Real}
    f = mixture(
        engine([0.2 * math.exp(1.234), 0.8 * math.exp(1.234)]),
        engine([[-2.0], [2.0]]),
        engine([[[9.0]], [[16.0]]]),
        inputs,
    )
    g = in_numpy(matched(f, "k"))
    small = tolerance(engine)
    assert type(g) is fb.Gaussian and g.inputs == {"x": fb.Real}
    assert float(g.mean("x")) == pytest.approx(1.2, abs=small)
    assert float(g.variance("x")) == pytest.approx(4 * 0.8 * 0.2 * 4 + 0.2 * 9 + 0.8 * 16, rel=small)
    assert float(g.sum("x").log()) == pytest.approx(1.234, abs=small)
    assert repr(g.exactness) == MARK


@every_engine
@pytest.mark.parametrize("domain", [fb.Reals[2], None], ids=["one vector", "two scalars"])
def test_four_unit_components(engine: Callable, domain: fb.Domain | None) -> None:
    """Unit Gaussians at (±10, ±1) become one of covariance diag(101, 2)."""
    means = engine([[10.0, 1.0], [10.0, -1.0], [-10.0, 1.0], [-10.0, -1.0]])
    reals = {"x": domain} if domain is not None else {"u": fb.Real, "v": fb.Real}
    f = mixture(engine([1.0] * 4), means, engine(np.broadcast_to(np.eye(2), (4, 2, 2))), {"k": fb.Bint[4], **reals})
    mass, mean, covariance = moments(in_numpy(matched(f, "k")), *reals)
    small = tolerance(engine)
    np.testing.assert_allclose(mass, 4.0, rtol=small)
    np.testing.assert_allclose(mean, [0.0, 0.0], atol=small)
    np.testing.assert_allclose(covariance, [[101.0, 0.0], [0.0, 2.0]], atol=10 * small)


@every_engine
@pytest.mark.parametrize("weights", [[0.0, 1.0, 3.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]])
def test_components_without_weight(engine: Callable, weights: list) -> None:
    """A component of weight zero takes no part, wherever it stands; all stays finite."""
    means, covariances = np.array([[1e3], [-1.0], [2.0]]), np.array([[[1e4]], [[1.0]], [[2.0]]])
    f = mixture(engine(weights), engine(means), engine(covariances), {"k": fb.Bint[3], "x": fb.Real})
    g = in_numpy(matched(f, "k"))
    mass, mean, covariance = oracle(np.array(weights), means, covariances)
    small = tolerance(engine)
    assert float(g.sum("x").log()) == pytest.approx(math.log(mass), abs=small)
    assert float(g.mean("x")) == pytest.approx(mean[0], rel=small)
    assert float(g.variance("x")) == pytest.approx(covariance[0, 0], rel=small)


@every_engine
def test_no_component_with_weight(engine: Callable) -> None:
    """A mixture without mass has no mass afterwards; in a batch the other cells are as they should be."""
    weights = engine([[0.0, 0.0], [1.0, 3.0]])
    f = fb.Table(weights, ("i", "k")) * dist.Normal(fb.Array(engine([-1.0, 1.0]), ("k",)), 1.0)("x")
    g = in_numpy(matched(f, "k"))
    np.testing.assert_allclose(np.exp(np.asarray(g.sum("x").log().data)), [0.0, 4.0], rtol=tolerance(engine))
    assert float(g(i=1).mean("x")) == pytest.approx(0.5, rel=tolerance(engine))
    assert float(g(i=1).variance("x")) == pytest.approx(1.75, rel=tolerance(engine))


def questions(parameters: Mapping[str, Any]) -> Any:
    """Log-mass, mean and variance of a mixture matched, from its parameters."""
    loc, scale = (fb.Array(parameters[name], ("k",)) for name in ("loc", "scale"))
    g = matched(fb.Table(parameters["weights"], ("k",)) * dist.Normal(loc, scale)("x"), "k")
    return jnp.stack([g.sum("x").log().data, g.mean("x").data, g.variance("x").data])


def by_hand(parameters: Mapping[str, Any]) -> Any:
    """The same from the formulas."""
    w, loc, scale = (parameters[name] for name in ("weights", "loc", "scale"))
    mean = (w * loc).sum() / w.sum()
    return jnp.stack([jnp.log(w.sum()), mean, (w * (scale**2 + loc**2)).sum() / w.sum() - mean**2])


DERIVATIVES = [jax.jit(jax.jacrev(questions)), jax.jit(jax.jacfwd(questions))]  # compiled once for all weights


@pytest.mark.parametrize("weights", [[0.2, 0.5, 0.3], [0.0, 0.5, 0.3], [0.0, 0.0, 2.0]])
def test_derivatives(weights: list) -> None:
    """Under jit, forwards and backwards, they are those of the formulas, also at weight zero; all finite."""
    at = {"weights": jnp.array(weights), "loc": jnp.array([-1.0, 0.5, 2.0]), "scale": jnp.array([0.5, 1.0, 2.0])}
    want = jax.jacobian(by_hand)(at)
    for derivative in DERIVATIVES:
        found = derivative(at)
        for name in at:
            np.testing.assert_allclose(found[name], want[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_vmap() -> None:
    """Mapped over mixtures it does to each what it does alone, under jit too."""
    rng = np.random.default_rng(3)
    many = {name: jnp.asarray(rng.uniform(0.2, 2.0, (5, 3)), jnp.float32) for name in ("weights", "loc", "scale")}
    alone = jax.jit(questions)
    each = jnp.stack([alone({name: data[i] for name, data in many.items()}) for i in range(5)])
    np.testing.assert_allclose(jax.jit(jax.vmap(questions))(many), each, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(by_hand)(many), each, rtol=1e-4, atol=1e-5)


# -- random mixtures -------------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize(("shared", "seed"), [(False, 0), (True, 1)], ids=["own covariances", "one covariance"])
def test_random_mixtures_with_batch_inputs(engine: Callable, seed: int, shared: bool) -> None:
    """Each cell of the batch (i, j) is matched by itself; two labels may be summed at once."""
    rng = np.random.default_rng(seed)
    B, J, K, M, D = 2, 3, 3, 2, 3
    weights = rng.gamma(0.5, size=(B, J, K, M))
    means = rng.normal(size=(B, K, M, D)) * 3
    roots = rng.normal(size=(1 if shared else B, 1 if shared else K, 1 if shared else M, D, D))
    covariances = np.broadcast_to(roots @ roots.swapaxes(-1, -2) + 0.3 * np.eye(D), (B, K, M, D, D))
    inputs = {"i": fb.Bint[B], "k": fb.Bint[K], "m": fb.Bint[M], "x": fb.Real, "y": fb.Reals[2]}

    def build(means: Any, covariances: Any, weights: Any) -> Any:
        gaussian = fb.Gaussian(mean=means, covariance=covariances, inputs=inputs).normalize("x", "y")
        return matched(gaussian * fb.Table(weights, ("i", "j", "k", "m")), "k", "m")

    run = build if engine is np.asarray else jax.jit(build)
    g = in_numpy(run(engine(means), engine(np.array(covariances)), engine(weights)))
    assert type(g) is fb.Gaussian and repr(g.exactness) == MARK
    assert set(g.inputs) == {"i", "j", "x", "y"}
    tight = tolerance(engine)
    for i in range(B):
        for j in range(J):
            cell = g(i=i, j=j)
            parts = (weights[i, j].ravel(), means[i].reshape(-1, D), covariances[i].reshape(-1, D, D))
            mass, mean, covariance = oracle(*parts)
            assert float(cell.sum("x", "y").log()) == pytest.approx(math.log(mass), abs=tight)
            np.testing.assert_allclose(alone(cell, "x").mean("x").data, mean[0], rtol=tight, atol=tight)
            np.testing.assert_allclose(alone(cell, "y").mean("y").data, mean[1:], rtol=tight, atol=tight)
            np.testing.assert_allclose(alone(cell, "x").variance("x").data, covariance[0, 0], rtol=10 * tight)
            np.testing.assert_allclose(
                alone(cell, "y").covariance("y").data, covariance[1:, 1:], rtol=10 * tight, atol=10 * tight
            )
            x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Reals[2])
            cross = fb.expectation(cell, (x - mean[0]) * (y[1] - mean[2]), "x", "y")
            assert float(cross) == pytest.approx(covariance[0, 2], rel=10 * tight, abs=10 * tight)


@every_engine
def test_masses_far_from_each_other(engine: Callable) -> None:
    """Log-masses of ±1000 nats neither over- nor underflow."""
    logs = engine([[1000.0, 1000.0 + math.log(3.0)], [-1000.0, -1000.0 + math.log(3.0)]])
    f = fb.Table.from_log(logs, ("i", "k")) * dist.Normal(fb.Array(engine([-1.0, 1.0]), ("k",)), 1.0)("x")
    g = in_numpy(matched(f, "k"))
    small = tolerance(engine)
    np.testing.assert_allclose(
        g.sum("x").log().data, np.array([1000.0, -1000.0]) + math.log(4.0), rtol=max(small, 1e-12)
    )
    np.testing.assert_allclose(np.broadcast_to(g.mean("x").data, (2,)), [0.5, 0.5], rtol=10 * small)
    np.testing.assert_allclose(np.broadcast_to(g.variance("x").data, (2,)), [1.75, 1.75], rtol=10 * small)


@every_engine
def test_gaussian_and_point(engine: Callable) -> None:
    """w₁ N(m, V) + w₂ δ(x = a): the point has covariance zero (a spike and slab)."""

    def build(shares: Any, at: Any, label: Any) -> Any:
        slab = dist.Normal(at[0], at[1])("x") * fb.Table(shares[0], ())
        spike = fb.Delta(x=at[2]) * fb.Table(shares[1], ())
        with fb.moment_matching():
            both = fb.Table(label, ("k",))
            return (slab * both + spike * both).sum("k")

    run = build if engine is np.asarray else jax.jit(build)
    g = in_numpy(run(engine([0.75, 0.25]), engine([1.0, 2.0, -3.0]), engine([0.5, 1.5])))
    mass, mean, covariance = oracle(np.array([1.5, 0.5]), np.array([[1.0], [-3.0]]), np.array([[[4.0]], [[0.0]]]))
    small = tolerance(engine)
    assert type(g) is fb.Gaussian and repr(g.exactness) == MARK
    assert float(g.sum("x").log()) == pytest.approx(math.log(mass), abs=small)
    assert float(g.mean("x")) == pytest.approx(mean[0], abs=small)
    assert float(g.variance("x")) == pytest.approx(covariance[0, 0], rel=small)


@every_engine
def test_points_with_labels(engine: Callable) -> None:
    """Σ_k w_k δ(x = a_k) has a mean and a variance too."""
    points, weights = np.array([-1.0, 0.0, 4.0]), np.array([0.5, 0.25, 1.25])
    f = fb.Delta(x=fb.Array(engine(points), ("k",))) * fb.Table(engine(weights), ("k",))
    noisy = f + dist.Normal(engine(0.0), engine(1.0))("x") * fb.Table(engine([0.0, 0.0, 1.0]), ("k",))
    g = in_numpy(matched(noisy, "k"))
    mass, mean, covariance = oracle(
        np.append(weights, 1.0), np.append(points, 0.0)[:, None], np.array([0.0, 0.0, 0.0, 1.0])[:, None, None]
    )
    small = tolerance(engine)
    assert type(g) is fb.Gaussian
    assert float(g.sum("x").log()) == pytest.approx(math.log(mass), abs=small)
    assert float(g.mean("x")) == pytest.approx(mean[0], abs=small)
    assert float(g.variance("x")) == pytest.approx(covariance[0, 0], rel=small)


@every_engine
def test_in_an_elimination(engine: Callable) -> None:
    """A tree of labels: k is summed out of what depends on it, x then exactly; the evidence is exact, and is marked."""
    weights = engine([0.3, 0.7])
    f = [
        fb.Table(weights, ("k",)),
        dist.Normal(fb.Array(engine([-1.0, 2.0]), ("k",)), 1.0)("x"),
        dist.Normal(fb.Variable("x", fb.Real), 0.5)("y"),
    ]
    with fb.moment_matching():
        g = in_numpy(fb.eliminate(f, sum=("k", "x")))
    mean = 0.3 * -1 + 0.7 * 2
    assert type(g) is fb.Gaussian and set(g.inputs) == {"y"} and repr(g.exactness) == MARK
    small = tolerance(engine)
    assert float(g.mean("y")) == pytest.approx(mean, abs=small)
    assert float(g.variance("y")) == pytest.approx(1 + 0.25 + 0.3 + 0.7 * 4 - mean**2, rel=small)


# -- what it leaves alone --------------------------------------------------------------------------------------------


@every_engine
def test_what_is_exact_stays_exact(engine: Callable) -> None:
    """Sums of Tables, of Gaussians over a real variable, and of one term are as without it, and unmarked."""
    t = fb.Table(engine([[0.5, 0.8], [0.1, 0.3]]), ("a", "b"))
    g = dist.Normal(fb.Variable("y", fb.Real), 1.0)("x") * dist.Normal(engine(0.5), engine(2.0))("y")
    plain = (t.sum("a"), (t * g).sum("b", "y"), (t * g).sum("x"))
    with fb.moment_matching():
        found = (t.sum("a"), (t * g).sum("b", "y"), (t * g).sum("x"))
    for mine, want in zip(found, plain, strict=True):
        assert type(mine) is type(want) and mine.inputs == want.inputs
        assert mine.exactness.is_exact and want.exactness.is_exact
    at = {"x": 0.3, "a": 1}
    assert float(found[1](**at).log()) == pytest.approx(float(plain[1](**at).log()), abs=1e-6)
    np.testing.assert_array_equal(found[0].log().data, plain[0].log().data)


def test_outside_of_the_context_it_is_a_mixture() -> None:
    """The projection is in force inside of the context only, and marks only what it made."""
    f = fb.Table([0.2, 0.8], ("k",)) * dist.Normal(fb.Array([-1.0, 1.0], ("k",)), 1.0)("x")
    with fb.moment_matching(window=2) as inside:
        g = f.sum("k")
    assert repr(inside) == "moment_matching(window=2)"
    assert repr(g.exactness) == "projected(moment_matching(window=2))"
    assert type(f.sum("k")) is fb.Mixture and f.sum("k").exactness.is_exact
    assert repr((g * dist.Normal(0.0, 1.0)("x")).sum("x").exactness) == "projected(moment_matching(window=2))"


def test_entering_twice() -> None:
    """The inner context is the one in force; leaving it leaves the outer one."""
    f = fb.Table([0.2, 0.8], ("k",)) * dist.Normal(fb.Array([-1.0, 1.0], ("k",)), 1.0)("x")
    with fb.moment_matching(window=1):
        with fb.moment_matching(window=3):
            inner = f.sum("k")
        outer = f.sum("k")
    assert "window=3" in repr(inner.exactness) and repr(outer.exactness) == MARK


def test_evidence_of_a_mixture_is_not_changed() -> None:
    """∫ after matching is the mass of the mixture: N = Σ_k w_k."""
    rng = np.random.default_rng(5)
    weights, loc, scale = rng.gamma(1.0, size=4), rng.normal(size=4), rng.uniform(0.5, 2.0, 4)
    f = fb.Table(weights, ("k",)) * dist.Normal(fb.Array(loc, ("k",)), fb.Array(scale, ("k",)))("x")
    assert float(matched(f, "k").sum("x").log()) == pytest.approx(math.log(weights.sum()), abs=1e-12)


def test_a_mixture_of_conditionals_waits_for_a_prior() -> None:
    """Σ_k w_k N(x; a_k z, 1) has no moments: it stays an exact mixture until a prior of z joins it."""
    z = fb.Variable("z", fb.Real)
    slopes = fb.Table([0.25, 0.75], ("k",)) * dist.Normal(fb.Array([1.0, -2.0], ("k",)) * z, 1.0)("x")
    with fb.moment_matching():
        waiting = slopes.sum("k")
        g = (waiting * dist.Normal(0.5, 1.0)("z")).sum("z")
    assert type(waiting) is fb.Mixture and waiting.exactness.is_exact
    mass, mean, covariance = oracle(
        np.array([0.25, 0.75]), np.array([[0.5], [-1.0]]), np.array([1.0 + 1.0, 4.0 + 1.0])[:, None, None]
    )
    assert type(g) is fb.Gaussian and repr(g.exactness) == MARK
    assert float(g.sum("x").log()) == pytest.approx(math.log(mass), abs=1e-12)
    assert float(g.mean("x")) == pytest.approx(mean[0], abs=1e-12)
    assert float(g.variance("x")) == pytest.approx(covariance[0, 0], abs=1e-12)
