"""Where the rows of a stream are summed: by which process, and on which of its devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import eval_context
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from fubini.base.arrays import double_precision


class RowPlaces(NamedTuple):
    """The devices along some axes of a mesh, each of which sums a part of each chunk of its process.

    >>> RowPlaces(jax.make_mesh((1,), ("rows",)), ("rows",)).share(100)
    (0, 100)
    """

    mesh: Mesh
    axes: tuple[str, ...]

    @property
    def devices(self) -> list[Any]:
        """This process's own, one for each place along the axes."""
        own = [device for device in self._along if device.process_index == jax.process_index()]
        return own or jax.local_devices()[:1]

    @property
    def processes(self) -> list[int]:
        """The processes that have devices along the axes."""
        return sorted({device.process_index for device in self._along})

    def share(self, rows: int) -> tuple[int, int]:
        """The first row of this process, and the first that is the next one's."""
        processes = self.processes
        if jax.process_index() not in processes:
            return rows, rows
        place = processes.index(jax.process_index())
        return rows * place // len(processes), rows * (place + 1) // len(processes)

    def gather(self, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """The arrays of each process, in all of them."""
        if jax.process_count() == 1:
            return [list(arrays)]
        with double_precision(), eval_context():
            stacked = multihost_utils.process_allgather(list(arrays))
        return [[np.asarray(array[process]) for array in stacked] for process in range(jax.process_count())]

    @property
    def _along(self) -> list[Any]:
        names = self.mesh.axis_names
        first = tuple(slice(None) if name in self.axes else 0 for name in names)
        return list(np.ravel(self.mesh.devices[first]))
