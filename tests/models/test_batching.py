"""Written for one sample: batches of values and of draws, against a loop over samples."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

from .flavours import EXPONENTIAL, simple

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def paper() -> fb.Joint:
    """Section 4.2 of the paper: z of 3, x a number, y of 2; `z[:2]` is right for one sample only."""
    return fb.JointSequential(
        [
            dist.Normal(0.0, np.array([1.0, 2.0, 3.0])),
            dist.Normal(0.0, 1.0),
            lambda x, z: dist.Normal(z[:2] + x, 1.0),
        ]
    )


def test_the_model_of_the_paper() -> None:
    """A18."""
    joint = paper()
    assert joint.event_shape == [(3,), (), (2,)]
    assert float(joint.log_prob([np.zeros(3), 0.0, np.zeros(2)])) == pytest.approx(-7.305391, abs=1e-6)
    draws = joint.sample(KEY, 5)
    assert [draw.shape for draw in draws] == [(5, 3), (5,), (5, 2)] and joint.log_prob(draws).shape == (5,)


SHAPES = [((), (4,), ()), ((4,), (), (4,)), ((2, 1), (4,), ()), ((4,), (2, 4), (1,)), ((3, 1, 1), (2, 1), (4,))]


@pytest.mark.parametrize("shapes", SHAPES, ids=repr)
def test_log_prob_of_any_leading_axes(shapes: tuple) -> None:
    """Mixed ranks broadcast, and each sample is one term of a loop."""
    joint = paper()
    events = [(3,), (), (2,)]
    values = [RNG.normal(size=shape + event) for shape, event in zip(shapes, events, strict=True)]
    batch = np.broadcast_shapes(*shapes)
    found = joint.log_prob(values)
    assert found.shape == batch
    wide = [np.broadcast_to(value, batch + event) for value, event in zip(values, events, strict=True)]
    for place in itertools.product(*map(range, batch)):
        z, x, y = (value[place] for value in wide)
        want = stats.norm(0, [1, 2, 3]).logpdf(z).sum() + stats.norm(0, 1).logpdf(x)
        want += stats.norm(z[:2] + x, 1).logpdf(y).sum()
        assert float(found[place]) == pytest.approx(want, abs=1e-10)


def test_parts_of_a_batch() -> None:
    parts = paper().log_prob_parts([np.zeros(3), np.zeros(4), np.zeros(2)])
    assert [part.shape for part in parts] == [(4,)] * 3


def test_conditioned_joints_batch_too() -> None:
    post = paper().condition([None, None, np.ones(2)])
    found = post.log_prob([np.zeros((2, 1, 3)), np.arange(4.0)])
    assert found.shape == (2, 4)
    want = [float(post.log_prob([np.zeros(3), x])) for x in np.arange(4.0)]
    np.testing.assert_allclose(found, [want, want], rtol=1e-12)


def test_nothing_is_counted_twice() -> None:
    """A16: TFP gives [N(0, 1), N(0₃, 1)] a density of shape (3,), its first term counted three times."""
    joint = fb.JointSequential([dist.Normal(0.0, 1.0), dist.Normal(np.zeros(3), 1.0)])
    found = joint.log_prob([0.3, np.array([0.1, 0.2, 0.3])])
    assert found.shape == () and joint.event_shape == [(), (3,)]
    want = stats.norm(0, 1).logpdf([0.3, 0.1, 0.2, 0.3]).sum()
    assert float(found) == pytest.approx(want, abs=1e-10)


def test_components_of_different_ranks() -> None:
    """A17: all axes of a component are its event; a batch of samples is asked for by values, or by vmap."""
    joint = fb.JointSequential([dist.Normal(0.0, np.ones(3)), lambda x: dist.Normal(x[:, None], np.ones((3, 2)))])
    assert joint.event_shape == [(3,), (3, 2)]
    assert joint.log_prob([np.zeros(3), np.zeros((3, 2))]).shape == ()

    def one(scale: Any) -> fb.Joint:
        return fb.JointSequential([dist.Normal(0.0, scale), lambda x: dist.Normal(x, jnp.ones(2))])

    found = jax.vmap(lambda scale, x, y: one(scale).log_prob([x, y]))(jnp.ones(3), jnp.zeros(3), jnp.zeros((3, 2)))
    assert found.shape == (3,) and one(1.0).event_shape == [(), (2,)]


# -- keys --------------------------------------------------------------------------------------------------------------


def test_every_sample_has_its_own_key() -> None:
    """TFP's 2011: one key across a batch."""
    draws = simple(EXPONENTIAL).sample(KEY, (2, 3))
    for draw in draws:
        assert draw.shape == (2, 3) and len(np.unique(draw)) == 6
    assert not np.array_equal(draws.m, simple(EXPONENTIAL).sample(jax.random.key(1), (2, 3)).m)


def test_every_sample_has_its_own_key_also_when_conditioning() -> None:
    """One value, or a batch of equal values, of a pinned site: the other sites differ from sample to sample."""
    joint = simple(EXPONENTIAL)
    for draws in (
        joint.sample(KEY, (6,), m=0.0),
        joint.sample(KEY, m=np.zeros(6)),
        joint.sample(KEY, (2,), m=np.zeros(3)),
    ):
        assert len(np.unique(draws.s)) == 6 and len(np.unique(draws.x)) == 6
    weighted = joint.condition(x=0.5).sample_and_log_weight(KEY, (6,))
    assert len(np.unique(weighted.values.m)) == 6 and len(np.unique(weighted.log_weight)) == 6


def test_sites_of_a_sample_are_independent() -> None:
    """No two sites of one distribution draw the same number, nested or not."""
    normal = dist.Normal(0.0, 1.0)
    joint = fb.JointSequential([normal, normal, fb.JointSequential([normal, normal]), fb.JointSequential([normal])])
    draws = jax.tree_util.tree_leaves(joint.sample(KEY))
    assert len({float(draw) for draw in draws}) == 5


def test_draws_have_the_distribution() -> None:
    draws = simple(EXPONENTIAL).sample(KEY, (4000,))
    assert stats.kstest(draws.s, stats.expon(scale=0.5).cdf).pvalue > 1e-3
    assert stats.kstest((draws.x - draws.m) / draws.s, stats.norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(draws.s, draws.m)[0, 1]) < 0.1
