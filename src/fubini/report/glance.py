"""The first lines of a report: what was asked, how it was answered, and whether to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fubini.report.diagnostics import Verdict
from fubini.report.html_elements import Markup, Part, element, section
from fubini.report.posterior_draws import PosteriorDraws

WORDS = {
    "observed": "Observed",
    "integrated out": "Integrated out exactly",
    "can be integrated out": "Integrated out exactly",
    "sampled": "Sampled",
    "to be sampled": "Without a closed form",
    "deterministic": "Computed from others",
    "unknown": "Latent",
}
MOST = 8  # names of one role
DRAWS = {
    "good": "no problem was found",
    "doubtful": "they deserve a closer look",
    "bad": "do not rely on them yet",
}


def glance_section(
    site_roles: Mapping[str, str],
    draws: PosteriorDraws | None,
    verdict: Verdict | None,
    evidence: tuple[float, str] | None,
) -> Markup:
    """A list of what matters most."""
    return section("glance", "At a glance", element("dl", list(_items(site_roles, draws, verdict, evidence))))


def _items(
    site_roles: Mapping[str, str],
    draws: PosteriorDraws | None,
    verdict: Verdict | None,
    evidence: tuple[float, str] | None,
) -> Iterator[Part]:
    for role, words in WORDS.items():
        names = [name for name, each in site_roles.items() if each == role]
        if names:
            more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
            yield _item(words, ", ".join(names[:MOST]) + more)
    if draws is not None and verdict is not None:
        chains, count = draws.shape
        said = f"{chains * count:,} in {chains} chain{'s' * (chains != 1)}; {DRAWS[verdict.level]}"
        yield _item("Draws", element("span", said, class_=f"level {verdict.level}"))
    if evidence is not None:
        yield _item("Log evidence", f"{evidence[0]:.4f} ({evidence[1]})".replace("-", "−"))
    else:
        yield _item("Log evidence", "no closed form")


def _item(words: str, value: Part) -> Markup:
    return element("div", element("dt", words), element("dd", value))
