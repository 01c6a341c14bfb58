"""A Value as a function of one vector, which holds the elements of its real variables one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Reals, places
from fubini.terms.value import Array, Value, to_array


def flat_function(value: Value, reals: Reals, batch: Mapping[Name, Domain]) -> tuple[Callable[[Data], Data], int]:
    """The function of a vector of all elements of the real variables, in order, and the length of that vector.

    Its result has an axis for each name of the batch, then those of the value.
    """
    own = places(reals)
    shape = (*(domain.extent for domain in batch.values()), *value.output.shape)

    def function(x: Data) -> Data:
        at: dict[Any, Value] = {
            name: Array._of(x[own[name].start : own[name].stop].reshape(domain.shape), (), {}, domain)
            for name, domain in reals
        }
        made = to_array(value.replaced(at))
        return jnp.broadcast_to(align(made.array, made.names, tuple(batch), len(value.output.shape)), shape)

    return function, sum(map(len, own.values()))
