"""Rows of streams by chance: estimates of sums that no few numbers say, and the posteriors that are fitted to them."""

from __future__ import annotations

from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.row_draws import draw_rows
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.sampled_rows import SampledRows

ROWS = 1_024
KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 2)) + np.array([1.0, 0.0])
Y = (RNG.random(ROWS) < 1 / (1 + np.exp(-X @ [0.7, -1.0]))).astype(int)
Z = np.where(RNG.random(ROWS) < 0.3, -2.0, 2.0) + RNG.normal(size=ROWS)


@fb.model
def logistic(X):
    w = yield dist.Normal(0.0, 1.0).expand([2])
    y = yield dist.Bernoulli(logits=X @ w)


@fb.model
def mixture(n):
    m = yield dist.Normal(jnp.array([-1.0, 1.0]), 3.0)
    z = yield dist.Categorical(jnp.array([0.3, 0.7])).expand([n])
    x = yield dist.Normal(m[z], 1.0)


@fb.model
def effects(n):
    m = yield dist.Normal(0.0, 3.0)
    e = yield dist.Normal(m, 1.0).expand([n])
    y = yield dist.Normal(e, 0.5)


def stream(data: np.ndarray) -> fb.Stream:
    return fb.Stream(lambda: (data[k : k + 77] for k in range(0, len(data), 77)), rows=len(data), chunk=100)


def test_all_rows_come_before_one_comes_again() -> None:
    data = np.arange(1_003)
    for source in (fb.Stream(data, chunk=90), stream(data)):
        places, parts = zip(*islice(draw_rows([source], 100, 0), 1_003), strict=True)
        for place, (part,) in zip(places, parts, strict=True):
            np.testing.assert_array_equal(place, part)
        assert len(set(np.concatenate(places[:10]))) == 1_000
        times = np.bincount(np.concatenate(places), minlength=1_003)
        assert times.min() >= 97 and times.max() <= 103


@pytest.mark.parametrize("make", [lambda d: fb.Stream(d, chunk=100), stream])
def test_estimates_are_right_on_average(make) -> None:
    """A pool is all rows here, so that the mean over its batches is the sum over all rows."""
    models = [
        (lambda X, y: logistic(X).condition(y=y), (X, Y), dict(w=np.array([0.3, -0.4]))),
        (lambda X, y: logistic(X).condition(y=y), (make(X), Y), dict(w=np.array([0.3, -0.4]))),
        (lambda x: mixture(ROWS).condition(x=x), (Z,), dict(m=np.array([-1.5, 1.0]))),
    ]
    for model, data, at in models:
        in_memory = eliminated(FlatModel(model(*(X if isinstance(d, fb.Stream) else d for d in data))))
        streamed = eliminated(FlatModel(model(*(d if isinstance(d, fb.Stream) else make(d) for d in data))).in_part)
        by_some = SampledRows(streamed, steps=100)
        assert by_some.batch == 256
        known, prepared, _ = by_some.numbers
        batches = [[array[0] for array in each] for each in islice(by_some.rows_of_steps(0, 1), 4)]
        estimates = [float(by_some.log_density(at, (known, prepared, rows))) for rows in batches]
        assert np.std(estimates) > 0.1
        np.testing.assert_allclose(np.mean(estimates), in_memory.log_prob(**at), rtol=1e-5)


def test_a_posterior_is_fitted_to_some_rows_at_a_time() -> None:
    order = np.argsort(Y, kind="stable")  # so that chunks differ
    post = logistic(fb.Stream(X[order])).condition(y=fb.Stream(Y[order]))
    draws = post.infer(KEY, method="svi", draws=2_000, chains=1, progress=False).posterior
    assert draws.attrs["exactness"] == "estimated(256)" and draws.attrs["method"] == "svi"
    w = np.zeros(2)
    for _ in range(20):  # Newton's steps to the mode
        p = 1 / (1 + np.exp(-X @ w))
        curvature = (X * (p * (1 - p))[:, None]).T @ X + np.eye(2)
        w = w + np.linalg.solve(curvature, X.T @ (Y - p) - w)
    spread = 1 / np.sqrt(np.diag(curvature))  # of the nearest independent normals
    np.testing.assert_allclose(draws["w"].mean(("chain", "draw")), w, atol=0.2 * spread.min())
    np.testing.assert_allclose(draws["w"].std(("chain", "draw")), spread, rtol=0.1)


def test_what_is_integrated_out_of_each_row_leaves_sums() -> None:
    streamed, in_memory = (effects(ROWS).condition(y=y) for y in (stream(Z), Z))
    np.testing.assert_allclose(streamed.log_evidence().data, in_memory.log_evidence().data, rtol=1e-12)
    for ask in ("mean", "variance"):
        answers = [getattr(post.marginal("m"), ask)("m").data for post in (streamed, in_memory)]
        np.testing.assert_allclose(*answers, rtol=1e-10)
    draws = streamed.infer(KEY, draws=2_000, chains=1, progress=False).posterior
    assert set(draws.data_vars) == {"m"} and draws.attrs["method"] == "exact"
    assert list(draws.attrs["not_drawn"]) == ["e"]
    np.testing.assert_allclose(draws["m"].mean(), in_memory.marginal("m").mean("m").data, atol=0.01)
    for ask in (lambda: streamed.marginal("e").mean("e").data, lambda: streamed.eliminate("m", "e").recover(KEY, {})):
        with pytest.raises(fb.FubiniError, match=r"reads all rows of Stream|needs all rows of a stream"):
            ask()


def test_what_is_no_sum_over_rows_is_refused() -> None:
    @fb.model
    def shares(X):
        b = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(jax.nn.softmax(b * X[:, 0]), 1.0)

    post = shares(stream(X)).condition(y=stream(Z))
    with pytest.raises(fb.FubiniError, match=r"an estimate from some rows of a stream\s*expected: a density that is a"):
        post.infer(KEY, method="svi", progress=False)
    with pytest.raises(fb.FubiniError, match=r"the term of 'y'[\s\S]*method=\"svi\"\) estimates it from some of the"):
        post.infer(KEY, progress=False)
