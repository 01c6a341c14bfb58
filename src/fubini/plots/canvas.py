"""Panels one below the other, or side by side, as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from fubini.errors import FubiniError
from fubini.plots.panels import Density, Image, Intervals, Panel, Ranks, Shares
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


def draw_panels(panels: Sequence[Panel], subjects: Sequence[str], closing: str = "") -> Picture:
    """Series below each other, over one axis where all have the same; other panels two in a row."""
    if all(isinstance(panel, Density | Shares | Intervals | Image | Ranks) for panel in panels) and len(panels) > 1:
        figure, axes = _in_rows(panels)
    else:
        figure, axes = _in_a_column(panels)
    sentences = []
    for panel, subject, one in zip(panels, subjects, axes, strict=True):
        one.spines[["top", "right"]].set_visible(False)
        sentences.append(panel.draw(one, subject))
    for one in axes[:-1]:
        if one.get_shared_x_axes().joined(one, axes[-1]):
            one.set_xlabel("")
    sentences += [closing] if closing else []
    return Picture(figure, " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in sentences))


def _in_a_column(panels: Sequence[Panel]) -> tuple[Any, list[Any]]:
    heights = [panel.height for panel in panels]
    figure = figures().Figure(figsize=(WIDTH, HEIGHT * sum(heights) + 0.4), layout="constrained")
    shares = len(panels) > 1 and all(hasattr(panel, "across") for panel in panels)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights, sharex=shares)[:, 0]
    return figure, list(axes)


def _in_rows(panels: Sequence[Panel]) -> tuple[Any, list[Any]]:
    rows = [panels[start : start + 2] for start in range(0, len(panels), 2)]
    heights = [max(panel.height for panel in row) for row in rows]
    figure = figures().Figure(figsize=(2 * SMALL, HEIGHT * sum(heights) + 0.3 * len(rows)), layout="constrained")
    grid = figure.add_gridspec(len(rows), 2, height_ratios=heights)
    places = [grid[row, column] for row in range(len(rows)) for column in range(2)][: len(panels)]
    if len(panels) % 2:
        places[-1] = grid[-1, :]  # alone in its row
    return figure, [figure.add_subplot(place) for place in places]
