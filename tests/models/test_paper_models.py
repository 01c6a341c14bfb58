"""The models of the paper (Piponi, Moore & Dillon 2020): matrix factorisation and latent Dirichlet allocation."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from scipy import special, stats

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)


def factorisation() -> fb.Joint:
    """Figure 2: two factors, five users, seven items."""
    return fb.JointSequential(
        [
            dist.Normal(0.0, 2.0).expand([2, 5]),
            dist.Normal(0.0, 3.0).expand([2, 7]),
            lambda v, u: dist.Normal(u.T @ v, 0.5).to_event(2),
        ]
    )


def test_matrix_factorisation() -> None:
    """A19."""
    joint = factorisation()
    assert joint.names == ("u", "v", "x") and joint.event_shape == [(2, 5), (2, 7), (5, 7)]
    u, v, r = draws = joint.sample(KEY, 3)
    assert [draw.shape for draw in draws] == [(3, 2, 5), (3, 2, 7), (3, 5, 7)]
    want = stats.norm(0, 2).logpdf(u).sum((1, 2)) + stats.norm(0, 3).logpdf(v).sum((1, 2))
    want += stats.norm(np.einsum("nfu,nfi->nui", u, v), 0.5).logpdf(r).sum((1, 2))
    found = joint.log_prob(draws)
    assert found.shape == (3,)
    np.testing.assert_allclose(found, want, rtol=1e-10)


@fb.model
def lda(length: Any, alpha: Any, beta: Any) -> Iterator[Any]:
    """Figure 3: n words, shares of topics, words by topic, words by topic and kind; the count is random."""
    n = yield dist.Poisson(length)
    theta = yield dist.Dirichlet(alpha)
    z = yield dist.Multinomial(total_count=n, probs=theta)
    w = yield dist.Multinomial(total_count=z, logits=beta).to_event(1)
    return w


ALPHA, BETA = np.array([0.5, 1.0, 2.0]), np.random.default_rng(1).normal(size=(3, 4))
N, THETA, Z = 9, np.array([0.2, 0.3, 0.5]), np.array([2, 3, 4])
W = np.array([[1, 1, 0, 0], [0, 2, 0, 1], [1, 1, 1, 1]])


def lda_log_prob(alpha: np.ndarray, beta: np.ndarray) -> float:
    words = special.softmax(beta, axis=1)
    found = stats.poisson(8.0).logpmf(N) + stats.dirichlet(alpha).logpdf(THETA) + stats.multinomial(N, THETA).logpmf(Z)
    return found + sum(stats.multinomial(Z[k], words[k]).logpmf(W[k]) for k in range(3))


def test_lda_density_and_gradient() -> None:
    """TFP's 1624; both priors are learnable, and their gradients are ψ(Σα) − ψ(α) + log θ and w − z · softmax(β)."""
    value = {"n": N, "theta": THETA, "z": Z, "w": W}
    assert float(lda(8.0, ALPHA, BETA).log_prob(value)) == pytest.approx(lda_log_prob(ALPHA, BETA), abs=1e-8)
    alpha, beta = jax.grad(lambda a, b: lda(8.0, a, b).log_prob(value), (0, 1))(*map(jax.numpy.asarray, (ALPHA, BETA)))
    want = special.digamma(ALPHA.sum()) - special.digamma(ALPHA) + np.log(THETA)
    np.testing.assert_allclose(alpha, want, atol=1e-5)
    np.testing.assert_allclose(beta, W - Z[:, None] * special.softmax(BETA, axis=1), atol=1e-5)


def test_lda_counts_that_do_not_add_up_have_density_zero() -> None:
    assert float(lda(8.0, ALPHA, BETA).log_prob(n=N + 1, theta=THETA, z=Z, w=W)) == -np.inf


def test_lda_draws() -> None:
    """A random count in a batch: words of a topic add up to it, topics to all."""
    n, theta, z, w = lda(8.0, fb.param(ALPHA, fb.Positive), fb.param(BETA)).sample(KEY, (4,))
    assert (n.shape, theta.shape, z.shape, w.shape) == ((4,), (4, 3), (4, 3), (4, 3, 4))
    np.testing.assert_array_equal(z.sum(-1), n)
    np.testing.assert_array_equal(w.sum(-1), z)
    assert len(np.unique(theta)) == 12


def test_lda_is_learnt() -> None:
    """The gradient of `fb.param` is that of the unconstrained number: α · ∂/∂α."""
    joint = lda(8.0, fb.param(ALPHA, fb.Positive), BETA).condition(n=N, theta=THETA, z=Z, w=W)
    found = fb.fit(joint, steps=200, progress=False)
    assert found.history[0] == pytest.approx(lda_log_prob(ALPHA, BETA), abs=1e-8)
    assert found.history[-1] > found.history[0] + 0.1
