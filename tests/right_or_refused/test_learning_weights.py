"""Weights of mixtures and transitions of chains are learnt: through softmax, and as `fb.Simplex` parameters."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.models.learnt import params

pytestmark = pytest.mark.right_or_refused

Y = np.array([-1.2, 0.9, 1.1, -0.8, 1.3])
CENTRES, SD = np.array([-1.0, 1.0]), 0.5
LIKELIHOOD = np.exp(-0.5 * ((Y[:, None] - CENTRES) / SD) ** 2) / (SD * np.sqrt(2 * np.pi))


def softmax(logits: np.ndarray) -> np.ndarray:
    """e^l / Σ e^l along the last axis."""
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


@fb.model
def mixture(weights):
    z = yield dist.Categorical(weights).expand([5])
    y = yield dist.Normal(jnp.array(CENTRES)[z], SD)


@fb.model
def chain(move):
    z = yield dist.Markov(dist.Categorical(jnp.array([0.5, 0.5])), lambda z: dist.Categorical(move[z]), 5)
    y = yield dist.Normal(jnp.array(CENTRES)[z], SD)


def mixture_evidence(weights: np.ndarray) -> float:
    """Σ_t log Σ_k w_k N(y_t; c_k)"""
    return float(np.log(LIKELIHOOD @ weights).sum())


def chain_evidence(move: np.ndarray) -> float:
    """By the forward algorithm."""
    state = np.array([0.5, 0.5]) * LIKELIHOOD[0]
    for row in LIKELIHOOD[1:]:
        state = (state @ move) * row
    return float(np.log(state.sum()))


MIXTURE = (mixture, mixture_evidence, np.array([0.3, -0.2]))
CHAIN = (chain, chain_evidence, np.array([[0.3, -0.2], [0.1, 0.5]]))


@pytest.mark.parametrize(("model", "evidence", "logits"), [MIXTURE, CHAIN], ids=["mixture", "chain"])
@pytest.mark.parametrize("compile", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradient_of_the_evidence_through_softmax(
    model: Callable, evidence: Callable, logits: np.ndarray, compile: Callable
) -> None:
    def ask(logits: jax.Array) -> jax.Array:
        return model(jax.nn.softmax(logits, axis=-1)).condition(y=Y).log_evidence().data

    value, slope = compile(jax.value_and_grad(ask))(jnp.asarray(logits))
    assert float(value) == pytest.approx(evidence(softmax(logits)), rel=1e-5)
    for place in np.ndindex(logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-6
        expected = (evidence(softmax(logits + step)) - evidence(softmax(logits - step))) / 2e-6
        assert float(slope[place]) == pytest.approx(expected, abs=1e-4)


@fb.model
def inside(logits):
    z = yield dist.Categorical(jax.nn.softmax(logits)).expand([5])
    y = yield dist.Normal(jnp.array(CENTRES)[z], SD)


def test_gradient_through_a_softmax_inside_the_model_in_both_precisions() -> None:
    logits = MIXTURE[2]
    weights = softmax(logits)
    shares = LIKELIHOOD * weights / (LIKELIHOOD @ weights)[:, None]
    expected = shares.sum(0) - len(Y) * weights

    def ask(logits: jax.Array) -> jax.Array:
        return inside(logits).condition(y=Y).log_evidence().data

    np.testing.assert_allclose(jax.grad(ask)(jnp.asarray(logits)), expected, rtol=1e-4)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(ask)(jnp.asarray(logits)), expected, rtol=1e-9)


def test_weights_of_a_mixture_are_learnt() -> None:
    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmax([mixture_evidence(np.array([w, 1 - w])) for w in grid])]
    start = mixture(fb.param(np.array([0.5, 0.5]), fb.Simplex[2])).condition(y=Y)
    found = fb.fit(start, steps=150, progress=False)
    np.testing.assert_allclose(params(found.model)[0].value, [best, 1 - best], atol=2e-3)
    assert float(found.model.log_evidence()) == pytest.approx(mixture_evidence(np.array([best, 1 - best])), abs=1e-4)


def test_transitions_of_a_chain_are_learnt() -> None:
    start = chain(fb.param(np.full((2, 2), 0.5), fb.Simplex[2])).condition(y=Y)
    found = fb.fit(start, steps=150, progress=False)
    move = params(found.model)[0].value
    np.testing.assert_allclose(move.sum(1), 1.0)
    assert float(found.model.log_evidence()) == pytest.approx(chain_evidence(move), abs=1e-5)
    grid = np.linspace(0.005, 0.995, 100)
    best = max(chain_evidence(np.array([[a, 1 - a], [b, 1 - b]])) for a in grid for b in grid)
    assert chain_evidence(move) > best - 0.05 > chain_evidence(np.full((2, 2), 0.5))
