"""Showing the work: the plan of a question, and a recorded term in its planned form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import jax

from fubini.base.interpretations import current, interpret, lazy
from fubini.base.names import Name
from fubini.base.semirings import Semiring, same_pair, sum_product
from fubini.eliminate.array_variables import find_plan_with_arrays
from fubini.eliminate.explanation import Explanation, Line
from fubini.eliminate.flat_tables import engine_name
from fubini.eliminate.forward import embed, find_plan, forward
from fubini.eliminate.level_tables import is_by_levels
from fubini.eliminate.linear_systems import total_of_system
from fubini.eliminate.plan import Plan, Step
from fubini.eliminate.prepare import (
    Factors,
    Scopes,
    known_names,
    one_or_other,
    prepared,
    problem_of,
    split_terms,
    together,
)
from fubini.errors import FubiniError, listed
from fubini.factors.represent import converted
from fubini.factors.tally import conversion_of
from fubini.terms.composite import Sum, symbol_of
from fubini.terms.exactness import exactly, projected
from fubini.terms.factor import Factor, is_tabular, product, terms_of
from fubini.terms.heads import CONTRACT, DESCRIBE, MULTIPLY, MULTIPLY_MANY, MULTIPLY_OUT, SUM
from fubini.terms.term import Term
from fubini.terms.value import Value

TITLED = 12  # names in a title


@runtime_checkable
class HasFactors(Protocol):
    """A model that has been asked: its factors at the data, and the names still hidden."""

    @property
    def observed_factors(self) -> Sequence[Factor]: ...

    @property
    def hidden(self) -> Sequence[Name]: ...


@runtime_checkable
class ExplainsItself(Protocol):
    """Something that knows how its questions are answered."""

    def explain(self) -> Explanation: ...


def explain(
    question: Any,
    sum: Scopes = (),
    plates: Sequence[Name] = (),
    *,
    semiring: Semiring = sum_product,
    scale: Mapping[Name, float] | None = None,
    memory_limit: int | None = None,
) -> Explanation:
    """The plan of a recorded sum, of factors with what is to be summed, or of anything that has factors and names.

    >>> f, g = fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))
    >>> print(explain([f, g], sum=("a", "b")))
    sum_product over 'a', 'b': 2 steps, 6 multiply-adds, largest result 2 entries, on NumPy, step by step
    step                rule                 work  size  exactness
    1. Σ_a #0(a,b)      sum_table            4     2     exact
    2. Σ_b #1(b) #2(b)  contract_two_tables  2     1     exact
    """
    if isinstance(question, ExplainsItself) and not isinstance(question, Factor):
        return question.explain()
    factors, names, semiring = _question(question, sum, semiring)
    given = split_terms(factors)
    with known_names(given, [*names, *getattr(question, "evidence", ())]):
        stored = converted(given)
        terms, summed = prepared(stored, names, plates, semiring)
    pairs = zip(given, stored, strict=True)
    conversions = [each for f, g in pairs if f is not g for each in conversion_of(f, [g], "before the plan")]
    names = [name for name, _ in summed]

    def run(terms: list[Factor]) -> Explanation:
        problem = problem_of(terms, summed, plates, scale, memory_limit)
        plan, terms, arrays = find_plan_with_arrays(problem, terms, False)
        lines = tuple(_lines(plan, terms, semiring))
        more = f", … {len(names) - TITLED:,} more" if len(names) > TITLED else ""
        title = f"{semiring} over {listed(names[:TITLED])}{more}"
        is_whole = total_of_system(terms, summed, plates or scale, semiring) is not None
        by_scans = not is_whole and is_by_levels(plan, terms, semiring)
        engine = "system" if is_whole else "scans" if by_scans else engine_name(plan, terms, semiring)
        return Explanation(title, lines, plan, engine, arrays=arrays, conversions=tuple(conversions))

    return one_or_other(run, together(terms, names, plates, semiring, scale), terms)


def _question(question: Any, names: Scopes, semiring: Semiring) -> tuple[Factors, Scopes, Semiring]:
    if isinstance(question, Sum):
        return question.body, (*question.bounds, *names), question.semiring
    if isinstance(question, Factor) and any(isinstance(term, Sum) for term in terms_of(question)):
        raise FubiniError(
            f"an explanation of {question}",
            expected="one sum",
            advice="explain each of its sums: fb.explain(term.terms[k])",
        )
    if isinstance(question, HasFactors):
        return question.observed_factors, names or question.hidden, semiring
    return question, names, semiring


def _lines(plan: Plan, terms: Sequence[Factor], semiring: Semiring) -> list[Line]:
    slots = _slots(plan, terms, semiring)
    marks = [term.exactness for term in terms]
    lines = []
    for step in plan.steps:
        mark = exactly
        for slot in step.operands:
            mark = mark | marks[slot]
        if current().project is not None and step.kind != "multiply out" and step.eliminated:
            mark = mark | projected(current().name)
        marks.append(mark)
        operands = [slots[slot] for slot in step.operands]
        made = slots[len(plan.inputs) + len(lines)]
        is_whole = step.kind == "integrate" and semiring is sum_product and max(step.operands) < len(terms)
        how = interpret(DESCRIBE, product(*(terms[k] for k in step.operands)), step.eliminated) if is_whole else ()
        rule = " · ".join(dict.fromkeys(one.family for one in how)) or _rule(step, operands, made, semiring)
        lines.append(Line(_equation(step, plan, semiring), rule, step.work, step.size, mark, how))
    return lines


def _slots(plan: Plan, terms: Sequence[Factor], semiring: Semiring) -> Sequence[Factor]:
    """The factor of every slot without its numbers: blanks where all are of one kind, or an abstract run."""
    if terms and all(map(is_tabular, terms)):
        kind, *others = {type(term) for term in terms if not term.promotes} or {type(embed(semiring, terms[0]))}
        if kind.lists_cells and not others:
            return [kind._blank(names) for names in plan.names]
    return jax.eval_shape(lambda: _whole_forward(plan, terms, semiring))


def _whole_forward(plan: Plan, terms: Sequence[Factor], semiring: Semiring) -> list[Factor]:
    return forward(plan, [embed(semiring, term) for term in terms], semiring, keep_all=True)


def _equation(step: Step, plan: Plan, semiring: Semiring) -> str:
    operands = " ".join(f"#{slot}({','.join(sorted(map(str, plan.names[slot])))})" for slot in step.operands)
    gone = ",".join(map(str, step.eliminated))
    if step.kind == "multiply out":
        power = f"^{step.scale:g}" if step.scale != 1 else ""
        return f"Π_{gone} {operands}{power}"
    symbol = "∫" if step.kind == "integrate" and semiring is sum_product else symbol_of(semiring)
    return f"{symbol}_{gone} {operands}" if gone else operands


def _rule(step: Step, operands: Sequence[Factor], made: Factor, semiring: Semiring) -> str:
    """The name of the rule that will run; of a general one, what it multiplies by and what it makes."""
    if step.kind == "multiply out":
        rule = current().find(MULTIPLY_OUT, (*operands, step.eliminated))
    elif len(operands) == 1:
        rule = current().find(SUM, (semiring, *operands, step.eliminated))
    elif len(operands) > 2:
        rule = current().find(MULTIPLY_MANY, (operands[0], tuple(operands[1:])))
    else:
        rule = current().find(CONTRACT, (semiring, *operands, step.keep))
    if rule is None:
        return "none"
    if len(operands) == 2 and rule.signature[1] == (Factor,):
        multiply = current().find(MULTIPLY, tuple(operands))
        return f"{rule.name if multiply is None else multiply.name} → {type(made).__name__}"
    return f"{rule.name} → {type(made).__name__}" if made.grows else rule.name


def optimize(term: Any) -> Any:
    """A recorded term in its planned form: every sum over a product as nested sums, nothing computed.

    >>> f, g = fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))
    >>> with lazy:
    ...     e = (f * g).sum("a", "b")
    >>> optimize(e)
    Σ_b Table(b: Bint[2]) * (Σ_a Table(a: Bint[2], b: Bint[2]))
    """
    with lazy:
        return _optimized(term)


def _optimized(term: Any) -> Any:
    if not isinstance(term, Term) or not term.children:
        return term
    children = tuple(map(_optimized, term.children))
    if isinstance(term, Sum):
        return _nested(term.semiring, children[0], term.bounds)
    if isinstance(term, Value):
        return term._remade(children)  # type: ignore[attr-defined]
    return term._evaluated(children) if isinstance(term, Factor) else term


def _nested(semiring: Semiring, body: Factor, names: Sequence[Name]) -> Factor:
    if not (semiring.embed is semiring.read is same_pair):
        return Sum(semiring, body, names)  # a partial sum would be read out and embedded again, which changes it
    terms = list(terms_of(body))
    plan = find_plan(problem_of(terms, [(name, None) for name in names]), False)
    slots = terms
    for step in plan.steps:
        joined = product(*(slots[slot] for slot in step.operands))
        slots = [*slots, Sum(semiring, joined, step.eliminated) if step.eliminated else joined]
    return product(*(slots[slot] for slot in plan.results))
