"""Plates that do not nest: a real variable inside a plate becomes one array variable, and the plate is multiplied out.

x in plate i means x[i]. Where a factor couples variables of different plates no order of sums and products is exact;
with X = x[·] as one real array the factor is f(i, X[i], …), its product over i a Gaussian over X.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.eliminate.forward import find_plan
from fubini.eliminate.plan import Plan
from fubini.eliminate.plates import PlatesDoNotNest, Problem, where_variables_live
from fubini.eliminate.prepare import storages_of
from fubini.errors import Intractable, listed
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import MULTIPLY_OUT
from fubini.terms.value import Array, Variable


def find_plan_with_arrays(
    problem: Problem, terms: Sequence[Factor], whole: bool
) -> tuple[Plan, list[Factor], dict[Name, tuple[Name, ...]]]:
    """A plan, the terms it is for, and for each variable that became an array the plates it was in."""
    arrays: dict[Name, tuple[Name, ...]] = {}
    terms = list(terms)
    while True:
        try:
            return find_plan(problem, whole), terms, arrays
        except PlatesDoNotNest as stuck:
            plate = _plate_to_open(problem, terms, stuck)
            problem, terms = _opened(problem, terms, plate, arrays)


def _inside(problem: Problem, plate: Name) -> list[Name]:
    """The summed variables that live in a plate."""
    lives = where_variables_live(problem)
    return [name for name, _ in problem.summed if plate in lives[name]]


def _plate_to_open(problem: Problem, terms: Sequence[Factor], stuck: PlatesDoNotNest) -> Name:
    """The plate whose variables are all real and make the smallest array; a scaled one is no product of its cells."""
    domains = _domains(terms)
    scaled = {plate for plate, scale in problem.scales if scale != 1}
    possible = [
        plate
        for plate in sorted(stuck.plates - scaled, key=str)
        if _inside(problem, plate) and all(domains[name].kind == "real" for name in _inside(problem, plate))
    ]
    if not possible and scaled & stuck.plates:
        raise Intractable(
            str(stuck).splitlines()[0],
            expected="plates that nest, or one without a scale= to turn into an array of variables",
            nearest=f"a scale is given for {listed(sorted(scaled & stuck.plates, key=str))}",
        )
    if not possible:
        raise stuck

    def size(plate: Name) -> int:
        elements = sum(math.prod(domains[name].shape) for name in _inside(problem, plate))
        return elements * domains[plate].extent

    return min(possible, key=size)


def _domains(terms: Sequence[Factor]) -> dict[Name, Domain]:
    return {name: domain for term in terms for name, domain in term.inputs.items()}


def _opened(
    problem: Problem, terms: Sequence[Factor], plate: Name, arrays: dict[Name, tuple[Name, ...]]
) -> tuple[Problem, list[Factor]]:
    """The same question with the variables of a plate as arrays, and the plate multiplied out of every term."""
    domains = _domains(terms)
    extent = domains[plate].extent
    index = Variable(plate, domains[plate])
    values = {}
    for name in _inside(problem, plate):
        domain = domains[name]
        values[name] = Variable(name, domain.with_shape((extent, *domain.shape)))[index]
        arrays[name] = (plate, *arrays.get(name, ()))
    made = [_multiplied_out(substitute(term, values), plate) if plate in term.inputs else term for term in terms]
    sizes = tuple((name, size) for name, size in problem.sizes if name != plate)
    dimensions = tuple((name, size * extent if name in values else size) for name, size in problem.dimensions)
    homes = tuple((n, None if h is None else tuple(p for p in h if p != plate)) for n, h in problem.summed)
    opened = Problem(
        tuple(tuple(term.inputs) for term in made),
        sizes,
        homes,
        tuple(name for name in problem.plates if name != plate),
        tuple((name, scale) for name, scale in problem.scales if name != plate),
        problem.limit,
        dimensions,
        problem.before,
        storages=storages_of(made),
    )
    return opened, made


def _multiplied_out(term: Factor, plate: Name) -> Factor:
    return promoted(interpret(MULTIPLY_OUT, promoted(term), (plate,)))


# -- back -----------------------------------------------------------------------------------------------------------


def plated_value(value: Array, plates: Sequence[Name]) -> Array:
    """The leading event axes of an array as named axes of their plates."""
    extents = value.output.shape[: len(plates)]
    inputs = {**value.inputs, **{plate: Bint[size] for plate, size in zip(plates, extents, strict=True)}}
    names = (*value.names, *plates)
    return Array._of(value.array, names, inputs, value.output.with_shape(value.output.shape[len(plates) :]), value.mark)
