"""The posterior: summaries, a verdict on the draws, and figures of densities, traces and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fubini.models.joint import Joint
from fubini.report.chains import COLOURS, MOST_CHAINS, rank_figure, trace_figure
from fubini.report.densities import density_figure
from fubini.report.diagnostics import Verdict
from fubini.report.exact_marginals import ExactMarginal, described, quality
from fubini.report.html_elements import Markup, Part, element, section
from fubini.report.posterior_draws import CHECKED, FIGURES, PosteriorDraws, Quantity, SiteDraws
from fubini.report.summaries import more_numbers, site_table, summary_table

ROWS = 60  # sites that have a table, at most
TRACE_BYTES = 900_000  # of all traces together
POINTS = 40, 300  # of one trace, at least and at most


def posterior_section(
    post: Joint, draws: PosteriorDraws | None, verdict: Verdict | None, exact: Mapping[str, ExactMarginal]
) -> Markup:
    """Summaries and figures of draws, or of exact marginals where no draws were given."""
    if draws is None or verdict is None:
        return section("posterior", "The posterior", *_exact(exact))
    domains = dict(post.outline.free_domains())
    kinds = {name: domains[name].kind if name in domains else "real" for name in draws.sites}
    return section("posterior", "The posterior", *_sampled(draws, verdict, kinds))


def _exact(exact: Mapping[str, ExactMarginal]) -> Iterator[Part]:
    if not exact:
        said = "No draws were given, and no marginal has a closed form: "
        yield element("p", said, element("code", "fb.report(post, post.infer(key))"), " has the posterior in it.")
        return
    is_exact = all(marginal.factor.exactness.is_exact for marginal in exact.values())
    yield element(
        "p", f"No draws were given; these marginals are {'exact' if is_exact else 'approximate where they say so'}."
    )
    for name, marginal in exact.items():
        yield element("h3", name)
        yield described(marginal)
        if marginal.summaries:
            yield summary_table(f"{quality(marginal.factor)} posterior of {name}", marginal.summaries, False)
            yield more_numbers(name, len(marginal.summaries), marginal.size)
        yield element("div", marginal.drawing, class_="figures") if marginal.drawing else None


def _sampled(draws: PosteriorDraws, verdict: Verdict, kinds: Mapping[str, str]) -> Iterator[Part]:
    chains, count = draws.shape
    how = f", method: {draws.method}" if draws.method else ""
    yield element("p", f"{chains} chain{'s' * (chains != 1)} of {count:,} draws{how}.")
    yield verdict_box(verdict)
    yield element("p", _explained(draws), class_="note")
    yield _legend(chains)
    figures = FIGURES
    points = _points(draws)
    for place, (name, site) in enumerate(draws.sites.items()):
        if place == ROWS:
            yield element("p", f"The first {ROWS} of {len(draws.sites):,} sites are shown.", class_="note")
            return
        yield element("h3", name)
        yield from site_table(site, draws.shown, kinds[name] == "bint")
        shown = site.quantities(min(draws.shown, max(figures, 0)))
        figures -= len(shown)
        if shown:
            yield _figures(site, shown, kinds[name], points)


def verdict_box(verdict: Verdict) -> Markup:
    """The verdict on the draws, in words."""
    first, *others = verdict.sentences
    return element(
        "div",
        element("p", element("strong", first)),
        [element("p", each) for each in others],
        class_=f"verdict {verdict.level}",
    )


def _explained(draws: PosteriorDraws) -> str:
    some = (
        f" Of sites with many numbers, {CHECKED} are checked."
        if any(s.size > CHECKED for s in draws.sites.values())
        else ""
    )
    return (
        "sd is the standard deviation; 5 % and 95 % are the ends of the 90 % interval. R-hat compares the chains with "
        "each other and is 1 where they agree; ESS is the effective sample size, the number of independent draws that "
        f"would say as much, in the bulk and in the tails.{some}"
    )


def _legend(chains: int) -> Markup | None:
    if chains < 2:
        return None
    marks = [
        element("span", f"chain {chain}", class_=f"key c{chain % COLOURS}") for chain in range(min(chains, MOST_CHAINS))
    ]
    rest = f" (of {chains}, the first {MOST_CHAINS} are drawn)" if chains > MOST_CHAINS else ""
    return element("p", "Colours of the traces: ", [[mark, " "] for mark in marks], rest, class_="legend")


def _points(draws: PosteriorDraws) -> int:
    """How many points of each trace keep the file small."""
    lines = min(FIGURES, sum(1 for _ in draws.quantities())) * min(draws.shape[0], MOST_CHAINS)
    return max(POINTS[0], min(POINTS[1], TRACE_BYTES // max(lines * 11, 1)))


def _figures(site: SiteDraws, shown: list[Quantity], kind: str, points: int) -> Markup:
    rows = []
    for quantity in shown:
        parts = [density_figure(quantity, kind)]
        if quantity.finite.size == quantity.draws.size and quantity.draws.shape[1] > 1:
            parts += [trace_figure(quantity, points), rank_figure(quantity)]
        rows.append(element("div", parts, class_="figures"))
    return element("details", element("summary", f"Densities, traces and ranks of {site.name}"), rows)
