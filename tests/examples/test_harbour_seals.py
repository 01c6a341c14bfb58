"""The hierarchical hidden Markov model of the seals, against enumeration and the forward algorithm in NumPy."""

import os
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from examples.harbour_seals.__main__ import main
from examples.harbour_seals.data import FILE, Tracks, fake, read
from examples.harbour_seals.fit import aic, evidence_and_gradient, fit
from examples.harbour_seals.model import VARIANTS, draw_parameters, log_evidence
from examples.harbour_seals.scaling import METHODS, SYMBOLS, draw_simple, simple_log_evidence

FOLDER = os.environ.get("FUBINI_DATA")
needs_data = pytest.mark.skipif(FOLDER is None, reason="FUBINI_DATA is not set: the seals' tracks are needed")
BOTH = VARIANTS[3]


def doubles(parameters):
    return {name: np.asarray(value, np.float64) for name, value in parameters.items()}


def log_densities(p, step, angle, omega):
    """log p(observations | state), over [time, state]; 0 for what is missing."""
    shape, kappa, one, other = (
        np.logaddexp(0, p[name]) for name in ("step_shape", "angle_concentration", "omega_one", "omega_other")
    )
    gamma = stats.gamma(shape, scale=1000 * np.exp(p["step_mean"]) / shape)
    total = np.zeros((len(step), 3))
    for data, zero, family in ((step, "step_zero", gamma), (omega, "omega_zero", stats.beta(one, other))):
        total[data == 0] += special.log_expit(p[zero])
        total[data > 0] += special.log_expit(-p[zero]) + family.logpdf(data[data > 0, None])
    turned = np.isfinite(angle)
    total[turned] += stats.vonmises(kappa, loc=p["angle_mean"]).logpdf(angle[turned, None])
    return total


def pieces(p, groups):
    """Start, p(e_g), p(e_i | g), transitions over [e_g, e_i, x, x_next], in logarithms."""
    none = np.zeros((1, 3, 3))
    effects = p.get("group_effect", none)[:, None] + p.get("individual_effect", none)
    share = p.get("individual_share", np.zeros((groups, 1)))
    group = p.get("group_share", np.zeros(1))
    arrays = (p["start"], group, share, p["transition"] + effects)
    return [special.log_softmax(array, axis=-1) for array in arrays]


def by_all_paths(start, transition, densities):
    """log Σ over every path."""
    paths = np.array(list(product(range(3), repeat=len(densities) + 1)))
    before, after = paths[:, :-1], paths[:, 1:]
    steps = transition[before, after] + densities[np.arange(len(densities)), after]
    return np.logaddexp.reduce(start[paths[:, 0]] + steps.sum(axis=1))


def by_forward_pass(start, transition, densities):
    """The same, by the forward algorithm in logarithms."""
    state = start
    for log in densities:
        state = np.logaddexp.reduce(state[:, None] + transition, axis=0) + log
    return np.logaddexp.reduce(state)


def oracle(p, tracks, along):
    """Π_g Σ_{e_g} Π_i Σ_{e_i} Σ_paths in NumPy, over the individuals that exist alone."""
    data = [np.asarray(column, np.float64) for column in tracks]
    exists = np.asarray(tracks.exists)
    start, share_g, share_i, transition = pieces(p, len(exists))
    total = 0.0
    for g in range(len(exists)):
        given_group = share_g.copy()
        for i in np.flatnonzero(exists[g]):
            densities = log_densities(p, *(column[g, i] for column in data))
            for e_g in range(len(share_g)):
                logs = [along(start, transition[e_g, e_i], densities) for e_i in range(share_i.shape[-1])]
                given_group[e_g] += special.logsumexp(share_i[g] + logs)
        total += special.logsumexp(given_group)
    return total


@pytest.fixture(scope="module")
def tracks():
    """Two groups of two, of whom one is not there; zeros, gaps, and a track that ends early."""
    nan = np.nan
    step = [[[500.0, 0.0, 2000.0], [30.0, nan, nan]], [[nan, 900.0, 10.0], [nan, nan, nan]]]
    angle = [[[nan, 0.3, -2.0], [3.0, nan, nan]], [[nan, nan, 1.0], [nan, nan, nan]]]
    omega = [[[0.0, 0.4, nan], [0.9, nan, nan]], [[0.5, 0.02, 0.0], [nan, nan, nan]]]
    return Tracks(*(jnp.array(column) for column in (step, angle, omega)))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_evidence_is_the_sum_over_paths_and_effects(variant, tracks):
    parameters = draw_parameters(jax.random.key(1), variant)
    expected = oracle(doubles(parameters), tracks, by_all_paths)
    np.testing.assert_allclose(jax.jit(log_evidence)(parameters, tracks), expected, rtol=2e-6)


def slopes(tracks):
    """Parameters, and the gradient of the sum over paths and effects there."""
    parameters = draw_parameters(jax.random.key(2), BOTH, values=2)
    exact = doubles(parameters)
    along = {name: differences(lambda values: oracle(values, tracks, by_all_paths), exact, name) for name in exact}
    return parameters, along


@pytest.mark.slow
def test_gradient_is_that_of_the_sum_over_paths_and_effects(tracks):
    """In pairs; in order it is what fitting goes along, below."""
    parameters, expected = slopes(tracks)
    value, gradient = evidence_and_gradient(parameters, tracks, "parallel")
    np.testing.assert_allclose(value, oracle(doubles(parameters), tracks, by_all_paths), rtol=2e-6)
    for name, slope in expected.items():
        np.testing.assert_allclose(gradient[name], slope, rtol=2e-4, atol=2e-4, err_msg=name)


def differences(function, parameters, name, width=1e-5):
    """Central differences in every number of one parameter."""
    found = np.empty(parameters[name].shape)
    for at in np.ndindex(found.shape):
        shift = np.zeros(found.shape)
        shift[at] = width
        ends = [function({**parameters, name: parameters[name] + sign * shift}) for sign in (1, -1)]
        found[at] = (ends[0] - ends[1]) / (2 * width)
    return found


def test_simple_model_is_the_forward_pass():
    p, symbols = draw_simple(jax.random.key(0), 2), jax.random.randint(jax.random.key(1), (3, 6), 0, SYMBOLS)
    start, share, symbol, effects = (
        special.log_softmax(np.asarray(array, np.float64), axis=-1)
        for array in (p["start"], p["share"], p["symbol"], p["transition"] + p["individual_effect"])
    )
    rows = [[by_forward_pass(start, effect, symbol.T[row]) for effect in effects] for row in np.asarray(symbols)]
    expected = special.logsumexp(rows + share, axis=-1).sum()
    found = jax.jit(simple_log_evidence, static_argnums=2)(p, symbols, "parallel")
    np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_aic_counts_every_number():
    parameters = draw_parameters(jax.random.key(0), BOTH, values=3)
    assert aic(parameters, -10.0) == 2 * (3 + 9 + 8 * 3 + (27 + 6) + (27 + 3)) + 20


@pytest.mark.slow
def test_fitting_raises_the_evidence():
    tracks = fake(jax.random.key(0), 2, 8)
    start = draw_parameters(jax.random.key(1), VARIANTS[0])
    before, _ = evidence_and_gradient(start, tracks, "sequential")
    _, after = fit(start, tracks, 30)
    assert after > before + 10


@pytest.mark.slow
def test_quick_mode_without_data(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("FUBINI_DATA", raising=False)
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "made-up" in printed
    assert "Individual+Group RE" in printed and "288.0" in printed
    assert (tmp_path / "scaling.png").exists()


def test_full_mode_asks_for_data(capsys, monkeypatch):
    monkeypatch.delenv("FUBINI_DATA", raising=False)
    assert main(["--full"]) == 2
    assert "FUBINI_DATA" in capsys.readouterr().out


@needs_data
def test_seals_are_ten_males_and_seven_females():
    tracks = read(FOLDER)
    assert tracks.step.shape == (2, 10, 1789)
    assert tracks.exists.sum(axis=1).tolist() == [7, 10]
    assert int(jnp.isfinite(tracks.omega).sum()) == 17761 - 199
    assert int((tracks.step == 0).sum()) == 16


@needs_data
def test_a_folder_without_the_seals_is_refused(capsys, tmp_path):
    assert main(["--full", "--data", str(tmp_path)]) == 2
    assert str(FILE) in capsys.readouterr().out


@needs_data
@pytest.mark.slow
def test_evidence_of_the_seals_is_that_of_the_forward_pass():
    """Whole tracks in single precision, and in double by the forward algorithm."""
    tracks = read(FOLDER)
    parameters = draw_parameters(jax.random.key(3), BOTH, values=2)
    expected = oracle(doubles(parameters), tracks, by_forward_pass)
    for method in METHODS:
        found = jax.jit(log_evidence, static_argnums=2)(parameters, tracks, method)
        np.testing.assert_allclose(found, expected, rtol=2e-6, err_msg=method)
