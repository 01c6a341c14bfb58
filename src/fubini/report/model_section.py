"""The model as a graph: each site with its distribution, its role and its posterior."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fubini.errors import FubiniError
from fubini.models.joint import Joint
from fubini.models.outline import SiteOutline
from fubini.report.densities import density_figure
from fubini.report.exact_marginals import ExactMarginal, described, quality
from fubini.report.html_elements import Markup, Part, element, section
from fubini.report.posterior_draws import PosteriorDraws
from fubini.report.roles import MEANING
from fubini.report.summaries import site_table, summary_table

FIGURES = 4  # densities of a site beside the graph
SMALL = 520  # pixels: a wider graph stands above the panels, and has the whole width
LARGE = 1600  # pixels: a wider graph is scrolled, as names in it would be too small to read
HINT = (
    "Choose a site, by a click or with Tab and Enter, to see its distribution, its role and its posterior. "
    "An arrow leads from a site to those whose distribution depends on it; observed sites are shaded, "
    "deterministic ones are dashed."
)


def model_section(
    post: Joint,
    site_roles: Mapping[str, str],
    draws: PosteriorDraws | None,
    exact: Mapping[str, ExactMarginal],
) -> Markup:
    """The graph, and a panel for each site."""
    graph, statements = post.graph(), _statements(post)
    panels = [
        _panel(place, site, site_roles[site.name], statements, graph.get(site.name, ()), _posterior(site, draws, exact))
        for place, site in enumerate(post.outline.sites)
    ]
    drawn = graph.to_svg(site_roles)
    drawing = element("div", Markup(drawn), class_=f"wide graph {_size(drawn)}")
    return section(
        "model",
        "The model",
        element("p", HINT, class_="note"),
        element("div", drawing, element("div", panels, id="panels", aria_live="polite"), class_="beside"),
    )


def _size(drawn: str) -> str:
    """How a graph is fitted into the page, by its width."""
    width = re.search(r'width="(\d+)', drawn)
    pixels = int(width[1]) if width is not None else 0
    return "small" if pixels <= SMALL else "large" if pixels <= LARGE else "large huge"


def _statements(post: Joint) -> dict[str, str]:
    try:
        return dict(post.graph().statements())
    except FubiniError:  # a model whose lines cannot be read has its graph none the less
        return {}


def _panel(
    place: int, site: SiteOutline, role: str, statements: Mapping[str, str], parents: tuple[str, ...], posterior: Part
) -> Markup:
    lines = [
        f"{name} {statement.removesuffix(', observed')}"
        for name, statement in statements.items()
        if name == site.name or name.startswith(f"{site.name}.")
    ]
    given = element("p", "Depends on ", ", ".join(parents), ".") if parents else None
    return element(
        "article",
        element("h3", site.name),
        element("p", element("span", role, class_=f"role {role.split()[0]}"), " ", MEANING[role]),
        [element("pre", element("code", line)) for line in lines],
        given,
        posterior,
        id=f"site-{place}",
        class_="panel",
    )


def _posterior(site: SiteOutline, draws: PosteriorDraws | None, exact: Mapping[str, ExactMarginal]) -> Part:
    """The summary and density of a site."""
    if draws is not None:
        kind = site.domain.kind if site.domain is not None else "real"
        parts: list[Part] = []
        for one in draws.of_site(site.name):
            parts += site_table(one, FIGURES, kind == "bint")
            figures = [density_figure(quantity, kind) for quantity in one.quantities(FIGURES)]
            parts.append(element("div", figures, class_="figures"))
        return parts
    inside = {name: each for name, each in exact.items() if name == site.name or name.startswith(f"{site.name}.")}
    if not inside and site.kind in ("random", "joint"):
        return element("p", "No draws of it were given.")
    return [_exactly(name, marginal) for name, marginal in inside.items()]


def _exactly(name: str, marginal: ExactMarginal) -> Part:
    caption = f"{quality(marginal.factor)} posterior of {name}"
    summaries = summary_table(caption, marginal.summaries, False) if marginal.summaries else None
    return [described(marginal), summaries, marginal.drawing]
