"""The EEG series, thinned and standardised, and where its predictions are judged; or a small series made up."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

THINNING = 20
VALIDATION, TEST = 149, 200


class Series(NamedTuple):
    """Observations over time, the eye state beside them, and where predictions are judged.

    `validation` and `test` are steps of the released code's permutation: all lie within the training range. `held_out`
    are the steps after it.
    """

    y: np.ndarray
    eye: np.ndarray
    train: int
    validation: np.ndarray
    test: np.ndarray

    @property
    def held_out(self) -> np.ndarray:
        """The steps after the training range."""
        return np.arange(self.train, len(self.y))


def read_series(folder: Path) -> Series:
    """Every 20th sample of 14 channels: 749 steps."""
    path = folder / "eeg_eye_state" / "eeg_eye_state.csv.gz"
    rows = np.loadtxt(path, delimiter=",", skiprows=1)[::THINNING]
    return series(rows[:, :-1], rows[:, -1], VALIDATION, TEST)


def drawn_series(length: int = 60, channels: int = 3) -> Series:
    """A small series of a switching system: a slow state, and a fast one of the other sign."""
    rng = np.random.default_rng(0)
    emission = rng.normal(size=(channels, 2))
    switch, state, rows, eye = 0, np.zeros(2), [], []
    for _ in range(length):
        switch = switch if rng.random() < 0.9 else 1 - switch
        state = (0.95, -0.6)[switch] * state + rng.normal(size=2)
        rows.append(emission @ state + 0.3 * rng.normal(size=channels))
        eye.append(switch)
    return series(np.array(rows), np.array(eye), length // 5, length // 4)


def series(rows: np.ndarray, eye: np.ndarray, validation: int, test: int) -> Series:
    """Standardised by the training steps; the permutation is that of seed 0, and its entry i means step i + 1."""
    train = len(rows) - validation - test
    mean, deviation = rows[:train].mean(0), rows[:train].std(0, ddof=1)
    steps = np.random.RandomState(0).permutation(validation + test) + 1
    return Series((rows - mean) / deviation, eye, train, steps[:validation], steps[validation:])
