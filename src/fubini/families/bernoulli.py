"""Bernoulli(probs or logits): 1 with probability p, else 0."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, call, const, equal, less, minus, plus, times, where
from fubini.algebra.node import Node
from fubini.algebra.ranges import bounds
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import log, log_one_plus_exp, one_minus
from fubini.families.parameters import BINARY, Arrays, Parameters
from fubini.families.summand import Summand


def probability(parameters: Parameters) -> Node:
    """p, of itself or of log p/(1 − p)"""
    return parameters["probs"] if "probs" in parameters else call("logistic", parameters["logits"])


def log_bernoulli(x: Node, parameters: Parameters) -> Node:
    """x log p + (1 − x) log(1 − p)"""
    if "logits" in parameters:
        return minus(times(x, parameters["logits"]), log_one_plus_exp(parameters["logits"]))
    p = parameters["probs"]
    return plus(times(x, log(p)), times(one_minus(x), log(one_minus(p))))


def log_bernoulli_everywhere(x: Node, parameters: Parameters) -> Node:
    """The same, by cases where p may be 0 or 1: never −∞ − (−∞)"""
    if "probs" in parameters and may_be_certain(parameters["probs"]):
        return where(equal(x, ONE), log(parameters["probs"]), log(one_minus(parameters["probs"])))
    return log_bernoulli(x, parameters)


def may_be_certain(p: Node) -> bool:
    """A probability that can be 0 or 1: one that finite latents decide, or a number."""
    if any(leaf.is_integer and leaf.role == "site" for leaf in p.leaves):
        return True
    low, high = bounds(p)
    return not any(leaf.role in ("site", "opaque") for leaf in p.leaves) and (low <= 0 or high >= 1)


def draw(key: Data, parameters: Arrays) -> Data:
    """[u < p] for a uniform u"""
    p = parameters["probs"] if "probs" in parameters else jax.nn.sigmoid(parameters["logits"])
    return jax.random.bernoulli(key, p).astype(jnp.result_type(int))


BERNOULLI = register(
    Family(
        "Bernoulli",
        {"probs": constraints.unit_interval},
        BINARY,
        log_bernoulli,
        log_density_everywhere=log_bernoulli_everywhere,
        names=("Bernoulli", "BernoulliProbs", "BernoulliLogits"),
        alternatives={"logits": constraints.real},
        draw=draw,
        mean=probability,
        variance=lambda p: times(probability(p), one_minus(probability(p))),
        moments=lambda p, most: [ONE, *[probability(p)] * most],
        summand=lambda p: Summand("Binomial", {"total_count": ONE}, {"probs": probability(p)}),
        is_enumerated=True,
        mode=lambda p: less(const(0.5), probability(p)),
        degree=(1, False),
    )
)
