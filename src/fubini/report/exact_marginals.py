"""The posterior of a site in closed form, where no draws are given: mean, deviation, interval and density."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fubini.distributions.density import Density
from fubini.errors import FubiniError, Intractable, NoRule
from fubini.models.joint import Joint
from fubini.report.densities import curve, support
from fubini.report.diagnostics import Summary
from fubini.report.figure_axes import figure, shown
from fubini.report.html_elements import Markup, Part, element, table
from fubini.report.posterior_draws import SHOWN
from fubini.report.summaries import more_numbers
from fubini.terms.factor import Factor
from fubini.terms.value import Array, to_array

POINTS, DRAWN, DEVIATIONS = 6401, 20, 12  # of a grid; of these, every twentieth is drawn
VALUES = 36  # of a label that are shown


@dataclass(frozen=True)
class ExactMarginal:
    """A marginal, its summaries, how many numbers it has, and its drawing."""

    factor: Factor
    summaries: tuple[Summary, ...]
    size: int
    drawing: Part


def exact_marginals(post: Joint) -> dict[str, ExactMarginal]:
    """The marginals of the latents that have a closed form."""
    found = {}
    for name, _ in post.outline.free_domains():
        try:
            found[name] = _exact(name, post.marginal(name))
        except (Intractable, NoRule):
            continue
    return found


def _exact(name: str, factor: Factor) -> ExactMarginal:
    if factor.inputs[name].is_finite:
        return _labels(name, factor)
    mean = np.asarray(factor.mean(name), dtype=np.float64)
    deviation = np.sqrt(np.asarray(factor.variance(name), dtype=np.float64))
    if not mean.shape:
        return _scalar(name, factor, float(mean), float(deviation))
    summaries = tuple(
        Summary(_entry(name, entry), float(mean[entry]), float(deviation[entry]), np.nan, np.nan)
        for _, entry in zip(range(SHOWN), np.ndindex(mean.shape), strict=False)
    )
    return ExactMarginal(factor, summaries, mean.size, None)


def _entry(name: str, entry: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, entry))}]"


def label_shares(name: str, factor: Factor) -> np.ndarray:
    """The probability of each value of a label, along the last axis; of an array of labels, for each of them."""
    answer = to_array(factor.log())
    logs = np.moveaxis(np.asarray(answer.array), list(answer.inputs).index(name), -1)
    return np.exp(logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True))


def _labels(name: str, factor: Factor) -> ExactMarginal:
    """A row for each value of a label; of an array of labels, a row for each of them."""
    domain, shares = factor.inputs[name], label_shares(name, factor)
    count = shares.shape[-1]
    labels = [str(domain.label(place)) for place in range(min(count, VALUES))]
    if shares.ndim == 1:
        rows = [(label, f"{share:.4f}") for label, share in zip(labels, shares, strict=False)]
        drawing = table(f"Probability of each value of {name}", ("value", "probability"), rows)
    else:
        entries = [entry for _, entry in zip(range(SHOWN), np.ndindex(shares.shape[:-1]), strict=False)]
        cells = [(_entry(name, entry), *(f"{share:.4f}" for share in shares[entry][:VALUES])) for entry in entries]
        drawing = table(f"Probability of each value of the labels {name}", ("", *labels), cells)
    more = element("p", f"Values past the first {VALUES} are not shown.") if count > VALUES else None
    size = math.prod(shares.shape[:-1])
    return ExactMarginal(factor, (), size, [drawing, more, more_numbers(name, min(size, SHOWN), size)])


@dataclass(frozen=True)
class GridDensity:
    """A density at points, and its 90 % interval."""

    at: np.ndarray
    heights: np.ndarray
    low: float
    high: float


def density_on_grid(name: str, factor: Factor, mean: float, deviation: float) -> GridDensity | None:
    """The density of a number around its mean, where a grid describes it."""
    least, greatest = support(factor.inputs[name].kind)
    room = 1e-9 * deviation
    left = mean - DEVIATIONS * deviation if least is None else max(mean - DEVIATIONS * deviation, least + room)
    right = mean + DEVIATIONS * deviation if greatest is None else min(mean + DEVIATIONS * deviation, greatest - room)
    at = np.linspace(left, right, POINTS)
    try:
        heights = np.exp(np.asarray(to_array(factor({name: Array(at, ("at",))}).log()).array))
    except FubiniError:  # a point mass among densities, or whole numbers
        return None
    heights = np.where(np.isfinite(heights), heights, 0.0)
    steps = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2 * np.diff(at))])
    if not 0.9998 < steps[-1] < 1.0002:  # a density with a pole, or of whole numbers: the grid does not describe it
        return None
    low, high = np.interp((0.05, 0.95), steps / steps[-1], at)
    at, heights = at[::DRAWN], heights[::DRAWN]
    drawn = np.flatnonzero(heights > heights.max() * 1e-3)
    first, last = int(drawn[0]), int(drawn[-1]) + 1
    return GridDensity(at[first:last], heights[first:last], float(low), float(high))


def _scalar(name: str, factor: Factor, mean: float, deviation: float) -> ExactMarginal:
    """A number with a density: its interval from the density on a grid around the mean."""
    plain = Summary(name, mean, deviation, np.nan, np.nan)
    if not np.isfinite([mean, deviation]).all() or deviation == 0:
        return ExactMarginal(factor, (plain,), 1, None)
    grid = density_on_grid(name, factor, mean, deviation)
    if grid is None:
        return ExactMarginal(factor, (plain,), 1, None)
    low, high = grid.low, grid.high
    words = f"{quality(factor)} posterior of {name}: mean {shown(mean)}, 90 % interval {shown(low)} to {shown(high)}"
    parts = curve(float(grid.at[0]), float(grid.at[-1]), grid.heights, mean, low, high)
    drawing = figure(f"{quality(factor)} density of {name}", words, *parts)
    return ExactMarginal(factor, (Summary(name, mean, deviation, low, high),), 1, drawing)


def described(marginal: ExactMarginal) -> Markup | None:
    """The distribution with its numbers, where it fits on a line or two."""
    text, exactness = f"{marginal.factor}", marginal.factor.exactness
    if not exactness.is_exact:
        return element("p", f"Approximate: {exactness!r}.")
    is_short = isinstance(marginal.factor, Density) and marginal.summaries and len(text) < 200
    return element("p", "Exactly: ", element("code", text)) if is_short else None


def quality(factor: Factor) -> str:
    """How a marginal is called."""
    return "Exact" if factor.exactness.is_exact else "Approximate"
