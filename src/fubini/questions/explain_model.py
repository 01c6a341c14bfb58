"""How a model would be answered: what is eliminated, what is left, what blocks it, and which questions are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fubini.algebra.node_notation import written
from fubini.bridge.described import described, short
from fubini.eliminate.explain import explain
from fubini.eliminate.explanation import Explanation, Line
from fubini.errors import Intractable, NoRule
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import exact_explain
from fubini.questions.marginal import marginal
from fubini.questions.mode import require_real
from fubini.questions.posterior import posterior


@exact_explain.rule
def explain_model(model: FlatModel) -> Explanation:
    """The plan of its evidence, and what that means for other questions."""
    joint = model.joint
    if model.tables is not None:
        factors, variables = model.tables
        return replace(explain(factors, variables), title=f"{joint}", graph=joint.graph())
    left = eliminated(model)
    how = described(left.plan, model.reading.integrand)
    lines = tuple(
        Line(", ".join(map(str, one.names)), one.family, step.work, step.size, integrals=(one,))
        for step, one in zip(left.plan.steps, how, strict=True)
    )
    blocked = tuple((name, error.why, short(written(error.node))) for name, error in left.blocked.items())
    refused = tuple(_refused(left))
    return Explanation(
        f"{joint}", lines, left.plan, graph=joint.graph(), remaining=left.kept, blocked=blocked, refused=refused
    )


def _refused(left: EliminatedModel) -> Iterator[tuple[str, str]]:
    """Questions that have no answer though nothing is left, and why; `map()` in any case."""
    model = left.model
    checks: list[tuple[str, Callable[[], Any]]] = [("map()", lambda: require_real(left))]
    if not left.kept:
        checks.extend((f"marginal({name!r})", partial(marginal, model, name)) for name in left.reading.sites)
        checks.append(("posterior()", partial(posterior, model)))
    for question, check in checks:
        try:
            check()
        except (Intractable, NoRule) as error:
            yield question, short(" ".join(str(error).split("\n", 1)[-1].split()))
