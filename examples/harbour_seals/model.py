"""The model: three behaviours, whose transitions depend on discrete effects of the individual and of its sex.

    p(y) = Π_g Σ_{e_g} p(e_g) Π_i Σ_{e_i} p(e_i | g) Σ_x p(x_0) Π_t p(x_{t+1} | x_t, e_g, e_i) p(y_t | x_{t+1})

Plates g (sex) and i (individual). "Functional Tensors for Probabilistic Programming", section 6.1 and appendix D.1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import fubini as fb
from examples.harbour_seals.data import Tracks

STATES = 3
KILOMETRE = 1000.0
POSITIVE = ("step_shape", "angle_concentration", "omega_one", "omega_other")
PER_STATE = (*POSITIVE, "step_zero", "step_mean", "angle_mean", "omega_zero")

Parameters = dict[str, jax.Array]


class Variant(NamedTuple):
    """Which effects there are."""

    name: str
    individual: bool
    group: bool


VARIANTS = (
    Variant("No RE", individual=False, group=False),
    Variant("Individual RE", individual=True, group=False),
    Variant("Group RE", individual=False, group=True),
    Variant("Individual+Group RE", individual=True, group=True),
)


def draw_parameters(key: jax.Array, variant: Variant, values: int = 3, groups: int = 2) -> Parameters:
    """Standard normal starting points of the unconstrained parameters."""
    shapes = {"start": (STATES,), "transition": (STATES, STATES), **dict.fromkeys(PER_STATE, (STATES,))}
    if variant.individual:
        shapes |= {"individual_effect": (values, STATES, STATES), "individual_share": (groups, values)}
    if variant.group:
        shapes |= {"group_effect": (values, STATES, STATES), "group_share": (values,)}
    keys = jax.random.split(key, len(shapes))
    return {name: jax.random.normal(keys[at], shape) for at, (name, shape) in enumerate(shapes.items())}


def log_evidence(parameters: Parameters, tracks: Tracks, method: str | None = None) -> jax.Array:
    """log p(observations): paths summed by a chain for all individuals at once, then effects and plates inside out."""
    chain = fb.Chain(
        init=shares(parameters["start"], "x"),
        factor=transition(parameters) * observation(parameters, tracks),
        time="t",
        step={"x": "x_next"},
        method=method,
    )
    exists = fb.Array(tracks.exists * 1.0, ("g", "i"))
    individual = (chain.evidence() * individual_effect(parameters)).sum("e_i") ** exists
    group = (individual.product("i") * group_effect(parameters)).sum("e_g")
    return group.product("g").log().data


def shares(logits: jax.Array, *names: str) -> fb.Factor:
    """A distribution over the last name, for each of the others."""
    return fb.Table.from_log(jax.nn.log_softmax(logits), names)


def individual_effect(parameters: Parameters) -> fb.Factor:
    """p(e_i | g); an effect that is left out has one value."""
    if "individual_share" in parameters:
        return shares(parameters["individual_share"], "g", "e_i")
    return shares(jnp.zeros(1), "e_i")


def group_effect(parameters: Parameters) -> fb.Factor:
    """p(e_g)"""
    return shares(parameters.get("group_share", jnp.zeros(1)), "e_g")


def transition(parameters: Parameters) -> fb.Factor:
    """p(x_next | x, e_g, e_i) ∝ exp(a + b(e_g) + c(e_i))(x, x_next)"""
    none = jnp.zeros((1, STATES, STATES))
    group, individual = parameters.get("group_effect", none), parameters.get("individual_effect", none)
    return shares(parameters["transition"] + group[:, None] + individual, "e_g", "e_i", "x", "x_next")


def observation(parameters: Parameters, tracks: Tracks) -> fb.Factor:
    """p(y_t | x_next): the product of three densities, each 1 where nothing was observed."""
    return fb.Table.from_log(log_densities(parameters, tracks), ("g", "i", "t", "x_next"))


def log_densities(parameters: Parameters, tracks: Tracks) -> jax.Array:
    """Over [sex, individual, time, state]."""
    positive = {name: jax.nn.softplus(parameters[name]) for name in POSITIVE}
    shape, mean = positive["step_shape"], KILOMETRE * jnp.exp(parameters["step_mean"])
    step = dist.Gamma(shape, shape / mean)
    angle = dist.VonMises(parameters["angle_mean"], positive["angle_concentration"])
    omega = dist.Beta(positive["omega_one"], positive["omega_other"])
    return (
        zero_inflated(step, parameters["step_zero"], tracks.step)
        + seen(angle, tracks.angle, jnp.isfinite(tracks.angle))
        + zero_inflated(omega, parameters["omega_zero"], tracks.omega)
    )


def zero_inflated(density: dist.Distribution, logit: jax.Array, data: jax.Array) -> jax.Array:
    """0 with probability z = sigmoid(logit), otherwise a draw from the density: z^[y = 0] ((1 − z) p(y))^[y > 0]"""
    zero = jnp.where((data == 0)[..., None], jax.nn.log_sigmoid(logit), 0.0)
    other = jnp.where((data > 0)[..., None], jax.nn.log_sigmoid(-logit), 0.0)
    return zero + other + seen(density, data, data > 0)


def seen(density: dist.Distribution, data: jax.Array, where: jax.Array) -> jax.Array:
    """The log-density at the data there, 0 elsewhere; 1/2 is in every support."""
    log = density.log_prob(jnp.where(where, data, 0.5)[..., None])
    return jnp.where(where[..., None], log, 0.0)
