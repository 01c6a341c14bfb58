"""Arithmetic of narrow types inside models: what JAX computes, wrapped around, cut and rounded as it does."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import fubini as fb
from fubini import dist
from fubini.errors import Intractable

pytestmark = pytest.mark.right_or_refused

P, SCALE = np.array([0.2, 0.3, 0.5]), 50.0

READ = {
    "uint8 below zero": lambda z: z.astype(jnp.uint8) - 1,
    "uint8 negated": lambda z: -z.astype(jnp.uint8),
    "int8 product": lambda z: z.astype(jnp.int8) * jnp.int8(100),
    "int8 power": lambda z: z.astype(jnp.int8) ** 8,
    "uint32 below zero": lambda z: (z.astype(jnp.uint32) - jnp.uint32(1)) / 1e8,
    "widened before": lambda z: z.astype(jnp.uint8).astype(int) - 1,
    "float16 rounds": lambda z: z.astype(jnp.float16) / 3 * 1000,
    "bfloat16 rounds": lambda z: z.astype(jnp.bfloat16) * 257,
    "float16 logarithm rounds": lambda z: jnp.log1p(z.astype(jnp.float16)) * 1000,
    "float16 tanh rounds": lambda z: jnp.tanh(z.astype(jnp.float16)) * 1000,
    "float16 root rounds": lambda z: jax.lax.rsqrt(z.astype(jnp.float16) + 1) * 1000,
    "cut to whole numbers": lambda z: (z * 1.7 - 2.0).astype(int) * 9,
    "cut to uint8": lambda z: (z * 200.0).astype(jnp.uint8),
    "quotient of negatives": lambda z: (z - 2) // 2 * 9,
    "remainder of negatives": lambda z: (z - 2) % 3 * 9,
    "sum of tests": lambda z: ((z > 0) + (z > 1)) * 9,
    "shifts": lambda z: (z << 2) + ((z - 2) >> 1),
    "bits": lambda z: (z ^ 1) + ~z * 3,
    "int8 sum": lambda z: jnp.sum(jnp.stack([z.astype(jnp.int8) * 60] * 3), dtype=jnp.int8),
    "int8 matrix product": lambda z: jnp.stack([z, z]).astype(jnp.int8) @ jnp.array([100, 100], jnp.int8),
}


def asked(function):
    @fb.model
    def model():
        z = yield dist.Categorical(P)
        y = yield dist.Normal(jnp.asarray(function(z), float), SCALE)

    return model().condition(y=20.0)


def by_hand(function):
    with jax.enable_x64(True):
        loc = np.array([float(function(jnp.asarray(k))) for k in range(3)])
    return logsumexp(np.log(P) - 0.5 * ((20.0 - loc) / SCALE) ** 2) - np.log(SCALE) - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize("name", READ)
def test_a_narrow_type_computes_as_jax_does(name):
    np.testing.assert_allclose(float(asked(READ[name]).log_evidence()), by_hand(READ[name]), rtol=1e-7)


@fb.model
def wrapped(n):
    z = yield dist.Categorical(P).expand([n])
    y = yield dist.Normal(jnp.asarray(jnp.sum(z.astype(jnp.int8) * 60, dtype=jnp.int8), float), SCALE)


def test_a_sum_that_wraps_around_is_enumerated():
    labels = np.array(list(itertools.product(range(3), repeat=3)))
    loc = (labels * 60).astype(np.int8).sum(axis=1, dtype=np.int8).astype(float)
    expected = logsumexp(np.log(P)[labels].sum(1) - 0.5 * ((20.0 - loc) / SCALE) ** 2)
    expected -= np.log(SCALE) + 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(float(wrapped(3).condition(y=20.0).log_evidence()), expected, rtol=1e-7)


def test_a_sum_that_may_wrap_around_over_many_labels_is_refused():
    with pytest.raises(Intractable, match="reduce_sum"):
        wrapped(30).condition(y=20.0).log_evidence()
