"""The picture of the scaling grid."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from examples.harbour_seals.scaling import METHODS, Timing


def draw_scaling(timings: Sequence[Timing], folder: Path) -> Path:
    """Seconds against length, one line for each method and number of individuals."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for method, dashes in zip(METHODS, ("--", "-"), strict=True):
        for size in sorted({timing.individuals for timing in timings}):
            row = [timing for timing in timings if timing.individuals == size]
            times = [getattr(timing, method) for timing in row]
            axes.loglog([timing.length for timing in row], times, dashes, marker="o", label=f"{method}, {size}")
    axes.set(xlabel="steps", ylabel="seconds for evidence and gradient")
    axes.legend(title="method, individuals", fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "scaling.png", dpi=150)
    return folder / "scaling.png"
