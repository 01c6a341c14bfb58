"""Models without closed forms over a mesh: draws are those of one device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from .plate_models import cases
from .test_plates import assert_close, placed

KEY = jax.random.key(0)
SMALL = cases(799)


@pytest.fixture(scope="module")
def in_float64() -> Any:
    """JAX in double precision."""
    with jax.enable_x64(True):
        yield


def test_chains_of_nuts_are_those_of_one_device(in_float64: None) -> None:
    case = SMALL["logistic"]
    options = dict(draws=5, warmup=5, chains=2, method="nuts", progress=False, log_likelihood=False, predictive=False)
    runs = [case.post(place).infer(KEY, **options) for place in (placed(AxisType.Explicit), jnp.asarray)]
    assert_close(*({n: run.posterior[n].values for n in run.posterior} for run in runs), rtol=1e-9)
    np.testing.assert_array_equal(*(run.sample_stats["n_steps"] for run in runs))
