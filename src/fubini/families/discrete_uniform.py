"""DiscreteUniform(low, high): 1/(high − low + 1) for each whole number between the ends."""

from __future__ import annotations

import jax

from fubini.algebra.build import ONE, minus, plus, scale, where
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import MINUS_INFINITY, is_inside, log, square
from fubini.families.parameters import WHOLE_ENDS, Parameters, Support


def count(parameters: Parameters) -> Node:
    """high − low + 1"""
    return plus(minus(parameters["high"], parameters["low"]), ONE)


def flat(parameters: Parameters) -> Node:
    """−log(high − low + 1)"""
    return scale(-1.0, log(count(parameters)))


def log_discrete_uniform(x: Node, parameters: Parameters) -> Node:
    """−log(high − low + 1) inside"""
    return where(is_inside(x, parameters["low"], parameters["high"]), flat(parameters), MINUS_INFINITY)


DISCRETE_UNIFORM = register(
    Family(
        "DiscreteUniform",
        WHOLE_ENDS,
        lambda p: Support(p["low"], p["high"], True),
        lambda x, p: flat(p),
        log_density_everywhere=log_discrete_uniform,
        names=("DiscreteUniform",),
        draw=lambda key, p: jax.random.randint(key, p["low"].shape, p["low"].astype(int), p["high"].astype(int) + 1),
        mean=lambda p: scale(0.5, plus(p["low"], p["high"])),
        variance=lambda p: scale(1 / 12, minus(square(count(p)), ONE)),
        flat=flat,
    )
)
