"""Tables of posterior summaries: mean, deviation, 90 % interval, R-hat and effective sample sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fubini.report.diagnostics import RHAT_GOOD, Summary, shown_rhat, summarise
from fubini.report.figure_axes import shown
from fubini.report.html_elements import Markup, Part, element, table
from fubini.report.posterior_draws import Quantity, SiteDraws

HEAD = ("", "mean", "sd", "5 %", "95 %")
DIAGNOSTICS = ("R-hat", "ESS, bulk", "ESS, tail")
LABELS = ("", "most probable value", "its probability", "values seen")


def summary_table(caption: str, summaries: Sequence[Summary], has_diagnostics: bool = True) -> Markup:
    """A row for each number; without the columns of intervals where none is known."""
    columns = len(HEAD) if has_diagnostics or any(one.low == one.low for one in summaries) else len(HEAD) - 2
    head = (*HEAD[:columns], *(DIAGNOSTICS if has_diagnostics else ()))
    rows = [_row(one, has_diagnostics) for one in summaries]
    return table(caption, head, rows if has_diagnostics else [row[:columns] for row in rows])


def _row(one: Summary, has_diagnostics: bool) -> list[Part]:
    cells: list[Part] = [one.name, *map(shown, (one.mean, one.sd, one.low, one.high))]
    if has_diagnostics:
        rhat = shown_rhat(one.rhat)
        cells += [element("strong", rhat) if round(one.rhat, 3) > RHAT_GOOD else rhat]
        cells += ["–" if ess != ess else f"{ess:,.0f}" for ess in (one.ess_bulk, one.ess_tail)]
    return cells


def site_table(site: SiteDraws, most: int, is_label: bool) -> list[Part]:
    """The summaries of the first numbers of a site, and how many more there are."""
    quantities = site.quantities(most)
    summaries = summarise(quantities)
    if is_label:
        shown_table = _label_table(site.name, quantities, summaries)
    else:
        shown_table = summary_table(f"Posterior of {site.name}", summaries)
    return [shown_table, more_numbers(site.name, len(quantities), site.size)]


def more_numbers(name: str, count: int, size: int) -> Markup | None:
    """How many numbers of a site are not shown."""
    if count == size:
        return None
    return element(
        "p",
        f"The first {count:,} of {size:,} numbers of {name} are shown; {size - count:,} more are not.",
        class_="note",
    )


def _label_table(name: str, quantities: Sequence[Quantity], summaries: Sequence[Summary]) -> Markup:
    """Labels have no mean: the most probable value of each."""
    rows: list[list[Part]] = []
    for quantity, one in zip(quantities, summaries, strict=True):
        values, counts = np.unique(quantity.draws, return_counts=True)
        best = int(np.argmax(counts))
        share = f"{counts[best] / counts.sum():.3f}"
        rows.append([quantity.name, str(values[best]), share, str(values.size), *_row(one, True)[5:]])
    return table(f"Posterior of the labels {name}", (*LABELS, *DIAGNOSTICS), rows)
