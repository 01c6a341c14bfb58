"""Slices of an array of independent distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fubini.base.arrays import namespace
from fubini.distributions.density import Distribution
from fubini.errors import DomainError
from fubini.terms.value import to_array


def sliced(distribution: Distribution, index: Any) -> Distribution:
    """Slice an array of independent values: `Normal(loc, 1.)` over ten, at `index` along the leading axes.

    >>> from fubini import dist
    >>> sliced(dist.Normal(np.zeros(3), 1.0), slice(1, None)).domain
    Reals[2]
    """
    signature = distribution.signature
    batch = signature.shape[: len(signature.shape) - signature.event_rank]
    try:
        shape = np.empty(batch)[index].shape
    except IndexError as error:
        raise DomainError(f"{distribution} at {index!r}", expected=f"an index into the shape {batch}") from error
    if distribution.family == "ExpandedDistribution":
        base = distribution["base_dist"]
        assert isinstance(base, Distribution)
        if len(base.signature.shape) == base.signature.event_rank:
            return base.expand(shape)
    if distribution.inputs or not set(distribution.keys) <= set(signature.constraints):
        raise DomainError(f"a slice of {distribution}", expected="a family with array parameters, or a plain expansion")
    given = {}
    for key, value in zip(distribution.keys, distribution.args, strict=True):
        array = to_array(value).array  # type: ignore[arg-type]
        event = np.shape(array)[np.ndim(array) - signature.constraints[key].event_dim :]
        given[key] = namespace(array).broadcast_to(array, batch + event)[index]
    return Distribution(distribution.family, {**given, **dict(distribution.statics)})
