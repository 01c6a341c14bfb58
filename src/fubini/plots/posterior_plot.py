"""The picture of a posterior: of draws, or in closed form where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.errors import Intractable, NoRule, UnknownName, closest, listed
from fubini.models.joint import Conditioned, Joint
from fubini.plots.canvas import draw_panels
from fubini.plots.panels import Panel
from fubini.plots.site_panels import Layout, panel_of_draws, panel_of_marginal, series_panels
from fubini.report.exact_marginals import quality
from fubini.report.posterior_draws import read_draws
from fubini.show.picture import Picture
from fubini.terms.heads import exact_plot

MOST = 12  # panels


def layout_of(options: dict[str, Any]) -> Layout:
    """Where entries lie and which points are beside them, as arrays."""
    at, points = options["at"], options["points"] or {}
    return Layout(
        {name: np.asarray(numbers, dtype=np.float64) for name, numbers in points.items()},
        None if at is None else np.asarray(at, dtype=np.float64),
        options["along"],
    )


@exact_plot.rule
def plot_posterior(post: Joint, options: dict) -> Picture:
    """A panel for each site: a density, intervals, a band, or probabilities of labels."""
    layout, names = layout_of(options), options["names"]
    subject = "posterior" if isinstance(post, Conditioned) else "distribution"
    series = series_panels(layout, [name for name, _ in post.outline.free_domains()])
    if options["draws"] is None:
        panels, subjects, left_out = _exact(post, names, layout, subject)
    else:
        panels, left_out = _drawn(post, options["draws"], names, layout)
        subjects = [subject] * len(panels)
    closing = f"Not drawn: {', '.join(left_out)}" if left_out else ""
    return draw_panels([*series, *panels], [*(["series"] * len(series)), *subjects], closing)


def _drawn(post: Joint, draws: Any, names: tuple[str, ...] | None, layout: Layout) -> tuple[list[Panel], Sequence[str]]:
    """The panels of draws, and the sites that have none."""
    known, domains = read_draws(draws), dict(post.outline.free_domains())
    _require_known(names, known.sites)
    wanted = names if names is not None else tuple(known.sites)[:MOST]
    left_out = tuple(known.sites)[MOST:] if names is None else ()
    return [panel_of_draws(known.sites[name], domains.get(name), layout) for name in wanted], left_out


def _exact(
    post: Joint, names: tuple[str, ...] | None, layout: Layout, subject: str
) -> tuple[list[Panel], list[str], Sequence[str]]:
    """The panels of marginals in closed form, the subject of each, and the sites that have none."""
    known = tuple(name for name, _ in post.outline.free_domains())
    _require_known(names, known)
    panels, subjects, left_out, refused = [], [], [] if names is not None else list(known[MOST:]), ""
    for name in names if names is not None else known[:MOST]:
        try:
            factor = post.marginal(name)
            panels.append(panel_of_marginal(name, factor, layout))
            subjects.append(f"{quality(factor).lower()} {subject}")
        except (Intractable, NoRule) as error:
            if names is not None:
                raise
            refused = str(error).splitlines()[0]
            left_out.append(name)
    if not panels:
        raise Intractable(
            f"a plot of {post:}",
            expected="draws, or a site whose marginal has a closed form",
            nearest=refused,
            advice="post.plot(post.infer(key))",
        )
    return panels, subjects, left_out


def _require_known(names: tuple[str, ...] | None, known: Any) -> None:
    for name in names or ():
        if name not in known:
            raise UnknownName(f"a plot of {name!r}", expected=f"one of {listed(known)}", nearest=closest(name, known))
