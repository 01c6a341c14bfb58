"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fubini.errors import FileFormatError


@contextmanager
def written_whole(path: str | os.PathLike, asked: str) -> Iterator[Path]:
    """A path beside the file to write to, which then takes its place: what was there before stays until then.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(f"{folder}/note.txt", "a note") as beside:
    ...         _ = beside.write_text("done")
    ...     Path(folder, "note.txt").read_text()
    'done'
    """
    target = resolved(path)
    with _beside(target, asked) as beside:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, target)


def require_writable(path: str | os.PathLike, asked: str) -> None:
    """Raise before the work, not after it, where a file cannot be written.

    >>> require_writable("no/such/folder/note.txt", "a note")
    Traceback (most recent call last):
        ...
    fubini.errors.FileFormatError: a note
      expected: ...
    """
    with _beside(resolved(path), asked) as beside:
        beside.touch()


def resolved(path: str | os.PathLike) -> Path:
    """The file itself, where the path is a link to one."""
    return Path(path).resolve() if Path(path).is_symlink() else Path(path)


@contextmanager
def _beside(target: Path, asked: str) -> Iterator[Path]:
    """A new path in the folder of the target; nothing is left there."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if target.exists() and not target.is_file():
            raise OSError(None, "it is no plain file: a device, a pipe or a socket")
        yield beside
    except OSError as error:
        raise FileFormatError(
            asked,
            expected=f"a file in a folder {str(target.parent)!r} that exists, may be written to and has room",
            nearest=error.strerror or str(error),
            advice="give another path",
        ) from error
    finally:
        beside.unlink(missing_ok=True)
