"""Draws in a store are those in memory: written block after block, opened lazily, in ArviZ's groups; checkpoints hold
states alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

import fubini as fb
from fubini import dist
from fubini.errors import FileFormatError, UnknownName
from fubini.infer.checkpoint import Checkpoint
from fubini.questions import kept_draws
from fubini.questions.draws import dotted
from tests.infer.resumed import POST

ROOT = Path(__file__).parents[2]
KEY = jax.random.key(0)
NUTS = dict(draws=40, chains=2, warmup=40, method="nuts", progress=False)
NAMED = dict(dims={"y": ["place"]}, coords={"place": ["a", "b", "c", "d"]})
LABELS = np.array([0, 1, 1, 0, 1])


@fb.model
def labelled():
    w = yield dist.Dirichlet(np.ones(2))
    z = yield dist.Categorical(w).expand([5])
    p = yield dist.Beta(1.0, 1.0).expand([2])
    y = yield dist.Bernoulli(p[z])


LABELLED = labelled().condition(y=LABELS)


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    """Of ten draws and fewer."""
    monkeypatch.setattr(kept_draws, "BLOCK", 8 * 10 * 2 * (2 + 2 * 4))


def groups_of(data) -> dict:
    """Datasets by group."""
    return {group: getattr(data[group], "to_dataset", lambda group=group: data[group])() for group in data.groups()}


def assert_same(stored, memory) -> None:
    """All groups, variables, axes, labels and numbers, and the attributes that we write."""
    found, expected = groups_of(stored), groups_of(memory)
    assert set(found) == set(expected)
    for group, dataset in expected.items():
        assert list(found[group].data_vars) == list(dotted(dataset.data_vars))
        for name in dataset.data_vars:
            assert found[group][name].dims == dataset[name].dims and found[group][name].dtype == dataset[name].dtype
            np.testing.assert_array_equal(found[group][name], dataset[name], err_msg=f"{group} {name}")
        for name in dataset.coords:
            np.testing.assert_array_equal(found[group][name], dataset[name])
    for name in ("method", "eliminated"):
        assert found["posterior"].attrs[name] == expected["posterior"].attrs[name]


@pytest.fixture(scope="module")
def memory():
    """The run, its draws in memory."""
    return POST.infer(KEY, **NUTS, **NAMED)


def test_draws_are_those_in_memory_and_read_when_asked_for(memory, tmp_path) -> None:
    stored = POST.infer(KEY, store=tmp_path / "draws.zarr", **NUTS, **NAMED)
    assert not stored.posterior["m"].variable._in_memory
    assert_same(stored, memory)
    tree = xarray.open_datatree(tmp_path / "draws.zarr", engine="zarr")
    np.testing.assert_array_equal(tree["posterior/m"], memory.posterior["m"])
    assert list(tree["posterior_predictive/y"].place.values) == list("abcd")
    assert len([*(tmp_path / "draws.zarr/posterior/m/c").glob("*/*")]) == 2 * 4


def test_what_is_integrated_out_as_a_whole_is_stored(tmp_path) -> None:
    exact = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0))).condition(x=0.5)
    asked = dict(draws=45, chains=2, progress=False)
    assert_same(exact.infer(KEY, store=tmp_path / "draws.zarr", **asked), exact.infer(KEY, **asked))


def test_labels_are_stored(tmp_path) -> None:
    sampler = LABELLED.eliminate().gibbs("z", engine="python")
    stored = sampler.run(KEY, 25, 2, store=tmp_path / "draws.zarr")
    for name, value in sampler.run(KEY, 25, 2).items():
        np.testing.assert_array_equal(stored.posterior[name], value)
        assert stored.posterior[name].dtype == value.dtype
    assert stored.posterior.attrs["method"] == "gibbs"


def test_memory_of_draws_of_many_numbers(tmp_path) -> None:
    """It does not grow with the draws, as they leave memory block after block: these are ten."""
    if not Path("/proc/self/status").exists():
        pytest.skip("/proc has the memory of a process")
    command = ["-m", "benchmarks.scale.draws", "--draws", "100", "--draw", "stored", str(tmp_path)]
    ended = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout)["MB"] < 500
    chunks = list((tmp_path / "draws.zarr/posterior/a/c").glob("*/*/*"))
    assert len(chunks) == 4 * 10


# -- stopped ----------------------------------------------------------------------------------------------------------


class Stop(Exception):
    """A crash."""


@pytest.fixture(scope="module")
def crashed_once(tmp_path_factory):
    """The files of a run that stopped before its 13th checkpoint, the draws before that written."""
    folder, save, count = tmp_path_factory.mktemp("crashed"), Checkpoint.save, iter(range(1, 100))

    def some(self, arrays):
        if next(count) == 13:
            raise Stop
        save(self, arrays)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(kept_draws, "BLOCK", 8 * 10 * 2 * (2 + 2 * 4))
        patch.setattr(Checkpoint, "save", some)
        run_in(folder)
    return folder


@pytest.fixture
def crashed(crashed_once, tmp_path):
    """A copy of them."""
    shutil.copytree(crashed_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


def run_in(folder: Path, **options):
    return POST.infer(KEY, store=folder / "draws.zarr", checkpoint=folder / "run", **{**NUTS, **NAMED, **options})


def test_a_stopped_run_goes_on_with_its_store(memory, crashed, monkeypatch) -> None:
    saved, save = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, arrays: (saved.append(1), save(self, arrays)))
    with np.load(crashed / "run") as file:
        before = int(file["done"])
        assert all(name.startswith("state:") or name in ("done", "__header__") for name in file.files)
    assert_same(run_in(crashed), memory)
    assert 1 <= len(saved) < before
    assert_same(run_in(crashed), memory)  # read back
    assert len(saved) < before


def test_a_store_without_the_checkpoint_is_written_anew(memory, crashed) -> None:
    """As where a run was stopped before its first checkpoint."""
    for path in crashed.glob("run*"):
        path.unlink()
    assert_same(run_in(crashed), memory)


# -- refused ----------------------------------------------------------------------------------------------------------


def test_a_store_that_exists_is_not_written_over(crashed) -> None:
    with pytest.raises(FileFormatError, match=r"draws\.zarr") as caught:
        POST.infer(KEY, store=crashed / "draws.zarr", **NUTS)
    for word in ("nothing yet", "a store of draws", "give another path", "checkpoint="):
        assert word in str(caught.value)


def test_a_store_of_another_run(crashed) -> None:
    (crashed / "run").unlink()
    (crashed / "run.previous").unlink()
    with pytest.raises(FileFormatError, match="a store of another run"):
        run_in(crashed, draws=50)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_no_store_is_left_alone(kind, tmp_path) -> None:
    path = tmp_path / "draws.zarr"
    if kind == "folder":
        path.mkdir()
        (path / "notes.txt").write_text("mine")
    else:
        path.write_text("mine")
    for more in ({}, {"checkpoint": tmp_path / "run"}):
        with pytest.raises(FileFormatError, match=r"(another folder|a file)(.|\n)*give another path"):
            POST.infer(KEY, store=path, **more, **NUTS)
    assert (path / "notes.txt" if kind == "folder" else path).read_text() == "mine"


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (dict(dims={"x": ["place"]}), UnknownName, "dims of 'x'"),
        (dict(dims={"y": ["place", "time"]}), fb.FubiniError, "1 names: its shape is"),
        (
            dict(dims={"y": ["place"]}, coords={"place": ["a"]}),
            fb.FubiniError,
            "1 coords along 'place' of the site 'y'",
        ),
    ],
)
def test_names_and_labels_that_do_not_fit(axes, error, message, tmp_path) -> None:
    with pytest.raises(error, match=message):
        POST.infer(KEY, store=tmp_path / "draws.zarr", **NUTS, **axes)


def test_a_folder_for_the_store_that_does_not_exist(tmp_path) -> None:
    with pytest.raises(FileFormatError, match=r"expected: a folder .*absent"):
        POST.infer(KEY, store=tmp_path / "absent" / "draws.zarr", **NUTS)


def test_a_store_that_was_lost(crashed) -> None:
    shutil.rmtree(crashed / "draws.zarr")
    with pytest.raises(FileFormatError, match=r"draws\.zarr holds 0"):
        run_in(crashed)


def test_a_checkpoint_of_a_run_without_a_store(crashed) -> None:
    with pytest.raises(FileFormatError, match="store was True, is False"):
        POST.infer(KEY, checkpoint=crashed / "run", **NUTS)
