"""Tracks of animals: step lengths, turning angles and diving activity on a regular grid of time."""

import csv
import gzip
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

FILE = Path("harbour_seals", "seal_steps_2h.csv.gz")
COLUMNS = ("step_m", "angle_rad", "omega")


class Tracks(NamedTuple):
    """Three arrays over [sex, individual, time]; NaN where nothing was observed, or nobody was there."""

    step: jax.Array
    angle: jax.Array
    omega: jax.Array

    @property
    def exists(self) -> jax.Array:
        """Whether there is such an individual: the sexes are not equally many."""
        return jnp.any(jnp.isfinite(jnp.stack(self)), axis=(0, -1))

    def shortened(self, length: int) -> "Tracks":
        """The first steps of each track."""
        return Tracks(*(column[..., :length] for column in self))


def read(folder: str | Path) -> Tracks:
    """The seals' tracks: females first, each sex padded to its greatest number and every track to the longest."""
    with gzip.open(Path(folder, FILE), "rt", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row["sex"], int(row["id"]), float(row["time_h"])))
    animals = [(key[0], _columns(list(group))) for key, group in groupby(rows, lambda row: (row["sex"], row["id"]))]
    return _padded([[track for sex, track in animals if sex == wanted] for wanted in ("F", "M")])


def _columns(rows: list[dict[str, str]]) -> np.ndarray:
    return np.array([[float(row[column] or "nan") for row in rows] for column in COLUMNS])


def _padded(groups: list[list[np.ndarray]]) -> Tracks:
    individuals = max(map(len, groups))
    length = max(track.shape[1] for group in groups for track in group)
    data = np.full((len(COLUMNS), len(groups), individuals, length), np.nan, np.float32)
    for sex, group in enumerate(groups):
        for individual, track in enumerate(group):
            data[:, sex, individual, : track.shape[1]] = track
    return Tracks(*map(jnp.asarray, data))


def fake(key: jax.Array, individuals: int, length: int, groups: int = 2) -> Tracks:
    """|N(0, 1)|, and 1/2 where that is 1 or more, as in the paper's timings: only the sizes matter."""
    draws = jnp.abs(jax.random.normal(key, (len(COLUMNS), groups, individuals, length)))
    return Tracks(*jnp.where(draws < 1, draws, 0.5))
