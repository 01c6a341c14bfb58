"""A picture: the series smoothed over the training steps and predicted after them, and the switch beside the eye."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from .data import Series
from .model import Prediction, Smoothing

CHANNELS = (0, 4, 10)
WIDTH = 1.645  # 90 % of a normal density lies within so many deviations


def draw(data: Series, smoothing: Smoothing, ahead: Prediction, folder: Path, name: str) -> Path:
    """Writes name.png, one row for each of three channels and one for the switch."""
    time = np.arange(len(data.y))
    shown = [channel for channel in CHANNELS if channel < data.y.shape[1]]
    figure, rows = plt.subplots(len(shown) + 1, 1, figsize=(12, 2.2 * (len(shown) + 1)), sharex=True)
    for axes, channel in zip(rows, shown, strict=False):
        draw_channel(axes, time, data, smoothing, ahead, channel)
    rows[0].legend(loc="upper right", ncols=3)
    rows[-1].plot(time, data.eye, "k", label="eye closed")
    rows[-1].plot(time, smoothing.switch, "r", label="p(s = 1 | all of y)")
    rows[-1].legend(loc="upper right")
    rows[-1].set(xlabel="step", ylabel="switch")
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def draw_channel(
    axes: plt.Axes, time: np.ndarray, data: Series, smoothing: Smoothing, ahead: Prediction, channel: int
) -> None:
    """Dots for the data, a red line for the smoother, blue with a 90 % band for predictions of held-out steps."""
    later = data.held_out
    mean = np.asarray(ahead.mean)[later - 1, channel]
    width = WIDTH * np.sqrt(np.asarray(ahead.variance)[later - 1, channel])
    axes.plot(time, data.y[:, channel], "k.", markersize=3)
    axes.plot(time[: data.train], np.asarray(smoothing.mean)[: data.train, channel], "r", label="smoothed")
    axes.plot(time[later], mean, "b", label="one step ahead")
    axes.fill_between(time[later], mean - width, mean + width, color="lightblue", label="90 %")
    axes.set_ylabel(f"channel {channel + 1}")
