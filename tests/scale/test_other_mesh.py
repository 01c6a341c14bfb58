"""A run that is stopped goes on wherever its data lie then: on other meshes, at other paddings, on one device."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import fubini as fb
from fubini.base.digests import bytes_of, constants_of
from fubini.errors import FileFormatError, OtherMesh
from fubini.infer.checkpoint import Checkpoint

from .plate_models import Case, cases

KEY = jax.random.key(0)
ROWS = 37  # which no mesh divides
CASES = cases(ROWS)


def mesh_of(**axes: int) -> Mesh:
    """A mesh of the first devices."""
    sizes = tuple(axes.values())
    return Mesh(np.array(jax.devices()[: np.prod(sizes)]).reshape(sizes), tuple(axes))


EIGHT, THREE, GROUPS = mesh_of(rows=8), mesh_of(rows=3), mesh_of(chains=2, rows=4)  # 40, 39 and 40 rows


def on(mesh: Mesh | None) -> Callable[[np.ndarray], Any]:
    """Where data are placed."""
    return jnp.asarray if mesh is None else lambda x: fb.shard(x, mesh, "rows")


def over(mesh: Mesh | None) -> dict[str, Any]:
    """Chains lie over a mesh that has an axis for them."""
    return {"mesh": mesh} if mesh is GROUPS else {}


def nuts(mesh: Mesh | None, path: Path | None, case: Case = CASES["logistic"], **options: Any) -> dict[str, Any]:
    some = dict(draws=5, chains=2, warmup=5, method="nuts", progress=False, log_likelihood=False, predictive=False)
    drawn = case.post(on(mesh)).infer(KEY, checkpoint=path, **{**some, **over(mesh), **options})
    return {"w": np.asarray(drawn.posterior["w"])}


def smc(mesh: Mesh | None, path: Path | None) -> dict[str, np.ndarray]:
    return nuts(mesh, path, method="smc", draws=8, warmup=3)


def gibbs(mesh: Mesh | None, path: Path | None) -> dict[str, np.ndarray]:
    sampler = CASES["mixture"].post(on(mesh)).eliminate().gibbs("k", blocked=True)
    return dict(sampler.run(KEY, 8, 2, checkpoint=path, **over(mesh)))


class Stop(Exception):
    """A crash."""


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Call a function that crashes after it has written two checkpoints."""
    save = Checkpoint.save

    def crash(run: Callable[[], Any]) -> None:
        count = iter((1, 2))

        def some(self: Checkpoint, arrays: Any) -> None:
            save(self, arrays)
            if next(count) == 2:
                raise Stop

        with monkeypatch.context() as patch, pytest.raises(Stop):
            patch.setattr(Checkpoint, "save", some)
            run()

    return crash


@pytest.mark.filterwarnings("ignore::fubini.errors.SamplerWarning")
@pytest.mark.parametrize(("run", "meshes"), [(nuts, (EIGHT, THREE, GROUPS)), (smc, (THREE,)), (gibbs, (GROUPS, THREE))])
def test_a_run_goes_on_from_place_to_place(run: Any, meshes: Any, crash: Any, tmp_path: Path) -> None:
    """Begun on one device, it is stopped on each mesh and ended on one device: with the draws of one device."""
    with jax.enable_x64(True):
        uninterrupted = run(None, None)
        crash(lambda: run(None, tmp_path / "run.npz"))
        for mesh, before in zip(meshes, (None, *meshes), strict=False):
            with pytest.warns(OtherMesh, match=said(mesh, before)):
                crash(lambda mesh=mesh: run(mesh, tmp_path / "run.npz"))
        with pytest.warns(OtherMesh, match=said(None, meshes[-1])):
            ended = run(None, tmp_path / "run.npz")
    for name, value in uninterrupted.items():
        np.testing.assert_allclose(ended[name], value, rtol=1e-8)


def said(mesh: Mesh | None, before: Mesh | None) -> str:
    """What the warning says of where a run goes on, and where it was."""
    words = [
        f"a mesh with {', '.join(f'{size} {name}' for name, size in one.shape.items())}" if one else "no mesh"
        for one in (mesh, before)
    ]
    return rf"over {words[0]}\s*nearest:  it was written over {words[1]}"


def test_other_data_on_another_mesh_are_refused(crash: Any, tmp_path: Path) -> None:
    with jax.enable_x64(True):
        crash(lambda: nuts(EIGHT, tmp_path / "run.npz"))
        with pytest.raises(FileFormatError, match="nearest:  the data differ"):
            nuts(THREE, tmp_path / "run.npz", case=CASES["logistic"]._replace(observed=np.zeros(ROWS, np.int32)))


def test_a_store_without_groups_that_are_stored_elsewhere_is_refused(crash: Any, tmp_path: Path) -> None:
    """Unless it is said whether log-likelihoods and predictive draws are wanted."""
    options = dict[str, Any](store=tmp_path / "draws.zarr", log_likelihood=None)
    with jax.enable_x64(True):
        crash(lambda: nuts(EIGHT, tmp_path / "run.npz", **options))
        with pytest.raises(FileFormatError, match=r"nearest:  not_stored was \['y'\], is \[\]"):
            nuts(None, tmp_path / "run.npz", **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.bool_])
def test_digests_are_of_the_numbers_alone(dtype: Any) -> None:
    """In memory, and at each padding."""
    data = np.random.default_rng(0).integers(0, 2, (ROWS, 3)).astype(dtype)
    other = data[::-1]
    with jax.enable_x64(True):
        each = [bytes_of(place(data)) for place in (np.asarray, jnp.asarray, on(EIGHT), on(THREE))]
        assert set(each) == {bytes_of(data)}
        assert bytes_of(other) == bytes_of(on(EIGHT)(other)) != bytes_of(data)
        assert bytes_of(data[:-1]) != bytes_of(data) != bytes_of(data.reshape(3, ROWS))


def test_digests_of_streams_are_of_their_rows() -> None:
    rows, mesh = np.random.default_rng(0).normal(size=ROWS), mesh_of(rows=8)
    of_file, other = bytes_of(fb.Stream(rows)), bytes_of(fb.Stream(rows + 1.0))
    assert bytes_of(fb.shard(fb.Stream(rows, chunk=5), mesh, "rows")) == of_file != other


def test_numbers_that_a_model_captures_are_found_in_programs_inside_too() -> None:
    inside, outside = np.arange(3.0), np.arange(4.0)
    program = jax.make_jaxpr(lambda x: jax.jit(lambda y: y * inside)(x).sum() + outside)(np.ones(3))
    assert sorted(map(len, constants_of(program))) == [3, 4]
