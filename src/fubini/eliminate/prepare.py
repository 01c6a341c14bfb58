"""Before a plan: the terms of a question in the form a plan takes, and its structure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from fubini.base.domains import merge_inputs
from fubini.base.interpretations import exact, interpret
from fubini.base.names import Name, as_names
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.eliminate.forward import embed
from fubini.eliminate.order import components
from fubini.eliminate.plates import Problem
from fubini.errors import DataError, Intractable, UnknownName, closest, listed
from fubini.factors.promotion import is_joinable, is_open, promoted
from fubini.factors.represent import known_in
from fubini.terms.factor import Factor, Product, Unit, product, substitute, terms_of, to_factor
from fubini.terms.heads import ABSORB, FIX, MULTIPLY
from fubini.terms.storage import DENSE, Storage
from fubini.terms.value import Variable

T = TypeVar("T")
Factors = Factor | Iterable[Factor]
Scopes = Sequence[Name | Variable] | Mapping[Name, Sequence[Name]]


def prepared(
    factors: Factors, names: Scopes, plates: Sequence[Name], semiring: Semiring
) -> tuple[list[Factor], list[tuple[Name, tuple[Name, ...] | None]]]:
    """The terms as a plan takes them, Deltas put in place, neighbours absorbed, and the names with where they live."""
    terms, summed = covering_terms(split_terms(factors), names)
    if any(term.pins for term in terms):
        terms = _place_deltas(terms, [] if plates else [name for name, _ in summed])
    if any(term.entrances for term in terms):
        terms = _absorbed(terms, summed, plates, semiring)
    present = {name for term in terms for name in term.inputs}
    return terms, [(name, home) for name, home in summed if name in present]


def together(
    terms: Sequence[Factor],
    names: Iterable[Name],
    plates: Sequence[Name] = (),
    semiring: Semiring = sum_product,
    scale: Mapping[Name, float] | None = None,
) -> list[Factor]:
    """Terms that no rule joins as one, with all that they share variables with which are summed and are not finite.

    Which of these can be integrated out, and in which order, is decided for all of them at once.
    """
    if scale or semiring not in (sum_product, max_product) or not any([is_open(term) for term in terms]):
        return list(terms)
    infinite = {name for term in terms for name, domain in term.inputs.items() if not domain.is_finite}
    wanted = infinite.intersection(names)
    coupled = [term for term in terms if wanted.intersection(term.inputs)]
    if len(coupled) < 2:
        return list(terms)
    coupled = _without_leaves(coupled, wanted)
    homes = [frozenset(plates).intersection(term.inputs) for term in coupled]
    joined = list(terms)
    for members, _ in components([tuple(wanted.intersection(term.inputs)) for term in coupled], wanted):
        group = [coupled[member] for member in members]
        if len(group) > 1 and any(map(is_open, group)) and len({homes[member] for member in members}) == 1:
            joined = [term for term in joined if all(term is not other for other in group)] + [Product(*group)]
    return joined


def one_or_other(run: Callable[[list[Factor]], T], grouped: list[Factor], terms: list[Factor]) -> T:
    """Ask of the terms that no rule joins together; where that has no closed form, of one after another."""
    if len(grouped) == len(terms):
        return run(terms)
    try:
        return run(grouped)
    except Intractable as error:
        try:
            return run(terms)
        except Intractable:
            raise error from None


def _without_leaves(terms: list[Factor], names: set[Name]) -> list[Factor]:
    """Drop densities of a variable that no other factor has: these sum to one."""
    for term in terms:
        others = [other for other in terms if other is not term]
        if term.own in names and not any(term.own in other.inputs for other in others):
            return _without_leaves(others, names)
    return terms


def split_terms(factors: Factors) -> list[Factor]:
    """The terms of all the factors, products split."""
    given = [factors] if isinstance(factors, Factor) else list(factors)
    return [term for factor in given for term in terms_of(to_factor(factor))]


def known_names(terms: Sequence[Factor], names: Scopes, asked: str = "these factors") -> AbstractContextManager:
    """The interpretation in force, whose representations are of variables that are there."""

    def present() -> list[Name]:
        asked = [name.name if isinstance(name, Variable) else name for name in names]
        return list(dict.fromkeys([*(name for term in terms for name in term.inputs), *asked]))

    handed_on = [name for term in terms if term.entrances for name in term.inputs]
    return known_in(present, asked, handed_on)


def covering_terms(terms: list[Factor], names: Scopes, verb: str = "a sum over") -> tuple[list[Factor], list]:
    """The terms, with a unit factor for each Variable that none has, and the names with where they live."""
    as_names(names, verb)
    inputs = merge_inputs(*(term.inputs for term in terms))
    summed = []
    for name in names:
        home = tuple(names[name]) if isinstance(names, Mapping) else None  # type: ignore[index]
        if isinstance(name, Variable):
            merge_inputs(inputs, name.inputs)
            if name.name not in inputs:
                terms = [*terms, Unit(name.inputs)]
            name = name.name
        elif name not in inputs:
            raise UnknownName(
                f"{verb} {name!r}",
                expected=f"a name that some factor has: {listed(inputs)}",
                nearest=closest(name, inputs),
                advice="a Variable, which carries its domain, may be absent: it multiplies by its size",
            )
        summed.append((name, home))
    return terms, summed


def _place_deltas(terms: list[Factor], names: list[Name]) -> list[Factor]:
    """Σ_x δ(x = v) f(x)  =  f(v), for the names summed."""
    terms = [promoted(term) if term.pins and not term.located else term for term in terms]
    for name in names:
        delta = next((term for term in terms if name in term.located), None)
        if delta is not None:
            for other in terms:
                if other is not delta and name in other.pins and not other.inputs[name].is_finite:
                    interpret(MULTIPLY, delta, other)  # the error of fixing a real variable twice
            at = {name: delta.located[name]}
            others = [substitute(term, at) for term in terms if term is not delta]
            terms = [*others, *terms_of(delta.without((name,)))]
    return terms


def _absorbed(terms: list[Factor], summed: list, plates: Sequence[Name], semiring: Semiring) -> list[Factor]:
    """Each factor with entrances takes in its neighbours there, where all of these are summed within its plates."""
    homes = dict(summed)
    place = 0
    while place < len(terms):
        term = terms[place]
        near = [k for k, other in enumerate(terms) if k != place and set(term.entrances) & set(other.inputs)]
        within = [plate for plate in plates if plate in term.inputs]
        beside = [terms[k] for k in near]
        if term.entrances and all(n in homes and _lives_in(homes[n], within, beside) for n in term.entrances):
            taken = interpret(ABSORB, semiring, term, tuple(beside))
            terms = [other for k, other in enumerate(terms) if k != place and k not in near] + [*terms_of(taken)]
            place = 0
        else:
            place += 1
    return terms


def _lives_in(home: tuple[Name, ...] | None, plates: Sequence[Name], beside: Sequence[Factor]) -> bool:
    """A variable is there once for each cell of these plates."""
    declared = home is None or set(plates) <= set(home)
    return declared and all(plate in other.inputs for plate in plates for other in beside)


def embedded_term(semiring: Semiring, term: Factor) -> Factor:
    """A term in the carrier; of one with entrances, what it is made of: a sum may not be embedded twice."""
    if not term.entrances:
        return product(*(embed(semiring, part) for part in terms_of(promoted(term))))
    return term._evaluated(tuple(product(*(embedded_term(semiring, t) for t in terms_of(c))) for c in term.children))  # type: ignore[arg-type]


def problem_of(
    terms: Sequence[Factor],
    summed: Sequence[tuple[Name, tuple[Name, ...] | None]],
    plates: Sequence[Name] = (),
    scale: Mapping[Name, float] | None = None,
    memory_limit: int | None = None,
) -> Problem:
    """The structure of a question, which keys the cache of plans."""
    sizes: dict[Name, int] = {}
    infinite: dict[Name, int] = {}
    before: list[tuple[Name, Name]] = []
    cut: dict[Name, None] = {}
    all_dense = True
    for term in terms:
        profile = _profile(term)
        sizes.update(profile.sizes)
        all_dense = all_dense and profile.storage is DENSE
        if profile.dimensions:
            infinite.update(profile.dimensions)
            before.extend(_own_first(term))
            cut.update(dict.fromkeys(profile.cut_names))
    before.extend((name, last) for last in cut for name in infinite if name not in cut)
    scales = tuple((plate, _power(plate, power)) for plate, power in scale.items()) if scale else ()
    unknown = [plate for plate, _ in scales if plate not in plates]
    if unknown:
        raise UnknownName(f"a scale for {unknown[0]!r}", expected=f"a plate being multiplied out: {listed(plates)}")
    scopes = tuple([_profile(term).scope for term in terms])
    named = as_names(plates, "the plates") if plates else ()
    dimensions = tuple(infinite.items())
    joined = frozenset([k for k, term in enumerate(terms) if type(term) is Product]) if infinite else _NONE
    storages = () if all_dense else storages_of(terms)
    question = (scopes, tuple(sizes.items()), tuple(summed), named, scales, memory_limit)
    return Problem(*question, dimensions, frozenset(before), joined, storages)


_NONE: frozenset[int] = frozenset()


def storages_of(terms: Sequence[Factor]) -> tuple[Storage, ...]:
    """The storages of the terms; none where all are dense."""
    storages = tuple([term.storage for term in terms])
    return storages if any([storage is not DENSE for storage in storages]) else ()


class _Profile(NamedTuple):
    """The facts of a term that the planner needs."""

    scope: tuple[Name, ...]
    sizes: dict[Name, int]
    dimensions: dict[Name, int]
    storage: Storage
    cut_names: tuple[Name, ...]


def _profile(term: Factor) -> _Profile:
    profile = term.__dict__.get("_cached_profile")
    if profile is None:
        sizes = {name: domain.size or 1 for name, domain in term.inputs.items()}
        infinite = {name: math.prod(domain.shape) for name, domain in term.inputs.items() if not domain.is_finite}
        profile = _Profile(tuple(term.inputs), sizes, infinite, term.storage, _cut_names(term) if infinite else ())
        term.__dict__["_cached_profile"] = profile
    return profile


def _cut_names(term: Factor) -> tuple[Name, ...]:
    """The real variables that a term jumps along, its comparisons read where it has some, under fb.lazy too."""
    if not term.promotes:
        return term.cut_names
    with exact:
        return interpret(FIX, term).cut_names


def _own_first(term: Factor) -> list[tuple[Name, Name]]:
    """A density that no rule joins is summed over its own variable first, while it is alone with it; so is a point."""
    if term.pins:
        return [(pin, name) for pin in term.pins for name in term.inputs if name not in term.pins]
    if not term.promotes or term.own is None or is_joinable(term):
        return []
    return [(term.own, name) for name, domain in term.inputs.items() if name != term.own and not domain.is_finite]


def _power(plate: Name, power: Any) -> float:
    value = float(power)
    if not 0 <= value < math.inf:
        raise DataError(f"the scale {power!r} of the plate {plate!r}", expected="a finite number, not negative")
    return value
