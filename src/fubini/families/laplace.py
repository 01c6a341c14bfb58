"""Laplace(loc, scale): e^(−|x − μ|/b) / 2b."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import add, call, divide, minus, scale
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import log, square
from fubini.families.parameters import REAL, Parameters


def log_laplace(x: Node, parameters: Parameters) -> Node:
    """−|x − μ|/b − log 2b"""
    distance = divide(call("abs", minus(x, parameters["loc"])), parameters["scale"])
    return add(((distance, -1.0), (log(scale(2.0, parameters["scale"])), -1.0)))


LAPLACE = register(
    Family(
        "Laplace",
        {"loc": constraints.real, "scale": constraints.positive},
        REAL,
        log_laplace,
        names=("Laplace",),
        draw=lambda key, p: p["loc"] + p["scale"] * jax.random.laplace(key, p["loc"].shape),
        mean=lambda p: p["loc"],
        variance=lambda p: scale(2.0, square(p["scale"])),
        mode=lambda p: p["loc"],
    )
)
