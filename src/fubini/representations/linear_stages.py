"""The stages of a step whose densities are not linear: what moves the state on, then what is seen of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.distributions.blueprint import LogProbability
from fubini.distributions.density import Density
from fubini.distributions.residual_moments import has_moments, residual_moments, size_of
from fubini.errors import Intractable, listed
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian
from fubini.factors.promotion import promoted
from fubini.numerics.linear_fits import (
    LinearFit,
    NoiseRows,
    Normal,
    Residuals,
    given_information,
    given_zero,
    to_rows,
    with_linear,
)
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Reals, places
from fubini.terms.factor import Factor, Weight
from fubini.terms.value import Apply, Array, Value, apply, to_array

POINT = Bound("sigma point")

Fit = Callable[[Callable[[Data], Residuals], Normal], LinearFit]


@dataclass(frozen=True)
class Stage:
    """Terms that are taken together: those that give variables `moves`, or what is seen of variables that are known.

    `linear` and `fitted` are places of terms; the fitted ones are fitted over `names`.
    """

    moves: Reals
    linear: tuple[int, ...]
    fitted: tuple[int, ...]
    names: Reals


def stages_of(terms: Sequence[Factor], known: Reals, unknown: Reals, asked: str) -> list[Stage]:
    """The stages of some terms, from variables that are known to all of them."""
    states = {name for name, _ in (*known, *unknown)}
    waiting = {place: states & set(term.inputs) for place, term in enumerate(terms)}
    waiting = {place: names for place, names in waiting.items() if names}
    is_linear = [isinstance(promoted(term), Gaussian) for term in terms]
    stages: list[Stage] = []

    def take(taken: Sequence[int], moves: Reals) -> None:
        used = {name for place in taken for name in waiting.pop(place) if not is_linear[place]}
        names = tuple(pair for pair in known if pair[0] in used)
        linear = tuple(place for place in taken if is_linear[place])
        stages.append(Stage(moves, linear, tuple(place for place in taken if not is_linear[place]), names))

    def seen() -> list[int]:
        return [place for place, names in waiting.items() if names <= {name for name, _ in known}]

    if ready := seen():
        take(ready, ())
    while unknown:
        ready, new = _movers(terms, waiting, {n for n, _ in known}, {n for n, _ in unknown})
        if not ready:
            raise _no_movers(terms, unknown, asked)
        moves = tuple(pair for pair in unknown if pair[0] in new)
        take(ready, moves)
        known, unknown = (*known, *moves), tuple(pair for pair in unknown if pair[0] not in new)
    if ready := seen():
        take(ready, ())
    return stages


def _movers(
    terms: Sequence[Factor], waiting: Mapping[int, set[Name]], known: set[Name], unknown: set[Name]
) -> tuple[list[int], set[Name]]:
    """The terms that give variables from those that are known: their densities; else Gaussians that hold them."""
    by_name: dict[Name, int] = {}
    for place, names in waiting.items():
        own = terms[place].own
        if own in unknown and names - {own} <= known:
            by_name.setdefault(own, place)
    if by_name:
        return list(by_name.values()), set(by_name)
    plain = [place for place, names in waiting.items() if isinstance(terms[place], Gaussian) and names & unknown]
    held = {name for place in plain for name in waiting[place] & unknown}
    return plain, held


def _no_movers(terms: Sequence[Factor], unknown: Reals, asked: str) -> Intractable:
    names = listed(name for name, _ in unknown)
    return Intractable(
        asked,
        expected=f"a density of {names} that says where it is: a Normal, MultivariateNormal, …",
        nearest=f"factors {listed(str(term) for term in terms)}",
        advice="write it as a distribution of the state, with some noise: dist.Normal(f(x), scale)('x_next')",
    )


# -- one stage at a time --------------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Bounded integers, other than the time, that the numbers of a step depend on, and the type of the numbers."""

    batch: Mapping[Name, Domain]
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the batch."""
        return tuple(domain.extent for domain in self.batch.values())

    def spread(self, value: Array, event: int) -> Data:
        """The numbers over all cells."""
        return self.over(value.array, value.names, event)

    def over(self, data: Data, names: Sequence[Name], event: int) -> Data:
        """An array over all cells."""
        data = align(jnp.asarray(data), tuple(names), tuple(self.batch), event)
        rank = len(self.batch)
        full = jnp.broadcast_to(data, (*self.shape, *data.shape[rank:]))
        return jax.lax.convert_element_type(full, self.dtype)

    def nothing(self) -> Normal:
        """The moments of no variables."""
        return Normal(jnp.zeros((*self.shape, 0), self.dtype), jnp.zeros((*self.shape, 0, 0), self.dtype))


def used_by(stage: Stage, terms: Sequence[Factor]) -> set[Name]:
    """The inputs of its terms."""
    return {name for place in (*stage.linear, *stage.fitted) for name in terms[place].inputs}


def fit_stage(stage: Stage, terms: Sequence[Factor], known: Reals, now: Normal, cells: Cells, fit: Fit) -> LinearFit:
    """Its densities that are not linear as linear functions of their variables, at the moments of those known."""
    values = [conditional_of(terms[place]) for place in stage.fitted]
    at = part_of(now, known, stage.names)
    return fit(lambda points: _residuals(values, points, stage, cells), at)


def rows_of(stage: Stage, fit: LinearFit) -> NoiseRows:
    """The rows of a fit over its variables, and over those that it moves behind."""
    if not stage.moves:
        return to_rows(fit)
    eye = jnp.broadcast_to(jnp.eye(fit.slope.shape[-2], dtype=fit.slope.dtype), (*fit.covariance.shape,))
    return to_rows(fit._replace(slope=jnp.concatenate([fit.slope, eye], axis=-1)))


def variables_of(stage: Stage, terms: Sequence[Factor]) -> Reals:
    """The variables of the rows of a stage."""
    moved = dict(stage.moves)
    own = [terms[place].own for place in stage.fitted] if stage.moves else []
    return (*stage.names, *((name, moved[name]) for name in own if name is not None))


def advance(
    stage: Stage, terms: Sequence[Factor], known: Reals, now: Normal, cells: Cells, fit: LinearFit | None
) -> tuple[Reals, Normal]:
    """The moments after a stage, of all variables that are then known."""
    linear = [promoted(terms[place]) for place in stage.linear]
    if not stage.moves:
        return known, _seen(stage, linear, known, now, cells, fit)
    size, new = _size(known), _size(stage.moves)
    F: Data = jnp.zeros((*cells.shape, new, size), cells.dtype)
    b, C = jnp.zeros((*cells.shape, new), cells.dtype), jnp.zeros((*cells.shape, new, new), cells.dtype)
    for g, names in _grouped(stage, linear):
        moved = g.conditional(*names)
        rest = tuple(pair for pair in g.reals if pair[0] not in names)
        rows, columns = _spread(tuple((n, g.inputs[n]) for n in names), stage.moves), _spread(rest, known)
        F = F + rows.T @ cells.over(moved.slope, moved.names, 2) @ columns
        b = b + cells.over(moved.mean, moved.mean_names, 1) @ rows
        C = C + rows.T @ cells.over(moved.covariance, moved.names, 2) @ rows
        remaining = g.sum(*names)
        if isinstance(remaining, Gaussian):
            now = given_information(now, *_information([remaining], known, cells))
    if fit is not None:
        rows = _spread(variables_of(stage, terms)[len(stage.names) :], stage.moves)
        F = F - rows.T @ fit.slope @ _spread(stage.names, known)
        b = b - fit.offset @ rows
        C = C + rows.T @ (fit.covariance + fit.spread) @ rows
    return (*known, *stage.moves), with_linear(now, F, b, C)


def _grouped(stage: Stage, linear: Sequence[Factor]) -> list[tuple[Gaussian, tuple[Name, ...]]]:
    """Each Gaussian that moves variables, and these; those that share some are one."""
    groups: list[tuple[Any, set[Name]]] = []
    for g in linear:
        names = {name for name, _ in stage.moves} & set(g.inputs)
        near = [each for each in groups if each[1] & names]
        groups = [each for each in groups if not each[1] & names]
        groups.append((combined([*(each[0] for each in near), g]), names.union(*(each[1] for each in near))))
    order = [name for name, _ in stage.moves]
    return [(g, tuple(sorted(names, key=order.index))) for g, names in groups]


def _seen(
    stage: Stage, linear: Sequence[Any], known: Reals, now: Normal, cells: Cells, fit: LinearFit | None
) -> Normal:
    if linear:
        now = given_information(now, *_information(linear, known, cells))
    return now if fit is None else given_zero(now, fit._replace(slope=fit.slope @ _spread(stage.names, known)))


def _information(gaussians: Sequence[Gaussian], known: Reals, cells: Cells) -> tuple[Data, Data]:
    """K and h of a product of Gaussians, over all variables that are known."""
    size = _size(known)
    K, h = jnp.zeros((*cells.shape, size, size), cells.dtype), jnp.zeros((*cells.shape, size), cells.dtype)
    for g in gaussians:
        columns = _spread(g.reals, known)
        K = K + columns.T @ cells.spread(g.precision, 2) @ columns
        h = h + cells.spread(g.info, 1) @ columns
    return K, h


def _residuals(values: Sequence[Value], points: Data, stage: Stage, cells: Cells) -> Residuals:
    """Those of all terms end to end, at points over (*cells, point, element); what they move is taken as zero."""
    count = points.shape[-2]
    names = (*cells.batch, POINT)
    inputs = {**cells.batch, POINT: Bint[count]}
    at: dict[Name, Value] = {
        name: Array._of(jnp.zeros(domain.shape, points.dtype), (), {}, domain) for name, domain in stage.moves
    }
    for name, domain in stage.names:
        place = places(stage.names)[name]
        data = points[..., place.start : place.stop].reshape((*points.shape[:-1], *domain.shape))
        at[name] = Array._of(data, names, inputs, domain)
    each = [_split(to_array(value.replaced(at)), names, points) for value in values]
    return Residuals(
        jnp.concatenate([part.values for part in each], axis=-1),
        reduce(_beside, (part.covariance for part in each)),
        jnp.concatenate([part.power for part in each], axis=-1),
    )


def _split(array: Array, names: Sequence[Name], points: Data) -> Residuals:
    size = size_of(array.output.shape[0])
    data = align(jnp.asarray(array.array), array.names, tuple(names), 1)
    data = jnp.broadcast_to(data, (*points.shape[:-1], data.shape[-1])).astype(points.dtype)
    covariance = data[..., size : size + size * size]
    return Residuals(data[..., :size], covariance.reshape((*data.shape[:-1], size, size)), data[..., -size:])


def _beside(first: Data, second: Data) -> Data:
    """Two blocks on a diagonal."""
    m, n = first.shape[-1], second.shape[-1]
    lead = [(0, 0)] * (first.ndim - 2)
    return jnp.pad(first, [*lead, (0, n), (0, n)]) + jnp.pad(second, [*lead, (m, 0), (m, 0)])


# -- densities by two moments ---------------------------------------------------------------------------------------


def conditional_of(term: Factor) -> Value:
    """Residual, covariance and powers of a density, whose family has these."""
    found = _conditional(term)
    if found is None:
        raise Intractable(
            f"a linearised {term}",
            expected="a density of a family that has a mean and a covariance: Normal, MultivariateNormal, Poisson, …",
            nearest=f"a {type(term).__name__}",
            advice="write it as a distribution at a value: dist.Normal(f(x), scale)(y); or ask fb.rep.Particles, "
            "which takes any function",
        )
    return found


def _conditional(term: Factor) -> Value | None:
    if isinstance(term, Density):
        return _moments(term.distribution.blueprint, (term.value, *term.distribution.leaf_values))
    return _of_log(term.value) if isinstance(term, Weight) else None


def _of_log(log: Value) -> Value | None:
    """Those of exp(s log p)"""
    if not isinstance(log, Apply):
        return None
    function = getattr(log.op.function, "function", None)
    if isinstance(function, LogProbability):
        return _moments(function.blueprint, log.args)
    if log.op is ops.where:  # a mark of an index that is not known to be in range
        inner = _of_log(log.args[1])
        return None if inner is None else apply(ops.where, log.args[0], inner, log.args[2])
    if log.op is ops.multiply:
        for first, second in (log.args, log.args[::-1]):
            inner = _of_log(first)
            if inner is not None:
                return apply(_raised, inner, second)
    return None


def _moments(blueprint: Any, args: Sequence[Value]) -> Value | None:
    if not has_moments(blueprint):
        return None
    try:
        return apply(residual_moments(blueprint), *args)
    except NotImplementedError:
        return None


def _raise(moments: Data, power: Data) -> Data:
    """The moments of a density to a power."""
    size = size_of(moments.shape[-1])
    return jnp.concatenate([moments[..., :-size], moments[..., -size:] * power], axis=-1)


_raised = ops.lift(_raise)


# -- layout ---------------------------------------------------------------------------------------------------------


def _size(reals: Reals) -> int:
    return sum(map(len, places(reals).values()))


def _spread(part: Reals, whole: Reals) -> np.ndarray:
    """The matrix that takes the elements of some variables to their places among all: a product, as XLA has it fast."""
    at = places(whole)
    columns = [k for name, _ in part for k in at[name]]
    return np.eye(_size(whole), dtype=np.int8)[columns].reshape(len(columns), _size(whole))


def part_of(now: Normal, known: Reals, part: Reals) -> Normal:
    """The moments of some of the variables, in their order."""
    if part == known:
        return now
    columns = _spread(part, known)
    return Normal(now.mean @ columns.T, columns @ now.covariance @ columns.T)
