"""Expectations under piecewise factors, from the moments in each box."""

from __future__ import annotations

from fubini.base.domains import Real
from fubini.base.names import Name
from fubini.errors import Intractable, listed
from fubini.factors.expectations import expect_table, spread_of
from fubini.factors.piecewise import Piecewise
from fubini.factors.piecewise_moments import PieceMoments
from fubini.numerics.quadratic import places
from fubini.terms.degree import degree
from fubini.terms.heads import exact_expect
from fubini.terms.value import Array, Value


@exact_expect.rule
def expect_piecewise(f: Piecewise, value: Value, names: tuple) -> Value:
    """Σ_q share(q) E_q[v],  E_q[v]  =  v(μ_q) + ½ tr(v″ Σ_q) for v of degree two at most; v(μ_q) of points"""
    reals = tuple(name for name, domain in f.inputs.items() if not domain.is_finite)
    others, order = [name for name in reals if name not in names], degree(value, reals)
    if others or (order > 2 and not f.is_of_points):
        raise Intractable(
            f"the expectation of {value} under {f}",
            expected=f"a polynomial of degree two at most in {listed(reals)}, and an average over all of these",
            nearest=f"{listed(others)} stays" if others else f"its degree is {order:g}",
            advice="estimate it by sampling, or represent the variable by a grid or particles",
        )
    pieces = f.moments()
    inside = value.replaced({name: _mean(f, pieces, name) for name in reals if name in value.inputs})
    if order == 2:
        used = tuple(name for name in reals if name in value.inputs)
        inside = inside + 0.5 * spread_of(value, used, _covariance(f, pieces, used))
    integers = [name for name in names if name not in reals]
    return expect_table(pieces.mass, inside, (*f.indices, *integers))


def _mean(f: Piecewise, pieces: PieceMoments, name: Name) -> Array:
    """The mean of a variable in each box."""
    place, shape = places(f._real_order)[name], f.inputs[name].shape
    data = pieces.mean[..., place.start : place.stop].reshape((*pieces.mean.shape[:-1], *shape))
    return Array._of(data, pieces.names, {**f.inputs, **f.indices}, Real.with_shape(shape), f.exactness)


def _covariance(f: Piecewise, pieces: PieceMoments, names: tuple[Name, ...]) -> Array:
    """The covariance of some variables, one after the other, in each box."""
    at = [position for name in names for position in places(f._real_order)[name]]
    data = pieces.covariance[..., at, :][..., :, at]
    return Array._of(data, pieces.names, {**f.inputs, **f.indices}, Real[len(at), len(at)], f.exactness)
