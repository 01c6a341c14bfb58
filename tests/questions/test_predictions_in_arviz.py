"""Predictions as ArviZ data, draws from all of its containers, and leave-one-out by ArviZ."""

import warnings

import jax
import numpy as np
import pytest
import xarray

import fubini as fb
from fubini import dist
from fubini.questions.draw_diagnostics import arviz

KEY = jax.random.key(0)


@fb.model
def level(n):
    m = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(m, 1.0).expand([n])


Y = np.array([0.3, 1.2, -0.4, 2.0, 0.9, 1.1, 0.2, 1.4])
POST = level(8).condition(y=Y)


@pytest.fixture(scope="module")
def draws():
    return POST.infer(KEY, draws=1000, chains=2, progress=False)


def test_predictions_are_a_group_of_arviz_data(draws) -> None:
    data = POST.predict(
        KEY, "y", model=level(3), draws=draws, arviz=True, dims={"y": ["day"]}, coords={"day": [5, 6, 7]}
    )
    y = data["predictions"]["y"]
    assert y.shape == (2, 1000, 3) and y.dims == ("chain", "draw", "day") and list(y["day"].values) == [5, 6, 7]
    assert np.array_equal(np.asarray(y).reshape(-1, 3), POST.predict(KEY, "y", model=level(3), draws=draws))
    assert data["predictions"].attrs["inference_library"] == "fubini"


def test_predictions_join_the_draws(draws) -> None:
    data = draws.copy()
    data.extend(POST.predict(KEY, "y", model=level(3), draws=draws, arviz=True))
    assert {"posterior", "predictions"} <= set(data.groups())


def test_predictions_at_the_old_inputs_are_the_posterior_predictive() -> None:
    data = POST.predict(KEY, draws=10, arviz=True)
    assert data["posterior_predictive"]["y"].shape == (1, 10, 8)


def test_draws_in_every_container(draws) -> None:
    expected = POST.predict(KEY, "y", model=level(3), draws=draws)
    tree = xarray.DataTree.from_dict({"posterior": draws.posterior})  # as of ArviZ 1
    stacked = draws.posterior.stack(sample=("chain", "draw"))
    plain = {"m": np.asarray(draws.posterior["m"])}
    for other in (tree, draws.posterior, plain, stacked, draws.posterior.transpose("draw", "chain")):
        assert np.array_equal(POST.predict(KEY, "y", model=level(3), draws=other), expected)


def test_psis_loo_agrees_with_exact_leave_one_out(draws) -> None:
    """Σ_i log p(y_i | the others)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loo = arviz().loo(draws, pointwise=True)
    rest = [level(7).condition(y=np.delete(Y, i)) for i in range(8)]
    exact = [float(other.log_predictive(level(1).condition(y=Y[i : i + 1]))) for i, other in enumerate(rest)]
    by_evidence = [float(POST.log_evidence()) - float(other.log_evidence()) for other in rest]
    assert np.allclose(exact, by_evidence, atol=1e-9)
    assert np.allclose(np.asarray(loo.elpd_i if hasattr(loo, "elpd_i") else loo.loo_i), exact, atol=0.03)
    found = loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo  # its name before ArviZ 1
    assert abs(float(found) - sum(exact)) < 0.1
