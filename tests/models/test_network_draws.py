"""`infer` on networks: exact draws by the plan of their tables, or an honest refusal."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import fubini as fb


def random_network(count: int, states: int, parents: int = 3) -> fb.Network:
    rng = np.random.default_rng(0)
    variables, factors = {}, []
    for child in range(count):
        before = [f"x{p}" for p in sorted(rng.choice(child, min(parents, child), replace=False))]
        variables[f"x{child}"] = fb.Bint[states]
        cells = rng.dirichlet(np.ones(states), size=(states,) * len(before))
        factors.append(fb.Table(cells, (*before, f"x{child}")))
    return fb.Network(variables, tuple(factors), children=tuple(variables))


def test_draws_are_those_of_the_posterior() -> None:
    net = random_network(12, 3)
    post = net.joint().condition(x11=1)
    draws = post.infer(jax.random.key(0), draws=10_000, chains=2, progress=False).posterior
    assert draws.attrs["method"] == "exact" and set(draws.data_vars) == set(net.variables) - {"x11"}
    given = net.condition(x11=1)
    for name, marginal in given.marginals().items():
        shares = np.bincount(draws[name].values.ravel(), minlength=3) / 20_000
        np.testing.assert_allclose(shares, marginal.weights, atol=5 * 0.5 / np.sqrt(20_000))
    pair = given.marginal("x9", "x10")
    drawn = np.zeros((3, 3))
    np.add.at(drawn, (draws["x9"].values.ravel(), draws["x10"].values.ravel()), 1 / 20_000)
    order = [list(pair.inputs).index(name) for name in ("x9", "x10")]
    np.testing.assert_allclose(drawn, np.exp(pair.log().data).transpose(order), atol=5 * 0.5 / np.sqrt(20_000))


def test_past_the_memory_limit_approximations_are_named() -> None:
    net = random_network(26, 16, 3)
    with pytest.raises(
        fb.errors.MemoryLimit,
        match=r"(?s)infer\(…\) of 25 variables.*exact draws.*method=\"belief propagation\".*method=\"gibbs\"",
    ):
        net.joint().condition(x25=0).infer(jax.random.key(0), progress=False)
    with pytest.raises(fb.errors.MemoryLimit, match=r'(?s)GiB.*fb.propagate\(factors, method="belief propagation"\)'):
        net.log_evidence(memory_limit=2**10)


def test_what_is_named_serves() -> None:
    net = random_network(16, 3, 2).condition(x15=0)
    loopy = fb.propagate(net.observed_factors, method="belief propagation")
    assert loopy.converged
    exact = net.marginals()
    assert max(np.abs(loopy.marginals[name].weights - exact[name].weights).max() for name in exact) < 0.1
