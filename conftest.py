"""What every docstring example may use without importing it."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # read when jax is first imported

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict) -> None:
    doctest_namespace.update(np=np, jnp=jnp, jax=jax, fb=fb)
