"""The switching linear dynamical system against dense joint Gaussians of every switch path, and its quick mode."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.eeg_switching import __main__ as program
from examples.eeg_switching import model
from examples.eeg_switching.data import drawn_series, read_series
from examples.eeg_switching.train import Fit, Judged, Scores, better

STEPS, CHANNELS, HIDDEN = 4, 3, 2
OBSERVED = np.random.default_rng(1).normal(size=(STEPS, CHANNELS))


@pytest.fixture
def double_width() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def parameters(variant: str) -> model.Parameters:
    found = model.initial_parameters(jax.random.key(3), variant, CHANNELS, HIDDEN)
    keys = jax.random.split(jax.random.key(4), len(found))
    return model.Parameters(*(x + 0.4 * jax.random.normal(key, x.shape) for x, key in zip(found, keys, strict=True)))


# -- the oracle -----------------------------------------------------------------------------------------------------


class Weighted(NamedTuple):
    """One switch path: log p(path, y), and the states after each step given y and the path."""

    switches: tuple[int, ...]
    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray


def at(data: jax.Array, event: int, switch: int) -> np.ndarray:
    return np.asarray(data[switch] if data.ndim > event else data)


def normal_log_density(y: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    gap = y - mean
    return float(-0.5 * (gap @ np.linalg.solve(covariance, gap) + np.linalg.slogdet(2 * np.pi * covariance)[1]))


def transition(p: model.Parameters, s: int) -> tuple[np.ndarray, np.ndarray]:
    return at(p.transition, 2, s), np.diag(np.exp(2 * at(p.log_transition_noise, 1, s)))


def emission(p: model.Parameters, s: int) -> tuple[np.ndarray, np.ndarray]:
    return at(p.emission, 2, s), np.diag(np.exp(2 * at(p.log_emission_noise, 1, s)))


def switch_probabilities(p: model.Parameters) -> np.ndarray:
    weights = np.exp(np.asarray(p.logits))
    return weights / weights.sum(1, keepdims=True)


def solve_path(p: model.Parameters, switches: tuple[int, ...], y: np.ndarray) -> Weighted:
    """Conditions the dense joint Gaussian of all states and observations."""
    blocks, noise = [[np.eye(HIDDEN)]], [np.eye(HIDDEN)]
    for s in switches:
        A, Q = transition(p, s)
        blocks.append([A @ block for block in blocks[-1]] + [np.eye(HIDDEN)])
        noise.append(Q)
    width = len(noise)
    zero = np.zeros((HIDDEN, HIDDEN))
    reach = np.block([row + [zero] * (width - len(row)) for row in blocks[1:]])
    states = reach @ block_diagonal(noise) @ reach.T
    B = block_diagonal([emission(p, s)[0] for s in switches])
    seen = B @ states @ B.T + block_diagonal([emission(p, s)[1] for s in switches])
    gain = np.linalg.solve(seen, B @ states).T
    path = np.log(switch_probabilities(p))
    log_prior = sum(path[a, b] for a, b in itertools.pairwise((0, *switches)))
    mean = (gain @ y.ravel()).reshape(-1, HIDDEN)
    log_weight = log_prior + normal_log_density(y.ravel(), np.zeros(y.size), seen)
    return Weighted(switches, log_weight, mean, states - gain @ B @ states)


def block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    rows = [
        [b if i == j else np.zeros((a.shape[0], b.shape[1])) for j, b in enumerate(blocks)]
        for i, a in enumerate(blocks)
    ]
    return np.block(rows)


def all_paths(p: model.Parameters, y: np.ndarray) -> list[Weighted]:
    return [solve_path(p, switches, y) for switches in itertools.product(range(2), repeat=len(y))]


def shares(paths: list[Weighted]) -> np.ndarray:
    logs = np.array([path.log_weight for path in paths])
    return np.exp(logs - np.logaddexp.reduce(logs))


def moments(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.tensordot(weights, means, 1)
    gap = means - mean
    spread = covariances + gap[:, :, None] * gap[:, None, :]
    return mean, np.tensordot(weights, spread, 1)


class Ahead(NamedTuple):
    weight: float
    mean: np.ndarray
    covariance: np.ndarray


def ahead_by_path(p: model.Parameters, y: np.ndarray) -> list[Ahead]:
    """p(next y | y), a term for each path and next switch."""
    paths = all_paths(p, y)
    return pushed(p, shares(paths), [(s.switches[-1], s.mean[-1], s.covariance[-HIDDEN:, -HIDDEN:]) for s in paths])


def ahead_by_switch(p: model.Parameters, y: np.ndarray) -> list[Ahead]:
    """The same, the paths that end in one switch replaced by the Gaussian of their moments."""
    paths, found = all_paths(p, y), []
    weights = shares(paths)
    for s in range(2):
        mine = np.array([path.switches[-1] == s for path in paths])
        means = np.array([path.mean[-1] for path in paths])[mine]
        covariances = np.array([path.covariance[-HIDDEN:, -HIDDEN:] for path in paths])[mine]
        total = weights[mine].sum()
        found.append((total, (s, *moments(weights[mine] / total, means, covariances))))
    return pushed(p, np.array([total for total, _ in found]), [state for _, state in found])


def pushed(p: model.Parameters, weights: np.ndarray, states: list) -> list[Ahead]:
    """Each state one step further, and seen."""
    terms = []
    for weight, (s, mean, covariance) in zip(weights, states, strict=True):
        for following, share in enumerate(switch_probabilities(p)[s]):
            (A, Q), (B, R) = transition(p, following), emission(p, following)
            terms.append(Ahead(weight * share, B @ A @ mean, B @ (A @ covariance @ A.T + Q) @ B.T + R))
    return terms


def ask(question: Callable, p: model.Parameters) -> Any:
    """With a window as long as the series, compiled."""
    return jax.jit(partial(question, window=STEPS))(p, jnp.asarray(OBSERVED))


# -- the model ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("double_width")
@pytest.mark.parametrize("variant", model.SWITCHING)
def test_evidence_with_a_full_window_is_the_sum_over_paths(variant: str) -> None:
    p = parameters(variant)
    expected = np.logaddexp.reduce([path.log_weight for path in all_paths(p, OBSERVED)])
    assert float(ask(model.log_evidence, p)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("double_width")
def test_predictions_with_a_full_window_are_those_of_the_paths() -> None:
    p = parameters("III")
    found = ask(model.predict, p)
    for t in range(1, STEPS):
        terms = ahead_by_path(p, OBSERVED[:t])
        weights, means, covariances = map(np.array, zip(*terms, strict=True))
        mean, covariance = moments(weights, means, covariances)
        np.testing.assert_allclose(found.mean[t - 1], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.variance[t - 1], np.diag(covariance), rtol=1e-8)
        by_switch = ahead_by_switch(p, OBSERVED[:t])
        logs = [np.log(term.weight) + normal_log_density(OBSERVED[t], term.mean, term.covariance) for term in by_switch]
        assert float(found.log_density[t - 1]) == pytest.approx(np.logaddexp.reduce(logs), rel=1e-8)


@pytest.mark.usefixtures("double_width")
def test_smoothing_with_a_full_window_is_that_of_the_paths() -> None:
    p = parameters("III")
    found = ask(model.smooth, p)
    paths = all_paths(p, OBSERVED)
    weights = shares(paths)
    for t in range(STEPS):
        means = np.array([emission(p, path.switches[t])[0] @ path.mean[t] for path in paths])
        np.testing.assert_allclose(found.mean[t], weights @ means, rtol=1e-7, atol=1e-9)
        assert float(found.switch[t]) == pytest.approx(weights @ [path.switches[t] for path in paths], rel=1e-7)


# -- learning -------------------------------------------------------------------------------------------------------


def judgement(likelihood: list[float], mark: float) -> Judged:
    p = model.Parameters(*(jnp.full((2, 3), mark) for _ in model.Parameters._fields))
    scores = Scores(jnp.full(2, mark), jnp.asarray(likelihood))
    return Judged(p, scores, scores, scores)


def test_each_seed_keeps_its_best_validation() -> None:
    found = better(judgement([-3.0, -1.0], 0.0), judgement([-2.0, -2.0], 1.0))
    np.testing.assert_array_equal(found.test.error, [1.0, 0.0])
    np.testing.assert_array_equal(found.parameters.emission, [[1.0] * 3, [0.0] * 3])


def test_a_likelihood_that_is_no_number_is_never_better() -> None:
    found = better(judgement([-3.0, -1.0], 0.0), judgement([np.nan, np.nan], 1.0))
    np.testing.assert_array_equal(found.test.error, [0.0, 0.0])


# -- data and program -----------------------------------------------------------------------------------------------


def test_judged_steps_lie_where_the_released_code_has_them() -> None:
    made = drawn_series(60)
    assert (made.train, len(made.validation), len(made.test)) == (33, 12, 15)
    assert sorted([*made.validation, *made.test]) == list(range(1, 28))
    np.testing.assert_array_equal(made.held_out, range(33, 60))
    np.testing.assert_allclose(made.y[:33].std(0, ddof=1), 1.0)


def test_the_eeg_series(data: Path) -> None:
    eeg = read_series(data)
    assert eeg.y.shape == (749, 14) and eeg.train == 400
    assert max(eeg.test.max(), eeg.validation.max()) == 349
    np.testing.assert_allclose(eeg.y[:400].mean(0), 0.0, atol=1e-9)


@pytest.mark.slow
def test_quick_mode_on_a_series_made_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.delenv("FUBINI_DATA", raising=False)
    assert program.main(["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "60 steps of 3 channels" in printed and "III" in printed and "nan" not in printed
    assert [path.name for path in tmp_path.iterdir()] == ["eeg_III_window_1.png"]


def test_quick_mode_on_the_data(data: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of the data; what is learnt of a series is asked of the one made up."""
    monkeypatch.setattr(program, "fit", lambda *asked: Fit(judgement([-9.0, -10.0], 0.5), 1.0, 1.0))
    assert program.main(["--quick", "--data", str(data)]) == 0
    printed = capsys.readouterr().out
    assert "749 steps of 14 channels" in printed and "-9.33" in printed
    assert "0.500 ± 0.000   -9.50 ± 0.50" in printed


def test_full_mode_asks_for_its_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.delenv("FUBINI_DATA", raising=False)
    assert program.main(["--full"]) == 2
    assert "FUBINI_DATA" in capsys.readouterr().err
