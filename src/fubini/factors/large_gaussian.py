"""Normal densities of many unknowns whose covariance is dense, and never made.

Moments, draws and the density come from a solution of the least-squares problem that the precision AᵀA belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax
from fubini.base.domains import Domain, Real
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import NoRule, listed
from fubini.factors.printed import moments_form
from fubini.factors.table import Table
from fubini.numerics.randomness import require_key, source_of
from fubini.show.printed_form import Block
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.fields import array_field, static_field
from fubini.terms.heads import exact_argmax, exact_join, exact_normalize, exact_sample, exact_sum
from fubini.terms.value import Array, Value, Variable


class LargeGaussian(Factor):
    """The density of real arrays z, end to end, or of some of them: its inputs, the others integrated out."""

    smooth_draws = True
    centre: Data = array_field()
    reals: tuple[tuple[Name, Domain], ...] = static_field()
    mark: Exactness = static_field()

    # -- what each kind of precision supplies -------------------------------------------------------------------------

    _solution: Any  # of the problem, in double precision unless it is traced

    def _exponent(self, variables: tuple[Variable, ...]) -> Value:
        """−½ (z − m)·P (z − m)"""
        raise AssertionError("a kind of precision has one")

    # -- all of them --------------------------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        return self.mark

    @property
    def own(self) -> Name | None:
        return next(iter(self.inputs)) if len(self.inputs) == 1 else None

    @property
    def unknowns(self) -> int:
        """How many numbers are normal together."""
        return sum(math.prod(domain.shape) for _, domain in self.reals)

    def _changed(self, reals: Sequence[tuple[Name, Domain]], names: Iterable[Name], mark: Exactness) -> LargeGaussian:
        """The same numbers under other names, or for some of the variables."""
        new, kept = self._copied(lambda leaf: leaf, lambda child: child), set(names)
        inputs = {name: domain for name, domain in reals if name in kept}
        new._set(reals=tuple(reals), mark=mark, inputs=inputs)
        return new

    def over(self, names: Iterable[Name]) -> LargeGaussian:
        """The density of some of its variables."""
        return self._changed(self.reals, names, self.mark)

    def part(self, whole: Data, name: Name) -> Data:
        """The entries of one variable among all, along the last axis, in its shape."""
        start = 0
        for other, domain in self.reals:
            count = math.prod(domain.shape)
            if other == name:
                return whole[..., start : start + count].reshape((*whole.shape[:-1], *domain.shape))
            start += count
        raise AssertionError(f"no {name!r}")

    # -- what every factor supplies ---------------------------------------------------------------------------------

    def _renamed(self, names: Mapping[Name, Name]) -> LargeGaussian:
        reals = tuple((names.get(name, name), domain) for name, domain in self.reals)
        return self._changed(reals, [names.get(name, name) for name in self.inputs], self.mark)

    def _marked(self, mark: Exactness) -> LargeGaussian:
        return self._changed(self.reals, self.inputs, self.mark | mark)

    def _log(self) -> Value:
        gone = [name for name, _ in self.reals if name not in self.inputs]
        if gone:
            raise NoRule(
                f"the density of {listed(self.inputs)} in {self}",
                expected=f"all that were normal together: {listed(gone)} too",
                nearest=f"without {listed(gone)}, which are integrated out, its precision is not sparse",
                advice="mean, variance and sample answer for some of them; the marginal of all has a density",
            )
        height = 0.5 * self._log_determinant - 0.5 * self.unknowns * math.log(2 * math.pi)
        exponent = self._exponent(tuple(Variable(name, domain) for name, domain in self.reals))
        return exponent + Array._of(self._as_own(height), (), {}, Real, self.mark)

    @property
    def _log_determinant(self) -> Data:
        """log |P|"""
        return self._solution.logdet

    def _as_own(self, data: Data) -> Data:
        """Numbers on the engine of its own, and in their precision."""
        return jnp.asarray(data, self.centre.dtype) if is_jax(self.centre) else np.asarray(data)

    def _form(self) -> Iterable[Block]:
        return moments_form(self, has_interval=True)

    def _noise(self, standard: Data) -> Data:
        """L⁻ᵀ ε with P = L Lᵀ, for each draw [draw, unknown] of standard normal numbers"""
        raise AssertionError("a kind of precision has one")

    # -- moments ----------------------------------------------------------------------------------------------------

    def _array(self, whole: Data, name: Name) -> Array:
        return Array._of(self._as_own(self.part(whole, name)), (), {}, Real.with_shape(self._shape(name)), self.mark)

    def _shape(self, name: Name) -> tuple[int, ...]:
        return self.inputs[name].shape

    def _mean(self, name: Name) -> Value:
        return self._array(self.centre, name)

    def _variance(self, name: Name) -> Value:
        return self._array(self._solution.variances, name)

    def _covariance(self, name: Name) -> Value:
        raise NoRule(
            f"the covariances of {self.unknowns:,} numbers that are normal together",
            expected="variances, or covariances of fewer: a matrix of all of them has as many rows as numbers",
            advice=f"variance({str(name)!r}) is exact; draws by sample(key) have the covariances",
        )

    def _entropy(self) -> Value:
        """½ d (1 + log 2π) − ½ log |P|"""
        if len(self.inputs) < len(self.reals):
            return super()._entropy()
        entropy = 0.5 * self.unknowns * (1 + math.log(2 * math.pi)) - 0.5 * self._log_determinant
        return Array._of(self._as_own(entropy), (), {}, Real, self.mark)


# -- rules ------------------------------------------------------------------------------------------------------------


@exact_join.rule
def join_large_gaussian(f: LargeGaussian) -> LargeGaussian:
    """f  =  f"""
    return f


@exact_sum.rule(when=lambda semiring, f, names: semiring is sum_product)
def sum_large_gaussian(semiring: Semiring, f: LargeGaussian, names: tuple) -> Factor:
    """∫ p(x, y) dy  =  p(x),  ∫ p(x) dx  =  1"""
    kept = [name for name in f.inputs if name not in names]
    return f.over(kept) if kept else Table(1.0)


@exact_normalize.rule
def normalize_large_gaussian(f: LargeGaussian, total: Table) -> Factor:
    """f / 1"""
    return f


@exact_argmax.rule
def argmax_large_gaussian(f: LargeGaussian, names: tuple) -> dict:
    """arg max p(z)  =  m"""
    return {name: f._as_own(f.part(f.centre, name)) for name in names}


@exact_sample.rule
def sample_large_gaussian(key: Any, f: LargeGaussian, names: tuple, n: int | None) -> dict:
    """z  =  m + L⁻ᵀ ε,  P = L Lᵀ"""
    require_key(key)
    count = 1 if n is None else int(n)
    noise = source_of(key, count, "jax" if is_jax(f.centre) else "numpy").normal((count, f.unknowns))
    drawn = f.centre + f._noise(noise)
    draws = {name: f._as_own(f.part(drawn, name)) for name in names}
    return draws if n is not None else {name: value[0] for name, value in draws.items()}
