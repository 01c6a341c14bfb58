"""The recurrence of Gaussians in order, by means and covariances: filter, smoother, and evidence with its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain, Real
from fubini.base.names import Name
from fubini.base.semirings import sum_product
from fubini.factors.carry import settled, typed
from fubini.factors.gaussian import Gaussian
from fubini.factors.gaussian_carry import GaussianLayout
from fubini.factors.table import Table
from fubini.numerics import matrix_entries, quadratic
from fubini.numerics.in_range import if_in_range, is_open
from fubini.numerics.matrix_entries import stack_matrix, stack_vector, transpose
from fubini.numerics.moment_chains import ChainRows, Moments, Passed, log_evidence, passed, slopes, smoothed, to_rows
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Names, Quadratic, Reals
from fubini.numerics.scaled import Scaled, positive_log, read_log
from fubini.sequence.links import Link, Links, fixed_bound
from fubini.sequence.recurrence import InOrder, PairMoments, Recurrence, SmoothedStates, Turn
from fubini.sequence.scan import scanned
from fubini.sequence.steps import Steps, summed
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_recurrence

TIME, BEFORE, AFTER = map(fixed_bound, ("time", "state before", "state after"))


@dataclass(frozen=True)
class GaussianRecurrence(Recurrence):
    """Steps whose product is white rows, and the layout of their carries."""

    layout: GaussianLayout
    steps: Steps
    step: Gaussian
    description = "by means and covariances, and by rows where these lose digits"

    def in_order(self, start: Factor, turn: Turn, keep: bool) -> InOrder | None:
        if turn.reverse:
            return None
        found = self._passed(start)
        first, every = self._scales(start)
        running = (first.shift + found.first_log) + jnp.cumsum(found.log + every.shift, axis=0)
        last = jax.tree.map(lambda data: data[-1], found.after)
        kept = self._carry(found.after, running, timed=True) if keep else None
        safe = found.safe & jnp.all(first.weights > 0) & jnp.all(every.weights > 0)
        return InOrder(self._carry(last, running[-1]), kept, safe)

    def evidence(self, start: Factor, kernels: bool) -> Factor | None:
        """The evidence of the rows, times the scales of all steps."""
        first, every = self._scales(start)
        total = chain_log_evidence(self.steps.length, self._rows(start))
        total = total + first.shift + jnp.sum(every.shift, axis=0)
        shape = tuple(domain.extent for _, domain in self.layout.batch)
        weights = first.weights * jnp.prod(every.weights, axis=0)
        scaled = Scaled(jnp.broadcast_to(weights, shape), jnp.broadcast_to(total, shape))
        return Table._of(scaled, dict(self.layout.batch))

    def smoothed(self, start: Factor, kernels: bool) -> SmoothedStates | None:
        """The moments of all states given everything, each as a Gaussian of mass 1."""
        found = self._passed(start)
        first, every = self._scales(start)
        pairs = smoothed(found)
        begin = jax.tree.map(lambda data: data[0], pairs.before)
        safe = found.safe & jnp.all(first.weights > 0) & jnp.all(every.weights > 0)
        after = self._carry(pairs.after, jnp.zeros(()), timed=True)
        return SmoothedStates(after, self._carry(begin, jnp.zeros(())), safe)

    def pair_moments(self, start: Factor) -> PairMoments:
        """The smoother's moments, with the covariances of neighbours beside them."""
        found = self._passed(start)
        first, every = self._scales(start)
        before, after, cross = smoothed(found)
        batch = tuple(domain.extent for _, domain in self.layout.batch)
        rows = [[*own, *other] for own, other in zip(before.covariance, cross, strict=True)]
        rows += [[*own, *other] for own, other in zip(transpose(cross), after.covariance, strict=True)]
        mean, covariance = stack_vector([*before.mean, *after.mean]), stack_matrix(rows)
        size = len(before.mean)
        begin = mean[0, ..., :size], covariance[0, ..., :size, :size]
        total = log_evidence(found) + first.shift + jnp.sum(every.shift, axis=0)
        safe = found.safe & jnp.all(first.weights > 0) & jnp.all(every.weights > 0)
        evidence = Table._of(
            Scaled(jnp.ones(batch, total.dtype), jnp.broadcast_to(total, batch)), dict(self.layout.batch)
        )
        return PairMoments(evidence, begin, mean, covariance, safe)

    # -- arrays of the terms ------------------------------------------------------------------------------------------

    @property
    def _rest(self) -> Names:
        return tuple(name for name, _ in self.layout.batch)

    @property
    def _before(self) -> Reals:
        return tuple((name, self.steps.domains[name]) for name in self.steps.links.before)

    def _passed(self, start: Factor) -> Passed:
        return passed_once(self.steps.length, self._rows(start))

    def _rows(self, start: Factor) -> ChainRows:
        links, rest = self.steps.links, self._rest
        first = settled(start, self.layout)
        assert isinstance(first, Gaussian)
        after = tuple((links.to_after[name], domain) for name, domain in self._before)
        begin = quadratic.padded(first.quadratic, first.reals, self._before)
        step = quadratic.padded(self.step.quadratic, self.step.reals, (*self._before, *after))
        size = begin.size
        both = self._aligned(step.matrix, step.matrix_names, (self.steps.time, *rest), 2)
        return ChainRows(
            self._aligned(begin.matrix, begin.matrix_names, rest, 2),
            self._aligned(begin.vector, begin.vector_names, rest, 1),
            both[..., :size],
            both[..., size:],
            self._aligned(step.vector, step.vector_names, (self.steps.time, *rest), 1),
        )

    def _aligned(self, data: Data, names: Names, onto: Names, event: int) -> Data:
        return align(typed(data, self.layout), names, onto, event)

    def _scales(self, start: Factor) -> tuple[Scaled, Scaled]:
        """Weights of 0 or 1 and logarithms: of the start, and of the steps over all times."""
        first = settled(start, self.layout)
        assert isinstance(first, Gaussian)
        shape = (self.steps.length, *(1 for _ in self._rest))
        every = self._logs(self.step.scale, (self.steps.time, *self._rest))
        weights, shift = (
            jnp.broadcast_to(data, np.broadcast_shapes(np.shape(data), shape)) for data in (every.weights, every.shift)
        )
        return self._logs(first.scale, self._rest), Scaled(weights, shift)

    def _logs(self, scale: Table, names: Names) -> Scaled:
        pair = scale.aligned(names)
        weights = typed(pair.weights, self.layout)
        positive = weights > 0
        log = positive_log(jnp.where(positive, weights, 1.0)) + typed(pair.shift, self.layout)
        return Scaled(jnp.where(positive, 1.0, weights), log)

    # -- Gaussians of moments -----------------------------------------------------------------------------------------

    def _carry(self, moments: Moments, logs: Data, timed: bool = False) -> Factor:
        """exp(logs) · N(mean, covariance) in the layout, over time where it is timed."""
        layout = self.layout.over(self.steps.time, Bint[self.steps.length]) if timed else self.layout
        matrix, vector, volume = to_rows(moments)
        logs, domains = logs + volume, dict(layout.batch)
        names = tuple(domains)
        sizes = tuple(domain.extent for domain in domains.values())
        scale = Table._of(Scaled(jnp.ones(sizes, logs.dtype), jnp.broadcast_to(logs, sizes)), domains)
        v, v_names = _only(vector, names, layout.vector_names)
        M, M_names = _only(matrix, names, layout.matrix_names)
        rows = Quadratic(v, v_names, M, M_names, True)
        return settled(Gaussian._of(scale, rows, self._before, domains), layout)


def _only(data: Data, names: Names, wanted: Names) -> tuple[Data, Names]:
    """Data over some of the names; along the others all of it is the same."""
    for axis, name in reversed(list(enumerate(names))):
        if name not in wanted or data.shape[axis] == 1:
            data = jax.lax.index_in_dim(data, 0, axis, keepdims=name in wanted)
    return data, tuple(name for name in names if name in wanted)


def _product_of_rows(layout: GaussianLayout, steps: Steps) -> Gaussian | None:
    """The product of the terms of a step, where it is rows that determine the state after it."""
    domains, links = steps.domains, steps.links
    reals = {name for name, domain in steps.domains.items() if not domain.is_finite}
    states = {*links.before, *links.after}
    size = layout.size
    is_chain = links.lag == 1 and states == reals == set(domains) and set(dict(layout.reals)) == set(links.before)
    if not (layout.white and is_chain and size <= matrix_entries.MOST and steps.semiring is sum_product):
        return None
    if not all(isinstance(term, (Gaussian, Table)) for term in steps.terms):
        return None
    product = steps.joined(steps.terms)
    is_rows = isinstance(product, Gaussian) and product.white and product.quadratic.rows >= size
    return product if is_rows else None  # type: ignore[return-value]


@exact_recurrence.rule
def recur_gaussians(layout: GaussianLayout, steps: Steps) -> Any:
    """N(m, P) → N(F m⁺ + b, F P⁺ Fᵀ + C),  P⁺ = (1 + P J)⁻¹ P,  m⁺ = m + P⁺(g − J m)"""
    step = _product_of_rows(layout, steps)
    return None if step is None else GaussianRecurrence(layout, steps, step)


# -- evidence with its gradient -------------------------------------------------------------------------------------

passed_once = partial(jax.jit, static_argnums=0)(lambda length, rows: passed(rows, length))


def chain_log_evidence(length: int, rows: ChainRows) -> Data:
    """The log-evidence of each cell of the batch."""
    if not is_open():
        return _log_evidence(length, rows)
    found = passed_once(length, rows)
    return if_in_range(found.safe, lambda: log_evidence(found), lambda: _by_rows(length, rows))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_evidence(length: int, rows: ChainRows) -> Data:
    found = passed_once(length, rows)
    return lax_loops.cond(found.safe, lambda: log_evidence(found), lambda: _by_rows(length, rows))


def _log_evidence_jvp(length: int, primals: tuple, tangents: tuple) -> tuple[Data, Data]:
    """Σ slope · change; one way forward and backward."""
    (rows,), (changes,) = primals, tangents
    total, own = _with_slopes(length, rows)
    change = jnp.zeros_like(total)
    for slope, tangent in zip(own, changes, strict=True):
        if not isinstance(tangent, jax.custom_derivatives.SymbolicZero):
            product = slope * tangent
            lead = product.ndim - total.ndim - (1 if slope is own.vector or slope is own.first_vector else 2)
            axes = (*range(lead), *range(lead + total.ndim, product.ndim))
            change = change + jnp.sum(product, axis=axes)
    return total, change


_log_evidence.defjvp(_log_evidence_jvp, symbolic_zeros=True)


@partial(jax.jit, static_argnums=0)
def _with_slopes(length: int, rows: ChainRows) -> tuple[Data, ChainRows]:
    """The log-evidence of each cell, and its slopes in the rows, for each time and cell."""
    found = passed(rows, length)
    batch = found.first_log.shape
    shapes = [*[batch] * 2, *[(length, *batch)] * 3]
    events = [data.shape[-event:] for data, event in zip(rows, (2, 1, 2, 2, 1), strict=True)]
    each = [(*shape, *event) for shape, event in zip(shapes, events, strict=True)]

    def spread(own: ChainRows) -> ChainRows:
        return ChainRows(*(jnp.broadcast_to(data, shape) for data, shape in zip(own, each, strict=True)))

    def carefully() -> tuple[Data, ChainRows]:
        total, pull = jax.vjp(partial(_by_rows, length), spread(rows))
        return total, pull(jnp.ones_like(total))[0]

    return lax_loops.cond(found.safe, lambda: (log_evidence(found), spread(slopes(rows, found))), carefully)


def _by_rows(length: int, rows: ChainRows) -> Data:
    """The same by reflections of rows, one step after another: a function that has derivatives of all orders."""
    batch = np.broadcast_shapes(*(data.shape[lead : data.ndim - event] for data, lead, event in _axes(rows)))
    rest = tuple(fixed_bound(f"batch {place}") for place in range(len(batch)))
    sizes: dict[Name, Domain] = {name: Bint[size] for name, size in zip(rest, batch, strict=True)}
    domains: dict[Name, Domain] = dict.fromkeys((BEFORE, AFTER), Real[rows.size])
    both = jnp.concatenate(jnp.broadcast_arrays(rows.before, rows.after), axis=-1)
    first = _gaussian(rows.first_vector, rows.first, rest, ((BEFORE, domains[BEFORE]),), sizes)
    timed = {TIME: Bint[length], **sizes}
    step = _gaussian(rows.vector, both, (TIME, *rest), tuple(domains.items()), timed)
    steps = Steps((step,), TIME, length, Links((Link((BEFORE,), (AFTER,)),)), domains, sum_product)
    total: Any = summed([scanned(steps, first, False, step_by_step=True).last], (BEFORE,))
    return jnp.broadcast_to(read_log(total.aligned(rest)), batch)


def _axes(rows: ChainRows) -> Sequence[tuple[Data, int, int]]:
    """The arrays with their number of axes before those of the batch, and behind."""
    return tuple(zip(rows, (0, 0, 1, 1, 1), (2, 1, 2, 2, 1), strict=True))


def _gaussian(vector: Data, matrix: Data, names: Names, reals: Reals, sizes: dict[Name, Domain]) -> Gaussian:
    v, v_names = _named(vector, names, sizes)
    M, M_names = _named(matrix, names, sizes)
    one = Table._of(Scaled(jnp.ones((), matrix.dtype), jnp.zeros((), matrix.dtype)), {})
    return Gaussian._of(one, Quadratic(v, v_names, M, M_names, True), reals, sizes)


def _named(data: Data, names: Names, sizes: dict[Name, Domain]) -> tuple[Data, Names]:
    """Data with its leading axes named; those of extent 1 that could have more have none."""
    absent = [axis for axis, name in enumerate(names) if data.shape[axis] == 1 and sizes[name].extent != 1]
    present = tuple(name for axis, name in enumerate(names) if axis not in absent)
    return jnp.squeeze(data, tuple(absent)), present
