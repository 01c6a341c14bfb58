"""Quadrature: an integral over up to three numbers without a closed form becomes a sum over a grid, with its error."""

from __future__ import annotations

from fubini.approximate.closed_part import closed_part, in_closed_form
from fubini.approximate.factor_points import FactorPoints, factor_points
from fubini.approximate.open_integral import OpenIntegral, WeightedPoints
from fubini.base.interpretations import Interpretation, current
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.expectations import weighted
from fubini.numerics.cubature import MOST_NUMBERS, integrate
from fubini.numerics.frame import NoGrid
from fubini.terms.exactness import integrated
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.heads import EXPECT, INTEGRATE, SUM
from fubini.terms.value import Array, Value, to_array

quadrature_integrate = RuleSet("quadrature.integrate", head=INTEGRATE)
quadrature_sum = RuleSet("quadrature.sum", head=SUM)
quadrature_expect = RuleSet("quadrature.expect", head=EXPECT)


class Quadrature(Interpretation):
    """Sums and integrals without a closed form on a grid."""


def quadrature() -> Interpretation:
    """The interpretation in force, with integrals over up to three numbers that have no closed form done on a grid.

    What has a closed form stays exact. The exactness of an evidence or a sum holds a bound on its error.

    >>> @fb.model
    ... def logistic():
    ...     w = yield fb.dist.Normal(0.0, 1.0)
    ...     y = yield fb.dist.Bernoulli(logits=w * jnp.array([1.0, 2.0, -1.0]))
    >>> with quadrature():
    ...     evidence = logistic().condition(y=[1, 1, 0]).log_evidence()
    >>> round(float(evidence), 6), evidence.exactness.marks
    (-1.554129, ('quadrature',))
    """
    return Quadrature("quadrature()", (quadrature_integrate, quadrature_sum, quadrature_expect), base=current())


@quadrature_integrate.rule
def integrate_on_grid(integral: OpenIntegral) -> WeightedPoints:
    """∫ f(x) dx  ≈  Σ_k h f(x_k) x′_k, x = c + s sinh(k h)"""
    density = integral.density()
    if density.size > MOST_NUMBERS:
        raise Intractable(
            f"quadrature over the {density.size} numbers of {listed(integral.names)}",
            expected=f"at most {MOST_NUMBERS} numbers without a closed form",
            nearest=" ".join(str(integral.error()).split()),
            advice="use fb.monte_carlo(key, n) instead, or infer(key)",
        )
    try:
        grid = integrate(density.log_density, density.size, density.plausible)
    except NoGrid as reason:
        raise Intractable(
            f"quadrature over {listed(integral.names)}",
            expected="a density that a grid describes: of few modes, smooth, without very long tails",
            nearest=str(reason),
            advice="use fb.monte_carlo(key, n) instead, or infer(key)",
        ) from None
    return WeightedPoints(grid.points, grid.log_weights, integrated(grid.error))


@quadrature_sum.rule
def sum_on_grid(semiring: Semiring, f: Factor, names: tuple) -> Factor:
    """∫ f(x, y) dx  ≈  Σ_k w_k f(x_k, y), for each y, where it has no closed form"""
    try:
        return in_closed_form(Quadrature, SUM, semiring, f, names)
    except (Intractable, NoRule) as error:
        if semiring is not sum_product:
            raise
        reason = error
    grid = _points(f, names, reason)
    rest = [name for name in names if name in grid.weights.inputs]
    total = grid.weights.sum(grid.along, *rest)._marked(grid.exactness)
    return total if f.exactness.marks else total._with_error(grid.exactness.error)


@quadrature_expect.rule
def expect_on_grid(f: Factor, value: Value, names: tuple) -> Value:
    """E[v(x)]  ≈  Σ_k w_k f(x_k) v(x_k) / Σ_k w_k f(x_k) where it has no closed form"""
    try:
        return in_closed_form(Quadrature, EXPECT, f, value, names)
    except (Intractable, NoRule) as error:
        reason = error
    grid = _points(f, names, reason)
    axes = (*(name for name in names if name in grid.weights.inputs), grid.along)
    shares = grid.weights._normalized(axes).numbers()
    mean = to_array(weighted(shares, value.replaced(grid.values), axes))
    return Array._of(mean.array, mean.names, mean.inputs, mean.output, mean.mark | grid.exactness)


def _points(f: Factor, names: tuple, reason: Exception) -> FactorPoints:
    """Weighted points of the names that have no closed form, the others summed out."""
    infinite = [name for name in names if not f.inputs[name].is_finite]
    with current().without(Quadrature):
        terms, asked = closed_part(list(terms_of(f)), infinite)
    if not asked:
        raise reason
    return factor_points(product(*terms), asked, reason)
