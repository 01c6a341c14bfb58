"""How a question is answered: the steps of its plan with rule, cost and exactness, as text and for a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fubini.base.names import Name
from fubini.eliminate.plan import Plan
from fubini.errors import in_words, listed
from fubini.factors.tally import Conversion
from fubini.show.notation import Notation
from fubini.show.printed_form import Block, Drawing, Formula, Grid, Shown, Words, display_form, write_out
from fubini.terms.exactness import Exactness, exactly

ENGINES = {
    "numpy": "NumPy, step by step",
    "system": "NumPy, all together as one sparse linear system",
    "loops": "NumPy, in compiled loops once questions pay for loading them",
    "scans": "XLA, few scans over the levels of the plan",
    "xla": "XLA, one compiled function",
    "trace": "the trace in progress",
}
IN_WORDS = {"Chain": "a Markov chain"}  # conditionals that are no family of distributions
HEAD = ("step", "rule", "work", "size", "exactness")
APPROXIMATE = "`with fb.quadrature():` (up to three numbers) or `with fb.monte_carlo(key, n):` approximates them"
CONVERSIONS = ("over", "from", "to", "where", "times", "numbers", "exactness")


class SiteGraph(Protocol):
    """The graph of a model."""

    def drawing(self, indent: int = 0) -> Drawing: ...


@dataclass(frozen=True, repr=False)
class ExplainedIntegral(Shown):
    """One elimination in index notation: the variables, their conditional, and the equation."""

    names: tuple[Name, ...]
    family: str
    equation: str
    parameters: tuple[tuple[str, str], ...]
    cost: str
    formulas: tuple[tuple[str, Notation], ...] = field(default=(), compare=False, repr=False)  # of these parameters

    def _form(self, number: str = "", indent: int = 0) -> Iterator[Block]:
        """The conditional from which the variables are drawn back, the identity, and the parameters."""
        names, kind = ", ".join(map(str, self.names)), IN_WORDS.get(self.family, self.family)
        yield Words(f"{number}{names}: {kind} given the rest, {self.cost}", indent)
        inside = indent + len(number)
        yield Formula("", self.equation, inside)
        drawn = dict(self.formulas)
        yield from (Formula(name, drawn.get(name, value), inside, value) for name, value in self.parameters)


@dataclass(frozen=True)
class Line:
    """One step of a plan; of one that integrates, how."""

    equation: str
    rule: str
    work: int
    size: int
    exactness: Exactness = exactly
    integrals: tuple[ExplainedIntegral, ...] = ()


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The plan of one question, what remains and what blocks it. Shows as HTML in a notebook.

    In a terminal it is shown in at most 25 lines; `print` shows all of it.

    >>> fb.explain([fb.Table([[1.0, 2.0]], ("a", "b"))], sum=("b",)).order
    ('b',)
    """

    title: str
    lines: tuple[Line, ...]
    plan: Plan
    engine: str = ""
    notes: tuple[str, ...] = ()
    arrays: Mapping[Name, tuple[Name, ...]] = field(default_factory=dict)
    graph: SiteGraph | None = None  # of a model
    remaining: tuple[str, ...] = ()
    blocked: tuple[tuple[str, str, str], ...] = ()  # site, what was expected, where
    refused: tuple[tuple[str, str], ...] = ()  # question, why
    sampling: str = ""  # how `infer` draws, where it eliminates other latents than the plan
    conversions: tuple[Conversion, ...] = ()  # of factors into other forms, and projections
    passes: tuple[str, ...] = ()  # how rows that are read chunk by chunk were gone over

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
            them = "it" if len(self.remaining) == 1 else "them"
            how = self.sampling or f"infer(key) samples {them} and draws the others back exactly"
            return (
                f"remaining: {listed(self.remaining)}; {how}\n"
                f"log_evidence, marginal, posterior and predict have no closed form; {APPROXIMATE}"
            )
        if any(question.startswith("marginal") for question, _ in self.refused):
            return "nothing remains: evidence and draws are exact, and so are the other marginals"
        return "nothing remains: evidence, marginals and draws are exact"

    def __str__(self) -> str:
        return write_out(self)

    def _form(self) -> Iterator[Block]:
        yield from map(Words, self.notes)
        if self.graph is not None:
            yield Words(self.title)
            yield self.graph.drawing(2)
        yield from map(Words, self.passes)
        if self._is_table:
            yield from map(Words, self._summary)
            yield Grid(HEAD, self._rows, is_numeric=False)
        yield from self._integrals_form()
        if self.conversions:
            yield Words("conversions and projections")
            yield Grid(CONVERSIONS, self._conversion_rows, is_numeric=False)
        yield from map(Words, self._reasons)
        yield from (Words(f"not {question}: {why}") for question, why in self.refused)
        yield from map(Words, self.verdict.splitlines())

    @property
    def reasons(self) -> list[tuple[list[str], str, str]]:
        """Why variables have no closed form, those with the same reason together: names, what was expected, where.

        >>> [names for names, expected, where in fb.explain([fb.Table([1.0], ("a",))], sum=("a",)).reasons]
        []
        """
        together: dict[tuple[str, str], list[str]] = {}
        for name, expected, where in self.blocked:
            meant = f" (x stands for {name})" if re.search(r"\bx\b", expected) and name != "x" else ""
            term = "" if where.replace(".", "").isdigit() else where
            together.setdefault((f"{expected}{meant}", term), []).append(name)
        return [(names, expected, where) for (expected, where), names in together.items()]

    @property
    def _reasons(self) -> Iterator[str]:
        """The reasons as sentences."""
        for names, expected, where in self.reasons:
            verb = "remains" if len(names) == 1 else "remain"
            term = f", and not {where}" if where else ""
            yield f"{in_words(names)} {verb}: a closed form would need {expected}{term}"

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

    def _integrals_form(self) -> Iterator[Block]:
        """What is integrated out, by which identity, and the conditional from which it is drawn back."""
        if not self.integrals:
            yield from [] if self._is_table or self.graph is None else [Words("nothing is integrated out")]
            return
        yield Words("integrated out")
        for number, one in enumerate(self.integrals, 1):
            yield from one._form(f"{number}. ", 2)

    def to_html(self) -> str:
        """A page: the graph, the steps, how they integrate, what remains and why.

        >>> fb.explain([fb.Table([[1.0, 2.0]], ("a", "b"))], sum=("b",)).to_html()[:4]
        '<div'
        """
        return display_form(self)
