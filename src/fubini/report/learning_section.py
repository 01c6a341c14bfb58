"""What was learnt: the objective before each step, the parameters, and their standard errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fubini.models.learn_tables import Learning
from fubini.questions.fit import Fitted
from fubini.report.figure_axes import Axes, figure, padded, shown
from fubini.report.html_elements import Markup, Part, element, section, table

SHOWN, POINTS = 12, 400  # numbers of a parameter, and points of a curve
HEAD = ("", "value", "standard error")


def learning_section(fitted: Fitted | None, learnt: Learning | None) -> Markup | None:
    """The curve of the objective, and the parameters of a fit or the size of the data of learnt tables."""
    if fitted is None and learnt is None:
        return None
    parts = [*([] if fitted is None else _fitted(fitted)), *([] if learnt is None else _learnt(learnt))]
    return section("learning", "Learning", *parts)


def _fitted(fitted: Fitted) -> Iterator[Part]:
    count = len(fitted.history)
    yield element("p", f"Parameters were learnt in {count:,} step{'s' * (count != 1)}.")
    yield element("div", _curve(fitted.history), class_="figures")
    errors = fitted.errors
    rows = [row for name, value in fitted.params.items() for row in _rows(name, value, (errors or {}).get(name))]
    has_errors = errors is not None
    yield table("What was learnt", HEAD if has_errors else HEAD[:2], rows if has_errors else [row[:2] for row in rows])
    for name, value in fitted.params.items():
        if (left := np.size(value) - SHOWN) > 0:
            yield element("p", f"{left:,} more numbers of {name} are not shown.", class_="note")
    if has_errors:
        about = "Rows were drawn by chance: a standard error is that of the value that all rows would give."
        yield element("p", about, class_="note")


def _learnt(learnt: Learning) -> Iterator[Part]:
    yield element("p", f"The tables were {learnt!r}.")
    if len(learnt.history) > 1:
        yield element("div", _curve(learnt.history), class_="figures")


def _rows(name: str, value: np.ndarray, error: np.ndarray | None) -> Iterator[list[Part]]:
    """A row for each of the first numbers of a parameter."""
    value = np.asarray(value)
    for place in list(np.ndindex(value.shape))[:SHOWN]:
        called = f"parameter {name}" if name.isdigit() else name
        entry = f"{called}[{', '.join(map(str, place))}]" if place else called
        spread = float("nan") if error is None else float(np.broadcast_to(error, value.shape)[place])
        yield [entry, shown(float(value[place])), shown(spread)]


def _curve(history: np.ndarray) -> Markup:
    """The objective over the steps; of a long history every k-th."""
    numbers = np.asarray(history, np.float64)
    at = np.unique(np.linspace(0, len(numbers) - 1, min(POINTS, len(numbers))).astype(int))
    at = at[np.isfinite(numbers[at])]
    words = f"The objective over {len(numbers):,} steps, from {shown(float(numbers[0]))} to {shown(float(numbers[-1]))}"
    if not at.size:
        return figure("The objective by step", words)
    axes = Axes((0.0, float(max(len(numbers) - 1, 1))), padded(float(numbers[at].min()), float(numbers[at].max())))
    line = element("path", d=axes.points(at, numbers[at]), class_="chain c0")
    return figure("The objective by step", words, line, axes.frame())
