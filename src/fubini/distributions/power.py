"""Densities raised to a power: what `numpyro.handlers.scale` and subsampled plates make of a site."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data, namespace
from fubini.errors import DomainError

POWER = "PowerDistribution"


class PowerDistribution(numpyro_families.Distribution):
    """p(x)^s, not normalised: log p is multiplied by s, for each entry of the batch, and draws are those of p."""

    arg_constraints: ClassVar[dict] = {}  # type: ignore[misc]
    pytree_data_fields = ("base_dist", "exponent")

    def __init__(self, base_dist: Any, exponent: Data) -> None:
        self.base_dist, self.exponent = base_dist, exponent
        super().__init__(base_dist.batch_shape, base_dist.event_shape, validate_args=False)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The same as that of the density."""
        return self.base_dist.support

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """The same as that of the density."""
        return self.base_dist.has_enumerate_support

    def enumerate_support(self, expand: bool = True) -> Data:
        return self.base_dist.enumerate_support(expand=expand)

    def sample(self, key: Data, sample_shape: tuple[int, ...] = ()) -> Data:
        return self.base_dist.sample(key, sample_shape)

    def log_prob(self, value: Data, intermediates: Any = None) -> Data:
        return self.exponent * self.base_dist.log_prob(value)


def over_batch(exponent: Data, batch: tuple[int, ...]) -> Data:
    """An array of exponents over the batch: summed along the axes that it lacks, where log p is the same."""
    xp = namespace(exponent)
    exponents = xp.asarray(exponent, float)
    try:
        np.broadcast_shapes(exponents.shape, batch)
    except ValueError:
        raise DomainError(
            f"a scale of shape {exponents.shape} over the batch shape {batch}",
            expected="shapes that broadcast together",
            advice="give one number, or one for each entry of the batch",
        ) from None
    exponents = xp.sum(exponents, axis=tuple(range(exponents.ndim - len(batch))))
    lead = len(batch) - exponents.ndim
    single = tuple(axis for axis, size in enumerate(exponents.shape) if batch[lead + axis] == 1 != size)
    return xp.broadcast_to(xp.sum(exponents, axis=single, keepdims=True), batch) if exponents.ndim else exponents
