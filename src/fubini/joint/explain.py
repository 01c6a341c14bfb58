"""What is eliminated from a model and how, what is left, and what blocks it: as text, and for a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

from fubini.errors import Intractable, NoRule, listed
from fubini.families.family import family_of
from fubini.index.notation import written
from fubini.joint.eliminated_model import EliminatedModel, eliminated
from fubini.joint.flat_model import FlatModel
from fubini.joint.graph import Graph
from fubini.joint.marginal import closed_marginal
from fubini.joint.mode import require_real
from fubini.joint.posterior import posterior
from fubini.symbolic.block import Block
from fubini.symbolic.search import Step, work
from fubini.symbolic.student import Student

WIDTH = 150  # characters of an equation that are shown
PATHS = "Σ over paths, forward in time"


@dataclass(frozen=True)
class Line:
    """One elimination: which sites, what they are given the rest, by which equation, at which cost."""

    names: tuple[str, ...]
    family: str
    equation: str
    parameters: tuple[tuple[str, str], ...]
    cost: str


@dataclass(frozen=True)
class Report:
    """`fb.explain(post)`: prints as text, shows as HTML in a notebook."""

    title: str
    graph: Graph
    lines: tuple[Line, ...]
    left: tuple[str, ...]
    blocked: tuple[tuple[str, str, str], ...]  # site, what was expected, where
    refused: tuple[tuple[str, str], ...] = ()  # question, why

    @property
    def verdict(self) -> str:
        """What can be asked."""
        if self.left:
            left = f"left: {listed(self.left)}; infer(key) samples them and draws the others back exactly"
            return f"{left}\nlog_evidence, marginal, posterior and predict have no closed form"
        if any(question.startswith("marginal") for question, _ in self.refused):
            return "nothing is left: evidence and draws are exact, and so are the other marginals"
        return "nothing is left: evidence, marginals and draws are exact"

    def __str__(self) -> str:
        parts = [self.title, *(f"  {line}" for line in repr(self.graph).splitlines())]
        parts.append("eliminated" if self.lines else "nothing is eliminated")
        for number, line in enumerate(self.lines, 1):
            parts.append(f"  {number}. {', '.join(line.names)}: {line.family}, {line.cost}")
            parts.append(f"     {line.equation}")
            parts.extend(f"     {name} = {value}" for name, value in line.parameters)
        for name, expected, where in self.blocked:
            parts.append(f"not {name}: expected {expected}")
            parts.append(f"     found {where}")
        parts.extend(f"not {question}: {why}" for question, why in self.refused)
        return "\n".join([*parts, self.verdict])

    __repr__ = __str__

    def to_html(self) -> str:
        """A page: the graph, a table of eliminations, what is left and why."""
        rows = "".join(
            f"<tr><td>{escape(', '.join(line.names))}</td><td>{escape(line.family)}</td>"
            f"<td>{escape(line.equation)}<br><small>"
            f"{'<br>'.join(escape(f'{name} = {value}') for name, value in line.parameters)}</small></td>"
            f"<td>{escape(line.cost)}</td></tr>"
            for line in self.lines
        )
        kept = "".join(
            f"<li><b>{escape(name)}</b>: expected {escape(expected)}; found <code>{escape(where)}</code></li>"
            for name, expected, where in self.blocked
        ) + "".join(f"<li><b>{escape(question)}</b>: {escape(why)}</li>" for question, why in self.refused)
        head = "<tr><th>site</th><th>given the rest</th><th>equation</th><th>cost</th></tr>"
        table = f"<table>{head}{rows}</table>" if rows else "<p>nothing is eliminated</p>"
        why = f"<ul>{kept}</ul>" if kept else ""
        return f"<div><h3>{escape(self.title)}</h3>{self.graph.to_svg()}{table}{why}<p>{escape(self.verdict)}</p></div>"

    def _repr_html_(self) -> str:
        return self.to_html()


def report(model: FlatModel) -> Report:
    """How a model would be answered."""
    left, joint = eliminated(model), model.joint
    lines = tuple(_line(step, left) for step in left.plan.integrals)
    blocked = tuple((name, error.why, _short(written(error.node))) for name, error in left.blocked.items())
    return Report(f"{joint}", joint.graph(), lines, left.kept, blocked, tuple(_refused(left)))


def _refused(left: EliminatedModel) -> Iterator[tuple[str, str]]:
    """Questions that have no answer though nothing is left, and why; `map()` in any case."""
    model = left.model
    checks: list[tuple[str, Callable[[], Any]]] = [("map()", lambda: require_real(left))]
    if not left.kept:
        checks.extend((f"marginal({name!r})", partial(closed_marginal, model, name)) for name in left.reading.sites)
        checks.append(("posterior()", partial(posterior, model)))
    for question, check in () if model.tables is not None else checks:
        try:
            check()
        except (Intractable, NoRule) as error:
            yield question, _short(" ".join(str(error).split("\n", 1)[-1].split()))


def _line(step: Step, left: EliminatedModel) -> Line:
    result = step.result
    if isinstance(result, (Block, Student)):
        return _joint_line(step, result)
    sizes = [left.reading.domains[name].shape for name in step.names]
    count = 1
    for size in sizes[0]:
        count *= size
    given = tuple((name, _short(written(node))) for name, node in result.law.parameters.items() if name != "axis")
    cost = "1 entry" if count == 1 else f"{count:,} entries"
    kind = result.law.family
    equation = PATHS if kind == "Chain" else family_of(kind).equation
    return Line(step.names, kind, equation, given, cost)


def _joint_line(step: Step, result: Block | Student) -> Line:
    frame = result.layout.frame
    shape = [f"{i.size:,} apart" for i in result.layout.apart]
    if frame.length is not None:
        shape.append(f"a chain of {frame.length:,}")
    shape.append(f"{frame.cell:,} that meet")
    cost = f"{', '.join(shape)}; about {work(step):,.0f} operations"
    if isinstance(result, Student):
        equation = "∫ (s + |A x − b|²)^(−p) dx = π^(d/2) Γ(p − d/2)/Γ(p) |AᵀA|^(−½) (s + min)^(d/2 − p)"
        return Line(step.names, "MultivariateStudentT", equation, (("df", _short(written(result.df))),), cost)
    equation = "∫ exp(−½ |A x − b|²) dx = (2π)^(d/2) |AᵀA|^(−½) exp(−½ min |A x − b|²)"
    return Line(step.names, "MultivariateNormal", equation, (("precision", f"{written(result.scale)} AᵀA"),), cost)


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
