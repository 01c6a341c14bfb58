"""A chain whose steps are not linear, linearised: the chain of linear steps answers in its place.

Filters of the linearised chain are the extended and unscented Kalman filters, its smoothers those of Rauch, Tung and
Striebel, and its evidence is that of the linear steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fubini.approximate.linearize import Linearize, linearization, linearize_recast
from fubini.base.arrays import Data, require
from fubini.base.domains import Domain
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.errors import DataError, FubiniError, Intractable, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.factors.tally import Conversion, conversion_of
from fubini.numerics.named_axes import align
from fubini.representations.linear_steps import linear_steps, other_inputs, plan_of
from fubini.sequence.chain import Chain
from fubini.sequence.chain_conversions import FIRST, LATER
from fubini.sequence.compiled import run
from fubini.sequence.counted import Smoothed
from fubini.terms.factor import Factor, product, terms_of


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
            self.plan = plan_of(chain._outline, terms_of(chain.init), terms_of(chain.factor))
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

    def _pair_moments(self) -> Any:
        """Moments of neighbouring states given everything."""
        return self._ask(Chain._pair_moments)

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
        """Those of densities that are linear as they are, and those that were fitted: at each step."""
        found: list[Conversion] = []
        parts = (
            (FIRST, 1, self.plan.first, self.chain.init, self.linear.init),
            ("each step", self.chain.length, self.plan.later, self.chain.factor, self.linear.factor),
        )
        for where, times, stages, factor, linear in parts:
            terms, made = terms_of(factor), [term for term in terms_of(linear) if not term.exactness.is_exact]
            fitted = {place: k for k, stage in enumerate(s for s in stages if s.fitted) for place in stage.fitted}
            for place, term in enumerate(terms):
                if place not in fitted:
                    found += conversion_of(term, [promoted(term)], FIRST if where == FIRST else LATER)
                    continue
                (each,) = conversion_of(term, [made[fitted[place]]], where, self.own.mark)
                found.append(replace(each, times=times, size=each.size // times))
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
        moments, names = chain._pair_moments()
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
        except (TypeError, ValueError, NotImplementedError) as error:
            if isinstance(error, FubiniError) or "jvp" not in str(error).lower():
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


def batch_of(chain: Chain) -> dict[Name, Domain]:
    """The inputs of a chain that are neither states nor the time."""
    return other_inputs((*terms_of(chain.init), *terms_of(chain.factor)), (chain.time, *chain.domains))


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
