"""Axes of the figures: from numbers to points of the drawing, round numbers below, and the frame around."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fubini.report.html_elements import Markup, element

WIDTH, HEIGHT = 320, 170
LEFT, RIGHT, TOP, BOTTOM = 42, 18, 10, 26


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
        below = ticks if ticks is not None else [(x, shown(x)) for x in round_numbers(*self.x)]
        beside = [(y, shown(y)) for y in round_numbers(*self.y, count=3)] if has_heights else []
        base = HEIGHT - BOTTOM
        parts = [element("path", d=f"M{LEFT} {base}H{WIDTH - RIGHT}", class_="axis")]
        for x, name in below:
            at = f"{float(self.across(np.asarray(x))):.0f}"
            parts.append(element("path", d=f"M{at} {base}v4", class_="axis"))
            parts.append(element("text", name, x=at, y=base + 16, text_anchor="middle"))
        for y, name in beside:
            at = float(self.down(np.asarray(y)))
            parts.append(element("text", name, x=LEFT - 5, y=f"{at + 4:.0f}", text_anchor="end"))
        return Markup("".join(parts))


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
