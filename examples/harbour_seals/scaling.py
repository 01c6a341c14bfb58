"""How long evidence and gradient take: for the variants, and over a grid of sizes for a model of one observation.

Figure 19 and appendix D.2 of the paper: individual effects alone, one categorical observation at each time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import jax

import fubini as fb
from examples.harbour_seals.model import STATES, Parameters, shares, transition

SYMBOLS = 5
METHODS = ("sequential", "parallel")


class Timing(NamedTuple):
    """Seconds by each method, for one size."""

    individuals: int
    length: int
    sequential: float
    parallel: float


def seconds(function: Callable[..., Any], *arguments: Any, trials: int) -> float:
    """The median time of a call, after a first one that compiles."""
    jax.block_until_ready(function(*arguments))
    return median(_once(function, arguments) for _ in range(trials))


def _once(function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - begin


def simple_log_evidence(parameters: Parameters, symbols: jax.Array, method: str) -> jax.Array:
    """Π_i Σ_{e_i} p(e_i) Σ_x Π_t p(x_{t+1} | x_t, e_i) p(y_t | x_{t+1}), for symbols over [individual, time]"""
    observed = fb.Array(symbols, ("i", "t"), fb.Bint[SYMBOLS])
    chain = fb.Chain(
        init=shares(parameters["start"], "x"),
        factor=transition(parameters) * shares(parameters["symbol"], "x_next", "y")(y=observed),
        time="t",
        step={"x": "x_next"},
        method=method,
    )
    effect = shares(parameters["share"], "e_i")
    return (chain.evidence() * effect).sum("e_i", "e_g").product("i").log().data


@partial(jax.jit, static_argnames="method")
def simple_gradient(parameters: Parameters, symbols: jax.Array, method: str) -> tuple[jax.Array, Parameters]:
    """The evidence of the simple model, and its derivatives."""
    return jax.value_and_grad(simple_log_evidence)(parameters, symbols, method)


def draw_simple(key: jax.Array, values: int) -> Parameters:
    """Parameters of the simple model."""
    shapes = {
        "start": (STATES,),
        "transition": (STATES, STATES),
        "individual_effect": (values, STATES, STATES),
        "share": (values,),
        "symbol": (STATES, SYMBOLS),
    }
    keys = jax.random.split(key, len(shapes))
    return {name: jax.random.normal(keys[at], shape) for at, (name, shape) in enumerate(shapes.items())}


def grid(
    key: jax.Array, individuals: Sequence[int], lengths: Sequence[int], values: int, trials: int
) -> Iterator[Timing]:
    """Timings for each pair of sizes, on symbols drawn at random."""
    parameters = draw_simple(key, values)
    for size in individuals:
        for length in lengths:
            symbols = jax.random.randint(key, (size, length), 0, SYMBOLS)
            found = [seconds(simple_gradient, parameters, symbols, method, trials=trials) for method in METHODS]
            yield Timing(size, length, *found)
