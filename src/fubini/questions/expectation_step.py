"""The E-step of expectation–maximisation: the evidence, and the expected statistics of every factor, in one pass back.

Tables, and chains of them: expected counts are the derivatives of the log-evidence in the logarithms of the weights.
Chains of Gaussians: moments of neighbouring states given everything. Models of real latents whose log-density is
quadratic in them: mean and covariance, of all of them or in each cell of a plate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.captured_arrays import jit_with_arrays
from fubini.base.distant import is_distant
from fubini.base.domains import Bint
from fubini.distributions.density import Density
from fubini.errors import FubiniError, Intractable, NoRule, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.models.flat_model import FlatModel
from fubini.models.joint import Conditioned
from fubini.models.reading import Reading
from fubini.questions.chain_of_sites import chain_of_sites, couples_times
from fubini.questions.data_summaries import summary_of
from fubini.questions.expected_log import Counts, Moments, Reals, Statistics, log_cells, shifted_by
from fubini.questions.model_factors import model_factors
from fubini.questions.plate_of_sites import PLATE, plate_of_sites
from fubini.sequence.chain import Chain
from fubini.sequence.links import fixed_bound
from fubini.terms.factor import Factor, product, substitute, terms_of
from fubini.terms.value import Array, Variable, to_array

MOST_REALS = 2_000  # numbers whose covariance is held as a matrix
DATA = fixed_bound("data")
Groups = tuple[tuple[Factor, ...], ...]


class Expectations(ABC):
    """What expectation–maximisation asks of a model with its parameters at some values."""

    @abstractmethod
    def expect(self) -> tuple[Data, Any]:
        """The log-evidence, and the statistics of the latents given everything."""

    @abstractmethod
    def expected_log_density(self, statistics: Any) -> Data:
        """Q: the expectation of the log-density of data and latents, under statistics that are known."""

    @abstractmethod
    def require_closed(self) -> None:
        """Raise where the statistics have no closed form."""


def expectations_of(model: Any) -> Expectations:
    """The latents of a chain or of a model with data, as tables, Gaussians or a chain."""
    if isinstance(model, Chain):
        return OfChain(model)
    if not isinstance(model, Conditioned):
        raise _not_closed(model, "it is neither a fb.Chain nor a model with data")
    flat = FlatModel(model)
    chain, has_labels = _chain_in(flat), any(domain.is_discrete for domain in flat.reading.domains.values())
    if chain is not None and (has_labels or _is_closed(chain)):
        return OfChain(chain)
    plate = plate_of_sites(flat)
    if not has_labels:
        return OfReals(model, flat.reading, plate is not None)
    if plate is not None:
        return OfTables(tuple(plate.factors), tuple(plate.variables))
    factors, variables = flat.tables or flat.written or model_factors(flat)
    return OfTables(tuple(factors), tuple(variables))


def _chain_in(flat: FlatModel) -> Chain | None:
    if not couples_times(flat.reading):
        return None
    try:
        made = chain_of_sites(flat, [str(name) for name in flat.reading.domains])
    except Intractable:
        return None
    return None if made is None else made.chain


def _is_closed(chain: Chain) -> bool:
    """Whether its factors are tables and Gaussians as they stand: a slope may be read as a function of the state."""
    try:
        return bool(OfChain(chain).groups)
    except Intractable:
        return False


# -- products of tables, and chains ---------------------------------------------------------------------------------


class _OfFactors(Expectations):
    """Factors in groups, and what is asked of their product."""

    written: Groups

    @property
    def groups(self) -> Groups:
        """The factors as Tables and Gaussians."""
        return tuple(tuple(map(_closed, group)) for group in self.written)

    @abstractmethod
    def _log_evidence(self, groups: Groups) -> Data:
        """The logarithm of the sum over all latents, of all cells and sequences together, of other factors."""

    def expect(self) -> tuple[Data, list[list[Statistics]]]:
        groups = self.groups

        def evidence(logs: list[list[Data]]) -> Data:
            pairs = [zip(group, own, strict=True) for group, own in zip(groups, logs, strict=True)]
            return self._log_evidence(tuple(tuple(shifted_by(f, log) for f, log in each) for each in pairs))

        zeros = [[jnp.zeros_like(log_cells(factor)) for factor in group] for group in groups]
        value, counts = jax.value_and_grad(evidence)(zeros)
        triples = [zip(*each, strict=True) for each in zip(self.written, groups, counts, strict=True)]
        return value, [[_counted(term, factor, own) for term, factor, own in each] for each in triples]

    def expected_log_density(self, statistics: Sequence[Sequence[Statistics]]) -> Data:
        pairs = [zip(group, own, strict=True) for group, own in zip(self.written, statistics, strict=True)]
        return jnp.sum(jnp.stack([_expected_log(term, known) for each in pairs for term, known in each]))


@dataclass(frozen=True)
class OfTables(_OfFactors):
    """Factors of latents of finitely many values, summed out of each cell of a plate, or of all of a model."""

    factors: tuple[Factor, ...]
    variables: tuple[Variable, ...]

    @property
    def written(self) -> Groups:  # type: ignore[override]
        return (self.factors,)

    @property
    def rows(self) -> int:
        """The cells of its plate; none where it has no plate."""
        sizes = [factor.inputs[PLATE].extent for factor in self.factors if PLATE in factor.inputs]
        return sizes[0] if sizes else 0

    def at(self, rows: Data) -> OfTables:
        """Some of the cells of the plate."""
        index = Array._of(rows, (PLATE,), {PLATE: Bint[len(rows)]}, Bint[self.rows])
        own = tuple(substitute(f, {PLATE: index}) if PLATE in f.inputs else f for f in self.factors)
        return replace(self, factors=own)

    def _log_evidence(self, groups: Groups) -> Data:
        return _total(product(*groups[0]).sum(*(variable.name for variable in self.variables)).log())

    def require_closed(self) -> None:
        real = [variable.name for variable in self.variables if not variable.output.is_finite]
        if real:
            raise _not_closed(product(*self.factors), f"{listed(real)} beside latents of finitely many values")
        _ = self.groups


@dataclass(frozen=True)
class OfChain(_OfFactors):
    """The start of a chain, and its steps."""

    chain: Chain

    @property
    def written(self) -> Groups:  # type: ignore[override]
        return tuple(tuple(terms_of(factor)) for factor in (self.chain.init, self.chain.factor))

    def _over(self, groups: Groups) -> Chain:
        return self.chain.over(*(product(*group) for group in groups))

    def _log_evidence(self, groups: Groups) -> Data:
        return _total(self._over(groups).log_evidence())

    def expect(self) -> tuple[Data, list[list[Statistics]]]:
        if all(domain.is_finite for domain in self.chain.domains.values()):
            return super().expect()
        groups = self.groups
        links = self.chain.links
        known, axes = self._over(groups)._pair_moments()
        before, after = (
            [(name, math.prod(self.chain.domains[name].shape)) for name in own] for own in (links.before, links.after)
        )
        mean, covariance = known.first
        start = Reals(mean, covariance, tuple(before), axes[1:])
        pairs = Reals(known.mean, known.covariance, (*before, *after), axes)
        return _total(known.evidence.log()), [
            [_under(joint, term, factor) for term, factor in zip(terms, group, strict=True)]
            for joint, terms, group in zip((start, pairs), self.written, groups, strict=True)
        ]

    def require_closed(self) -> None:
        states = {name: self.chain.domains[name] for name in self.chain.links.before}
        finite = [name for name, domain in states.items() if domain.is_finite]
        if finite and len(finite) < len(states):
            raise _not_closed(self.chain, f"{listed(finite)} beside real states")
        if self.chain.globals and not finite:
            raise _not_closed(self.chain, f"{listed(self.chain.globals)} of all steps beside real states")
        _ = self.groups


def _counted(term: Factor, factor: Factor, counts: Data) -> Counts:
    """The counts of the cells of a factor; of a density of data, the weights of the points that stand for these."""
    summary = summary_of(term)
    return Counts(counts) if summary is None else Counts(summary.weights(counts, factor), is_of_points=True)


def _expected_log(term: Factor, known: Statistics) -> Data:
    if isinstance(known, Moments) and known.has_data:
        return known.expected_log(_closed(_of_any_data(term)))
    if isinstance(known, Counts) and known.is_of_points:
        summary = summary_of(term)
        assert summary is not None and isinstance(term, Density), "points stand for the data of a density"
        return known.expected_log(summary.at_points(term))
    return known.expected_log(_closed(term))


def _under(joint: Reals, term: Factor, factor: Factor) -> Statistics:
    """The statistics of a factor of reals, or of none, under a distribution of reals.

    Data of a density that is the same everywhere else become known reals: their moments are all that is needed of them.
    """
    if not isinstance(factor, Gaussian):
        sizes = [n for name, n in zip(joint.axes, joint.mean.shape, strict=False) if name not in factor.inputs]
        return Counts(jnp.full_like(log_cells(factor), math.prod(sizes)))
    if not _has_data_beside(term):
        return joint.under(factor)
    freed = _closed(_of_any_data(term))
    assert isinstance(term, Density) and isinstance(term.value, Array) and isinstance(freed, Gaussian)
    data = jnp.asarray(term.value.array, joint.mean.dtype)
    names = tuple(term.value.inputs)
    flat = data.reshape(*data.shape[: len(names)], -1)
    return replace(joint.with_data(DATA, flat, names).under(freed), has_data=True)


def _has_data_beside(term: Factor) -> bool:
    """Whether it is a density of data over axes that its distribution does not have, linear in data and states."""
    if not isinstance(term, Density) or not isinstance(term.value, Array) or not term.value.inputs:
        return False
    if set(term.value.inputs) & set(term.distribution.inputs) or term.value.output.is_discrete:
        return False
    try:
        return isinstance(promoted(_of_any_data(term)), Gaussian)
    except FubiniError:
        return False


def _of_any_data(term: Factor) -> Factor:
    """The same density of data that are not known."""
    assert isinstance(term, Density)
    return Density(term.distribution, Variable(DATA, term.value.output))


def _closed(factor: Factor) -> Factor:
    """A factor as a Table or a Gaussian, of which expected logarithms are known."""
    try:
        made = promoted(factor)
    except FubiniError as error:
        raise _not_closed(factor, f"{error}".splitlines()[0]) from None
    if not isinstance(made, Table | Gaussian):
        raise _not_closed(factor, "it is neither a table nor linear with normal noise")
    return made


# -- real latents ---------------------------------------------------------------------------------------------------


@partial(jax.tree_util.register_dataclass, data_fields=["mean", "covariance"], meta_fields=[])
@dataclass(frozen=True)
class NormalLatents:
    """Mean and covariance of real latents given the data, in each cell."""

    mean: Data
    covariance: Data


@dataclass(frozen=True)
class OfReals(Expectations):
    """Real latents in which the log-density is quadratic: all together, or in each cell of a plate by itself."""

    model: Conditioned
    reading: Reading
    is_plate: bool

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {str(name): domain.shape for name, domain in self.reading.domains.items()}

    @property
    def _cells(self) -> int:
        return next(iter(self._shapes.values()))[0] if self.is_plate else 1

    def _size(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[1:] if self.is_plate else shape)

    def _log_density(self, latents: Data) -> Data:
        """log p(data, latents), of latents in rows: a row for each cell."""
        values, start = {}, 0
        for name, shape in self._shapes.items():
            values[name] = latents[:, start : start + self._size(shape)].reshape(shape)
            start += self._size(shape)
        return self.reading.log_density(values)

    def _curvature(self, latents: Data) -> Data:
        """The matrix of second derivatives of each cell."""
        slope, size = jax.grad(self._log_density), latents.shape[1]
        columns = jax.vmap(lambda e: jax.jvp(slope, (latents,), (jnp.broadcast_to(e, latents.shape),))[1])
        return jnp.moveaxis(columns(jnp.eye(size, dtype=latents.dtype)), 0, -1)

    def expect(self) -> tuple[Data, NormalLatents]:
        """Quadratic in z:  m = z − H⁻¹ g,  C = −H⁻¹,  log p = log p(m) + ½ Σ log det 2πC"""
        zero = jnp.zeros((self._cells, sum(map(self._size, self._shapes.values()))), jnp.result_type(float))
        root = jnp.linalg.cholesky(-self._curvature(zero))
        slope = jax.grad(self._log_density)(zero)
        mean = jax.scipy.linalg.cho_solve((root, True), slope[..., None])[..., 0]
        half = jax.scipy.linalg.solve_triangular(root, jnp.broadcast_to(jnp.eye(zero.shape[1]), root.shape), lower=True)
        logs = jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1))
        log_evidence = self._log_density(mean) - jnp.sum(logs) + zero.size * math.log(2 * math.pi) / 2
        return log_evidence, NormalLatents(mean, jnp.swapaxes(half, -1, -2) @ half)

    def expected_log_density(self, statistics: NormalLatents) -> Data:
        """E[log p]  =  log p(m) + ½ Σ tr(H C)"""
        spread = jnp.sum(self._curvature(statistics.mean) * statistics.covariance)
        return self._log_density(statistics.mean) + spread / 2

    def _evidence(self) -> Data:
        """The log-evidence of known data; of rows on a mesh in one program, so that they stay where they are."""
        is_on_mesh = is_distant(*jax.tree_util.tree_leaves(self.model))
        return jit_with_arrays(lambda: self.expect()[0])() if is_on_mesh else self.expect()[0]

    def require_closed(self) -> None:
        size = sum(map(self._size, self._shapes.values()))
        if size > MOST_REALS:
            raise _not_closed(self.model, f"a covariance of {size:,} latents in one matrix")
        bounded = [name for name, domain in self.reading.domains.items() if domain.kind != "real"]
        if bounded:
            raise _not_closed(self.model, f"{listed(bounded)}: not on all real numbers")
        try:
            exact = float(self.model.log_evidence())
        except (Intractable, NoRule) as error:
            raise _not_closed(self.model, f"{error}".splitlines()[0]) from None
        own = float(self._evidence())
        if not np.isclose(own, exact, rtol=1e-4, atol=1e-3):
            raise _not_closed(self.model, "its log-density is not quadratic in the latents")


def _not_closed(what: Any, reason: str) -> Intractable:
    return Intractable(
        f"expectation–maximisation of {what}",
        expected="a chain, or a model with data, whose latents are all of finitely many values, or all real and linear "
        "with normal noise: their expected statistics have a closed form",
        nearest=reason,
        advice='fb.fit(…, method="gradient") asks for the evidence alone; infer(…) draws where there is none',
    )


def _total(log: Any) -> Data:
    """The sum over the cells of a plate, or sequences."""
    value = to_array(log)
    others = [name for name, domain in value.inputs.items() if not domain.is_finite]
    if others:
        raise _not_closed(value, f"it depends on {listed(others)}")
    return jnp.sum(jnp.asarray(value.array))
