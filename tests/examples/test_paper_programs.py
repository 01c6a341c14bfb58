"""The programs of the paper's Fig. 2, against enumeration and the normal distribution of the data."""

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


@pytest.mark.parametrize("name", ["logits", "level"])
def test_the_gradient_of_discrete_is_that_of_the_enumeration(name):
    found = jax.grad(paper_programs.discrete)(jax.tree.map(jnp.asarray, DISCRETE), jnp.asarray(X))[name]
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


def test_quick_mode(capsys):
    assert paper_programs.main(["--quick"]) == 0
    assert "exponential: Intractable" in capsys.readouterr().out


def test_maximised_finds_the_greatest_likelihood():
    x = paper_programs.simulate(200)
    first = {"shift": jnp.zeros(()), "log_spread": jnp.zeros(())}
    found = paper_programs.maximised(paper_programs.affine, first, x, steps=400)
    np.testing.assert_allclose(found["shift"], np.mean(x), atol=2e-3)
    np.testing.assert_allclose(np.exp(2 * found["log_spread"]) + 0.25, np.var(x), rtol=5e-3)
