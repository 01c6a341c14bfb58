"""One draw of a state integrated out: its ends from the inequalities, a standard form, then recognition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fubini.index.build import (
    ONE,
    ZERO,
    add,
    call,
    const,
    get,
    index,
    minus,
    negate,
    plus,
    replaced,
    scale,
    times,
    where,
)
from fubini.index.node import Index, Leaf, Node
from fubini.index.sums import total
from fubini.measures.laws import FAMILIES, Law, Vector
from fubini.measures.limits import Ends, Limit, ends_of
from fubini.measures.program import Draw, transformed
from fubini.measures.state import State
from fubini.read.densities import MINUS_INFINITY
from fubini.symbolic.collect import Blocked
from fubini.symbolic.elimination import Eliminated, eliminated
from fubini.symbolic.families import Recognised, exponential
from fubini.symbolic.ratio import summed_by_ratio, zeros_of
from fubini.symbolic.tails import eliminated_tail
from fubini.symbolic.tidy import tidied


class Standard(NamedTuple):
    """A latent through another one on a standard domain: x[at] = entry(u[at]), with log |dx/du|."""

    domain: str
    leaf: Leaf
    entry: Node
    log_slope: Node
    high: Node | None = None


class Case(NamedTuple):
    """One interval of a latent, and what the others have to satisfy."""

    low: Node | None
    high: Node | None
    limits: tuple[Limit, ...]


def cases(lows: Sequence[Node], highs: Sequence[Node], at: tuple[Index, ...], is_strict: bool) -> Iterator[Case]:
    """Every choice of a greatest low and a least high; where they are known, one."""
    for low in lows or (None,):
        for high in highs or (None,):
            limits = [Limit(at, other, low, strict) for other, strict in _others(lows, low) if low is not None]
            limits += [Limit(at, high, other, strict) for other, strict in _others(highs, high) if high is not None]
            if low is not None and high is not None:
                limits.append(Limit(at, low, high, is_strict))
            if not any(limit.fails for limit in limits):
                yield Case(low, high, tuple(limit for limit in limits if not limit.holds))


def _others(ends: Sequence[Node], one: Node | None) -> Iterator[tuple[Node, bool]]:
    """The other ends; where two are equal, the first of them is taken, and no other."""
    before = True
    for end in ends:
        if end is one:
            before = False
        else:
            yield end, before


def attempts(state: State, draw: Draw, keep: bool) -> list[State]:
    """The draw integrated out, in each case of its ends; where it is kept, with its law given those that wait."""
    leaf = draw.leaf
    if leaf.is_simplex:
        _require_untested(state, leaf)
        return [_after(state, eliminated(state.terms, leaf, "simplex"), draw, None, keep)]
    at = tuple(Index(size) for size in leaf.shape)
    ends = ends_of(leaf, at, state.limits)
    if leaf.is_integer:
        ends = _unknown_ends(state, leaf, ends)
    found: list[State] = []
    rest = tuple(limit for limit in state.limits if leaf not in limit.leaves)
    for case in cases(ends.lows, ends.highs, at, not leaf.is_integer):
        standard = standard_form(leaf, at, case)
        new = state._replace(limits=(*rest, *case.limits))
        if standard.leaf is not leaf or standard.log_slope is not ZERO:
            terms = [transformed(term, leaf, _entry(standard, at)) for term in state.terms]
            new = new._replace(terms=(*terms, total(at, standard.log_slope)))
        found.append(_after(new, _integral(new, standard), draw, (standard, case, at), keep))
    return [new for new in found if not new.is_impossible]


def _unknown_ends(state: State, leaf: Leaf, ends: Ends) -> Ends:
    """Without those ends beyond which the density is zero anyway: 1/k! and 1/(n − k)! know theirs."""
    try:
        known = zeros_of(add((term, 1.0) for term in state.terms if leaf in term.leaves), leaf, ends.at)
    except Blocked:
        return ends
    lows = [low for low in ends.lows if low not in known.lows]
    highs = [high for high in ends.highs if high not in known.highs]
    if lows or highs or ZERO not in known.lows:
        return ends
    return Ends(ends.at, (ZERO,), ())


def _entry(standard: Standard, at: tuple[Index, ...]) -> Callable[..., Node]:
    return lambda *places: replaced(standard.entry, {index(i): place for i, place in zip(at, places, strict=True)})


def standard_form(leaf: Leaf, at: tuple[Index, ...], case: Case) -> Standard:
    """On the line, above 0 or between 0 and 1; whole numbers from 0 on."""
    low, high, _ = case
    if leaf.is_integer:
        return _standard_whole(leaf, at, low, high)
    if low is None and high is None:
        return Standard("real", leaf, get(leaf, *map(index, at)), ZERO)
    if low is None or high is None:
        u = _standard_leaf(leaf, 0.0, None, low is ZERO)
        entry = get(u, *map(index, at))
        return Standard("positive", u, plus(low, entry) if low is not None else minus(_sure(high), entry), ZERO)
    u = _standard_leaf(leaf, 0.0, 1.0, low is ZERO and high is ONE)
    entry = get(u, *map(index, at))
    width = minus(high, low)
    return Standard("unit", u, plus(low, times(width, entry)), call("log", width))


def _sure(of: Node | None) -> Node:
    assert of is not None
    return of


def _standard_leaf(leaf: Leaf, low: float, high: float | None, same: bool) -> Leaf:
    if same and (leaf.low, leaf.high) == (low, high):
        return leaf
    return Leaf(leaf.name, leaf.shape, low=low, high=high, is_integer=leaf.is_integer, role=leaf.role)


def _standard_whole(leaf: Leaf, at: tuple[Index, ...], low: Node | None, high: Node | None) -> Standard:
    if low is None:
        raise Blocked(leaf, ZERO, "whole numbers with a least one")
    end = None if high is None else minus(high, low)
    most = None if end is None or end.kind != "const" else end.args[0]
    u = _standard_leaf(leaf, 0.0, most, low is ZERO)
    return Standard("nat" if end is None else "count", u, plus(low, get(u, *map(index, at))), ZERO, end)


# -- integrals ------------------------------------------------------------------------------------------------------


def _integral(state: State, standard: Standard) -> Eliminated:
    leaf = standard.leaf
    if standard.domain == "real":
        _require_untested(state, leaf)
        try:
            return eliminated(state.terms, leaf, "real")
        except Blocked as error:
            return _or(error, lambda: eliminated_tail(state.terms, leaf))
    if standard.domain != "count":
        _require_untested(state, leaf)
        return eliminated(state.terms, leaf, standard.domain)
    try:
        _require_untested(state, leaf)
        return _counted(state, leaf, standard.high)
    except Blocked as error:
        if leaf.high is None:
            raise error
        return eliminated(_with_tests(state, leaf), leaf, "bint")


def _or(first: Blocked, attempt: Callable[[], Eliminated]) -> Eliminated:
    try:
        return attempt()
    except Blocked:
        raise first from None


def _require_untested(state: State, leaf: Leaf) -> None:
    for test in state.tests:
        if leaf in test.node.leaves:
            raise Blocked(leaf, test.node, "inequalities that can be solved for it")


def _with_tests(state: State, leaf: Leaf) -> tuple[Node, ...]:
    """Tests of a finite latent as terms, 0 or −∞."""
    tests = [test for test in state.tests if leaf in test.node.leaves]
    return (*state.terms, *(total(t.over, where(negate(t.node), MINUS_INFINITY, ZERO)) for t in tests))


def _counted(state: State, leaf: Leaf, high: Node | None) -> Eliminated:
    mine = add((term, 1.0) for term in state.terms if leaf in term.leaves)
    found = summed_by_ratio(mine, leaf, high)
    rest = [term for term in state.terms if leaf not in term.leaves]
    return Eliminated((*rest, *found.outside, total(found.at, found.law.log_normaliser)), found.at, found.law)


# -- what is left ---------------------------------------------------------------------------------------------------


def _after(
    state: State,
    result: Eliminated,
    draw: Draw,
    through: tuple[Standard, Case, tuple[Index, ...]] | None,
    keep: bool,
) -> State:
    terms = tuple(term for term in map(tidied, result.terms) if term is not ZERO)
    tests = tuple(test for test in state.tests if draw.leaf not in test.node.leaves)
    priors = {leaf: tidied(prior) for leaf, prior in state.priors.items()}
    new = state.without(draw.leaf)._replace(terms=terms, tests=tests, priors=priors)
    if not keep:
        return new
    law = law_of(result)
    batch = result.at[: len(draw.at)]
    if through is None:
        return new._replace(found=(*new.found, Draw(draw.leaf, batch, law)))
    standard, case, at = through
    plain = _on_interval(law, standard, case, at, batch)
    if plain is not None:
        found = (*new.found, Draw(draw.leaf, batch, plain))
        mass = () if plain.family == "Uniform" else (scale(-1.0, total(batch, result.law.log_normaliser)),)
        return new._replace(found=found, terms=(*new.terms, *mass))
    if standard.leaf is not draw.leaf:
        new = new.mapped(lambda node: transformed(node, draw.leaf, _entry(standard, at)))
    return new._replace(found=(*new.found, Draw(standard.leaf, batch, law)))


def _on_interval(
    law: Law, standard: Standard, case: Case, at: tuple[Index, ...], batch: tuple[Index, ...]
) -> Law | None:
    """What is flat is so on the interval as it was."""
    names = {index(i): index(j) for i, j in zip(at, batch, strict=True)}
    low, high = (None if end is None else replaced(end, names) for end in case[:2])
    if low is None or high is None:
        return None
    if law.family == "Beta" and law.parameters == (ONE, ONE):
        return Law("Uniform", (low, high))
    return Law("Counting", (low, plus(high, ONE))) if law.family == "Counting" else None


def law_of(result: Eliminated) -> Law:
    """A recognised family as a law, in the form that is most specific."""
    found = result.law
    if found.family == "Dirichlet":
        return Law("Dirichlet", (Vector(result.at[-1], tidied(found.parameters["concentration"])),))
    if found.family == "Categorical":
        probability = exponential(tidied(minus(found.parameters["logits"], found.log_normaliser)))
        return Law("Categorical", (Vector(result.at[-1], probability),))
    if found.family not in FAMILIES:
        raise AssertionError(found.family)
    return _specific(found)


def _specific(found: Recognised) -> Law:
    given = {name: tidied(node) for name, node in found.parameters.items()}
    if found.family == "Gamma" and given["concentration"] is ONE:
        return Law("Exponential", (given["rate"],))
    if found.family == "Gamma" and given["rate"] is const(0.5):
        return Law("ChiSquared", (plus(given["concentration"], given["concentration"]),))
    return Law(found.family, tuple(given[name] for name in FAMILIES[found.family].names))
