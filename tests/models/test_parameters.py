"""Learnable parameters the JAX way: joints are pytrees, `fb.param` keeps its support, `fb.fit` climbs."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize, stats

import fubini as fb
from fubini import dist
from fubini.models.learnt import params

KEY = jax.random.key(0)


def paper(loc: Any, scale: Any) -> fb.Joint:
    """Section 5 of the paper."""
    return fb.JointSequential([dist.InverseGamma(3.0, scale), dist.Normal(loc, 100.0)])


# -- a joint is a pytree -----------------------------------------------------------------------------------------------


def test_the_values_of_the_paper() -> None:
    """A20."""
    assert float(paper(0.0, 2.0).log_prob([1.0, 0.0])) == pytest.approx(-6.1378145, abs=1e-6)
    assert float(paper(-7.0, 0.25).log_prob([1.0, 0.0])) == pytest.approx(-10.62859, rel=1e-6)
    slopes = jax.grad(lambda loc, scale: paper(loc, scale).log_prob([1.0, 0.0]), (0, 1))(0.0, 2.0)
    assert [float(slope) for slope in slopes] == pytest.approx([0.0, 0.5], abs=1e-6)


def test_leaves_are_parameters() -> None:
    assert [float(leaf) for leaf in jax.tree_util.tree_leaves(paper(0.0, 2.0))] == [3.0, 2.0, 0.0, 100.0]
    slope = jax.grad(lambda joint: joint.log_prob([1.0, 0.0]))(jax.tree_util.tree_map(jnp.float32, paper(0.0, 2.0)))
    assert isinstance(slope, fb.JointSequential)
    assert float(jax.tree_util.tree_leaves(slope)[1]) == pytest.approx(0.5, abs=1e-6)


def test_jit_and_vmap_over_joints() -> None:
    """A20."""
    found = jax.jit(lambda joint, value: joint.log_prob(value))(paper(0.0, 2.0), [1.0, 0.0])
    assert float(found) == pytest.approx(-6.1378145, abs=1e-6)
    two = jax.tree_util.tree_map(
        lambda *leaves: jnp.stack([jnp.float32(leaf) for leaf in leaves]), *map(paper, (0.0, -7.0), (2.0, 0.25))
    )
    found = jax.vmap(lambda joint: joint.log_prob([1.0, 0.0]))(two)
    np.testing.assert_allclose(found, [-6.1378145, -10.62859], rtol=1e-6)
    keys = jax.random.split(KEY, 3)
    walk = fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: dist.Normal(m, 1.0)])
    draws = jax.vmap(lambda key: jax.jit(lambda joint: joint.sample(key))(walk))(keys)
    assert [draw.shape for draw in draws] == [(3,), (3,)] and len(np.unique(draws[0])) == 3


def test_makers_that_close_over_tracers() -> None:
    """A20, where TFP cannot: what a maker captures is a leaf, so it crosses `jit`, `grad` and `vmap`."""

    def make(scale: Any) -> fb.Joint:
        return fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, scale)))

    def log_prob(joint: fb.Joint) -> Any:
        return joint.log_prob(m=0.0, x=1.0)

    want = stats.norm.logpdf(0.0) + stats.norm(0, 2).logpdf(1.0)
    assert float(jax.jit(lambda scale: jax.jit(log_prob)(make(scale)))(2.0)) == pytest.approx(want, abs=1e-6)
    assert float(jax.grad(lambda scale: jax.jit(log_prob)(make(scale)))(2.0)) == pytest.approx(1 / 8 - 1 / 2, abs=1e-6)
    inside = jax.grad(log_prob)(make(jnp.float32(2.0)))
    assert float(jax.tree_util.tree_leaves(inside)[-1]) == pytest.approx(-0.375, abs=1e-6)
    found = jax.vmap(lambda scale: log_prob(make(scale)))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(found, stats.norm.logpdf(0.0) + stats.norm(0, [1, 2]).logpdf(1.0), rtol=1e-6)


def test_draws_are_differentiable() -> None:
    """Of reparameterised families: x = 1 + scale · noise."""

    @fb.model
    def normal(scale: Any) -> Iterator[Any]:
        x = yield dist.Normal(1.0, scale)
        return x

    draw, slope = jax.value_and_grad(lambda scale: normal(scale).sample(KEY).x)(2.0)
    assert float(slope) == pytest.approx((float(draw) - 1.0) / 2.0, abs=1e-6)


def test_observed_data_are_leaves() -> None:
    def log_prob(x: Any) -> Any:
        return fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: dist.Normal(m, 1.0)]).condition(x=x).log_prob(0.2)

    assert float(jax.grad(log_prob)(0.5)) == pytest.approx(-0.3, abs=1e-6)
    np.testing.assert_allclose(
        jax.vmap(log_prob)(jnp.array([0.5, 1.0])),
        stats.norm.logpdf(0.2) + stats.norm(0.2).logpdf([0.5, 1.0]),
        rtol=1e-5,
    )


# -- fb.param ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "support", "free"),
    [
        (2.0, fb.Positive, np.log(2.0)),
        (-1.5, fb.Real, -1.5),
        (0.25, fb.Unit, np.log(1 / 3)),
        ([0.5, 0.25, 0.25], fb.Simplex, None),
        ([[1.0, 2.0]], fb.Positive, np.log([[1.0, 2.0]])),
    ],
)
def test_a_parameter_is_held_unconstrained(value: Any, support: Any, free: Any) -> None:
    """A20: as TransformedVariable."""
    param = fb.param(value, support)
    np.testing.assert_allclose(param.value, value, rtol=1e-12)
    (leaf,) = jax.tree_util.tree_leaves(param)
    if free is not None:
        np.testing.assert_allclose(leaf, free, rtol=1e-12)
    moved = jax.tree_util.tree_map(lambda number: number - 50.0, param)
    assert np.all(np.isfinite(moved.value)) and (support is fb.Real or np.all(np.asarray(moved.value) >= 0))


def test_parameters_in_a_joint() -> None:
    joint = paper(fb.param(0.0), fb.param(2.0, fb.Positive))
    assert float(joint.log_prob([1.0, 0.0])) == pytest.approx(-6.1378145, abs=1e-6)
    assert [float(param.value) for param in params(joint)] == [2.0, 0.0]
    assert len(params(joint.condition([1.0, 0.0]))) == 2 and params(paper(0.0, 2.0)) == []


# -- fb.fit ------------------------------------------------------------------------------------------------------------

DATA = np.array([1.0, 2.0, 4.0, 4.5])


def test_maximum_likelihood_of_a_normal() -> None:
    """The mean, and the deviation around it."""
    normal = dist.Normal(fb.param(0.0), fb.param(1.0, fb.Positive)).expand([4])
    model, objective = fb.fit(fb.JointNamed(dict(x=normal)).condition(x=DATA), steps=600, progress=False)
    assert [float(param.value) for param in params(model)] == pytest.approx([DATA.mean(), DATA.std()], abs=1e-4)
    assert objective.shape == (600,) and objective[-1] > objective[0]
    want = stats.norm(DATA.mean(), DATA.std()).logpdf(DATA).sum()
    assert objective[-1] == pytest.approx(want, abs=1e-6) and float(model.log_prob()) == pytest.approx(want, abs=1e-6)


def test_maximum_likelihood_with_an_objective() -> None:
    """A batch of samples, an optimizer of one's own, parameters inside a maker."""

    @fb.model
    def exponential(rate: Any) -> Iterator[Any]:
        x = yield dist.Exponential(rate)
        return x

    start = exponential(fb.param(1.0, fb.Positive))
    model, _ = fb.fit(
        start, lambda joint: joint.log_prob(x=DATA).sum(), steps=300, optimizer=optax.adam(0.1), progress=False
    )
    (rate,) = params(model)
    assert float(rate.value) == pytest.approx(1 / DATA.mean(), abs=1e-4)


@fb.model
def hierarchy(spread: Any, count: int) -> Iterator[Any]:
    """m_i ~ N(0, spread²), x_i ~ N(m_i, 1): marginally x_i ~ N(0, spread² + 1)."""
    m = yield dist.Normal(0.0, spread).expand([count])
    x = yield dist.Normal(m, 1.0)
    return x


def test_type_two_maximum_likelihood() -> None:
    """The latent sites are summed out exactly: spread² = mean x² − 1."""
    post = hierarchy(fb.param(1.0, fb.Positive), 4).condition(x=DATA)
    want = np.sqrt(np.mean(DATA**2) - 1.0)
    model, objective = fb.fit(post, steps=600, progress=False)
    (spread,) = params(model)
    assert float(spread.value) == pytest.approx(want, abs=1e-4)
    exact = stats.norm(0, np.sqrt(want**2 + 1)).logpdf(DATA).sum()
    assert objective[-1] == pytest.approx(exact, abs=1e-8)
    best = optimize.minimize_scalar(lambda s: -stats.norm(0, np.sqrt(s * s + 1)).logpdf(DATA).sum(), (0.5, 4.0)).x
    assert float(spread.value) == pytest.approx(abs(best), abs=1e-4)


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    post = fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), 1.0))).condition(x=1.0)
    fb.fit(post, steps=40)
    assert "fit: 100%" in capsys.readouterr().err
    fb.fit(post, steps=40, progress=False)
    assert capsys.readouterr().err == ""
