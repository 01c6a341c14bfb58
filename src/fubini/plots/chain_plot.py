"""The picture of a chain: real states with a band, discrete ones by their probabilities, along time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fubini.base.names import Name
from fubini.errors import DomainError
from fubini.plots.canvas import draw_panels
from fubini.plots.panels import Band, Panel
from fubini.plots.posterior_plot import layout_of
from fubini.plots.site_panels import Layout, label_panel, series_panels
from fubini.report.exact_marginals import label_shares, quality
from fubini.sequence.chain import Chain
from fubini.show.picture import Picture
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_plot
from fubini.terms.value import to_array

ENTRIES = 4  # of a state that is a vector
DEVIATIONS = 1.6448536269514722  # a normal distribution has 90 % within


@exact_plot.rule
def plot_chain(chain: Chain, options: dict) -> Picture:
    """Series that are seen, then p(state after step t | …) for each state, one below the other."""
    answer = chain.filter() if options["filtered"] else chain.smooth()
    _require_one_chain(chain, answer)
    layout = layout_of({**options, "along": options["along"] or str(chain.time)})
    states = [name for name in chain.links.newest if name in answer.inputs]
    entries = {str(name) for name in states} | {f"{name}[{place}]" for name in states for place in range(ENTRIES)}
    panels: list[Panel] = series_panels(layout, entries)
    real_first = sorted(states, key=lambda name: answer.inputs[name].is_finite)
    for name in real_first:
        panels += _panels(chain, name, answer.sum(*(other for other in states if other != name)), layout)
    subject = f"{quality(answer).lower()} {'filtered' if options['filtered'] else 'smoothed'} distribution"
    return draw_panels(panels, [subject] * len(panels))


def _panels(chain: Chain, name: Name, factor: Factor, layout: Layout) -> Iterator[Panel]:
    """The panels of one state, after the others are summed out."""
    label, domain = str(name), factor.inputs[name]
    across = layout.across(label, chain.length)
    if domain.is_finite:
        labels = [str(domain.label(place)) for place in range(domain.extent)]
        order = [each for each in to_array(factor.log()).inputs if each != name]
        assert order == [chain.time], "a chain without batch names"
        yield label_panel(label, labels, label_shares(str(name), factor), layout)
        return
    mean = np.asarray(factor.mean(name).data, dtype=np.float64).reshape(chain.length, -1)
    deviation = np.sqrt(_variances(np.asarray(factor.variance(name).data, dtype=np.float64), mean.shape))
    for place in range(min(mean.shape[1], ENTRIES)):
        title = label if not domain.shape else f"{label}[{place}]"
        middle, room = mean[:, place], DEVIATIONS * deviation[:, place]
        points = layout.beside(title, chain.length)
        yield Band(title, across, middle, middle - room, middle + room, points, "± 1.64 sd band", layout.along)


def _variances(variance: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The variance of each entry, of variances or of covariance matrices."""
    if variance.ndim == 3 and variance.shape[1:] == (shape[1], shape[1]):
        return np.diagonal(variance, axis1=1, axis2=2)
    return variance.reshape(shape)


def _require_one_chain(chain: Chain, answer: Factor) -> None:
    batch = [name for name in answer.inputs if name not in (chain.time, *chain.links.newest)]
    if batch:
        raise DomainError(
            f"a plot of {chain}",
            expected=f"one chain: it has an answer for each value of {', '.join(map(repr, batch))}",
            advice="put a value of it into the factors",
        )
