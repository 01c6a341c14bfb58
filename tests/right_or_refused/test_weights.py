"""`.weights` holds the weights themselves, on both engines, eager and traced; a plate of any size compiles alike."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from tests.counting import equations

pytestmark = pytest.mark.right_or_refused

F = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
ENGINES: dict[str, Callable] = {"numpy": np.asarray, "jax": jnp.asarray}


@pytest.mark.parametrize("array", ENGINES.values(), ids=ENGINES)
def test_weights_of_a_marginal_are_the_probabilities(array: Callable) -> None:
    f = fb.Table(array(F), ("a", "b"))
    found = fb.marginals([f], ("a", "b"))
    np.testing.assert_allclose(found["a"].weights, F.sum(1) / F.sum(), rtol=1e-6)
    np.testing.assert_allclose(found["b"].weights, F.sum(0) / F.sum(), rtol=1e-6)
    np.testing.assert_allclose(f.normalize().weights, F / F.sum(), rtol=1e-6)
    np.testing.assert_allclose((f * f).sum("a").weights, (F * F).sum(0), rtol=1e-6)
    assert isinstance(found["a"].weights, np.ndarray if array is np.asarray else jax.Array)


def test_weights_are_the_same_under_jit_vmap_and_grad() -> None:
    def normalized(weights: jax.Array) -> jax.Array:
        return fb.Table(weights, ("a", "b")).sum("b").normalize().weights

    batch = jnp.asarray(np.stack([F, F[::-1]]))
    expected = np.asarray(batch).sum(2) / np.asarray(batch).sum((1, 2))[:, None]
    np.testing.assert_allclose(jax.jit(normalized)(batch[0]), expected[0], rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(normalized)(batch), expected, rtol=1e-6)
    container = jax.vmap(lambda w: fb.Table(w, ("a", "b")).sum("b").normalize())(batch)
    np.testing.assert_allclose(container.weights, expected, rtol=1e-6)
    slope = jax.grad(lambda w: normalized(w)[0])(jnp.asarray(F))
    rows, whole = F.sum(1), F.sum()
    np.testing.assert_allclose(slope[:, 0], (np.eye(3)[0] * whole - rows[0]) / whole**2, rtol=1e-5)


@pytest.mark.parametrize("array", ENGINES.values(), ids=ENGINES)
def test_weights_beyond_the_range_are_zero_or_infinite_and_log_is_exact(array: Callable) -> None:
    logs = np.array([0.0, -2000.0, 1500.0, -np.inf])
    table = fb.Table.from_log(array(logs), ("a",))
    np.testing.assert_array_equal(table.weights, [1.0, 0.0, np.inf, 0.0])
    np.testing.assert_allclose(table.log().data, logs)


def test_a_weight_within_the_range_is_not_lost_between() -> None:
    """1e-300 · exp(900) is 7e90, though exp(900) alone is infinite."""
    table = fb.Table([1e-300, 1e-290], ("a",)) * fb.Table.from_log([[900.0], [800.0]], ("a", "z"))
    expected = np.exp(np.log([1e-300, 1e-290]) + np.array([900.0, 800.0]))
    np.testing.assert_allclose(table.sum("z").weights, expected, rtol=1e-9)


def test_weights_of_what_is_a_table_once_joined() -> None:
    f, g = fb.Table(F, ("a", "b")), fb.Table(F[:2], ("b", "c"))
    np.testing.assert_allclose((f * g).weights, F[:, :, None] * F[:2])
    np.testing.assert_allclose(fb.dist.Categorical(np.array([0.2, 0.8]))("z").weights, [0.2, 0.8])
    for factor in (fb.dist.Normal(0.0, 1.0)("x"), fb.dist.Gamma(1.0, 1.0)("x")):
        with pytest.raises(fb.FubiniError, match="weights"):
            _ = factor.weights


def test_weights_given_are_the_weights_read() -> None:
    kept = np.array([1e-200, 3.0])
    np.testing.assert_array_equal(fb.Table(kept, ("a",)).weights, kept)
    np.testing.assert_array_equal(fb.Table(jnp.asarray([0.0, 3.0]), ("a",)).weights, [0.0, 3.0])


def _marginals(top: jax.Array, rows: jax.Array, seen: jax.Array) -> dict:
    factors = [fb.Table(top, ("w",)), fb.Table(rows, ("doc", "w", "z")), fb.Table(seen, ("doc", "z"))]
    found = fb.marginals(factors, {"w": (), "z": ("doc",)}, plates=("doc",))
    return {name: table.weights for name, table in found.items()}


def _arrays(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(2), (size, 3)), rng.random((size, 2)) + 0.1


def test_marginals_of_a_plate_are_as_many_equations_at_any_size() -> None:
    counts = [equations(jax.make_jaxpr(_marginals)(*map(jnp.asarray, _arrays(size)))) for size in (4, 64)]
    assert counts[0] == counts[1]


def test_marginals_of_a_plate_on_jax_agree_with_enumeration() -> None:
    top, rows, seen = _arrays(3)
    joint = np.einsum("w,wx,wy,wz,x,y,z->wxyz", top, *rows, *seen)
    found = _marginals(*map(jnp.asarray, (top, rows, seen)))
    np.testing.assert_allclose(found["w"], joint.sum((1, 2, 3)) / joint.sum(), rtol=1e-5)
    for doc in range(3):
        others = tuple(axis for axis in range(4) if axis != doc + 1)
        np.testing.assert_allclose(found["z"][doc], joint.sum(others) / joint.sum(), rtol=1e-5)
