"""Rankings: peers against direct formulas and enumeration, mixtures, scores; the whole example where data are there."""

import os
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from examples import rankings
from fubini.factors.circuit_constructors import choices
from fubini.factors.circuit_constructors import permutations as all_rankings
from fubini.factors.circuit_learning import learn

FOLDER = os.environ.get("FUBINI_DATA")
KINDS = ["a", "b", "c", "d"]
NAMES = rankings.names_of(KINDS)
ORDERS = np.array(list(permutations(range(4))))


def draw(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    worth = np.log([4.0, 2.0, 1.0, 0.5])
    return np.argsort(-(worth + rng.gumbel(size=(count, 4))), 1)  # Plackett and Luce's by exponential clocks


def test_mallows_is_the_model_of_kendalls_distance() -> None:
    """p(order) ∝ φ^(pairs that differ from the consensus), with one φ for all; no other consensus is likelier."""
    orders = draw(400)
    p = rankings.mallows(orders)
    logs = np.log(p[rankings.sets_before(ORDERS), ORDERS]).sum(1)
    ranks = np.argsort(ORDERS, 1)
    centre = np.argsort(rankings.consensus(orders))
    differ = sum((ranks[:, i] < ranks[:, j]) != (centre[i] < centre[j]) for i, j in combinations(range(4), 2))
    slope = np.polyfit(differ, logs, 1)
    np.testing.assert_allclose(np.polyval(slope, differ), logs, atol=1e-9)
    assert logsumexp(logs) == pytest.approx(0.0, abs=1e-12)
    costs = [_cost(orders, np.asarray(order)) for order in ORDERS]
    assert _cost(orders, rankings.consensus(orders)) == min(costs)


def _cost(orders: np.ndarray, consensus: np.ndarray) -> int:
    ranks, centre = np.argsort(orders, 1), np.argsort(consensus)
    return sum(
        int(((ranks[:, i] < ranks[:, j]) != (centre[i] < centre[j])).sum()) for i, j in combinations(range(4), 2)
    )


def test_plackett_luce_is_of_greatest_likelihood() -> None:
    orders = draw(3000)
    p = rankings.plackett_luce(rankings.count_choices(orders, np.ones(3000)))
    np.testing.assert_allclose(p[0], np.array([4.0, 2.0, 1.0, 0.5]) / 7.5, atol=0.03)
    best = rankings.log_likelihood(p, orders)
    for seed in range(10):
        moved = rankings.normalized(
            p[0] * np.exp(np.random.default_rng(seed).normal(0, 0.1, (1, 4))) + np.zeros((16, 1))
        )
        assert rankings.log_likelihood(moved, orders) < best
    as_circuit = choices(p, NAMES).log_evidence(rankings.as_rows(orders)).mean()
    assert best == pytest.approx(as_circuit, rel=1e-12)


def test_a_mixture_is_a_distribution() -> None:
    joint = rankings.learn_mixture(all_rankings(4, NAMES), draw(200), NAMES, 2)
    assert logsumexp(joint.log_evidence(rankings.as_rows(ORDERS))) == pytest.approx(0.0, abs=1e-9)


def test_scores_against_enumeration() -> None:
    """The density of scores, the ranking given them, and the score of another kind, over all 24 rankings."""
    f = learn(all_rankings(4, NAMES), rankings.as_rows(draw(200)), pseudo_count=1.0)
    scores = {"b": 0.4, "d": 1.1}
    scored = f.multiply(
        *(factor for kind, score in scores.items() for factor in rankings.score_factors(kind, score, 4))
    )
    levels, ranks = rankings.levels(4), np.argsort(ORDERS, 1)
    logs = f.log_evidence(rankings.as_rows(ORDERS))
    for kind, score in scores.items():
        logs = logs + norm.logpdf(score, levels[ranks[:, KINDS.index(kind)]], rankings.NOISE)
    assert float(scored.sum(*scored.inputs).log()) == pytest.approx(logsumexp(logs), rel=1e-9)
    p = np.exp(logs - logsumexp(logs))
    np.testing.assert_allclose(rankings.expected_ranks(scored, 4), p @ (ranks + 1), rtol=1e-9)
    assert rankings.best_ranking(scored, KINDS) == [KINDS[k] for k in ORDERS[p.argmax()]]
    mean, deviation = rankings.predict_score(scored, "a", 4)
    at = levels[ranks[:, 0]]
    assert mean == pytest.approx(p @ at, rel=1e-9)
    assert deviation == pytest.approx(np.sqrt(p @ at**2 - (p @ at) ** 2 + rankings.NOISE**2), rel=1e-9)


@pytest.mark.skipif(FOLDER is None, reason="FUBINI_DATA is not set: the rankings of sushi are needed")
def test_sushi(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "STEPS", 5)
    rankings.main(["--data", str(FOLDER), "--splits", "1"])
    text = capsys.readouterr().out
    _, uniform, mallows, luce, psdd, mixture = next(line.split() for line in text.splitlines() if "mean" in line)
    assert float(uniform) < float(mallows) < float(luce) < float(psdd) and float(mixture) > float(luce)
    assert "given the scores: egg" in text
