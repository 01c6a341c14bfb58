"""Compiled code, kept in memory and on disk: in a folder of the user's alone, each piece with a digest of its own.

Numba's code is machine code in a pickle, so that whoever writes it can run code: nothing is read from a folder that
others may write to, nor what is not whole. Damaged code is compiled again; what is old, or too much, is removed.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

from fubini.errors import DamagedCache, UnsafeCache, warn

MOST_BYTES = 2**28  # of all that is kept
OLDEST = 90 * 24 * 3600.0  # seconds since it was last used
_DIGEST = 32  # bytes at the beginning of a file
_LOADED: dict[str, ModuleType] = {}
_private: list[tempfile.TemporaryDirectory] = []
_warned: set[Path] = set()
OFF = ("off", "0", "no", "false")  # as FUBINI_CACHE: nothing is kept


def folder() -> Path:
    """Where compiled code is kept: FUBINI_CACHE, or the user's folder for caches; else one for this process alone."""
    return lasting_folder() or _private_folder()


def lasting_folder() -> Path | None:
    """The folder that outlives the process; None where there is none that is the user's alone, or none is wanted."""
    asked = os.environ.get("FUBINI_CACHE", "")
    if asked.lower() in OFF:
        return None
    try:
        path = Path(asked or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fubini")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = _fault(path)
        if fault is None:
            with tempfile.NamedTemporaryFile(dir=path):
                return path
    except (OSError, RuntimeError):  # no room, or no home
        return None
    if path not in _warned:
        _warned.add(path)
        warn(_unsafe(path, fault))
    return None


def _fault(path: Path) -> str | None:
    """Why others may have written to a folder; one that they may only read is closed to them."""
    if not hasattr(os, "geteuid"):  # no such modes
        return None
    status = path.stat()
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it: its mode is {stat.S_IMODE(status.st_mode):04o}"
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)
    return None


def _unsafe(path: Path, fault: str) -> UnsafeCache:
    return UnsafeCache(
        f"compiled code in {path}",
        expected="a folder of the user's alone, of mode 0700",
        nearest=f"{fault}; nothing in it is used, and code is compiled again in each process",
        advice="empty it and close it (chmod 700), or let FUBINI_CACHE name another folder",
    )


def _private_folder() -> Path:
    """Make a folder that is removed when the process ends."""
    if not _private:
        _private.append(tempfile.TemporaryDirectory(prefix="fubini-", ignore_cleanup_errors=True))
    return Path(_private[0].name)


def loaded(source: str) -> ModuleType:
    """The functions of a source, from memory, or with the compiled code that is kept of them."""
    name = _module_name(source)
    if name not in _LOADED:
        home = _with_source(name, source.encode())
        path = home / f"{name}.py"
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module  # where Numba looks for it when it reads compiled code
        exec(compile(source, str(path), "exec"), module.__dict__)
        _keep(module, home)
        _LOADED[name] = module
    return _LOADED[name]


@cache
def load(name: str) -> ModuleType:
    """The functions of a file of this folder that Numba compiles.

    >>> load("flat_run").run.__name__
    'run'
    """
    return loaded(source_of(name))


@cache
def source_of(name: str) -> str:
    """The text of a file of this folder."""
    return resources.files("fubini.engines").joinpath(f"{name}.py").read_text(encoding="utf-8")


def is_kept(name: str) -> bool:
    """Whether the compiled code of a file of this folder is on disk already."""
    return any(folder().glob(f"{_module_name(source_of(name))}.*.nbc"))


def _module_name(source: str) -> str:
    return "loops_" + hashlib.blake2b(source.encode(), digest_size=12).hexdigest()


def _with_source(name: str, content: bytes) -> Path:
    """The folder, with the source in it: Numba keeps code of functions that have a file."""
    home = folder()
    path = home / f"{name}.py"
    if not _holds(path, content):
        try:
            write_whole(path, content)
            prune(home)
        except OSError:  # no room
            home = _private_folder()
            write_whole(home / path.name, content)
    return home


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, by way of a name that nobody can foresee."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.stem}.", suffix=".new", delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def _keep(module: ModuleType, home: Path) -> None:
    """Compiled code of the functions that ask for a cache goes through `CacheFiles`, not through Numba's own files."""
    for name, function in list(vars(module).items()):
        cache = getattr(function, "_cache", None)
        if hasattr(cache, "_cache_file"):
            cache._cache_file = CacheFiles(home, f"{module.__name__}.{name}")  # type: ignore[union-attr]


class CacheFiles:
    """Files of compiled code for one function, in the place of Numba's `IndexDataCacheFile`: one for each signature."""

    def __init__(self, home: Path, name: str) -> None:
        self.home, self.name = home, name

    def path(self, key: Any) -> Path:
        """A signature, a processor, a version of Numba and of Python: each has its file."""
        import numba

        told = repr((key, numba.__version__, sys.version))
        return self.home / f"{self.name}.{hashlib.blake2b(told.encode(), digest_size=12).hexdigest()}.nbc"

    def load(self, key: Any) -> Any:
        """Read the code, or None where there is none that is whole."""
        path = self.path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if content[:_DIGEST] != _digest(content[_DIGEST:]):
            path.unlink(missing_ok=True)
            warn(
                DamagedCache(
                    f"compiled code in {path}",
                    expected="a file as it was written, with its digest",
                    nearest="its content is another; it is removed, and the code is compiled again",
                )
            )
            return None
        _touch(path, self.home / f"{self.name.split('.')[0]}.py")
        return pickle.loads(content[_DIGEST:])

    def save(self, key: Any, data: Any) -> None:
        """Write the code, with its digest."""
        from numba.core.serialize import dumps

        content = dumps(data)
        with suppress(OSError):  # no room: it is compiled again next time
            write_whole(self.path(key), _digest(content) + content)

    def flush(self) -> None:
        """Remove all files of the function."""
        for path in self.home.glob(f"{self.name}.*.nbc"):
            path.unlink(missing_ok=True)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _touch(*paths: Path) -> None:
    """Mark files as used now."""
    for path in paths:
        with suppress(OSError):
            os.utime(path)


def prune(home: Path, most: int = MOST_BYTES, oldest: float = OLDEST) -> None:
    """Remove code that was not used for long, and the least recently used beyond so many bytes."""
    files = []
    for path in home.glob("loops_*"):
        try:
            status = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            files.append((status.st_mtime, status.st_size, path))
    total, now = 0, time.time()
    for used, size, path in sorted(files, reverse=True):
        total += size
        if now - used > oldest or total > most:
            path.unlink(missing_ok=True)
