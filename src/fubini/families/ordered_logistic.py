"""OrderedLogistic(predictor, cutpoints): the interval between cutpoints that a logistic number is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, call, const, less, minus, plus, scale, where
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import log_one_plus_exp
from fubini.families.incomplete_functions import log_complement
from fubini.families.parameters import Support, Vectors


def log_ordered(k: Node, parameters: Mapping[str, Any]) -> Node:
    """log(σ(c_k − η) − σ(c_(k−1) − η))  =  log σ(c_k − η) + log σ(η − c_(k−1)) + log(1 − e^(c_(k−1) − c_k))"""
    predictor, cutpoints = parameters["predictor"], parameters["cutpoints"]
    last = const(cutpoints.over.size - 1.0)
    above, below = cutpoints.at(call("min", k, last)), cutpoints.at(call("max", minus(k, ONE), ZERO))
    is_first, is_last = less(k, ONE), less(last, k)
    gap = where(is_first, const(-1.0), where(is_last, const(-1.0), minus(below, above)))  # never 0: slopes are finite
    return plus(
        where(is_last, ZERO, scale(-1.0, log_one_plus_exp(minus(predictor, above)))),
        where(is_first, ZERO, scale(-1.0, log_one_plus_exp(minus(below, predictor)))),
        where(is_first, ZERO, where(is_last, ZERO, log_complement(gap))),
    )


def labels(parameters: Vectors) -> Support:
    """0 to the number of cutpoints"""
    return Support(ZERO, const(float(parameters["cutpoints"].over.size)), True)


ORDERED_LOGISTIC = register(
    Family(
        "OrderedLogistic",
        {"predictor": constraints.real, "cutpoints": constraints.ordered_vector},
        labels,
        log_ordered,
        names=("OrderedLogistic",),
    )
)
