"""Rules of Gaussians: each is one equation; the arithmetic is in `quadratic_algebra` and `quadratic_elimination`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.base.domains import Domain, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.errors import Intractable, listed
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.mixture import require_discrete, summed
from fubini.factors.table import Table, multiply_out, with_mass
from fubini.factors.table_rules import divide_tables, exclude_table, multiply_tables, power_table
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_algebra as algebra
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Names, Quadratic, Reals, Shifted, stacked
from fubini.terms.affine import Affine, affine
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor, Weight, is_tabular, substitute
from fubini.terms.heads import (
    CONDITION,
    LEVEL,
    SUM,
    exact_condition,
    exact_contract,
    exact_divide,
    exact_exclude,
    exact_join,
    exact_level,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Array, Value, to_array


@exact_join.rule
def join_gaussian(f: Gaussian) -> Gaussian:
    """f  =  f"""
    return f


@exact_multiply.rule
def multiply_gaussians(f: Gaussian, g: Gaussian) -> Gaussian:
    """exponents add:  h + h′,  K + K′"""
    reals = numerics.merged(f.reals, g.reals)
    inputs = merge_inputs(f.inputs, g.inputs)
    both = algebra.added(f.onto(reals), g.onto(reals))
    return _with(_scales(f.scale, g.scale), both, reals, inputs)


def _scales(f: Table, g: Table) -> Table:
    """The product of two scales; two logarithms are added at once."""
    a, b = f.pair, g.pair
    if type(a.shift) is float is type(b.shift) and not f.inputs and not g.inputs and a.weights == b.weights == 1.0:
        return Table._of(a._replace(shift=a.shift + b.shift), {}, f.exactness | g.exactness)
    return multiply_tables(f, g)


def _with(scale: Table, exponent: Shifted, reals: Reals, domains: Mapping[Name, Domain]) -> Gaussian:
    """A Gaussian from a scale, an exponent and the constant that came off it."""
    scale = shifted(scale, exponent.log, exponent.log_names, domains)
    return Gaussian._of(scale, exponent.rest, reals, domains)


@exact_multiply.rule
def multiply_gaussian_table(f: Gaussian, g: Table) -> Gaussian:
    """w·exp(q) · w′  =  (w w′)·exp(q)"""
    return Gaussian._of(multiply_tables(f.scale, g), f.quadratic, f.reals, merge_inputs(f.inputs, g.inputs))


@exact_multiply.rule
def multiply_table_gaussian(f: Table, g: Gaussian) -> Gaussian:
    """w′ · w·exp(q)  =  (w w′)·exp(q)"""
    return multiply_gaussian_table(g, f)


@exact_divide.rule
def divide_gaussians(f: Gaussian, g: Gaussian) -> Gaussian:
    """exponents subtract:  h − h′,  K − K′;  the result may be indefinite"""
    reals = numerics.merged(f.reals, g.reals)
    inputs = merge_inputs(f.inputs, g.inputs)
    both = algebra.subtracted(f.onto(reals), g.onto(reals))
    return _with(divide_tables(f.scale, g.scale), both, reals, inputs)


@exact_divide.rule
def divide_gaussian_table(f: Gaussian, g: Table) -> Gaussian:
    """w·exp(q) / w′  =  (w/w′)·exp(q)"""
    return Gaussian._of(divide_tables(f.scale, g), f.quadratic, f.reals, merge_inputs(f.inputs, g.inputs))


@exact_divide.rule
def divide_table_gaussian(f: Table, g: Gaussian) -> Gaussian:
    """w′ / (w·exp(q))  =  (w′/w)·exp(−q)"""
    minus = algebra.raised(g.quadratic, np.asarray(-1.0), ())
    return _with(divide_tables(f, g.scale), minus, g.reals, merge_inputs(f.inputs, g.inputs))


@exact_normalize.rule
def normalize_gaussian(f: Gaussian, total: Table | Gaussian) -> Factor:
    """f / Z,  Z > 0"""
    mass = total.scale if isinstance(total, Gaussian) else total
    mass = with_mass(f, mass)
    if isinstance(total, Table):
        return divide_gaussian_table(f, mass)
    return divide_gaussians(f, Gaussian._of(mass, total.quadratic, total.reals, total.inputs))


@exact_condition.rule
def condition_gaussian(f: Gaussian, names: tuple) -> tuple[Factor, ...]:
    """p(x | y, z, k) p(z | k), where z and k are bounded integers: z given those alone (Kim 1994, eq. 2.20)"""
    own = frozenset(name for name in names if name in dict(f.reals))
    integers = tuple(name for name in names if name not in own)
    parts = (f.given_rest(own),) if own else ()
    return (*parts, *interpret(CONDITION, f.sum(*dict(f.reals)), integers)) if integers else parts


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_gaussian(f: Gaussian, exponent: Value) -> Gaussian:
    """(w·exp(q))^a  =  w^a·exp(a q)"""
    a = to_array(exponent)
    raised = algebra.raised(f.quadratic, a.array, a.names)
    return _with(power_table(f.scale, exponent), raised, f.reals, merge_inputs(f.inputs, a.inputs))


@exact_multiply_out.rule
def multiply_out_gaussian(f: Gaussian, names: tuple) -> Factor:
    """Π_i w(i)·exp(q(i))  =  Π_i w(i)·exp(Σ_i q(i)),  what lacks i counting |i| times"""
    require_discrete(f, names)
    sizes = {name: f.inputs[name].extent for name in names}
    return _with(_plate_of_table(f.scale, sizes), algebra.multiplied_out(f.quadratic, sizes), f.reals, f.inputs)


def _plate_of_table(scale: Table, sizes: Mapping[Name, int]) -> Table:
    present = [name for name in sizes if name in scale.inputs]
    times = math.prod(size for name, size in sizes.items() if name not in scale.inputs)
    out = multiply_out(sum_product, scale, present) if present else scale
    return out if times == 1 else power_table(out, Array(np.asarray(float(times))))


@exact_exclude.rule(when=lambda semiring, f, names: semiring.homogeneous)
def exclude_gaussian(semiring: Semiring, f: Gaussian, names: tuple) -> Factor:
    """g(i, z)  =  Π_{j≠i} f(j, z)"""
    sizes = {name: f.inputs[name].extent for name in names}
    (h, h_names, K, K_names, _), log, log_names = algebra.canonical(f.quadratic)
    others = Quadratic(*_all_but_own(h, h_names, sizes, 1), *_all_but_own(K, K_names, sizes, 2))
    scale = _plate_spread(shifted(f.scale, log, log_names, f.inputs), {name: f.inputs[name] for name in names})
    return Gaussian._of(exclude_table(semiring, scale, names), others, f.reals, f.inputs)


@exact_level.rule
def level_gaussian(f: Gaussian, plates: tuple, names: tuple) -> Gaussian:
    """(w/w₀)·exp(q) for (w/w₀) of the table w alone"""
    return Gaussian._of(interpret(LEVEL, f.scale, plates, names), f.quadratic, f.reals, f.inputs)


def _plate_spread(scale: Table, plates: Mapping[Name, Domain]) -> Table:
    """The table over all of its plates."""
    missing = {name: domain for name, domain in plates.items() if name not in scale.inputs}
    ones = np.ones([domain.extent for domain in missing.values()])
    return multiply_tables(scale, Table(ones, missing)) if missing else scale


def _all_but_own(data: Data, names: Names, sizes: Mapping[Name, int], event: int) -> tuple[Data, Names]:
    """Σ over the other cells of the plates, from the sums before and after, so that nothing cancels."""
    xp = namespace(data)
    order = (*sizes, *(name for name in names if name not in sizes))
    spread = align(data, names, order, event)
    spread = xp.broadcast_to(spread, (*sizes.values(), *spread.shape[len(sizes) :]))
    flat = spread.reshape(math.prod(sizes.values()), *spread.shape[len(sizes) :])
    before = xp.cumsum(flat, axis=0)
    after = xp.cumsum(flat[::-1], axis=0)[::-1]
    zero = xp.zeros_like(flat[:1])
    others = xp.concatenate([zero, before[:-1]]) + xp.concatenate([after[1:], zero])
    return others.reshape(spread.shape), order


@exact_sum.rule(when=lambda semiring, f, names: semiring in (sum_product, max_product))
def sum_gaussian(semiring: Semiring, f: Gaussian, names: tuple) -> Factor:
    """∫ exp(g + h·z − ½ z·K z) dx  =  exp(g′ + h′·y − ½ y·K′ y),  K′ = K_yy − K_yx K_xx⁻¹ K_xy;  Σ_k a Mixture"""
    reals = frozenset(name for name, _ in f.reals if name in names)
    rest = f.reduced(reals, semiring is sum_product) if reals else f
    discrete = tuple(name for name in names if name not in reals)
    if not discrete:
        return rest
    if isinstance(rest, Table):
        return rest.reduced(semiring, discrete)
    return _sum_batch(semiring, rest, discrete)  # type: ignore[arg-type]


def _sum_batch(semiring: Semiring, f: Gaussian, names: tuple[Name, ...]) -> Factor:
    """Σ_k w(k)·exp(q)  =  (Σ_k w(k))·exp(q) where q does not depend on k, a Mixture where it does"""
    coupled = tuple(name for name in names if name in numerics.used(f.quadratic))
    free = [name for name in names if name not in coupled]
    rest = Gaussian._of(f.scale.reduced(semiring, free), f.quadratic, f.reals, f.inputs) if free else f
    if not coupled:
        return rest
    if semiring is not sum_product:
        raise Intractable(
            f"the maximum over {listed(coupled)} of {f}",
            expected="no remaining real input whose exponent depends on it",
            nearest=f"{listed(name for name, _ in f.reals)} stays: a maximum of Gaussians is not one",
            advice="maximise over the real inputs too",
        )
    return summed(rest, coupled)


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring in (sum_product, max_product))
def contract_gaussians(semiring: Semiring, f: Gaussian, g: Gaussian, keep: frozenset) -> Factor:
    """∫ f(x, y) g(x, z) dx"""
    both = multiply_gaussians(f, g)
    gone = tuple([name for name in both.inputs if name not in keep])
    return interpret(SUM, semiring, both, gone) if gone else both


# -- substitution ---------------------------------------------------------------------------------------------------


def _indices_are_known(f: Gaussian, values: Mapping) -> bool:
    return all(is_tabular(value) for name, value in values.items() if f.inputs[name].is_finite)


@exact_substitute.rule(when=_indices_are_known)
def substitute_gaussian(f: Gaussian, values: Mapping) -> Factor:
    """z = b + A y:  h′ = Aᵀ(h − K b),  K′ = AᵀK A;  where z is not affine, exp of the exponent there"""
    mark = combined(values.values())
    factor = _substituted(f, values)
    return factor if mark.is_exact or isinstance(factor, Weight) else factor._marked(mark)


def _substituted(f: Gaussian, values: Mapping[Name, Value]) -> Factor:
    batch = {name: value for name, value in values.items() if f.inputs[name].is_finite}
    f = _gathered(f, batch) if batch else f
    reals = {name: value for name, value in values.items() if name not in batch}
    if not reals:
        return f
    if all(is_tabular(value) for value in reals.values()):  # type: ignore[arg-type]
        return _conditioned(f, {name: to_array(value) for name, value in reals.items()})
    moving = {name for value in reals.values() for name, domain in value.inputs.items() if not domain.is_finite}
    parts = {name: affine(value, moving) for name, value in reals.items()}
    kinds = {domain.kind for value in reals.values() for domain in value.inputs.values() if not domain.is_finite}
    if kinds == {"real"} and all(part is not None for part in parts.values()):
        return _transformed(f, reals, parts)  # type: ignore[arg-type]
    return Weight(f.log().replaced(reals))


def _gathered(f: Gaussian, values: Mapping[Name, Value]) -> Gaussian:
    args = {name: to_array(value) for name, value in values.items()}
    indices = {name: (arg.array, arg.names) for name, arg in args.items()}
    domains = merge_inputs(
        {name: domain for name, domain in f.inputs.items() if name not in args}, *(arg.inputs for arg in args.values())
    )
    scale = substitute(f.scale, values)
    there = algebra.gathered(f.quadratic, f.inputs, indices)
    return Gaussian._of(scale, there, f.reals, domains)  # type: ignore[arg-type]


def _flattened(value: Array, size: int) -> tuple[Data, Names]:
    batch = value.array.shape[: len(value.names)]
    data = value.array if np.dtype(value.array.dtype).kind == "f" else value.array * 1.0
    return data.reshape((*batch, size)), value.names


def _conditioned(f: Gaussian, values: Mapping[Name, Array]) -> Factor:
    """Real inputs at known points."""
    names = frozenset(values)
    gone, kept = f.positions(names)
    places = numerics.places(f.reals)
    at, at_names = stacked([_flattened(values[name], len(places[name])) for name, _ in f.reals if name in names], 1)
    exponent = algebra.conditioned(f.quadratic, gone, kept, at, at_names)
    domains = merge_inputs(f.inputs, *(value.inputs for value in values.values()))
    return f.with_exponent(exponent, tuple(pair for pair in f.reals if pair[0] not in names), domains)


def _transformed(f: Gaussian, values: Mapping[Name, Value], parts: Mapping[Name, Affine]) -> Factor:
    """Real inputs as affine functions of others, all at once."""
    stay = tuple(pair for pair in f.reals if pair[0] not in values)
    incoming = merge_inputs(*(value.inputs for value in values.values()))
    fresh = tuple((name, domain) for name, domain in incoming.items() if not domain.is_finite)
    reals = tuple(merge_inputs(dict(stay), dict(fresh)).items())
    rows = [_row(pair, parts.get(pair[0]), reals) for pair in f.reals]
    A, A_names = stacked([row[0] for row in rows], 2)
    b, b_names = stacked([row[1] for row in rows], 1)
    exponent = algebra.transformed(f.quadratic, A, A_names, b, b_names)
    return f.with_exponent(exponent, reals, merge_inputs(dict(f.batch), incoming))


def _row(pair: tuple[Name, Domain], part: Affine | None, reals: Reals) -> tuple[tuple[Data, Names], tuple[Data, Names]]:
    """The rows of A and b for one variable of z."""
    places = numerics.places(reals)
    name, domain = pair
    size, width = math.prod(domain.shape), sum(map(len, places.values()))
    if part is None:
        A = np.zeros((size, width))
        A[:, list(places[name])] = np.eye(size)
        return (A, ()), (np.zeros(size), ())
    blocks = []
    for other, place in places.items():
        slope = part.slopes.get(other)
        batch = slope.array.shape[: len(slope.names)] if slope is not None else ()
        data = slope.array.reshape((*batch, size, len(place))) if slope is not None else np.zeros((size, len(place)))
        blocks.append((namespace(data).swapaxes(data, -1, -2), slope.names if slope is not None else ()))
    A, A_names = stacked(blocks, 2)
    return (namespace(A).swapaxes(A, -1, -2), A_names), _flattened(part.constant, size)
