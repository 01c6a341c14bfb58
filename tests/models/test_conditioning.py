"""Conditioning: the joint at the data, its inverse, weights, exact posteriors, and draws that stay as they were."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import Intractable

from .flavours import EXPONENTIAL, FLAVOURS, LOG_PROB, PARTS, in_dict, in_list, in_namedtuple, simple

KEY = jax.random.key(0)


@pytest.mark.parametrize("make", FLAVOURS, ids=lambda make: make.__name__)
def test_the_joint_at_the_data(make: Callable[..., fb.Joint]) -> None:
    """A22: shapes are pruned; log_prob is the joint's, the terms of the observed sites apart."""
    post = make().condition(x=0.5)
    assert post.names == ("s", "m") and len(post.event_shape) == len(post.dtype) == 2
    value = {"s": 1.0, "m": 0.0}
    assert float(post.log_prob(value)) == pytest.approx(LOG_PROB, abs=1e-6)
    assert float(post.log_weight(value)) == pytest.approx(PARTS[2], abs=1e-6)
    parts = post.log_prob_parts(value)
    np.testing.assert_allclose(jax.tree_util.tree_leaves(parts.observed), PARTS[2:], atol=1e-6)
    np.testing.assert_allclose(sorted(jax.tree_util.tree_leaves(parts.free)), sorted(PARTS[:2]), atol=1e-6)
    assert dict(post.graph()) == {"s": (), "m": (), "x": ("m", "s")}
    assert f"{post}".endswith("given 'x'") and "x ~ Normal(m, s), observed" in repr(post.graph())


def test_observations_chain_and_are_taken_back() -> None:
    """A22: `uncondition` is the inverse of `condition`."""
    post = in_list().condition(x=0.5).condition(m=0.0)
    assert post.names == ("s",) and float(post.log_prob(1.0)) == pytest.approx(LOG_PROB, abs=1e-6)
    assert post.uncondition("x").names == ("s", "x")
    assert post.uncondition("m").names == ("s", "m")
    for whole in (post.uncondition(), post.uncondition("x", "m"), post.uncondition("x").uncondition("m")):
        assert type(whole) is fb.JointSequential
        assert float(whole.log_prob([1.0, 0.0, 0.5])) == pytest.approx(LOG_PROB, abs=1e-6)


def test_all_sites_observed() -> None:
    post = in_dict().condition(s=1.0, m=0.0, x=0.5)
    assert post.names == () and float(post.log_prob()) == pytest.approx(LOG_PROB, abs=1e-6)


def test_an_array_is_copied() -> None:
    """What is observed does not change with the array it was given as."""
    data = np.zeros(3)
    post = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0).expand([3]))).condition(x=data)
    before = float(post.log_prob(m=0.0))
    data[:] = 9.0
    assert float(post.log_prob(m=0.0)) == before


# -- draws -------------------------------------------------------------------------------------------------------------


def test_pinned_sites_change_no_other_draw() -> None:
    """A11: each site has a key of its own, used or not; sites that depend on a pinned one follow it."""
    joint = simple(EXPONENTIAL)
    free, pinned = joint.sample(KEY), joint.sample(KEY, s=2.0)
    assert pinned.s == 2.0 and pinned.m == free.m
    noise = (free.x - free.m) / free.s
    assert (pinned.x - pinned.m) / 2.0 == pytest.approx(noise, abs=1e-12)
    assert joint.sample(KEY, value=[1.0, None, None]).m == free.m
    assert joint.sample(KEY, m=0.0).s == free.s
    many, held = joint.sample(KEY, (5,)), joint.sample(KEY, (5,), s=2.0)
    np.testing.assert_array_equal(many.m, held.m)
    np.testing.assert_array_equal(many.m, joint.sample(KEY, s=np.full(5, 2.0)).m)


def test_draws_with_weights() -> None:
    """A22: ancestral draws with the observed sites held, and log p(observed | draw); the same draws as `sample`."""
    joint = in_namedtuple(EXPONENTIAL)
    values, weight = joint.condition(x=0.5).sample_and_log_weight(KEY, (7,))
    free = joint.sample(KEY, (7,))
    np.testing.assert_array_equal(values.s, free.s)
    np.testing.assert_array_equal(values.m, free.m)
    np.testing.assert_allclose(weight, stats.norm(values.m, values.s).logpdf(0.5), rtol=1e-10)
    assert len({float(m) for m in values.m}) == 7


def test_weights_estimate_the_evidence() -> None:
    post = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0))).condition(x=0.5)
    weight = post.sample_and_log_weight(KEY, (4000,)).log_weight
    assert np.log(np.mean(np.exp(weight))) == pytest.approx(float(post.log_evidence()), abs=0.05)


@pytest.mark.parametrize("question", ["sample", "sample_and_log_prob", "sample_distributions"])
def test_there_is_no_sample_of_a_conditioned_joint(question: str) -> None:
    """A22, deliberately: the draws would not be the posterior's."""
    with pytest.raises(fb.FubiniError, match=r"draws of 's', 'm' given 'x'(.|\n)*sample_and_log_weight"):
        getattr(in_list().condition(x=0.5), question)(KEY)


# -- exact answers -----------------------------------------------------------------------------------------------------


def test_posterior_of_a_regression() -> None:
    """Against the normal equations; discrete and vector sites are variables too."""
    X, y = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]]), np.array([0.4, -1.0, 2.0])

    @fb.model
    def regression():
        w = yield dist.MultivariateNormal(np.zeros(2), np.eye(2))
        for row in X:
            yield dist.Normal(row[0] * w[0] + row[1] * w[1], 0.5)

    post = regression().condition(var0=y[0], var1=y[1], var2=y[2])
    want = np.linalg.solve(np.eye(2) + X.T @ X / 0.25, X.T @ y / 0.25)
    np.testing.assert_allclose(post.posterior().mean("w").data, want, atol=1e-10)
    evidence = stats.multivariate_normal(np.zeros(3), X @ X.T + 0.25 * np.eye(3)).logpdf(y)
    assert float(post.log_evidence()) == pytest.approx(evidence, abs=1e-10)


def test_posterior_of_a_label() -> None:
    """A table at a site's value is a Value, be that value a number or a variable."""
    loc = fb.Array(np.array([-1.0, 1.0]), ("k",))
    joint = fb.JointNamed(
        dict(k=dist.Categorical(probs=np.array([0.3, 0.7])), x=lambda k: dist.Normal(loc(k=k), 1.0)),
    )
    weights = np.array([0.3, 0.7]) * stats.norm([-1, 1], 1).pdf(0.4)
    post = joint.condition(x=0.4)
    np.testing.assert_allclose(post.posterior().log().data, np.log(weights / weights.sum()), atol=1e-10)
    assert float(post.log_prob(k=1)) == pytest.approx(np.log(weights[1]), abs=1e-10)


def test_evidence_counts_weights() -> None:
    """A closed factor among the sites multiplies the evidence."""

    @fb.model
    def weighed():
        m = yield dist.Normal(0.0, 1.0)
        yield fb.weight(log=-1.5)
        x = yield dist.Normal(m, 1.0)
        return x

    want = stats.norm(0, np.sqrt(2)).logpdf(0.5) - 1.5
    assert float(weighed().condition(x=0.5).log_evidence()) == pytest.approx(want, abs=1e-10)


def test_no_closed_form_is_an_error_that_names_the_site() -> None:
    """NORTHSTAR 7: a scale with this prior has none."""
    with pytest.raises(Intractable, match="'s'"):
        simple().condition(x=0.5).log_evidence()
