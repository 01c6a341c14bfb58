"""What ends a report: predictive checks, the evidence, the generated loop, and where the numbers come from."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fubini.eliminate.explanation import Explanation
from fubini.errors import FubiniError, Intractable, NoRule, in_words
from fubini.models.joint import Joint
from fubini.questions.compare import Comparison
from fubini.questions.label_sampler import LabelSampler
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


def evidence_section(
    evidence: tuple[float, str] | None, explanation: Explanation | None, comparison: Comparison | None = None
) -> Markup:
    """The evidence, in a number or in words, and models that are compared by theirs."""
    return section("evidence", "Evidence", *_evidence(evidence, explanation), *_compared(comparison))


def _evidence(evidence: tuple[float, str] | None, explanation: Explanation | None) -> Iterator[Part]:
    about = "The evidence is the probability density of all observations with the latents integrated out. "
    if evidence is not None:
        value, exactness = evidence
        yield element("p", "log p(observed) = ", element("strong", f"{value:.6f}".replace("-", "−")), f" ({exactness})")
        use = "Two models of the same data are compared by the difference of their log evidence: fb.compare(a=…, b=…)."
        yield element("p", about + use)
        return
    names = () if explanation is None else explanation.remaining
    left = f", since {in_words(names)} remain{'s' * (len(names) == 1)}" if names else ""
    yield element("p", f"{about}It has no closed form here{left}.")
    yield element(
        "p",
        element("code", "with fb.monte_carlo(key, 10_000): post.log_evidence()"),
        " estimates it; ",
        element("code", "with fb.quadrature(): post.log_evidence()"),
        " integrates up to three numbers on a grid.",
    )


def _compared(comparison: Comparison | None) -> Iterator[Part]:
    """Models of the same data, the likeliest first."""
    if not comparison:
        return
    yield element("h3", "Models of the same data, compared")
    for grid in comparison._form():
        rows = [[name, *(cell.replace("-", "−") for cell in cells)] for name, *cells in grid.rows]
        yield table("Models by their evidence, the likeliest first", grid.head, rows)
        yield element("p", grid.more, class_="note") if grid.more else None
    yield element("p", "The probability of a model is the one it has among these, if all were equally likely before.")


def loop_section(sampler: LabelSampler | None, loops: Mapping[str, LabelSampler]) -> Markup | None:
    """The texts of the compiled loops of label samplers: the one that drew, and those of other models."""
    if sampler is None and not loops:
        return None
    parts = [] if sampler is None else _loop(sampler)
    for name, other in loops.items():
        parts += [element("h3", name), *_model_of(other), *_loop(other)]
    return section("loop", "The generated loop", *parts)


def _model_of(sampler: LabelSampler) -> Iterator[Part]:
    """The model of a sampler, line by line, and what is integrated out in it."""
    model = sampler.eliminated_model
    yield element("pre", element("code", "\n".join(sampler.joint.graph().lines())))
    if model.eliminated:
        out = f"{in_words(model.eliminated)} integrated out, "
        yield element("p", f"With {out}{in_words(sampler.names)} drawn one entry after another, each given all others.")


def _loop(sampler: LabelSampler) -> list[Part]:
    try:
        source = sampler.source()
    except FubiniError as error:
        return [element("p", f"There is no text of it: {error}")]
    cut = "\n…" if len(source) > LONGEST_SOURCE else ""
    code = element(
        "pre", element("code", source[:LONGEST_SOURCE] + cut), tabindex="0", role="region", aria_label="Source"
    )
    made = ", ".join(sampler.passes)
    return [
        element("p", f"One sweep over the labels, as it is compiled: {sampler!r}. Passes that made it: {made}."),
        element("details", element("summary", f"Source, {len(source.splitlines()):,} lines"), code),
    ]


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
