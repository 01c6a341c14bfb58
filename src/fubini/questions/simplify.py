"""A conditioned joint as the program that remains of it: what is drawn from which family, given which statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fubini.algebra.binding import transformed
from fubini.algebra.build import ONE, add, call, const, get, plus, scale
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.tidy import tidied
from fubini.algebra.walk import walk
from fubini.errors import NoRule
from fubini.families.family import family_on_simplex, is_of_labels
from fubini.families.parameters import Vector
from fubini.integrate.block import Block
from fubini.integrate.configurations import CONFIGURATIONS
from fubini.integrate.elimination import Eliminated
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import Student
from fubini.measures.branch import Branch, DrawStatement, Items
from fubini.measures.change import flat_distribution
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.inequalities import numbers_around
from fubini.measures.integrals import distribution_of
from fubini.measures.measure import Measure
from fubini.measures.python_text import Writer
from fubini.measures.simplify import simplify as simplify_measure
from fubini.measures.statement_text import Statements
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.show.printed_form import Block as FormBlock
from fubini.show.printed_form import Shown, Words, write_out


@dataclass(frozen=True, repr=False)
class SimplifiedProgram(Shown):
    """`fb.simplify(post)`: statements, their Python, and the measure that they are, where all of it has names."""

    statements: tuple[str, ...]
    python: str
    measure: Measure | None

    def _form(self) -> Iterator[FormBlock]:
        yield from map(Words, self.statements)

    def __str__(self) -> str:
        return write_out(self)

    def source(self) -> str:
        """The program in Python; one that makes the measure again, where all of it has names."""
        return self.python


def simplify(of: Any) -> Measure | SimplifiedProgram:
    """A measure, or a conditioned joint, in closed form: what can be integrated out is, and drawn back in order.

    >>> import fubini as fb
    >>> import jax.numpy as jnp
    >>> @fb.model
    ... def coin(n):
    ...     p = yield fb.dist.Beta(2.0, 3.0)
    ...     x = yield fb.dist.Bernoulli(p).expand([n])
    >>> small = simplify(coin(4).condition(x=jnp.array([1, 1, 0, 1])))
    >>> small
    p ~ Beta(Σ_i x[i] + 2, 7 − Σ_i x[i])
    weight exp(log Γ(7 − Σ_i x[i]) + log Γ(Σ_i x[i] + 2) − 8.119696)
    returns p
    >>> print(small.source())
    @measure
    def program():
        yield factor(lgamma(7 - total(4, lambda i: x[i])) + lgamma(total(4, lambda i: x[i]) + 2) - 8.11969625295725)
        p = yield Beta(total(4, lambda i: x[i]) + 2, 7 - total(4, lambda i: x[i]))
        return p
    """
    return simplify_measure(of) if isinstance(of, Measure) else _program(_plan(of))


def _plan(joint: Flavour | EliminatedModel) -> EliminatedModel:
    """The eliminated model with fewest sites: without all that can go, or all but finite ones; or itself."""
    if isinstance(joint, EliminatedModel):
        return joint
    model = FlatModel(joint)
    whole = _with_formulas(eliminated(model))
    sites = {name: domain for name, domain in whole.reading.domains.items() if not domain.is_discrete}
    if not whole.kept or len(sites) == len(whole.reading.domains):
        return whole
    others = eliminated(model, tuple(sites))
    return others if len(others.kept) < len(whole.kept) else whole


def _with_formulas(whole: EliminatedModel) -> EliminatedModel:
    """Without the sums over all values of coupled labels, which are numbers of one size and no formula."""
    names: list[str] = []
    for step in whole.plan.integrals:
        if isinstance(step.result, Eliminated) and step.result.distribution.family == CONFIGURATIONS:
            return eliminated(whole.model, tuple(names))
        names += step.names
    return whole


def _program(model: EliminatedModel) -> SimplifiedProgram:
    sites = model.reading.sites
    _require_no_matrix(sites)
    flat_draws = [_flat_draw(sites[name]) for name in model.kept]
    weight = tidied(add((term, 1.0) for term in (*model.plan.terms, *(mass for _, mass in flat_draws))))
    steps = tuple(reversed(model.plan.integrals))
    draws = [_draw(step, sites) for step in steps]
    value = tuple(map(_whole, sites.values()))
    branch = Branch(
        (*(draw for draw, _ in flat_draws), *(draw for draw in draws if draw is not None)),
        (),
        weight,
        value[0] if len(value) == 1 else value,
    )
    if None not in draws and not _is_joint(weight):
        measure = Measure((_from_zero(branch),))
        return SimplifiedProgram(tuple(str(measure).splitlines()), measure.source(), measure)
    parts = branch, flat_draws, steps, draws, sites
    python = "\n".join(["@measure", "def program():", *(f"    {line}" for line in _lines(_Python, *parts))])
    return SimplifiedProgram(tuple(_lines(_Paper, *parts)), python, None)


def _require_no_matrix(sites: Mapping[str, Leaf]) -> None:
    """Raise where a site is a positive definite matrix, of which programs of measures have no draws."""
    for name, leaf in sites.items():
        if leaf.is_positive_definite:
            raise NoRule(
                f"the program of a model in which {name!r} is a positive definite matrix",
                expected="sites that are numbers, labels, vectors or arrays of these",
                advice="fb.explain(…) shows its integrals, and marginal what it is distributed as",
            )


def _from_zero(branch: Branch) -> Branch:
    """Finite draws that begin at another number, as that number and a draw that begins at 0."""
    for draw in branch.draws:
        leaf = draw.leaf
        if is_of_labels(draw.distribution.family) and leaf.first:
            new = Leaf(leaf.name, leaf.shape, low=0.0, high=leaf.count - 1.0, is_integer=True, role=leaf.role)
            moved = partial(_moved, leaf=leaf, new=new, low=const(leaf.first))
            branch = branch.mapped(moved, {leaf: new})
    return branch


def _moved(of: Node, leaf: Leaf, new: Leaf, low: Node) -> Node:
    return transformed(of, leaf, lambda *at: plus(get(new, *at), low))


def _whole(leaf: Leaf) -> Any:
    over = tuple(Index(size) for size in leaf.shape)
    draw = DrawStatement(leaf, over, DrawDistribution("Opaque", ()))
    return Items(over, draw.entry()) if over else draw.entry()


def _flat_draw(leaf: Leaf) -> tuple[DrawStatement, Node]:
    """A site that stays, flat on its domain, and the mass that this takes from the weight."""
    if leaf.is_simplex:
        *batch, size = leaf.shape
        at = tuple(Index(extent) for extent in batch)
        mass = scale(-float(math.prod(batch)), call("lgamma", const(float(size))))
        return DrawStatement(leaf, at, DrawDistribution(family_on_simplex().name, (Vector(Index(size), ONE),))), mass
    at = tuple(Index(extent) for extent in leaf.shape)
    return DrawStatement(leaf, at, flat_distribution(numbers_around(leaf))), const(0.0)


def _draw(step: IntegrationStep, sites: Any) -> DrawStatement | None:
    """The draw of an eliminated site; None where sites are drawn together, or along a chain."""
    result = step.result
    if isinstance(result, Block | Student) or result.distribution.family in ("Chain", CONFIGURATIONS):
        return None
    leaf = sites[step.names[0]]
    event = 1 if leaf.is_simplex else 0
    return DrawStatement(leaf, result.at[: len(leaf.shape) - event], distribution_of(result, leaf))


def _is_joint(of: Node) -> bool:
    """It has determinants or paths in it, which have no text as a program."""
    return any(this.kind in ("logdet", "rss", "chain") for this in walk(of))


# -- text -----------------------------------------------------------------------------------------------------------


class _Python(Writer):
    """Python, and what has no name in it by the sites that it is of."""

    problems: Mapping[tuple, str]

    def _logdet(self, this: Node) -> str:
        return f"log_det({self.problems.get(this.args[1:], 'A')})"

    def _rss(self, this: Node) -> str:
        return f"least_squares({self.problems.get(this.args[1:], 'A')})"

    def _chain(self, this: Node) -> str:
        return "log_paths()"

    def drawn(self, draw: DrawStatement) -> str:
        """A draw; of a finite one that begins at another number, that number added."""
        text, low = self.draw(draw), draw.leaf.low
        if not is_of_labels(draw.distribution.family) or not low:
            return text
        name, _, distribution = text.partition(" = ")
        return f"{name} = {low:g} + ({distribution})"

    def drawn_together(self, names: str, distribution: str) -> str:
        """A draw of several sites, or of one along a chain."""
        return f"{names} = yield {distribution}"

    def weighted(self, weight: Node) -> str:
        """The weight, by its logarithm."""
        return f"yield factor({self.of(weight)})"

    def returned(self, names: str) -> str:
        """What is returned."""
        return f"return {names}"


class _Paper(Statements, _Python):
    """The same on paper."""

    def _logdet(self, this: Node) -> str:
        return "log|AᵀA|"

    def _rss(self, this: Node) -> str:
        return f"min |A ({self.problems.get(this.args[1:], 'x')}) − b|²"

    def _chain(self, this: Node) -> str:
        return "log Σ over paths"

    def drawn(self, draw: DrawStatement) -> str:
        low = draw.leaf.low
        shift = f", counted from {low:g}" if is_of_labels(draw.distribution.family) and low else ""
        return f"{self.draw(draw)}{shift}"

    def drawn_together(self, names: str, distribution: str) -> str:
        least, precise = f"argmin |A ({names}) − b|²", "precision=AᵀA times "
        return f"{names} ~ {distribution.replace(f'least_squares({names})', least).replace('precision=', precise)}"

    def weighted(self, weight: Node) -> str:
        return self.weight(weight)

    def returned(self, names: str) -> str:
        return f"returns {names}"


def _lines(
    style: type[_Python],
    branch: Branch,
    flat_draws: list,
    steps: tuple[IntegrationStep, ...],
    draws: list[DrawStatement | None],
    sites: Any,
) -> list[str]:
    """The draws of remaining sites, the weight, the draws of the others in order, and what is returned."""
    missing = [_flat_draw(leaf)[0] for leaf in sites.values() if leaf not in branch.drawn]
    writer = style(Branch((*branch.draws, *missing), (), branch.weight, branch.value))
    writer.problems = {
        step.result.rows: ", ".join(step.names) for step in steps if isinstance(step.result, Block | Student)
    }
    lines = [writer.draw(draw) for draw, _ in flat_draws]
    lines.append(writer.weighted(branch.weight))
    for step, draw in zip(steps, draws, strict=True):
        lines.append(_joint_line(step, writer) if draw is None else writer.drawn(draw))
    return [*lines, writer.returned(", ".join(writer.names[leaf] for leaf in sites.values()))]


def _joint_line(step: IntegrationStep, writer: _Python) -> str:
    names, result = ", ".join(step.names), step.result
    if isinstance(result, Block):
        scale = writer.of(result.scale)
        return writer.drawn_together(names, f"MultivariateNormal(least_squares({names}), precision={scale})")
    if isinstance(result, Student):
        df = writer.of(result.df)
        return writer.drawn_together(names, f"MultivariateStudentT({df}, least_squares({names}))")
    return writer.drawn_together(names, f"{result.distribution.family}()")
