"""A chain whose steps are not linear, linearised: the chain of linear steps answers in its place.

Filters of the linearised chain are the extended and unscented Kalman filters, its smoothers those of Rauch, Tung and
Striebel, and its evidence is that of the linear steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from fubini.approximate.linearize import Linearize, linearization, linearize_recast
from fubini.base import lax_loops
from fubini.base.arrays import Data, require
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.errors import DataError, FubiniError, Intractable, listed
from fubini.factors.carry import float_type
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.slices import slices
from fubini.factors.table import Table
from fubini.factors.tally import Conversion, conversion_of
from fubini.numerics.linear_fits import NoiseRows, Normal, fit_by_sigma_points, fit_by_slopes
from fubini.numerics.named_axes import align
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
    variables_of,
)
from fubini.sequence.chain import Chain
from fubini.sequence.chain_conversions import FIRST, LATER
from fubini.sequence.compiled import SequenceOutline, run
from fubini.sequence.counted import Smoothed
from fubini.sequence.steps import TimeSlices
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.factor import Factor, Unit, product, terms_of


@linearize_recast.rule
def recast_linearized(chain: Chain) -> Any:
    """The chain of the linear steps nearest to those of the chain, where some are not linear"""
    own = linearization()
    assert own is not None, "a rule of a linearisation"
    with current().without(Linearize):
        terms = (*terms_of(chain.init), *terms_of(chain.factor))
        states = set(chain.domains)
        if all(not set(term.inputs) & states or isinstance(promoted(term), (Gaussian, Table)) for term in terms):
            return None
    return LinearizedChain(chain, own)


class LinearizedChain:
    """A chain that answers by linear steps."""

    def __init__(self, chain: Chain, own: Linearize) -> None:
        self.chain, self.own = chain, own
        require_real_states(chain, own)
        with current().without(Linearize):
            self.plan = _plan(chain._outline, terms_of(chain.init), terms_of(chain.factor))
            self.plan.require_moments(own)

    def evidence(self) -> Factor:
        """That of the linear steps."""
        return self._ask(Chain.evidence)

    def final(self) -> Factor:
        """The state after the last step."""
        return self._ask(Chain.final)

    def filter(self) -> Factor:
        """The states given what came before them, of which each update is iterated too."""
        return self._ask(Chain.filter, self.filtering)

    def smooth(self, lag: int | None = None) -> Smoothed:
        """The states given everything, or given everything up to so many steps later."""
        if lag is None:
            return self._ask(Chain.smooth)
        return self._ask(lambda chain: chain.smooth(lag), self.filtering)

    def smooth_pairs(self) -> Factor:
        """Neighbouring states given everything."""
        return self._ask(Chain.smooth_pairs)

    def pair_moments(self) -> Any:
        """Moments of neighbouring states given everything."""
        return self._ask(Chain.pair_moments)

    def argmax(self) -> dict[Name, Data]:
        """The most probable path of the linear steps."""
        return self._ask(Chain.argmax)

    def sample(self, key: Data, n: int | None = None) -> dict[Name, Data]:
        """Draws of all states together."""
        return self._ask(lambda chain: chain.sample(key, n))

    def explain(self) -> Any:
        """Explain the chain of linear steps, and what its densities became."""
        plan = self._ask(Chain.explain)
        *notes, last = plan.notes
        return replace(plan, notes=(*notes, f"{self.own}: {said_of(self.own)}", last), conversions=self._conversions())

    def _ask(self, question: Callable[[Chain], Any], linear: Chain | None = None) -> Any:
        linear = linear or self.linear
        with current().without(Linearize):
            return question(linear)

    def _conversions(self) -> tuple[Conversion, ...]:
        found: list[Conversion] = []
        for where, factor, linear in (
            (FIRST, self.chain.init, self.linear.init),
            (LATER, self.chain.factor, self.linear.factor),
        ):
            fitted = [term for term in terms_of(linear) if not term.exactness.is_exact]
            for term in terms_of(factor):
                made = promoted(term)
                is_fitted = not isinstance(made, (Gaussian, Table, Unit))
                mark = self.own.mark if is_fitted else exactly
                found += conversion_of(term, fitted[:1] if is_fitted else [made], where, mark)
        return tuple(found)

    # -- the linear steps ---------------------------------------------------------------------------------------------

    @cached_property
    def linear(self) -> Chain:
        """The chain of linear steps, after as many passes as were asked for."""
        with current().without(Linearize):
            chain = self._passed(None)
            for _ in range(self.own.iterations - 1):
                chain = self._passed(self._moments(chain))
            return chain

    @cached_property
    def filtering(self) -> Chain:
        """The chain of steps that are linearised at what is known until then, each update as often as was asked for.

        Bell and Cathey, The iterated Kalman filter update as a Gauss–Newton method, 1993.
        """
        with current().without(Linearize):
            return self.linear if self.own.iterations == 1 else self._passed(None, self.own.iterations)

    def _moments(self, chain: Chain) -> tuple[tuple[Data, Data], tuple[Data, Data]]:
        """Means and covariances given everything: of the state before the first step, and of both of each step."""
        moments, names = chain.pair_moments()
        time, *batch = (chain.time, *batch_of(chain))
        both = (moments.mean, moments.covariance)
        first = tuple(align(data, names[1:], batch, k) for data, k in zip(moments.first, (1, 2), strict=True))
        every = tuple(align(data, names, (time, *batch), k) for data, k in zip(both, (1, 2), strict=True))
        return first, every  # type: ignore[return-value]

    def _passed(self, smooth: Any, updates: int = 1) -> Chain:
        chain, own = self.chain, self.own
        terms = [terms_of(chain.init), terms_of(chain.factor)]
        with self._differentiated():
            found = run(
                linear_steps, chain._outline, terms, *(smooth or ()), rule=own.rule, mark=own.mark, updates=updates
            )
        first, later = (self._checked(part, where) for part, where in zip(found, (FIRST, LATER), strict=True))
        return chain.over(first, later)

    @contextmanager
    def _differentiated(self) -> Iterator[None]:
        """Say what has no derivative, where JAX has none for a function."""
        try:
            yield
        except (ValueError, NotImplementedError) as error:
            if isinstance(error, FubiniError) or "JVP" not in str(error):
                raise
            raise Intractable(
                f"{self.own} of {self.chain}",
                expected="functions that JAX can differentiate",
                nearest=f"{error}".splitlines()[0],
                advice="fb.unscented() asks functions for values alone; or give this one a jax.custom_jvp",
            ) from error

    def _checked(self, part: tuple[Factor, list[Data]], where: str) -> Factor:
        """The factor, once every fit of it has a density."""
        factor, oks = part
        terms = [term for term in terms_of(factor) if term.exactness.is_exact]
        fitted = [term for term in terms_of(factor) if isinstance(term, Gaussian) and not term.exactness.is_exact]
        for ok, term in zip(oks, fitted, strict=True):
            pair = term.scale.pair
            (log,) = require(ok, partial(self._singular, oks, where), pair.shift)
            scale = Table._of(pair._replace(shift=log), term.scale.inputs, term.scale.mark)
            terms.append(Gaussian._of(scale, term.quadratic, term.reals, term.inputs))
        return product(*terms)

    def _singular(self, oks: Sequence[Data], where: str) -> DataError:
        """The error of the first fit, in time and then in order, that has no density."""
        terms = terms_of(self.chain.init if where == FIRST else self.chain.factor)
        stages = [stage for stage in (self.plan.first if where == FIRST else self.plan.later) if stage.fitted]
        failed = [(tuple(np.argwhere(~np.asarray(ok))[0]), k) for k, ok in enumerate(oks) if not np.all(np.asarray(ok))]
        place, first = min(failed)
        names = (*(() if where == FIRST else (self.chain.time,)), *self.plan.cells.batch)
        at = ", ".join(f"{name} = {k}" for name, k in zip(names, place, strict=True)) or where
        return DataError(
            f"{self.own} of {listed(str(terms[k]) for k in stages[first].fitted)}, at {at}",
            expected="values and slopes that are numbers there, and noise whose covariance is positive definite",
            nearest="the linearisation is singular",
            advice="check scales that vanish, powers below 0, and functions without a slope (a norm or an angle at "
            "zero); or ask fb.unscented(), or fb.rep.Particles(n, key)",
        )


# -- the linear steps -------------------------------------------------------------------------------------------------


def is_fitted(term: Factor) -> bool:
    """Whether a factor is neither a Gaussian nor a table."""
    return not isinstance(promoted(term), (Gaussian, Table, Unit))


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
    plan = _plan(outline, start, terms)
    first, later = fit_at(plan, smooth[0], smooth[1], fit) if smooth else fit_in_order(plan, fit, updates)
    length = {plan.outline.time: Bint[plan.outline.length]}
    return (
        _factor(plan.first, start, first, plan.cells, {}, mark),
        _factor(plan.later, terms, later, plan.cells, length, mark),
    )


def _others(terms: Sequence[Factor], states: Sequence[Name]) -> dict[Name, Domain]:
    """The inputs of some terms that are no states."""
    inputs = {name: domain for term in terms for name, domain in term.inputs.items()}
    return {name: domain for name, domain in inputs.items() if name not in states}


def batch_of(chain: Chain) -> dict[Name, Domain]:
    """The inputs of a chain that are neither states nor the time."""
    return _others((*terms_of(chain.init), *terms_of(chain.factor)), (chain.time, *chain.domains))


def require_real_states(chain: Chain, own: Linearize) -> None:
    """Raise where states are no real numbers, or a variable of all steps is."""
    strange = {n: d for n, d in chain.domains.items() if d.is_finite or d.kind != "real"}
    strange |= {n: d for n, d in batch_of(chain).items() if not d.is_finite}
    if strange:
        name, domain = next(iter(strange.items()))
        raise Intractable(
            f"{own} of {chain}",
            expected="states that are real numbers or arrays of them, and other names that are bounded integers",
            nearest=f"{name!r} is {domain!r}",
            advice="make a real parameter of all steps a state that does not move, or a number; discrete states are "
            "for fb.rep.Particles(n, key)",
        )
    if chain.links.lag > 1 and own.iterations > 1:
        raise Intractable(
            f"{own} of {chain}, whose states look {chain.links.lag} steps back",
            expected="states one step apart, for more than one pass",
            advice="make both lags one state, an array of two; or ask for one pass",
        )


def said_of(own: Linearize) -> str:
    """How steps are linearised, in words."""
    first = "by slopes at the filter's means" if own.rule is None else "by sigma points of the filter's states"
    if own.iterations == 1:
        name = "extended" if own.rule is None else "unscented"
        return f"densities that are not linear, {first}: the {name} Kalman filter and smoother"
    name = "Gauss–Newton's ascent to the most probable path" if own.rule is None else "iterated posterior linearisation"
    return f"densities that are not linear, {first}, then {own.iterations - 1} times at the smoother's: {name}"


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
                if own.rule is None and isinstance(promoted(terms[place]), Piecewise):
                    raise Intractable(
                        f"{own} of {terms[place]}",
                        expected="a mean and a scale that have slopes",
                        nearest="they jump where a real variable crosses a number",
                        advice="fb.unscented() asks for values alone; fb.rep.Truncated() integrates over each side",
                    )
            size = sum(map(len, places(stage.names).values()))
            if stage.fitted and own.rule is not None and not own.rule.spread(size) > 0:
                raise DataError(
                    f"{own} of a state of {size} numbers",
                    expected=f"kappa above {-size}",
                    advice="leave it out: it is then 3 − n where that is positive, and else 0",
                )


def _plan(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> Plan:
    batch = _others([*start, *terms], (outline.time, *dict(outline.domains)))
    plan = Plan(outline, start, terms, [], [], Cells(batch, float_type([*start, *terms])))
    plan.first.extend(stages_of(start, (), plan.before, "the start of a linearised chain"))
    plan.later.extend(stages_of(terms, plan.before, plan.newest, "a step of a linearised chain"))
    return plan


def fit_in_order(plan: Plan, fit: Fit, updates: int) -> tuple[list[NoiseRows], list[NoiseRows]]:
    """Each stage at the moments of the filter there."""
    outline, cells = plan.outline, plan.cells
    known, now, first = _through(plan.first, plan.start, (), cells.nothing(), cells, fit, updates)
    begin = part_of(now, known, plan.before)
    cut = TimeSlices([slices(term, outline.time) for term in plan.terms])
    back = outline.links.moves_back

    def body(carry: Normal, parts: Any) -> tuple[Normal, list[NoiseRows]]:
        known, now, rows = _through(plan.later, cut.at(parts), plan.before, carry, cells, fit, updates)
        return part_of(now, known, tuple((back[name], domain) for name, domain in plan.before)), rows

    _, later = lax_loops.scan(body, begin, cut.stacked, length=outline.length)
    return first, later


def _through(
    stages: Sequence[Stage], terms: Sequence[Factor], known: Reals, now: Normal, cells: Cells, fit: Fit, updates: int
) -> tuple[Reals, Normal, list[NoiseRows]]:
    """The moments after some stages, and the rows of those that were fitted; what is seen, at its own update again."""
    rows: list[NoiseRows] = []
    for stage in stages:
        after, then, line = known, now, None
        for _ in range(updates if stage.fitted and not stage.moves else 1):
            line = fit_stage(stage, terms, known, then, cells, fit) if stage.fitted else None
            after, then = advance(stage, terms, known, now, cells, line)
        if line is not None:
            rows.append(rows_of(stage, line))
        known, now = after, then
    return known, now, rows


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
    return [rows_of(stage, fit_stage(stage, terms, known, now, cells, fit)) for stage in fitted]


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
