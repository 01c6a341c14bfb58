"""What ends a report: predictive checks, the evidence, the generated loop, and where the numbers come from."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fubini.eliminate.explanation import Explanation
from fubini.errors import FubiniError, Intractable, NoRule
from fubini.models.joint import Joint
from fubini.report.html_elements import Markup, Part, element, section, table
from fubini.report.posterior_draws import PosteriorDraws
from fubini.report.predictive import predictive_checks
from fubini.version import __version__

LIBRARIES = ("jax", "numpyro", "numpy", "arviz")
LONGEST_SOURCE = 200_000  # characters


def predictive_section(draws: PosteriorDraws | None) -> Markup:
    """Predictive checks of each observed site, or why there are none."""
    parts = [] if draws is None else list(predictive_checks(draws))
    intro = (
        "If the model is right, data predicted from its posterior look like the data that were observed. "
        "The same data are used twice, so that small misfits do not show."
    )
    if not parts:
        intro = "There are no predictive draws: post.infer(key, predictive=True) makes them."
    return section("predictive", "Predictive checks", element("p", intro), *parts)


def evidence_of(post: Joint) -> tuple[float, str] | None:
    """log p(observed) and its exactness; None where it has no closed form."""
    try:
        answer = post.log_evidence()
        return float(answer), repr(answer.exactness)
    except (Intractable, NoRule):
        return None


def evidence_section(post: Joint, evidence: tuple[float, str] | None, explanation: Explanation | None) -> Markup:
    """The evidence, in a number or in words."""
    about = "The evidence is the probability density of all observations with the latents integrated out. "
    if evidence is not None:
        value, exactness = evidence
        number = element(
            "p", "log p(observed) = ", element("strong", f"{value:.6f}".replace("-", "−")), f" ({exactness})"
        )
        use = "Two models of the same data are compared by the difference of their log evidence: fb.compare(a=…, b=…)."
        return section("evidence", "Evidence", number, element("p", about + use))
    left = (
        "" if explanation is None or not explanation.remaining else f", since {', '.join(explanation.remaining)} remain"
    )
    left = left.replace("remain", "remains") if explanation and len(explanation.remaining) == 1 else left
    said = element("p", f"{about}It has no closed form here{left}.")
    advice = element(
        "p",
        element("code", "with fb.monte_carlo(key, 10_000): post.log_evidence()"),
        " estimates it; ",
        element("code", "with fb.quadrature(): post.log_evidence()"),
        " integrates up to three numbers on a grid.",
    )
    return section("evidence", "Evidence", said, advice)


def loop_section(sampler: Any) -> Markup | None:
    """The text of the compiled loop of a label sampler."""
    if sampler is None:
        return None
    try:
        source = sampler.source()
    except FubiniError as error:
        return section("loop", "The generated loop", element("p", f"There is no text of it: {error}"))
    cut = "\n…" if len(source) > LONGEST_SOURCE else ""
    code = element(
        "pre", element("code", source[:LONGEST_SOURCE] + cut), tabindex="0", role="region", aria_label="Source"
    )
    made = ", ".join(sampler.passes)
    return section(
        "loop",
        "The generated loop",
        element("p", f"One sweep over the labels, as it is compiled: {sampler!r}. Passes that made it: {made}."),
        element("details", element("summary", f"Source, {len(source.splitlines()):,} lines"), code),
    )


def origin_section(command: str | None, seed: Any) -> Markup:
    """Versions, seed and command: what is needed to make the report again."""
    rows: list[tuple[Part, ...]] = [("command", element("code", command) if command else "not given")]
    rows.append(("seed", str(seed) if seed is not None else "not given"))
    rows.append(("fubini", __version__))
    rows += [(name, each) for name, each in _versions()]
    rows.append(("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"))
    return section("origin", "To make it again", table("Command, seed and versions", ("", ""), rows))


def _versions() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
