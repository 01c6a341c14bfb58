"""Piecewise: another factor in each box of a grid of cuts through real variables.

f(x, y) = parts(q(x), x, y), where q counts, for each axis that is cut, the edges below x there. The parts are one
factor over these indices, of any representation: a table (a function that jumps at the edges), or a Gaussian in each
box.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.domains import Bint, Domain, Real, merge_inputs
from fubini.base.names import Bound, Name
from fubini.base.semirings import sum_product
from fubini.errors import DataError, Intractable, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.integer_moments import mean_given_others, variance_given_others
from fubini.factors.piecewise_boxes import from_boxes
from fubini.factors.piecewise_moments import Cut, PieceMoments, indices_of, piece_moments, uniform_moments
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.factors.table_rules import divide_tables
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import places
from fubini.show.notation import Call, Notation, Symbol
from fubini.show.printed_form import Block, Expression, Words
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, rename, substitute, to_factor
from fubini.terms.fields import static_field, term_field
from fubini.terms.term import typed_names
from fubini.terms.value import Array, Value, Variable, to_array

SHOWN = 12  # axes that are cut and printed


class Piecewise(Factor):
    """A factor for each box of real variables; zero outside of all boxes.

    A box has an interval (low, high) for each of some variables, or a list of intervals, one for each element; None
    stands for the whole line. The boxes may not overlap.

    >>> half = Piecewise([({"x": (0.0, np.inf)}, fb.dist.Normal(0.0, 1.0)("x"))])
    >>> float(half.sum("x")), float(half.mean("x")), float(half.variance("x"))
    (0.5..., 0.797884..., 0.36338...)
    """

    parts: Factor = term_field()
    edges: tuple[Array, ...] = term_field()  # sorted, of shape (m,), for each cut
    cuts: tuple[Cut, ...] = static_field()
    reals: tuple[tuple[Name, Domain], ...] = static_field()  # the variables that are cut

    def __init__(self, pieces: Sequence[tuple[Mapping[Name, Any], Any]]) -> None:
        made = Piecewise._of(*from_boxes([(dict(box), to_factor(factor)) for box, factor in pieces]))
        self._set(**{key: made.__dict__[key] for key in ("parts", "edges", "cuts", "reals", "inputs")})

    @classmethod
    def _of(
        cls, parts: Factor, cuts: Sequence[Cut], edges: Sequence[Array], reals: Sequence[tuple[Name, Domain]]
    ) -> Piecewise:
        """The pieces as they are, unchecked."""
        new = object.__new__(cls)
        hidden = {cut.interval for cut in cuts}
        own = {name: domain for name, domain in parts.inputs.items() if name not in hidden}
        batch = {name: domain for edge in edges for name, domain in edge.inputs.items()}
        inputs = merge_inputs(own, dict(reals), batch)
        new._set(parts=parts, edges=tuple(edges), cuts=tuple(cuts), reals=tuple(reals), inputs=inputs)
        return new

    def with_parts(self, parts: Factor) -> Piecewise:
        """Other parts in the same boxes."""
        return Piecewise._of(parts, self.cuts, self.edges, self.reals)

    @property
    def exactness(self) -> Exactness:
        return self.parts.exactness

    @property
    def is_known_zero(self) -> bool:
        return self.parts.is_known_zero

    @property
    def cut_names(self) -> tuple[Name, ...]:
        return tuple(dict(self.reals))

    @property
    def is_of_points(self) -> bool:
        """Whether its mass stands at points: the middles of the boxes, as that of answers on a grid.

        >>> Piecewise([({"x": (0.0, 1.0)}, fb.Table(1.0))]).is_of_points
        False
        """
        return isinstance(promoted(self.parts), Table) and all(cut.at_middle for cut in self.cuts)

    @property
    def indices(self) -> dict[Name, Domain]:
        """The hidden indices, which say in which box a point is."""
        return indices_of(self.cuts, self.edges)

    @property
    def _real_order(self) -> tuple[tuple[Name, Domain], ...]:
        """The real variables in the order in which the moments have their elements."""
        parts = promoted(self.parts)
        return parts.reals if isinstance(parts, Gaussian) else self.reals

    def positions(self, values: Mapping[Name, Value]) -> dict[Name, Value]:
        """The hidden indices at points of the variables that are cut: the number of edges below."""
        at = {}
        for cut, edge in zip(self.cuts, self.edges, strict=True):
            if cut.name in values:
                point = _element(values[cut.name], cut.element)
                below = [ops.greater(point, edge[k]) for k in range(edge.output.shape[0])]
                at[cut.interval] = reduce(ops.add, below)
        return at

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        cuts = [cut._replace(name=names.get(cut.name, cut.name)) for cut in self.cuts]
        edges = [_renamed_array(edge, names) for edge in self.edges]
        reals = [(names.get(name, name), domain) for name, domain in self.reals]
        return Piecewise._of(rename(self.parts, names), cuts, edges, reals)

    def _marked(self, mark: Exactness) -> Factor:
        return self.with_parts(self.parts._marked(mark))

    def _evaluated(self, children: tuple) -> Factor:
        parts, *edges = children
        return Piecewise._of(parts, self.cuts, [to_array(edge) for edge in edges], self.reals)

    def _log(self) -> Value:
        here = {name: Variable(name, domain) for name, domain in self.reals}
        return self.parts.log().replaced(self.positions(here))

    # -- moments ----------------------------------------------------------------------------------------------------

    def moments(self) -> PieceMoments:
        """Mass, mean and covariance of the real variables in each box."""
        parts = promoted(self.parts)
        if isinstance(parts, Table):
            return uniform_moments(self._require_bounded(parts), self.cuts, self.edges, self.reals)
        if not isinstance(parts, Gaussian):
            raise Intractable(
                f"the moments of {self}", expected="Gaussian parts", nearest=f"they are a {type(parts).__name__}"
            )
        return piece_moments(parts, self.cuts, self.edges)

    def _require_bounded(self, parts: Table) -> Table:
        """Raise where constant parts have no mass: an element that is not cut, or weight in an unbounded box."""
        ends = [
            parts.at({cut.interval: end}) if cut.interval in parts.inputs else parts
            for cut in self.cuts
            for end in (0, self.indices[cut.interval].extent - 1)
        ]
        if sum(math.prod(domain.shape) for _, domain in self.reals) > len(self.cuts):
            raise self._unbounded()
        xp = namespace(parts.pair.weights)
        empty = xp.stack([xp.all(end.pair.weights == 0) for end in ends])
        (weights,) = require(xp.all(empty), self._unbounded, parts.pair.weights)
        return Table._of(parts.pair._replace(weights=weights), parts.inputs, parts.exactness)

    def _unbounded(self) -> DataError:
        return DataError(
            f"the mass over {listed(dict(self.reals))} of {self}, which is constant in boxes without bound",
            expected="boxes with bounds on every axis, or parts that fall off: Gaussians",
            advice="multiply by a density of these variables first",
        )

    def _averages(self, name: Name) -> tuple[Array, Data, Data, tuple[Name, ...]]:
        """Shares of the boxes, and mean and covariance of a variable in each, over the names."""
        pieces = self.moments()
        inputs = {**pieces.mass.inputs, **{key: self._sizes[key] for key in pieces.names}}
        names = tuple(inputs)
        total = pieces.mass.reduced(sum_product, [key for key in names if key in self.indices])
        shares = to_array(divide_tables(pieces.mass, total).numbers())
        place = places(self._real_order)[name]
        mean = align(pieces.mean, pieces.names, names, 1)[..., place.start : place.stop]
        square = align(pieces.covariance, pieces.names, names, 2)
        covariance = square[..., place.start : place.stop, place.start : place.stop]
        return Array._of(align(shares.array, shares.names, names), names, inputs, Real), mean, covariance, names

    @property
    def _sizes(self) -> dict[Name, Domain]:
        return {**self.parts.inputs, **self.indices, **self.inputs}

    def _mean(self, name: Name) -> Value:
        """Σ_q share(q) · mean(q)"""
        if self.inputs[name].is_finite:
            return mean_given_others(self, name)
        self._require_alone(name)
        shares, mean, _, names = self._averages(name)
        return self._summed(shares, mean, names, self.inputs[name].shape)

    def _covariance(self, name: Name) -> Value:
        """Σ_q share(q) · (covariance(q) + (mean(q) − mean)(mean(q) − mean)ᵀ)"""
        if self.inputs[name].is_finite:
            return variance_given_others(self, name)
        self._require_alone(name)
        shares, mean, covariance, names = self._averages(name)
        axes = tuple(k for k, key in enumerate(names) if key in self.indices)
        centre = (shares.array[..., None] * mean).sum(axis=axes, keepdims=True)
        spread = covariance + _outer(mean - centre)
        return self._summed(shares, spread, names, self.inputs[name].shape * 2)

    def _require_alone(self, name: Name) -> None:
        """Raise where other real variables are inputs: moments given these are not those of the boxes."""
        others = [other for other, domain in self.inputs.items() if other != name and not domain.is_finite]
        if others:
            raise Intractable(
                f"a moment of {name!r} given {listed(others)} under {self}",
                expected=f"{name!r} alone among the real variables",
                advice=f"observe {listed(others)}, sum what is not cut out first, or ask for `fb.expectation(f, v)`",
            )

    def _summed(self, shares: Array, values: Data, names: tuple[Name, ...], shape: tuple[int, ...]) -> Array:
        axes = tuple(k for k, key in enumerate(names) if key in self.indices)
        weights = shares.array.reshape(shares.array.shape + (1,) * (values.ndim - len(names)))
        data = (weights * values).sum(axis=axes)
        rest = tuple(key for key in names if key not in self.indices)
        data = data.reshape((*data.shape[: len(rest)], *shape))
        return Array._of(data, rest, shares.inputs, Real.with_shape(shape), self.exactness)

    def _form(self) -> Iterable[Block]:
        """The variables, and where each is cut."""
        yield Expression(Call("Piecewise", typed_names(self.inputs)))
        for cut, edge in itertools.islice(zip(self.cuts, self.edges, strict=True), SHOWN):
            axis = f"{cut.name}[{cut.element}]" if dict(self.reals)[cut.name].shape else f"{cut.name}"
            yield Words(f"cut at {axis} = {edge}", 2)
        if len(self.cuts) > SHOWN:
            yield Words(f"… {len(self.cuts) - SHOWN:,} more", 2)

    def notation(self) -> Notation:
        cuts = [
            Symbol(f"{cut.name}[{cut.element}]" if dict(self.reals)[cut.name].shape else str(cut.name))
            for cut in self.cuts
        ]
        return Call("Piecewise", (self.parts.notation(), *cuts))


def _outer(gap: Data) -> Data:
    return gap[..., :, None] * gap[..., None, :]


def _element(value: Value, element: int) -> Value:
    shape = value.output.shape
    return value[tuple(int(k) for k in np.unravel_index(element, shape))] if shape else value


def _renamed_array(array: Array, names: Mapping[Name, Name]) -> Array:
    own = tuple(names.get(name, name) for name in array.names)
    inputs = {names.get(name, name): domain for name, domain in array.inputs.items()}
    return Array._of(array.array, own, inputs, array.output, array.mark)


# -- the same boxes -------------------------------------------------------------------------------------------------


def refined(f: Piecewise, g: Piecewise) -> tuple[Factor, Factor, Callable[[Factor], Piecewise]]:
    """The parts of two factors over one set of boxes, and how to make a Piecewise of new parts there."""
    cuts, edges = list(f.cuts), list(f.edges)
    f_at: dict[Name, Value] = {}
    g_at: dict[Name, Value] = {}
    for cut, edge in zip(g.cuts, g.edges, strict=True):
        place = next((k for k, own in enumerate(cuts) if own[:2] == cut[:2]), None)
        if place is None:
            fresh = cut._replace(interval=Bound(cut.interval.label))
            g_at[cut.interval] = Variable(fresh.interval, g.indices[cut.interval])
            cuts.append(fresh)
            edges.append(edge)
        elif _same_edges(edges[place], edge):
            g_at[cut.interval] = Variable(cuts[place].interval, g.indices[cut.interval])
        else:
            own = cuts[place]
            both, of_f, of_g = _merged(edges[place], edge, Bound(own.interval.label))
            f_at[own.interval], g_at[cut.interval] = of_f, of_g
            edges[place] = both
            cuts[place] = own._replace(interval=of_f.names[-1], at_middle=False)  # type: ignore[arg-type]
    reals = tuple(merge_inputs(dict(f.reals), dict(g.reals)).items())
    return substitute(f.parts, f_at), substitute(g.parts, g_at), lambda parts: Piecewise._of(parts, cuts, edges, reals)


def _same_edges(a: Array, b: Array) -> bool:
    if a.array is b.array or a is b:
        return True
    if a.names != b.names or is_traced(a.array, b.array) or a.array.shape != b.array.shape:
        return False
    return bool(np.array_equal(np.asarray(a.array), np.asarray(b.array)))


def _merged(a: Array, b: Array, index: Bound) -> tuple[Array, Array, Array]:
    """All edges in order, and for each interval between them that of `a` and that of `b` which holds it.

    An edge of both is there twice; the empty interval between has the factors of the next one.
    """
    inputs = merge_inputs(a.inputs, b.inputs)
    names = tuple(inputs)
    xp = namespace(a.array, b.array)
    shape = tuple(domain.extent for domain in inputs.values())
    sides = [_broadcast(xp, edge, names, shape) for edge in (a, b)]
    edges = xp.sort(xp.concatenate(sides, axis=-1), axis=-1)
    low = xp.concatenate([xp.full((*shape, 1), -np.inf, edges.dtype), edges], axis=-1)
    domain = {**inputs, index: Bint[edges.shape[-1] + 1]}
    made = []
    for side in sides:
        below = xp.sum(side[..., None, :] <= low[..., :, None], axis=-1)
        made.append(Array._of(below, (*names, index), domain, Bint[side.shape[-1] + 1]))
    return Array._of(edges, names, inputs, Real[edges.shape[-1]]), made[0], made[1]


def _broadcast(xp: Any, edge: Array, names: tuple[Name, ...], shape: tuple[int, ...]) -> Data:
    return xp.broadcast_to(align(edge.array, edge.names, names, 1), (*shape, edge.output.shape[0]))
