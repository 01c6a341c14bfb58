"""Numbers as they are printed: four digits each, the middle of a large array omitted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.base.arrays import is_in_parts, is_traced
from fubini.show.printed_form import Grid

MOST = 6  # numbers of an array that are all printed
FETCHED = 2**16  # numbers of an array that are all fetched from a device
WHOLE, SHORT = 24, 70  # numbers of an array, and characters, that are printed as NumPy prints them
ROWS, COLUMNS = 12, 8  # of a grid that are all printed


def shown_number(number: float) -> str:
    """Four digits of a number.

    >>> shown_number(0.885123), shown_number(2.0), shown_number(1234567)
    ('0.8851', '2', '1234567')
    """
    return f"{number:.4g}" if isinstance(number, float | np.floating) else str(number)


def shown_array(data: Any) -> str:
    """An array on one line; of a large one on a device, only the entries that are shown are fetched.

    >>> shown_array(np.array([0.25, 1.5])), shown_array(np.arange(20.0))
    ('[0.25, 1.5]', '[0, 1, …, 18, 19]')
    """
    array = data if isinstance(data, np.ndarray) else taken(data, [ends(size, MOST) for size in np.shape(data)])
    edge = 2 if array.ndim < 3 else 1
    text = np.array2string(
        array,
        separator=", ",
        threshold=MOST,
        edgeitems=edge,
        formatter={"float_kind": lambda number: f"{number:.4g}"},
        max_line_width=10**6,
    )
    return " ".join(text.split()).replace("[ ", "[").replace("...", "…")


def shown_value(value: Any) -> str:
    """A value on one line where it is an array or a number; the shape and some numbers of a large array.

    >>> shown_value(np.array([0.5, 1.0])), shown_value(np.zeros((100, 3)))
    ('array([0.5, 1. ])', 'array of shape (100, 3): [[0, 0, 0], [0, 0, 0], …, [0, 0, 0], [0, 0, 0]]')
    """
    if type(value) is dict:
        return f"{{{', '.join(f'{name!r}: {shown_value(item)}' for name, item in value.items())}}}"
    if not hasattr(value, "__array__") or not hasattr(value, "dtype"):
        return repr(value)
    if is_traced(value):
        return f"traced array of shape {np.shape(value)}"
    if np.size(value) <= WHOLE:
        whole = repr(value)
        if "\n" not in whole and len(whole) <= SHORT:
            return whole
    if getattr(value.dtype, "kind", "") not in "biufc":
        return f"array of shape {np.shape(value)} of {value.dtype}"
    numbers = shown_array(value)
    return f"array of shape {np.shape(value)}: {numbers if len(numbers) <= SHORT else f'{numbers[: SHORT - 1]}…'}"


def taken(data: Any, positions: Sequence[Sequence[int]]) -> np.ndarray:
    """The entries at these positions along each axis; of a large array on a device, they alone are fetched."""
    if not isinstance(data, np.ndarray) and np.size(data) <= FETCHED and not is_in_parts(data):
        data = np.asarray(data)
    for axis, places in enumerate(positions):
        if len(places) < np.shape(data)[axis]:
            data = data.take(np.asarray(places), axis=axis)
    return np.asarray(data)


def ends(size: int, half: int) -> list[int]:
    """The positions along an axis: all, or `half` and one more from its beginning and `half` from its end.

    >>> ends(4, 2), ends(10, 2)
    ([0, 1, 2, 3], [0, 1, 2, 8, 9])
    """
    return list(range(size)) if size <= 2 * half else [*range(half + 1), *range(size - half, size)]


def grid(
    numbers: np.ndarray, names: Sequence[str], labels: Sequence[Sequence[object]], title: str = "", rows: int = ROWS
) -> Grid:
    """Numbers under the labels of their last axis, a line for each cell of the others.

    >>> print(*grid(np.array([[0.5, 0.8], [0.1, 0.0]]), ("a", "b"), ((0, 1), ("no", "yes"))).lines(), sep="\\n")
    a \\ b   no  yes
    0      0.5  0.8
    1      0.1    0
    """
    corner = " \\ ".join(filter(None, (", ".join(names[:-1]), names[-1]))) + title
    cells = []
    for cell in itertools.islice(np.ndindex(numbers.shape[:-1]), rows):
        head = ", ".join(str(labels[axis][position]) for axis, position in enumerate(cell))
        cells.append([head, *_ends([shown_number(number) for number in numbers[cell]])])
    is_cut = len(cells) < np.prod(numbers.shape[:-1])
    return Grid([corner, *map(str, _ends(labels[-1]))], cells, more="…" if is_cut else "")


def _ends(items: Sequence) -> list:
    """All of a few, or the first and the last of many."""
    half = COLUMNS // 2
    return list(items) if len(items) <= COLUMNS else [*items[:half], "…", *items[-half:]]
