"""Models of many rows, which sums over these answer."""

from collections.abc import Generator
from typing import Any

import jax.numpy as jnp

import fubini as fb
from fubini import dist

GROUPS = 10_000


@fb.model
def normal(rows: int) -> Generator[Any, Any, None]:
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([rows])


@fb.model
def regression(X: Any) -> Generator[Any, Any, None]:
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([X.shape[1]])
    y = yield dist.Normal(X @ w, jnp.sqrt(v))


@fb.model
def grouped(g: Any) -> Generator[Any, Any, None]:
    m = yield dist.Normal(0.0, 5.0)
    mu = yield dist.Normal(m, 1.0).expand([GROUPS])
    y = yield dist.Normal(mu[g], 1.0)
