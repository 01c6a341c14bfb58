"""Axes of the figures: from numbers to points of the drawing, round numbers below, and the frame around."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fubini.report.html_elements import Markup, element

WIDTH, HEIGHT = 320, 170
LEFT, RIGHT, TOP, BOTTOM = 42, 18, 10, 26
LETTER, LONG = 6.2, 6  # the width of a digit; digits beside an axis that are set smaller where there are more
UNITS = ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from which number on, and what it is


def shown(number: float) -> str:
    """A number in four digits, a dash where there is none.

    >>> shown(0.123456), shown(-2.0), shown(float("nan"))
    ('0.1235', '−2', '–')
    """
    return "–" if number != number else f"{number:.4g}".replace("-", "−")


def round_numbers(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers between two ends.

    >>> round_numbers(0.0, 1.0)
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    step = (high - low) / count
    power = 10.0 ** math.floor(math.log10(step))
    step = min((size * power for size in (1, 2, 2.5, 5, 10)), key=lambda size: abs(size - step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def tick_labels(numbers: Sequence[float]) -> list[str]:
    """Labels of numbers at equal steps: no more digits than tell them apart, thousands as k, M, G.

    >>> tick_labels([0.0, 25_000.0, 50_000.0]), tick_labels([-0.5, 0.0, 0.5]), tick_labels([100_000.1, 100_000.2])
    (['0', '25k', '50k'], ['−0.5', '0', '0.5'], ['100000.1', '100000.2'])
    """
    step = min((abs(b - a) for a, b in itertools.pairwise(numbers)), default=0.0) or 1.0
    most = max(map(abs, numbers), default=0.0)
    if most >= 1e15 or most < 1e-4:
        return [shown(number).replace("e−0", "e−").replace("e+", "e") for number in numbers]
    unit, letter = next(
        ((unit, name) for least, unit, name in UNITS if most >= least and step >= unit / 1000), (1.0, "")
    )
    places = max(0, 1 - math.floor(math.log10(step / unit)))  # a step is 1, 2, 2.5 or 5 times a power of ten
    return [_trimmed(f"{number / unit:.{places}f}", letter) for number in numbers]


def _trimmed(digits: str, unit: str) -> str:
    """25.0 with the unit k as 25k, and 0 without a unit."""
    short = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if float(short) == 0 else short.replace("-", "−") + unit


@dataclass(frozen=True)
class Axes:
    """The ranges of a figure."""

    x: tuple[float, float]
    y: tuple[float, float]

    def points(self, x: np.ndarray, y: np.ndarray) -> str:
        """Points in the drawing, as the path through them."""
        across, down = self.across(x), self.down(y)
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True))

    def across(self, x: np.ndarray) -> np.ndarray:
        """Where numbers lie from left to right."""
        low, high = self.x
        return LEFT + (np.asarray(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def down(self, y: np.ndarray) -> np.ndarray:
        """Where numbers lie from top to bottom."""
        low, high = self.y
        return HEIGHT - BOTTOM - (np.asarray(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def frame(self, ticks: Sequence[tuple[float, str]] | None = None, has_heights: bool = True) -> Markup:
        """The axes with numbers beside them."""
        below = self._apart(ticks if ticks is not None else _labelled(round_numbers(*self.x)))
        beside = _labelled(round_numbers(*self.y, count=3)) if has_heights else []
        base = HEIGHT - BOTTOM
        parts = [element("path", d=f"M{LEFT} {base}H{WIDTH - RIGHT}", class_="axis")]
        for x, name in below:
            at = f"{float(self.across(np.asarray(x))):.0f}"
            parts.append(element("path", d=f"M{at} {base}v4", class_="axis"))
            parts.append(element("text", name, x=at, y=base + 16, text_anchor="middle"))
        for y, name in beside:
            at = float(self.down(np.asarray(y)))
            size = "long" if len(name) > LONG else None
            parts.append(element("text", name, x=LEFT - 5, y=f"{at + 4:.0f}", text_anchor="end", class_=size))
        return Markup("".join(parts))

    def _apart(self, ticks: Sequence[tuple[float, str]]) -> Sequence[tuple[float, str]]:
        """Every k-th tick, so that no two labels touch."""
        room = max((len(name) for _, name in ticks), default=0) * LETTER + LETTER
        at = [float(self.across(np.asarray(x))) for x, _ in ticks]
        gap = min((b - a for a, b in itertools.pairwise(at)), default=room)
        return ticks[:: max(1, math.ceil(room / gap))] if gap > 0 else ticks[:1]


def _labelled(numbers: Sequence[float]) -> list[tuple[float, str]]:
    return list(zip(numbers, tick_labels(numbers), strict=True))


def padded(low: float, high: float, share: float = 0.05) -> tuple[float, float]:
    """A range with some room on both sides; of one number, a range around it."""
    if not high > low:
        low, high = low - (abs(low) or 1.0) * 0.5, high + (abs(high) or 1.0) * 0.5
    room = (high - low) * share
    return low - room, high + room


def figure(caption: str, description: str, *parts: Markup) -> Markup:
    """A figure with its caption, and a description for those who do not see it."""
    drawing = element(
        "svg",
        element("title", description),
        *parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=description,
    )
    return element("figure", drawing, element("figcaption", caption))
