"""`fb.report`: the document, and how it is saved."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any

from fubini.base.whole_files import written_whole
from fubini.eliminate.explanation import Explanation
from fubini.errors import DomainError, Intractable, NoRule, escaped
from fubini.models.joint import Joint
from fubini.models.network import Network
from fubini.questions.compare import Comparison
from fubini.questions.fit import Fitted
from fubini.questions.label_sampler import LabelSampler
from fubini.report.closing_sections import (
    evidence_of,
    evidence_section,
    loop_section,
    origin_section,
    predictive_section,
)
from fubini.report.derivation_section import derivation_section
from fubini.report.diagnostics import judge
from fubini.report.exact_marginals import exact_marginals
from fubini.report.glance import glance_section
from fubini.report.html_elements import Markup, element
from fubini.report.learning_section import learning_section
from fubini.report.model_section import model_section
from fubini.report.network_section import network_section
from fubini.report.posterior_draws import read_draws
from fubini.report.posterior_section import posterior_section
from fubini.report.roles import elimination, roles

LONGEST = 300  # characters of the title of a model
LONGEST_SHOWN = 60  # characters of the title of a report, where it is printed
HEIGHT = 640  # of the frame in a notebook
POLICY = "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
CONTENTS = {
    "glance": "At a glance",
    "model": "Model",
    "network": "Network",
    "learning": "Learning",
    "derivation": "Integration",
    "posterior": "Posterior",
    "predictive": "Predictive checks",
    "evidence": "Evidence",
    "loop": "Generated loop",
    "origin": "To make it again",
}


class Report:
    """A report as one HTML document; shown in a frame in a notebook, and saved to a file.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> fb.report(model.condition(x=0.5)).html[:15]
    '<!doctype html>'
    """

    def __init__(self, title: str, html: str) -> None:
        self.title, self.html = title, html

    def __repr__(self) -> str:
        title, size = shortened(self.title, LONGEST_SHOWN), len(self.html.encode()) / 1000
        return f"Report {title!r}, {size:,.0f} kB; .save(path) writes it"

    def save(self, path: str | os.PathLike) -> Path:
        """Write the document to a file: at once, or not at all.

        >>> import tempfile
        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fb.report(model.condition(x=0.5)).save(f"{folder}/report.html").name
        'report.html'
        """
        with written_whole(path, f"a report saved to {path}") as beside:
            beside.write_bytes(self.html.encode())
        return Path(path)

    def _repr_html_(self) -> str:
        frame = f'sandbox="allow-scripts" width="100%" height="{HEIGHT}" title="{escape(self.title)}"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'


def report(
    post: Joint | Network | Fitted,
    draws: Any = None,
    *,
    title: str | None = None,
    command: str | None = None,
    seed: Any = None,
    sampler: LabelSampler | None = None,
    loops: Mapping[str, LabelSampler] = MappingProxyType({}),
    comparison: Comparison | None = None,
) -> Report:
    """A report of a model given its observations: graph, derivation, posterior, checks, evidence; one HTML file.

    Of a network its evidence and its most probable values are shown too; of what `fb.fit` gave, its parameters and the
    objective by step. `draws` is what `post.infer(key)` gave, or what a label sampler drew; without it exact marginals
    are shown, where there are any. `sampler` is a label sampler, whose loop is shown, and `loops` are others, of any
    models, by name.
    `comparison` is what `fb.compare` gave, shown with the evidence. `command` and `seed` are shown as they are given.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> fb.report(model.condition(x=0.5), title="A normal mean")
    Report 'A normal mean', ... kB; .save(path) writes it
    """
    fitted = post if isinstance(post, Fitted) else None
    network = post if isinstance(post, Network) else None
    post = _joint_of(post)
    _require_sampler(sampler, post)
    _require_shown(loops, comparison)
    explanation, known = _explanation(post), None if draws is None else read_draws(draws)
    verdict = None if known is None else judge(known)
    exact = {} if known is not None else exact_marginals(post)
    by_sampler = None if sampler is None else sampler.eliminated_model.eliminated
    site_roles = roles(post, elimination(explanation, known, by_sampler))
    evidence = evidence_of(post)
    sections = [
        glance_section(site_roles, known, verdict, evidence),
        model_section(post, site_roles, known, exact),
        network_section(network),
        learning_section(fitted, None if network is None else network.learnt),
        derivation_section(post, explanation, sampler, known is not None),
        posterior_section(post, known, verdict, exact),
        predictive_section(known),
        evidence_section(evidence, explanation, comparison),
        loop_section(sampler, loops),
        origin_section(command, seed),
    ]
    own = post.title.partition("(")[0] if network is None else f"the network {network.name}".rstrip()
    shown_title = escaped(title) if title is not None else f"Report on {escaped(own)}"
    return Report(shown_title, _page(shown_title, shortened(post.title), sections))


def _joint_of(post: Any) -> Joint:
    """The joint of what a report is asked of."""
    model = post.model if isinstance(post, Fitted) else post
    if isinstance(model, Network):
        return model.joint()
    if not isinstance(model, Joint):
        raise DomainError(
            f"a report of {type(model).__name__}",
            expected="a model with observations: post = model(…).condition(y=…), a network, or what fb.fit made of one",
            advice="fb.report(post, post.infer(key))",
        )
    return model


def shortened(text: str, longest: int = LONGEST) -> str:
    """The beginning of a long text."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _explanation(post: Joint) -> Explanation | None:
    try:
        return post.explain()
    except (Intractable, NoRule):
        return None


def _require_sampler(sampler: Any, post: Joint) -> None:
    if sampler is not None and not isinstance(sampler, LabelSampler):
        raise DomainError(
            f"a report with sampler={type(sampler).__name__}",
            expected="a compiled sampler of labels",
            advice='fb.report(post, draws, sampler=post.eliminate("mu").gibbs("y"))',
        )
    if sampler is not None and set(sampler.eliminated_model.joint.names) != set(post.names):
        raise DomainError(
            f"a report on {post.title} with a sampler of {sampler.eliminated_model.joint}",
            expected="a sampler of the same model",
        )


def _require_shown(loops: Any, comparison: Any) -> None:
    if not isinstance(loops, Mapping) or not all(isinstance(each, LabelSampler) for each in loops.values()):
        raise DomainError(
            f"a report with loops={type(loops).__name__}",
            expected="compiled samplers of labels by name",
            advice='loops={"two kinds": rival.eliminate("rate").gibbs("kind")}',
        )
    if comparison is not None and not isinstance(comparison, Comparison):
        raise DomainError(
            f"a report with comparison={type(comparison).__name__}",
            expected="models compared by their evidence",
            advice="comparison=fb.compare(linear=post1, quadratic=post2)",
        )


def _page(title: str, subtitle: str, sections: Sequence[Markup | None]) -> str:
    present = [each for each in sections if each is not None]
    links = [
        element("li", element("a", words, href=f"#{name}"))
        for name, words in CONTENTS.items()
        if any(f'id="{name}"' in each[:80] for each in present)
    ]
    style, script = (_file(name) for name in ("style.css", "page.js"))
    return Template(_file("page.html")).substitute(
        title=escape(title),
        subtitle=escape(escaped(subtitle)),
        policy=POLICY.format(style=_hash(style), script=_hash(script)),
        style=style,
        script=script,
        contents="".join(links),
        body="\n".join(present),
    )


def _file(name: str) -> str:
    return (resources.files("fubini.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source of a policy that allows this very text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
