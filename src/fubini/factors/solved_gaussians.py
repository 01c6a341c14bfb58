"""The product of many Gaussians over real variables as one sparse system: all questions to it by one factor of P.

exp(c − ½ |A z − b|² + h·z − ½ z·K z): densities are rows of A, Gaussians by their precision add to K; P = AᵀA + K.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fubini.base.domains import Domain, Real, merge_inputs
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.numerics.arithmetic import numpy_solve
from fubini.numerics.quadratic import Quadratic, Reals, places
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import Scaled
from fubini.numerics.sparse_cholesky import sparse
from fubini.numerics.sparse_least_squares import (
    Information,
    SparseRows,
    SparseSolution,
    joined_rows,
    solve_quadratic,
)
from fubini.terms.exactness import Exactness, combined
from fubini.terms.factor import Factor, Unit
from fubini.terms.heads import exact_solve
from fubini.terms.value import Array

LOG_2_PI = math.log(2.0 * math.pi)
DENSE_SHARE = 1 / 4  # of the entries of P: more of them, and dense matrices are as quick
ONE = np.ones(())
ONE.flags.writeable = False
FEW = 64  # unknowns of which P may have all entries


class SolvedGaussians:
    """exp(c − ½ (z − m)·P (z − m)), whose answers come from one sparse factor of P."""

    def __init__(self, solution: SparseSolution, reals: Reals, log: float, mark: Exactness) -> None:
        self.solution, self.reals, self.mark = solution, reals, mark
        self.height = log - 0.5 * float(solution.rss)  # c

    @cached_property
    def _where(self) -> dict[Name, range]:
        return places(self.reals)

    def total(self, semiring: Semiring, kept: Sequence[Name]) -> Factor:
        """∫ (or max) over all variables but these."""
        log, size = self.height, len(self.solution.centre)
        if semiring is sum_product:
            log += 0.5 * size * LOG_2_PI - 0.5 * float(self.solution.logdet)
        if not kept:
            return self._constant(log)
        columns = [place for name in kept for place in self._where[name]]
        unit = np.zeros((size, len(columns)))
        unit[columns, range(len(columns))] = 1.0
        covariance = self.solution.factor.solve(unit)[columns]
        domains = dict(self.reals)
        marginal = self._density({name: domains[name] for name in kept}, columns, 0.5 * (covariance + covariance.T))
        if semiring is not sum_product:
            return Gaussian._of(self._constant(log), marginal.quadratic, marginal.reals, {})
        return Gaussian._of(
            self._constant(log + float(marginal.scale.pair.shift)), marginal.quadratic, marginal.reals, {}
        )

    def _constant(self, log: float) -> Table:
        return Table._of(Scaled(ONE, log, 0.0, 0.0), {}, self.mark)

    def _density(self, domains: dict[Name, Domain], at: Sequence[int], covariance: np.ndarray) -> Gaussian:
        """The normal density of some unknowns: −½ |L⁻¹ (x − m)|² with L Lᵀ their covariance."""
        L = np.linalg.cholesky(covariance)
        root = numpy_solve(L, np.eye(len(at)))
        log = -0.5 * len(at) * LOG_2_PI - float(np.log(L.diagonal()).sum())
        return self._with_root(domains, root @ self.solution.centre[list(at)], root, log)

    def _with_root(self, domains: dict[Name, Domain], vector: np.ndarray, root: np.ndarray, log: float) -> Gaussian:
        reals = tuple(domains.items())
        return Gaussian._of(self._constant(log), Quadratic(vector, (), root, (), True), reals, domains)

    def marginals(self, names: Sequence[Name]) -> list[Factor]:
        """The normal density of each variable, by the entries of P⁻¹ where P has a place."""
        deviations, centre, domains = np.sqrt(self.solution.variances), self.solution.centre, dict(self.reals)
        roots, vectors = (1.0 / deviations).reshape(-1, 1, 1), (centre / deviations).reshape(-1, 1)
        logs = (-0.5 * LOG_2_PI - np.log(deviations)).tolist()
        found: list[Factor] = []
        for name in names:
            place, domain = self._where[name], domains[name]
            if len(place) == 1:
                k = place.start
                found.append(self._with_root({name: domain}, vectors[k], roots[k], logs[k]))
            else:
                first, second = np.meshgrid(*[np.array(place, np.int64)] * 2)
                inverse = self.solution.factor.inverse.at(first.reshape(-1), second.reshape(-1))
                found.append(self._density({name: domain}, place, inverse.reshape(first.shape)))
        return found

    def mode(self) -> dict[Name, Array]:
        """arg max: m"""
        centre = self.solution.centre
        return {
            name: Array._of(centre[self._where[name]].reshape(domain.shape), (), {}, Real.with_shape(domain.shape))
            for name, domain in self.reals
        }

    def draws(self, randomness: Randomness, groups: Sequence[Sequence[Name]]) -> dict[Name, Array]:
        """m + L⁻ᵀ D^(−½) ε, where ε is drawn for one group of variables after another."""
        count = randomness.domain.extent
        noise = np.zeros((len(self.solution.centre), count))
        for names in groups:
            at = [place for name in names for place in self._where[name]]
            noise[at] = randomness.normal((count, len(at))).T
        drawn = (self.solution.centre[:, None] + self.solution.factor.colour(noise)).T
        axis = {SAMPLES: randomness.domain}
        return {
            name: Array._of(
                drawn[:, self._where[name]].reshape(count, *domain.shape),
                (SAMPLES,),
                axis,
                Real.with_shape(domain.shape),
            )
            for name, domain in self.reals
        }


@exact_solve.rule
def solve_gaussians(f: Gaussian, others: tuple, names: tuple) -> SolvedGaussians | None:
    """Π_k exp(q_k)  =  exp(c − ½ (z − m)·P (z − m)),  P sparse; eliminated in the order of the names, if there are"""
    terms = (f, *others)
    log = _log_constant(terms)
    gaussians = [term for term in terms if isinstance(term, Gaussian)]
    domains = merge_inputs(*[term.inputs for term in gaussians])
    reals = tuple([(name, domains[name]) for name in names or domains])
    if log is None or _is_dense(gaussians, reals):
        return None
    solution = _solution(gaussians, places(reals), bool(names))
    return None if solution is None else SolvedGaussians(solution, reals, log, combined(terms))


def _log_constant(terms: Sequence[Factor]) -> float | None:
    """The logarithm of what the factors are multiplied by; None where that is zero."""
    scales = [term.scale if isinstance(term, Gaussian) else term for term in terms if not isinstance(term, Unit)]
    pairs = [scale.pair for scale in scales if isinstance(scale, Table)]
    weights = np.array([pair.weights for pair in pairs])
    total = math.fsum([float(pair.shift) for pair in pairs])
    if not (weights > 0).all():
        return None
    total += math.fsum(np.log(weights[weights != 1.0]))
    return total if math.isfinite(total) else None


def _is_dense(gaussians: Sequence[Gaussian], reals: Reals) -> bool:
    """Whether the precision may have most of its entries."""
    size = sum([math.prod(domain.shape) for _, domain in reals])
    entries = sum([term.matrix.shape[-1] ** 2 for term in gaussians])
    return size > FEW and entries > DENSE_SHARE * size * size


class _Block(NamedTuple):
    """Gaussians of one form and size: their matrices, vectors and the places of their variables, one after another."""

    matrices: list[np.ndarray]
    vectors: list[np.ndarray]
    columns: list[list[int]]


def _solution(gaussians: Sequence[Gaussian], where: Mapping[Name, range], keep_order: bool) -> SparseSolution | None:
    size = sum(map(len, where.values()))
    blocks: dict[tuple[bool, tuple[int, ...]], _Block] = {}
    for term in gaussians:
        key = (term.white, term.matrix.shape)
        block = blocks.get(key) or blocks.setdefault(key, _Block([], [], []))
        block.matrices.append(term.matrix)
        block.vectors.append(term.vector)
        block.columns.append([place for name, _ in term.reals for place in where[name]])
    white = [_rows(block) for (is_white, _), block in blocks.items() if is_white] or [_NO_ROWS]
    rows, sizes = joined_rows(white, size)
    information = _information([block for (is_white, _), block in blocks.items() if not is_white], where, size)
    return solve_quadratic(rows, sizes, information, keep_order)


_NO_ROWS = SparseRows(np.empty((0, 1)), np.empty((0, 1), np.int64), np.empty(0))


def _rows(block: _Block) -> SparseRows:
    """The rows of white forms."""
    matrices, columns = np.array(block.matrices), np.array(block.columns, np.int64)
    _, count, width = matrices.shape
    return SparseRows(
        matrices.reshape(-1, width), np.repeat(columns, count, axis=0), np.array(block.vectors).reshape(-1)
    )


def _information(blocks: Sequence[_Block], where: Mapping[Name, range], size: int) -> Information | None:
    """The sum of canonical forms, with a place for all entries of each variable: its covariance is asked for."""
    slope, first, second, entries = np.zeros(size), [], [], []
    for block in blocks:
        columns, matrices = np.array(block.columns, np.int64), np.array(block.matrices)
        np.add.at(slope, columns, np.array(block.vectors))
        pair = np.broadcast_arrays(columns[:, :, None], columns[:, None, :], matrices)
        for parts, part in zip((first, second, entries), pair, strict=True):
            parts.append(part.reshape(-1))
    for place in where.values():
        if len(place) > 1:
            one, two = np.meshgrid(place, place)
            for parts, part in zip((first, second, entries), (one, two, np.zeros(one.size)), strict=True):
                parts.append(part.reshape(-1))
    if not entries:
        return None
    at = (np.concatenate(first), np.concatenate(second))
    return Information(slope, sparse.coo_array((np.concatenate(entries), at), shape=(size, size)))
