"""Log-weights that are polynomials of degree two at most in their real variables: Gaussians."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np

from fubini.base.arrays import Data, double_precision, is_jax
from fubini.base.domains import Real
from fubini.base.names import Name
from fubini.factors.gaussian import shifted, to_gaussian
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic
from fubini.terms.degree import degree
from fubini.terms.factor import Factor, Weight
from fubini.terms.heads import exact_join
from fubini.terms.value import Array, Value, to_array


def real_names(term: Factor | Value) -> tuple[Name, ...]:
    """The inputs that are real numbers or arrays of them."""
    return tuple(name for name, domain in term.inputs.items() if domain.kind == "real")


def is_quadratic(value: Value) -> bool:
    """Whether a weight is a polynomial of degree two at most in real variables, for each value of bounded integers."""
    reals = real_names(value)
    others = [domain for name, domain in value.inputs.items() if name not in reals]
    return bool(reals) and all(domain.is_finite for domain in others) and degree(value, reals) <= 2


@exact_join.rule(when=lambda f: is_quadratic(f.value))
def join_quadratic_weight(f: Weight) -> Factor:
    """exp(c + h·z − ½ z·K z)"""
    constant, gradient, hessian = derivatives(f.value, real_names(f))
    reals = tuple((name, f.inputs[name]) for name in real_names(f))
    quadratic = Quadratic(gradient.array, gradient.names, -hessian.array, hessian.names)
    scale = shifted(Table(1.0), constant.array, constant.names, f.inputs)._marked(f.exactness)
    return to_gaussian(scale, quadratic, reals, f.inputs)


def derivatives(value: Value, names: tuple[Name, ...]) -> tuple[Array, Array, Array]:
    """The value, its gradient and its Hessian in the names together, flattened, at zero."""
    domains = {name: value.inputs[name] for name in names}
    sizes = [math.prod(domain.shape) for domain in domains.values()]
    batch = {name: domain for name, domain in value.inputs.items() if name not in domains}

    def at(flat: Data) -> Data:
        pieces = np.cumsum([0, *sizes])
        parts = {
            name: Array._of(flat[start:end].reshape(domain.shape), (), {}, Real.with_shape(domain.shape))
            for (name, domain), start, end in zip(domains.items(), pieces, pieces[1:], strict=False)
        }
        return _over(to_array(value.replaced(parts)), batch)

    on_jax = any(map(is_jax, value.leaves()))
    zeros = np.zeros(sum(sizes))
    if on_jax:
        expansion = _expanded(at, jax.numpy.asarray(zeros, float))
    else:
        with double_precision(), jax.ensure_compile_time_eval():
            expansion = [np.asarray(part) for part in _expanded(at, jax.numpy.asarray(zeros))]
    order = tuple(batch)
    size = sum(sizes)
    shapes = ((), (size,), (size, size))
    arrays = [
        Array._of(data, order, batch, Real.with_shape(shape)) for data, shape in zip(expansion, shapes, strict=True)
    ]
    return arrays[0], arrays[1], arrays[2]


def _expanded(function: Callable[[Data], Data], at: Data) -> list[Data]:
    """The value, the gradient and the Hessian, of one run of the function."""

    def slope(at: Data) -> tuple[Data, list[Data]]:
        gradient, value = jax.jacrev(lambda z: (function(z),) * 2, has_aux=True)(at)
        return gradient, [value, gradient]

    hessian, (value, gradient) = jax.jacfwd(slope, has_aux=True)(at)
    return [value, gradient, hessian]


def _over(value: Array, batch: dict) -> Data:
    """The data over the whole batch."""
    data = align(value.array, value.names, tuple(batch))
    return jax.numpy.broadcast_to(data, [domain.extent for domain in batch.values()])
