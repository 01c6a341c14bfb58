"""What XLA compiles, kept in the user's folder for caches: JAX's own cache, one for each processor and version.

JAX writes entries in place, so that a run that is killed may leave a part of one. What is new in the folder is read
once before JAX sees it, and what is not whole is removed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
from jaxlib import version as jaxlib

from fubini.engines import code_cache
from fubini.errors import DamagedCache, warn

ENTRY = "-cache"  # how JAX's entries end
CHECKED = "checked.json"  # entries that were found whole: their size and time
FOLDERS = "xla-*"
SHORTEST = 0.2  # seconds of compilation that are worth an entry; JAX's own default is 1
MOST_BYTES = 2**30
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_MOMENT = 0.02  # seconds


def turn_on() -> None:
    """Let JAX keep what it compiles, unless the user has said where, or that nothing is to be kept."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    home = code_cache.lasting_folder()
    if home is None:
        return
    path = home / f"xla-{_machine()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        check(path)
    except OSError:  # no room
        return
    config.update("jax_compilation_cache_dir", str(path))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ and _shortest() == 1.0:
        config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    _hide_tuning_errors()


def clear() -> None:
    """Remove all that is kept of compiled code, in this folder and for all processors; what is loaded stays in use.

    >>> import fubini as fb
    >>> fb.cache_clear()
    """
    home = code_cache.lasting_folder()
    if home is None:
        return
    for path in home.glob("loops_*"):
        path.unlink(missing_ok=True)
    for folder in home.glob(FOLDERS):
        for path in folder.iterdir():  # the folder stays: JAX may write to it
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def check(path: Path, most: int = MOST_BYTES, oldest: float = code_cache.OLDEST) -> None:
    """Remove entries that are not whole, with a warning, and those that are old or too many."""
    _prune(path, most, oldest)  # before any is read, and looks used
    known, found = _checked(path), {}
    for entry, status in _entries(path):
        mark = [status.st_size, status.st_mtime_ns]
        if known.get(entry.name) == mark or _is_whole(entry):
            found[entry.name] = mark
        elif not _is_being_written(entry, mark):
            entry.unlink(missing_ok=True)
            warn(
                DamagedCache(
                    f"compiled code in {entry}",
                    expected="an entry of JAX's cache, whole",
                    nearest="its content is another; it is removed, and the code is compiled again",
                )
            )
    if found != known:
        code_cache.write_whole(path / CHECKED, json.dumps(found).encode())


def _entries(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for entry in sorted(path.glob(f"*{ENTRY}")):
        with suppress(OSError):
            yield entry, entry.stat()


def _checked(path: Path) -> dict[str, list[int]]:
    try:
        known = json.loads((path / CHECKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _is_whole(entry: Path) -> bool:
    """Whether a file ends where what is compressed in it ends, with its checksum."""
    try:
        content = entry.read_bytes()
    except OSError:
        return False
    if content[:4] == _ZSTANDARD:
        return _is_whole_frame(content)
    reader = zlib.decompressobj()
    try:
        reader.decompress(content)
    except zlib.error:
        return False
    return reader.eof and not reader.unused_data


def _is_being_written(entry: Path, mark: list[int]) -> bool:
    """Whether another process is at it: it is left to the next check."""
    time.sleep(_MOMENT)
    with suppress(OSError):
        status = entry.stat()
        return [status.st_size, status.st_mtime_ns] != mark
    return True


def _is_whole_frame(content: bytes) -> bool:
    """The same of Zstandard's format, where it is installed."""
    if importlib.util.find_spec("zstandard") is None:
        return False
    import zstandard  # type: ignore[import-not-found]

    try:
        zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError:
        return False
    return True


def _prune(path: Path, most: int, oldest: float) -> None:
    total, now = 0, time.time()
    newest = sorted(_entries(path), key=lambda one: max(one[1].st_atime, one[1].st_mtime), reverse=True)
    for entry, status in newest:
        total += status.st_size
        if total > most or now - max(status.st_atime, status.st_mtime) > oldest:
            entry.unlink(missing_ok=True)


def _machine() -> str:
    """The processor with what it can do, and what compiles for it: code of another is never loaded."""
    parts = (
        *(platform.machine(), platform.system(), _processor(), jax.__version__, jaxlib.__version__),
        *(os.environ.get("XLA_FLAGS", ""), str(importlib.util.find_spec("zstandard") is not None)),
    )
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _processor() -> str:
    """What Linux tells of the first processor: its name and its features."""
    told = []
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                break
            if line.split(":")[0].strip() in ("vendor_id", "model name", "flags", "Features", "CPU part"):
                told.append(line.strip())
    return "\n".join(told) or platform.processor()


def _shortest() -> float:
    return float(jax.config.jax_persistent_cache_min_compile_time_secs)  # type: ignore[attr-defined]


def _hide_tuning_errors() -> None:
    """XLA prints an error for each entry on processors with AVX-512: how it was tuned is no feature of theirs.

    Its own code is compiled with +prefer-no-gather, and then refused by no more than this message. What fails in XLA is
    raised as well as printed, so that nothing is lost. The level stays as it is where the user has chosen one.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") != "1" or "avx512" not in _processor():
        return
    before = jax.config.jax_logging_level  # type: ignore[attr-defined]
    if before in (None, "NOTSET"):
        jax.config.update("jax_logging_level", "CRITICAL")  # which sets that of XLA
        jax.config.update("jax_logging_level", before)  # and takes back that of JAX alone
