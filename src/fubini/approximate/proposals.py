"""Drawing variables of a product from its own factors: weighted points, whose weights carry the derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from fubini.base.arrays import stop_gradient
from fubini.base.domains import Bint, Real
from fubini.base.interpretations import current, interpret
from fubini.base.names import Name
from fubini.distributions.density import Density
from fubini.distributions.smooth_draws import has_smooth_draws
from fubini.errors import Intractable, listed
from fubini.factors.fallbacks import combined
from fubini.factors.promotion import is_joinable, promoted
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.terms.factor import Factor, Product, Unit, Weight, product, substitute, terms_of, to_factor
from fubini.terms.heads import DIVIDE, DRAW
from fubini.terms.value import Array, Value, to_array


class Drawn(NamedTuple):
    """Points of some variables along `SAMPLES`, and the factors in place of those they were drawn from."""

    points: dict[Name, Value]
    terms: list[Factor]


def drawn(terms: Sequence[Factor], names: Sequence[Name], randomness: Randomness) -> Drawn:
    """Each of the names drawn from the factors that determine it, parents first; the others at the points drawn.

    Σ over the names of the product is then, in expectation, the mean over `SAMPLES` of the remaining terms.
    """
    remaining, waiting = list(terms), list(names)
    points: dict[Name, Value] = {}
    while waiting:
        places, own = _proposal(remaining, waiting, randomness)
        rest = [term for place, term in enumerate(remaining) if place not in places]
        values, weight = _drawn_from([remaining[place] for place in places], own, randomness)
        points = {**{name: point.replaced(values) for name, point in points.items()}, **values}
        remaining = [substitute(term, values) for term in rest] + weight
        waiting = [name for name in waiting if name not in own]
    return Drawn(points, remaining)


def _proposal(
    terms: Sequence[Factor], names: Sequence[Name], randomness: Randomness
) -> tuple[list[int], tuple[Name, ...]]:
    """Choose the factors and names to draw: a density whose parameters are known, or all factors that can be joined."""
    waiting = set(names)
    is_drawable = partial(_is_drawable, randomness)
    for place, term in enumerate(terms):
        if (
            term.own in waiting
            and not _hidden(term, waiting - {term.own})
            and not _is_conjugate(place, terms, is_drawable)
        ):
            return [place], (term.own,)  # type: ignore[return-value]
    near = [place for place, term in enumerate(terms) if waiting & set(term.inputs) and is_drawable(term)]
    own = tuple(name for name in names if any(name in terms[place].inputs for place in near))
    if near:
        return near, own
    raise Intractable(
        f"a draw of {listed(names)} from {product(*terms)}",
        expected="densities of these variables, parents first, or factors that multiply into a Table or a Gaussian",
        advice="multiply by a prior or a guide from which they can be drawn",
    )


def _hidden(term: Factor, names: Iterable[Name | None]) -> bool:
    """It depends on names, other than bounded integers, that have no value yet."""
    return any(name in term.inputs and not term.inputs[name].is_finite for name in names if name is not None)  # type: ignore[index]


def _is_conjugate(place: int, terms: Sequence[Factor], is_drawable: Callable[[Factor], bool]) -> bool:
    """A factor that others tell more about, all of them representations: they are joined before drawing."""
    own = terms[place].own
    if not is_drawable(terms[place]):
        return False
    return any(k != place and own in other.inputs and is_drawable(other) for k, other in enumerate(terms))


def _is_drawable(randomness: Randomness, term: Factor) -> bool:
    """It joins into representations that can be drawn from, none of them a point."""
    whole = promoted(term) if is_joinable(term) else term
    parts = [part for part in terms_of(whole) if not part.promotes and not part.located]
    drawable = [part for part in parts if current().find(DRAW, (randomness, part, tuple(part.inputs))) is not None]
    return len(drawable) == len(terms_of(whole))


def _drawn_from(
    own: Sequence[Factor], names: tuple[Name, ...], randomness: Randomness
) -> tuple[dict[Name, Value], list[Factor]]:
    """Points, and what they weigh: the mass of the factors over their number, times a derivative where one is due."""
    whole = own[0] if len(own) == 1 and isinstance(own[0], Density) and not is_joinable(own[0]) else None
    whole = promoted(combined([promoted(term) for term in own])) if whole is None else whole
    if isinstance(whole, Product):
        raise Intractable(f"a draw of {listed(names)} from {whole}", expected="factors that multiply into one")
    hidden = [name for name, domain in whole.inputs.items() if not domain.is_finite and name not in names]
    if whole.own is not None or not hidden:
        return _drawn_from_one(whole, names, randomness)
    marginal = promoted(whole.sum(*hidden))
    points, weights = _drawn_from_one(marginal, names, randomness)
    return points, [*weights, interpret(DIVIDE, substitute(whole, points), promoted(substitute(marginal, points)))]


def _drawn_from_one(
    whole: Factor, names: tuple[Name, ...], randomness: Randomness
) -> tuple[dict[Name, Value], list[Factor]]:
    mass = promoted(whole.sum(*names)) if whole.own is None else None
    weights: list[Factor] = [mass] if mass is not None else []
    finite = tuple(name for name in names if whole.inputs[name].is_finite)
    others = tuple(name for name in names if name not in finite)
    points: dict[Name, Value] = {}
    if finite:
        table = promoted(whole.sum(*others)) if others else whole
        values = _constants(interpret(DRAW, randomness, table, finite))
        weights.append(_score(table.normalize(*finite) if table.own is None else table, values))
        points, whole = dict(values), substitute(whole, values)
    if others:
        values = interpret(DRAW, randomness, whole, others)
        if not _is_reparametrised(whole):
            values = _constants(values)
            weights.append(_score(whole if whole.own is not None else whole.normalize(*others), values))
        points.update(values)
    return points, weights


def _constants(points: dict[Name, Array]) -> dict[Name, Array]:
    return {
        name: Array._of(stop_gradient(point.array), point.names, point.inputs, point.output, point.mark)
        for name, point in points.items()
    }


def _score(density: Factor, points: dict[Name, Array]) -> Factor:
    """1 in value, with the derivatives of the density: exp(log p − ⊥ log p) (Foerster et al. 2018, eq. 10)."""
    log = to_array(substitute(density, points).log())
    flat = log.array - stop_gradient(log.array)
    return Weight(Array._of(flat, log.names, log.inputs, Real, log.mark))


def _is_reparametrised(factor: Factor) -> bool:
    """A draw is a smooth function of the parameters."""
    if factor.smooth_draws:
        return True
    return isinstance(factor, Density) and has_smooth_draws(factor.distribution.blueprint)


def averaged(n: int) -> Factor:
    """1/n for each sample."""
    return promoted(to_factor(jnp.asarray(1.0 / n)) * Unit({SAMPLES: Bint[n]}))
