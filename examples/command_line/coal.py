"""Coal mining disasters: the year in which the rate changed."""

import jax.numpy as jnp

import fubini as fb
from fubini import dist


@fb.model
def coal(n):
    early = yield dist.Gamma(2.0, 1.0)
    late = yield dist.Gamma(2.0, 1.0)
    change = yield dist.DiscreteUniform(0, n - 1)
    count = yield dist.Poisson(jnp.where(jnp.arange(n) < change, early, late))
