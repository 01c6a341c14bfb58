"""Inside `jax.shard_map`, with its default checks, each device answers for its own rows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import fubini as fb
from fubini import dist

from .meshes import both_kinds, mesh_of
from .plate_models import cases

ROWS = 40
RNG = np.random.default_rng(4)
LINKS, SEEN = (RNG.random((ROWS, *shape)).astype(np.float32) + 0.1 for shape in ((3, 4), (4,)))
PRIOR = np.array([0.2, 0.5, 0.3], np.float32)
CASES = cases(ROWS)
AXIS = PartitionSpec("rows")


def placed(mesh: Any, *arrays: np.ndarray) -> list[jax.Array]:
    return [jax.device_put(array, NamedSharding(mesh, AXIS)) for array in arrays]


def on_each(function: Callable[..., Any], mesh: Any, out: PartitionSpec, *arrays: np.ndarray) -> Any:
    """What a function says of the rows of each device."""
    local = jax.shard_map(function, mesh=mesh, in_specs=AXIS, out_specs=out)
    return jax.tree.map(np.asarray, jax.jit(local)(*placed(mesh, *arrays)))


def tables(links: Any, seen: Any) -> list[fb.Factor]:
    return [fb.Table(jnp.asarray(PRIOR), ("w",)), *of_rows(links, seen)]


def of_rows(links: Any, seen: Any) -> list[fb.Factor]:
    return [fb.Table(links, ("i", "w", "z")), fb.Table(seen, ("i", "z"))]


def marginals(links: Any, seen: Any) -> dict[str, Any]:
    answers = fb.marginals(tables(links, seen), {"w": (), "z": ("i",)}, plates=("i",))
    return {"w": answers["w"].weights[None], "z": answers["z"].weights}


@both_kinds
def test_marginals_of_own_rows(kind: AxisType) -> None:
    answers = on_each(marginals, mesh_of(kind, rows=8), AXIS, LINKS, SEEN)
    for device in range(8):
        own = slice(5 * device, 5 * device + 5)
        expected = marginals(jnp.asarray(LINKS[own]), jnp.asarray(SEEN[own]))
        np.testing.assert_allclose(answers["w"][device], expected["w"][0], rtol=1e-5)
        np.testing.assert_allclose(answers["z"][own], expected["z"], rtol=1e-5)


def test_what_is_summed_over_devices_is_the_same_on_each() -> None:
    """An answer from sums is known not to differ between devices: its loops start with what does not vary."""

    def shared(links: Any, seen: Any) -> Any:
        message = fb.eliminate(of_rows(links, seen), sum=("z",)).product("i").log().data
        whole = fb.Table.from_log(jax.lax.psum(message, "rows"), ("w",)) * fb.Table(jnp.asarray(PRIOR), ("w",))
        return fb.marginals([whole, fb.Table(jnp.eye(3) + 1, ("w", "v"))], ("w", "v"))["w"].weights

    answer = on_each(shared, mesh_of(AxisType.Auto, rows=8), PartitionSpec(), LINKS, SEEN)
    factors = [*tables(jnp.asarray(LINKS), jnp.asarray(SEEN)), fb.Table(jnp.eye(3) + 1, ("w", "v"))]
    expected = fb.marginals(factors, {"w": (), "v": (), "z": ("i",)}, plates=("i",))["w"].weights
    np.testing.assert_allclose(answer, expected, rtol=1e-5)


def test_gaussians() -> None:
    def evidence(y: Any, sd: Any) -> Any:
        m = fb.Variable("m", fb.Real)
        factors = [dist.Normal(0.0, 2.0)("m"), dist.Normal(m, fb.Array(sd, ("i",)))(fb.Array(y, ("i",)))]
        return fb.eliminate(factors, sum={"m": ()}, plates=("i",)).log().data

    assert_values_and_slopes(evidence, CASES["normal"].observed, np.full(ROWS, 0.5, np.float32))


def test_chains() -> None:
    def evidence(logs: Any, weights: Any) -> Any:
        step = fb.Table(jnp.asarray(PRIOR[:, None] + jnp.eye(3)), ("s", "s_next"))
        step = step * fb.Table.from_log(logs, ("t", "s_next")) * fb.Table(weights, ("t", "s_next"))
        init = fb.Table(jnp.asarray(PRIOR), ("s",))
        return fb.Chain(init=init, factor=step, time="t", step={"s": "s_next"}).log_evidence().data

    assert_values_and_slopes(evidence, np.log(SEEN[:, :3]), SEEN[:, 1:])


@pytest.mark.parametrize("name", ["normal", "regression"])
def test_models(name: str) -> None:
    model = CASES[name].model

    def evidence(X: Any, y: Any) -> Any:
        return model(X).condition(y=y).log_evidence().data

    assert_values_and_slopes(evidence, CASES[name].arguments[0], CASES[name].observed)


def test_marginals_of_a_model() -> None:
    def mean(X: Any, y: Any) -> Any:
        return CASES["regression"].model(X).condition(y=y).marginal("w").mean("w").data[None]

    X, y = CASES["regression"].arguments[0], CASES["regression"].observed
    answers = on_each(mean, mesh_of(AxisType.Auto, rows=8), AXIS, X, y)
    np.testing.assert_allclose(answers[3], mean(jnp.asarray(X[15:20]), jnp.asarray(y[15:20]))[0], rtol=1e-4)


def assert_values_and_slopes(evidence: Callable[..., Any], *arrays: np.ndarray) -> None:
    """The sum over devices of evidence of their own rows, and its derivatives by these."""

    def both(*own: Any) -> Any:
        value, slopes = jax.value_and_grad(evidence, argnums=(0, 1))(*own)
        return value[None], slopes

    values, slopes = on_each(both, mesh_of(AxisType.Auto, rows=8), AXIS, *arrays)
    expected = jax.jit(jax.vmap(lambda *own: both(*own)[:2]))(*(a.reshape(8, 5, *a.shape[1:]) for a in arrays))
    np.testing.assert_allclose(values, expected[0][:, 0], rtol=1e-4)
    for slope, other in zip(slopes, expected[1], strict=True):
        np.testing.assert_allclose(slope, other.reshape(slope.shape), rtol=1e-3, atol=1e-3)
