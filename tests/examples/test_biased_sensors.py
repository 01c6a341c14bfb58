"""Tracking with biased sensors, against the joint normal distribution of all states, biases and sights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import biased_sensors

SCALES = {"process": 0.4, "noise": 1.3, "bias": 3.0}
SIGHTS = 2 * biased_sensors.SENSORS


def joint_normal(sights, biased):
    """The log-evidence, and the mean of the state in the last frame: all is normal with mean zero."""
    length = len(sights)
    jolt = SCALES["process"] ** 2 * np.kron([[1 / 3, 1 / 2], [1 / 2, 1]], np.eye(2))
    move = np.kron([[1, 1], [0, 1]], np.eye(2))
    powers = [np.linalg.matrix_power(move, n) for n in range(length + 1)]

    def between(s, t):
        """The covariance of the states after frames s and t."""
        jolts = [powers[s - r] @ jolt @ powers[t - r].T for r in range(1, min(s, t) + 1)]
        return powers[s] @ (100.0**2 * np.eye(4)) @ powers[t].T + sum(jolts)

    frames = range(1, length + 1)
    states = np.block([[between(s, t) for t in frames] for s in frames])
    see = np.kron(np.eye(length), np.tile(np.eye(2, 4), (biased_sensors.SENSORS, 1)))
    covariance = see @ states @ see.T + SCALES["noise"] ** 2 * np.eye(length * SIGHTS)
    if biased:
        covariance += SCALES["bias"] ** 2 * np.kron(np.ones((length, length)), np.eye(SIGHTS))
    flat = sights.astype(float).ravel()
    weights = np.linalg.solve(covariance, flat)
    log_determinant = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return -0.5 * (flat @ weights + log_determinant), (states[-4:] @ see.T @ weights)


@partial(jax.jit, static_argnums=2)
def asked(scales, sights, biased):
    """The log-evidence, the last position filtered and the last state smoothed, after three and after six frames."""
    chain = biased_sensors.tracker(scales, sights, (3, 6), biased=biased)
    placed = biased_sensors.locate(scales, sights, (3, 6), biased=biased)
    return chain.log_evidence().data, placed, chain.smooth()(t=5).mean("x_next").data


@pytest.mark.parametrize("biased", [False, True])
def test_the_answers_are_those_of_the_joint_normal(biased):
    sights = biased_sensors.simulate(3, 6)[0]
    logs, states = zip(*(joint_normal(sights[:count], biased) for count in (3, 6)), strict=True)
    scales = {name: jnp.full(2, scale) for name, scale in SCALES.items()}
    log_evidence, placed, smoothed = asked(scales, sights, biased)
    np.testing.assert_allclose(log_evidence, logs, rtol=2e-5)
    np.testing.assert_allclose(placed, [state[:2] for state in states], atol=2e-3)
    np.testing.assert_allclose(smoothed[1], states[1], atol=2e-3)


def test_quick_mode(capsys, tmp_path):
    assert biased_sensors.main(["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "2.2 to 2.4" in printed
    assert "standard errors" in printed
    assert "nan" not in printed
    assert (tmp_path / "biased_sensors.png").stat().st_size > 0


def test_the_paired_difference_pools_the_lengths_of_a_seed():
    without, with_bias = np.array([[3.0, 5.0], [2.0, 2.0]]), np.array([[2.0, 2.0], [1.0, 3.0]])
    mean, deviation = biased_sensors.paired(without, with_bias)
    assert mean == 1.0
    assert deviation == 1.0
