"""Categorical(probs or logits): one of finitely many labels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.binding import closed
from fubini.algebra.build import ZERO, call, const, minus
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import log
from fubini.families.parameters import Arrays, Support, Vectors
from fubini.families.signature import Match, Signature


def log_categorical(k: Node, parameters: Vectors) -> Node:
    """log p[k]  =  logits[k] − log Σ_c exp logits[c]"""
    if "probs" in parameters:
        return log(parameters["probs"].at(k))
    c, entry = parameters["logits"]
    return minus(parameters["logits"].at(k), log(total([c], call("exp", entry))))


def from_logits(k: Index, logit: Node) -> Match:
    """log Σ_k exp(logit_k)"""
    return {"logits": logit}, closed("lse", [k], logit)


def draw(key: Data, parameters: Arrays) -> Data:
    """A label by its logits."""
    logits = parameters["logits"] if "logits" in parameters else jnp.log(parameters["probs"])
    return jax.random.categorical(key, logits)


def labels(parameters: Vectors) -> Support:
    """0 … n − 1"""
    (vector,) = parameters.values()
    return Support(ZERO, const(vector.over.size - 1.0), True)


CATEGORICAL = register(
    Family(
        "Categorical",
        {"probs": constraints.simplex},
        labels,
        log_categorical,
        names=("Categorical", "CategoricalProbs", "CategoricalLogits"),
        alternatives={"logits": constraints.real_vector},
        signature=Signature("labels", from_logits),
        draw=draw,
        is_enumerated=True,
        equation="Σ_k exp(logit_k), entry by entry",
    )
)
