"""OrderedLogistic(predictor, cutpoints): the interval between cutpoints that a logistic number is in."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.build import ZERO, const
from fubini.base.arrays import Data
from fubini.families.categorical import log_categorical
from fubini.families.family import Family, register
from fubini.families.parameters import DerivedParameter, Support, Vectors


def probabilities(predictor: Data, cutpoints: Data) -> Data:
    """P(k) = σ(c_k − η) − σ(c_(k−1) − η)"""
    below = jax.nn.sigmoid(cutpoints - predictor[..., None])
    ends = (*below.shape[:-1], 1)
    return jnp.diff(below, prepend=jnp.zeros(ends), append=jnp.ones(ends))


def shape(predictor: tuple[int, ...], cutpoints: tuple[int, ...]) -> tuple[int, ...]:
    """One label more than cutpoints."""
    return (*np.broadcast_shapes(predictor, cutpoints[:-1]), cutpoints[-1] + 1)


def labels(parameters: Vectors) -> Support:
    """0 to the number of cutpoints"""
    return Support(ZERO, const(float(parameters["cutpoints"].over.size)), True)


ORDERED_LOGISTIC = register(
    Family(
        "OrderedLogistic",
        {"predictor": constraints.real, "cutpoints": constraints.ordered_vector},
        labels,
        log_categorical,
        names=("OrderedLogistic",),
        derived=lambda names: {
            "probs": DerivedParameter("chances", ("predictor", "cutpoints"), probabilities, shape, 1)
        },
    )
)
