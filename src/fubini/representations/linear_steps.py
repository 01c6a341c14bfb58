"""The linear steps nearest to those of a chain: fitted at the states of the filter, or at moments that are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fubini.approximate.linearize import Linearize
from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Name
from fubini.errors import DataError, Intractable
from fubini.factors.carry import float_type
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.slices import slices
from fubini.factors.table import Table
from fubini.numerics.linear_fits import LinearFit, NoiseRows, Normal, fit_by_sigma_points, fit_by_slopes
from fubini.numerics.quadratic import Quadratic, Reals, places
from fubini.representations.linear_stages import (
    Cells,
    Fit,
    Stage,
    advance,
    conditional_of,
    fit_stage,
    part_of,
    rows_of,
    stages_of,
    used_by,
    variables_of,
)
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.steps import TimeSlices
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, product, terms_of


def linear_steps(
    outline: SequenceOutline,
    start: Sequence[Factor],
    terms: Sequence[Factor],
    *smooth: Any,
    rule: Any,
    mark: Exactness,
    updates: int,
) -> tuple:
    """The start and the steps with what is not linear fitted, each with the places where a fit has a density."""
    fit = fit_by_slopes if rule is None else fit_by_sigma_points(rule)
    start, terms = ([each for factor in group for each in terms_of(factor)] for group in (start, terms))
    plan = plan_of(outline, start, terms)
    first, later = fit_at(plan, smooth[0], smooth[1], fit) if smooth else fit_in_order(plan, fit, updates)
    length = {plan.outline.time: Bint[plan.outline.length]}
    return (
        _factor(plan.first, start, first, plan.cells, {}, mark),
        _factor(plan.later, terms, later, plan.cells, length, mark),
    )


def other_inputs(terms: Sequence[Factor], states: Sequence[Name]) -> dict[Name, Domain]:
    """The inputs of some terms that are no states."""
    inputs = {name: domain for term in terms for name, domain in term.inputs.items()}
    return {name: domain for name, domain in inputs.items() if name not in states}


class Plan(NamedTuple):
    """The stages of the start and of each step, of these factors."""

    outline: SequenceOutline
    start: Sequence[Factor]
    terms: Sequence[Factor]
    first: list[Stage]
    later: list[Stage]
    cells: Cells

    @property
    def before(self) -> Reals:
        """The states before a step."""
        return tuple((name, dict(self.outline.domains)[name]) for name in self.outline.links.before)

    @property
    def newest(self) -> Reals:
        """The states that a step adds."""
        return tuple((name, dict(self.outline.domains)[name]) for name in self.outline.links.newest)

    def require_moments(self, own: Linearize) -> None:
        """Raise unless each density to be fitted has two moments, and what the method asks of it."""
        for stage, terms in (*((s, self.start) for s in self.first), *((s, self.terms) for s in self.later)):
            for place in stage.fitted:
                conditional_of(terms[place])
                if isinstance(promoted(terms[place]), Piecewise):
                    raise Intractable(
                        f"{own} of {terms[place]}",
                        expected="a mean and a scale that have slopes",
                        nearest="they jump where a real variable crosses a number",
                        advice="fb.rep.Truncated() integrates over each side; fb.rep.Particles(n, key) takes any step",
                    )
            size = sum(map(len, places(stage.names).values()))
            if stage.fitted and own.rule is not None and not own.rule.spread(size) > 0:
                raise DataError(
                    f"{own} of a state of {size} numbers",
                    expected=f"kappa above {-size}",
                    advice="leave it out: it is then 3 − n where that is positive, and else 0",
                )


def plan_of(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> Plan:
    """The stages of these factors."""
    batch = other_inputs([*start, *terms], (outline.time, *dict(outline.domains)))
    plan = Plan(outline, start, terms, [], [], Cells(batch, float_type([*start, *terms])))
    plan.first.extend(stages_of(start, (), plan.before, "the start of a linearised chain"))
    plan.later.extend(stages_of(terms, plan.before, plan.newest, "a step of a linearised chain"))
    return plan


def fit_in_order(plan: Plan, fit: Fit, updates: int) -> tuple[list[NoiseRows], list[NoiseRows]]:
    """Each stage at the moments of the filter there."""
    outline, cells = plan.outline, plan.cells
    begin, first = _through(plan.first, plan.start, (), cells.nothing(), plan.before, cells, fit, updates)
    cut = TimeSlices([slices(term, outline.time) for term in plan.terms])
    back = outline.links.moves_back
    kept = tuple((back[name], domain) for name, domain in plan.before)

    def body(carry: Normal, parts: Any) -> tuple[Normal, list[LinearFit]]:
        return _through(plan.later, cut.at(parts), plan.before, carry, kept, cells, fit, updates)

    _, later = lax_loops.scan(body, begin, cut.stacked, length=outline.length)
    return _rows(plan.first, first), _rows(plan.later, later)


def _rows(stages: Sequence[Stage], fits: Sequence[LinearFit]) -> list[NoiseRows]:
    """The rows of the stages that were fitted, of all times at once."""
    return [rows_of(stage, fit) for stage, fit in zip((s for s in stages if s.fitted), fits, strict=True)]


def _through(
    stages: Sequence[Stage],
    terms: Sequence[Factor],
    known: Reals,
    now: Normal,
    kept: Reals,
    cells: Cells,
    fit: Fit,
    updates: int,
) -> tuple[Normal, list[LinearFit]]:
    """The moments of some variables after all stages, and the fits; what is seen, at its own update again.

    Variables that no later stage has are left out on the way.
    """
    fits: list[LinearFit] = []
    for place, stage in enumerate(stages):
        after, then, line = known, now, None
        for _ in range(updates if stage.fitted and not stage.moves else 1):
            line = fit_stage(stage, terms, known, part_of(then, after, known), cells, fit) if stage.fitted else None
            after, then = advance(stage, terms, known, now, cells, line)
        if line is not None:
            fits.append(line)
        needed = {name for name, _ in kept}.union(*(used_by(other, terms) for other in stages[place + 1 :]))
        known = tuple(pair for pair in after if pair[0] in needed)
        now = part_of(then, after, known)
    return part_of(now, known, kept), fits


def fit_at(
    plan: Plan, first: tuple[Data, Data], every: tuple[Data, Data], fit: Fit
) -> tuple[list[NoiseRows], list[NoiseRows]]:
    """Each stage at moments that are given: of the states before the first step, and of both states of each step."""
    cells = plan.cells
    timed = cells._replace(batch={plan.outline.time: Bint[plan.outline.length], **cells.batch})
    begin = Normal(*(cells.over(each, tuple(cells.batch), k) for each, k in zip(first, (1, 2), strict=True)))
    pairs = Normal(*(timed.over(each, tuple(timed.batch), k) for each, k in zip(every, (1, 2), strict=True)))
    return (
        _fitted_at(plan.first, plan.start, plan.before, begin, cells, fit),
        _fitted_at(plan.later, plan.terms, (*plan.before, *plan.newest), pairs, timed, fit),
    )


def _fitted_at(
    stages: Sequence[Stage], terms: Sequence[Factor], known: Reals, now: Normal, cells: Cells, fit: Fit
) -> list[NoiseRows]:
    fitted = [stage for stage in stages if stage.fitted]
    return _rows(fitted, [fit_stage(stage, terms, known, now, cells, fit) for stage in fitted])


def _factor(
    stages: Sequence[Stage],
    terms: Sequence[Factor],
    rows: Sequence[NoiseRows],
    cells: Cells,
    time: dict,
    mark: Exactness,
) -> tuple[Factor, list[Data]]:
    """The factors that are linear, and a Gaussian for each stage that was fitted."""
    fitted = [stage for stage in stages if stage.fitted]
    gone = {place for stage in fitted for place in stage.fitted}
    batch = {**time, **cells.batch}
    names = tuple(batch)
    made = [
        Gaussian._of(
            Table.from_log(own.log, batch)._marked(mark),
            Quadratic(own.vector, names, own.matrix, names, True),
            variables_of(stage, terms),
            batch,
        )
        for stage, own in zip(fitted, rows, strict=True)
    ]
    kept = [term for place, term in enumerate(terms) if place not in gone]
    return product(*kept, *made), [own.ok for own in rows]
