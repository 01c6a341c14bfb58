"""Data and arguments of a model that are not numbers, found where an answer is none: they are named by their place."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.distant import DistantArray, distant, flatten
from fubini.errors import DataError


def require_numbers(joint: Any) -> None:
    """Raise where an array that the model reads has an entry that is not a number."""
    for leaf in flatten(joint)[0]:
        if (record := distant(leaf)) is not None:
            _require_distant_numbers(joint, record)
            continue
        array = np.asarray(leaf)
        if array.dtype.kind == "f" and np.isnan(array).any():
            place = tuple(int(axis[0]) for axis in np.nonzero(np.isnan(array)))
            raise DataError(
                f"an answer of {joint}",
                expected="numbers in the data and arguments of the model",
                nearest=f"an array of shape {array.shape} has NaN at {place}",
                advice="data that are missing go in as a masked array: np.ma.masked_invalid(data)",
            )


def require_numbers_on_devices(joint: Any) -> None:
    """The same of arrays that stay where they are."""
    for record in map(distant, flatten(joint)[0]):
        if record is not None:
            _require_distant_numbers(joint, record)


def _require_distant_numbers(joint: Any, record: DistantArray) -> None:
    wrong = None if record.dtype.kind != "f" or record.range.is_finite else record.first_outside(_is_number)
    if wrong is not None:
        raise DataError(
            f"an answer of {joint}",
            expected="numbers in the data and arguments of the model",
            nearest=f"{record} has NaN at {record.at(wrong[0])}",
            advice="rows that are missing are left out before they are placed: fb.shard(x[rows], mesh, …)",
        )


def _is_number(array: Data) -> Data:
    return ~jnp.isnan(array)
