"""Two representations from outside the package: a step function of one real variable, and the indicator of an interval.

`Steps` has rules of its own; `Box` has the few it needs, and the promotion lattice makes it Steps for the others.
No file of the package knows of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import jax.scipy.stats
import numpy as np

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.factors.promotion import promotion
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Weight, substitute
from fubini.terms.fields import array_field, static_field, term_field
from fubini.terms.value import is_enumerable

BIN = Bound("bin")
REDUCED = (fb.sum_product, fb.max_product)


class Steps(fb.Factor):
    """heights(k, …) where edges[k] ≤ x < edges[k + 1], and 0 elsewhere."""

    heights: fb.Table = term_field()  # over BIN, and bounded integers
    name: Name = static_field()
    edges: tuple[float, ...] = static_field()

    def __init__(self, name: Name, edges: Sequence[float], heights: fb.Table) -> None:
        batch = {other: domain for other, domain in heights.inputs.items() if other is not BIN}
        self._set(name=name, edges=tuple(edges), heights=heights, inputs={**batch, name: fb.Real})

    def with_heights(self, heights: fb.Factor) -> Steps:
        assert isinstance(heights, fb.Table)
        return Steps(self.name, self.edges, heights)

    def on(self, edges: tuple[float, ...]) -> Steps:
        """The same function on a finer grid."""
        middles = (np.asarray(edges[1:]) + np.asarray(edges[:-1])) / 2
        index = np.searchsorted(self.edges, middles) - 1
        bins = len(self.edges) - 1
        known = fb.Array(np.clip(index, 0, bins - 1), (BIN,), fb.Bint[bins])
        inside = fb.Table(np.where((index >= 0) & (index < bins), 1.0, 0.0), (BIN,))
        return Steps(self.name, edges, interpret(fb.heads.MULTIPLY, substitute(self.heights, {BIN: known}), inside))

    def _renamed(self, names: Mapping[Name, Name]) -> Steps:
        mine = {old: new for old, new in names.items() if old in self.heights.inputs}
        heights = self.heights._renamed(mine) if mine else self.heights
        return Steps(names.get(self.name, self.name), self.edges, heights)

    def _marked(self, mark: Exactness) -> Steps:
        return self.with_heights(self.heights._marked(mark))

    def _log(self) -> fb.Value:
        return _look_up(self.edges)(fb.stack(self.heights.log(), BIN), fb.Variable(self.name, fb.Real))


@lru_cache
def _look_up(edges: tuple[float, ...]) -> Any:
    """The height of the bin of x, as an op: the same one for the same edges, so that it is compiled once."""

    @fb.lift
    def look_up(logs: Any, x: Any) -> Any:
        index = jnp.searchsorted(jnp.asarray(edges), x, side="right") - 1
        inside = (index >= 0) & (index < len(edges) - 1)
        return jnp.where(inside, logs[jnp.clip(index, 0, len(edges) - 2)], -jnp.inf)

    return look_up


def steps(name: str, edges: Sequence[float], heights: Any, batch: Sequence[str] = ()) -> Steps:
    """A step function from an array of heights: axes of the batch, then one of bins."""
    return Steps(name, edges, fb.Table(heights, (*batch, BIN)))


class Box(fb.Factor):
    """weights(…) where low ≤ x < high, and 0 elsewhere."""

    weights: Any = array_field()
    name: Name = static_field()
    low: float = static_field()
    high: float = static_field()
    batch: tuple[Name, ...] = static_field()

    def __init__(self, name: Name, low: float, high: float, weights: Any, batch: Sequence[Name] = ()) -> None:
        domains = {other: fb.Bint[size] for other, size in zip(batch, weights.shape, strict=True)}
        fields = {"name": name, "low": low, "high": high, "batch": tuple(batch)}
        self._set(weights=weights, **fields, inputs={**domains, name: fb.Real})

    def _renamed(self, names: Mapping[Name, Name]) -> Box:
        batch = [names.get(other, other) for other in self.batch]
        return Box(names.get(self.name, self.name), self.low, self.high, self.weights, batch)

    def _with_axis(self, name: Name) -> Box:
        return Box(self.name, self.low, self.high, self.weights, (name, *self.batch))

    def _log(self) -> fb.Value:
        return box_to_steps(self).log()


@promotion(Box, Steps)
def box_to_steps(f: Box) -> Steps:
    """w·1[low ≤ x < high] is a step function of one bin"""
    return steps(f.name, (f.low, f.high), f.weights[..., None], f.batch)


# -- one factor -----------------------------------------------------------------------------------------------------


@fb.heads.exact_join.rule
def join_steps(f: Steps | Box) -> fb.Factor:
    """f  =  f"""
    return f


@fb.heads.exact_sum.rule(when=lambda semiring, f, names: semiring in REDUCED)
def sum_steps(semiring: fb.Semiring, f: Steps, names: tuple) -> fb.Factor:
    """∫ f dx  =  Σ_k heights(k) width(k);  max_x f  =  max_k heights(k)"""
    heights = f.heights
    if f.name in names and semiring is fb.sum_product:
        heights = interpret(fb.heads.MULTIPLY, heights, fb.Table(np.diff(f.edges), (BIN,)))
    gone = tuple(BIN if name == f.name else name for name in names)
    rest = heights.reduce(semiring, *gone)
    return rest if f.name in names else f.with_heights(rest)


@fb.heads.exact_sum.rule(when=lambda semiring, f, names: semiring in REDUCED)
def sum_box(semiring: fb.Semiring, f: Box, names: tuple) -> fb.Factor:
    """∫ w·1[low ≤ x < high] dx  =  w·(high − low)"""
    return interpret(fb.heads.SUM, semiring, box_to_steps(f), names)


@fb.heads.exact_multiply_out.rule
def multiply_out_steps(f: Steps, names: tuple) -> Steps:
    """Π_i f(i, x) on the same grid"""
    return f.with_heights(f.heights.product(*names))


@fb.heads.exact_multiply_out.rule
def multiply_out_box(f: Box, names: tuple) -> Steps:
    """Π_i f(i, x)"""
    return multiply_out_steps(box_to_steps(f), names)


@fb.heads.exact_exclude.rule
def exclude_steps(semiring: fb.Semiring, f: Steps, names: tuple) -> Steps:
    """Π_{j≠i} f(j, x) on the same grid"""
    return f.with_heights(interpret(fb.heads.EXCLUDE, semiring, f.heights, names))


@fb.heads.exact_power.rule
def power_steps(f: Steps, exponent: fb.Value) -> Steps:
    """f^a, for a positive a: 0 elsewhere stays 0"""
    return f.with_heights(f.heights**exponent)


@fb.heads.exact_power.rule
def power_box(f: Box, exponent: fb.Value) -> Steps:
    """f^a"""
    return power_steps(box_to_steps(f), exponent)


@fb.heads.exact_substitute.rule(when=lambda f, values: all(map(is_enumerable, values.values())))
def substitute_steps(f: Steps | Box, values: Mapping) -> fb.Factor:
    """f(x = v)  =  the height of the bin of v"""
    f = box_to_steps(f) if isinstance(f, Box) else f
    f = f.with_heights(substitute(f.heights, {name: value for name, value in values.items() if name != f.name}))
    if f.name not in values:
        return f
    return interpret(fb.heads.JOIN, Weight(f.log().replaced({f.name: values[f.name]})))


# -- pairs ----------------------------------------------------------------------------------------------------------


def _one_variable(f: Steps, g: Steps) -> bool:
    return f.name == g.name


def _on_one_grid(f: Steps, g: Steps) -> tuple[Steps, Steps]:
    edges = tuple(sorted({*f.edges, *g.edges}))
    return f.on(edges), g.on(edges)


@fb.heads.exact_multiply.rule(when=_one_variable)
def multiply_steps(f: Steps, g: Steps) -> Steps:
    """(f·g)(x)  =  f(x) g(x), on the common grid"""
    f, g = _on_one_grid(f, g)
    return f.with_heights(interpret(fb.heads.MULTIPLY, f.heights, g.heights))


@fb.heads.exact_multiply.rule
def multiply_steps_table(f: Steps, g: fb.Table) -> Steps:
    """heights(k)·w"""
    return f.with_heights(interpret(fb.heads.MULTIPLY, f.heights, g))


@fb.heads.exact_multiply.rule
def multiply_table_steps(f: fb.Table, g: Steps) -> Steps:
    """w·heights(k)"""
    return multiply_steps_table(g, f)


@fb.heads.exact_multiply.rule
def multiply_box_table(f: Box, g: fb.Table) -> Steps:
    """w·1[…]·w′"""
    return multiply_steps_table(box_to_steps(f), g)


@fb.heads.exact_multiply.rule
def multiply_table_box(f: fb.Table, g: Box) -> Steps:
    """w′·w·1[…]"""
    return multiply_steps_table(box_to_steps(g), f)


@fb.heads.exact_divide.rule(when=_one_variable)
def divide_steps(f: Steps, g: Steps) -> Steps:
    """f/g bin by bin, 0/0 = 0"""
    f, g = _on_one_grid(f, g)
    return f.with_heights(f.heights / g.heights)


@fb.heads.exact_divide.rule
def divide_steps_table(f: Steps, g: fb.Table) -> Steps:
    """heights(k)/w"""
    return f.with_heights(f.heights / g)


@fb.heads.exact_divide.rule
def divide_box_table(f: Box, g: fb.Table) -> Steps:
    """w·1[…]/w′"""
    return divide_steps_table(box_to_steps(f), g)


@fb.heads.exact_normalize.rule
def normalize_steps_table(f: Steps | Box, total: fb.Table) -> fb.Factor:
    """f/Z"""
    return interpret(fb.heads.DIVIDE, f, total)


@fb.heads.exact_normalize.rule
def normalize_steps(f: Steps | Box, total: Steps) -> fb.Factor:
    """f(x, a)/Z(x)"""
    return interpret(fb.heads.DIVIDE, f, total)


@fb.heads.exact_add.rule(when=_one_variable)
def add_steps(f: Steps, g: Steps) -> Steps:
    """f + g, on the common grid"""
    f, g = _on_one_grid(f, g)
    return f.with_heights(f.heights + g.heights)


def _is_over_the_line(semiring: fb.Semiring, f: Steps, g: fb.Gaussian, keep: frozenset) -> bool:
    reals = [name for name, domain in g.inputs.items() if not domain.is_finite]
    return semiring is fb.sum_product and reals == [f.name] and f.name not in keep


@lru_cache
def _log_mass(edges: tuple[float, ...]) -> Any:
    @fb.lift
    def log_mass(logs: Any, mean: Any, variance: Any) -> Any:
        below = jax.scipy.stats.norm.cdf((jnp.asarray(edges) - mean) / jnp.sqrt(variance))
        return jnp.log(jnp.sum(jnp.exp(logs) * jnp.diff(below)))

    return log_mass


@fb.heads.exact_contract.rule(when=_is_over_the_line)
def contract_steps_gaussian(semiring: fb.Semiring, f: Steps, g: fb.Gaussian, keep: frozenset) -> fb.Factor:
    """∫ Σ_k h_k 1[x in bin k] Z N(x; μ, σ²) dx  =  Z Σ_k h_k (Φ((e_{k+1} − μ)/σ) − Φ((e_k − μ)/σ))"""
    share = Weight(_log_mass(f.edges)(fb.stack(f.heights.log(), BIN), g.mean(f.name), g.variance(f.name)))
    whole = interpret(fb.heads.MULTIPLY, g.sum(f.name), interpret(fb.heads.JOIN, share))
    gone = tuple(name for name in whole.inputs if name not in keep)
    return whole.sum(*gone) if gone else whole


@fb.heads.exact_contract.rule(when=lambda semiring, f, g, keep: _is_over_the_line(semiring, g, f, keep))
def contract_gaussian_steps(semiring: fb.Semiring, f: fb.Gaussian, g: Steps, keep: frozenset) -> fb.Factor:
    """the same, the other way round"""
    return contract_steps_gaussian(semiring, g, f, keep)
