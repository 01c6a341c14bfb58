"""Missing entries inside an event, masks, and slices of the roots."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import NoRule

KEY = jax.random.key(0)
HOLES = np.ma.masked_invalid([0.5, np.nan, 2.0])

INDEPENDENT: dict[str, tuple[Any, Any, float]] = {
    "a vector of normals": (dist.Normal(np.zeros(3), 1.0), HOLES, stats.norm.logpdf([0.5, 2.0]).sum()),
    "an expansion": (dist.Normal(0.0, 1.0).expand([3]), HOLES, stats.norm.logpdf([0.5, 2.0]).sum()),
    "one event of them": (dist.Normal(np.zeros(3), 1.0).to_event(1), HOLES, stats.norm.logpdf([0.5, 2.0]).sum()),
    "positive entries": (dist.Exponential(np.full(3, 2.0)), HOLES, 2 * np.log(2.0) - 5.0),
    "counts": (
        dist.Poisson(np.full(3, 2.0)),
        np.ma.array([1, 99, 3], mask=[False, True, False]),
        stats.poisson(2).logpmf([1, 3]).sum(),
    ),
    "all of them": (dist.Normal(np.zeros(3), 1.0), np.ma.masked_all(3), 0.0),
    "none of them": (dist.Normal(np.zeros(2), 1.0), np.ma.array([0.5, 2.0]), stats.norm.logpdf([0.5, 2.0]).sum()),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_entries_are_left_out(name: str) -> None:
    """TFP's 311, where an event is there as a whole or not at all."""
    distribution, value, want = INDEPENDENT[name]
    assert float(fb.JointNamed(dict(y=distribution)).condition(y=value).log_prob()) == pytest.approx(want, abs=1e-10)


def test_a_multivariate_normal_is_marginalised() -> None:
    """N(x_o; μ_o, Σ_oo)."""
    mean, half = np.array([0.1, 0.2, 0.3]), np.array([[1.0, 0, 0], [0.5, 0.8, 0], [0.3, -0.2, 0.6]])
    covariance, value = half @ half.T, np.array([0.5, 7.0, 2.0])
    joint = fb.JointNamed(dict(y=dist.MultivariateNormal(mean, covariance)))
    for there in ([0, 2], [1], [0, 1, 2]):
        seen = np.ma.array(value, mask=[place not in there for place in range(3)])
        distribution = stats.multivariate_normal(mean[there], covariance[np.ix_(there, there)])
        assert float(joint.condition(y=seen).log_prob()) == pytest.approx(distribution.logpdf(value[there]), abs=1e-10)


def test_rows_of_a_matrix() -> None:
    """Different entries missing in each row."""
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]])
    joint = fb.JointNamed(dict(y=dist.MultivariateNormal(np.zeros(2), covariance).expand([3])))
    value = np.ma.masked_invalid([[0.5, np.nan], [np.nan, 1.0], [0.3, -0.2]])
    want = stats.norm(0, 1).logpdf(0.5) + stats.norm(0, np.sqrt(2)).logpdf(1.0)
    want += stats.multivariate_normal(np.zeros(2), covariance).logpdf([0.3, -0.2])
    assert float(joint.condition(y=value).log_prob()) == pytest.approx(want, abs=1e-10)


def test_parameters_may_depend_on_other_sites() -> None:
    """In a batch of them, with weights, bijector and gradient; nothing comes from what is missing."""
    joint = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), y=lambda m: dist.Normal(m, 1.0).expand([3])))
    post = joint.condition(y=HOLES)
    m = np.array([0.0, 0.7])
    weight = stats.norm(m, 1).logpdf(0.5) + stats.norm(m, 1).logpdf(2.0)
    np.testing.assert_allclose(post.log_prob(m=m), stats.norm.logpdf(m) + weight, rtol=1e-10)
    np.testing.assert_allclose(post.log_weight(m=m), weight, rtol=1e-10)
    assert float(jax.grad(lambda m: post.log_prob(m=m))(0.0)) == pytest.approx(2.5, abs=1e-5)
    assert post.names == ("m",) and post.uncondition("y").names == ("m", "y")


def test_events_without_a_marginal_are_an_error() -> None:
    joint = fb.JointNamed(dict(p=dist.Dirichlet(np.ones(3))))
    with pytest.raises(NoRule, match=r"missing entries inside the event of Dirichlet(.|\n)*\.mask"):
        joint.condition(p=np.ma.masked_invalid([0.2, np.nan, 0.3])).log_prob()


# -- masks -------------------------------------------------------------------------------------------------------------


def test_masks() -> None:
    """Entries whose mask is false have the density 1; they are drawn all the same."""
    joint = fb.JointNamed(dict(y=dist.Normal(0.0, 1.0).expand([3]).mask(np.array([True, False, True]))))
    found = joint.log_prob(y=np.array([0.5, 99.0, 2.0]))
    assert float(found) == pytest.approx(stats.norm.logpdf([0.5, 2.0]).sum(), abs=1e-10)
    assert np.isfinite(joint.sample(KEY)["y"]).all()


def test_a_mask_may_be_random() -> None:
    joint = fb.JointNamed(
        dict(b=dist.Bernoulli(0.25), y=lambda b: dist.Normal(0.0, 1.0).mask(b == 1)),
    )
    assert float(joint.log_prob(b=0, y=3.0)) == pytest.approx(np.log(0.75), abs=1e-10)
    assert float(joint.log_prob(b=1, y=3.0)) == pytest.approx(np.log(0.25) + stats.norm.logpdf(3.0), abs=1e-10)


# -- slices ------------------------------------------------------------------------------------------------------------


def test_roots_are_sliced_and_the_others_follow() -> None:
    """A24."""
    joint = fb.JointSequential([dist.Normal(np.arange(3.0), 1.0), lambda m: dist.Normal(m, 2.0)])
    assert joint[1:].event_shape == [(2,), (2,)] and joint[0].event_shape == [(), ()]
    assert joint[np.array([True, False, True])].event_shape == [(2,), (2,)]
    want = stats.norm([0, 2], 1).logpdf(0.5).sum() + 2 * stats.norm(0.5, 2).logpdf(1.0)
    assert float(joint[::2].log_prob([np.full(2, 0.5), np.ones(2)])) == pytest.approx(want, abs=1e-10)
    assert [draw.shape for draw in joint[1:].sample(KEY, (4,))] == [(4, 2), (4, 2)]
    assert float(joint[0].condition([None, 1.0]).log_prob([0.5])) == pytest.approx(
        stats.norm(0, 1).logpdf(0.5) + stats.norm(0.5, 2).logpdf(1.0), abs=1e-10
    )


def test_slices_of_expansions_and_of_vectors() -> None:
    """Only the axes of independent values are sliced, never those of an event."""
    joint = fb.JointNamed(
        dict(a=dist.Normal(0.0, 1.0).expand([4]), b=dist.MultivariateNormal(np.zeros((4, 2)), np.eye(2)))
    )
    assert joint[1:3].event_shape == {"a": (2,), "b": (2, 2)} and joint[0].event_shape == {"a": (), "b": (2,)}
