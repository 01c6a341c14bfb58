"""Chains that do not agree are reported."""

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Disagreement
from fubini.infer.agreement import split_rhat, warn_of_disagreement
from fubini.questions.draws import arviz

RANDOM = np.random.default_rng(0)
TOGETHER = RANDOM.normal(size=(4, 400, 3))
APART = TOGETHER + np.array([0.0, 0.0, 0.0, 2.0])[:, None, None] * np.array([0.0, 1.0, 0.0])


def test_rhat_is_that_of_arviz() -> None:
    for draws in (TOGETHER, APART):
        expected = arviz().rhat(arviz().convert_to_dataset({"x": draws}), method="split")["x"]
        np.testing.assert_allclose(split_rhat(draws), expected, rtol=1e-10)


def test_agreement_says_nothing() -> None:
    warn_of_disagreement({"x": TOGETHER, "y": TOGETHER[..., 0]})


def test_disagreement_is_reported() -> None:
    with pytest.warns(Disagreement) as caught:
        warn_of_disagreement({"x": TOGETHER, "y": APART})
    message = str(caught[0].message)
    assert f"R-hat {split_rhat(APART).max():.2f} of 'y'" in message
    assert "expected: below 1.05" in message and "to do:" in message


def test_disagreement_of_short_chains_is_reported() -> None:
    """That chance does not explain."""
    with pytest.warns(Disagreement):
        warn_of_disagreement({"x": APART[:, :100]})


@pytest.mark.parametrize("few", [APART[:1], APART[:, :10], np.zeros((4, 400, 0))])
def test_too_few_to_tell(few: np.ndarray) -> None:
    warn_of_disagreement({"x": few})


def test_chains_that_stay_where_they_are() -> None:
    """Constant chains in two places."""
    with pytest.warns(Disagreement, match="inf"):
        warn_of_disagreement({"x": np.repeat([[0.0], [1.0]], 400, axis=1)})


@fb.model
def mirrored():
    x = yield dist.Normal(0.0, 1.0).expand([4])
    y = yield dist.Normal(x**2, 0.01)


def test_infer_tells() -> None:
    """Each chain finds signs of its own."""
    with pytest.warns(Disagreement, match="of 'x'"):
        mirrored().condition(y=np.ones(4)).infer(
            jax.random.key(0), draws=200, warmup=200, progress=False, log_likelihood=False, predictive=False
        )


@fb.model
def tilted():
    x = yield dist.Normal(1.0, 2.0).expand([4])
    y = yield dist.Normal(x**2, 0.5)


def test_modes_of_different_density_are_drawn_by_their_shares() -> None:
    """Signs have odds exp(2 · 2 · 1/2²) = e, which chains that stay in one mode cannot know."""
    data = (
        tilted()
        .condition(y=np.full(4, 4.0))
        .infer(jax.random.key(0), draws=500, warmup=200, progress=False, log_likelihood=False, predictive=False)
    )
    assert data.posterior.attrs["method"] == "smc"
    share = (data.posterior["x"].values > 0).mean(axis=(0, 1))
    np.testing.assert_allclose(share, np.e / (1 + np.e), atol=0.06)
