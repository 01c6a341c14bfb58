"""Checkpoints: arrays in one file, written whole or not at all; the one before is kept beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from fubini.base.file_limits import open_file
from fubini.base.fingerprints import is_written_here, require_agreement
from fubini.base.processes import note_checkpoint
from fubini.base.whole_files import resolved, written_whole
from fubini.errors import FileFormatError, OtherMesh, warn
from fubini.infer.archive import Archive, Damaged, write_archive

HEADER = "__header__"
LONGEST_HEADER = 2**20  # bytes


class Layout(NamedTuple):
    """Type and shape of an array of a checkpoint."""

    dtype: np.dtype
    shape: tuple[int, ...]


class Checkpoint:
    """A file that holds the arrays of an unfinished run, what run it is of, and on what mesh.

    Of several processes that run it together the first writes, and all read.
    """

    def __init__(self, path: str | os.PathLike, run: Mapping[str, Any], mesh: Mesh | None = None) -> None:
        self.mesh = mesh
        self.path = resolved(path)
        self.run = json.dumps(dict(run), sort_keys=True)
        if not self.path.parent.is_dir():
            raise FileFormatError(f"a checkpoint at {path}", expected=f"a folder {self.path.parent}")

    @property
    def previous(self) -> Path:
        """The checkpoint before this one."""
        return self.path.with_name(self.path.name + ".previous")

    @property
    def _axes(self) -> dict[str, int]:
        return {} if self.mesh is None else dict(self.mesh.shape)

    def save(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write to a file beside it, then put that in its place."""
        if not is_written_here(self.mesh):
            return
        header = json.dumps({"run": self.run, "mesh": self._axes, "digest": _digest(arrays)})
        with written_whole(self.path, f"a checkpoint at {self.path}") as beside:
            with open(beside, "xb", opener=_private) as file:
                write_archive(file, {HEADER: np.frombuffer(header.encode(), np.uint8), **arrays})
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                os.replace(self.path, self.previous)
        note_checkpoint(self.path)

    def load(self, layout: Mapping[str, Layout]) -> dict[str, np.ndarray] | None:
        """The arrays, of this layout, or None where there is no file; after a crash between two writes, those before.

        A checkpoint of another run is refused before its arrays are read.
        """
        arrays = self._load(layout)
        seen = "absent" if arrays is None else _digest(arrays)
        require_agreement(self.mesh, f"the checkpoint {self.path}", {"file": seen})
        return arrays

    def _load(self, layout: Mapping[str, Layout]) -> dict[str, np.ndarray] | None:
        path = self.path if self.path.exists() else self.previous
        if not path.exists():
            return None
        try:
            with open_file(path) as file:
                return self._read(Archive(file), path, layout)
        except (Damaged, OSError) as error:
            raise self._corrupt(path, f"it is cut short or changed: {error}") from error

    def _read(self, archive: Archive, path: Path, layout: Mapping[str, Layout]) -> dict[str, np.ndarray]:
        header = _header(archive)
        if header["run"] != self.run:
            raise FileFormatError(
                f"the checkpoint {path}",
                expected="one of this run: the same model, data, key and settings",
                nearest=_difference(_loaded(header["run"]), json.loads(self.run)),
                advice="give another path, or delete the file to start again",
            )
        if set(archive.members) != {HEADER, *layout}:
            raise Damaged("it has other arrays than this run")
        for name, wanted in layout.items():
            dtype, shape = archive.layout(name)
            if (dtype, shape) != wanted:
                raise Damaged(f"{name!r} is {dtype} of shape {shape}, and {wanted.dtype} of {wanted.shape} in this run")
        arrays = {name: archive.read(name) for name in layout}
        if header["digest"] != _digest(arrays):
            raise Damaged("its numbers are not those that were written")
        if header.get("mesh", {}) != self._axes:
            warn(
                OtherMesh(
                    f"the checkpoint {path}, over {_over(self._axes)}",
                    nearest=f"it was written over {_over(header.get('mesh', {}))}",
                    advice="the run goes on; sums have another order there, so that draws differ in their last digits",
                )
            )
        return arrays

    def refuse(self, reason: str) -> FileFormatError:
        """The error of a checkpoint whose numbers cannot be those of the run."""
        return self._corrupt(self.path if self.path.exists() else self.previous, f"it is changed: {reason}")

    def _corrupt(self, path: Path, reason: str) -> FileFormatError:
        kept = self.previous if path != self.previous and self.previous.exists() else None
        return FileFormatError(
            f"the checkpoint {path}",
            expected="a file that infer(…, checkpoint=…) wrote",
            nearest=reason,
            advice=f"the one before is kept: move {kept} to {self.path}" if kept else "delete it to start again",
        )

    def clear(self) -> None:
        """Remove both."""
        for path in (self.path, self.previous):
            path.unlink(missing_ok=True)


def _over(axes: Mapping[str, int]) -> str:
    """A mesh in words."""
    return f"a mesh with {', '.join(f'{size} {name}' for name, size in axes.items())}" if axes else "no mesh"


def _private(path: str, flags: int) -> int:
    """Open a file that no other user may read."""
    return os.open(path, flags, 0o600)


def _header(archive: Archive) -> dict[str, Any]:
    """What run the arrays are of, and their digest."""
    if HEADER not in archive.members or archive.members[HEADER].file_size > LONGEST_HEADER:
        raise Damaged("it has no header")
    try:
        header = json.loads(archive.read(HEADER).tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise Damaged("its header is changed") from error
    if not isinstance(header, dict) or not all(isinstance(header.get(key), str) for key in ("run", "digest")):
        raise Damaged("its header is changed")
    return header


def _loaded(run: str) -> dict[str, Any]:
    """The run that a header is of."""
    try:
        header = json.loads(run)
    except (ValueError, RecursionError) as error:
        raise Damaged("its header is changed") from error
    if not isinstance(header, dict):
        raise Damaged("its header is changed")
    return header


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    differences = []
    for key, value in ours.items():
        other = theirs.get(key)
        if other == value:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            differences.append(
                _difference({f"{key}.{k}": v for k, v in other.items()}, {f"{key}.{k}": v for k, v in value.items()})
            )
        else:
            differences.append("the data differ" if key == "numbers" else f"{key} was {other!r}, is {value!r}")
    return ", ".join(differences)
