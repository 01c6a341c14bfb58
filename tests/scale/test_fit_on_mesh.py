"""Parameters learnt from rows over a mesh are those of one device, and each step exchanges few numbers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb

from .meshes import mesh_of
from .plate_models import cases
from .test_plates import assert_close
from .watch import watched

ROWS = 1_999
CASES = cases(ROWS)


@fb.model
def ridge(X, scale, noise):
    w = yield fb.dist.Normal(0.0, scale).expand([X.shape[1]])
    y = yield fb.dist.Normal(X @ w, noise)


@fb.model
def components(rows, m, p):
    k = yield fb.dist.Categorical(p).expand([rows])
    y = yield fb.dist.Normal(m[k], 1.0)


def regression(place: Callable[[np.ndarray], Any]) -> Any:
    """With its scales to be learnt."""
    (X,), y = CASES["regression"].arguments, CASES["regression"].observed
    return ridge(place(X), fb.param(1.0, fb.Positive), fb.param(2.0, fb.Positive)).condition(y=place(y))


def mixture(place: Callable[[np.ndarray], Any]) -> Any:
    """With its components to be learnt."""
    m, p = fb.param(jnp.array([-1.0, 0.0, 1.0])), fb.param(jnp.array([0.2, 0.3, 0.5]), fb.Simplex[3])
    return components(ROWS, m, p).condition(y=place(CASES["mixture"].observed))


WIDTHS = {"float32": (AxisType.Explicit, 1e-6), "float64": (AxisType.Auto, 1e-9)}


def assert_learnt(make: Callable[..., Any], most: int, width: str = "float64", **options: Any) -> None:
    """Also, no collective has so many numbers."""
    kind, rtol = WIDTHS[width]
    mesh = mesh_of(kind, rows=8)
    with jax.enable_x64(width == "float64"):
        cast = lambda x: x.astype(width) if x.dtype.kind == "f" else x  # noqa: E731
        with watched() as seen:
            own = fb.fit(make(lambda x: fb.shard(cast(x), mesh, "rows")), progress=False, **options)
        one = fb.fit(make(lambda x: jnp.asarray(cast(x))), progress=False, **options)
        assert not seen.fetched
        assert not [size for _, size in seen.collectives if size >= most]
        assert_close((own.params, own.history, own.errors), (one.params, one.history, one.errors), rtol)


def test_evidence_of_a_regression_is_climbed() -> None:
    assert_learnt(regression, ROWS, "float32", steps=4)


def test_components_whose_labels_are_summed_out_are_learnt() -> None:
    assert_learnt(mixture, ROWS, steps=4)


@pytest.mark.parametrize("width", WIDTHS)
def test_expectation_maximisation_of_components(width: str) -> None:
    """Expected statistics of each row stay where it is between the two steps, though devices do not divide the rows."""
    assert_learnt(mixture, 50, width, method="em", steps=3)


def test_expectation_maximisation_of_real_latents() -> None:
    assert_learnt(regression, ROWS // 8, method="em", steps=3)


@fb.model
def real_states(steps, a):
    z = yield fb.dist.Markov(fb.dist.Normal(0.0, 1.0), lambda z: fb.dist.Normal(a * z, 0.5), steps)
    y = yield fb.dist.Normal(z, 1.0)


def test_expectation_maximisation_of_states_whose_time_devices_do_not_divide() -> None:
    """Their covariance has that length twice."""

    def states(place: Callable[[np.ndarray], Any]) -> Any:
        return real_states(29, fb.param(0.8)).condition(y=place(CASES["normal"].observed[:29]))

    assert_learnt(states, 10 * 32**2, method="em", steps=2)


def test_stochastic_expectation_maximisation_of_components() -> None:
    """The rows of a step are those that one device draws: they alone are exchanged."""
    assert_learnt(mixture, 51, method="em", steps=40, batch=50, key=jax.random.key(3))
