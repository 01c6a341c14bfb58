"""Values that are affine in real variables, seen from their jaxpr: those of functions and of index notation."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, namespace, precision
from fubini.base.domains import Real
from fubini.base.names import Name
from fubini.numerics.jumps import read_affine
from fubini.numerics.named_axes import align
from fubini.terms.affine import Affine
from fubini.terms.value import Array, Value, to_array


def traced_affine(value: Value, names: Collection[Name]) -> Affine | None:
    """The coefficients of a Value in the names given; None where it is not affine in them together."""
    reals = [(name, domain) for name, domain in value.inputs.items() if name in names]
    batch = {name: domain for name, domain in value.inputs.items() if name not in names}
    if not reals or not all(domain.is_finite for domain in batch.values()):
        return None
    sizes = [math.prod(domain.shape) for _, domain in reals]
    starts = np.cumsum([0, *sizes])
    shape = (*(domain.extent for domain in batch.values()), *value.output.shape)
    event = len(value.output.shape)

    def function(x: Data) -> Data:
        at: dict[Any, Value] = {
            name: Array._of(x[start : start + size].reshape(domain.shape), (), {}, domain)
            for (name, domain), start, size in zip(reals, starts, sizes, strict=False)
        }
        made = to_array(value.replaced(at))
        return jnp.broadcast_to(align(made.array, made.names, tuple(batch), event), shape)

    is_numpy = not any(map(is_jax, value.leaves()))
    with precision(is_numpy):
        read = read_affine(function, int(starts[-1]))
    if read is None:
        return None
    is_numpy = is_numpy and not is_traced(*read)  # index notation may hold tracers
    constant, slopes = map(np.asarray, read) if is_numpy else read
    output = Real.with_shape(value.output.shape)
    by_name = {}
    for (name, _), start, size in zip(reals, starts, sizes, strict=False):
        own = namespace(slopes).moveaxis(slopes[start : start + size], 0, -1)
        by_name[name] = Array._of(own, tuple(batch), batch, output.with_shape((*value.output.shape, size)))
    return Affine(Array._of(constant, tuple(batch), batch, output), by_name)
