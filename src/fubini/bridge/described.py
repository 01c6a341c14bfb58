"""Integrals in words: the conditional of a variable, the equation, and the cost."""

from __future__ import annotations

import math

from fubini.algebra.node_notation import notation_of
from fubini.bridge.disintegration import indexed, not_integrable
from fubini.bridge.integrand import Integrand
from fubini.eliminate.explanation import ExplainedIntegral
from fubini.eliminate.plan import Plan
from fubini.families.family import family_of
from fubini.integrate.block import Block
from fubini.integrate.configurations import CONFIGURATIONS
from fubini.integrate.search import IntegrationStep, work
from fubini.integrate.student import Student
from fubini.show.notation import Notation, Numeral, Phrase, PowerProduct
from fubini.show.styles import text
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_describe

WIDTH = 150  # characters of an equation that are shown
LONGEST_FORMULA = 600  # characters of a parameter that is drawn as a formula
TOGETHER = {
    "Chain": "Σ over all paths, one time after another",
    CONFIGURATIONS: "Σ_c exp(logit_c), over all values of the entries",
}
CHAIN = {"logits": "log weight of a state", "links": "log weight of a transition"}
NORMALS = "∫ exp(−½ |A x − b|²) dx = (2π)^(d/2) |AᵀA|^(−½) exp(−½ min |A x − b|²)"
POWERS = "∫ (s + |A x − b|²)^(−p) dx = π^(d/2) Γ(p − d/2)/Γ(p) |AᵀA|^(−½) (s + min)^(d/2 − p)"


@exact_describe.rule
def describe(f: Factor, names: tuple) -> tuple:
    """How a product of factors is integrated"""
    disintegration = indexed(f, names).without(names)
    if disintegration.plan.blocked:
        raise not_integrable(f, disintegration)
    return described(disintegration.plan, disintegration.of.integrand)


def described(plan: Plan, integrand: Integrand) -> tuple[ExplainedIntegral, ...]:
    """The integrals of a plan, in order."""
    return tuple(_described(step, integrand) for step in plan.integrals)


def _described(step: IntegrationStep, integrand: Integrand) -> ExplainedIntegral:
    result = step.result
    if isinstance(result, (Block, Student)):
        return _together(step, result)
    count = math.prod(integrand.domains[step.names[0]].shape)
    kind = result.distribution.family
    shown = (
        {} if kind == CONFIGURATIONS else result.distribution.parameters
    )  # logits of digits are long, and no formula
    words = CHAIN if kind == "Chain" else {}
    given = tuple((words.get(name, name), notation_of(node)) for name, node in shown.items() if name != "axis")
    equation = TOGETHER[kind] if kind in TOGETHER else family_of(kind).equation
    return _explained(step, kind, equation, given, "1 entry" if count == 1 else f"{count:,} entries")


def _explained(
    step: IntegrationStep, kind: str, equation: str, given: tuple[tuple[str, Notation], ...], cost: str
) -> ExplainedIntegral:
    """An integral with its parameters as text and as formulas; a formula too long to be read is the text."""
    shown = tuple((name, short(text(tree))) for name, tree in given)
    formulas = tuple(
        (name, tree if len(text(tree)) <= LONGEST_FORMULA else Phrase(shortened))
        for (name, tree), (_, shortened) in zip(given, shown, strict=True)
    )
    return ExplainedIntegral(step.names, kind, equation, shown, cost, formulas)


def _together(step: IntegrationStep, result: Block | Student) -> ExplainedIntegral:
    frame = result.layout.frame
    shape = [f"{i.size:,} independent" for i in result.layout.independent]
    if frame.length is not None:
        shape.append(f"a chain of {frame.length:,}")
    few = " by a sparse precision" if frame.is_sparse else ""
    if frame.is_whitened:
        few = " by the covariance of the data"
    if frame.recursions is not None:
        few = f" through a linear recursion of {frame.recursions.length:,} steps"
    if frame.kronecker is not None:
        few = " by a Kronecker product of {} × {}".format(*frame.kronecker)
    shape.append(f"{frame.cell:,} coupled{few}")
    cost = f"{', '.join(shape)}; about {work(step):,.0f} operations"
    if isinstance(result, Student):
        return _explained(step, "MultivariateStudentT", POWERS, (("df", notation_of(result.df)),), cost)
    scale, squares = notation_of(result.scale), (Phrase("AᵀA"), 1.0)
    precision = PowerProduct((squares,) if scale == Numeral(1.0) else ((scale, 1.0), squares))
    return _explained(step, "MultivariateNormal", NORMALS, (("precision", precision),), cost)


def short(shown: str, width: int = WIDTH) -> str:
    """Cut a text to the length that is shown."""
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
