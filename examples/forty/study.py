"""A model with its data: what is asked of it, and how the same is written for NumPyro."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Study:
    """A model that observes `site`, at its inputs and at new ones; `peer(*inputs, y)` is the same for NumPyro.

    Discrete latents are summed in the peer, by hand. `evidence` is how the evidence is found: closed, by quadrature, or
    by sequential Monte Carlo. `compared` are the sites whose moments are compared; `anew` are those that are drawn anew
    at new inputs, since they belong to the data.
    """

    name: str
    model: Callable[..., Any]
    peer: Callable[..., None]
    inputs: tuple
    y: np.ndarray
    new: tuple
    evidence: str
    compared: tuple[str, ...]
    data: str = ""  # the file that it needs
    site: str = "y"
    anew: tuple[str, ...] = ()

    def post(self) -> Any:
        """The model at its data."""
        return self.model(*self.inputs).condition(**{self.site: self.y})


def columns(folder: Path, file: str, *names: str) -> list[np.ndarray]:
    """Columns of a table, numbers where all cells are."""
    path = folder / file
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for name in names:
        cells = [row[name] for row in rows]
        try:
            found.append(np.array([float(cell) if cell else np.nan for cell in cells]))
        except ValueError:
            found.append(np.array(cells))
    return found
