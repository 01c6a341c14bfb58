"""The maximum of a piecewise table, and draws from piecewise factors: first a box, then a point of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.scipy.special
import numpy as np
import scipy.special

from fubini.base.arrays import Data, namespace, require
from fubini.base.domains import Domain, Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product
from fubini.errors import DataError, Intractable, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import DRAW, exact_draw, exact_sum
from fubini.terms.value import Array, to_array


@exact_sum.rule(when=lambda semiring, f, names: semiring is max_product, overlaps=("sum_piecewise",))
def max_piecewise(semiring: Semiring, f: Piecewise, names: tuple) -> Factor:
    """max_x f  =  max_q f(q), of a table in each box"""
    parts = promoted(f.parts)
    if not isinstance(parts, Table):
        raise Intractable(
            f"the maximum over {listed(names)} of {f}",
            expected="a table in each box",
            nearest=f"its parts are a {type(parts).__name__}: the mode in a box is not known in closed form",
            advice="represent the variable by a grid: `with fb.represent(x=fb.rep.Grid((low, high), n)):`",
        )
    gone = [k for k, cut in enumerate(f.cuts) if cut.name in names]
    indices = [f.cuts[k].interval for k in gone]
    rest = parts.reduced(semiring, [*indices, *(name for name in names if name in parts.inputs)])
    stay = [k for k in range(len(f.cuts)) if k not in gone]
    reals = [pair for pair in f.reals if pair[0] not in names]
    return Piecewise._of(rest, [f.cuts[k] for k in stay], [f.edges[k] for k in stay], reals) if stay else rest


@exact_draw.rule
def draw_piecewise(randomness: Randomness, f: Piecewise, names: tuple) -> dict:
    """q ~ mass of the boxes; x ~ f(q, x) in box q: uniform, its middle, a truncated normal; other reals given x"""
    stay = [name for name, domain in f.inputs.items() if not domain.is_finite and name not in names]
    parts = promoted(f.parts)
    simple = isinstance(parts, Table) or (isinstance(parts, Gaussian) and len(f.cuts) == 1 and not _shape(f))
    if stay or not simple:
        raise Intractable(
            f"a draw of {listed(names)} from {f}",
            expected="a table in each box, or a Gaussian cut along one number; all real variables drawn",
            nearest=f"{listed(stay)} stays" if stay else f"it is cut along {len(f.cuts)} axes",
            advice="draw by particles: `with fb.represent(x=fb.rep.Particles(1000, key)):`",
        )
    integers = [name for name in names if f.inputs[name].is_finite]
    chosen = interpret(DRAW, randomness, f.moments().mass, (*f.indices, *integers))
    batch = {SAMPLES: randomness.domain, **{n: d for n, d in f.inputs.items() if d.is_finite and n not in names}}
    drawn = {name: chosen[name] for name in integers}
    if isinstance(parts, Table):
        return {**drawn, **_uniform(randomness, f, chosen, batch)}
    given = substitute(parts, {name: at for name, at in chosen.items() if name in parts.inputs})
    (name,) = dict(f.reals)
    point = _truncated(randomness, f, given, chosen, batch)
    others = tuple(other for other, domain in given.inputs.items() if not domain.is_finite and other != name)
    rest = interpret(DRAW, randomness, substitute(given, {name: point}), others) if others else {}
    return {**drawn, name: point, **rest}


def _shape(f: Piecewise) -> tuple[int, ...]:
    return f.inputs[f.cuts[0].name].shape


def _sides(f: Piecewise, position: int, chosen: Mapping[Name, Array], batch: Mapping[Name, Domain]) -> list[Data]:
    """The ends of the interval that was drawn along a cut, over the batch."""
    cut, edge = f.cuts[position], f.edges[position]
    xp = namespace(edge.array)
    far = xp.full((*edge.array.shape[:-1], 1), np.inf)
    sides = []
    for ends in ([-far, edge.array], [edge.array, far]):
        inputs = {**edge.inputs, cut.interval: f.indices[cut.interval]}
        side = Array._of(xp.concatenate(ends, axis=-1), (*edge.names, cut.interval), inputs, Real)
        sides.append(_over(to_array(side.replaced(chosen)), batch))
    return sides


def _over(value: Array, batch: Mapping[Name, Domain]) -> Data:
    shape = tuple(domain.extent for domain in batch.values())
    return namespace(value.array).broadcast_to(align(value.array, value.names, tuple(batch)), shape)


def _uniform(
    randomness: Randomness, f: Piecewise, chosen: Mapping[Name, Array], batch: dict[Name, Domain]
) -> dict[Name, Array]:
    """A point of the box drawn, each element between its edges, or in the middle."""
    shape = tuple(domain.extent for domain in batch.values())
    elements: dict[tuple[Name, int], Data] = {}
    for position, cut in enumerate(f.cuts):
        low, high = _sides(f, position, chosen, batch)
        share = 0.5 if cut.at_middle else randomness.uniform(shape)
        elements[cut.name, cut.element] = low + share * (high - low)
    points = {}
    for name, domain in f.reals:
        parts = [elements[name, k] for k in range(int(np.prod(domain.shape)))]
        data = namespace(*parts).stack(parts, -1).reshape((*shape, *domain.shape))
        points[name] = Array._of(data, tuple(batch), batch, Real.with_shape(domain.shape))
    return points


def _truncated(
    randomness: Randomness, f: Piecewise, given: Factor, chosen: Mapping[Name, Array], batch: dict[Name, Domain]
) -> Array:
    """μ + σ Φ⁻¹(Φ(a) + u (Φ(b) − Φ(a))), from the tail that is nearer"""
    (name,) = dict(f.reals)
    others = [other for other, domain in given.inputs.items() if not domain.is_finite and other != name]
    alone = given.sum(*others) if others else given
    mean, variance = (_over(to_array(moment), batch) for moment in (alone.mean(name), alone.variance(name)))
    uniform = randomness.uniform(mean.shape)
    low, high = _sides(f, 0, chosen, batch)
    xp = namespace(mean, variance, low, uniform)
    low, high = ((side - mean) / xp.sqrt(variance) for side in (low, high))
    special: Any = scipy.special if xp is np else jax.scipy.special
    upper = low > 0
    a, b = xp.where(upper, -high, low), xp.where(upper, -low, high)
    below, above = special.ndtr(a), special.ndtr(b)
    shares = below + uniform * (above - below)
    z = xp.clip(special.ndtri(shares), a, b)
    (z,) = require(above > below, lambda: _too_far(f), xp.where(upper, -z, z))
    return Array._of(mean + xp.sqrt(variance) * z, tuple(batch), batch, Real)


def _too_far(f: Piecewise) -> DataError:
    return DataError(
        f"a draw from {f}, whose boxes lie too far from the mean",
        expected="a box within 37 standard deviations of it: the mass of one further out is no number",
    )
