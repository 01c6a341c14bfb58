"""Program 8 of the north star: a mixture, means and weights integrated out, labels drawn by a compiled sweep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Disagreement


@fb.model
def gmm(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 14.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


def test_program_8() -> None:
    g, key = np.random.default_rng(0), jax.random.key(0)
    truth = g.integers(0, 50, 10_000)
    data = g.normal(g.normal(0.0, 14.0, 50)[truth], 1.0)
    post = gmm(10_000, 50).condition(s=data)
    sampler = post.eliminate("theta", "mu").gibbs("y")
    with pytest.warns(Disagreement, match="'y'"):  # chains name the classes in orders of their own
        draws = sampler.run(key, sweeps=100, chains=2)
    assert draws["y"].shape == (2, 100, 10_000)
    assert "for k in range(50):" in sampler.source()
    assert sampler.passes == ("histogram", "difference", "hoist", "fuse", "specialise", "propose")
    last = draws["y"][:, -1]
    together = [np.mean([len(np.unique(data[(y == c)].round(-1))) <= 3 for c in range(50)]) for y in last]
    assert min(together) > 0.9  # a class is a run of near numbers
    spread = [np.sqrt(np.mean([np.var(data[y == c]) for c in np.unique(y)])) for y in last]
    assert max(spread) < 2.0 < np.std(data)
    program = fb.simplify(post).source()
    assert "theta = yield Dirichlet" in program and "mu = yield" in program
