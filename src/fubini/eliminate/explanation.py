"""How a question is answered: the steps of its plan with rule, cost and exactness, as text and for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Protocol

from fubini.base.names import Name
from fubini.eliminate.plan import Plan
from fubini.errors import listed
from fubini.factors.tally import Conversion
from fubini.show.notation import Notation
from fubini.terms.exactness import Exactness, exactly

ENGINES = {"numpy": "NumPy, step by step", "xla": "XLA, one compiled function", "trace": "the trace in progress"}
HEAD = ("step", "rule", "work", "size", "exactness")
CONVERSIONS = ("over", "from", "to", "where", "times", "numbers", "exactness")


class Drawing(Protocol):
    """The graph of a model."""

    def to_svg(self) -> str: ...


@dataclass(frozen=True)
class ExplainedIntegral:
    """One elimination in index notation: the variables, their conditional, and the equation."""

    names: tuple[Name, ...]
    family: str
    equation: str
    parameters: tuple[tuple[str, str], ...]
    cost: str
    formulas: tuple[tuple[str, Notation], ...] = field(default=(), compare=False, repr=False)  # of these parameters


@dataclass(frozen=True)
class Line:
    """One step of a plan; of one that integrates, how."""

    equation: str
    rule: str
    work: int
    size: int
    exactness: Exactness = exactly
    integrals: tuple[ExplainedIntegral, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The plan of one question, what remains and what blocks it. Prints as text, shows as HTML in a notebook.

    >>> fb.explain([fb.Table([[1.0, 2.0]], ("a", "b"))], sum=("b",)).order
    ('b',)
    """

    title: str
    lines: tuple[Line, ...]
    plan: Plan
    engine: str = ""
    notes: tuple[str, ...] = ()
    arrays: Mapping[Name, tuple[Name, ...]] = field(default_factory=dict)
    graph: Drawing | None = None  # of a model
    remaining: tuple[str, ...] = ()
    blocked: tuple[tuple[str, str, str], ...] = ()  # site, what was expected, where
    refused: tuple[tuple[str, str], ...] = ()  # question, why
    conversions: tuple[Conversion, ...] = ()  # of factors into other forms, and projections

    @property
    def order(self) -> tuple[Name, ...]:
        """The names in the order they are eliminated.

        >>> f, g = fb.Table(np.ones((2, 2)), ("a", "b")), fb.Table(np.ones((2, 2)), ("b", "c"))
        >>> fb.explain([f, g], sum=("b", "c")).order
        ('c', 'b')
        """
        return self.plan.eliminated

    @property
    def integrals(self) -> tuple[ExplainedIntegral, ...]:
        """The integrals in index notation, in order.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> [integral.names for integral in model.condition(x=0.5).explain().integrals]
        [('m',)]
        """
        return tuple(integral for line in self.lines for integral in line.integrals)

    @property
    def verdict(self) -> str:
        """One sentence on the questions that have a closed form; empty of factors.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.condition(x=0.5).explain().verdict
        'nothing remains: evidence, marginals and draws are exact'
        """
        if self.graph is None:
            return ""
        if self.remaining:
            latents = f"remaining: {listed(self.remaining)}; infer(key) samples them and draws the others back exactly"
            return f"{latents}\nlog_evidence, marginal, posterior and predict have no closed form"
        if any(question.startswith("marginal") for question, _ in self.refused):
            return "nothing remains: evidence and draws are exact, and so are the other marginals"
        return "nothing remains: evidence, marginals and draws are exact"

    # -- text --------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        parts = [*self.notes]
        if self.graph is not None:
            parts += [self.title, *(f"  {line}" for line in repr(self.graph).splitlines())]
        if self._is_table:
            parts += [*self._summary, *_columns([HEAD, *self._rows])]
        parts += self._integrals_told
        if self.conversions:
            parts += ["conversions and projections", *_columns([CONVERSIONS, *self._conversion_rows])]
        for name, expected, where in self.blocked:
            parts += [f"not {name}: expected {expected}", f"     in {where}"]
        parts += [f"not {question}: {why}" for question, why in self.refused]
        return "\n".join([*parts, *([self.verdict] if self.verdict else [])])

    __repr__ = __str__

    @property
    def _is_table(self) -> bool:
        """Whether some step is no integral in index notation, or nothing else is shown."""
        if not self.lines and (self.conversions or self.refused):
            return False
        return self.graph is None or any(not line.integrals for line in self.lines)

    @property
    def _summary(self) -> list[str]:
        plan = self.plan
        title = f"{self.title}: " if self.graph is None else ""
        first = (
            f"{title}{len(self.lines)} steps, {plan.work:,} multiply-adds, "
            f"largest result {plan.largest:,} entries, on {ENGINES[self.engine]}"
        )
        plated = [f"{name!r} lives in the plates {listed(home)}" for name, home in plan.scopes.items() if home]
        plated += [
            f"{name!r} of the plates {listed(home)}, which do not nest with others, is one array variable"
            for name, home in self.arrays.items()
        ]
        slices = [f"sliced over {listed(plan.slices)}: {plan.passes:,} passes"] if plan.slices else []
        return [first, *plated, *slices]

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (f"{number}. {line.equation}", line.rule, f"{line.work:,}", f"{line.size:,}", repr(line.exactness))
            for number, line in enumerate(self.lines, 1)
        ]

    @property
    def _conversion_rows(self) -> list[tuple[str, ...]]:
        return [
            (
                ", ".join(map(str, each.names)) or "none",
                *(each.source, each.target, each.where),
                *(f"{each.times:,}", f"{each.size:,}", repr(each.exactness)),
            )
            for each in self.conversions
        ]

    @property
    def _integrals_told(self) -> list[str]:
        if not self.integrals:
            return [] if self._is_table or self.graph is None else ["nothing is eliminated"]
        told = ["integrated out"] if self._is_table else ["eliminated"]
        for number, one in enumerate(self.integrals, 1):
            told.append(f"  {number}. {', '.join(map(str, one.names))}: {one.family}, {one.cost}")
            told.append(f"     {one.equation}")
            told.extend(f"     {name} = {value}" for name, value in one.parameters)
        return told

    # -- HTML --------------------------------------------------------------------------------------------------------

    def to_html(self) -> str:
        """A page: the graph, the steps, how they integrate, what remains and why.

        >>> fb.explain([fb.Table([[1.0, 2.0]], ("a", "b"))], sum=("b",)).to_html()[:4]
        '<div'
        """
        parts = [f"<h3>{escape(self.title)}</h3>", *(f"<p>{escape(note)}</p>" for note in self.notes)]
        if self.graph is not None:
            parts.append(self.graph.to_svg())
        if self._is_table:
            parts += [*(f"<p>{escape(line)}</p>" for line in self._summary), _table(HEAD, self._rows)]
        if self.integrals:
            rows = [
                (", ".join(map(str, one.names)), one.family, "\n".join([one.equation, *_given(one)]), one.cost)
                for one in self.integrals
            ]
            parts.append(_table(("variable", "given the rest", "equation", "cost"), rows))
        elif not self._is_table and self.graph is not None:
            parts.append("<p>nothing is eliminated</p>")
        if self.conversions:
            parts += ["<p>conversions and projections</p>", _table(CONVERSIONS, self._conversion_rows)]
        kept = [f"<b>{escape(n)}</b>: expected {escape(e)}; in <code>{escape(w)}</code>" for n, e, w in self.blocked]
        kept += [f"<b>{escape(question)}</b>: {escape(why)}" for question, why in self.refused]
        parts += [f"<ul>{''.join(f'<li>{item}</li>' for item in kept)}</ul>"] if kept else []
        return f"<div>{''.join(parts)}<p>{escape(self.verdict)}</p></div>"

    def _repr_html_(self) -> str:
        return self.to_html()


def _given(integral: ExplainedIntegral) -> list[str]:
    return [f"{name} = {value}" for name, value in integral.parameters]


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _table(head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}>{escape(cell).replace(chr(10), '<br>')}</{tag}>" for cell in row)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', head)}</tr>{body}</table>"
