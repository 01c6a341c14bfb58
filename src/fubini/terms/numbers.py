"""Numbers as they are printed: four digits each, the middle of a large array omitted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

MOST = 6  # numbers of an array that are all printed
ROWS, COLUMNS = 12, 8  # of a grid that are all printed


def shown_number(number: float) -> str:
    """Four digits of a number.

    >>> shown_number(0.885123), shown_number(2.0), shown_number(1234567)
    ('0.8851', '2', '1234567')
    """
    return f"{number:.4g}" if isinstance(number, float | np.floating) else str(number)


def shown_array(array: np.ndarray) -> str:
    """An array on one line.

    >>> shown_array(np.array([0.25, 1.5])), shown_array(np.arange(20.0))
    ('[0.25, 1.5]', '[0, 1, …, 18, 19]')
    """
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


def shown_grid(
    numbers: np.ndarray, names: Sequence[str], labels: Sequence[Sequence[object]], title: str = "", rows: int = ROWS
) -> list[str]:
    """Numbers under the labels of their last axis, a line for each cell of the others.

    >>> print(*shown_grid(np.array([[0.5, 0.8], [0.1, 0.0]]), ("a", "b"), ((0, 1), ("no", "yes"))), sep="\\n")
    a \\ b   no  yes
    0      0.5  0.8
    1      0.1    0
    """
    corner = " \\ ".join(filter(None, (", ".join(names[:-1]), names[-1]))) + title
    cells = [[corner, *map(str, _ends(labels[-1]))]]
    for cell in itertools.islice(np.ndindex(numbers.shape[:-1]), rows):
        head = ", ".join(str(labels[axis][position]) for axis, position in enumerate(cell))
        cells.append([head, *_ends([shown_number(number) for number in numbers[cell]])])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join([head.ljust(widths[0]), *map(str.rjust, row, widths[1:])]) for head, *row in cells]
    return lines if len(cells) > np.prod(numbers.shape[:-1]) else [*lines, "…"]


def _ends(items: Sequence) -> list:
    """All of a few, or the first and the last of many."""
    half = COLUMNS // 2
    return list(items) if len(items) <= COLUMNS else [*items[:half], "…", *items[-half:]]
