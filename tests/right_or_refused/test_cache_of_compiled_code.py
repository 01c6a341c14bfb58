"""The cache of compiled code: the user's alone, repaired where it is damaged, and bounded."""

import os
import pickle
import signal
import stat
import subprocess
import sys
import time

import pytest

from fubini.engines import code_cache as cache
from fubini.errors import DamagedCache, UnsafeCache

pytestmark = pytest.mark.right_or_refused

SOURCE = "from numba import njit\n\n\n@njit(cache=True)\ndef triple(x):\n    return 3 * x\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A new cache, and another folder that Numba is told to use."""
    path = tmp_path / "cache"
    monkeypatch.setenv("FUBINI_CACHE", str(path))
    return path


def loaded_anew():
    """The source as a new process would load it, the answer, and how often code on disk was used."""
    cache._LOADED.clear()
    module = cache.loaded(SOURCE)
    assert module.triple(2.0) == 6.0
    return sum(module.triple.stats.cache_hits.values())


def code(home):
    (path,) = home.glob("loops_*.triple.*.nbc")
    return path


def test_code_is_kept_and_used_again(home) -> None:
    assert [loaded_anew(), loaded_anew()] == [0, 1]


def test_the_folder_is_the_users_alone(home) -> None:
    loaded_anew()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.glob("loops_*")} == {0o600}


def test_a_folder_that_others_may_read_is_closed(home) -> None:
    home.mkdir()
    home.chmod(0o755)
    assert cache.folder() == home
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(home, mode) -> None:
    home.mkdir()
    home.chmod(mode)
    with pytest.warns(UnsafeCache, match="others may write to it"):
        other = cache.folder()
    assert other != home and stat.S_IMODE(other.stat().st_mode) == 0o700
    assert cache.folder() == other  # without a second warning
    loaded_anew()
    assert not list(home.iterdir())


def test_a_folder_of_another_user_is_not_used(home, monkeypatch) -> None:
    home.mkdir(mode=0o700)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.warns(UnsafeCache, match="another user"):
        assert cache.folder() != home


def damages(content: bytes):
    yield b""
    yield content[: len(content) // 2]
    yield content + b"x"
    yield b"x" * len(content)
    for place in range(0, len(content), len(content) // 7):
        changed = bytearray(content)
        changed[place] ^= 1
        yield bytes(changed)


def test_damaged_code_is_compiled_again(home) -> None:
    """One flipped bit of machine code would be a crash or a wrong number."""
    loaded_anew()
    content = code(home).read_bytes()
    for damage in damages(content):
        code(home).write_bytes(damage)
        with pytest.warns(DamagedCache, match="compiled again"):
            assert loaded_anew() == 0
        assert loaded_anew() == 1


KILLED = """
import os, signal
from fubini.engines import code_cache

def kill(*paths):
    if os.fspath(paths[1]).endswith(".nbc"):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(*paths)

replace, os.replace = os.replace, kill
code_cache.loaded({source!r}).triple(2.0)
"""


def test_a_process_that_is_killed_as_it_writes_leaves_nothing_bad(home) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED.format(source=SOURCE)], env={**os.environ}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not list(home.glob("loops_*.nbc"))
    assert [loaded_anew(), loaded_anew()] == [0, 1]


SHARED = """
from fubini.engines import code_cache

module = code_cache.loaded({source!r})
module.triple(2.0)
print(sum(module.triple.stats.cache_hits.values()))
"""


def test_processes_share_code(home) -> None:
    loaded_anew()
    command = [sys.executable, "-c", SHARED.format(source=SOURCE)]
    told = subprocess.run(command, env={**os.environ}, check=True, capture_output=True, text=True)
    assert told.stdout == "1\n"


def test_a_damaged_source_is_written_again(home) -> None:
    loaded_anew()
    (path,) = home.glob("loops_*.py")
    path.write_text("raise SystemExit\n")
    assert loaded_anew() == 1
    assert path.read_text() == SOURCE


class Bomb:
    """Unpickled, it runs."""

    def __reduce__(self):
        return os._exit, (77,)


def test_no_pickle_is_read_that_is_not_ours(home, tmp_path, monkeypatch) -> None:
    """Neither Numba's own files, beside the source or where NUMBA_CACHE_DIR says, nor ours without their digest."""
    import numba

    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(elsewhere))
    loaded_anew()
    assert not [path for path in elsewhere.rglob("*") if path.is_file()]
    code(home).write_bytes(pickle.dumps(Bomb()))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    beside = home / "__pycache__"
    beside.mkdir(exist_ok=True)
    name = next(home.glob("loops_*.py")).stem
    for number in range(1, 7):
        (beside / f"{name}.triple-{number}.py{sys.version_info[0]}{sys.version_info[1]}.nbi").write_bytes(
            pickle.dumps(Bomb())
        )
    with pytest.warns(DamagedCache, match="compiled again"):
        assert loaded_anew() == 0


def test_temporary_names_cannot_be_foreseen(home, monkeypatch) -> None:
    names, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (names.append(os.path.basename(old)), replace(old, new)))
    for _ in range(2):
        loaded_anew()
        for path in home.glob("loops_*"):
            path.unlink()
    assert len(names) == len(set(names)) == 4
    assert not any(str(os.getpid()) in name for name in names)


def test_old_code_and_too_much_of_it_are_removed(home) -> None:
    home.mkdir(mode=0o700)
    now = time.time()
    for number in range(5):
        path = home / f"loops_{number}.py"
        path.write_bytes(b"x" * 100)
        os.utime(path, (now - number, now - number))
    (home / "notes.txt").write_text("of the user")
    os.utime(home / "loops_1.py", (now - 1e6, now - 1e6))
    cache.prune(home, most=250, oldest=1e5)
    assert sorted(path.name for path in home.iterdir()) == ["loops_0.py", "loops_2.py", "notes.txt"]


def test_a_cache_without_room_is_no_error(home, monkeypatch) -> None:
    cache._LOADED.clear()

    def full(path, content):
        if path.suffix == ".nbc":
            raise OSError(28, "No space left on device")
        write(path, content)

    write = cache.write_whole
    monkeypatch.setattr(cache, "write_whole", full)
    assert loaded_anew() == 0
