"""The panel of a site: of its draws, or of its marginal in closed form."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from fubini.base.domains import Domain
from fubini.errors import DataError, FubiniError
from fubini.plots.panels import COLOURS, Band, Density, Image, Intervals, Panel, Points, Regimes, Shares
from fubini.questions.draw_diagnostics import INTERVAL, describe
from fubini.report.densities import smooth_density
from fubini.report.exact_marginals import density_on_grid, label_shares
from fubini.report.posterior_draws import SiteDraws
from fubini.terms.factor import Factor

LISTED = 16  # numbers of an array that stand below each other; more are a band
VALUES = len(COLOURS)  # values of labels that have a colour
DRAWS = 4000  # of a marginal whose quantiles have no closed form


@dataclass(frozen=True)
class Layout:
    """What stands beside the panels of sites: points by name, and where the entries of arrays lie."""

    points: dict[str, np.ndarray] = field(default_factory=dict)
    at: np.ndarray | None = None
    along: str = ""

    def across(self, name: str, size: int) -> np.ndarray:
        """The position of each entry of an array."""
        if self.at is None:
            return np.arange(size)
        if len(self.at) != size:
            raise DataError(
                f"a plot of {name}, which has {size} entries", expected=f"at of {size} numbers, not {len(self.at)}"
            )
        return self.at

    def beside(self, name: str, size: int) -> np.ndarray | None:
        """The points of a site."""
        points = self.points.get(name)
        if points is not None and points.shape != (size,):
            raise DataError(
                f"points of {name}, of shape {points.shape}", expected=f"{size} numbers, one for each entry"
            )
        return points


def series_panels(layout: Layout, sites: Collection[str]) -> list[Panel]:
    """Points that belong to no site: a series of its own each."""
    alone = {name: points for name, points in layout.points.items() if name not in sites}
    return [Points(name, layout.across(name, len(points)), points, layout.along) for name, points in alone.items()]


def panel_of_draws(site: SiteDraws, domain: Domain | None, layout: Layout) -> Panel:
    """The panel of a site that was drawn: draws [chain, draw, …]."""
    is_label, shape = site.draws.dtype.kind in "biu", site.draws.shape[2:]
    flat = site.draws.reshape(-1, *shape)
    if is_label and (site.size > 1 or (domain is not None and domain.is_finite) or np.ptp(flat) < LISTED):
        return _labels_of_draws(site, flat, domain, layout)
    if site.size == 1:
        numbers = site.quantities(1)[0].finite
        mean, _, low, high = describe(numbers)
        left, right, heights = smooth_density(numbers, domain.kind if domain is not None else "real")
        return Density(site.name, np.linspace(left, right, len(heights)), heights, mean, low, high)
    low, high = np.quantile(flat, INTERVAL, axis=0)
    return array_panel(site.name, flat.mean(0), low, high, site.labels, layout)


def _labels_of_draws(site: SiteDraws, flat: np.ndarray, domain: Domain | None, layout: Layout) -> Panel:
    first = 0 if domain is not None and domain.is_finite else int(flat.min())
    count = domain.extent if domain is not None and domain.is_finite else int(flat.max()) - first + 1
    labels = [str(domain.label(place)) if domain is not None else str(place + first) for place in range(count)]
    shares = np.stack([(flat == value + first).mean(0) for value in range(count)], axis=-1)
    return label_panel(site.name, labels, shares, layout)


def panel_of_marginal(name: str, factor: Factor, layout: Layout) -> Panel:
    """The panel of a site whose marginal has a closed form."""
    domain = factor.inputs[name]
    if domain.is_finite:
        shares = label_shares(name, factor)
        return label_panel(name, [str(domain.label(place)) for place in range(shares.shape[-1])], shares, layout)
    mean = np.asarray(factor.mean(name), dtype=np.float64)
    deviation = np.sqrt(np.asarray(factor.variance(name), dtype=np.float64))
    if not mean.shape and np.isfinite([mean, deviation]).all() and deviation > 0:
        grid = density_on_grid(name, factor, float(mean), float(deviation))
        if grid is not None:
            return Density(name, grid.at, grid.heights, float(mean), grid.low, grid.high)
    if mean.size > 1 and np.isfinite(mean).all():
        low, high = marginal_interval(name, factor)
        return array_panel(name, mean, low, high, [range(size) for size in mean.shape], layout)
    draws = np.asarray(factor.sample(jax.random.key(0), name, n=DRAWS)[name])[None]
    return panel_of_draws(SiteDraws(name, draws, tuple(range(size) for size in draws.shape[2:])), domain, layout)


def marginal_interval(name: str, factor: Factor) -> tuple[np.ndarray, np.ndarray]:
    """The 90 % interval of each number: by its quantiles where they are known, else by those of draws."""
    try:
        low, high = factor.interval(INTERVAL[1] - INTERVAL[0], name)
        return np.asarray(low), np.asarray(high)
    except FubiniError:
        draws = np.asarray(factor.sample(jax.random.key(0), name, n=DRAWS)[name])
        low, high = np.quantile(draws, INTERVAL, axis=0)
        return low, high


def array_panel(
    name: str, mean: np.ndarray, low: np.ndarray, high: np.ndarray, labels: Sequence[Sequence[Any]], layout: Layout
) -> Panel:
    """Intervals of a few numbers, a band of many in a row, shades of a matrix."""
    if mean.ndim == 2 and mean.size > LISTED:
        return Image(name, mean)
    if mean.size <= LISTED and name not in layout.points and layout.at is None:
        entries = [
            ", ".join(str(axis[place]) for axis, place in zip(labels, entry, strict=True))
            for entry in np.ndindex(mean.shape)
        ]
        return Intervals(name, entries, mean.reshape(-1), low.reshape(-1), high.reshape(-1))
    size = mean.size
    across = layout.across(name, size)
    beside = layout.beside(name, size)
    return Band(name, across, mean.reshape(-1), low.reshape(-1), high.reshape(-1), beside, along=layout.along)


def label_panel(name: str, labels: Sequence[str], shares: np.ndarray, layout: Layout) -> Panel:
    """Bars of one label; of several, the probability of each value at each position."""
    if shares.ndim == 1:
        return Shares(name, labels, shares)
    rows = shares.reshape(-1, shares.shape[-1])
    if rows.shape[1] > VALUES:  # the most probable values have a colour each
        best = np.sort(np.argsort(-rows.sum(0))[: VALUES - 1])
        others = 1.0 - rows[:, best].sum(1, keepdims=True)
        rows, labels = np.concatenate([rows[:, best], others], axis=1), [*(labels[place] for place in best), "others"]
    return Regimes(name, layout.across(name, len(rows)), labels, rows, along=layout.along)
