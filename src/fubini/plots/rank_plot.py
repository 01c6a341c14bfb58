"""The picture of a calibration: a rank histogram for each site."""

from __future__ import annotations

import numpy as np

from fubini.numerics.rank_tests import bins_of
from fubini.plots.canvas import draw_panels
from fubini.plots.panels import Ranks
from fubini.questions.simulated_ranks import Calibration
from fubini.show.picture import Picture
from fubini.terms.heads import exact_plot

MOST = 12  # panels


@exact_plot.rule
def plot_ranks(calibration: Calibration, options: dict) -> Picture:
    """Counts of ranks before their band; of an array, those of the entry that is the least uniform."""
    names = options["names"] or tuple(calibration.ranks)[:MOST]
    left_out = [] if options["names"] else list(calibration.ranks)[MOST:]
    subject = f"ranks in {calibration.simulations} simulations"
    closing = f"Not drawn: {', '.join(left_out)}" if left_out else ""
    return draw_panels([_panel(calibration, name) for name in names], [subject] * len(names), closing)


def _panel(calibration: Calibration, name: str) -> Ranks:
    ranks, worst = calibration.ranks[name], calibration.tests[name].worst
    place = np.unravel_index(worst, ranks.shape[1:]) if ranks.ndim > 1 else ()
    entry = f"[{', '.join(str(int(i)) for i in place)}]" if place else ""
    bins = bins_of(ranks.reshape(len(ranks), -1)[:, worst], calibration.draws)
    return Ranks(f"{name}{entry}", *bins)
