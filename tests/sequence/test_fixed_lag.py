"""Fixed-lag smoothing: against smoothers of chains of which nothing is seen after the window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, Intractable

LENGTH, LAG = 6, 2
RANDOM = np.random.default_rng(3)
MOVES, SEEN = RANDOM.dirichlet(np.ones(3), size=(LENGTH, 3)), RANDOM.random((LENGTH, 2, 3))
DATA = RANDOM.normal(size=(LENGTH, 2))


def table_chain(until: int = LENGTH, method: str | None = None) -> fb.Chain:
    """Moves that change with time, and a batch of two; nothing is seen from a step on."""
    is_seen = (np.arange(LENGTH) < until)[:, None, None]
    moves, seen = fb.Table(MOVES, ("t", "x", "y")), fb.Table(np.where(is_seen, SEEN, 1.0), ("t", "b", "y"))
    return fb.Chain(
        init=fb.Table([0.2, 0.3, 0.5], ("x",)), factor=moves * seen, time="t", step={"x": "y"}, method=method
    )


def gaussian_chain(until: int = LENGTH, method: str | None = None, data: np.ndarray = DATA) -> fb.Chain:
    """A level that is seen twice at each step."""
    before, after = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
    seen = dist.Normal(after, 0.3)(fb.Array(data, ("t", "b"))) ** fb.Array(1.0 * (np.arange(LENGTH) < until), ("t",))
    step = dist.Normal(0.8 * before + 0.1, 0.5)("y") * seen
    return fb.Chain(init=dist.Normal(1.0, 2.0)("x"), factor=step, time="t", step={"x": "y"}, method=method)


@pytest.mark.parametrize("method", ["sequential", "parallel"])
def test_tables(method: str) -> None:
    found = table_chain(method=method).smooth(lag=LAG)
    initial = table_chain(LAG).smooth().initial
    np.testing.assert_allclose(found.initial.transposed(("b", "x")).weights, initial.transposed(("b", "x")).weights)
    for t in range(LENGTH):
        expected = table_chain(t + 1 + LAG).smooth()(t=t).transposed(("b", "y")).weights
        np.testing.assert_allclose(found(t=t).transposed(("b", "y")).weights, expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["sequential", "parallel"])
def test_gaussians(method: str) -> None:
    found = gaussian_chain(method=method).smooth(lag=LAG)
    for t in range(LENGTH):
        expected = gaussian_chain(t + 1 + LAG).smooth()
        for moment in ("mean", "variance"):
            own, other = (getattr(each, moment)("y").data for each in (found, expected))
            np.testing.assert_allclose(own[t], other[t], rtol=1e-12)


def test_no_lag_and_a_lag_past_the_end() -> None:
    chain = table_chain()
    np.testing.assert_allclose(chain.smooth(lag=0).weights, chain.filter().weights)
    np.testing.assert_allclose(chain.smooth(lag=50).weights, chain.smooth().weights)


def test_under_jit_in_single_precision() -> None:
    smooth = jax.jit(lambda data: gaussian_chain(data=data).smooth(lag=LAG).mean("y").data)
    expected = gaussian_chain().smooth(lag=LAG).mean("y").data
    np.testing.assert_allclose(smooth(jnp.asarray(DATA, jnp.float32)), expected, rtol=2e-5)


def test_weights_far_below_the_least_number() -> None:
    far = fb.Table.from_log(np.log(SEEN) - 900.0, ("t", "b", "y")) * fb.Table(MOVES, ("t", "x", "y"))
    chain = table_chain()
    found = chain.over(chain.init, far).smooth(lag=4)
    np.testing.assert_allclose(found.weights, chain.smooth(lag=4).weights, rtol=1e-11)


@pytest.mark.parametrize("lag", [-1, 1.5, True, "2"])
def test_a_lag_that_is_no_number_of_steps(lag: object) -> None:
    with pytest.raises(DataError, match=r"smooth\(lag=.*\)\n.*a whole number of steps, at least 0"):
        table_chain().smooth(lag=lag)  # type: ignore[arg-type]


def test_pairs_of_a_lag() -> None:
    with pytest.raises(Intractable, match=r"pairs of states, of smooth\(lag=1\)"):
        _ = table_chain().smooth(lag=1).pairs


def test_a_representation_that_projects() -> None:
    with (
        fb.represent(x=fb.rep.Truncated()),
        pytest.raises(Intractable, match=r"smooth\(lag=2\) of Chain .*\n.*projected"),
    ):
        gaussian_chain().smooth(lag=2)
