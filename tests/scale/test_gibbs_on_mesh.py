"""Labels over rows on a mesh: drawn whole where their rows are; compiled loops refuse them; what explain says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini.base.digests import bytes_of

from .meshes import mesh_of
from .plate_models import cases
from .watch import watched

KEY = jax.random.key(0)
CASES = cases(999)


def on_mesh(x: np.ndarray) -> object:
    return fb.shard(x, mesh_of(AxisType.Auto, rows=8), "rows")


def test_blocked_labels_are_those_of_one_device() -> None:
    with jax.enable_x64(True):
        runs = []
        for place in (on_mesh, jnp.asarray):
            with watched() as seen:
                sampler = CASES["mixture"].post(place).eliminate().gibbs("k", blocked=True)
                runs.append(sampler.run(KEY, 5, 2))
            assert not seen.fetched
    np.testing.assert_array_equal(*(run["k"] for run in runs))
    np.testing.assert_allclose(*(run["m"] for run in runs), rtol=1e-10)


def test_compiled_loops_refuse_labels_over_rows_on_a_mesh() -> None:
    post = CASES["mixture"].post(on_mesh)
    with pytest.raises(fb.FubiniError, match="gibbs of the labels 'k' over data on a mesh") as error:
        post.eliminate().gibbs("k")
    for part in ("expected: data that one process holds", "nearest:  ShardedArray(float32[999] over 8", "blocked=True"):
        assert part in str(error.value)


def test_explain_says_what_is_exchanged() -> None:
    text = str(fb.explain(CASES["regression"].post(on_mesh)))
    assert "on a mesh (rows 8): data0[999, 3], axis 0 along rows, 1,500 bytes a device; y[999]" in text
    assert "exchanged once: 1 triangle of 128 numbers gathered" in text
    assert "for each density" not in text
    assert "exchanged once: 7 sums of 73 numbers all-reduced" in str(fb.explain(CASES["groups"].post(on_mesh)))
    for name, latents, numbers in (("logistic", "w", 3), ("mixture", "p, m", 6)):
        text = str(fb.explain(CASES[name].post(on_mesh)))
        assert f"exchanged for each density of {latents}: its sums over rows; for each slope {numbers} numbers" in text


def test_a_digest_tells_numbers_from_others_on_any_mesh() -> None:
    y = CASES["normal"].observed
    one = fb.shard(y, mesh_of(AxisType.Auto, rows=4, chains=2), "rows")
    assert bytes_of(on_mesh(y)) == bytes_of(one)
    other = y.copy()
    other[[3, 4]] = other[[4, 3]]
    assert bytes_of(on_mesh(other)) != bytes_of(one)
