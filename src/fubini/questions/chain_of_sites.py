"""A model whose sites are arrays along time, as a chain: `dist.Markov`, and what NumPyro scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fubini.algebra.binding import inside, opened, replaced
from fubini.algebra.build import ONE, ZERO, factors_in, index, multiply, plus, scale, times
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.walk import walk
from fubini.base.arrays import Data, namespace
from fubini.base.domains import Domain, Real
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.distributions.density import Density
from fubini.eliminate.ask import eliminate
from fubini.eliminate.explanation import Explanation
from fubini.errors import Intractable, listed
from fubini.factors.promotion import promoted
from fubini.factors.represent import Represent
from fubini.factors.slices import alone_at, put_in_front
from fubini.factors.tally import Conversion, conversion_of
from fubini.models.chain_site import ChainPart
from fubini.models.flat_model import FlatModel
from fubini.models.reading import Reading
from fubini.models.site_terms import SitePart
from fubini.questions.step_values import StepValues, TimeState
from fubini.questions.time_cells import NotInCells, cell_at, slice_at, whole_distribution
from fubini.sequence.chain import Chain
from fubini.sequence.chain_conversions import FIRST, LATER
from fubini.sequence.links import fixed_bound
from fubini.terms.factor import Factor, Weight, product, rename
from fubini.terms.value import Variable

TIME = fixed_bound("step")


class ChainOfSites(NamedTuple):
    """The chain, and its states by site. Of one time alone, what comes after the first is left out of the answers."""

    chain: Chain
    states: Mapping[str, TimeState]
    conversions: tuple[Conversion, ...]
    is_single: bool = False

    def explain(self) -> Explanation:
        """Explain the chain, and what its densities became."""
        plan = self.chain.explain()
        others = [each for each in plan.conversions if each not in self.conversions]
        return replace(plan, conversions=(*self.conversions, *others))

    def covers(self) -> dict[Name, Name]:
        """The states go by the names of their sites."""
        return {}

    def marginal(self, name: str) -> Factor:
        """p(entry | everything) for each place along time, from the smoother; of a parameter of all steps, its own."""
        if name in self.chain.globals:
            last = self.chain.final()
            return promoted(last.sum(*(other for other in last.inputs if other != name)))
        state = self._state(name)
        smooth = self.chain.smooth()
        before, after = state.before.name, state.after.name
        first = _alone(smooth.initial, before, self.chain.links.before)
        if self.is_single:
            return smooth.counting(alone_at(first, f"{name}_place"))
        later = rename(_alone(smooth.terms[0], after, self.chain.links.newest), {after: before})
        return smooth.counting(put_in_front(first, later, TIME, f"{name}_place"))

    def assignment(self, values: Mapping[Name, Data]) -> dict[Name, Data]:
        """Values of the states along time as those of the sites; other axes come first."""
        shared = {name: values[name] for name in self.chain.globals}
        every = {name: _along_time(state, values) for name, state in self.states.items()}
        if self.is_single:
            time = {name: -1 - len(state.before.output.shape) for name, state in self.states.items()}
            every = {name: namespace(data).take(data, np.array([0]), time[name]) for name, data in every.items()}
        return {**shared, **every}

    def _state(self, name: str) -> TimeState:
        if name not in self.states:
            raise Intractable(
                f"the marginal of {name!r}, which is no array along time",
                expected=f"one of the states of the chain: {listed(self.states)}",
                advice="ask for log_evidence(), or for the marginals of the states",
            )
        return self.states[name]


def _alone(factor: Factor, name: Name, states: Sequence[Name]) -> Factor:
    others = [other for other in states if other != name and other in factor.inputs]
    return promoted(factor.sum(*others)) if others else factor


def _along_time(state: TimeState, values: Mapping[Name, Data]) -> Data:
    first, later = values[state.before.name], values[state.after.name]
    xp, axis = namespace(first, later), -1 - len(state.before.output.shape)
    return xp.concatenate([xp.expand_dims(first, axis), later], axis=axis)


def chain_of_sites(model: FlatModel, names: Sequence[str]) -> ChainOfSites | None:
    """The chain of a model whose sites with these names are arrays along time; None where they are no chain."""
    domains = model.reading.domains
    lengths = {domains[name].shape[0] for name in names if name in domains and domains[name].shape}
    if len(lengths) != 1 or (length := lengths.pop()) < 1:
        return None
    if length == 1 and not any(name in model.reading.chains for name in names):
        return None
    factors = _FactorsInTime(model, length)
    for name in model.reading.terms:
        factors.add(name)
    if not factors.couples:
        return None
    return factors.chain()


def couples_times(reading: Reading) -> bool:
    """Whether a model has a chain, or reads entries of its sites at other places than one index along their time."""
    states = {reading.sites[name] for name, domain in reading.domains.items() if domain.shape}
    gets = (this for this in walk(*reading.terms.values(), parts=inside) if this.kind == "get")
    return bool(reading.chains) or any(
        (this.args[0] in states and this.args[1].kind != "index") or this.args[0].of & states for this in gets
    )


class _FactorsInTime:
    """The factors of a model at the first time, and those of every step."""

    def __init__(self, model: FlatModel, length: int) -> None:
        self.reading, self.length = model.reading, length
        sites = self.reading.sites
        self.states = {n: _state(n, d, sites[n]) for n, d in self.reading.domains.items() if d.shape[:1] == (length,)}
        by_leaf = {sites[name]: state for name, state in self.states.items()}
        self.is_single = length == 1
        self.steps = Index(max(length - 1, 1), "t")
        self.at_first = StepValues(self.reading, by_leaf, model.numbers, None, TIME)
        self.at_steps = StepValues(self.reading, by_leaf, model.numbers, self.steps, TIME)
        self.first: list[Factor] = []
        self.later: list[Factor] = []

    def add(self, name: str) -> None:
        """The factors of one site."""
        chain, part = self.reading.chains.get(name), self.reading.parts.get(name) or self.reading.partial.get(name)
        ways = [lambda: self._chain(chain)] if chain is not None else []
        ways += [lambda: self._cells(part), lambda: self._whole(part)] if part is not None else []
        ways += [lambda: self._weights(self.reading.terms[name])]
        reasons = []
        for way in ways:
            try:
                first, later = way()
            except NotInCells as error:
                reasons.append(f"{error}")
                continue
            self.first.extend(first)
            self.later.extend(later)
            return
        raise Intractable(
            f"the site {name!r} as factors along time",
            expected=f"a factor for each of {self.length} times, of entries of {listed(self.states)} at this time and "
            "the one before",
            nearest=f"{reasons[-1]} in {self.reading.terms[name]}",
            advice="write the model as fb.Chain, or ask without fb.represent or fb.linearize",
        )

    def _chain(self, part: ChainPart) -> tuple[list[Factor], list[Factor]]:
        """p(x₀), and p(x_t | x_(t−1)) for each step"""
        site, here = part.site, self.at_steps.here
        first = whole_distribution(site.init, iter(part.first), self.at_first.array)
        if site.step is None:
            return [Density(first, self.at_first.array(slice_at(part.value, ZERO), site.init.domain))], []
        later = [slice_at(leaf, here) for leaf in part.later]
        step = whole_distribution(site.step, iter(later), self.at_steps.array)
        begin = self.at_first.array(slice_at(part.value, ZERO), site.init.domain)
        after = self.at_steps.array(slice_at(part.value, plus(here, ONE)), site.step.domain)
        return [Density(first, begin)], [Density(step, after)]

    def _cells(self, part: SitePart) -> tuple[list[Factor], list[Factor]]:
        """A density for each time, or for each step"""
        shape, here = part.source.domain.shape, self.at_steps.here
        if shape[:1] == (self.length,):
            first = cell_at(part, ZERO, self.at_first.array)
            return [first], [] if self.is_single else [cell_at(part, plus(here, ONE), self.at_steps.array)]
        if shape[:1] == (self.length - 1,):
            return [], [cell_at(part, here, self.at_steps.array)]
        raise NotInCells(f"{shape}")

    def _whole(self, part: SitePart) -> tuple[list[Factor], list[Factor]]:
        """A density that depends on the first time alone, or on none"""
        if part.present is not None:
            raise NotInCells("missing entries")
        distribution = whole_distribution(part.source, iter(part.leaves), self.at_first.array)
        return [Density(distribution, self.at_first.array(part.value, part.source.domain))], []

    def _weights(self, term: Node) -> tuple[list[Factor], list[Factor]]:
        """exp of the terms of a sum, each at the first time and at every step"""
        first: list[Factor] = []
        later: list[Factor] = []
        for over, body in sums_of(term):
            split = self._split(over, body) or ([weight_at(self.at_first, total(over, body))], [])
            first.extend(split[0])
            later.extend(split[1])
        return first, later

    def _split(self, over: Sequence[Index], body: Node) -> tuple[list[Factor], list[Factor]] | None:
        """A sum along one of its indices, where that is time; None where none is."""
        for i in over:
            rest, is_whole = [other for other in over if other is not i], i.size == self.length
            moved = plus(self.at_steps.here, ONE) if is_whole else self.at_steps.here
            if not is_whole and i.size != self.length - 1:
                continue
            try:
                later = (
                    [] if self.is_single else [weight_at(self.at_steps, total(rest, replaced(body, {index(i): moved})))]
                )
                start = [weight_at(self.at_first, total(rest, replaced(body, {index(i): ZERO})))] if is_whole else []
            except NotInCells:
                continue
            return start, later
        return None

    @property
    def couples(self) -> bool:
        """Whether some factor has states before and after a step."""
        before = {state.before.name for state in self.states.values()}
        after = {state.after.name for state in self.states.values()}
        return self.is_single or any(
            before & set(factor.inputs) and after & set(factor.inputs) for factor in self.later
        )

    def chain(self) -> ChainOfSites:
        """The chain of these factors; sites that only the first time depends on are summed out of it."""
        if self.is_single:
            self.later = self._copies()
        of_states = {variable.name for state in self.states.values() for variable in (state.before, state.after)}
        others = [name for name in self.reading.sites if name not in of_states]
        shared = [name for name in others if any(name in factor.inputs for factor in self.later)]
        alone = [n for n in others if n not in shared and any(n in factor.inputs for factor in self.first)]
        first, later = list(map(promoted, self.first)), list(map(promoted, self.later))
        told = [
            *(each for f, g in zip(self.first, first, strict=True) for each in conversion_of(f, [g], FIRST)),
            *(each for f, g in zip(self.later, later, strict=True) for each in conversion_of(f, [g], LATER)),
        ]
        if alone:
            near = [factor for factor in first if any(name in factor.inputs for name in alone)]
            with current().without(Represent):
                summed = eliminate(near, alone)
            first = [*(f for f in first if not any(f is other for other in near)), summed]
        chain = Chain(
            init=product(*first),
            factor=product(*later),
            time=TIME,
            step={(state.before.name,): (state.after.name,) for state in self.states.values()},
            length=max(self.length - 1, 1),
            sum=shared,
        )
        return ChainOfSites(chain, self.states, tuple(told), self.is_single)

    def _copies(self) -> list[Factor]:
        """Of one time: the densities of its states once more, of a state after it that says nothing of it."""
        names: dict[Name, Name] = {state.before.name: state.after.name for state in self.states.values()}
        return [rename(factor, names) for factor in self.first if factor.own in names]


def _state(name: str, domain: Domain, leaf: Leaf) -> TimeState:
    cell = domain.with_shape(domain.shape[1:])
    names = ("low", "high", "is_integer", "is_simplex", "is_positive_definite")
    facts = {fact: getattr(leaf, fact) for fact in names}
    before, after = (Leaf(label, cell.shape, role=leaf.role, **facts) for label in (name, f"{name} next"))
    return TimeState(Variable(name, cell), Variable(fixed_bound(f"{name} next"), cell), before, after)


def weight_at(values: StepValues, node: Node) -> Factor:
    """exp of a node, at a place."""
    return Weight(values.value(node, (), Real))


def sums_of(term: Node) -> Iterator[tuple[tuple[Index, ...], Node]]:
    """The parts of a node as sums over indices: numbers and other factors go inside."""
    for part, coefficient in term.args if term.kind == "add" else ((term, 1.0),):
        factors = factors_in(part)
        inner = [base for base, power in factors if base.kind == "sum" and power == 1]
        if len(inner) == 1:
            over, body = opened(inner[0])
            rest = multiply((base, power) for base, power in factors if base is not inner[0])
            yield over, scale(coefficient, times(rest, body))
        else:
            yield (), scale(coefficient, part)
