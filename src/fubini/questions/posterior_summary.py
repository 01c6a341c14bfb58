"""Draws in few numbers: mean, deviation, 90 % interval, effective draws and R-hat of each entry, by ArviZ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fubini.questions.draw_diagnostics import describe, diagnose
from fubini.show.printed_form import Block, Shown, Words
from fubini.terms.numbers import grid

STATISTICS = ("mean", "sd", "5%", "95%", "ESS", "R-hat")
ENTRIES = 8  # of an array that a printed summary has
ROWS = 20  # of a printed summary


@dataclass(frozen=True)
class EntrySummary:
    """The draws of one number: a site, or an entry of one."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    effective_draws: float
    r_hat: float

    @property
    def numbers(self) -> tuple[float, ...]:
        """The statistics in the order in which they are printed."""
        return self.mean, self.sd, self.low, self.high, np.round(self.effective_draws), self.r_hat


@dataclass(frozen=True, repr=False)
class PosteriorSummary(Shown):
    """The entries of all sites; prints as a table."""

    chains: int
    draws: int
    entries: Mapping[str, Sequence[EntrySummary]]
    count: int  # of all entries, those that were not summarised too

    def _form(self) -> Iterator[Block]:
        yield Words(f"{self.chains} chain{'s' * (self.chains != 1)} of {self.draws} draws")
        shown = [one for entries in self.entries.values() for one in entries[:ENTRIES]][:ROWS]
        if not shown:
            return
        labels = [one.name for one in shown], STATISTICS
        yield grid(np.array([one.numbers for one in shown]), ("", ""), labels, rows=ROWS)
        hidden = self.count - len(shown)
        if hidden:
            yield Words(f"and {hidden} entries more")

    def to_json(self) -> dict[str, Any]:
        """All entries as a JSON object; numbers that are not finite are null."""
        rows = [asdict(one) for entries in self.entries.values() for one in entries]
        plain = [{key: _plain(value) for key, value in row.items()} for row in rows]
        return {"chains": self.chains, "draws": self.draws, "entries": plain}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summarise(values: Mapping[Any, Any], most: int | None = None) -> PosteriorSummary:
    """Summarise draws by site: arrays [chain, draw, …], or those of an ArviZ posterior, whose labels name the entries.

    Of each site, the first `most` entries, or all.

    >>> summarise({"x": np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]])})
    2 chains of 4 draws
       mean     sd    5%   95%  ESS  R-hat
    x     3  1.309  1.35  4.65    7  1.889
    """
    entries = {str(name): _entries(str(name), value, most) for name, value in values.items()}
    shapes = [np.shape(value) for value in values.values()]
    chains, draws = shapes[0][:2] if shapes else (0, 0)
    return PosteriorSummary(chains, draws, entries, sum(math.prod(shape[2:]) for shape in shapes))


def _entries(name: str, value: Any, most: int | None) -> list[EntrySummary]:
    array = np.asarray(value)
    labels = list(itertools.islice(itertools.product(*_labels(value, array.shape[2:])), most))
    numbers = array.reshape(*array.shape[:2], -1)[..., : len(labels)].astype(np.float64)
    if not labels:
        return []
    r_hat, effective, _ = diagnose(numbers)
    names = [f"{name}[{', '.join(label)}]" if label else name for label in labels]
    return [
        EntrySummary(one, *describe(numbers[..., k]), float(effective[k]), float(r_hat[k]))
        for k, one in enumerate(names)
    ]


def _labels(value: Any, shape: tuple[int, ...]) -> list[list[str]]:
    """The labels of each axis after chain and draw; positions where there are none."""
    dims = getattr(value, "dims", None)
    if dims is None:
        return [list(map(str, range(size))) for size in shape]
    return [[str(label) for label in value[dim].values] for dim in dims[2:]]
