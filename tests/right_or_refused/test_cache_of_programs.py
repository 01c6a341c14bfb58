"""The cache of what XLA compiles: on unless the user says otherwise, shared, and repaired where it is damaged."""

import json
import os
import subprocess
import sys
import time
import zlib

import jax
import pytest

import fubini as fb
from fubini.engines import program_cache as cache
from fubini.errors import DamagedCache

pytestmark = pytest.mark.right_or_refused

WHOLE = zlib.compress(b"machine code" * 50)
DIRECTORY = "jax_compilation_cache_dir"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A new folder for caches, and no other that JAX was told of."""
    before = {
        name: getattr(jax.config, name)
        for name in (DIRECTORY, "jax_persistent_cache_min_compile_time_secs", "jax_enable_compilation_cache")
    }
    monkeypatch.setenv("FUBINI_CACHE", str(tmp_path / "cache"))
    jax.config.update(DIRECTORY, None)
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)


def turned_on() -> str | None:
    cache.turn_on()
    return getattr(jax.config, DIRECTORY)


def test_it_is_on_in_the_users_folder(home) -> None:
    path = turned_on()
    assert path is not None and path.startswith(str(home / "xla-"))
    assert os.stat(path).st_mode & 0o777 == 0o700


def test_a_folder_that_the_user_chose_stays(home, tmp_path) -> None:
    jax.config.update(DIRECTORY, str(tmp_path / "own"))
    assert turned_on() == str(tmp_path / "own") and not home.exists()


@pytest.mark.parametrize("word", ["off", "0", "no", "False"])
def test_it_can_be_turned_off(home, monkeypatch, word) -> None:
    monkeypatch.setenv("FUBINI_CACHE", word)
    assert turned_on() is None
    fb.cache_clear()  # there is nothing to remove


def test_it_stays_off_where_jax_has_none(home) -> None:
    jax.config.update("jax_enable_compilation_cache", False)
    assert turned_on() is None and not home.exists()


def test_each_processor_and_each_version_has_its_own(home, monkeypatch) -> None:
    paths = [turned_on()]
    for module, name, value in (
        (cache, "_processor", lambda: "another"),
        (cache.jax, "__version__", "9.9"),
        (cache.jaxlib, "__version__", "9.9"),
    ):
        jax.config.update(DIRECTORY, None)
        monkeypatch.setattr(module, name, value)
        paths.append(turned_on())
    assert len(set(paths)) == 4


@pytest.mark.parametrize(
    "content",
    [b"", WHOLE[:-1], WHOLE[: len(WHOLE) // 2], WHOLE + b"x", b"notes of the user", b"\x28\xb5\x2f\xfdnothing"],
    ids=["empty", "cut", "half", "longer", "foreign", "zstandard"],
)
def test_what_is_not_whole_is_removed_with_a_warning(tmp_path, content) -> None:
    (tmp_path / "good-cache").write_bytes(WHOLE)
    (tmp_path / "bad-cache").write_bytes(content)
    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.warns(DamagedCache, match="compiled again"):
        cache.check(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checked.json", "good-cache", "notes.txt"]
    cache.check(tmp_path)  # without a warning


def test_each_flipped_bit_is_noticed(tmp_path) -> None:
    for place in range(len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[place] ^= 1
        (tmp_path / "entry").write_bytes(changed)
        assert not cache._is_whole(tmp_path / "entry"), place


def test_entries_are_read_once(tmp_path, monkeypatch) -> None:
    entry = tmp_path / "good-cache"
    entry.write_bytes(WHOLE)
    cache.check(tmp_path)
    read = []
    monkeypatch.setattr(cache, "_is_whole", lambda path: read.append(path) or True)
    cache.check(tmp_path)
    assert not read
    os.utime(entry, (1e9, 2e9))
    cache.check(tmp_path)
    assert read == [entry]


@pytest.mark.parametrize("content", ["", "{", "[1]"])
def test_a_damaged_list_of_entries_is_made_again(tmp_path, content) -> None:
    (tmp_path / "good-cache").write_bytes(WHOLE)
    (tmp_path / cache.CHECKED).write_text(content)
    cache.check(tmp_path)
    assert list(json.loads((tmp_path / cache.CHECKED).read_text())) == ["good-cache"]


def test_old_entries_and_too_many_are_removed(tmp_path) -> None:
    now = time.time()
    for number in range(5):
        path = tmp_path / f"{number}-cache"
        path.write_bytes(WHOLE)
        os.utime(path, (now - number, now - number))
    os.utime(tmp_path / "1-cache", (now - 1e6, now - 1e6))
    cache.check(tmp_path, most=int(2.5 * len(WHOLE)), oldest=1e5)
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == ["0-cache", "2-cache"]


def test_all_is_removed_when_asked(home) -> None:
    path = turned_on()
    for name in ("good-cache", "checked.json", "inner/autotuned"):
        file = os.path.join(path, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        open(file, "wb").close()
    (home / "loops_1.py").touch()
    (home / "notes.txt").touch()
    fb.cache_clear()
    assert not os.listdir(path) and sorted(os.listdir(home)) == sorted([os.path.basename(path), "notes.txt"])


# Four processes one after another, each of which begins as `import fubini` does. The first is killed as it writes.
PROCESSES = """
import os, pathlib, signal, warnings
import jax
from jax import monitoring
from fubini.engines import program_cache

HITS = []

def answer(is_killed):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        program_cache.check(pathlib.Path(jax.config.jax_compilation_cache_dir))
    monitoring.register_event_listener(lambda event, **_: HITS.append(event) if event.endswith("cache_hits") else None)
    if is_killed:
        write = pathlib.Path.write_bytes
        def half(path, content):
            write(path, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        pathlib.Path.write_bytes = half
    number = float(jax.jit(lambda x: x * 3 + 1)(2.0))
    print(number, len(HITS) > 0, [type(one.message).__name__ for one in told], flush=True)

for is_killed in (True, False, False):
    child = os.fork()
    if not child:
        answer(is_killed)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_processes_share_it_and_one_that_is_killed_leaves_nothing_bad(home) -> None:
    given = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    given |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    command = [sys.executable, "-c", PROCESSES]
    told = subprocess.run(command, env={**given, "JAX_PLATFORMS": "cpu"}, check=True, capture_output=True, text=True)
    assert told.stdout.splitlines() == ["-9", "7.0 False ['DamagedCache']", "0", "7.0 True []", "0"]
    assert "Error" not in told.stderr.replace("RuntimeWarning", "")
