"""Nodes as array programs: each index an axis, a sum under a test of an index a sum by segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.arrays import Data
from fubini.factors.small_matrices import orthogonal_triangular
from fubini.index.build import opened
from fubini.index.node import Index, Leaf, Node

FUNCTIONS: dict[str, Callable[..., Data]] = {
    "exp": jnp.exp,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "expm1": jnp.expm1,
    "lgamma": jax.scipy.special.gammaln,
    "digamma": jax.scipy.special.digamma,
    "erf": jax.scipy.special.erf,
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "abs": jnp.abs,
    "sign": jnp.sign,
    "floor": jnp.floor,
    "int": jnp.floor,
    "logistic": jax.nn.sigmoid,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "pow": jnp.power,
}


class Axes(NamedTuple):
    """Numbers along the axes of some indices."""

    data: Data
    of: tuple[Index, ...]


def evaluate(root: Node, arrays: Mapping[Leaf, Data], order: Sequence[Index] = ()) -> Data:
    """The numbers of a node over its free indices, in this order."""
    return _aligned(Evaluation(arrays).of(root), tuple(order))


class Evaluation:
    """Values of nodes, each computed once."""

    def __init__(self, arrays: Mapping[Leaf, Data]) -> None:
        self.arrays = arrays
        self.memo: dict[Node, Axes] = {}
        self.triangles: dict[tuple, Data] = {}

    def of(self, this: Node) -> Axes:
        """The numbers of a node over its free indices, in some order."""
        found = self.memo.get(this)
        if found is None:
            found = self.memo[this] = getattr(self, f"_{this.kind}")(this)
        return found

    def _const(self, this: Node) -> Axes:
        return Axes(jnp.asarray(this.args[0]), ())

    def _index(self, this: Node) -> Axes:
        i = this.args[0]
        assert isinstance(i, Index), "a bound index outside its binder"
        return Axes(jnp.arange(i.size), (i,))

    def _get(self, this: Node) -> Axes:
        leaf, *at = this.args
        array = jnp.asarray(self.arrays[leaf])
        if all(part.kind == "index" for part in at) and len(set(at)) == len(at):
            axes = tuple(part.args[0] for part in at)
            if all(i.size <= size for i, size in zip(axes, array.shape, strict=True)):
                return Axes(array[tuple(slice(i.size) for i in axes)], axes)
        places = [self.of(part) for part in at]
        axes = _union(places)
        spread = [_aligned(place, axes).astype(int) for place in places]
        inside = [jnp.clip(place, 0, size - 1) for place, size in zip(spread, array.shape, strict=True)]
        return Axes(jnp.broadcast_to(array[tuple(inside)], tuple(i.size for i in axes)), axes)

    def _add(self, this: Node) -> Axes:
        parts = [self.of(part) for part, _ in this.args]
        axes = _union(parts)
        coefficients = [coefficient for _, coefficient in this.args]
        return Axes(sum(c * _aligned(part, axes) for part, c in zip(parts, coefficients, strict=True)), axes)

    def _mul(self, this: Node) -> Axes:
        return _product([(self.of(base), exponent) for base, exponent in this.args])

    def _call(self, this: Node) -> Axes:
        parts = [self.of(part) for part in this.args[1:]]
        axes = _union(parts)
        return Axes(FUNCTIONS[this.args[0]](*(_aligned(part, axes) for part in parts)), axes)

    def _eq(self, this: Node) -> Axes:
        a, b, axes = self._pair(this)
        return Axes((a == b).astype(float), axes)

    def _lt(self, this: Node) -> Axes:
        a, b, axes = self._pair(this)
        return Axes((a < b).astype(float), axes)

    def _pair(self, this: Node) -> tuple[Data, Data, tuple[Index, ...]]:
        parts = [self.of(part) for part in this.args]
        axes = _union(parts)
        return *(_aligned(part, axes) for part in parts), axes  # type: ignore[return-value]

    def _where(self, this: Node) -> Axes:
        parts = [self.of(part) for part in this.args]
        axes = _union(parts)
        test, first, second = (_aligned(part, axes) for part in parts)
        return Axes(jnp.where(test != 0, first, second), axes)

    def _logdet(self, this: Node) -> Axes:
        return Axes(2 * jnp.sum(jnp.log(jnp.abs(jnp.diagonal(self._triangle(this))[:-1]))), ())

    def _rss(self, this: Node) -> Axes:
        return Axes(self._triangle(this)[-1, -1] ** 2, ())

    def _triangle(self, this: Node) -> Data:
        """R of the rows √weight · (slopes, offset), the offset last."""
        key = this.args  # one triangle for both
        if key not in self.triangles:
            size = this.args[0]
            rows = jnp.concatenate([self._rows(part, size) for part in this.args[1:]])
            padding = jnp.zeros((max(0, size + 1 - len(rows)), size + 1), rows.dtype)
            self.triangles[key] = orthogonal_triangular(jnp.concatenate([rows, padding]))[1]
        return self.triangles[key]

    def _rows(self, this: Node, size: int) -> Data:
        """√weight · (slopes, offset) for each row."""
        over, body = opened(this)
        weight, offset, *slopes = body.args[1:]
        shape = tuple(i.size for i in over)
        matrix = jnp.zeros((math.prod(shape), size))
        for slope in slopes:
            inner, entry = opened(slope)
            place, coefficient = entry.args[1:]
            axes = (*over, *inner)
            full = tuple(i.size for i in axes)
            columns = jnp.broadcast_to(_aligned(self.of(place), axes), full).astype(int).reshape(len(matrix), -1)
            numbers = jnp.broadcast_to(_aligned(self.of(coefficient), axes), full).reshape(len(matrix), -1)
            matrix = matrix.at[jnp.arange(len(matrix))[:, None], columns].add(numbers)
        right = jnp.broadcast_to(_aligned(self.of(offset), over), shape).reshape(-1, 1)
        scale = jnp.sqrt(jnp.broadcast_to(_aligned(self.of(weight), over), shape).reshape(-1, 1))
        return scale * jnp.concatenate([matrix, right], axis=1)

    def _lse(self, this: Node) -> Axes:
        over, body = opened(this)
        found = self.of(body)
        axes = tuple(i for i in found.of if i not in over)
        data = _aligned(found, (*axes, *over))
        count = len(over)
        return Axes(jax.scipy.special.logsumexp(data, axis=tuple(range(data.ndim - count, data.ndim))), axes)

    def _sum(self, this: Node) -> Axes:
        over, body = opened(this)
        factors = list(body.args) if body.kind == "mul" else [(body, 1.0)]
        tests = self._segments(factors, over)
        if tests:
            return self._by_segments(over, factors, tests)
        found = self._at_entries(over, factors)
        kept = tuple(i for i in found.of if i not in over)
        missing = math.prod(i.size for i in over if i not in found.of)
        gone = tuple(axis for axis, i in enumerate(found.of) if i in over)
        return Axes(jnp.sum(found.data, axis=gone) * missing, kept)

    def _at_entries(self, over: tuple[Index, ...], factors: list[tuple[Node, float]]) -> Axes:
        """The product of factors; under a test [i = e] of a summed index, what depends on i is read at e alone."""
        for place, (base, _) in enumerate(factors):
            for one, entry in (base.args, base.args[::-1]) if base.kind == "eq" else ():
                if one.kind == "index" and one.args[0] in over and one.args[0] not in entry.free:
                    i, at = one.args[0], self.of(entry)
                    rest = [factor for other, factor in enumerate(factors) if other != place]
                    parts = [(_taken(self.of(part), i, at), exponent) for part, exponent in rest]
                    inside = Axes(((at.data >= 0) & (at.data < i.size)).astype(float) / i.size, at.of)
                    return _product([*parts, (inside, 1.0)])  # over the sum of i, which no part has any more
        return _product([(self.of(base), exponent) for base, exponent in factors])

    def _segments(
        self, factors: Sequence[tuple[Node, float]], over: tuple[Index, ...]
    ) -> dict[int, tuple[Index, Node]]:
        """Tests [e = c] of an index c from outside that no other factor has, with e in the indices summed."""
        found: dict[int, tuple[Index, Node]] = {}
        for place, (base, _) in enumerate(factors):
            if base.kind != "eq":
                continue
            for one, other in (base.args, base.args[::-1]):
                free = one.kind == "index" and one.args[0] not in over
                others = [part for spot, (part, _) in enumerate(factors) if spot != place]
                if free and other.free <= set(over) and not any(one.args[0] in part.free for part in others):
                    found[place] = (one.args[0], other)
        return found

    def _by_segments(self, over: tuple[Index, ...], factors: list, tests: dict[int, tuple[Index, Node]]) -> Axes:
        """Σ_J [e(J) = c] k(J), for all c at once"""
        rest = [(self.of(base), power) for place, (base, power) in enumerate(factors) if place not in tests]
        found = _product(rest) if rest else Axes(jnp.ones(()), ())
        kept = tuple(i for i in found.of if i not in over)
        data = jnp.broadcast_to(_aligned(found, (*over, *kept)), tuple(i.size for i in (*over, *kept)))
        classes = tuple(i for i, _ in tests.values())
        places = [_aligned(self.of(entry), over).astype(int) for _, entry in tests.values()]
        shape = tuple(i.size for i in over)
        flat = jnp.zeros(shape, int)
        inside = jnp.ones(shape, bool)
        for place, i in zip(places, classes, strict=True):
            flat = flat * i.size + place
            inside &= (place >= 0) & (place < i.size)
        count = math.prod(i.size for i in classes)
        target = jnp.where(inside, flat, count).reshape(-1)
        summed = jax.ops.segment_sum(data.reshape(-1, *data.shape[len(over) :]), target, count + 1)[:count]
        return Axes(summed.reshape(*(i.size for i in classes), *data.shape[len(over) :]), (*classes, *kept))


def _union(parts: Sequence[Axes]) -> tuple[Index, ...]:
    return tuple(dict.fromkeys(i for part in parts for i in part.of))


def _aligned(part: Axes, axes: tuple[Index, ...]) -> Data:
    """With an axis for each of these indices; those it does not have are of one entry."""
    order = [part.of.index(i) for i in axes if i in part.of]
    shape = [i.size if i in part.of else 1 for i in axes]
    return jnp.transpose(part.data, order).reshape(shape) if axes else part.data


def _product(parts: Sequence[tuple[Axes, float]]) -> Axes:
    axes = _union([part for part, _ in parts])
    found: Any = 1.0
    for part, exponent in parts:
        found = found * _raised(_aligned(part, axes), exponent)
    return Axes(jnp.broadcast_to(found, tuple(i.size for i in axes)), axes)


def _taken(part: Axes, i: Index, at: Axes) -> Axes:
    """A part that depends on i, read at i = at."""
    if i not in part.of:
        return part
    others = tuple(other for other in part.of if other is not i)
    kept = tuple(other for other in others if other not in at.of)
    places = jnp.clip(at.data.astype(int), 0, i.size - 1)
    shared = tuple(other for other in others if other in at.of)
    data = jnp.transpose(part.data, [part.of.index(other) for other in (i, *shared, *kept)])
    grid = [jnp.arange(other.size).reshape([-1 if o is other else 1 for o in at.of]) for other in shared]
    return Axes(data[(places, *grid)], (*at.of, *kept))


def _raised(data: Data, exponent: float) -> Data:
    if exponent == 1:
        return data
    if exponent == 0.5:
        return jnp.sqrt(data)
    if exponent == -0.5:
        return jax.lax.rsqrt(data * 1.0)
    return data ** (int(exponent) if exponent == int(exponent) else exponent)
