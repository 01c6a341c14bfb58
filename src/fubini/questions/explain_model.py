"""How a model would be answered: what is eliminated, which latents remain and why, and which questions are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fubini.algebra.node_notation import written
from fubini.base.stream import Stream
from fubini.bridge.described import described, short
from fubini.eliminate.explain import explain
from fubini.eliminate.explanation import Explanation, Line
from fubini.errors import Intractable, NoRule, listed
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.joint import Joint
from fubini.models.question_heads import exact_explain
from fubini.questions.label_choice import labels_to_draw, reason_of
from fubini.questions.marginal import marginal
from fubini.questions.mesh_lines import mesh_lines
from fubini.questions.mode import require_real
from fubini.questions.posterior import posterior

LONGEST_REASON = 400  # characters of why a question is refused


@exact_explain.rule
def explain_model(model: FlatModel) -> Explanation:
    """The plan of its evidence, and what that means for other questions."""
    joint = model.joint
    assert isinstance(joint, Joint)
    if model.tables is not None:
        factors, variables = model.tables
        with model.represented():
            return replace(explain(factors, variables), title=f"{joint}", graph=joint.graph())
    eliminated_model = eliminated(model)
    how = described(eliminated_model.plan, model.reading.integrand)
    lines = tuple(
        Line(", ".join(map(str, one.names)), one.family, step.work, step.size, integrals=(one,))
        for step, one in zip(eliminated_model.plan.steps, how, strict=True)
    )
    blocked = tuple((name, error.why, short(written(error.node))) for name, error in eliminated_model.blocked.items())
    refused = tuple(_refused(eliminated_model))
    return Explanation(
        f"{joint}",
        lines,
        eliminated_model.plan,
        graph=joint.graph(),
        remaining=eliminated_model.kept,
        blocked=blocked,
        refused=refused,
        sampling=_sampling(eliminated_model),
        passes=(*_passes(model), *mesh_lines(eliminated_model)),
    )


def _passes(model: FlatModel) -> Iterator[str]:
    """How the rows of streams were gone over, and what was kept of them."""
    passes = model.reading.passes
    if passes is None:
        return
    streams = [leaf for leaf in model.leaves if isinstance(leaf, Stream)]
    size = sum(math.prod(stream.shape) * stream.dtype.itemsize for stream in streams)
    sums = " and ".join(f"{count} for sums over {rows:,} rows" for rows, count in sorted(passes.counts.items()))
    yield (
        f"rows in chunks: 1 pass for ranges, {sums or 'none for sums'}, of {size / 1e6:,.3g} MB; "
        f"{passes.numbers:,} number{'s' * (passes.numbers != 1)} kept{_where(streams)}"
    )


def _where(streams: Sequence[Stream]) -> str:
    """On which devices chunks are summed, and what processes tell each other."""
    places = next((stream.places for stream in streams if stream.places is not None), None)
    if places is None:
        return ""
    count, processes = len(places.devices), places.processes
    shared = f"; {len(processes)} processes exchange these once a pass" if len(processes) > 1 else ""
    return f"; each chunk in {count} part{'s' * (count != 1)}, one a device{shared}"


def _sampling(eliminated_model: EliminatedModel) -> str:
    """A sentence on what `infer` draws, where labels are better drawn than summed out."""
    labels = labels_to_draw(eliminated_model)
    if labels is None:
        return ""
    return (
        f"infer(key) draws {listed(labels.kept)} by a compiled sampler and {listed(labels.eliminated)} given it: "
        f'{reason_of(eliminated_model, labels)} (method="nuts" samples {listed(eliminated_model.kept)})'
    )


def _refused(eliminated_model: EliminatedModel) -> Iterator[tuple[str, str]]:
    """Questions that have no answer though no latent remains, and why; `map()` in any case."""
    model = eliminated_model.model
    checks: list[tuple[str, Callable[[], Any]]] = [("map()", lambda: require_real(eliminated_model))]
    if not eliminated_model.kept:
        checks.extend(
            (f"marginal({name!r})", partial(marginal, model, name)) for name in eliminated_model.reading.sites
        )
        checks.append(("posterior()", partial(posterior, model)))
    for question, check in checks:
        try:
            check()
        except (Intractable, NoRule) as error:
            yield question, short(" ".join(str(error).split("\n", 1)[-1].split()), LONGEST_REASON)
