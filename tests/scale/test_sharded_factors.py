"""Factors over arrays that lie on a mesh answer as those of one device, and nothing as long as the rows is fetched."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import fubini as fb
from fubini import dist

from .meshes import mesh_of

ROWS, MANY = 80, 79_999
RNG = np.random.default_rng(5)
LINKS, SEEN = (RNG.random((MANY, *shape)).astype(np.float32) + 0.1 for shape in ((3, 4), (4,)))
X, Y = (RNG.normal(size=(MANY, *shape)).astype(np.float32) for shape in ((3,), ()))
GROUP = RNG.integers(0, 12, MANY).astype(np.int32)
SCOPES = {"w": (), "z": ("i",)}
MESHES = {kind: mesh_of(getattr(AxisType, kind), rows=8) for kind in ("Auto", "Explicit")}
WIDTHS = {"float32": ("Auto", 1e-6), "float64": ("Explicit", 1e-10)}


def tables(links: Any, seen: Any) -> list[fb.Factor]:
    prior = fb.Table(jnp.array([0.2, 0.3, 0.5]), ("w",))
    return [prior, fb.Table(links, ("i", "w", "z")), fb.Table(seen, ("i", "z"))]


def evidence_of_tables(links: Any, seen: Any) -> Any:
    return fb.eliminate(tables(links, seen), sum=SCOPES, plates=("i",)).log().data


def marginals_of_tables(links: Any, seen: Any) -> Any:
    answers = fb.marginals(tables(links, seen), SCOPES, plates=("i",))
    return {name: answer.weights for name, answer in answers.items()}


def best_assignment(links: Any, seen: Any) -> Any:
    return fb.argmax(tables(links, seen), SCOPES, plates=("i",))


def normal_inverse_gamma(y: Any) -> Any:
    v, m = fb.Variable("v", fb.Positive), fb.Variable("m", fb.Real)
    sd = fb.ops.sqrt(v)
    rows = dist.Normal(m, sd)(fb.Array(y, ("i",))).product("i")
    factors = [dist.InverseGamma(3.0, 2.0)("v"), dist.Normal(0.0, 2 * sd)("m"), rows]
    variance = fb.marginals(factors, ("m", "v"))["v"]
    expected = fb.expectation(variance, 2 * v + 1, "v"), variance.mean("v"), variance.variance("v")
    return fb.eliminate(factors, sum=("m", "v")).log().data, [each.data for each in expected]


def regression(X: Any, y: Any) -> Any:
    mean = fb.Array(X, ("i",)) @ fb.Variable("w", fb.Reals[3])
    rows = dist.Normal(mean, 1.0)(fb.Array(y, ("i",))).product("i")
    return fb.eliminate([dist.Normal(0.0, 1.0).expand([3])("w"), rows], sum=("w",)).log().data


def groups(group: Any, y: Any) -> Any:
    a = fb.Variable("a", fb.Reals[12])
    rows = dist.Normal(a[fb.Array(group, ("i",), fb.Bint[12])], 0.5)(fb.Array(y, ("i",))).product("i")
    return fb.marginals([dist.Normal(0.0, 1.0).expand([12])("a"), rows], ("a",))["a"].mean("a").data


def mixture(y: Any) -> Any:
    """Evidence, its labels summed out, and the shares of components for each row."""
    means = fb.Array(jnp.array([-1.0, 0.0, 2.0]), ("k",))
    k = fb.Table(jnp.array([0.2, 0.3, 0.5]), ("k",))
    rows = dist.Normal(means, 1.0)(fb.Array(y, ("i",)))
    joint = fb.eliminate([k, rows], sum=("k",))
    return joint.product("i").log().data, (k * rows).normalize("k").weights


QUESTIONS: dict[Callable[..., Any], tuple[np.ndarray, ...]] = {
    evidence_of_tables: (LINKS, SEEN),
    marginals_of_tables: (LINKS, SEEN),
    best_assignment: (LINKS, SEEN),
    normal_inverse_gamma: (Y,),
    regression: (X, Y),
    groups: (GROUP, Y),
    mixture: (Y,),
}


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """The shapes of arrays in parts that are fetched, and as long as the rows."""
    kind: Any = type(jnp.ones(1))
    fetch, shapes = kind._value.fget, []

    def counted(array: Any) -> np.ndarray:
        if ROWS in array.shape and not array.sharding.is_fully_replicated:
            shapes.append(array.shape)
        return fetch(array)

    monkeypatch.setattr(kind, "_value", property(counted))
    yield shapes


def placed(kind: str, array: np.ndarray) -> jax.Array:
    return jax.device_put(array, NamedSharding(MESHES[kind], PartitionSpec("rows")))


def assert_same(answer: Any, expected: Any, rtol: float = 1e-6) -> None:
    for one, other in zip(jax.tree.leaves(answer), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


def arrays_of(question: Callable[..., Any], dtype: str = "float32", rows: int = ROWS) -> list[np.ndarray]:
    return [array[:rows].astype(dtype) if array.dtype.kind == "f" else array[:rows] for array in QUESTIONS[question]]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_answers_are_those_of_one_device(question: Callable[..., Any], width: str, fetched: list) -> None:
    kind, rtol = WIDTHS[width]
    arrays = arrays_of(question, width)
    with jax.enable_x64(width == "float64"):
        answer = question(*(placed(kind, array) for array in arrays))
        jax.block_until_ready(jax.tree.leaves(answer))
        assert fetched == []
        assert_same(answer, question(*map(jnp.asarray, arrays)), rtol)


@pytest.mark.parametrize("question", [marginals_of_tables, regression], ids=lambda question: question.__name__)
@pytest.mark.parametrize("kind", MESHES)
def test_under_jit(question: Callable[..., Any], kind: str) -> None:
    answer = jax.jit(question)(*(placed(kind, array) for array in arrays_of(question)))
    assert_same(answer, question(*map(jnp.asarray, arrays_of(question))))


def test_what_is_local_to_a_plate_stays_where_its_rows_are() -> None:
    links, seen = arrays_of(marginals_of_tables, "float64")
    with jax.enable_x64(True):
        over_mesh = placed("Explicit", links), placed("Explicit", seen)
        for ask in (marginals_of_tables, jax.jit(marginals_of_tables)):
            z = ask(*over_mesh)["z"]
            assert z.sharding.shard_shape(z.shape) == (ROWS // 8, 4)
        slopes = jax.grad(evidence_of_tables)(*over_mesh)
        assert slopes.sharding.shard_shape(slopes.shape) == (ROWS // 8, 3, 4)
        assert_same(slopes, jax.grad(evidence_of_tables)(jnp.asarray(links), jnp.asarray(seen)), 1e-10)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_79999_rows_which_devices_do_not_divide(question: Callable[..., Any], width: str) -> None:
    kind, rtol = WIDTHS[width]
    arrays = arrays_of(question, width, MANY)
    with jax.enable_x64(width == "float64"):
        answer = question(*(fb.shard(array, MESHES[kind], "rows") for array in arrays))
        assert_same(answer, question(*map(jnp.asarray, arrays)), rtol)
