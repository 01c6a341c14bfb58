"""Every question of rows over a mesh has the answer of one device, by local sums and small collectives."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb

from .meshes import mesh_of
from .plate_models import cases
from .watch import watched

SMALL, LARGE = cases(1_999), cases(79_999)
KEY = jax.random.key(0)

QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "evidence": lambda post: post.log_evidence().data,
    "marginals": lambda post: [post.marginal(name).mean(name).data for name in latents(post)],
    "variances": lambda post: [post.marginal(name).variance(name).data for name in latents(post)],
    "mode": lambda post: post.map(),
    "draws": lambda post: post.predict(KEY, *latents(post), draws=3),
}


def latents(post: Any) -> list[str]:
    return [name for name in post.names if name != "y"]


def placed(kind: AxisType) -> Callable[[np.ndarray], Any]:
    """Rows over eight devices, on axes of this kind."""
    mesh = mesh_of(kind, rows=8)
    return lambda x: fb.shard(x, mesh, "rows")


def assert_close(answer: Any, expected: Any, rtol: float) -> None:
    for one, other in zip(jax.tree_util.tree_leaves(answer), jax.tree_util.tree_leaves(expected), strict=True):
        one, other = np.asarray(one, float), np.asarray(other, float)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * max(np.abs(other).max(), 1e-30))


@pytest.fixture(scope="module", params=["float32 on Auto axes", "float64 on Explicit axes"])
def width(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[[np.ndarray], Any], float, str]]:
    """How rows are placed, how close answers are to those of one device, and the precision."""
    dtype, _, kind, _ = request.param.split()
    place = placed(getattr(AxisType, kind))
    with jax.enable_x64(dtype == "float64"):
        wide = np.float64 if dtype == "float64" else np.float32
        yield (
            lambda x: place(x.astype(wide) if x.dtype.kind == "f" else x),
            {"float32": 1e-6, "float64": 1e-10}[dtype],
            dtype,
        )


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["normal", "regression", "groups"])
def test_closed_forms_are_those_of_one_device(name: str, question: str, width: Any) -> None:
    place, rtol, dtype = width
    ask, case = QUESTIONS[question], SMALL[name]
    if question == "draws" and dtype == "float32":
        rtol = 1e-5  # one device draws from numbers that are rounded first
    with watched() as seen:
        answer = ask(case.post(place))
    seen.require_few_numbers(1_999)
    assert_close(answer, ask(case.post(jnp.asarray)), rtol)


@pytest.mark.parametrize("name", ["normal", "regression", "groups"])
def test_a_length_that_devices_do_not_divide(name: str, width: Any) -> None:
    place, rtol, _ = width
    case = LARGE[name]
    assert_close(case.post(place).log_evidence().data, case.post(jnp.asarray).log_evidence().data, rtol)
    one, other = (QUESTIONS["marginals"](case.post(where)) for where in (place, jnp.asarray))
    assert_close(one, other, rtol)
