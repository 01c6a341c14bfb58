"""`fb.distributed`: several processes, each with devices of its own, that run one script together."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import NamedSharding

from fubini.base.arrays import Data, is_key
from fubini.errors import DataError, DomainError

# What `fubini launch` tells the processes that it starts.
COORDINATOR, COUNT, INDEX = "FUBINI_COORDINATOR", "FUBINI_PROCESSES", "FUBINI_PROCESS"
NOTES = "FUBINI_NOTES"  # a folder for what they tell it
SECONDS_TO_BEGIN = 120
Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


@dataclass(frozen=True)
class Processes:
    """Which of the processes that run the script together this one is, counted from 0, and how many there are.

    >>> Processes(0, 2).is_first
    True
    """

    index: int
    count: int

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prints and writes what is wanted once."""
        return self.index == 0


def distributed(**options: Any) -> Processes:
    """Join the processes that run this script together; `jax.devices()` are then the devices of all of them.

    It comes before the first array. The others are found by what `fubini launch` says, or as JAX finds them: by SLURM,
    Open MPI or Kubernetes; `options` are those of `jax.distributed.initialize`, as `cluster_detection_method="mpi4py"`.
    A script that none of these has started runs alone. CPUs communicate by gloo. An error in one process ends it at
    once, so that the others do not wait for it; `sys.exit(3)` does where `fubini launch` has started it.

        here = fb.distributed()                               # fubini launch -n 2 script.py
        mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
        y = fb.shard(np.load("y.npy", mmap_mode="r"), mesh, "rows")
        evidence = model.condition(y=y).log_evidence()        # the same number in each process
        if here.is_first:
            print(evidence)
    """
    if not jax.distributed.is_initialized() and not _join(options):
        return Processes(0, 1)
    return Processes(jax.process_index(), jax.process_count())


def _join(options: dict[str, Any]) -> bool:
    """Join the other processes; whether there are any."""
    is_launched = COORDINATOR in os.environ and not options
    try:
        jax.distributed.initialize(**(_as_launched() if is_launched else options))
    except ValueError as error:
        if options or is_launched or "coordinator_address" not in str(error):
            raise
        return False  # no cluster that JAX knows
    except RuntimeError as error:
        if "must be called before" not in str(error):
            raise
        raise DomainError(
            "fb.distributed() after JAX has computed or placed an array",
            expected="fb.distributed() before the first array",
            advice="call it at the top of the script, below the imports",
        ) from error
    sys.excepthook = _ending_at_once(sys.excepthook)
    return True


def _as_launched() -> dict[str, Any]:
    """Options of JAX by the variables of `fubini launch`."""
    return {
        "coordinator_address": os.environ[COORDINATOR],
        "coordinator_bind_address": os.environ[COORDINATOR],
        "num_processes": _number(COUNT),
        "process_id": _number(INDEX),
        "cluster_detection_method": "deactivate",
        "initialization_timeout": SECONDS_TO_BEGIN,
    }


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise DataError(
            f"fb.distributed() where the variable {name} is {text!r}",
            expected="a whole number",
            advice=f"fubini launch -n 2 script.py sets {COORDINATOR}, {COUNT} and {INDEX}",
        )
    return int(text)


def _ending_at_once(show: Hook) -> Hook:
    """Show an error that nothing caught, and end: JAX would wait for the others, and they for this process."""

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        show(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)

    return end


def note_checkpoint(path: Path) -> None:
    """Tell `fubini launch` where this process keeps its run."""
    folder = os.environ.get(NOTES)
    if folder is not None and Path(folder).is_dir():
        Path(folder, f"checkpoint-{os.environ.get(INDEX, 0)}").write_text(str(path.absolute()), encoding="utf-8")


# -- arrays that several processes hold --------------------------------------------------------------------------------


def placed(x: Any, sharding: NamedSharding) -> Data:
    """Numbers that each process has as a whole, on the devices of all."""
    if is_key(x):
        return jax.random.wrap_key_data(placed(jax.random.key_data(x), sharding), impl=jax.random.key_impl(x))
    if isinstance(x, jax.Array) and x.sharding == sharding:
        return x
    whole, dtype = on_host(x), jax.typeof(x).dtype
    return jax.make_array_from_callback(whole.shape, sharding, lambda where: np.asarray(whole[where], dtype))


def on_host(x: Any) -> np.ndarray:
    """An array as one of NumPy, in each process; a key as its numbers."""
    if is_key(x):
        x = jax.random.key_data(x)
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        return np.asarray(process_allgather(x, tiled=True))
    return np.asarray(x)


def gathered(items: Sequence[Any]) -> list[Any]:
    """Trees of arrays, as many and of the same shapes in each process, as a list of those of all processes."""
    leaves, trees = zip(*map(jax.tree_util.tree_flatten, items), strict=True)
    columns = [_gathered_column(column) for column in zip(*leaves, strict=True)]
    return [jax.tree_util.tree_unflatten(trees[0], one) for one in zip(*columns, strict=True)]


def _gathered_column(arrays: Sequence[Any]) -> list[Any]:
    """The same for single arrays; they go as bytes, which keep every digit whatever precision is in force."""
    own = np.stack([on_host(array) for array in arrays])
    every = process_allgather(np.frombuffer(own.tobytes(), np.uint8)) if own.size else np.zeros(0, np.uint8)
    whole = np.frombuffer(every.tobytes(), own.dtype).reshape(jax.process_count() * len(own), *own.shape[1:])
    if is_key(arrays[0]):
        return list(jax.random.wrap_key_data(jax.numpy.asarray(whole), impl=jax.random.key_impl(arrays[0])))
    return [jax.numpy.asarray(one) if isinstance(arrays[0], jax.Array) else np.array(one) for one in whole]
