"""Rules of piecewise factors: every operation goes into the parts; integrals over what is cut are moments of boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fubini.base.arrays import is_traced
from fubini.base.domains import Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import Intractable, listed
from fubini.factors.delta import Delta
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture, mixture, require_discrete, summed
from fubini.factors.piecewise import Piecewise, refined
from fubini.factors.piecewise_moments import piece_moments
from fubini.factors.promotion import is_joinable, is_special_case, promoted
from fubini.factors.slices import Slices, slices
from fubini.factors.table import Table, with_mass
from fubini.terms.affine import affine
from fubini.terms.factor import Factor, Weight, is_tabular, rename, substitute
from fubini.terms.heads import (
    DIVIDE,
    EXCLUDE,
    MULTIPLY_OUT,
    POWER,
    SUM,
    exact_divide,
    exact_exclude,
    exact_join,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_slices,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Array, Value, Variable, to_array


@exact_join.rule
def join_piecewise(f: Piecewise) -> Piecewise:
    """f  =  f"""
    return f


@exact_multiply.rule
def multiply_piecewise(f: Piecewise, g: Table | Gaussian) -> Piecewise:
    """f(q, x)·g(x), in each box"""
    return f.with_parts(combined((f.parts, g)))


@exact_multiply.rule
def multiply_by_piecewise(f: Table | Gaussian, g: Piecewise) -> Piecewise:
    """f(x)·g(q, x), in each box"""
    return g.with_parts(combined((f, g.parts)))


@exact_multiply.rule
def multiply_piecewises(f: Piecewise, g: Piecewise) -> Piecewise:
    """f(q, x)·g(r, x), in each box of both"""
    own, theirs, remade = refined(f, g)
    return remade(combined((own, theirs)))


@exact_divide.rule
def divide_piecewise(f: Piecewise, g: Table | Gaussian) -> Piecewise:
    """f(q, x)/g(x), in each box"""
    return f.with_parts(interpret(DIVIDE, promoted(f.parts), g))


@exact_divide.rule
def divide_by_piecewise(f: Table | Gaussian, g: Piecewise) -> Piecewise:
    """f(x)/g(q, x), in each box"""
    return g.with_parts(interpret(DIVIDE, f, promoted(g.parts)))


@exact_divide.rule
def divide_piecewises(f: Piecewise, g: Piecewise) -> Piecewise:
    """f(q, x)/g(r, x), in each box of both"""
    own, theirs, remade = refined(f, g)
    return remade(interpret(DIVIDE, promoted(own), promoted(theirs)))


@exact_divide.rule(when=lambda f, g: _is_apart(f), overlaps=("divide_mixture", "divide_delta", "divide_sparse"))
def divide_others_by_piecewise(f: Factor, g: Piecewise) -> Factor:
    """f/g  =  f·(1/g), f of another kind, and g positive in every box"""
    return combined((f, divide_by_piecewise(Table(1.0), g)))


def _is_apart(f: Factor) -> bool:
    """Whether a factor is of a kind that goes into no box: a density that no rule joins, one of a user's own."""
    return not isinstance(f, (Delta, Mixture)) and not is_joinable(f) and not is_special_case(f)


@exact_normalize.rule
def normalize_piecewise(f: Piecewise, total: Table) -> Piecewise:
    """f / Z,  Z > 0"""
    return divide_piecewise(f, with_mass(f, total))


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_piecewise(f: Piecewise, exponent: Value) -> Piecewise:
    """f(q, x)^a, in each box"""
    return f.with_parts(interpret(POWER, promoted(f.parts), exponent))


def _is_one_grid(f: Piecewise, names: tuple) -> bool:
    """Whether the edges are the same for all values of the names."""
    return not any(name in edge.inputs for name in names for edge in f.edges)


@exact_multiply_out.rule(when=_is_one_grid)
def multiply_out_piecewise(f: Piecewise, names: tuple) -> Piecewise:
    """Π_i f(q, i, x), in each box"""
    require_discrete(f, names)
    return f.with_parts(interpret(MULTIPLY_OUT, promoted(f.parts), names))


@exact_exclude.rule(when=lambda semiring, f, names: _is_one_grid(f, names))
def exclude_piecewise(semiring: Semiring, f: Piecewise, names: tuple) -> Piecewise:
    """Π_{j≠i} f(q, j, x), in each box"""
    return f.with_parts(interpret(EXCLUDE, semiring, promoted(f.parts), names))


# -- sums -----------------------------------------------------------------------------------------------------------


@exact_sum.rule(when=lambda semiring, f, names: semiring is sum_product)
def sum_piecewise(semiring: Semiring, f: Piecewise, names: tuple) -> Factor:
    """Σ_k f, in each box;  ∫ f dx  =  Σ_q ∫_box(q) f(q, x) dx"""
    parts = promoted(f.parts)
    infinite = tuple(name for name in names if not f.inputs[name].is_finite)
    finite = tuple(name for name in names if name not in infinite)
    if isinstance(parts, Mixture):
        pieces = [f.with_parts(component) for component in parts.components]
        return interpret(SUM, semiring, mixture(pieces, parts.bounds), names)
    if infinite:
        rest = _integrated(f, parts, infinite)
        return interpret(SUM, semiring, rest, finite) if finite else rest
    if isinstance(parts, Table):
        return f.with_parts(parts.reduced(semiring, finite))
    return summed(f, finite)


def _integrated(f: Piecewise, parts: Factor, names: tuple[Name, ...]) -> Factor:
    """∫ over real variables, those that are not cut first."""
    cut = [name for name in names if name in dict(f.reals)]
    uncut = [name for name in names if name not in cut]
    parts = promoted(parts.sum(*uncut)) if uncut else parts
    if not cut:
        return f.with_parts(parts)
    kept = [name for name in _reals(f, parts) if name not in cut]
    if isinstance(parts, Table):
        return _integrated_boxes(f, parts, cut)
    if kept or not isinstance(parts, Gaussian):
        raise not_closed(f, cut, kept)
    return _without_boxes(f, piece_moments(parts, f.cuts, f.edges).mass)


def _integrated_boxes(f: Piecewise, parts: Table, names: list[Name]) -> Factor:
    """∫ f dx  =  Σ_q |box(q)| f(q), along the axes of x; boxes of the other variables stay"""
    gone = [k for k, cut in enumerate(f.cuts) if cut.name in names]
    stay = [k for k in range(len(f.cuts)) if k not in gone]
    along = [(name, domain) for name, domain in f.reals if name in names]
    own = Piecewise._of(parts, [f.cuts[k] for k in gone], [f.edges[k] for k in gone], along)
    mass = _without_boxes(own, own.moments().mass)
    reals = [(name, domain) for name, domain in f.reals if name not in names]
    return Piecewise._of(mass, [f.cuts[k] for k in stay], [f.edges[k] for k in stay], reals) if stay else mass


def _without_boxes(f: Piecewise, mass: Table) -> Table:
    """Σ over the boxes."""
    return mass.reduced(sum_product, [name for name in mass.inputs if name in f.indices])


def _reals(f: Piecewise, parts: Factor) -> dict[Name, None]:
    infinite = (name for name, domain in parts.inputs.items() if not domain.is_finite)
    return dict.fromkeys((*dict(f.reals), *infinite))


def not_closed(f: Piecewise, names: list[Name], kept: list[Name]) -> Intractable:
    """The error of a box that is integrated out while others that depend on it stay."""
    return Intractable(
        f"the integral over {listed(names)} of {f}",
        expected="Gaussian parts, and every real variable that they couple to be integrated too",
        nearest=f"{listed(kept)} stays: a truncated Gaussian's marginal is none"
        if kept
        else "its parts are not Gaussian",
        advice=(f"integrate {listed(kept)} too; " if kept else "")
        + f"in a fb.Chain, project what remains: `with fb.represent({names[0]}=fb.rep.Truncated()):`",
    )


# -- substitution, slices -------------------------------------------------------------------------------------------


@exact_substitute.rule
def substitute_piecewise(f: Piecewise, values: Mapping) -> Factor:
    """f(q(v), v)"""
    cut = {name: value for name, value in values.items() if name in dict(f.reals)}
    others = {name: value for name, value in values.items() if name not in cut}
    if any(name in edge.inputs for name in others for edge in f.edges):
        return Weight(f.log().replaced(values))
    if others:
        f = f.with_parts(substitute(f.parts, others))
    if not cut:
        return f
    if all(isinstance(value, Variable) for value in cut.values()):
        return rename(f, {name: value.name for name, value in cut.items()})  # type: ignore[attr-defined]
    if not all(is_tabular(value) for value in cut.values()):
        moved = _moved(f, cut)
        return Weight(f.log().replaced(cut)) if moved is None else moved
    at = {name: to_array(value) for name, value in f.positions(cut).items()}
    parts = substitute(f.parts, {name: value for name, value in {**cut, **at}.items() if name in f.parts.inputs})
    stay = [k for k, own in enumerate(f.cuts) if own.name not in cut]
    reals = [pair for pair in f.reals if pair[0] not in cut]
    return Piecewise._of(parts, [f.cuts[k] for k in stay], [f.edges[k] for k in stay], reals) if stay else parts


def _moved(f: Piecewise, values: Mapping[Name, Value]) -> Piecewise | None:
    """f at x = b + s y, cut at (edge − b)/s along y, the boxes reversed where s < 0; None for other x"""
    lines = {name: _line(f, name, value) for name, value in values.items()}
    if not all(lines.values()) or len({line[0] for line in lines.values()}) < len(lines):  # type: ignore[index]
        return None
    cuts, edges, at = [], [], dict(values)
    for own, edge in zip(f.cuts, f.edges, strict=True):
        name, constant, slope = lines.get(own.name) or (own.name, 0.0, 1.0)
        order = slice(None) if slope > 0 else slice(None, None, -1)
        cuts.append(own._replace(name=name))
        edges.append(Array._of(((edge.array - constant) / slope)[..., order], edge.names, edge.inputs, edge.output))
        if slope < 0:
            index = f.indices[own.interval]
            at[own.interval] = Array._of(np.arange(index.extent)[::-1], (own.interval,), {own.interval: index}, index)
    parts = substitute(f.parts, {name: value for name, value in at.items() if name in f.parts.inputs})
    reals = [(lines[name][0], Real) if name in lines else (name, domain) for name, domain in f.reals]  # type: ignore[index]
    return Piecewise._of(parts, cuts, edges, reals)


def _line(f: Piecewise, name: Name, value: Value) -> tuple[Name, Any, float] | None:
    """y, b and s of a value b + s y of one real variable that f is not cut along, with known numbers."""
    moving = [other for other, domain in value.inputs.items() if not domain.is_finite]
    if f.inputs[name].shape or value.inputs.keys() != set(moving) or len(moving) != 1 or moving[0] in dict(f.reals):
        return None
    line = affine(value, moving) if value.inputs[moving[0]] == Real else None
    if line is None or any(is_traced(*part.leaves()) for part in (line.constant, line.slopes[moving[0]])):
        return None
    slope = float(line.slopes[moving[0]].array.reshape(()))
    return (moving[0], line.constant.array, slope) if slope else None


@exact_slices.rule(when=lambda f, name: not any(name in edge.inputs for edge in f.edges))
def slice_piecewise(f: Piecewise, name: Name) -> Slices:
    """f(i = 0), f(i = 1), …  of the parts"""
    own = slices(promoted(f.parts), name)
    return Slices(own.stacked, lambda stacked: f.with_parts(own.at(stacked)))
