"""The no-U-turn sampler: chains in threads and chains side by side are the same chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini.infer.transitions
from fubini.infer.driver import Schedule, run
from fubini.infer.nuts import NutsOptions
from fubini.infer.nuts import nuts as nuts_sampler
from fubini.infer.sampler import Draw
from fubini.infer.target import Target
from tests.counting import no_tracing

KEY = jax.random.key(0)


def nuts(key, target: Target, chains: int = 3, draws: int = 10) -> Draw:
    """A short run."""
    return run(nuts_sampler(target, NutsOptions(warmup=10)), key, Schedule(draws, chains=chains))


def log_density(free, numbers):
    x, s = free["x"], free["s"]
    return -0.5 * jnp.sum((x - numbers) ** 2) * jnp.exp(-2 * s) - 3 * s - 0.5 * s**2


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def target() -> Target:
    return Target({"x": (3,), "s": ()}, log_density, jnp.array([0.3, -0.2, 1.0]))


def test_chains_side_by_side_are_those_of_threads(monkeypatch) -> None:
    """As they are on an accelerator."""
    in_threads = nuts(KEY, target())
    monkeypatch.setattr(fubini.infer.transitions, "is_on_cpu", lambda array: False)
    side_by_side = nuts(KEY, target())
    assert in_threads.values["x"].shape == (3, 10, 3) and in_threads.values["s"].shape == (3, 10)
    for name in in_threads.values:
        np.testing.assert_allclose(side_by_side.values[name], in_threads.values[name], rtol=1e-6)
    for name in in_threads.info:
        np.testing.assert_allclose(side_by_side.info[name], in_threads.info[name], rtol=1e-6)


def test_chains_differ() -> None:
    draws = nuts(KEY, target()).values["x"]
    assert len({chain.tobytes() for chain in draws}) == 3


def test_other_numbers_and_keys_compile_nothing_new() -> None:
    """Nor do more chains, each of which is compiled for itself, and more draws."""
    nuts(KEY, target())
    other, key = Target(target().shapes, log_density, jnp.array([1.0, 2.0, 3.0])), jax.random.key(1)
    nuts(key, other, chains=5)
    with no_tracing():
        nuts(KEY, other, chains=5)
        nuts(KEY, other, chains=5, draws=300)


def test_precision_of_numbers_is_kept_in_threads() -> None:
    """Whatever it is there by default."""
    with jax.enable_x64(False):
        single = nuts(KEY, Target(target().shapes, log_density, jnp.ones(3)))
    assert single.values["x"].dtype == np.float32 and nuts(KEY, target()).values["x"].dtype == np.float64


def test_precision_of_a_density_without_numbers_is_the_one_in_force() -> None:
    """In one and the same process."""
    free = Target({"x": (2,)}, lambda free, numbers: -0.5 * jnp.sum(free["x"] ** 2), ())
    for wide, expected in ((True, np.float64), (False, np.float32), (True, np.float64)):
        with jax.enable_x64(wide):
            assert nuts(KEY, free).values["x"].dtype == expected
