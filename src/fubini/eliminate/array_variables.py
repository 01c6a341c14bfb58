"""Plates that do not nest: a real variable inside a plate becomes one array variable, and the plate is multiplied out.

x in plate i means x[i]. Where a factor couples variables of different plates no order of sums and products is exact;
with X = x[·] as one real array the factor is f(i, X[i], …), its product over i a Gaussian over X.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fubini.base.arrays import namespace
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.eliminate.forward import find_plan
from fubini.eliminate.plan import Plan
from fubini.eliminate.plates import PlatesDoNotNest, Problem, where_variables_live
from fubini.errors import Intractable, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.promotion import promoted
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_elimination as elimination
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


def plated_marginal(factor: Factor, name: Name, plates: Sequence[Name]) -> Factor:
    """The marginal of an array variable as one of each of its elements, for each cell of the plates."""
    if isinstance(factor, Mixture):
        return Mixture(tuple(plated_marginal(part, name, plates) for part in factor.components), factor.bounds)
    assert isinstance(factor, Gaussian) and len(factor.reals) == 1, "the marginal of a real array is a Gaussian"
    domain = factor.inputs[name]
    cells = math.prod(domain.shape[: len(plates)])
    element = domain.with_shape(domain.shape[len(plates) :])
    size = math.prod(element.shape)
    conditional = factor.conditional(name)
    whole = conditional.covariance
    xp = namespace(whole)
    blocks = [whole[..., k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(cells)]
    extents = domain.shape[: len(plates)]
    batch = whole.shape[:-2]
    covariance = xp.stack(blocks, axis=-3).reshape((*batch, *extents, size, size))
    mean = conditional.mean.reshape((*conditional.mean.shape[:-1], *extents, size))
    return _from_moments(factor, name, element, plates, extents, mean, covariance, conditional)


def _from_moments(
    factor: Gaussian,
    name: Name,
    element: Domain,
    plates: Sequence[Name],
    extents: tuple[int, ...],
    mean: object,
    covariance: object,
    conditional: elimination.Conditional,
) -> Gaussian:
    """A normalised Gaussian for each cell, its mass that of the whole."""
    domains: Mapping[Name, Domain] = {
        **factor.inputs,
        **{plate: Bint[size] for plate, size in zip(plates, extents, strict=True)},
    }
    xp = namespace(covariance)
    K, K_names = xp.linalg.inv(covariance), (*conditional.names, *plates)
    h, h_names = numerics.by_name(
        lambda M, v: xp.matmul(M, v[..., None])[..., 0], (K, K_names, 2), (mean, (*conditional.mean_names, *plates), 1)
    )
    quadratic = numerics.Quadratic(h, h_names, K, K_names)
    made = Gaussian._of(factor.scale, quadratic, ((name, element),), domains)
    mass = factor.sum(name)
    one = made.normalize(name)
    return promoted(one * mass)  # type: ignore[return-value]
