"""Arguments of normal vectors as arrays: one location for all entries, and neighbours in a matrix of SciPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from fubini.terms.value import Value

MATRICES = {  # matrices with as many columns as a value has entries
    "MultivariateNormal": ("covariance_matrix", "precision_matrix", "scale_tril"),
    "CAR": ("adj_matrix",),
}


def as_arrays(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """With a vector for a location that is one number, and a full matrix for one of SciPy, which says the same."""
    arguments = dict(given)
    if family == "CAR":
        arguments.pop("is_sparse", None)  # how numpyro computes it
    for key in MATRICES.get(family, ()):
        if scipy.sparse.issparse(arguments.get(key)):
            arguments[key] = arguments[key].toarray()
        matrix, loc = arguments.get(key), arguments.get("loc")
        if matrix is not None and isinstance(loc, (int, float, np.number, np.ndarray, jax.Array)) and not np.shape(loc):
            size = (matrix.output.shape if isinstance(matrix, Value) else np.shape(matrix))[-1:]
            arguments["loc"] = (jnp if isinstance(loc, jax.Array) else np).broadcast_to(loc, size)
    return arguments
