"""States before and after a step together, given everything: against elimination of the unrolled factors."""

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import Intractable

LENGTH = 4


@pytest.mark.parametrize("method", ["sequential", "parallel"])
def test_pairs_of_tables(method: str) -> None:
    """A batch, a global variable that is summed, and weights 400 nats apart."""
    random = np.random.default_rng(0)
    start, moves = random.random((2, 3)), random.random((2, 2, 3))
    seen = 400 * random.normal(size=(LENGTH, 2, 2))
    chain = fb.Chain(
        init=fb.Table(start, ("x", "g")),
        factor=fb.Table(moves, ("x", "y", "g")) * fb.Table.from_log(seen, ("t", "b", "y")),
        time="t",
        step={"x": "y"},
        sum=("g",),
        method=method,
    )
    found = chain.smooth_pairs().transposed(("t", "b", "x", "y")).weights
    steps = [
        factor
        for t in range(LENGTH)
        for factor in (
            fb.Table(moves, (f"x{t}", f"x{t + 1}", "g")),
            fb.Table.from_log(seen[t], ("b", f"x{t + 1}")),
        )
    ]
    factors = [fb.Table(start, ("x0", "g")), *steps]
    for t in range(LENGTH):
        gone = ["g", *(f"x{k}" for k in range(LENGTH + 1) if k not in (t, t + 1))]
        pair = fb.eliminate(factors, gone).normalize(f"x{t}", f"x{t + 1}")
        np.testing.assert_allclose(found[t], pair.transposed(("b", f"x{t}", f"x{t + 1}")).weights, rtol=1e-10)


def test_pairs_of_gaussians() -> None:
    """Means and covariances of both states together."""
    random = np.random.default_rng(1)
    data = random.normal(size=LENGTH)
    before, after = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
    step = fb.dist.Normal(0.8 * before, 0.5)("y") * fb.dist.Normal(after, 0.3)(fb.Array(data, ("t",)))
    chain = fb.Chain(init=fb.dist.Normal(1.0, 2.0)("x"), factor=step, time="t", step={"x": "y"})
    precision, info = np.zeros((LENGTH + 1, LENGTH + 1)), np.zeros(LENGTH + 1)
    precision[0, 0], info[0] = 1 / 4, 1 / 4
    for t, value in enumerate(data):
        row = np.eye(LENGTH + 1)[t + 1] - 0.8 * np.eye(LENGTH + 1)[t]
        precision += np.outer(row, row) / 0.25
        precision[t + 1, t + 1] += 1 / 0.09
        info[t + 1] += value / 0.09
    covariance = np.linalg.inv(precision)
    mean = covariance @ info
    pairs, alone = chain.smooth_pairs(), chain.smooth()
    for t in range(LENGTH):
        pair = pairs(t=t)
        point = {"x": 0.3, "y": -0.2}
        gap = np.array([0.3, -0.2]) - mean[t : t + 2]
        block = covariance[t : t + 2, t : t + 2]
        expected = -0.5 * (gap @ np.linalg.solve(block, gap) + np.linalg.slogdet(2 * np.pi * block)[1])
        assert float(pair.log()(**point)) == pytest.approx(expected, abs=1e-9)
        assert float(pair.sum("x").mean("y")) == pytest.approx(float(alone(t=t).mean("y")), abs=1e-10)


def test_pairs_that_there_are_not() -> None:
    lagged = fb.Table(jnp.ones((2, 2, 2)), ("c", "c1", "c3"))
    start = fb.Table(jnp.ones((2, 2)), ("c", "c1"))
    chain = fb.Chain(init=start, factor=lagged, time="t", step={("c", "c1"): ("c2", "c3")}, length=3)
    with pytest.raises(Intractable, match="one step apart"):
        chain.smooth_pairs()
