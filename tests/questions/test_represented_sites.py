"""Models under fb.represent: chains of one value, and plain sites whose thresholds differ."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)
REPRESENTATIONS = [fb.rep.Truncated(), fb.rep.Mixture(2), fb.rep.Grid((-7, 7), 400), fb.rep.Particles(4000, KEY)]


@fb.model
def walk(n: int) -> Any:
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.9 * x, 0.4), n)
    yield dist.Bernoulli(jnp.where(x > 0.3, 0.9, 0.1)).named("side")


@pytest.mark.parametrize("rep", REPRESENTATIONS, ids=repr)
def test_a_chain_of_one_value(rep: Any) -> None:
    """log Σ over the sides of 0.3 of their mass times 0.9 or 0.1"""
    post = walk(1).condition(side=np.array([1]))
    mass = 0.1 + 0.8 * scipy.stats.norm.sf(0.3)
    mean = 0.8 * scipy.stats.norm.pdf(0.3) / mass
    error = 0.03 if repr(rep) == "Particles(4000)" else 1e-3
    with fb.represent(x=rep):
        assert float(post.log_evidence()) == pytest.approx(np.log(mass), abs=error)
        marginal = post.marginal("x")
        assert marginal.inputs["x_place"] == fb.Bint[1]
        assert marginal.mean("x").data == pytest.approx([mean], abs=error)


def test_draws_and_the_mode_of_a_chain_of_one_value() -> None:
    post = walk(1).condition(side=np.array([1]))
    with fb.represent(x=fb.rep.Grid((-7, 7), 400)):
        assert post.infer(KEY, draws=5, chains=1).posterior["x"].shape == (1, 5, 1)
        assert post.map().x == pytest.approx([0.3325])  # the first middle above 0.3


@fb.model
def switches() -> Any:
    x0 = yield dist.Normal(0.0, 1.0)
    yield dist.Bernoulli(jnp.where(x0 > -0.5, 0.9, 0.1)).named("s0")
    x1 = yield dist.Normal(0.9 * x0, 0.4)
    yield dist.Bernoulli(jnp.where(x1 > 0.3, 0.9, 0.1)).named("s1")
    x2 = yield dist.Normal(0.9 * x1, 0.4)
    yield dist.Bernoulli(jnp.where(x2 > 1.0, 0.9, 0.1)).named("s2")


@pytest.mark.parametrize(("rep", "error"), [(fb.rep.Grid((-7, 7), 1400), 2e-3), (fb.rep.Truncated(), 0.05)], ids=repr)
def test_plain_sites_whose_thresholds_differ(rep: Any, error: float) -> None:
    points = np.linspace(-7, 7, 2801)[1:] - 0.0025
    move = scipy.stats.norm.pdf(points[None], 0.9 * points[:, None], 0.4) * 0.005
    likelihoods = [np.where(points > edge, high, 1 - high) for edge, high in ((-0.5, 0.9), (0.3, 0.1), (1.0, 0.9))]
    weight = scipy.stats.norm.pdf(points) * likelihoods[0] * 0.005
    for likelihood in likelihoods[1:]:
        weight = (weight @ move) * likelihood
    post = switches().condition(s0=1, s1=0, s2=1)
    with fb.represent(x=rep):
        assert float(post.log_evidence()) == pytest.approx(np.log(weight.sum()), abs=error)
        if isinstance(rep, fb.rep.Grid):
            mean = weight @ points / weight.sum()
            assert float(post.marginal("x2").mean("x2")) == pytest.approx(mean, abs=error)
