"""What every test and docstring example shares: JAX on the CPU, compiling in little time, and the names of modules."""

import gc
import os
from importlib.metadata import version

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # read when jax is first imported, which is here
# Most of the time of the tests is XLA's, compiling: a third of it without its polish, its fusion emitters and threads.
# Eight devices are for tests/scale.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_cpu_parallel_codegen_split_count=1"
    + " --xla_cpu_use_fusion_emitters=false" * version("jaxlib").startswith("0.10."),  # XLA stops at a flag it lacks
)

# Where an operation was written is not needed in its code, and takes time to find.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb

gc.set_threshold(100_000, 50, 100)  # compiled functions leave many objects, which would be looked through often


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict) -> None:
    doctest_namespace.update(np=np, jnp=jnp, jax=jax, fb=fb)
