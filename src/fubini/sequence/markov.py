"""The Markov product of a factor over time, lazy until something asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import DomainError, Intractable
from fubini.factors.represent import Representation, asked_by, representation_of
from fubini.sequence import chain_questions as questions
from fubini.sequence.compiled import SequenceOutline, run
from fubini.sequence.links import Links, fixed_bound, length_of, linked, links_of
from fubini.sequence.method import METHODS, choose
from fubini.sequence.window import tagged, with_past
from fubini.show.notation import Big, Notation
from fubini.terms.factor import Factor, Unit, product, rename, substitute, terms_of
from fubini.terms.fields import static_field, term_field
from fubini.terms.heads import ABSORB, SUM, exact_absorb, exact_join, exact_substitute, exact_sum
from fubini.terms.value import Value, Variable


class Markov(Factor):
    """Π_t f(t, x_t, x_{t+1}) with the states between summed out: over the first state and the last.

    Summed with neighbours over the states before, it takes them in and goes through the steps once.
    """

    promotes = True
    body: Factor = term_field()
    time: Name = static_field()
    links: Links = static_field()
    length: int = static_field()
    method: str | None = static_field()
    states: tuple[tuple[Name, Domain], ...] = static_field()

    def __init__(
        self, body: Factor, time: Name, links: Links, length: int, method: str | None, states: Mapping[Name, Domain]
    ) -> None:
        others = {name: domain for name, domain in body.inputs.items() if name != time}
        self._set(
            body=body,
            time=time,
            links=links,
            length=length,
            method=method,
            states=tuple(states.items()),
            inputs={**states, **others},
        )

    @property
    def entrances(self) -> tuple[Name, ...]:
        return self.links.before

    def outline(self, pushed: bool, others: Sequence[Factor] = ()) -> SequenceOutline:
        """The structure without its numbers, and the method."""
        self._require_steps()
        plain = SequenceOutline(self.time, self.length, self.links, self.states)
        return replace(plain, method=choose(self.method, plain, (self.body, *others), pushed).method)

    def _require_steps(self) -> None:
        """Raise where a state has a representation by which only a chain is recast."""
        for name, own in ((name, representation_of(name)) for name, _ in self.states):
            if own is not None and type(own).recast is not Representation.recast:
                raise Intractable(
                    f"fb.markov under represent({name}={own!r})",
                    expected="a representation that one step hands on to the next",
                    advice="ask fb.Chain(init=…, factor=…), which has a start",
                )

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        if self.time in names.values():
            return rename(self._joined(), names)
        links = self.links.renamed(names)
        states = {names.get(name, name): domain for name, domain in self.states}
        return Markov(rename(self.body, names), self.time, links, self.length, self.method, states)

    def _evaluated(self, children: tuple) -> Factor:
        return Markov(children[0], self.time, self.links, self.length, self.method, dict(self.states))

    def _log(self) -> Value:
        return self._joined().log()

    def notation(self) -> Notation:
        return Big("Π", (str(self.time),), self.body.notation())


def markov(
    factor: Factor,
    *,
    time: Name,
    step: Mapping[Any, Any],
    length: int | None = None,
    method: str | None = None,
) -> Factor:
    """The product of a factor over time, neighbouring states matched and summed out: over the first and last states.

    `step` maps the state before a step to the state after it; lagged states go in groups, the oldest first:
    `{("c", "c1"): ("c2", "c3")}`, where c2 is c1 again. Everything else is a batch or a global variable, and stays.
    `length` is needed where the factor does not depend on time. `method` is sequential, parallel or chunks; it is
    chosen where it is not given.

    >>> f = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next"))
    >>> markov(f, time="t", step={"x": "x_next"}, length=3).sum("x_next")(x=0)
    1
    """
    if method is not None and method not in METHODS:
        raise DomainError(f"method={method!r}", expected=f"one of {', '.join(map(repr, METHODS))}, or None to choose")
    links = links_of(step)
    steps = length_of(factor, time, length)
    if not links.chains:
        return factor.product(time) if time in factor.inputs else factor**steps
    body, states = linked(factor, links)
    bound = fixed_bound(str(time))
    return Markov(rename(body, {time: bound}), bound, links, steps, method, states)


@exact_join.rule
def join_markov(f: Markov) -> Factor:
    """Π_t f, from the first state to the last"""
    return _covering(f, bare(f, sum_product))


def bare(f: Markov, semiring: Semiring) -> Factor:
    """The product of all steps."""
    with asked_by("a sequence"):
        steps_product = run(questions.whole, f.outline(False), [terms_of(f.body)], semiring=semiring)
    return tagged(steps_product, [f.body], dict(f.states))


def _covering(f: Markov, result: Factor) -> Factor:
    """Multiply by 1 over the states that no step depends on."""
    lost = {name: domain for name, domain in f.inputs.items() if name not in result.inputs}
    return product(result, Unit(lost)) if lost else result


@exact_absorb.rule
def absorb_into_markov(semiring: Semiring, f: Markov, others: tuple) -> Factor:
    """Σ_x g(x) Π_t f(t, x_t, x_{t+1}): a scan that starts from g"""
    flat = [term for other in others for term in terms_of(other)] or [product()]
    if any(set(f.links.after) & set(term.inputs) for term in flat):  # a ring: the last state is there already
        away: dict[Name, Name] = {name: fixed_bound(f"{name} last") for name in f.links.after}
        ring = interpret(ABSORB, semiring, rename(f, away), others)
        same = {fresh: Variable(name, dict(f.states)[name]) for name, fresh in away.items()}
        return substitute(ring, same)
    outline, past = with_past(f.outline(True, flat))
    with asked_by("a sequence"):
        total = run(questions.through, outline, [[*flat, *past], terms_of(f.body)], semiring=semiring)
    forgotten = [name for name in outline.links.after if name not in f.links.after and name in total.inputs]
    remaining = total.reduce(semiring, *forgotten) if forgotten else total
    return tagged(remaining, [*flat, f.body], dict(f.states))


@exact_sum.rule
def sum_markov(semiring: Semiring, f: Markov, names: tuple) -> Factor:
    """Σ over the states before starts a scan from 1; over others it is the sum of the product"""
    if set(f.links.before) <= set(names):
        total = interpret(ABSORB, semiring, f, ())
        rest = tuple(name for name in names if name in total.inputs)
        return total.reduce(semiring, *rest) if rest else total
    return interpret(SUM, semiring, bare(f, semiring), names)


@exact_substitute.rule
def substitute_markov(f: Markov, values: Mapping) -> Factor:
    """What is neither a state nor time goes into every step"""
    inner = {name: value for name, value in values.items() if name not in dict(f.states)}
    taken = {f.time, *dict(f.states)}
    if any(taken & set(value.inputs) for value in inner.values()):
        return substitute(f._joined(), values)
    if inner:
        states = dict(f.states)
        f = Markov(substitute(f.body, inner), f.time, f.links, f.length, f.method, states)
    outer = {name: value for name, value in values.items() if name not in inner}
    return substitute(f._joined(), outer) if outer else f
