"""What a sampler drew: arrays by name, [chain, draw, …]."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def arviz() -> Any:
    """ArviZ, which takes a second to import, and warns that its next version will differ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as module
    return module


class Draws(dict[str, np.ndarray]):
    """Draws by name."""

    def to_arviz(
        self, dims: Mapping[str, Sequence[str]] | None = None, coords: Mapping[str, Sequence[Any]] | None = None
    ) -> Any:
        """As ArviZ data."""
        named = {name: list(axes) for name, axes in (dims or {}).items()}
        found = arviz().from_dict(posterior=dict(self), dims=named or None, coords=dict(coords) if coords else None)
        found.posterior.attrs.update(inference_library="fubini", method="gibbs")
        return found
