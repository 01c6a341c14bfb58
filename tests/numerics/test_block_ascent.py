"""The maximum of a function of several arrays, where counts and curvature are as small as a float holds."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

from fubini.numerics.block_ascent import Block, maximise


def test_a_share_too_small_for_a_float_is_no_zero_whose_logarithm_is_counted():
    counts = jnp.asarray([700.0, 300.0, 5e-37], jnp.float32)
    others = jnp.asarray([3.0, 1.0], jnp.float32)  # moved after the shares, and compared with them as they then are

    def function(values):
        p, means = values
        return counts @ jnp.log(p) - jnp.sum((means - others) ** 2)

    blocks = [Block(constraints.simplex), Block(constraints.real)]
    p, means = maximise(function, blocks, [jnp.asarray([0.4, 0.6, 1e-37], jnp.float32), jnp.asarray([9.0, -9.0])])
    assert float(p[2]) > 0
    assert np.isfinite(function([p, means]))
    np.testing.assert_allclose(p, [0.7, 0.3, 0.0], atol=1e-6)
    np.testing.assert_allclose(means, others, rtol=1e-6)


def test_a_share_that_nothing_counts_is_zero():
    def function(values):
        return 3 * jnp.log(values[0][0]) + jnp.log(values[0][1])

    (p,) = maximise(function, [Block(constraints.simplex)], [jnp.full(3, 1 / 3)])
    np.testing.assert_allclose(p, [0.75, 0.25, 0.0], atol=1e-12)


@pytest.mark.parametrize("start", [-88.5, -100.0, -300.0])
def test_a_logit_whose_curvature_underflows_comes_back(start):
    """Σ c log σ(x) + (n − c) log σ(−x), from where σ(x) is no float any more, for many at once."""
    events, trials = jnp.asarray([0.5, 100.0, 1e-3], jnp.float32), jnp.asarray([400.0, 400.0, 400.0], jnp.float32)

    def function(values):
        (x,) = values
        return jnp.sum(-events * jnp.logaddexp(0, -x) - (trials - events) * jnp.logaddexp(0, x))

    (x,) = maximise(function, [Block(constraints.real, is_separable=True)], [jnp.full(3, start, jnp.float32)])
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x, np.log(events / (trials - events)), rtol=1e-3)
