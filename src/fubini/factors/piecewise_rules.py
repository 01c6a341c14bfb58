"""Rules of piecewise factors: every operation goes into the parts; integrals over what is cut are moments of boxes."""

from __future__ import annotations

from collections.abc import Mapping

from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import Intractable, listed
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture, mixture, summed
from fubini.factors.piecewise import Piecewise, refined
from fubini.factors.piecewise_moments import piece_moments
from fubini.factors.promotion import promoted
from fubini.factors.slices import Slices, slices
from fubini.factors.table import Table, with_mass
from fubini.terms.factor import Factor, Weight, is_tabular, rename, substitute
from fubini.terms.heads import (
    DIVIDE,
    POWER,
    SUM,
    exact_divide,
    exact_join,
    exact_multiply,
    exact_normalize,
    exact_power,
    exact_slices,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Value, Variable, to_array


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


@exact_normalize.rule
def normalize_piecewise(f: Piecewise, total: Table) -> Piecewise:
    """f / Z,  Z > 0"""
    return divide_piecewise(f, with_mass(f, total))


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_piecewise(f: Piecewise, exponent: Value) -> Piecewise:
    """f(q, x)^a, in each box"""
    return f.with_parts(interpret(POWER, promoted(f.parts), exponent))


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
    if isinstance(parts, Table) and not kept:
        return _without_boxes(f, f.with_parts(parts).moments().mass)
    if kept or not isinstance(parts, Gaussian):
        raise not_closed(f, cut, kept)
    return _without_boxes(f, piece_moments(parts, f.cuts, f.edges).mass)


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
        advice="project what remains onto Gaussians: `with fb.represent(x=fb.rep.Truncated()):`",
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
        return Weight(f.log().replaced(cut))
    at = {name: to_array(value) for name, value in f.positions(cut).items()}
    parts = substitute(f.parts, {name: value for name, value in {**cut, **at}.items() if name in f.parts.inputs})
    stay = [k for k, own in enumerate(f.cuts) if own.name not in cut]
    reals = [pair for pair in f.reals if pair[0] not in cut]
    return Piecewise._of(parts, [f.cuts[k] for k in stay], [f.edges[k] for k in stay], reals) if stay else parts


@exact_slices.rule(when=lambda f, name: not any(name in edge.inputs for edge in f.edges))
def slice_piecewise(f: Piecewise, name: Name) -> Slices:
    """f(i = 0), f(i = 1), …  of the parts"""
    own = slices(promoted(f.parts), name)
    return Slices(own.stacked, lambda stacked: f.with_parts(own.at(stacked)))
