"""The programs of the paper's Figs. 2 and 3, against enumeration and the normal distribution of the data."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from examples import paper_programs

X = np.array([0.7, 1.4, 4.2, 3.9])
DISCRETE = {"logits": np.array([0.2, -0.3, 0.5]), "level": np.array([-0.4, 0.6, 1.3]), "log_noise": np.array(-0.5)}


def normal(x, mean, deviation):
    return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))


def enumerated(parameters):
    """log Σ over every way to give each datum a level."""
    shares = np.exp(parameters["logits"]) / np.exp(parameters["logits"]).sum()
    noise = np.exp(parameters["log_noise"])
    joint = shares * normal(X[:, None], np.exp(parameters["level"]), noise)
    ways = itertools.product(range(len(shares)), repeat=len(X))
    return np.log(sum(np.prod(joint[np.arange(len(X)), list(way)]) for way in ways))


def test_discrete_is_the_sum_over_all_assignments():
    found = paper_programs.discrete(jax.tree.map(jnp.asarray, DISCRETE), jnp.asarray(X))
    np.testing.assert_allclose(found, enumerated(DISCRETE), rtol=1e-5)


slopes_of_discrete = jax.jit(jax.grad(paper_programs.discrete))


@pytest.mark.parametrize("name", ["logits", "level"])
def test_the_gradient_of_discrete_is_that_of_the_enumeration(name):
    found = slopes_of_discrete(jax.tree.map(jnp.asarray, DISCRETE), jnp.asarray(X))[name]
    for place, step in enumerate(1e-5 * np.eye(3)):
        up, down = ({**DISCRETE, name: DISCRETE[name] + sign * step} for sign in (1, -1))
        difference = (enumerated(up) - enumerated(down)) / 2e-5
        np.testing.assert_allclose(found[place], difference, rtol=1e-4, atol=1e-4)


def test_affine_is_the_normal_distribution_of_the_data():
    parameters = {"shift": jnp.array(1.2), "log_spread": jnp.array(0.3)}
    expected = np.log(normal(X, 1.2, np.hypot(np.exp(0.3), 0.5))).sum()
    np.testing.assert_allclose(paper_programs.affine(parameters, jnp.asarray(X)), expected, rtol=1e-5)


def test_exponential_of_a_real_variable_is_an_error_that_names_it():
    with pytest.raises(fb.FubiniError, match=r"(?s)over 'z'.*exp\(z\)"):
        paper_programs.exponential({"log_spread": jnp.array(0.3)}, jnp.asarray(X))


def test_quick_mode(capsys, monkeypatch):
    """With its programs compiled whole, which takes less time here than one operation after another."""
    for name in ("discrete", "affine", "bound"):
        monkeypatch.setattr(paper_programs, name, jax.jit(getattr(paper_programs, name)))
    assert paper_programs.main(["--quick"]) == 0
    assert "exponential: Intractable" in capsys.readouterr().out


def test_maximised_finds_the_greatest_likelihood():
    x = paper_programs.simulate(200)
    first = {"shift": jnp.zeros(()), "log_spread": jnp.zeros(())}
    found = paper_programs.maximised(paper_programs.affine, first, x, steps=400)
    np.testing.assert_allclose(found["shift"], np.mean(x), atol=2e-3)
    np.testing.assert_allclose(np.exp(2 * found["log_spread"]) + 0.25, np.var(x), rtol=5e-3)


GUIDE = {"shift": jnp.array(0.1), "slope": jnp.array(0.6), "log_spread": jnp.array(-0.7)}


def test_bound_is_the_evidence_less_the_divergence_from_the_posterior():
    """log p(x) − KL(q ‖ p(z | x)), where the posterior is normal with mean 0.8 x and variance 0.2."""
    evidence = np.log(normal(X, 0.0, np.sqrt(1.25)))
    variance, mean = np.exp(-1.4), 0.1 + 0.6 * X
    divergence = 0.5 * (variance / 0.2 + (mean - 0.8 * X) ** 2 / 0.2 - 1 + np.log(0.2 / variance))
    found = jax.jit(paper_programs.bound)(GUIDE, jnp.asarray(X))
    np.testing.assert_allclose(found, (evidence - divergence).sum(), rtol=1e-5)


def test_drawn_bound_is_right_on_average():
    """E_q (x − e^z)² in closed form; 4 standard errors over fifty keys."""
    keys = jax.random.split(jax.random.key(0), 50)
    found = jax.jit(jax.vmap(lambda key: paper_programs.drawn_bound(GUIDE, jnp.asarray(X), key)))(keys)
    variance, mean = np.exp(-1.4), 0.1 + 0.6 * X
    square = X**2 - 2 * X * np.exp(mean + variance / 2) + np.exp(2 * mean + 2 * variance)
    likelihood = -0.5 * square / 0.25 - np.log(0.5 * np.sqrt(2 * np.pi))
    prior = -0.5 * (mean**2 + variance) - 0.5 * np.log(2 * np.pi)
    expected = (likelihood + prior + 0.5 * np.log(2 * np.pi * np.e * variance)).sum()
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(50)
