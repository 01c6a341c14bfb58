"""Checkpoints: arrays in one file, written whole or not at all; the one before is kept beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fubini.errors import FileFormatError

HEADER = "__header__"


class Checkpoint:
    """A file that holds the arrays of an unfinished run, and what run it is of."""

    def __init__(self, path: str | os.PathLike, run: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.run = json.dumps(dict(run), sort_keys=True)
        if not self.path.parent.is_dir():
            raise FileFormatError(f"a checkpoint at {path}", expected=f"a folder {self.path.parent}")

    @property
    def previous(self) -> Path:
        """The checkpoint before this one."""
        return self.path.with_name(self.path.name + ".previous")

    def save(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write to a file beside it, then put that in its place."""
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        header = json.dumps({"run": self.run, "digest": _digest(arrays)})
        with new.open("wb") as file:
            np.savez(file, **{HEADER: np.frombuffer(header.encode(), np.uint8)}, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            os.replace(self.path, self.previous)
        os.replace(new, self.path)

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays, or None where there is no file; after a crash between two writes, those of the one before."""
        path = self.path if self.path.exists() else self.previous
        if not path.exists():
            return None
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(arrays.pop(HEADER).tobytes().decode())
            whole = header["digest"] == _digest(arrays)
        except (BadZipFile, ValueError, KeyError, OSError, EOFError, TypeError, AttributeError) as error:
            raise self._corrupt(path) from error
        if not whole:
            raise self._corrupt(path)
        if header["run"] != self.run:
            raise FileFormatError(
                f"the checkpoint {path}",
                expected="one of this run: the same model, data, key and settings",
                nearest=_difference(json.loads(header["run"]), json.loads(self.run)),
                advice="give another path, or delete the file to start again",
            )
        return arrays

    def _corrupt(self, path: Path) -> FileFormatError:
        kept = self.previous if path != self.previous and self.previous.exists() else None
        return FileFormatError(
            f"the checkpoint {path}",
            expected="a file that infer(…, checkpoint=…) wrote",
            nearest="it is cut short or changed",
            advice=f"the one before is kept: move {kept} to {self.path}" if kept else "delete it to start again",
        )

    def clear(self) -> None:
        """Remove both."""
        for path in (self.path, self.previous):
            path.unlink(missing_ok=True)


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    found = []
    for key, value in ours.items():
        other = theirs.get(key)
        if other == value:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            found.append(
                _difference({f"{key}.{k}": v for k, v in other.items()}, {f"{key}.{k}": v for k, v in value.items()})
            )
        else:
            found.append("the data differ" if key == "numbers" else f"{key} was {other!r}, is {value!r}")
    return ", ".join(found)
