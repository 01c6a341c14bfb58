"""Whether all processes ask the same: told by short digests before programs begin that each would wait in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.core import eval_context
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh

from fubini.base.arrays import is_key
from fubini.errors import DataError

FEW = 4  # numbers that are shown
LONGEST = 300  # characters of a part in a message


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether a mesh has devices of several processes."""
    return mesh is not None and jax.process_count() > 1 and len({one.process_index for one in mesh.devices.flat}) > 1


def is_written_here(mesh: Mesh | None) -> bool:
    """Whether this process writes the files of a run on a mesh: the first of those that run it."""
    return not spans_processes(mesh) or jax.process_index() == 0


def require_agreement(mesh: Mesh | None, asked: str, parts: Mapping[str, Any]) -> None:
    """Raise in all processes unless each asks the same; where a mesh has devices of one process, nothing is done.

    Parts are texts and arrays, of which the numbers count that each process has as a whole.
    """
    if not spans_processes(mesh):
        return
    own = json.dumps({"question": asked, **{name: _text(part) for name, part in parts.items()}}).encode()
    digest = np.frombuffer(hashlib.blake2b(own, digest_size=16).digest() + len(own).to_bytes(8, "big"), np.uint8)
    with eval_context():  # also where a derivative is under way
        every = process_allgather(digest)
        if (every == every[0]).all():
            return
        longest = max(int.from_bytes(row[16:].tobytes(), "big") for row in every)
        texts = process_allgather(np.frombuffer(own.ljust(longest), np.uint8))
    raise _difference([json.loads(text.tobytes().decode()) for text in texts])


def _difference(each: list[dict[str, str]]) -> DataError:
    """The error that says which processes differ from the first, and in what."""
    first, differences = each[0], []
    for index, other in enumerate(each[1:], 1):
        for name in dict.fromkeys((*first, *other)):
            if name in first and name in other and first[name] != other[name]:
                ours, theirs = _around(first[name], other[name])
                differences.append(f"the {name} of process {index} is {theirs}, of process 0 {ours}")
                if name == "question":
                    break
    return DataError(
        f"{first['question']} in {len(each)} processes",
        expected="the same question to the same model, of data of the same shapes, with the same key, in each of them",
        nearest="; ".join(differences),
        advice="what differs by process is placed by fb.shard, which reads the rows of each; the rest is the same",
    )


def _around(one: str, other: str) -> tuple[str, str]:
    """Two texts, cut to what is around their first difference where they are long."""
    if max(len(one), len(other)) <= LONGEST:
        return one, other
    place = next((k for k, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    begin = max(0, place - LONGEST // 2)
    return one[begin : begin + LONGEST], other[begin : begin + LONGEST]


def _text(part: Any) -> str:
    """A part as text: of an array its numbers where they are few, else a digest; of one over devices its shape."""
    if isinstance(part, list):
        return ", ".join(map(_text, part))
    if is_key(part):
        part = jax.random.key_data(part)
    if not isinstance(part, jax.Array | np.ndarray):
        return f"{part}"
    shape = f"{np.dtype(part.dtype)}{list(part.shape)}"
    if isinstance(part, jax.Array) and not part.is_fully_addressable:
        return shape
    numbers = np.ascontiguousarray(part)
    if numbers.size <= FEW:
        return f"{numbers.tolist()}"
    return f"{shape} with the digest {hashlib.blake2b(numbers.tobytes(), digest_size=4).hexdigest()}"
