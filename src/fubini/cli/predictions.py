"""Predictions of the observed sites of a model at the rows of another data file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fubini.base.whole_files import written_whole
from fubini.cli.data_binding import BoundModel, Source, bind_again
from fubini.models.paths import flat
from fubini.terms.numbers import shown_number

SHOWN = 10  # rows that are printed
INTERVAL = (0.05, 0.95)
HEAD = ("site", "row", "mean", "sd", "5 %", "95 %")


@dataclass(frozen=True)
class Predictions:
    """Mean, standard deviation and 90 % interval of each predicted entry; and log p of new data, where there are."""

    rows: list[tuple[str, str, float, float, float, float]]
    log_predictive: float | None

    def __str__(self) -> str:
        cells = [(site, row, *map(shown_number, numbers)) for site, row, *numbers in self.rows[:SHOWN]]
        widths = [max(len(line[k]) for line in (HEAD, *cells)) for k in range(len(HEAD))]
        table = [map(str.rjust, line, widths) for line in (HEAD, *cells)]
        lines = ["  ".join(line) for line in table]
        more = len(self.rows) - SHOWN
        lines += [f"… {more:,} more; --predictions FILE writes all"] if more > 0 else []
        if self.log_predictive is not None:
            lines.append(f"log predictive density of the new data {self.log_predictive:.6g}")
        return "\n".join(["predictions at the new inputs", *lines])

    def to_json(self) -> dict[str, Any]:
        """As an object for other programs."""
        names = ("site", "row", "mean", "sd", "low", "high")
        found: dict[str, Any] = {"predictions": [dict(zip(names, row, strict=True)) for row in self.rows]}
        return found | ({} if self.log_predictive is None else {"log_predictive": self.log_predictive})

    def save(self, path: Path) -> None:
        """Write all as CSV."""
        with written_whole(path, f"writing {path}") as beside, Path(beside).open("w", newline="") as file:
            csv.writer(file).writerows([("site", "row", "mean", "sd", "low", "high"), *self.rows])


def predict(bound: BoundModel, source: Source, draws: Any, key: Any, anew: Sequence[str]) -> Predictions:
    """The observed sites at new inputs; labels that the data did not have are new groups."""
    new, seen = bind_again(bound, source)
    sites = list(flat(getattr(bound.model, "observed", {})))
    first, second = jax.random.split(key)
    values = bound.model.predict(first, *sites, model=new, draws=draws, new=tuple(anew))
    by_site: Mapping[str, Any] = {sites[0]: values} if len(sites) == 1 else values
    log_predictive = None
    if seen:
        log_predictive = float(bound.model.log_predictive(new.condition(**seen), draws=draws, key=second))
    return Predictions([row for name in sites for row in _rows(name, np.asarray(by_site[name], float))], log_predictive)


def _rows(name: str, values: np.ndarray) -> list[tuple[str, str, float, float, float, float]]:
    """A row for each entry; the first axis is that of the draws."""
    means, spreads = values.mean(axis=0), values.std(axis=0)
    low, high = np.quantile(values, INTERVAL, axis=0)
    return [
        (name, ",".join(str(k + 1) for k in at), float(means[at]), float(spreads[at]), float(low[at]), float(high[at]))
        for at in np.ndindex(means.shape)
    ]
