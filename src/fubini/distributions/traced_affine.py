"""Values that are affine in real variables, seen from their jaxpr: those of functions and of index notation."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fubini.base.arrays import is_jax, is_traced, namespace, precision
from fubini.base.domains import Real
from fubini.base.names import Name
from fubini.distributions.flat_function import flat_function
from fubini.numerics.jumps import read_affine
from fubini.numerics.quadratic import places
from fubini.terms.affine import Affine
from fubini.terms.value import Array, Value


def traced_affine(value: Value, names: Collection[Name]) -> Affine | None:
    """The coefficients of a Value in the names given; None where it is not affine in them together."""
    reals = tuple((name, domain) for name, domain in value.inputs.items() if name in names)
    batch = {name: domain for name, domain in value.inputs.items() if name not in names}
    if not reals or not all(domain.is_finite for domain in batch.values()):
        return None
    is_numpy = not any(map(is_jax, value.leaves()))
    with precision(is_numpy):
        read = read_affine(*flat_function(value, reals, batch))
    if read is None:
        return None
    is_numpy = is_numpy and not is_traced(*read)  # index notation may hold tracers
    constant, slopes = map(np.asarray, read) if is_numpy else read
    output = Real.with_shape(value.output.shape)
    by_name = {}
    for name, place in places(reals).items():
        own = namespace(slopes).moveaxis(slopes[place.start : place.stop], 0, -1)
        by_name[name] = Array._of(own, tuple(batch), batch, output.with_shape((*value.output.shape, len(place))))
    return Affine(Array._of(constant, tuple(batch), batch, output), by_name)
