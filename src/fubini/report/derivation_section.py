"""The derivation: each step with its identity, what it costs and whether it is exact; and why the others remain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fubini.eliminate.explanation import CONVERSIONS, ExplainedIntegral, Explanation, Line
from fubini.eliminate.plan import Plan, Step
from fubini.models.joint import Joint
from fubini.report.elements import Markup, Part, element, section, table
from fubini.show.identities import identity
from fubini.show.mathml import mathml
from fubini.show.notation import Big, Call, Infix, Notation, Subscript, Symbol

STEPS = 200  # of a plan that are shown
BY_GRID = 3  # numbers, at most, that quadrature integrates


def derivation_section(
    post: Joint, explanation: Explanation | None, sampler_steps: Sequence[ExplainedIntegral]
) -> Markup:
    """How the model was integrated."""
    parts: list[Part] = []
    if explanation is None:
        parts.append(element("p", "No plan was found for this model: nothing is integrated out, and all is sampled."))
    else:
        parts += _derivation(post, explanation)
    if sampler_steps:
        parts.append(element("h3", "What the compiled sampler integrates out"))
        parts += [_integral(number, one) for number, one in enumerate(sampler_steps, 1)]
    return section("derivation", "How it was integrated", *parts)


def _derivation(post: Joint, explanation: Explanation) -> Iterator[Part]:
    yield element("p", _verdict(explanation))
    if explanation.lines:
        yield element("button", "Open all steps", type="button", id="open-all", hidden="")
    yield from _steps(explanation)
    if explanation.lines:
        yield from _plan(explanation)
    if explanation.conversions:
        yield table("Conversions and projections", CONVERSIONS, explanation._conversion_rows)
    yield from _remaining(post, explanation)
    yield from _refused(explanation)


def _verdict(explanation: Explanation) -> str:
    if not explanation.remaining:
        return "Every latent has a closed form: evidence, marginals and draws are exact."
    out, left = ", ".join(map(str, explanation.order)), ", ".join(explanation.remaining)
    if not out:
        return f"Nothing is integrated out in closed form; {left} {_are(explanation.remaining)} sampled."
    return f"Integrated out exactly: {out}. What remains, {left}, is sampled, and the others are then drawn given it."


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _steps(explanation: Explanation) -> Iterator[Part]:
    number = 0
    for line, step in list(zip(explanation.lines, explanation.plan.steps, strict=False))[:STEPS]:
        if line.integrals:
            for one in line.integrals:
                number += 1
                yield _integral(number, one, f"{line.exactness!r}")
        else:
            number += 1
            yield _sum(number, line, step, explanation.plan)
    if len(explanation.lines) > STEPS:
        yield element("p", f"The first {STEPS} of {len(explanation.lines):,} steps are shown.", class_="note")


def _integral(number: int, one: ExplainedIntegral, exactness: str = "exact") -> Markup:
    """A step that integrates latents out by an identity."""
    names = ", ".join(map(str, one.names))
    article = "an" if one.family[0] in "AEIO" else "a"
    parameters = [
        element("li", Markup(mathml(Infix("==", (Symbol(name), tree)), display=False)), class_="wide")
        for name, tree in one.formulas
    ]
    symbol = "x" if "x" in one.equation else "k"
    has_formula = bool(one.equation)
    return element(
        "details",
        element("summary", f"Step {number}: {names}"),
        element(
            "p", f"Given the sites that are not yet integrated out, {names} has {article} {one.family} distribution"
        ),
        element("ul", parameters, class_="parameters") if parameters else None,
        element("p", f"so that it is integrated out by the identity ({symbol} stands for {names})")
        if has_formula
        else None,
        element("div", Markup(identity(one.equation)), class_="wide identity") if has_formula else None,
        element("p", f"Size: {one.cost}. Exactness: {exactness}.", class_="note"),
        class_="step",
    )


def _sum(number: int, line: Line, step: Step, plan: Plan) -> Markup:
    """A step of a plan for tables: some of them are multiplied, and names are summed out."""
    names = ", ".join(map(str, step.eliminated))
    return element(
        "details",
        element("summary", f"Step {number}: {names or 'multiply'}"),
        element("div", Markup(mathml(_formula(step, plan))), class_="wide identity"),
        element("p", "f with a number stands for a factor of the model, or for the result of an earlier step."),
        element(
            "p",
            f"Rule: {line.rule}. Work: {line.work:,} multiply-adds. Result: {line.size:,} "
            f"entr{'y' if line.size == 1 else 'ies'}. Exactness: {line.exactness!r}.",
            class_="note",
        ),
        class_="step",
    )


def _formula(step: Step, plan: Plan) -> Notation:
    factors = tuple(
        Call(Subscript(Symbol("f"), (Symbol(str(slot)),)), tuple(map(_symbol, sorted(map(str, plan.names[slot])))))
        for slot in step.operands
    )
    product = factors[0] if len(factors) == 1 else Infix("*", factors)
    symbol = {"multiply out": "Π", "integrate": "∫"}.get(step.kind, "Σ")
    return Big(symbol, tuple(map(str, step.eliminated)), product) if step.eliminated else product


def _symbol(name: Any) -> Symbol:
    return Symbol(str(name))


def _plan(explanation: Explanation) -> Iterator[Part]:
    """Costs of all steps, folded."""
    rows = [
        (f"{number}. {line.equation}", line.rule, f"{line.work:,}", f"{line.size:,}", repr(line.exactness))
        for number, line in enumerate(explanation.lines[:STEPS], 1)
    ]
    total = f"{len(explanation.lines):,} step{'s' * (len(explanation.lines) != 1)}"
    work = f"{explanation.plan.work:,} multiply-adds" if explanation.plan.work else "no arithmetic on tables"
    shown = table("The plan with its costs", ("step", "conditional or rule", "work", "entries", "exactness"), rows)
    yield element("details", element("summary", f"The plan with its costs: {total}, {work}"), shown)


def _remaining(post: Joint, explanation: Explanation) -> Iterator[Part]:
    if not explanation.remaining:
        return
    yield element("h3", "Why the others remain")
    said = []
    for name, expected, where in explanation.blocked:
        term = [", and not ", element("code", where)] if where and not where.replace(".", "").isdigit() else []
        said.append(element("li", element("b", name), f": a closed form would need {expected}", *term, "."))
    yield element("ul", said)
    yield element("h3", "What to try")
    yield element("ul", [element("li", each) for each in _advice(post, explanation.remaining)])


def _advice(post: Joint, remaining: Sequence[str]) -> Iterator[Part]:
    domains = dict(post.outline.free_domains())
    names = ", ".join(repr(name) for name in remaining)
    yield [element("code", "post.infer(key)"), f" draws {names}, and then the others exactly."]
    left = [domains[name] for name in remaining if name in domains]
    if any(domain.is_discrete for domain in left):
        yield [
            element("code", "post.eliminate(…).gibbs(…)"),
            " makes a compiled sampler of labels, with what has a closed form integrated out.",
        ]
    elif len(left) == len(remaining) and sum(math.prod(domain.shape) for domain in left) <= BY_GRID:
        yield [element("code", "with fb.quadrature(): post.log_evidence()"), " integrates so few numbers on a grid."]
    else:
        yield [
            element("code", "with fb.monte_carlo(key, 10_000): post.log_evidence()"),
            " estimates the evidence, with its standard error; what is closed stays exact.",
        ]
    yield "A conjugate prior, where one is as good a description, gives a closed form."


def _refused(explanation: Explanation) -> Iterator[Part]:
    if explanation.refused:
        said = [element("li", element("code", question), f": {why}") for question, why in explanation.refused]
        yield element("details", element("summary", "Questions without an answer in closed form"), element("ul", said))
