"""Conditionals at the edges: high powers, probabilities of 0 and 1, latents that only a start reads, odd names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import NoRule

Y = np.array([0, 1, 2, 0, 1])
G = np.random.default_rng(0)


@fb.model
def wide():
    y = yield dist.Categorical(jnp.ones(3) / 3).expand([5])
    s = yield dist.Normal(0.0, jnp.array([0.1, 1.0, 10.0])[y][:, None]).expand([5, 400])


@fb.model
def tries():
    y = yield dist.Categorical(jnp.ones(3) / 3).expand([5])
    s = yield dist.Binomial(4, jnp.array([0.0, 1.0, 0.5])[y])


@fb.model
def rare():
    y = yield dist.Categorical(jnp.ones(3) / 3).expand([5])
    s = yield dist.Poisson(jnp.array([0.0, 1.0, 0.5])[y])


CASES = {
    "wide": (wide(), G.normal(0.0, 2.0, (5, 400))),
    "tries": (tries(), np.array([0, 4, 1, 0, 4])),
    "rare": (rare(), np.array([0, 4, 1, 0, 2])),
}


def enumerated(post, name, place, **values):
    every = np.repeat(values[name][None], 3, 0)
    every[:, place] = range(3)
    logs = np.array([float(post.log_prob(**{**values, name: one})) for one in every])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("engine", ["python", "numba"])
@pytest.mark.parametrize("name", CASES)
def test_conditional_equals_enumeration(name: str, engine: str) -> None:
    model, s = CASES[name]
    post = model.condition(s=s)
    sampler = post.gibbs("y", engine=engine)
    for place in range(5):
        assert np.abs(sampler.conditional("y", place, y=Y) - enumerated(post, "y", place, y=Y)).max() < 1e-9


def test_a_latent_that_only_the_start_reads() -> None:
    """A rate of its own for the precisions: what is kept begins at it."""

    @fb.model
    def mixture():
        beta = yield dist.HalfNormal(1.0)
        tau = yield dist.Gamma(2.0, beta).expand([3])
        mu = yield dist.Normal(0.0, 1 / jnp.sqrt(tau))
        y = yield dist.Categorical(jnp.ones(3) / 3).expand([5])
        s = yield dist.Normal(mu[y], 1 / jnp.sqrt(tau[y]))

    post = mixture().condition(s=np.array([-2.0, 0.1, 0.4, 1.0, 3.0])).eliminate("mu", "tau")
    sampler = post.gibbs("y", engine="python")
    for place, beta in ((0, 0.3), (3, 2.0)):
        exact = enumerated(post, "y", place, y=Y, beta=beta)
        assert np.abs(sampler.conditional("y", place, y=Y, beta=beta) - exact).max() < 1e-9


def test_doses_are_finite() -> None:
    @fb.model
    def doses():
        rate = yield dist.Gamma(2.0, 1.0)
        y = yield dist.DiscreteUniform(1, 3).expand([4])
        s = yield dist.Poisson(rate * y)

    sampler = doses().condition(s=np.array([1, 4, 2, 0])).eliminate("rate").gibbs(engine="python")
    assert sampler.names == ("y",)
    assert set(np.unique(sampler.run(jax.random.key(0), sweeps=20)["y"])) == {1, 2, 3}


def test_a_function_of_labels_that_is_not_read() -> None:
    """It is reported whichever passes are left out."""
    times = np.array([0.5, 1.0, 2.5])

    @fb.model
    def point():
        tau = yield dist.Categorical(jnp.ones(3) / 3)
        s = yield dist.Normal(jnp.where(times == tau, 1.0, 0.0), 1.0)

    for without in ((), ("difference",)):
        with pytest.raises(NoRule, match="a compiled sampler of 'tau'"):
            point().condition(s=np.zeros(3)).gibbs("tau", engine="python", without=without).source()


def test_a_division_by_zero_is_infinite_in_plain_python_too() -> None:
    from fubini.compile.machine import interpreted

    source = "from numba import njit\n\n\n@njit()\ndef inverse(x):\n    return 1.0 / x\n"
    with np.errstate(divide="ignore"):
        assert interpreted(source).inverse(0.0) == np.inf
