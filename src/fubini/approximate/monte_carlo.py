"""Monte Carlo: a sum without a closed form becomes a mean over draws; what has one is still exact."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

from fubini.approximate.closed_part import closed_part
from fubini.approximate.open_integral import OpenIntegral, WeightedPoints
from fubini.approximate.proposals import averaged, drawn
from fubini.base import ops
from fubini.base.arrays import Data, is_traced
from fubini.base.interpretations import Interpretation, current, interpret, uninterpreted
from fubini.base.names import Name
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.ask import eliminate
from fubini.errors import DataError, DomainError, Intractable, NoRule, listed
from fubini.factors.expectations import weighted
from fubini.factors.promotion import promoted
from fubini.numerics.randomness import SAMPLES, Randomness, require_key, words
from fubini.numerics.tempered_smc import NoPath, start_around, tempered_smc
from fubini.terms.exactness import estimated
from fubini.terms.factor import Factor, Weight, is_tabular, product, terms_of
from fubini.terms.heads import EXPECT, INTEGRATE, MULTIPLY_OUT, SUM
from fubini.terms.indexing import fold
from fubini.terms.value import Array, Value, to_array


class MonteCarlo(Interpretation):
    """Draws `n` at a time, from keys of its own for each sum; `names` are drawn even where there is a closed form."""

    n: int
    names: frozenset[Name]
    _uses: list[tuple]

    def __enter__(self) -> Interpretation:
        outer: Interpretation | None = current()
        while outer is not None:
            if isinstance(outer, MonteCarlo) and outer.arrays is self.arrays and self.arrays is not None:
                raise DataError(
                    f"{self} inside {outer} with the same key",
                    expected="a key for each context: the draws of both would be the same",
                    advice="split it: outer, inner = jax.random.split(key)",
                )
            outer = outer.base
        self._uses = []
        return super().__enter__()

    def randomness(self, label: str) -> Randomness:
        """Random numbers for one sum."""
        return Randomness(self.next_key(label), self.n, jnp)

    def next_key(self, label: str) -> Data:
        """A key for one use: another for each label, and for each use in one trace. Each trace counts anew."""
        use = (label, get_opaque_trace_state())
        count = self._uses.count(use)
        self._uses.append(use)
        key = jax.random.fold_in(self.arrays, np.uint32(zlib.crc32(label.encode())))
        return jax.random.fold_in(key, count)


def monte_carlo(key: Data, n: int, *names: Name) -> MonteCarlo:
    """The interpretation in force, with sums that have no closed form estimated from n draws.

    The draws come from the factors themselves; derivatives of every order of an estimate are unbiased, by
    reparametrisation where a draw is a smooth function of its parameters, by DiCE weights where it is not. Variables
    among `names` are drawn even where there is a closed form.

    >>> x = fb.Variable("x", fb.Real)
    >>> with monte_carlo(jax.random.key(0), 10_000):
    ...     estimate = fb.expectation(fb.dist.Normal(0.0, 1.0)("x"), fb.ops.exp(x), "x")
    >>> abs(float(estimate) - 1.6487) < 0.1, estimate.exactness
    (True, estimated(10000))
    """
    require_key(key)
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise DataError(f"monte_carlo with n={n!r}", expected="a whole number of draws, at least 1")
    drawn_names = "".join(f", {name!r}" for name in names)
    made = MonteCarlo(
        f"monte_carlo(n={n}{drawn_names})",
        (estimates_sum, estimates_expect, estimates_product, estimates_integral),
        base=current(),
    )
    made.n, made.names, made._uses, made.arrays = int(n), frozenset(names), [], key
    return made


def sampler_of(interpretation: Interpretation | None) -> MonteCarlo | None:
    """The Monte Carlo interpretation in force, if there is one."""
    while interpretation is not None and not isinstance(interpretation, MonteCarlo):
        interpretation = interpretation.base
    return interpretation


def _sampler() -> MonteCarlo:
    sampler = sampler_of(current())
    assert sampler is not None, "a rule of Monte Carlo ran outside of one"
    return sampler


def exactly() -> Interpretation:
    """The interpretation in force without what draws: it says what is exact."""
    return current().without(MonteCarlo)


def _exactly(head: Any, *args: Any) -> Any:
    with exactly():
        return interpret(head, *args)


estimates_sum = RuleSet("monte_carlo.sum", head=SUM)
estimates_expect = RuleSet("monte_carlo.expect", head=EXPECT)
estimates_product = RuleSet("monte_carlo.multiply_out", head=MULTIPLY_OUT)
estimates_integral = RuleSet("monte_carlo.integrate", head=INTEGRATE)


@estimates_sum.rule
def sum_by_samples(semiring: Semiring, f: Factor, names: tuple) -> Factor:
    """Σ_z f(z, y)  ≈  1/n Σ_i w_i f(z_i, y) / q(z_i) where it has no closed form"""
    if semiring is not sum_product:
        return _exactly(SUM, semiring, f, names)
    sampler = _sampler()
    asked = [name for name in names if name in sampler.names]
    if not asked:
        try:
            return _exactly(SUM, semiring, f, names)
        except (Intractable, NoRule):
            with exactly():
                terms, asked = closed_part(list(terms_of(f)), [n for n in names if not f.inputs[n].is_finite])
            if not asked:
                raise
    else:
        with exactly():
            terms, _ = closed_part(list(terms_of(f)), [n for n in names if not f.inputs[n].is_finite], asked)
    with exactly():
        draws = drawn(terms, asked, sampler.randomness(f"sum over {asked}"))
        remaining = [*draws.terms, averaged(sampler.n)]
        present = {name for term in remaining for name in term.inputs}
        rest = [name for name in names if name not in asked and name in present]
        each = promoted(eliminate(remaining, rest))
        total = promoted(each.sum(SAMPLES))
    total = total._marked(estimated(sampler.n))
    return total if f.exactness.marks else total._with_error(_standard_error(each))


def _standard_error(each: Factor) -> float | None:
    """The relative standard error of a sum of weights, where they are known and of one cell."""
    if not each.lists_cells or tuple(each.inputs) != (SAMPLES,) or is_traced(*each.leaves()):
        return None
    logs = np.asarray(each.log().data, np.float64)  # type: ignore[attr-defined]
    ratios = np.exp(logs - logs.max()) if np.max(logs) > -np.inf else np.zeros(1)
    return float(np.std(ratios) / np.mean(ratios) / np.sqrt(len(ratios))) if ratios.any() else None


@estimates_expect.rule
def expect_by_samples(f: Factor, value: Value, names: tuple) -> Value:
    """E[v(z)]  ≈  1/n Σ_i w_i v(z_i) where it has no closed form"""
    sampler = _sampler()
    asked = [name for name in names if name in sampler.names]
    if not asked:
        try:
            return _exactly(EXPECT, f, value, names)
        except (Intractable, NoRule):
            asked = [name for name in names if not f.inputs[name].is_finite]
            if not asked:
                raise
    with exactly():
        try:
            total = _mean(f, value, names, asked, sampler)
        except (Intractable, NoRule):
            rest = [name for name in names if name not in asked and not f.inputs[name].is_finite]
            if not rest:
                raise
            total = _mean(f, value, names, [*asked, *rest], sampler)
        estimate = to_array(total)
    mark = estimate.mark | estimated(sampler.n)
    return Array._of(estimate.array, estimate.names, estimate.inputs, estimate.output, mark)


def _mean(f: Factor, value: Value, names: tuple, asked: Sequence[Name], sampler: MonteCarlo) -> Value:
    """Σ f·v / Σ f, drawn over the names asked and exact over the others."""
    mass = promoted(f.sum(*names))
    draws = drawn(terms_of(f), asked, sampler.randomness(f"expectation over {asked}"))
    remaining = promoted(product(*draws.terms, averaged(sampler.n)))
    inside = value.replaced(draws.points)
    reals = tuple(name for name in names if name in remaining.inputs and not remaining.inputs[name].is_finite)
    if reals:
        used = tuple(name for name in reals if name in inside.inputs)
        marginal = (
            promoted(remaining.sum(*(name for name in reals if name not in used))) if used != reals else remaining
        )
        inside = interpret(EXPECT, marginal, inside, used) if used else inside
        remaining = promoted(remaining.sum(*reals))
    if not (remaining.lists_cells and is_tabular(mass)):
        raise Intractable(
            f"an estimate of the expectation of {value} over {listed(names)} under {f}",
            expected="factors that are known once these variables are drawn",
            nearest=f"{remaining} remains",
        )
    rest = tuple(name for name in names if name not in asked and name not in reals)
    return weighted(promoted(remaining / mass).numbers(), inside, (*rest, SAMPLES))


@estimates_product.rule(when=lambda f, names: f.grows)
def multiply_out_at_points(f: Factor, names: tuple) -> Factor:
    """Π_j Σ_c f(j, c)  =  exp(Σ_j log Σ_c f(j, c)), to be read at points"""
    return Weight(fold(ops.add, f.log(), *names))


@estimates_integral.rule
def integrate_by_tempering(integral: OpenIntegral) -> WeightedPoints:
    """∫ f(x) dx  ≈  Π_k 1/n Σ_i (f(x_ki)/q(x_ki))^(β_k+1 − β_k), x_ki drawn from q^(1−β_k) f^β_k"""
    sampler = _sampler()
    if is_traced(sampler.arrays):
        raise DomainError(
            f"an estimate of the integral over {listed(integral.names)} with a key that jit, vmap or grad traces",
            expected="a key that is known: how many steps it takes depends on the draws",
            advice="ask outside of jit, vmap and grad, in a loop over the keys",
        )
    try:
        with uninterpreted():  # what is compiled does not depend on the key
            density = integral.density()
            random = np.random.default_rng(words(sampler.next_key(f"integral over {integral.names}")))
            start = start_around(density.plausible(), density.normals)
            found = tempered_smc(random, *density.traced(), start, sampler.n)
    except NoPath as reason:
        raise Intractable(
            f"an estimate of the integral over {listed(integral.names)} from {sampler.n:,} draws",
            expected="draws of the prior that can follow the density to where the data put it",
            nearest=str(reason),
            advice="ask for more draws: fb.monte_carlo(key, n) with a larger n; check the scale of the data and priors",
        ) from None
    return WeightedPoints(found.points, found.log_weights, estimated(sampler.n).with_error(found.error))
