"""Panels one below the other, or side by side, as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from fubini.errors import FubiniError
from fubini.plots.panels import Density, Image, Intervals, Panel, Points, Shares
from fubini.show.picture import Picture

WIDTH, HEIGHT = 6.4, 1.7  # inches: of a picture, and of a panel of height one
SMALL = 3.2  # the width of a panel that stands beside another


def figures() -> ModuleType:
    """The module of matplotlib that makes figures, or an error that says how to install it."""
    try:
        from matplotlib import figure
    except ImportError as error:
        raise FubiniError(
            "a picture",
            expected="the library matplotlib, which draws it",
            advice="install it: pip install 'fubini[plot]'",
        ) from error
    return figure


def draw_panels(panels: Sequence[Panel], opening: str = "") -> Picture:
    """Series below each other, over one axis where all have the same; other panels two in a row."""
    if all(isinstance(panel, Density | Shares | Intervals | Image) for panel in panels) and len(panels) > 1:
        return _in_rows(panels, opening)
    heights = [panel.height for panel in panels]
    figure = figures().Figure(figsize=(WIDTH, HEIGHT * sum(heights) + 0.4), layout="constrained")
    share = len(panels) > 1 and all(hasattr(panel, "across") for panel in panels)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights, sharex=share)[:, 0]
    sentences = [_drawn(panel, one, opening) for panel, one in zip(panels, axes, strict=True)]
    if share:
        for one in axes[:-1]:
            one.set_xlabel("")
    return Picture(figure, _text(sentences))


def _in_rows(panels: Sequence[Panel], opening: str) -> Picture:
    rows = [panels[start : start + 2] for start in range(0, len(panels), 2)]
    heights = [max(panel.height for panel in row) for row in rows]
    figure = figures().Figure(figsize=(2 * SMALL, HEIGHT * sum(heights) + 0.3 * len(rows)), layout="constrained")
    grid = figure.add_gridspec(len(rows), 2, height_ratios=heights)
    places = [grid[row, column] for row in range(len(rows)) for column in range(2)][: len(panels)]
    if len(panels) % 2:
        places[-1] = grid[-1, :]  # alone in its row
    sentences = [_drawn(panel, figure.add_subplot(place), opening) for panel, place in zip(panels, places, strict=True)]
    return Picture(figure, _text(sentences))


def _drawn(panel: Panel, axes: Any, opening: str) -> str:
    """Draw a panel, and say what it shows; how the posterior was found is said of it alone."""
    axes.spines[["top", "right"]].set_visible(False)
    sentence = panel.draw(axes)
    return sentence if isinstance(panel, Points) else f"{opening}{sentence}"


def _text(sentences: Sequence[str]) -> str:
    """Sentences with capital letters and full stops."""
    return " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in sentences)
