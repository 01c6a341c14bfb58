"""`fb.shard` places arrays of any length, and models read them without fetching them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zarr
from jax.sharding import AxisType, Mesh

import fubini as fb
from fubini.base.digests import bytes_of
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel

from .meshes import mesh_of

ROWS = np.random.default_rng(0).normal(2.0, 1.5, 7_999).astype(np.float32)
AUTO = mesh_of(AxisType.Auto, rows=8)


def test_a_length_that_devices_do_not_divide_is_padded() -> None:
    y = fb.shard(ROWS, AUTO, "rows")
    assert y.shape == (7_999,)
    assert y.data.shape == (8_000,)
    np.testing.assert_array_equal(np.asarray(y), ROWS)
    np.testing.assert_array_equal(np.asarray(fb.shard(y, AUTO, "rows")), ROWS)


def test_a_length_that_devices_divide_is_an_array_of_jax() -> None:
    y = fb.shard(ROWS[:7_992], AUTO, "rows")
    assert isinstance(y, jax.Array)
    assert len(y.sharding.device_set) == 8


def test_each_device_reads_its_own_rows_of_a_memory_map(tmp_path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    read: list[int] = []

    class Counted:
        shape, dtype = ROWS.shape, ROWS.dtype
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")

        def __getitem__(self, where: tuple) -> np.ndarray:
            part = self.rows[where]
            read.append(len(part))
            return part

    y = fb.shard(Counted(), AUTO, "rows")
    assert sorted(read) == [999] + [1000] * 7
    np.testing.assert_array_equal(np.asarray(y), ROWS)


def test_rows_of_zarr(tmp_path) -> None:
    stored = zarr.create_array(str(tmp_path / "rows.zarr"), data=ROWS.reshape(-1, 1), chunks=(1000, 1))
    y = fb.shard(stored, AUTO, "rows")
    np.testing.assert_array_equal(np.asarray(y), ROWS.reshape(-1, 1))


def test_the_axes_are_those_of_the_mesh() -> None:
    with pytest.raises(fb.FubiniError, match=r"axes of the mesh: 'rows'"):
        fb.shard(ROWS, AUTO, "row")
    with pytest.raises(fb.FubiniError, match="at most 1 axes"):
        fb.shard(ROWS, mesh_of(AxisType.Auto, rows=4, columns=2), "rows", "columns")
    with pytest.raises(fb.FubiniError, match="each axis of the mesh once"):
        fb.shard(ROWS.reshape(-1, 1), AUTO, "rows", "rows")
    with pytest.raises(fb.FubiniError, match="an axis of the mesh for an axis of the array"):
        fb.shard(ROWS, AUTO)
    with pytest.raises(fb.FubiniError, match=r"a name for each of the first axes[\s\S]*nearest:  \('rows',\)"):
        fb.shard(ROWS, AUTO, ("rows",))


def test_what_is_placed_is_an_array_on_a_mesh() -> None:
    with pytest.raises(fb.FubiniError, match=r"fb\.shard of str"):
        fb.shard("rows.npy", AUTO, "rows")
    with pytest.raises(fb.FubiniError, match="leave their rows out"):
        fb.shard(np.ma.masked_invalid(ROWS), AUTO, "rows")
    with pytest.raises(fb.FubiniError, match=r"jax\.make_mesh"):
        fb.shard(ROWS, "rows")
    with pytest.raises(fb.FubiniError, match="before the function is called"):
        jax.jit(lambda x: fb.shard(x, AUTO, "rows"))(ROWS)


def test_numbers_of_observations_are_checked_where_they_lie() -> None:
    @fb.model
    def normal(n):
        m = yield fb.dist.Normal(0.0, 1.0)
        y = yield fb.dist.Normal(m, 1.0).expand([n])

    rows = ROWS.copy()
    rows[5_000] = np.nan
    with pytest.raises(fb.FubiniError, match="row 5,000, in shard 5 of 8"):
        normal(7_999).condition(y=fb.shard(rows, AUTO, "rows"))
    one = normal(7_999).condition(y=fb.shard(ROWS, AUTO, "rows"))
    assert "over 8 devices" in str(one)
    expected = normal(7_999).condition(y=ROWS)
    np.testing.assert_allclose(float(one.log_evidence()), float(expected.log_evidence()), rtol=1e-6)


def test_data_over_two_meshes() -> None:
    @fb.model
    def line(x):
        w = yield fb.dist.Normal(0.0, 1.0)
        y = yield fb.dist.Normal(w * x, 1.0)

    other = mesh_of(AxisType.Auto, rows=4, columns=2)
    model = line(fb.shard(ROWS, AUTO, "rows")).condition(y=fb.shard(ROWS, other, "rows"))
    with pytest.raises(
        fb.FubiniError, match=r"data over two meshes[\s\S]*\{'rows': 8\} and .* \{'rows': 4, 'columns': 2\}"
    ):
        model.log_evidence()
    backwards = Mesh(np.array(jax.devices())[::-1], ("rows",))
    model = line(fb.shard(ROWS, AUTO, "rows")).condition(y=fb.shard(ROWS, backwards, "rows"))
    with pytest.raises(fb.FubiniError, match=r"meshes[\s\S]*'rows': 8}, whose device 0 is number 0 and .* number 7"):
        model.log_evidence()


def test_factors_over_two_meshes() -> None:
    """Of other devices, or of the same in another order."""
    meshes = (AUTO, Mesh(np.array(jax.devices())[::-1], ("rows",)))
    one, other = (fb.Table(fb.shard(np.ones((16, 3)), mesh, "rows"), ("i", "z")) for mesh in meshes)
    for ask in (lambda: fb.marginals([one, other], {"z": ("i",)}, plates=("i",)), lambda: (one * other).sum("z")):
        with pytest.raises(fb.FubiniError, match="data over two meshes"):
            ask()


W = jnp.array(0.5)
DOORS: dict[str, Callable[[Any], Any]] = {
    "evidence": lambda post: post.log_evidence(),
    "marginal": lambda post: post.marginal("w"),
    "posterior": lambda post: post.posterior(),
    "map": lambda post: post.map(),
    "predict": lambda post: post.predict(jax.random.key(0), "w", draws=2),
    "explain": lambda post: str(fb.explain(post)),
    "density": lambda post: post.log_prob(w=W),
    "eliminated density": lambda post: eliminated(FlatModel(post), ()).log_prob(w=W),
    "draws": lambda post: post.infer(jax.random.key(0), draws=2, chains=1, warmup=2, progress=False),
    "nuts": lambda post: post.infer(jax.random.key(0), 2, 1, warmup=2, method="nuts", progress=False),
    "svi": lambda post: post.infer(jax.random.key(0), 2, 1, method="svi", progress=False),
}


@pytest.mark.parametrize("door", DOORS)
def test_numbers_of_arguments_are_looked_at_where_an_answer_is_none(door: str) -> None:
    @fb.model
    def line(x):
        w = yield fb.dist.Normal(0.0, 1.0)
        y = yield fb.dist.Normal(w * x, 1.0)

    x = ROWS.copy()
    x[5_000] = np.nan
    post = line(fb.shard(x, AUTO, "rows")).condition(y=fb.shard(ROWS, AUTO, "rows"))
    with pytest.raises(fb.FubiniError, match="has NaN at row 5,000, in shard 5 of 8") as error:
        DOORS[door](post)
    assert "left out before they are placed" in str(error.value)


def test_digests_tell_halves_of_short_floats_apart() -> None:
    """By which checkpoints know their data: cut to whole numbers, all below 1 were alike."""
    one, other = (fb.shard(np.full(8, x, np.float16), AUTO, "rows") for x in (0.25, 0.75))
    assert bytes_of(one) != bytes_of(other)
    assert bytes_of(one) == bytes_of(fb.shard(np.full(8, 0.25, np.float16), mesh_of(AxisType.Auto, rows=4), "rows"))
