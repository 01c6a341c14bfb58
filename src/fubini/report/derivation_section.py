"""The derivation: each step with its identity, what it costs and whether it is exact; and why the others remain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fubini.bridge.described import described
from fubini.eliminate.explanation import CONVERSIONS, IN_WORDS, ExplainedIntegral, Explanation, Line
from fubini.eliminate.plan import Plan, Step
from fubini.errors import in_words
from fubini.models.joint import Joint
from fubini.questions.label_sampler import LabelSampler
from fubini.report.html_elements import Markup, Part, element, section, table
from fubini.show.identities import identity
from fubini.show.mathml import equation, mathml
from fubini.show.notation import Big, Call, Infix, Notation, Subscript, Symbol

STEPS = 200  # of a plan that are shown
SQUARES = "|A x − b|² is the sum of the squares of {} in the log density, and min its least value over x."
BY_GRID = 3  # numbers, at most, that quadrature integrates


def derivation_section(
    post: Joint, explanation: Explanation | None, sampler: LabelSampler | None, is_sampled: bool
) -> Markup:
    """How the model was integrated."""
    parts: list[Part] = []
    if (explanation is not None and explanation.lines) or sampler is not None:
        parts.append(element("button", "Open all steps", type="button", id="open-all", hidden=""))
    if sampler is not None:
        parts += _of_sampler(sampler)
        parts.append(element("h3", "Without the label sampler"))
    if explanation is None:
        parts.append(element("p", "No plan was found for this model: nothing is integrated out, and all is sampled."))
    else:
        parts += _derivation(post, explanation, is_sampled)
    return section("derivation", "How it was integrated", *parts)


def _of_sampler(sampler: LabelSampler) -> Iterator[Part]:
    """What a label sampler integrates out."""
    model, labels = sampler.eliminated_model, in_words(sampler.names)
    drawn = f"{labels} {_are(sampler.names)} drawn one entry after another, each given all others."
    if not model.eliminated:
        yield element("p", f"Nothing is integrated out: {drawn}")
        return
    yield element("p", f"{in_words(model.eliminated)} {_are(model.eliminated)} integrated out exactly; {drawn}")
    for number, one in enumerate(described(model.plan, model.reading.integrand), 1):
        yield _integral(number, one)


def _derivation(post: Joint, explanation: Explanation, is_sampled: bool) -> Iterator[Part]:
    yield element("p", _verdict(explanation, is_sampled))
    if any(not line.integrals for line in explanation.lines):
        yield element("p", "f with a number stands for a factor of the model, or for the result of an earlier step.")
    yield from _steps(explanation)
    if explanation.lines:
        yield from _plan(explanation)
    if explanation.conversions:
        yield table("Conversions and projections", CONVERSIONS, explanation._conversion_rows)
    yield from _remaining(post, explanation)
    yield from _refused(explanation)


def _verdict(explanation: Explanation, is_sampled: bool) -> str:
    if not explanation.remaining:
        return "Every latent has a closed form: evidence, marginals and draws are exact."
    left, are = in_words(explanation.remaining), _are(explanation.remaining)
    rest = f"and the others drawn given {'it' if len(explanation.remaining) == 1 else 'them'}"
    last = f"{left} {are} sampled, {rest}." if is_sampled else f"{left} {_have(explanation.remaining)} no closed form."
    if not explanation.order:
        return f"Nothing is integrated out in closed form: {left} {are} sampled."
    return f"{in_words(explanation.order)} {_are(explanation.order)} integrated out exactly. {last}"


def _have(names: Sequence[Any]) -> str:
    return "has" if len(names) == 1 else "have"


def _are(names: Sequence[Any]) -> str:
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
    names, together = in_words(one.names), len(one.names) > 1
    parameters = [
        element("li", [element("span", Markup(part), class_="wide term") for part in equation(name, tree)])
        for name, tree in one.formulas
    ]
    symbol = "x" if re.search("(?<![a-z])x(?![a-z])", one.equation) else "k"
    has_formula = bool(one.equation)
    return element(
        "details",
        element("summary", f"Step {number}: {names}"),
        element(
            "p",
            f"Given the sites that are not yet integrated out, {names} {_conditional(one)}",
        ),
        element("ul", parameters, class_="parameters") if parameters else None,
        element(
            "p",
            f"so that {'they are' if together else 'it is'} integrated out by the identity "
            f"({symbol} stands for {names})",
        )
        if has_formula
        else None,
        element("div", Markup(identity(one.equation)), class_="wide identity") if has_formula else None,
        element("p", SQUARES.format(names), class_="note") if "|A x − b|²" in one.equation else None,
        element("p", f"Size: {one.cost}. Exactness: {exactness}.", class_="note"),
        class_="step",
    )


def _conditional(one: ExplainedIntegral) -> str:
    """What an eliminated variable is given the others: "has a Beta distribution", "is a Markov chain"."""
    if one.family in IN_WORDS:
        return f"is {IN_WORDS[one.family]}"
    article = "an" if one.family[0] in "AEIO" else "a"
    return f"{'have together' if len(one.names) > 1 else 'has'} {article} {one.family} distribution"


def _sum(number: int, line: Line, step: Step, plan: Plan) -> Markup:
    """A step of a plan for tables: some of them are multiplied, and names are summed out."""
    names = ", ".join(map(str, step.eliminated))
    return element(
        "details",
        element("summary", f"Step {number}: {names or 'multiply'}"),
        element("div", Markup(mathml(_formula(step, plan))), class_="wide identity"),
        element(
            "p",
            f"Rule: {line.rule}. Cost: {_cost(line)}. Exactness: {line.exactness!r}.",
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
        (f"{number}. {line.equation}", line.rule, _cost(line), repr(line.exactness))
        for number, line in enumerate(explanation.lines[:STEPS], 1)
    ]
    plan, total = explanation.plan, f"{len(explanation.lines):,} step{'s' * (len(explanation.lines) != 1)}"
    if plan.work:
        total += f", {plan.work:,} multiply-adds, largest result {plan.largest:,} entries"
    shown = table("The plan with its costs", ("step", "conditional or rule", "cost", "exactness"), rows)
    yield element("details", element("summary", f"The plan with its costs: {total}"), shown)


def _cost(line: Line) -> str:
    if line.integrals:
        return "; ".join(one.cost for one in line.integrals)
    return f"{line.work:,} multiply-adds, {line.size:,} entr{'y' if line.size == 1 else 'ies'}"


def _remaining(post: Joint, explanation: Explanation) -> Iterator[Part]:
    if not explanation.remaining:
        return
    yield element("h3", "Why the others remain")
    said = []
    for names, expected, where in explanation.reasons:
        term = [", and not ", element("code", where)] if where else []
        said.append(element("li", element("b", in_words(names)), f": a closed form would need {expected}", *term))
    yield element("ul", said)
    yield element("h3", "What to try")
    yield element("ul", [element("li", each) for each in _advice(post, explanation.remaining)])


def _advice(post: Joint, remaining: Sequence[str]) -> Iterator[Part]:
    domains = dict(post.outline.free_domains())
    yield [element("code", "post.infer(key)"), f" draws {in_words(remaining)}, and then the others exactly."]
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
        said = [element("li", element("code", question), f": {_plainly(why)}") for question, why in explanation.refused]
        yield element("details", element("summary", "Questions without an answer in closed form"), element("ul", said))


def _plainly(why: str) -> str:
    """The parts of an error in one sentence, without its advice."""
    parts = why.partition(" to do")[0].removeprefix("expected: ")
    return f"it would need {parts}".replace(" nearest: ", "; but ") if why.startswith("expected: ") else parts
