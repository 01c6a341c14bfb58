"""Chain: a start, a step and a length; evidence, filter, smoother, best path and draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from fubini.approximate.moment_matching import window_of
from fubini.approximate.monte_carlo import exactly, sampler_of
from fubini.base.arrays import Data
from fubini.base.interpretations import current, interpret
from fubini.base.names import Name, as_names
from fubini.eliminate.explain import explain
from fubini.eliminate.explanation import Explanation
from fubini.eliminate.plan import Plan
from fubini.errors import DataError, DomainError, Intractable, NoRule, UnknownName, closest, listed
from fubini.factors.represent import (
    Representation,
    asked_by,
    represent_by_draws,
    representation_of,
    require_known,
    within,
)
from fubini.numerics.randomness import require_key
from fubini.sequence import chain_paths as paths
from fubini.sequence import chain_questions as questions
from fubini.sequence import over_time_paths as over_time_paths
from fubini.sequence.chain_conversions import ChainConversions, chain_conversions, flat_carry
from fubini.sequence.compiled import SequenceOutline, run, split_over_mesh
from fubini.sequence.counted import Smoothed
from fubini.sequence.drawn_states import drawn_states
from fubini.sequence.fixed_lag import refuse_pairs, require_lag, smoothed_with_lag
from fubini.sequence.links import length_of, linked, links_of
from fubini.sequence.method import KERNEL_QUESTIONS, MethodChoice, choose, choose_kernels
from fubini.sequence.over_mesh import mesh_notes, on_auto_axes
from fubini.sequence.recurrence import PairMoments, recurrence_of
from fubini.sequence.window import is_projected, representations_of, tagged, with_past
from fubini.show.picture import Picture
from fubini.terms.exactness import estimated
from fubini.terms.factor import Factor, substitute, terms_of, to_factor
from fubini.terms.heads import PLOT, RECAST, exact_recast
from fubini.terms.value import Array, Value, to_value

NO_PLAN = Plan((), (), (), {}, {})


class Chain:
    """A start over the first state, and a factor for each step.

    `step` maps states before a step to states after it, as in `fb.markov`. `sum` names global variables that are summed
    out of every answer but `final`; other names stay its inputs. `method` is sequential, parallel or chunks, and chosen
    where it is not given; chunks are for the evidence alone, and states with lags are filtered in order. Tables whose
    products fall below the least positive number are multiplied once more by logarithms, unless `drops_small`.

    >>> step = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next")) * fb.Table([[0.7, 0.3], [0.1, 0.6]], ("t", "x_next"))
    >>> chain = Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"})
    >>> round(float(chain.log_evidence()), 6)
    -2.077444
    """

    def __init__(
        self,
        *,
        init: Factor,
        factor: Factor,
        time: Name,
        step: Mapping[Any, Any],
        length: int | None = None,
        sum: Sequence[Name] = (),
        method: str | None = None,
        drops_small: bool = False,
    ) -> None:
        self.drops_small = drops_small
        self.links = links_of(step)
        if not self.links.chains:
            raise DomainError("a chain with an empty step", expected='states that are handed on: step={"x": "x_next"}')
        self.init = to_factor(init)
        self.length = length_of(factor, time, length)
        self.factor, self.domains = linked(factor, self.links)
        self.time = time
        self.globals = as_names(sum, "the names to sum")
        self.asked = method
        self._require_sound()

    def over(self, init: Factor, factor: Factor) -> Chain:
        """The same chain with another start and other steps.

        >>> step = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=3)
        >>> round(float(chain.over(chain.init, step * 2.0).evidence()), 6)
        8.0
        """
        new = object.__new__(Chain)
        new.__dict__.update(self.__dict__, init=init, factor=factor)
        return new

    def _require_sound(self) -> None:
        for name in (self.time, *self.links.newest):
            if name in self.init.inputs:
                raise DomainError(
                    f"a chain that starts from {self.init}",
                    expected=f"a factor over {listed(self.links.before)} and other names, not {name!r}",
                )
        for name in self.links.before:
            domain = self.init.inputs.get(name)
            if domain is not None and domain != self.domains[name]:
                raise DomainError(
                    f"a chain whose first {name!r} is {domain!r}", expected=f"{self.domains[name]!r}, as in the step"
                )
        known = {**self.init.inputs, **self.factor.inputs}
        for name in self.globals:
            if name not in known or name in (self.time, *self.domains):
                raise UnknownName(
                    f"a chain with sum={name!r}",
                    expected="a name of its factors that is neither a state nor the time",
                    nearest=closest(name, known),
                )
        self._choice()

    # -- questions --------------------------------------------------------------------------------------------------

    def evidence(self) -> Factor:
        """Σ over all states: a factor over the remaining names.

        >>> step = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([0.5, 0.25], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=3)
        >>> round(float(chain.evidence()), 6)
        0.75
        """
        if (recast := self._recast()) is not None:
            return recast.evidence()
        return self._tagged(self._run(questions.evidence))

    def log_evidence(self) -> Value:
        """The logarithm of the evidence: closed, unless there are batch names or free global variables.

        >>> step = fb.Table([[0.5, 0.25], [0.25, 0.5]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=2)
        >>> round(float(chain.log_evidence()), 6)
        -0.575364
        """
        return self.evidence().log()

    def final(self) -> Factor:
        """p(last state, global variables | everything), under the names of the first: where another chain may start.

        >>> step = fb.Table([[0.5, 0.5], [0.0, 1.0]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=2)
        >>> chain.final().weights
        array([0.25, 0.75])
        """
        if (recast := self._recast()) is not None:
            return recast.final()
        return self._tagged(self._run(questions.ended, kept=self.links.before))

    def filter(self) -> Factor:
        """p(state after step t | everything up to t), over time and the states after a step.

        >>> step = fb.Table([[0.5, 0.5], [0.0, 1.0]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=2)
        >>> chain.filter().weights
        array([[0.5 , 0.5 ],
               [0.25, 0.75]])
        """
        if (recast := self._recast()) is not None:
            return recast.filter()
        return self._tagged(self._run(questions.filtered, kept=self.links.before))

    def smooth(self, lag: int | None = None) -> Smoothed:
        """p(state after step t | everything), over time and the states after a step; `.initial` is before the first.

        With a lag, given everything up to so many steps later: fixed-lag smoothing. A lag of 0 is the filter.

        >>> move, seen = [[0.5, 0.5], [0.25, 0.75]], [[1.0, 1.0], [0.0, 1.0]]
        >>> step = fb.Table(move, ("x", "x_next")) * fb.Table(seen, ("t", "x_next"))
        >>> chain = Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"})
        >>> chain.smooth().weights, chain.smooth().initial.weights
        (array([[0.4, 0.6],
               [0. , 1. ]]), array([1., 0.]))
        """
        if lag is not None:
            return self._smooth_with_lag(lag)
        if (recast := self._recast()) is not None:
            return recast.smooth()
        question = questions.smoothed_by_kernels if is_projected(self.domains) else questions.smoothed
        after, initial, *divisions = self._run(question, kept=self.links.before)
        return Smoothed(self._tagged(after), self._tagged(initial), *divisions, pairs=self.smooth_pairs)

    def _smooth_with_lag(self, lag: int) -> Smoothed:
        require_lag(lag)
        if (recast := self._recast()) is not None:
            return recast.smooth(lag)
        self._require_plain(f"smooth(lag={lag})", "ask smooth(), or filter()")
        after, initial = self._run(smoothed_with_lag, kept=self.links.before, lag=min(int(lag), self.length))
        return Smoothed(self._tagged(after), self._tagged(initial), pairs=partial(refuse_pairs, lag))

    def smooth_pairs(self) -> Factor:
        """p(states before and after step t | everything), over time and both: expected moves are its sum over time.

        >>> move, seen = [[0.5, 0.5], [0.25, 0.75]], [[1.0, 1.0], [0.0, 1.0]]
        >>> step = fb.Table(move, ("x", "x_next")) * fb.Table(seen, ("t", "x_next"))
        >>> chain = Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"})
        >>> chain.smooth_pairs()(t=1).transposed(("x", "x_next")).weights
        array([[0. , 0.4],
               [0. , 0.6]])
        """
        self._require_pairs()
        if (recast := interpret(RECAST, self)) is not None:
            return recast.smooth_pairs()
        return self._tagged(self._run(questions.smoothed_pairs))

    def _pair_moments(self) -> tuple[PairMoments, tuple[Name, ...]]:
        """The evidence, means and covariances of neighbouring real states given everything, and the names of the axes.

        It is what expectation–maximisation asks for; `smooth()` and its `pairs` are the same as factors.
        """
        self._require_pairs()
        if (recast := interpret(RECAST, self)) is not None:
            return recast._pair_moments()
        axes = questions.moment_axes(self._outline, terms_of(self.init), terms_of(self.factor))
        found = self._run(questions.pair_moments)
        begin = tuple(part.array for part in found.first)
        return PairMoments(found.evidence, begin, found.mean.array, found.covariance.array), axes

    def _require_pairs(self) -> None:
        if self.links.lag > 1:
            self._refuse("pairs of states", "ask smooth() for each state alone")
        self._require_plain("pairs of states", "ask smooth() for each state alone")

    def _require_plain(self, asked: str, advice: str) -> None:
        """Raise where states are projected or represented."""
        with self._covering():
            if is_projected(self.domains) or representations_of(self.domains):
                self._refuse(asked, advice)

    def _refuse(self, asked: str, advice: str) -> None:
        raise Intractable(
            f"{asked} of {self}",
            expected="states one step apart, none of them projected or represented",
            advice=advice,
        )

    def argmax(self) -> dict[Name, Data]:
        """The states of greatest weight together: the first under their names before, then one for each step.

        >>> move, seen = [[0.9, 0.1], [0.2, 0.8]], [[1.0, 0.5], [0.1, 1.0]]
        >>> step = fb.Table(move, ("x", "x_next")) * fb.Table(seen, ("t", "x_next"))
        >>> chain = Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"})
        >>> {name: values.tolist() for name, values in chain.argmax().items()}
        {'x': 1, 'x_next': [1, 1]}
        """
        if (recast := self._recast()) is not None:
            return recast.argmax()
        return self._chosen(self._run(paths.best, windowed=False))

    def sample(self, key: Data, n: int | None = None) -> dict[Name, Data]:
        """Draws of all states together; n first, then time.

        >>> step = fb.Table([[0.0, 1.0], [1.0, 0.0]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=3)
        >>> {name: draws.tolist() for name, draws in chain.sample(jax.random.key(0), n=2).items()}
        {'x': [0, 0], 'x_next': [[1, 0, 1], [1, 0, 1]]}
        """
        if (recast := self._recast()) is not None:
            return recast.sample(key, n)
        require_key(key)
        if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1):
            raise DataError(f"n={n!r} samples", expected="a whole number of at least 1, or None for one")
        draws = self._chosen(self._run(paths.drawn, key, n=1 if n is None else int(n)))
        return draws if n is not None else {name: value[0] for name, value in draws.items()}

    def plot(
        self, *, points: Mapping[str, Any] | None = None, at: Any = None, along: str = "", filtered: bool = False
    ) -> Picture:
        """A picture of the states along time, smoothed or filtered. Needs `fubini[plot]`.

        Real states have their mean in a band of 1.64 standard deviations, 90 % of a Gaussian; discrete ones their
        probabilities. `points` are data to draw beside a state, or a series of their own; `at` says where steps lie.

        >>> step = fb.Table([[0.5, 0.5], [0.0, 1.0]], ("x", "x_next"))
        >>> chain = Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=2)
        >>> chain.plot().figure.axes[0].get_ylabel()
        'P(x_next)'
        """
        return interpret(PLOT, self, {"points": points, "at": at, "along": along, "filtered": filtered})

    # -- how --------------------------------------------------------------------------------------------------------

    @property
    def _outline(self) -> SequenceOutline:
        return SequenceOutline(
            self.time,
            self.length,
            self.links,
            tuple(self.domains.items()),
            globals=self.globals,
            drops_small=self.drops_small,
        )

    def _choice(self) -> MethodChoice:
        return choose(self.asked, self._outline, (self.init, self.factor), True)

    def _kernels(self, question: Any, draws: int = 1) -> str:
        return choose_kernels(self.asked, self._outline, question.__name__, (self.init, self.factor), draws)

    def _recast(self) -> Any:
        """The object that answers in place of the chain, where a representation of its states names one."""
        self._require_named()
        with self._covering():
            named = [representation_of(name) for name in self.domains]
            others = [recast for own in named if own is not None and (recast := own.recast(self)) is not None]
            return others[0] if others else interpret(RECAST, self)

    def _question(self, question: Any) -> Any:
        """A smoother that divides, where a representation of the states projects."""
        smoothers = (questions.smoothed, questions.smoothed_by_kernels)
        with self._covering():
            divides = question in smoothers and representations_of(self.domains)
        return questions.smoothed_by_division if divides else question

    def _covering(self) -> AbstractContextManager:
        """The interpretation in force, where states after a step are represented as those before it."""
        return within({new: old for link in self.links.chains for new in link.after for old in link.before})

    def _run(self, question: Any, *arrays: Any, windowed: bool = True, **static: Any) -> Any:
        with self._covering():
            return self._answer(self._question(question), *arrays, windowed=windowed, **static)

    def _require_named(self) -> None:
        """Raise where a representation is named for a variable that the chain does not have."""
        if all(isinstance(name, str) for name in self.domains):  # others are states that we named
            require_known((*self.init.inputs, *self.factor.inputs, *self.domains), repr(self))

    def _answer(self, question: Any, *arrays: Any, windowed: bool = True, **static: Any) -> Any:
        sampler = sampler_of(current())
        if sampler is not None:  # what is exact needs no key, and is compiled once for all of them
            with exactly():
                names = drawn_states(self._outline, terms_of(self.init), terms_of(self.factor), sampler.names)
                if not names:
                    return self._answer(question, *arrays, windowed=windowed, **static)
                with represent_by_draws(names, sampler.n, sampler.next_key("chain")):
                    return _estimate(self._run(question, *arrays, windowed=windowed, **static), sampler.n)
        method = self._choice().method
        if self.links.lag > 1 and question is not questions.evidence:
            method = "sequential"
        outline = replace(self._outline, method=method, kernels=self._kernels(question, static.get("n", 1)))
        outline, past = with_past(outline) if windowed else (outline, [])
        start = [*terms_of(self.init), *past]
        try:
            return run(question, outline, [start, terms_of(self.factor)], *arrays, **static)
        except (Intractable, NoRule) as error:
            if own := representations_of(self.domains):  # the representation says itself what it expects
                self._require_start(own, error)
                raise
            raise Intractable(
                f"the {question.__name__} of {self}: {str(error).splitlines()[0]}",
                expected="steps of Tables and Gaussians: real states linear in those before, given the discrete ones",
                nearest=" ".join(line.strip() for line in str(error).splitlines()[1:3]),
                advice="`with fb.moment_matching(window=1):` where discrete and real states mix; "
                "`with fb.monte_carlo(key, n):` where a step is not linear",
            ) from error

    def _require_start(self, own: Mapping[Name, Representation], error: Exception) -> None:
        """Raise where the start lacks a represented state, which is what failed."""
        silent = [name for name in self.links.before if name in own and name not in self.init.inputs]
        if silent:
            raise Intractable(
                f"a chain that starts from {self.init} under {own[silent[0]]} of {silent[0]!r}",
                expected=f"a start that is a density of {listed(silent)}",
                nearest=f"it says nothing of {listed(silent)}: {str(error).splitlines()[0]}",
                advice=f"multiply init by one, as dist.Normal(0.0, 10.0)({str(silent[0])!r})",
            ) from error

    def _tagged(self, answer: Factor) -> Factor:
        with self._covering():
            for own in dict.fromkeys(representations_of(self.domains).values()):
                own.require_answer(answer)
            return tagged(answer, (self.init, self.factor), self.domains)

    def _represented(self) -> dict[Name, Representation]:
        """The states that have a representation."""
        named = {name: representation_of(name) for name in self.links.before}
        return {name: own for name, own in named.items() if own is not None}

    def _conversions(self) -> ChainConversions:
        """The conversions and projections of the smoother, or of the filter where there is no smoother."""
        with self._covering():
            if not representations_of(self.domains) and not is_projected(self.domains):
                return ChainConversions((), ())
            outline, past = with_past(self._outline)
            asked = {"smooth()": self._question(questions.smoothed_by_kernels), "filter()": questions.filtered}
            start = [*terms_of(self.init), *past]
            return chain_conversions(outline, start, terms_of(self.factor), asked, self.links.before)

    def _chosen(self, values: Mapping[str, Array]) -> dict[Name, Data]:
        names = (*self.links.before, *self.links.newest, *self.globals)
        return {name: values[paths.key_of(name)].array for name in names}

    def explain(self) -> Explanation:
        """Explain the method by which questions go through the steps, and the plan of one step.

        >>> step = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next"))
        >>> Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=3).explain()
        Chain of 3 steps in t: x → x_next; sequential
        sequential: ...
        each step is
        sum_product over 'x': 1 steps, 4 multiply-adds, largest result 2 entries, on NumPy, step by step
        step                       rule                 work  size  exactness
        1. Σ_x #0(x) #1(x,x_next)  contract_two_tables  4     2     exact
        """
        if (recast := self._recast()) is not None:
            return recast.explain()
        choice = self._choice()
        notes = [repr(self), f"{choice.method}: {choice.reason}"]
        if self._kernels(questions.evidence):
            notes.append(f"{', '.join(KERNEL_QUESTIONS.values())} of tables: by fused kernels")
        if choice.method == "sequential" and (how := self._recurrence()):
            notes.append(f"evidence(), filter() and smooth(): {how}")
        notes += self._mesh_notes()
        if is_projected(self.domains):
            notes.append(f"{current()}: the last {window_of(current())} values of the discrete states stay separate")
        notes += [f"{name}: {own}, {own.stores}" for name, own in self._represented().items()]
        conversions, refused = self._conversions()
        plan = self._plan()
        if plan is None:
            return Explanation("", (), NO_PLAN, "", tuple(notes), refused=refused, conversions=conversions)
        return replace(plan, notes=(*notes, "each step is"), conversions=conversions, refused=refused)

    def _mesh_notes(self) -> list[str]:
        """Where the numbers of the chain lie, and what devices tell each other."""
        groups = [[on_auto_axes(term) for term in terms_of(factor)] for factor in (self.init, self.factor)]
        return mesh_notes(split_over_mesh(questions.evidence, self._outline, groups))

    def _recurrence(self) -> str:
        """How the recurrence of the steps goes, where they have one that says so."""
        with self._covering():
            try:
                steps = self._outline.steps(terms_of(self.factor))
                own = recurrence_of(steps.layout(terms_of(self.init)), steps)
            except (Intractable, NoRule):
                return ""
        return "" if own is None else own.description

    def _plan(self) -> Explanation | None:
        """The plan of one step, from a state of the form that a representation has; None where it is drawn."""
        terms = [substitute(term, {self.time: to_value(0)}) for term in terms_of(self.factor)]
        start, hidden = terms_of(self.init), ()
        with self._covering():
            if representations_of(self.domains):
                carry = flat_carry(self._outline.steps(terms_of(self.factor)), self.init)
                if carry is None:
                    return None
                start, hidden = (carry.factor,), carry.hidden
        names = [name for name in self.links.oldest if name in {*self.init.inputs, *self.factor.inputs}]
        try:
            with asked_by("a sequence"):
                return explain([*start, *terms], sum=[*names, *hidden])
        except (Intractable, NoRule):
            if not hidden and not representations_of(self.domains):
                raise
            return None  # the questions say what they have no rule for

    def __repr__(self) -> str:
        states = ", ".join(f"{link.before[-1]} → {link.newest}" for link in self.links.chains)
        return f"Chain of {self.length:,} steps in {self.time}: {states}; {self._choice().method}"


@exact_recast.rule
def recast_none(chain: Chain) -> None:
    """The chain answers itself"""
    return None


def _estimate(answer: Any, n: int) -> Any:
    """An answer from n draws, tagged so where it is a factor."""
    if isinstance(answer, tuple):
        return tuple(_estimate(part, n) for part in answer)
    return answer._marked(answer.exactness | estimated(n)) if isinstance(answer, Factor) else answer


def _flatten(chain: Chain) -> tuple[tuple[Factor, Factor], tuple[SequenceOutline, str | None]]:
    return (chain.init, chain.factor), (chain._outline, chain.asked)


def _unflatten(plain: tuple[SequenceOutline, str | None], parts: tuple[Factor, Factor]) -> Chain:
    outline, asked = plain
    fields = {name: getattr(outline, name) for name in ("time", "length", "links", "globals", "drops_small")}
    chain = object.__new__(Chain)
    chain.__dict__.update(fields, domains=dict(outline.domains), asked=asked, init=parts[0], factor=parts[1])
    return chain


jax.tree_util.register_pytree_node(Chain, _flatten, _unflatten)
