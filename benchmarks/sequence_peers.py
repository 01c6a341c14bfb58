"""Sequence models, ours and by others: functions of arrays, ready to be jitted.

A hidden Markov model is log-transitions [K, K] and log-likelihoods [T, B, K], from an even start; a linear-Gaussian one
is a rotation of the plane with noise, seen with noise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

HAS_DYNAMAX = importlib.util.find_spec("dynamax") is not None
HAS_FUNSOR = importlib.util.find_spec("funsor") is not None

if HAS_DYNAMAX:
    from dynamax.hidden_markov_model import hmm_smoother
    from dynamax.linear_gaussian_ssm import lgssm_filter, lgssm_smoother
    from dynamax.linear_gaussian_ssm.inference import make_lgssm_params
if HAS_FUNSOR:
    import funsor
    from funsor.sum_product import sequential_sum_product

Array = Any
ROTATION = 0.99 * np.array([[np.cos(0.1), -np.sin(0.1)], [np.sin(0.1), np.cos(0.1)]])
PROCESS, NOISE = 0.1, 0.5


# -- hidden Markov models -------------------------------------------------------------------------------------------


def our_chain(transitions: Array, likelihoods: Array, method: str | None = None) -> fb.Chain:
    """The model as a user writes it."""
    states = transitions.shape[0]
    step = fb.Table.from_log(jax.nn.log_softmax(transitions), ("x", "x_next")) * fb.Table.from_log(
        likelihoods, ("t", "b", "x_next")
    )
    init = fb.Table(jnp.full(states, 1.0 / states), ("x",))
    return fb.Chain(init=init, factor=step, time="t", step={"x": "x_next"}, method=method)


def our_evidence(method: str | None) -> Callable:
    """The log-evidence of all sequences."""
    return lambda transitions, likelihoods: our_chain(transitions, likelihoods, method).log_evidence().data.sum()


def our_smoother(method: str | None) -> Callable:
    """The smoothed marginals."""
    return lambda transitions, likelihoods: our_chain(transitions, likelihoods, method).smooth().weights


def log_scan(transitions: Array, likelihoods: Array) -> Array:
    """By hand, a vector scan in logarithms."""
    log_step = jax.nn.log_softmax(transitions)
    start = jnp.full(likelihoods.shape[1:], -jnp.log(transitions.shape[0]))

    def body(now: Array, likelihood: Array) -> tuple[Array, None]:
        return jax.nn.logsumexp(now[:, :, None] + log_step, axis=1) + likelihood, None

    return jax.nn.logsumexp(jax.lax.scan(body, start, likelihoods)[0], axis=-1).sum()


def linear_scan(transitions: Array, likelihoods: Array) -> Array:
    """By hand, a vector scan in weights, normalised at each step: it loses what is far below the greatest."""
    step = jax.nn.softmax(transitions)
    start = jnp.full(likelihoods.shape[1:], 1.0 / transitions.shape[0])

    def body(now: Array, likelihood: Array) -> tuple[Array, Array]:
        top = likelihood.max(axis=-1, keepdims=True)
        after = (now @ step) * jnp.exp(likelihood - top)
        total = after.sum(axis=-1, keepdims=True)
        return after / total, (jnp.log(total) + top)[:, 0]

    return jax.lax.scan(body, start, likelihoods)[1].sum()


def associative_scan(transitions: Array, likelihoods: Array) -> Array:
    """By hand, a parallel scan of matrices in logarithms."""
    steps = jax.nn.log_softmax(transitions) + likelihoods[:, :, None, :]

    def combine(left: Array, right: Array) -> Array:
        return jax.nn.logsumexp(left[..., :, :, None] + right[..., None, :, :], axis=-2)

    last = jax.lax.associative_scan(combine, steps)[-1]
    return jax.nn.logsumexp(last - jnp.log(transitions.shape[0]), axis=(-2, -1)).sum()


def funsor_evidence(transitions: Array, likelihoods: Array) -> Array:
    """funsor's parallel scan."""
    funsor.set_backend("jax")
    length, count, states = likelihoods.shape
    bint = funsor.Bint
    steps = jax.nn.log_softmax(transitions) + likelihoods[:, :, None, :]
    inputs = {"t": bint[length], "b": bint[count], "x": bint[states], "y": bint[states]}
    trans = funsor.Tensor(steps, inputs)
    time = funsor.Variable("t", bint[length])
    product = sequential_sum_product(funsor.ops.logaddexp, funsor.ops.add, trans, time, {"x": "y"})
    total = product.reduce(funsor.ops.logaddexp, frozenset({"x", "y"})).reduce(funsor.ops.add, "b")
    return total.data - count * jnp.log(states)


def dynamax_smoother(transitions: Array, likelihoods: Array) -> Array:
    """dynamax's forward-backward, mapped over the sequences."""
    states = transitions.shape[0]
    initial = jnp.full(states, 1.0 / states) @ jax.nn.softmax(transitions)

    def one(likelihood: Array) -> Array:
        return hmm_smoother(initial, jax.nn.softmax(transitions), likelihood).smoothed_probs

    return jax.vmap(one, in_axes=1, out_axes=1)(likelihoods)


# -- linear-Gaussian models -----------------------------------------------------------------------------------------


def our_kalman(observed: Array, method: str | None = None) -> fb.Chain:
    """The model as a user writes it."""
    x, after = fb.Variable("x", fb.Reals[2]), fb.Variable("x_next", fb.Reals[2])
    eye = jnp.eye(2)
    step = dist.MultivariateNormal(jnp.asarray(ROTATION, observed.dtype) @ x, scale_tril=PROCESS * eye)("x_next")
    seen = dist.MultivariateNormal(after, scale_tril=NOISE * eye)(fb.Array(observed, ("t",)))
    init = dist.MultivariateNormal(jnp.zeros(2), scale_tril=eye)("x")
    return fb.Chain(init=init, factor=step * seen, time="t", step={"x": "x_next"}, method=method)


def our_kalman_evidence(method: str | None) -> Callable:
    """The log-evidence."""
    return lambda observed: our_kalman(observed, method).log_evidence().data


def our_kalman_filter(method: str | None) -> Callable:
    """The filtered means."""
    return lambda observed: our_kalman(observed, method).filter().mean("x_next").data


def our_kalman_smoother(method: str | None) -> Callable:
    """The smoothed means."""
    return lambda observed: our_kalman(observed, method).smooth().mean("x_next").data


def dynamax_parameters() -> Any:
    """The same model; its first state is seen, so that the start is one step on."""
    eye = jnp.eye(2)
    start = jnp.asarray(ROTATION @ ROTATION.T) + PROCESS**2 * eye
    return make_lgssm_params(jnp.zeros(2), start, jnp.asarray(ROTATION), PROCESS**2 * eye, eye, NOISE**2 * eye)


def dynamax_kalman(what: str) -> Callable:
    """dynamax's filter, smoother or evidence."""
    parameters = dynamax_parameters()
    if what == "evidence":
        return lambda observed: lgssm_filter(parameters, observed).marginal_loglik
    if what == "filter":
        return lambda observed: lgssm_filter(parameters, observed).filtered_means
    return lambda observed: lgssm_smoother(parameters, observed).smoothed_means


# -- switching models -----------------------------------------------------------------------------------------------


def switching_evidence(observed: Array, window: int) -> Array:
    """The projected log-evidence of a switching model: two regimes, five dimensions."""
    size = 5
    x, after = fb.Variable("x", fb.Reals[size]), fb.Variable("x_next", fb.Reals[size])
    matrices = fb.Array(jnp.stack([0.95 * jnp.eye(size), 0.7 * jnp.eye(size)]), ("s_next",))
    roots = fb.Array(jnp.stack([0.2 * jnp.eye(size), jnp.eye(size)]), ("s_next",))
    switch = fb.Table(jnp.array([[0.95, 0.05], [0.1, 0.9]]), ("s", "s_next"))
    step = dist.MultivariateNormal(matrices @ x, scale_tril=roots)("x_next")
    seen = dist.MultivariateNormal(after, scale_tril=0.5 * jnp.eye(size))(fb.Array(observed, ("t",)))
    init = fb.Table(jnp.array([0.5, 0.5]), ("s",)) * dist.MultivariateNormal(jnp.zeros(size), scale_tril=jnp.eye(size))(
        "x"
    )
    chain = fb.Chain(init=init, factor=switch * step * seen, time="t", step={"s": "s_next", "x": "x_next"})
    with fb.moment_matching(window=window):
        return chain.log_evidence().data
