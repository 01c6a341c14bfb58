"""A killed run goes on where it was; a file that cannot be trusted is refused, and the one before is kept."""

import multiprocessing
import random
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import jax
import numpy as np
import pytest

import fubini.questions.kept_draws
from fubini.errors import FileFormatError
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.driver import STRETCHES
from tests.infer import resumed
from tests.infer.resumed import Y, infer, spread

KILLS = 10
KEY = jax.random.key(0)


def assert_same(found, expected):
    """Bit for bit."""
    assert set(found) == set(expected)
    for name in expected:
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(expected[name]), err_msg=name)


def before(path: Path) -> Path:
    """The checkpoint before."""
    return path.with_name(path.name + ".previous")


@pytest.fixture(scope="module")
def whole():
    """The posterior of an uninterrupted run without checkpoints."""
    return infer(None).posterior


class Stop(Exception):
    """A crash."""


def after(stretches: int) -> Callable:
    """`Checkpoint.save` of a run that crashes after so many stretches."""
    save, count = Checkpoint.save, iter(range(1, stretches + 1))

    def some(self, arrays):
        save(self, arrays)
        if next(count) == stretches:
            raise Stop

    return some


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a run that crashed after five stretches."""
    path = tmp_path_factory.mktemp("crashed")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(Checkpoint, "save", after(5))
        infer(path / "run.npz")
    return path


@pytest.fixture
def crashed(folder, tmp_path):
    """A copy of them."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run.npz"


@pytest.fixture
def no_draws(monkeypatch):
    """Checkpoints are read, and nothing is drawn."""
    refuse = lambda sampler, key, schedule, file, _: (file.load({}), 1 / 0)  # noqa: E731
    monkeypatch.setattr(fubini.questions.kept_draws, "run", refuse)


# -- killed -----------------------------------------------------------------------------------------------------------


def started(folder: Path) -> BaseProcess:
    """The run, in a process of its own, forked from one that has only imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([resumed.__name__])
    process = context.Process(target=resumed.run, args=(folder,))
    process.start()
    return process


def stamp(path: Path) -> int:
    """When a file was written."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def assert_finished(folder: Path, expected) -> None:
    """The draws of a run that came to its end; its files are removed."""
    with np.load(folder / "draws.npz", allow_pickle=False) as drawn:
        assert_same(drawn, expected)
    for path in (folder / "draws.npz", folder / "run.npz", before(folder / "run.npz")):
        path.unlink()


@pytest.mark.slow
def test_a_run_killed_at_ten_random_times_gives_the_same_draws(whole, tmp_path) -> None:
    """Each time somewhere before or in the writing of the second or third checkpoint since it was started."""
    path, times, kills = tmp_path / "run.npz", random.Random(0), 0
    while kills < KILLS:
        old, process = stamp(path), started(tmp_path)
        while stamp(path) in (0, old) and process.is_alive():
            time.sleep(0.01)
        time.sleep(times.uniform(0.0, 0.15))
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += process.exitcode != 0
        if process.exitcode == 0:
            assert_finished(tmp_path, whole)
    process = started(tmp_path)
    process.join()
    assert process.exitcode == 0
    assert_finished(tmp_path, whole)


def test_a_run_that_stopped_goes_on_where_it_was(whole, crashed, monkeypatch) -> None:
    """Five stretches are there, the others are new; a finished run is read back."""
    saved, save = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, arrays: (saved.append(1), save(self, arrays)))
    assert_same(infer(crashed).posterior, whole)
    assert len(saved) == STRETCHES - 5
    assert_same(infer(crashed).posterior, whole)
    assert len(saved) == STRETCHES - 5


def test_the_one_before_gives_the_same_draws(whole, crashed) -> None:
    """A crash between two writes leaves the one before alone; the advice of a corrupt one is to put it in its place."""
    crashed.unlink()
    assert_same(infer(crashed).posterior, whole)


def test_the_one_before_is_one_stretch_shorter(crashed) -> None:
    lengths = []
    for path in (crashed, before(crashed)):
        with np.load(path, allow_pickle=False) as file:
            lengths.append(int(file["done"]))
    assert lengths == [5, 4]


def test_a_checkpoint_holds_arrays_alone(crashed) -> None:
    """Nothing in it can run, and nothing half written is left beside it."""
    with np.load(crashed, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert arrays and all(array.dtype != object for array in arrays.values())
    assert {path.name for path in crashed.parent.iterdir()} == {crashed.name, before(crashed).name}


# -- corrupt ----------------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """One bit of a number."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("no archive\n")


def another(path: Path) -> None:
    """An archive, but none of ours."""
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(3))


def pickled(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=np.array([{}], object))


def single(path: Path) -> None:
    """An array without an archive."""
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


@pytest.mark.parametrize("damage", [cut, flip, empty, text, another, pickled, single])
def test_a_corrupt_checkpoint_is_refused_and_the_one_before_is_kept(damage, crashed, no_draws) -> None:
    damage(crashed)
    kept = before(crashed).read_bytes()
    with pytest.raises(FileFormatError) as caught:
        infer(crashed)
    for word in (str(crashed), "cut short or changed", "the one before is kept", str(before(crashed))):
        assert word in str(caught.value)
    assert before(crashed).read_bytes() == kept


def test_a_corrupt_checkpoint_with_none_before(crashed, no_draws) -> None:
    before(crashed).unlink()
    empty(crashed)
    with pytest.raises(FileFormatError, match="delete it to start again"):
        infer(crashed)


def test_both_corrupt(crashed, no_draws) -> None:
    empty(before(crashed))
    crashed.unlink()
    with pytest.raises(FileFormatError, match="delete it to start again"):
        infer(crashed)


# -- of another run ---------------------------------------------------------------------------------------------------

OTHERS = {
    "key": dict(key=1),
    "the data differ": dict(post=spread().condition(y=Y + 1.0)),
    "draws": dict(draws=60),
    "eliminated": dict(eliminate=[]),
    "target_accept": dict(target_accept=0.9),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_run_is_refused(what, crashed, no_draws) -> None:
    old = crashed.read_bytes()
    with pytest.raises(FileFormatError) as caught:
        infer(crashed, **OTHERS[what])
    for word in (str(crashed), "the same model, data, key and settings", what, "give another path"):
        assert word in str(caught.value)
    assert crashed.read_bytes() == old


def test_only_differences_are_reported(crashed, no_draws) -> None:
    with pytest.raises(FileFormatError) as caught:
        infer(crashed, draws=60)
    assert "40" in str(caught.value) and "60" in str(caught.value)
    assert "warmup" not in str(caught.value) and "chains" not in str(caught.value)


def test_a_folder_that_does_not_exist(tmp_path, no_draws) -> None:
    path = tmp_path / "absent" / "run.npz"
    with pytest.raises(FileFormatError) as caught:
        infer(path)
    assert str(path) in str(caught.value) and str(path.parent) in str(caught.value)


def test_a_folder_in_place_of_a_file(tmp_path, no_draws) -> None:
    with pytest.raises(FileFormatError) as caught:
        infer(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_checkpoint_is_of_the_method_that_options_choose(tmp_path) -> None:
    """Without a method it is a grid, and with an option of the no-U-turn sampler that sampler, if it is the default."""
    quiet = dict(draws=20, chains=2, warmup=20, progress=False, log_likelihood=False, predictive=False)
    assert resumed.POST.infer(KEY, checkpoint=tmp_path / "run.npz", **quiet).posterior.attrs["method"] == "grid"
    with pytest.raises(FileFormatError, match="method was None, is 'nuts'"):
        resumed.POST.infer(KEY, checkpoint=tmp_path / "run.npz", target_accept=0.8, **quiet)
