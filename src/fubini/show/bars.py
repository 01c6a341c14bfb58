"""Numbers as bars of text: for people who would rather look than read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLOCKS = " ▏▎▍▌▋▊▉█"
RISING = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """A share of the width, to an eighth of a character.

    >>> bar(0.5, 4)
    '██'
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return ("█" * (eighths // 8) + BLOCKS[eighths % 8]).rstrip()


def bars(labels: Sequence[str], shares: np.ndarray, width: int = 40) -> list[str]:
    """A line for each label: its share, as a number and as a bar.

    >>> print(*bars(["dry", "wet"], np.array([0.75, 0.25]), 8), sep="\\n")
      dry  0.7500 ██████
      wet  0.2500 ██
    """
    longest = max(map(len, labels))
    lines = (
        f"  {label.ljust(longest)}  {share:.4f} {bar(share, width)}"
        for label, share in zip(labels, shares, strict=True)
    )
    return [line.rstrip() for line in lines]


def curve(density: np.ndarray) -> str:
    """A density at points in a row, as blocks.

    >>> curve(np.array([0.1, 0.5, 1.0, 0.5, 0.1]))
    '▁▄█▄▁'
    """
    heights = np.ceil(density / density.max() * 8).astype(int).clip(1, 8)
    return "".join(RISING[height - 1] for height in heights)
